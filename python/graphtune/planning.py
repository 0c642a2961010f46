"""From measured speed-ups to a plan: which engine serves which region of a graph's contract."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

from .probing import Point, Ranges

__all__ = ["PlanEntry", "choose_plan"]

EAGER = "eager"
# Engines this close on average are level: the same measurement would give another order the next time.
_TIE = 1.02


@dataclasses.dataclass(frozen=True)
class PlanEntry:
    """An engine and the inclusive ranges of symbols that limit its region; none: everywhere."""

    engine: str
    limits: tuple[tuple[str, tuple[int, int]], ...] = ()

    def holds(self, point: Point) -> bool:
        values = point.values
        return all(low <= values[name] <= high for name, (low, high) in self.limits)


Ratios = Mapping[str, Mapping[Point, float]]


def choose_plan(ranges: Ranges, points: Sequence[Point], ratios: Ratios, gate: float = 1.01) -> list[PlanEntry]:
    """The plan for a graph from ``ratios[engine][point]``, eager's time over the engine's.

    One engine serves everything if it is nowhere slower than eager and at least ``gate`` times as fast on (geometric)
    average; of several, the fastest on average. Where every engine is slower than eager at some measured point, the
    contract is cut once along one symbol, so that each side has an engine (or eager) that is nowhere slower than eager.
    No engine that passes: eager alone. Engines within 2 % on average tie; ties go to the one named first.
    """
    engines = [name for name in ratios if all(point in ratios[name] for point in points)]
    if not points or not engines:
        return [PlanEntry(EAGER)]
    whole = _best(engines, points, ratios, gate)
    if whole != EAGER:
        return [PlanEntry(whole)]
    best: list[PlanEntry] = [PlanEntry(EAGER)]
    best_gain = 0.0
    for name in sorted(ranges):
        values = sorted({point.values[name] for point in points})
        low, high = ranges[name]
        # A side ends at its last measured value: between two measured sizes nothing is known, so the engine's side
        # never reaches past what was measured as faster.
        for left, right in itertools.pairwise(values):
            lower = [point for point in points if point.values[name] <= left]
            upper = [point for point in points if point.values[name] >= right]
            below, above = _best(engines, lower, ratios, gate), _best(engines, upper, ratios, gate)
            gain = _gain(below, lower, ratios) + _gain(above, upper, ratios)
            entries = []
            if below != EAGER:
                entries.append(PlanEntry(below, ((name, (low, left)),)))
            if above != EAGER:
                entries.append(PlanEntry(above, ((name, (right, high)),)))
            if entries and gain > best_gain:
                best, best_gain = [*entries, PlanEntry(EAGER)], gain
    return best


def _best(engines: Sequence[str], points: Sequence[Point], ratios: Ratios, gate: float) -> str:
    means = {}
    for engine in engines:
        values = [ratios[engine][point] for point in points]
        mean = math.exp(sum(math.log(value) for value in values) / len(values))
        if min(values) >= 1.0 and mean >= gate:
            means[engine] = mean
    best = max(means.values(), default=0.0)
    return next((engine for engine, mean in means.items() if mean * _TIE >= best), EAGER)


def _gain(engine: str, points: Sequence[Point], ratios: Ratios) -> float:
    return 0.0 if engine == EAGER else sum(math.log(ratios[engine][point]) for point in points)
