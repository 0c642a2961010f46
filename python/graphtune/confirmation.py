"""Confirms a plan of several engines as it will be deployed: all of them in one process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .candidate_builds import EngineFolder
from .measurements import EAGER, LEVEL, Measurements
from .planning import PlanEntry, engine_at, make_plan, plan_engines
from .probing import Point
from .processes import WorkerFailure
from .trials import Trials
from .validation import Case

__all__ = ["confirm_plan"]

_SEVERAL = "several engines"


def confirm_plan(
    plan: list[PlanEntry],
    measured: Measurements,
    trials: Trials,
    engines: Mapping[str, EngineFolder],
    cases: Mapping[Point, Case],
) -> tuple[list[PlanEntry], str]:
    """The plan, or its best engine alone if the plan is slower where the thread pools of all its engines meet. And a
    note that says which, with the figure.

    That each of its engines is faster at some sizes has been measured before: level with one alone is good enough.
    """
    alone = {name: _alone(name, measured) for name in plan_engines(plan)}
    best = max(alone, key=lambda name: _gain_of(alone[name], measured))
    several = " and ".join(plan_engines(plan))
    try:
        ratios = trials.compare_plans({_SEVERAL: plan, best: alone[best]}, best, engines, cases, measured.weights)
    except WorkerFailure as failure:
        return alone[best], f"{best} alone: its comparison with {several} failed: {failure}"
    ratio = ratios.get(_SEVERAL)
    if ratio is None:
        return alone[best], f"{best} alone: {several} could not be run in one process"
    if ratio * LEVEL < 1:
        return alone[best], f"{best} alone: {several} in one process are {ratio:.2f}x as fast"
    return plan, f"{several} in one process: {ratio:.2f}x as fast as {best} alone"


def _gain(measured: Measurements, name: str, point: Point) -> float:
    return 0.0 if name == EAGER else math.log(measured.speed_up(name, point).value)


def _alone(name: str, measured: Measurements) -> list[PlanEntry]:
    """The engine wherever it is not slower than eager."""
    allowed = {p: [name] if measured.speed_up(name, p).value >= 1 else [EAGER] for p in measured.points}
    return make_plan(measured.ranges, allowed, [name], lambda n, p: _gain(measured, n, p))


def _gain_of(plan: Sequence[PlanEntry], measured: Measurements) -> float:
    return sum(measured.weights[point] * _gain(measured, engine_at(plan, point), point) for point in measured.points)
