"""Builds an engine from an exported program, in a process of its own, within limits of time and memory.

Whatever a compiler does there (raise, hang, crash, eat the memory), here it is one BuildResult.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .process_group import available_memory, end_group, group_memory, last_lines, signal_name, start_python

__all__ = ["BuildJob", "BuildResult", "build", "builder_names", "register_builder"]

ENGINE_FILE = "engine.json"
_RESULT_FILE = "build_result.json"
_JOB_FILE = "build_job.json"
_LOG_FILE = "build.log"

# Where each backend's builder is found: "module:function", imported in the worker only.
_BUILDERS: dict[str, str] = {
    "aoti": "graphtune.builders:build_aoti",
    "openvino": "graphtune.builders:build_openvino",
}


def register_builder(backend: str, function: str) -> None:
    """Adds a backend: `function` is "module:function", see builders.py for what it is called with."""
    module, colon, name = function.partition(":")
    if not (module and colon and name):
        raise ValueError(f"function: {function!r} is not of the form 'module:function'")
    _BUILDERS[backend] = function


def builder_names() -> list[str]:
    return sorted(_BUILDERS)


@dataclass(frozen=True)
class BuildJob:
    """What to build: `shapes`, `ranges` and `conditions` are those of the ExportedGraph behind `program`."""

    backend: str
    program: str
    output: str  # folder; what it holds of an earlier build is replaced
    shapes: list[list[int | str]]
    ranges: dict[str, tuple[int, int]]
    conditions: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    time_limit_s: float = 900.0
    memory_share: float = 0.8  # of the machine's memory


@dataclass(frozen=True)
class BuildResult:
    """How a build ended; `files` are relative to the output folder, engine.json among them."""

    backend: str
    status: str  # "built", "failed", "timeout", "memory", "crashed"
    reason: str  # one line for people; empty where it was built
    output: str
    files: list[str]
    seconds: float
    peak_memory_bytes: int
    log: str
    engine: dict[str, Any] | None = None  # what engine.json holds

    @property
    def built(self) -> bool:
        return self.status == "built"

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def build(job: BuildJob, on_wait: Callable[[float], None] | None = None) -> BuildResult:
    """Builds and waits; `on_wait` is called with the seconds so far. Ctrl-C ends the builder and all it started."""
    function = _BUILDERS.get(job.backend)
    if function is None:
        raise ValueError(f"backend: {job.backend!r} is not one of {', '.join(builder_names())}")
    folder = Path(job.output)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (ENGINE_FILE, _RESULT_FILE, _LOG_FILE):
        (folder / name).unlink(missing_ok=True)
    job_file = folder / _JOB_FILE
    job_file.write_text(json.dumps({**vars(job), "function": function}))

    started = time.monotonic()
    process = start_python(["-m", "graphtune.build_worker", str(job_file)], folder / _LOG_FILE)
    try:
        stopped, peak = _wait(process, job, started, on_wait)
    finally:
        end_group(process)
    seconds = time.monotonic() - started
    status, reason, engine = _judge(process.returncode, folder, stopped)
    (folder / _RESULT_FILE).unlink(missing_ok=True)
    job_file.unlink(missing_ok=True)
    return BuildResult(
        backend=job.backend,
        status=status,
        reason=reason,
        output=str(folder),
        files=_artefacts(folder) if status == "built" else [],
        seconds=seconds,
        peak_memory_bytes=peak,
        log=str(folder / _LOG_FILE),
        engine=engine,
    )


def _wait(
    process: subprocess.Popen[bytes], job: BuildJob, started: float, on_wait: Callable[[float], None] | None
) -> tuple[tuple[str, str] | None, int]:
    """Waits for the end of the process, or for a limit; gives the limit and the peak of memory."""
    most = int(available_memory() * job.memory_share)
    peak = 0
    while True:
        try:
            process.wait(timeout=0.1)
            return None, peak
        except subprocess.TimeoutExpired:
            pass
        peak = max(peak, group_memory(process))
        passed = time.monotonic() - started
        if peak > most:
            return ("memory", f"needed more than {most / 2**30:.1f} GiB of memory"), peak
        if passed > job.time_limit_s:
            return ("timeout", f"not done after {job.time_limit_s:g} s"), peak
        if on_wait is not None:
            on_wait(passed)


def _judge(return_code: int, folder: Path, stopped: tuple[str, str] | None) -> tuple[str, str, dict[str, Any] | None]:
    if stopped is not None:
        return (*stopped, None)
    try:
        result: Mapping[str, Any] = json.loads((folder / _RESULT_FILE).read_text())
    except (OSError, ValueError):
        result = {}
    if "error" in result:
        return "failed", result["error"], None
    if return_code == 0 and result.get("done"):
        return "built", "", json.loads((folder / ENGINE_FILE).read_text())
    said = last_lines(folder / _LOG_FILE, count=1, limit=200)
    reason = f"the builder ended with {signal_name(return_code)}"
    return "crashed", reason + (f": {said[0]}" if said else ""), None


def _artefacts(folder: Path) -> list[str]:
    own = {_RESULT_FILE, _JOB_FILE, _LOG_FILE}
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name not in own
    )
