"""Strategies: what is built for a graph, and which engine serves which of its sizes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from .errors import GraphtuneTypeError, GraphtuneValueError
from .measurements import EAGER, LEVEL, Measurements
from .planning import PlanEntry, engine_at, make_plan
from .probing import Point

__all__ = [
    "Choice",
    "FirstWins",
    "LatencyBudget",
    "MaxThroughput",
    "MinLatency",
    "OneBackend",
    "Strategy",
]

# At this distance two are never level, however wide the interval: nothing is to be served more than 3 % slower than the
# best seemed to be. A size that noise takes from the engine of all others costs little.
_NEVER_LEVEL = 1.03
_FAR_BEHIND = 100.0


@dataclasses.dataclass(frozen=True)
class Choice:
    """A plan for one graph, what is to be said about it, and which engines tie, whatever the plan."""

    plan: list[PlanEntry]
    notes: list[str] = dataclasses.field(default_factory=list)
    ties: list[str] = dataclasses.field(default_factory=list)


class Strategy:
    """Decides what is built and what is chosen. A strategy of your own overrides what differs.

    The base gives each size the engine whose ``time`` is smallest, and uses as few engines as that allows.
    """

    #: A candidate that can't be built or is wrong raises ``TuneError`` instead of leaving the graph eager.
    raises = False

    def stages(self, candidates: Sequence[str]) -> list[tuple[str, ...]]:
        """The candidates in groups: a group is built and measured only where those before gave no engine."""
        return [tuple(candidates)]

    def time(self, measured: Measurements, name: str, point: Point) -> float:
        """What is to be small: of eager too."""
        return measured.seconds(name, point)

    def is_level(self, measured: Measurements, name: str, best: str, point: Point) -> bool:
        """Whether ``name`` may serve a point as well as the best: its time is within 1 %."""
        return self.time(measured, name, point) <= LEVEL * self.time(measured, best, point)

    def is_told_apart(self, measured: Measurements, name: str, best: str, point: Point) -> bool:
        """Whether ``name`` is worse than the best for sure. Where it is not, the notes call it a tie: another
        measurement could give another order."""
        return not self.is_level(measured, name, best, point)

    def weight(self, measured: Measurements, point: Point) -> float:
        """How much a point counts where several plans are possible."""
        return measured.weights[point]

    def choose(self, measured: Measurements, gate: float | None) -> Choice:
        """The plan. An engine has to be ``gate`` times as fast as eager somewhere and nowhere slower; with a gate of
        None eager is out of the choice.

        Where the plan has several engines, this is asked again for parts of ``measured.engines``: plans that may take
        its place if all its engines in one process are slower.
        """
        names = [*measured.engines, *([EAGER] if gate is not None else [])]
        times = {point: {name: self.time(measured, name, point) for name in names} for point in measured.points}
        level = {point: self._level(measured, times[point], point, gate) for point in measured.points}
        # Nowhere slower than eager, also where the measurement does not tell them apart.
        allowed = {
            point: [n for n in names if n == EAGER or gate is None or times[point][n] <= times[point][EAGER]]
            for point, names in level.items()
        }

        def gain(name: str, point: Point) -> float:
            best = min(times[point].values())
            time = times[point].get(name, math.inf)
            # Beside one that is infinitely better, how much worse another is does not matter.
            loss = math.log(time / best) if best > 0 and time < math.inf else 0.0 if time == best else _FAR_BEHIND
            return -self.weight(measured, point) * loss

        plan = make_plan(measured.ranges, allowed, measured.engines, gain, lambda point: measured.weights[point])
        return Choice(plan, ties=self._ties(measured, times, level))

    def accepts(self, measured: Measurements, plan: Sequence[PlanEntry], smaller: Sequence[PlanEntry]) -> bool:
        """Whether a plan of fewer engines serves the strategy's aim as well as ``plan``, if it is faster in one
        process. What only time decides, it does."""
        return True

    def _level(self, measured: Measurements, times: dict[str, float], point: Point, gate: float | None) -> list[str]:
        """Those that are as good as the best at a point."""
        best = min(times, key=lambda name: times[name])
        level = [n for n in times if n == best or self.is_level(measured, n, best, point)]
        # Eager is the simplest: it serves where it is level, or no engine is ahead by the gate.
        if gate is not None and EAGER not in level and times[EAGER] < gate * times[best]:
            level.append(EAGER)
        return level

    def _ties(
        self, measured: Measurements, times: dict[Point, dict[str, float]], level: dict[Point, list[str]]
    ) -> list[str]:
        ties: dict[tuple[str, ...], list[str]] = {}
        for point, of in times.items():
            best = min(of, key=lambda name: of[name])
            tied = [n for n in of if n in level[point] or not self.is_told_apart(measured, n, best, point)]
            if len(tied) > 1:
                ties.setdefault(tuple(tied), []).append(str(point))
        return [f"a tie of {' and '.join(names)} at {'; '.join(points)}" for names, points in ties.items()]


class _Fastest(Strategy):
    """By the time of a call: two that the measurement does not tell apart are level."""

    def is_level(self, measured: Measurements, name: str, best: str, point: Point) -> bool:
        slowdown = measured.slowdown(name, best, point)
        if slowdown.value <= LEVEL:
            return True
        return slowdown.value < _NEVER_LEVEL and (slowdown.low is None or slowdown.low <= LEVEL)

    def is_told_apart(self, measured: Measurements, name: str, best: str, point: Point) -> bool:
        return measured.is_told_apart(name, best, point, LEVEL - 1)


class MaxThroughput(_Fastest):
    """The most items a second. The batch size at which that is highest is found first and said in the notes; where
    several plans are possible, its sizes decide."""

    def weight(self, measured: Measurements, point: Point) -> float:
        return measured.weights[point] if measured.batch_size(point) == self.best_batch_size(measured) else 0.0

    def best_batch_size(self, measured: Measurements) -> int:
        """The batch size at which the fastest participant gives most items a second, sizes weighted by traffic."""
        return max(self._throughputs(measured).items(), key=lambda item: item[1])[0]

    def _throughputs(self, measured: Measurements) -> dict[int, float]:
        found: dict[int, float] = {}
        for size in sorted({measured.batch_size(point) for point in measured.points}):
            points = [point for point in measured.points if measured.batch_size(point) == size]
            total = sum(measured.weights[point] for point in points)
            shares = {p: measured.weights[p] / total if total > 0 else 1 / len(points) for p in points}
            seconds = sum(
                share * min(measured.seconds(name, point) for name in (EAGER, *measured.engines))
                for point, share in shares.items()
            )
            found[size] = size / seconds
        return found

    def choose(self, measured: Measurements, gate: float | None) -> Choice:
        choice = super().choose(measured, gate)
        throughputs = self._throughputs(measured)
        if len(throughputs) > 1:
            size = self.best_batch_size(measured)
            choice.notes.append(f"highest throughput at batch size {size}: {throughputs[size]:.0f} items a second")
        return choice


@dataclasses.dataclass(frozen=True)
class MinLatency(_Fastest):
    """The shortest time a call: the ``percentile`` of all calls, 50 for the typical and 99 for the slowest. Where
    several plans are possible, the smallest batch size decides."""

    percentile: float = 50.0

    def __post_init__(self) -> None:
        _check_percentile(self.percentile)

    def time(self, measured: Measurements, name: str, point: Point) -> float:
        return measured.latency(name, point, self.percentile)

    def is_level(self, measured: Measurements, name: str, best: str, point: Point) -> bool:
        # Of the slowest calls there are too few in a round to compare rounds.
        by_time = super().is_level if self.percentile == 50 else super(_Fastest, self).is_level
        return by_time(measured, name, best, point)

    def is_told_apart(self, measured: Measurements, name: str, best: str, point: Point) -> bool:
        by_time = super().is_told_apart if self.percentile == 50 else super(_Fastest, self).is_told_apart
        return by_time(measured, name, best, point)

    def weight(self, measured: Measurements, point: Point) -> float:
        smallest = min(measured.batch_size(each) for each in measured.points)
        return measured.weights[point] if measured.batch_size(point) == smallest else 0.0


@dataclasses.dataclass(frozen=True)
class LatencyBudget(_Fastest):
    """The most items a second among those whose calls stay within ``milliseconds`` (the ``percentile`` of them); where
    none does, the one that comes closest. The largest batch size that keeps the budget is said in the notes."""

    milliseconds: float
    percentile: float = 99.0

    def __post_init__(self) -> None:
        if isinstance(self.milliseconds, bool) or not isinstance(self.milliseconds, (int, float)):
            raise GraphtuneTypeError(f"LatencyBudget: milliseconds: {self.milliseconds!r} is no number")
        if not 0 < self.milliseconds < math.inf:
            raise GraphtuneValueError(f"LatencyBudget: milliseconds: {self.milliseconds!r} is not above 0 and finite")
        _check_percentile(self.percentile)

    def time(self, measured: Measurements, name: str, point: Point) -> float:
        if self._keeps(measured, name, point):
            return measured.seconds(name, point)
        # Above every time that keeps it, and by how far it is missed.
        return self.milliseconds / 1e3 + measured.latency(name, point, self.percentile)

    def is_level(self, measured: Measurements, name: str, best: str, point: Point) -> bool:
        if self._keeps(measured, name, point) != self._keeps(measured, best, point):
            return False
        return super().is_level(measured, name, best, point)

    def is_told_apart(self, measured: Measurements, name: str, best: str, point: Point) -> bool:
        if self._keeps(measured, name, point) != self._keeps(measured, best, point):
            return True
        return super().is_told_apart(measured, name, best, point)

    def choose(self, measured: Measurements, gate: float | None) -> Choice:
        choice = super().choose(measured, gate)
        served = {point: engine_at(choice.plan, point) for point in measured.points}
        sizes = sorted({measured.batch_size(point) for point in measured.points})
        kept = [
            size
            for size in sizes
            if all(self._keeps(measured, served[p], p) for p in measured.points if measured.batch_size(p) == size)
        ]
        budget = f"{self.milliseconds:g} ms (p{self.percentile:g})"
        choice.notes.append(
            f"{budget} are kept at batch sizes up to {kept[-1]}" if kept else f"{budget} are kept at no batch size"
        )
        return choice

    def accepts(self, measured: Measurements, plan: Sequence[PlanEntry], smaller: Sequence[PlanEntry]) -> bool:
        """The smaller plan keeps the budget wherever the other does."""
        return all(
            self._keeps(measured, engine_at(smaller, point), point)
            for point in measured.points
            if self._keeps(measured, engine_at(plan, point), point)
        )

    def _keeps(self, measured: Measurements, name: str, point: Point) -> bool:
        return measured.latency(name, point, self.percentile) * 1e3 <= self.milliseconds


@dataclasses.dataclass(frozen=True)
class OneBackend(Strategy):
    """One candidate only, wherever its values are right, however fast it is; where it can't be built or is wrong,
    ``tune`` raises ``TuneError`` with the reason."""

    name: str
    raises = True

    def stages(self, candidates: Sequence[str]) -> list[tuple[str, ...]]:
        if self.name not in candidates:
            raise GraphtuneValueError(f"OneBackend: {self.name!r} is none of the backends {', '.join(candidates)}")
        return [(self.name,)]

    def choose(self, measured: Measurements, gate: float | None) -> Choice:
        return Choice([PlanEntry(self.name)])


class FirstWins(_Fastest):
    """The first of the candidates that can be built, is right and is faster than eager; those after it aren't built."""

    def stages(self, candidates: Sequence[str]) -> list[tuple[str, ...]]:
        return [(name,) for name in candidates]


def _check_percentile(percentile: float) -> None:
    if isinstance(percentile, bool) or not isinstance(percentile, (int, float)):
        raise GraphtuneTypeError(f"percentile: {percentile!r} is no number")
    if not 0 < percentile <= 100:
        raise GraphtuneValueError(f"percentile: {percentile!r} is not above 0 and at most 100")
