"""Confirms a plan of several engines as it will be deployed: all of them in one process."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from .candidate_builds import EngineFolder
from .engine_worker import MIXED
from .measurements import Measurements
from .planning import PLAN_TIE, PlanEntry, engine_at, plan_engines
from .probing import Point
from .processes import WorkerFailure
from .trials import Trials
from .turns import TurnsResult
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

    ``choose`` makes a plan of a part of the engines. The plan of most engines that is not surely more than 2 % slower
    than another is kept.
    """
    plans = {_name(each): each for each in (plan, *_smaller_plans(plan, choose, measured))}
    *_, last = plans
    if len(plans) == 1:
        return plan, f"{last}: not compared with fewer engines, of which the strategy makes no plan"
    try:
        turns = trials.compare_plans(plans, last, engines, cases, measured.weights)
    except WorkerFailure as failure:
        return plans[last], f"{last} alone: the comparison with {_name(plan)} failed: {failure}"
    ran = [name for name in plans if name in turns.rounds and name not in turns.failures]
    kept = next((name for name in ran if not any(_is_slower(turns, name, other) for other in ran)), last)
    figures = [f"{name} {_figure(turns, name, name in ran)}" for name in plans if name != last]
    head = f"{last} alone" if kept == last else kept
    return plans[kept], f"{head}: in one process, as fast as {last} alone: {', '.join(figures)}"


def _is_slower(turns: TurnsResult, name: str, other: str) -> bool:
    """By more than plans that are level, and surely so: that its engines are faster has been measured before."""
    if name == other:
        return False
    return turns.compare(name, other, MIXED).value > PLAN_TIE and turns.is_told_apart(name, other, MIXED, 0.0)


def _figure(turns: TurnsResult, name: str, ran: bool) -> str:
    if not ran:
        return "could not run"
    ratio = turns.ratio(name, MIXED)
    return f"{ratio.value:.2f}x" + (f" ({ratio.low:.2f}..{ratio.high:.2f})" if ratio.low and ratio.high else "")


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
