"""What recorded calls say about where speed matters: the share of each measured point, and typical sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .probing import Point

__all__ = ["point_weights", "typical_values"]

# The symbols' values of calls, and how many such calls there were.
Calls = Sequence[tuple[Mapping[str, int], int]]


def point_weights(points: Sequence[Point], calls: Calls) -> dict[Point, float]:
    """The share of the calls that are nearest to each point; they add up to 1. Without calls, all weigh the same."""
    if not points:
        return {}
    counts = dict.fromkeys(points, 0)
    for values, count in calls:
        counts[min(points, key=lambda point: _distance(point, values))] += count
    total = sum(counts.values())
    return {point: count / total if total else 1 / len(points) for point, count in counts.items()}


def typical_values(calls: Calls, names: Sequence[str]) -> dict[str, int]:
    """The median of each of these symbols over all calls."""
    typical = {}
    for name in names:
        counted = sorted((values[name], count) for values, count in calls if name in values)
        half = sum(count for _, count in counted) / 2
        for value, count in counted:
            half -= count
            if half <= 0:
                typical[name] = value
                break
    return typical


def _distance(point: Point, values: Mapping[str, int]) -> float:
    """By ratios: from 1 to 2 is as far as from 32 to 64."""
    return sum(abs(math.log((value + 1) / (values.get(name, value) + 1))) for name, value in point.items)
