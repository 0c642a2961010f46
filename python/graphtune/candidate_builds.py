"""The candidates of one exported graph: found in the cache, or built side by side."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

from . import _core
from .building import BuildJob, BuildResult, build_all
from .cache import BuildCache, Staging, fingerprint
from .exporting import ExportedGraph
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


def build_candidates(
    exported: ExportedGraph, options: TuneOptions
) -> tuple[list[CandidateResult], dict[str, EngineFolder]]:
    """A row for each of ``options.backends``, and the engines of those that could be built.

    What is built goes into the cache at once: an interrupted run has it the next time.
    """
    assert exported.program is not None
    cache = options.cache or BuildCache()
    program = fingerprint(exported.program)
    facts = {"shapes": exported.shapes, "ranges": exported.ranges, "conditions": exported.conditions}
    candidates = {backend: CandidateResult(name=backend, status="failed") for backend in options.backends}
    engines: dict[str, EngineFolder] = {}
    with contextlib.ExitStack() as stack:
        stagings: dict[str, Staging] = {}
        jobs = []
        for backend, candidate in candidates.items():
            candidate.reason = _core.backend_info(backend).unavailable_reason
            if candidate.reason:
                continue
            key = cache.key(program, backend, facts, library_versions())
            found = cache.find(key)
            if found is not None:
                candidate.reused = True
                candidate.build_seconds = found[1]["seconds"]
                engines[backend] = EngineFolder(backend, backend, *found)
                continue
            stagings[backend] = stack.enter_context(cache.stage(key))
            jobs.append(
                BuildJob(
                    backend=backend,
                    program=exported.path,
                    output=str(stagings[backend].engine),
                    shapes=exported.shapes,
                    ranges=exported.ranges,
                    conditions=exported.conditions,
                    time_limit_s=options.build_seconds,
                    memory_share=options.build_memory_share,
                )
            )

        # Native code takes longest to build: begun first, it runs beside the others.
        jobs.sort(key=lambda job: job.backend != "aoti")

        def keep(job: BuildJob, outcome: BuildResult) -> None:
            candidate = candidates[job.backend]
            candidate.build_seconds = outcome.seconds
            if not outcome.built:
                candidate.reason = outcome.reason
                return
            Path(outcome.log).unlink(missing_ok=True)
            assert outcome.engine is not None
            receipt = {"seconds": outcome.seconds, "versions": outcome.engine.get("versions", {})}
            engines[job.backend] = EngineFolder(job.backend, job.backend, stagings[job.backend].keep(receipt), receipt)

        build_all(
            jobs,
            keep,
            at_once=options.builds_at_once,
            on_start=lambda job: options.report(f"building {job.backend}"),
        )
    return list(candidates.values()), engines
