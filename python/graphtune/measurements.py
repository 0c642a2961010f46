"""What was measured of one graph's candidates, as a strategy sees it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from .probing import Point, Ranges
from .turn_statistics import Ratio
from .turns import TurnsResult

__all__ = ["EAGER", "LEVEL", "Measurements"]

EAGER = "eager"
# Two that are this close are level, whatever else the measurement says.
LEVEL = 1.01
_BATCH_SYMBOL = "b"


@dataclasses.dataclass(frozen=True)
class Measurements:
    """Times of eager and of every engine whose values are right, at some points of a graph's ranges.

    ``engines`` are in the order of preference, without eager. ``weights`` has each point's share of the recorded calls
    (they add up to 1). Times are seconds a call. ``peak_memory`` has bytes by engine.
    """

    ranges: Ranges
    points: tuple[Point, ...]
    weights: Mapping[Point, float]
    engines: tuple[str, ...]
    turns: TurnsResult
    peak_memory: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def of(self, engines: Sequence[str]) -> Measurements:
        """The same, as if these were all that is right."""
        return dataclasses.replace(self, engines=tuple(engines))

    def seconds(self, name: str, point: Point) -> float:
        """The typical time of a call, as if all had taken the same turns."""
        return self._seconds[point][name]

    @functools.cached_property
    def _seconds(self) -> dict[Point, dict[str, float]]:
        return {point: self.turns.typical_times(str(point)) for point in self.points}

    def latency(self, name: str, point: Point, percentile: float) -> float:
        """The time that ``percentile`` percent of the calls do not exceed."""
        return self.turns.latency(name, str(point), percentile / 100)

    def throughput(self, name: str, point: Point) -> float:
        """Items a second: the point's batch size, where there is one, over the time of a call."""
        return self.batch_size(point) / self.seconds(name, point)

    def batch_size(self, point: Point) -> int:
        return point.values.get(_BATCH_SYMBOL, 1)

    def speed_up(self, name: str, point: Point) -> Ratio:
        """Eager's time over the engine's."""
        return self.turns.ratio(name, str(point))

    def slowdown(self, name: str, best: str, point: Point) -> Ratio:
        """The time of one over the time of another, round by round."""
        return self.turns.compare(name, best, str(point))

    def is_told_apart(self, name: str, best: str, point: Point, tie: float) -> bool:
        """Whether one is slower than another by more than ``tie`` for sure, the number of points considered."""
        return self.turns.is_told_apart(name, best, str(point), tie)
