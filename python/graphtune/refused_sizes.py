"""Learns from what a model refuses: sizes for which it raises become limits, since an engine would give values there.

The model is asked at the corners of the ranges and at points inside. From a refused point the search goes to the
nearest recorded one, which the model took, and finds what separates them: a largest or smallest size, a multiple, or a
largest product of two sizes.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

from .probing import Point, between, corners, distance
from .size_expressions import Ranges, all_hold, holds_at, nearest

__all__ = ["SizeLimits", "learn_limits"]

#: What the model says when it refuses sizes; empty where it takes them.
Refusal = Callable[[Point], str]

_MAX_LIMITS = 8


@dataclasses.dataclass
class SizeLimits:
    """The sizes that a model takes: ranges, and conditions besides. ``problem`` is set when it refuses others too."""

    ranges: dict[str, tuple[int, int]]
    conditions: list[str]
    notes: list[str] = dataclasses.field(default_factory=list)
    problem: str = ""


def learn_limits(refusal: Refusal, ranges: Ranges, conditions: Sequence[str], recorded: Sequence[Point]) -> SizeLimits:
    """Ranges and conditions within the given ones where the model refuses none of the points that it is asked at.

    ``recorded`` are points that it took. Asks at most some dozens of times for each limit.
    """
    limits = SizeLimits(dict(ranges), list(conditions))
    for _ in range(_MAX_LIMITS + 1):
        known = [point for point in recorded if holds_at(point.values, limits.ranges, limits.conditions)]
        if not known:
            limits.problem = f"the model refuses sizes around all those that were recorded: {'; '.join(limits.notes)}"
            return limits
        asked = [*corners(limits.ranges, limits.conditions), *between(limits.ranges, known, 4, limits.conditions)]
        refused = next((point for point in asked if refusal(point)), None)
        if refused is None:
            return limits
        base = min(known, key=lambda point: distance(point, refused))
        limits.notes.append(_Search(refusal, limits, known, base, refused).add_limit())
    limits.problem = f"the model refuses sizes in no way that a few limits say: {'; '.join(limits.notes)}"
    return limits


class _Search:
    """Finds one limit between a point that the model took and one that it refuses, and adds it."""

    def __init__(
        self, refusal: Refusal, limits: SizeLimits, known: Sequence[Point], base: Point, refused: Point
    ) -> None:
        self._refusal = refusal
        self._limits = limits
        self._known = known
        self._base = base.values
        self._refused = refused.values
        # The widest first: it has the most left when it is cut.
        differing = [name for name in self._base if self._base[name] != self._refused[name]]
        self._names = sorted(differing, key=lambda name: limits.ranges[name][0] - limits.ranges[name][1])

    def add_limit(self) -> str:
        for name in self._names:
            # Beside whatever was recorded of the others: else it is their combination that is refused.
            if all(self._is_refused({**point.values, name: self._refused[name]}) for point in self._known):
                return self._limit_alone(name)
        return self._limit_product() or self._limit_together()

    def _is_refused(self, values: dict[str, int]) -> bool:
        return all_hold(self._limits.conditions, values) and bool(self._refusal(Point.of(values)))

    def _why(self, values: dict[str, int], *names: str) -> str:
        sizes = " and ".join(f"{name} = {values[name]}" for name in names)
        return f"the model refuses {sizes} ({self._refusal(Point.of(values))})"

    def _limit_alone(self, name: str) -> str:
        divisor = self._divisor(name)
        if divisor is None:
            return self._cut(name, self._base)
        condition = f"{name} % {divisor} == 0"
        self._limits.conditions.append(condition)
        return f"limited to {condition}: {self._why({**self._base, name: self._refused[name]}, name)}"

    def _divisor(self, name: str) -> int | None:
        """The smallest number of which all recorded sizes are multiples, where the model takes the next multiples and
        refuses what lies beside one."""
        low, high = self._limits.ranges[name]
        base = self._base[name]

        def refused_at(*sizes: int) -> list[bool]:
            return [self._is_refused({**self._base, name: size}) for size in sizes if low <= size <= high]

        beside = refused_at(base - 1, base + 1)
        if not beside or not all(beside):
            return None
        common = math.gcd(*(point.values[name] for point in self._known))
        for divisor in (number for number in range(2, common + 1) if common % number == 0):
            multiples = refused_at(base - divisor, base + divisor)
            if multiples and not any(multiples):
                return divisor
        return None

    def _limit_product(self) -> str:
        """Of two sizes that are refused together only: a largest product, where that fits both."""
        for pair in itertools.combinations(sorted(self._refused), 2):
            if not set(pair) & set(self._names):
                continue
            taken, beyond = 0, math.inf
            for name, other in (pair, pair[::-1]):
                low = self._limits.ranges[name][0]
                if low == self._refused[name] or self._is_refused({**self._refused, name: low}):
                    break
                last = self._last_taken(name, self._refused, low)
                taken = max(taken, last * self._refused[other])
                beyond = min(beyond, (last + 1) * self._refused[other])
            else:
                if taken < beyond:
                    condition = f"{pair[0]}*{pair[1]} <= {taken}"
                    self._limits.conditions.append(condition)
                    return f"limited to {condition}: {self._why(self._refused, *pair)}"
        return ""

    def _limit_together(self) -> str:
        """Cuts the first symbol that makes the difference when all others are as in the refused point."""
        for name in self._names:
            if not self._is_refused({**self._refused, name: self._base[name]}):
                return self._cut(name, self._refused)
        # Each alone is taken and each alone changes nothing: the first is kept at what was recorded.
        name = self._names[0]
        self._set(name, self._base[name])
        return f"limited to {name} up to {self._base[name]}: {self._why(self._refused, name)}"

    def _cut(self, name: str, others: dict[str, int]) -> str:
        last = self._last_taken(name, others, self._base[name])
        low, high = self._limits.ranges[name]
        beyond = {**others, name: last + (1 if self._refused[name] > last else -1)}
        why = self._why(beyond if self._is_refused(beyond) else {**others, name: self._refused[name]}, name)
        self._set(name, last)
        now = self._limits.ranges[name]
        return f"limited to {name} in {now[0]}..{now[1]} of {low}..{high}: {why}"

    def _last_taken(self, name: str, others: dict[str, int], good: int) -> int:
        """The value next to the first refused one, on the way from a good one to the refused."""
        bad = self._refused[name]
        while abs(bad - good) > 1:
            inner = (min(good, bad) + 1, max(good, bad) - 1)
            middle = nearest(
                (good + bad) // 2, inner, lambda value: all_hold(self._limits.conditions, {**others, name: value})
            )
            if middle is None:
                break  # only values that other conditions exclude
            if self._is_refused({**others, name: middle}):
                bad = middle
            else:
                good = middle
        return good

    def _set(self, name: str, last: int) -> None:
        low, high = self._limits.ranges[name]
        self._limits.ranges[name] = (low, last) if self._refused[name] > last else (last, high)
