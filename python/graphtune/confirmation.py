"""Confirms a plan of several engines as it will be deployed: all of them in one process."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from .candidate_builds import EngineFolder
from .measurements import Measurements
from .planning import PLAN_TIE, PlanEntry, engine_at, plan_engines
from .probing import Point
from .processes import WorkerFailure
from .trials import Trials
from .validation import Case

__all__ = ["confirm_plan"]

Plan = list[PlanEntry]
Choose = Callable[[Measurements], Plan]


def confirm_plan(
    plan: Plan,
    choose: Choose,
    measured: Measurements,
    trials: Trials,
    engines: Mapping[str, EngineFolder],
    cases: Mapping[Point, Case],
) -> tuple[Plan, str]:
    """The plan, or one of fewer engines if the plan is slower where the thread pools and the caches of all its engines
    meet. And a note that says which, with the figures.

    ``choose`` makes a plan of a part of the engines. That each engine is faster at some sizes has been measured before,
    so that a plan within 2 % of the fastest is good enough.
    """
    plans = {_name(each): each for each in (plan, *_smaller_plans(plan, choose, measured))}
    *_, last = plans
    if len(plans) == 1:
        return plan, f"{last}: not compared with fewer engines, of which the strategy makes no plan"
    try:
        ratios = trials.compare_plans(plans, last, engines, cases, measured.weights)
    except WorkerFailure as failure:
        return plans[last], f"{last} alone: the comparison with {_name(plan)} failed: {failure}"
    fastest = max(ratios.values(), default=1.0)
    kept = next((name for name, ratio in ratios.items() if ratio * PLAN_TIE >= fastest), last)
    figures = [f"{name} {f'{ratios[name]:.2f}x' if name in ratios else 'could not run'}" for name in plans]
    head = f"{last} alone" if kept == last else kept
    return plans[kept], f"{head}: in one process, as fast as {last} alone: {', '.join(figures[:-1])}"


def _smaller_plans(plan: Plan, choose: Choose, measured: Measurements) -> list[Plan]:
    """Plans of fewer and fewer engines, each without the one that is missed least."""
    found: list[Plan] = []
    names = plan_engines(plan)
    while len(names) > 1:
        options = []
        for dropped in names:
            rest = [name for name in measured.engines if name in names and name != dropped]
            option = choose(measured.of(rest))
            if plan_engines(option) and set(plan_engines(option)) <= set(rest):
                options.append(option)
        if not options:
            break
        found.append(max(options, key=lambda each: _gain(each, measured)))
        names = plan_engines(found[-1])
    return found


def _gain(plan: Sequence[PlanEntry], measured: Measurements) -> float:
    """By the engines' times alone; a logarithm."""
    gains = {point: measured.speed_up(engine_at(plan, point), point).value for point in measured.points}
    return sum(measured.weights[point] * math.log(gain) for point, gain in gains.items())


def _name(plan: Sequence[PlanEntry]) -> str:
    return " and ".join(plan_engines(plan))
