"""The candidates of one exported graph: found in the cache, or built side by side."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import _core
from .builders import device_type
from .building import BuildJob, BuildResult, build_all
from .cache import BuildCache, Staging, fingerprint
from .engine_configs import EngineConfig
from .exported_graph import ExportedGraph
from .python_engines import class_of, source_digest
from .result import CandidateResult
from .tune_options import TuneOptions
from .versions import library_versions

__all__ = ["EngineFolder", "build_candidates"]


@dataclasses.dataclass(frozen=True)
class EngineFolder:
    """A built engine: its name in the plan, its backend, and where it lies."""

    name: str
    backend: str
    folder: Path
    info: dict[str, Any] = dataclasses.field(default_factory=dict)
    threads: int = 0


def build_candidates(
    exported: ExportedGraph, options: TuneOptions, opt: Mapping[str, int] | None = None
) -> tuple[list[CandidateResult], dict[str, EngineFolder]]:
    """A row for each of ``options.configs``, and the engines of those that could be built. ``opt``: usual values of
    symbols.

    What is built goes into the cache at once: an interrupted run has it the next time.
    """
    assert exported.program is not None
    cache = options.cache or BuildCache()
    program = fingerprint(exported.program)
    configs = {config.name: config for config in options.configs}
    candidates = {
        name: CandidateResult(
            name=name, status="failed", backend=config.backend, options=_all_options(config, options.threads)
        )
        for name, config in configs.items()
    }
    engines: dict[str, EngineFolder] = {}
    with contextlib.ExitStack() as stack:
        stagings: dict[str, Staging] = {}
        jobs = []
        for name, config in configs.items():
            candidate = candidates[name]
            candidate.reason = _core.backend_info(config.backend, config.requirements()).unavailable_reason
            if candidate.reason:
                continue
            facts = {
                "shapes": exported.shapes,
                "ranges": exported.ranges,
                "conditions": exported.conditions,
                "opt": dict(opt or {}),
                "device": device_type(exported.program),
                "config": candidate.options,
            }
            key = cache.key(program, config.backend, facts, _versions(config.backend))
            found = cache.find(key)
            if found is not None:
                candidate.reused = True
                candidate.build_seconds = found[1]["seconds"]
                engines[name] = EngineFolder(name, config.backend, *found, candidate.options["threads"])
                continue
            stagings[name] = stack.enter_context(cache.stage(key))
            jobs.append(
                BuildJob(
                    backend=config.backend,
                    program=exported.path,
                    output=str(stagings[name].engine),
                    shapes=exported.shapes,
                    ranges=exported.ranges,
                    conditions=exported.conditions,
                    options=config.options(),
                    threads=candidate.options["threads"],
                    opt=dict(opt or {}),
                    name=name,
                    engine_class=class_of(config.backend),
                    time_limit_s=options.build_seconds,
                    memory_share=options.build_memory_share,
                )
            )

        # Native code takes longest to build: begun first, it runs beside the others.
        jobs.sort(key=lambda job: job.backend != "aoti")

        def keep(job: BuildJob, outcome: BuildResult) -> None:
            candidate = candidates[job.name]
            candidate.build_seconds = outcome.seconds
            if not outcome.built:
                candidate.reason = outcome.reason
                return
            Path(outcome.log).unlink(missing_ok=True)
            assert outcome.engine is not None
            receipt = {"seconds": outcome.seconds, "versions": outcome.engine.get("versions", {})}
            folder = stagings[job.name].keep(receipt)
            engines[job.name] = EngineFolder(job.name, job.backend, folder, receipt, job.threads)

        build_all(
            jobs,
            keep,
            at_once=options.builds_at_once,
            on_start=lambda job: options.report(f"building {job.name}"),
        )
    return list(candidates.values()), engines


def _all_options(config: EngineConfig, threads: int) -> dict[str, Any]:
    return {**config.options(), "threads": config.threads or threads}


def _versions(backend: str) -> dict[str, str]:
    """Of the libraries, and of the file that an engine written in Python is in."""
    class_name = class_of(backend)
    own = {class_name: source_digest(class_name)} if class_name else {}
    return {**library_versions(), **own}
