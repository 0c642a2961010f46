"""Confirms a plan of several engines as it will be deployed: all of them in one process."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from .candidate_builds import EngineFolder
from .engine_worker import MIXED
from .measurements import EAGER, Measurements
from .planning import PLAN_TIE, PlanEntry, engine_at, plan_engines
from .probing import Point
from .processes import WorkerFailure
from .strategies import Choice, Strategy
from .trials import Trials
from .turns import TurnsResult
from .validation import Case

__all__ = ["confirm_plan"]

Plan = Sequence[PlanEntry]


def confirm_plan(
    choice: Choice,
    strategy: Strategy,
    gate: float | None,
    measured: Measurements,
    trials: Trials,
    engines: Mapping[str, EngineFolder],
    cases: Mapping[Point, Case],
) -> Choice:
    """The choice, or one of fewer engines if its plan is slower where all its engines meet in one process; with a note
    that says which, and the figures.

    Of plans of fewer and fewer engines, the first is kept that is not surely slower than another and by the median more
    than 2 %. Where there are too few rounds to be sure of anything, the median decides.
    """
    smaller, problems = _smaller_choices(choice, strategy, gate, measured)
    choices = {_name(each): each for each in (choice, *smaller)}
    plans = {name: each.plan for name, each in choices.items()}
    *_, last = plans
    if len(plans) == 1:
        note = f"{last}: not compared in one process, as fewer engines can't take their place"
        return _with(choice, [*problems, note])
    try:
        turns = trials.compare_plans(plans, last, engines, cases, measured.weights)
    except WorkerFailure as failure:
        note = f"{last} serves, as the comparison with {_name(choice)} in one process failed: {failure}"
        return _with(choices[last], [*problems, note])
    ran = [name for name in plans if name not in turns.failures]
    kept = next((name for name in ran if not any(_is_slower(turns, name, other) for other in ran)), last)
    figures = [f"{name} {_figure(turns, name)}" for name in plans if name != last]
    note = f"{kept} kept: speed with all in one process, over that of {last}: {', '.join(figures)}"
    return _with(choices[kept], [*problems, note])


def _with(choice: Choice, notes: Sequence[str]) -> Choice:
    return dataclasses.replace(choice, notes=[*choice.notes, *notes])


def _is_slower(turns: TurnsResult, name: str, other: str) -> bool:
    """That its engines are faster at their sizes has been measured before: this needs evidence, too."""
    if name == other:
        return False
    ratio = turns.compare(name, other, MIXED)
    return ratio.value > PLAN_TIE and (ratio.low is None or turns.is_told_apart(name, other, MIXED, 0.0))


def _figure(turns: TurnsResult, name: str) -> str:
    if name in turns.failures:
        return f"failed: {turns.failures[name]}"
    ratio = turns.ratio(name, MIXED)
    return f"{ratio.value:.2f}x" + (f" ({ratio.low:.2f}..{ratio.high:.2f})" if ratio.low and ratio.high else "")


def _smaller_choices(
    choice: Choice, strategy: Strategy, gate: float | None, measured: Measurements
) -> tuple[list[Choice], list[str]]:
    """Choices of fewer and fewer engines, each without the one that is missed least, and what a user's strategy failed
    at. Those that would leave calls to eager that have an engine now are no match."""
    found: list[Choice] = []
    problems: list[str] = []
    names = plan_engines(choice.plan)
    while len(names) > 1:
        options: list[tuple[float, int, Choice]] = []
        for dropped in names:
            rest = [name for name in measured.engines if name in names and name != dropped]
            try:
                option = strategy.choose(measured.of(rest), gate)
                if _may_replace(option.plan, choice.plan, rest, strategy, measured):
                    options.append((_gain(option.plan, measured), -len(options), option))
            except Exception as error:  # a strategy of the user's own that wants an engine that is out
                problems.append(f"the strategy gave no plan without {dropped}: {type(error).__name__}: {error}")
        if not options:
            break
        found.append(max(options)[2])
        names = plan_engines(found[-1].plan)
    return found, problems


def _may_replace(smaller: Plan, plan: Plan, engines: Sequence[str], strategy: Strategy, measured: Measurements) -> bool:
    left_to_eager = any(
        measured.weights[point] > 0 and engine_at(smaller, point) == EAGER != engine_at(plan, point)
        for point in measured.points
    )
    names = set(plan_engines(smaller))
    return bool(names) and names <= set(engines) and not left_to_eager and strategy.accepts(measured, plan, smaller)


def _gain(plan: Plan, measured: Measurements) -> float:
    """By the engines' times alone; a logarithm."""
    gains = {point: measured.speed_up(engine_at(plan, point), point).value for point in measured.points}
    return sum(measured.weights[point] * math.log(gain) for point, gain in gains.items())


def _name(choice: Choice) -> str:
    return " and ".join(plan_engines(choice.plan))
