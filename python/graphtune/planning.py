"""From what may serve each measured point to a plan: as few engines as the evidence supports, one of them wherever it
can."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence

from .measurements import EAGER
from .probing import Point, Ranges

__all__ = ["PLAN_TIE", "PlanEntry", "engine_at", "make_plan", "plan_engines"]

# Plans this close are level: the same measurement would give another order the next time.
PLAN_TIE = 1.02


@dataclasses.dataclass(frozen=True)
class PlanEntry:
    """An engine and the inclusive ranges of symbols that limit its region; none: everywhere.

    The entries of a plan are asked in turn; the first that holds a call serves it.
    """

    engine: str
    limits: tuple[tuple[str, tuple[int, int]], ...] = ()

    def holds(self, point: Point) -> bool:
        values = point.values
        return all(low <= values[name] <= high for name, (low, high) in self.limits)


@dataclasses.dataclass(frozen=True)
class _Cut:
    """One symbol's values up to `left` go one way, those from `right` on the other; nothing was measured between."""

    symbol: str
    left: int
    right: int
    below: _Tree
    above: _Tree


_Tree = str | _Cut
Gain = Callable[[str, Point], float]


def engine_at(plan: Sequence[PlanEntry], point: Point) -> str:
    """The engine that serves a point."""
    return next(entry.engine for entry in plan if entry.holds(point))


def plan_engines(plan: Sequence[PlanEntry]) -> list[str]:
    """The engines of a plan, each once, without eager."""
    return list(dict.fromkeys(entry.engine for entry in plan if entry.engine != EAGER))


def make_plan(
    ranges: Ranges,
    allowed: Mapping[Point, Collection[str]],
    engines: Sequence[str],
    gain: Gain,
    share: Callable[[Point], float] = lambda point: 1.0,
) -> list[PlanEntry]:
    """A plan in which every point is served by one of those that are ``allowed`` there (eager may be among them).

    Of all such plans those with the fewest engines are looked at, and of these the ones with the largest sum of
    ``gain(engine, point)`` (a logarithm of time saved); engines within 2 % of it are level, and those that come first
    in ``engines`` are taken. One of them, or eager, serves wherever it is allowed: the one that can serve the largest
    ``share(point)`` of the calls. A call after one of another engine finds cold caches and sleeping threads, so
    regions are made to be rare before they are made few. Where two regions meet between measured points, each takes
    the half that is nearer to it; next to eager, the unmeasured sizes go to eager.
    """
    if not allowed:
        return [PlanEntry(EAGER)]
    chosen = _fewest(allowed, engines, gain)
    leaves = list(_leaves(_rarest_changes(allowed, chosen, gain, share), {}, ranges))
    # The regions don't overlap, so that those of whoever comes last need no limits.
    serving = [engine for engine, _ in reversed(leaves)]
    last = EAGER if EAGER in serving else max(serving, key=serving.count)
    entries = [PlanEntry(engine, tuple(sorted(limits.items()))) for engine, limits in leaves if engine != last]
    return [*entries, PlanEntry(last)]


def _rarest_changes(
    allowed: Mapping[Point, Collection[str]], chosen: Sequence[str], gain: Gain, share: Callable[[Point], float]
) -> _Tree:
    """The regions, once one of the chosen serves wherever it may."""
    found: list[tuple[tuple[float, int, float], _Tree]] = []
    for main in chosen:
        there = {p: [main] if main in names else [n for n in chosen if n in names] for p, names in allowed.items()}
        regions, total, tree = _Partition(there, gain).best()
        served = sum(share(point) for point, names in allowed.items() if main in names)
        found.append(((round(served, 9), -regions, total), tree))
    return max(found, key=lambda each: each[0])[1]


def _fewest(allowed: Mapping[Point, Collection[str]], engines: Sequence[str], gain: Gain) -> list[str]:
    """The smallest set of engines, with eager beside them, that has someone for every point."""
    for count in range(len(engines) + 1):
        best: tuple[str, ...] | None = None
        best_gain = -math.inf
        for names in itertools.combinations(engines, count):
            options = [[n for n in (*names, EAGER) if n in there] for there in allowed.values()]
            if not all(options):
                continue
            total = sum(max(gain(n, point) for n in names) for point, names in zip(allowed, options, strict=True))
            if best is None or total > best_gain + math.log(PLAN_TIE):
                best, best_gain = names, total
        if best is not None:
            return [*best, EAGER]
    raise ValueError("a point has none that may serve it")


class _Partition:
    """Cuts the points into boxes of one engine each: the fewest boxes, then the largest gain."""

    def __init__(self, allowed: Mapping[Point, Sequence[str]], gain: Gain) -> None:
        self._allowed = allowed
        self._gain = gain
        self._known: dict[frozenset[Point], tuple[int, float, _Tree]] = {}

    def best(self) -> tuple[int, float, _Tree]:
        """How many boxes, their gain, and the cuts."""
        return self._solve(frozenset(self._allowed))

    def _solve(self, points: frozenset[Point]) -> tuple[int, float, _Tree]:
        if points not in self._known:
            self._known[points] = self._find(points)
        return self._known[points]

    def _find(self, points: frozenset[Point]) -> tuple[int, float, _Tree]:
        ordered = sorted(points, key=lambda point: point.items)
        common = [n for n in self._allowed[ordered[0]] if all(n in self._allowed[point] for point in ordered)]
        if common:
            engine = max(common, key=lambda name: sum(self._gain(name, point) for point in ordered))
            return 1, sum(self._gain(engine, point) for point in ordered), engine
        best: tuple[int, float, _Tree] | None = None
        for symbol in sorted(ordered[0].values):
            values = sorted({point.values[symbol] for point in ordered})
            for left, right in itertools.pairwise(values):
                below = self._solve(frozenset(point for point in ordered if point.values[symbol] <= left))
                above = self._solve(frozenset(point for point in ordered if point.values[symbol] >= right))
                count, total = below[0] + above[0], below[1] + above[1]
                if best is None or (count, -total) < (best[0], -best[1]):
                    best = count, total, _Cut(symbol, left, right, below[2], above[2])
        assert best is not None  # points differ in some symbol, and each has someone
        return best


def _leaves(
    tree: _Tree, limits: dict[str, tuple[int, int]], ranges: Ranges
) -> list[tuple[str, dict[str, tuple[int, int]]]]:
    if isinstance(tree, str):
        return [(tree, limits)]
    low, high = limits.get(tree.symbol, ranges[tree.symbol])
    if tree.below == EAGER:
        last = tree.right - 1
    elif tree.above == EAGER:
        last = tree.left
    else:
        last = (tree.left + tree.right) // 2
    return [
        *_leaves(tree.below, {**limits, tree.symbol: (low, last)}, ranges),
        *_leaves(tree.above, {**limits, tree.symbol: (last + 1, high)}, ranges),
    ]
