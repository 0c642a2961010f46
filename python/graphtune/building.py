"""Builds an engine from an exported program, in a process of its own, within limits of time and memory.

Whatever a compiler does there (raise, hang, crash, eat the memory), here it is one BuildResult.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .process_group import available_memory, end_group, group_memory, last_lines, signal_name, start_python

__all__ = ["BuildJob", "BuildResult", "build", "build_all", "builder_names", "register_builder"]

ENGINE_FILE = "engine.json"
_RESULT_FILE = "build_result.json"
_JOB_FILE = "build_job.json"
_LOG_FILE = "build.log"

# Where each backend's builder is found: "module:function", imported in the worker only.
_BUILDERS: dict[str, str] = {
    "aoti": "graphtune.builders:build_aoti",
    "inductor": "graphtune.python_engines:build_engine",
    "onnxruntime": "graphtune.builder_onnxruntime:build_onnxruntime",
    "openvino": "graphtune.builders:build_openvino",
    "torchscript": "graphtune.builder_torchscript:build_torchscript",
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
    """What to build: `shapes`, `ranges` and `conditions` are those of the ExportedGraph behind `program`.

    `name` is the candidate's, which a backend with options of its own doesn't share with the backend.
    """

    backend: str
    program: str
    output: str  # folder; what it holds of an earlier build is replaced
    shapes: list[list[int | str]]
    ranges: dict[str, tuple[int, int]]
    conditions: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    threads: int = 0  # of the engine; 0: the runtime's choice
    opt: dict[str, int] = field(default_factory=dict)  # the usual values of symbols, where the user named them
    name: str = ""
    engine_class: str = ""  # "module:qualname" where the backend is written in Python
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
    results: list[BuildResult] = []
    build_all([job], lambda _, result: results.append(result), on_wait=on_wait)
    return results[0]


def build_all(
    jobs: Sequence[BuildJob],
    on_done: Callable[[BuildJob, BuildResult], None],
    *,
    at_once: int = 1,
    on_start: Callable[[BuildJob], None] | None = None,
    on_wait: Callable[[float], None] | None = None,
) -> None:
    """Builds jobs, up to `at_once` side by side; `on_done` gets each result as soon as it is there.

    Builds that run side by side share the memory: where they need more than the share of a job together, the one that
    started last is stopped and built again alone. Ctrl-C ends all that run and is raised on.
    """
    for job in jobs:
        if job.backend not in _BUILDERS:
            raise ValueError(f"backend: {job.backend!r} is not one of {', '.join(builder_names())}")
    waiting, alone = deque(jobs), deque[BuildJob]()
    running: list[_Build] = []
    try:
        while waiting or alone or running:
            while waiting and len(running) < at_once:
                running.append(_start(waiting.popleft(), on_start))
            if not running:
                running.append(_start(alone.popleft(), on_start))
            running[0].wait(0.1)
            total = sum(build.measure() for build in running)
            for build in [build for build in running if build.wait(0) or build.over_limit()]:
                running.remove(build)
                on_done(build.job, build.finish())
            if len(running) > 1 and total > running[-1].most_memory:
                running[-1].end()
                alone.append(running.pop().job)
            if running and on_wait is not None:
                on_wait(running[0].seconds)
    finally:
        for build in running:
            build.end()


def _start(job: BuildJob, on_start: Callable[[BuildJob], None] | None) -> _Build:
    if on_start is not None:
        on_start(job)
    return _Build(job)


class _Build:
    """A builder that runs."""

    def __init__(self, job: BuildJob) -> None:
        self.job = job
        self.most_memory = int(available_memory() * job.memory_share)
        self._peak = 0
        self._stopped: tuple[str, str] | None = None
        self._folder = Path(job.output)
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in (ENGINE_FILE, _RESULT_FILE, _LOG_FILE):
            (self._folder / name).unlink(missing_ok=True)
        job_file = self._folder / _JOB_FILE
        job_file.write_text(json.dumps({**vars(job), "function": _BUILDERS[job.backend]}))
        self._started = time.monotonic()
        self._process = start_python(["-m", "graphtune.build_worker", str(job_file)], self._folder / _LOG_FILE)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def wait(self, seconds: float) -> bool:
        """Whether it has ended by itself."""
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def measure(self) -> int:
        """Bytes of memory that it holds now; its peak is kept."""
        now = group_memory(self._process)
        self._peak = max(self._peak, now)
        return now

    def over_limit(self) -> bool:
        if self._peak > self.most_memory:
            self._stopped = ("memory", f"needed more than {self.most_memory / 2**30:.1f} GiB of memory")
        elif self.seconds > self.job.time_limit_s:
            self._stopped = ("timeout", f"not done after {self.job.time_limit_s:g} s")
        return self._stopped is not None

    def end(self) -> None:
        end_group(self._process)

    def finish(self) -> BuildResult:
        """Ends what still runs of it, and says what came of it."""
        self.end()
        seconds = self.seconds
        folder = self._folder
        status, reason, engine = _judge(self._process.returncode, folder, self._stopped)
        (folder / _RESULT_FILE).unlink(missing_ok=True)
        (folder / _JOB_FILE).unlink(missing_ok=True)
        return BuildResult(
            backend=self.job.backend,
            status=status,
            reason=reason,
            output=str(folder),
            files=_artefacts(folder) if status == "built" else [],
            seconds=seconds,
            peak_memory_bytes=self._peak,
            log=str(folder / _LOG_FILE),
            engine=engine,
        )


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
