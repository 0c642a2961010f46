"""Tries a graph's engines: are their values right, how fast are they, and is a plan of several as fast as it seems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from .candidate_builds import EngineFolder
from .engine_worker import MIXED
from .measurements import EAGER, Measurements
from .planning import PlanEntry, engine_at, plan_engines
from .probing import Point, Ranges
from .processes import Worker, WorkerFailure
from .python_engines import class_of
from .result import CandidateResult, SpeedUp
from .tune_options import TuneOptions
from .turns import LocalParticipant, Participant, TurnsResult, WorkerParticipant, take_turns
from .validation import Case, Verify, validate

__all__ = ["Trials"]

_CONFIDENCE = 0.95
_BLOCK_SECONDS = 0.05
# How long a process measures before it is launched anew.
_LAUNCH_SECONDS = 24.0
# How often plans, which have less time, are launched.
_LAUNCHES_OF_PLANS = 3
# More than there is time for: a few rounds of one launch would be sure of the launch alone.
_ROUNDS_OF_PLANS = 200


class Trials:
    """The engines of one graph, each in a process of its own. ``close`` ends them.

    ``eager_call`` makes a call of a case's sizes on the model; ``output_names`` name the results in messages;
    ``devices`` are those of the inputs; with ``verify`` it judges the values.
    """

    def __init__(
        self,
        options: TuneOptions,
        output_names: Sequence[str],
        devices: Sequence[str],
        eager_call: Callable[[Case], Callable[[], object]],
        verify: Verify | None = None,
    ) -> None:
        self._options = options
        self._names = list(output_names)
        self._devices = list(devices)
        self._eager_call = eager_call
        self._verify = verify
        self._workers: dict[str, Worker] = {}
        self._peaks: dict[str, int] = {}  # bytes, of processes that were launched anew

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def validate(
        self, candidates: Sequence[CandidateResult], engines: Mapping[str, EngineFolder], cases: Sequence[Case]
    ) -> None:
        """Compares each engine with eager on all cases, and keeps those that are right."""
        for candidate in candidates:
            engine = engines.get(candidate.name)
            if engine is None:
                continue
            self._options.report(f"validating {candidate.name} on {len(cases)} cases")
            try:
                # Whatever ends this, close() ends the worker.
                worker = self._workers[candidate.name] = self._start(candidate.name, [engine])
                verdict = validate(worker, cases, verify=self._verify)
            except WorkerFailure as failure:
                candidate.reason = str(failure)
                self._drop(candidate.name)
                continue
            candidate.cases = verdict.cases
            candidate.max_deviation = verdict.deviation
            if verdict.problem:
                candidate.status, candidate.reason = "rejected", verdict.problem
                self._drop(candidate.name)
                continue
            candidate.status = "valid"
            worker.pause()

    def _drop(self, name: str) -> None:
        worker = self._workers.pop(name, None)
        if worker is not None:
            worker.close()

    def measure(
        self,
        candidates: Sequence[CandidateResult],
        engines: Mapping[str, EngineFolder],
        ranges: Ranges,
        cases: Mapping[Point, Case],
        weights: Mapping[Point, float],
    ) -> Measurements | None:
        """Eager and all valid engines at all points, in turns. None where there is nothing to measure."""
        if not self._workers or not cases:
            return None
        self._options.report(f"measuring at {len(cases)} sizes")
        calls = {str(point): self._eager_call(case) for point, case in cases.items()}
        participants: dict[str, Participant] = {EAGER: LocalParticipant(lambda key: calls[key]())}
        failures: dict[str, str] = {}
        for name, worker in self._workers.items():
            try:
                _prepare(worker, cases, dict.fromkeys(cases, name))
            except WorkerFailure as failure:
                failures[name] = str(failure)
                continue
            participants[name] = WorkerParticipant(worker, partial(self._relaunch, engines[name], cases))
        with torch.inference_mode():
            turns = take_turns(
                participants,
                list(calls),
                EAGER,
                budget_s=self._options.measure_seconds,
                block_s=_BLOCK_SECONDS,
                min_rounds=6,
                confidence=_CONFIDENCE,
                launch_s=_LAUNCH_SECONDS,
            )
        failures |= turns.failures
        peak_memory = self._peak_memory(failures)
        for candidate in candidates:
            if candidate.name in failures:
                candidate.status, candidate.reason = "failed", failures[candidate.name]
        measured = [candidate for candidate in candidates if candidate.name in peak_memory]
        found = Measurements(
            ranges, tuple(cases), dict(weights), tuple(candidate.name for candidate in measured), turns, peak_memory
        )
        for candidate in measured:
            candidate.peak_memory_bytes = peak_memory[candidate.name]
            candidate.speed_ups = [_speed_up(found, candidate.name, point) for point in cases]
        return found if measured else None

    def _relaunch(self, engine: EngineFolder, cases: Mapping[Point, Case]) -> Worker:
        old = self._workers[engine.name]
        self._peaks[engine.name] = max(old.call("peak_memory"), self._peaks.get(engine.name, 0))
        old.close()
        worker = self._workers[engine.name] = self._start(engine.name, [engine])
        _prepare(worker, cases, dict.fromkeys(cases, engine.name))
        return worker

    def _peak_memory(self, failures: dict[str, str]) -> dict[str, int]:
        peaks: dict[str, int] = {}
        for name, worker in self._workers.items():
            if name in failures:
                continue
            try:
                peaks[name] = max(worker.call("peak_memory"), self._peaks.get(name, 0))
            except WorkerFailure as failure:
                failures[name] = str(failure)
        return peaks

    def compare_plans(
        self,
        plans: Mapping[str, Sequence[PlanEntry]],
        reference: str,
        engines: Mapping[str, EngineFolder],
        cases: Mapping[Point, Case],
        weights: Mapping[Point, float],
    ) -> TurnsResult:
        """The times of plans, each with all its engines in one process, as deployed; the only size is ``MIXED``.

        The calls are of all points that weigh something and have an engine in every plan, about as often as their
        weights say, at least once each. There has to be one. A plan that fails is among the failures; the reference's
        failure is raised (WorkerFailure).
        """
        served = {name: {point: engine_at(plan, point) for point in cases} for name, plan in plans.items()}
        points = [p for p in cases if weights[p] > 0 and all(by_point[p] != EAGER for by_point in served.values())]
        for worker in self._workers.values():
            worker.pause()
        workers: dict[str, Worker] = {}

        def launch(name: str) -> Worker:
            if name in workers:
                workers[name].close()
            workers[name] = self._start(f"plan {name}", [engines[each] for each in plan_engines(plans[name])])
            _prepare(workers[name], {point: cases[point] for point in points}, served[name], weights)
            return workers[name]

        participants: dict[str, Participant] = {}
        failures: dict[str, str] = {}
        budget = self._options.measure_seconds / 8 * len(plans)
        try:
            for name in plans:
                try:
                    worker = launch(name)
                except WorkerFailure as failure:
                    if name == reference:
                        raise
                    failures[name] = str(failure)  # it would fail where it is deployed, too
                    continue
                worker.pause()
                participants[name] = WorkerParticipant(worker, partial(launch, name))
            turns = take_turns(
                participants,
                [MIXED],
                reference,
                budget_s=budget,
                launch_s=budget / _LAUNCHES_OF_PLANS,
                block_s=_BLOCK_SECONDS / len(points),  # a call's time is the mean of some at each
                warm_up=0,  # the shorter the blocks, the more alike their times: the first of so many calls matter less
                min_rounds=_ROUNDS_OF_PLANS,
                confidence=_CONFIDENCE,
            )
        finally:
            for worker in workers.values():
                worker.close()
        turns.failures |= failures
        return turns

    def _start(self, name: str, engines: Sequence[EngineFolder]) -> Worker:
        setup: dict[str, Any] = {
            "engines": {
                engine.name: [engine.backend, str(engine.folder), engine.threads, class_of(engine.backend)]
                for engine in engines
            },
            "tolerances": {dtype: list(pair) for dtype, pair in self._options.tolerances.items()},
            "output_names": self._names,
            "devices": self._devices,
        }
        return Worker("graphtune.engine_worker:serve", setup, name=name)


def _prepare(
    worker: Worker,
    cases: Mapping[Point, Case],
    engines: Mapping[Point, str],
    weights: Mapping[Point, float] | None = None,
) -> None:
    """Has a worker hold each point's tensors, for the engine that is to run them."""
    for point, case in cases.items():
        weight = 1.0 if weights is None else weights[point]
        worker.call("prepare", size_key=str(point), case=str(case.path), engine=engines[point], weight=weight)


def _speed_up(measured: Measurements, name: str, point: Point) -> SpeedUp:
    ratio = measured.speed_up(name, point)
    return SpeedUp(
        point.values,
        ratio.value,
        ratio.low,
        ratio.high,
        ratio.rounds,
        measured.seconds(EAGER, point),
        measured.seconds(name, point),
        measured.latency(EAGER, point, 99),
        measured.latency(name, point, 99),
    )
