"""Abstract values of integer tensors: what index_ranges.py computes with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = [
    "Affine",
    "Interval",
    "Pieces",
    "SizeBounds",
    "add",
    "clamp",
    "hull",
    "is_number",
    "multiply",
    "opaque",
    "remainder",
    "sources",
    "taint",
]

# More pieces than this are no longer told apart.
_MAX_PIECES = 32


@dataclass(frozen=True)
class Interval:
    """Values between two bounds: numbers, infinities or expressions over sizes; computed from these inputs."""

    low: Any
    high: Any
    inputs: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Affine:
    """`scale * input + offset`, the offset between two numbers, the whole cut to clip_low..clip_high."""

    input: int
    scale: int = 1
    low: int = 0
    high: int = 0
    clip_low: float = -math.inf
    clip_high: float = math.inf

    def allowed(self, low: int, high: int) -> tuple[float, float] | None:
        """The input's values for which this lies in low..high; None where there are none."""
        if self.clip_high < low or self.clip_low > high:
            return None
        span = [-math.inf, math.inf]
        if self.clip_low < low:  # scale * x + self.low >= low
            self._cut(span, low - self.low, at_least=True)
        if self.clip_high > high:  # scale * x + self.high <= high
            self._cut(span, high - self.high, at_least=False)
        return (span[0], span[1]) if span[0] <= span[1] else None

    def _cut(self, span: list[float], limit: int, at_least: bool) -> None:
        if at_least == (self.scale > 0):
            span[0] = max(span[0], -((-limit) // self.scale))  # x >= limit / scale, rounded up
        else:
            span[1] = min(span[1], limit // self.scale)


Pieces = tuple[Interval | Affine, ...]


class SizeBounds:
    """What is known of sizes: their ranges in the exported program."""

    def __init__(self, ranges: Mapping[Any, Any]) -> None:
        self._ranges = dict(ranges)

    def proves(self, greater: Any, less: Any) -> bool:
        """Whether greater >= less for all sizes."""
        if less == -math.inf or greater == math.inf:
            return True
        if less == math.inf or greater == -math.inf:
            return False
        difference = greater - less
        if is_number(difference):
            return bool(difference >= 0)
        from torch.utils._sympy.value_ranges import bound_sympy

        return bool(bound_sympy(difference, self._ranges).lower >= 0)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def opaque(inputs: Iterable[int] = ()) -> Pieces:
    """Any value, computed from these inputs."""
    return (Interval(-math.inf, math.inf, frozenset(inputs)),)


def sources(pieces: Pieces) -> frozenset[int]:
    """The inputs that have a say in these values."""
    found: set[int] = set()
    for piece in pieces:
        found |= {piece.input} if isinstance(piece, Affine) else piece.inputs
    return frozenset(found)


def taint(pieces: Pieces, inputs: frozenset[int]) -> Pieces:
    """The same values, chosen by these inputs too."""
    if not inputs:
        return pieces
    return tuple(replace(p, inputs=p.inputs | inputs) if isinstance(p, Interval) else p for p in pieces)


def hull(pieces: Pieces) -> Interval | None:
    """One interval around all pieces, where all are intervals of numbers, or there is but one."""
    intervals = [piece for piece in pieces if isinstance(piece, Interval)]
    if len(intervals) != len(pieces) or not pieces:
        return None
    if len(intervals) == 1:
        return intervals[0]
    if not all(is_number(p.low) and is_number(p.high) for p in intervals):
        return None
    return Interval(min(p.low for p in intervals), max(p.high for p in intervals), sources(pieces))


def _pairwise(left: Pieces, right: Pieces, combine: Callable[[Interval | Affine, Interval | Affine], Pieces]) -> Pieces:
    result: dict[Interval | Affine, None] = {}
    for one in left:
        for other in right:
            result.update(dict.fromkeys(combine(one, other)))
    if len(result) > _MAX_PIECES:
        return opaque(sources(left) | sources(right))
    return tuple(result)


def _plus(one: Any, other: Any) -> Any:
    for value in (one, other):
        if value in (math.inf, -math.inf):
            return value
    return one + other


def add(left: Pieces, right: Pieces) -> Pieces:
    def combine(one: Interval | Affine, other: Interval | Affine) -> Pieces:
        if isinstance(one, Interval) and isinstance(other, Interval):
            span = Interval(_plus(one.low, other.low), _plus(one.high, other.high), one.inputs | other.inputs)
            return (span,)
        if isinstance(one, Interval):
            one, other = other, one
        if isinstance(one, Affine) and isinstance(other, Interval) and _is_finite(other):
            moved = replace(
                one,
                low=one.low + other.low,
                high=one.high + other.high,
                clip_low=one.clip_low + other.low,
                clip_high=one.clip_high + other.high,
            )
            return (moved,)
        return opaque(sources((one, other)))

    return _pairwise(left, right, combine)


def multiply(left: Pieces, right: Pieces) -> Pieces:
    def combine(one: Interval | Affine, other: Interval | Affine) -> Pieces:
        if isinstance(one, Interval) and isinstance(other, Interval):
            return (_product(one, other),)
        if isinstance(one, Interval):
            one, other = other, one
        if isinstance(one, Affine) and isinstance(other, Interval) and _is_finite(other):
            if other.low == other.high:
                return (_scaled(one, other.low),)
            if (other.low, other.high) == (0, 1):
                return (Interval(0, 0), one)  # a mask: nothing, or the value itself
        return opaque(sources((one, other)))

    return _pairwise(left, right, combine)


def _is_finite(piece: Interval) -> bool:
    return isinstance(piece.low, int) and isinstance(piece.high, int)


def _scaled(piece: Affine, factor: int) -> Interval | Affine:
    if factor == 0:
        return Interval(0, 0)
    ends = sorted((piece.low * factor, piece.high * factor))
    clips = sorted((piece.clip_low * factor, piece.clip_high * factor))
    return Affine(piece.input, piece.scale * factor, ends[0], ends[1], clips[0], clips[1])


def _product(one: Interval, other: Interval) -> Interval:
    inputs = one.inputs | other.inputs
    if _is_finite(one) and _is_finite(other):
        corners = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
        return Interval(min(corners), max(corners), inputs)
    if other.low == other.high == -1:
        return Interval(-one.high, -one.low, inputs)
    positive = all(is_number(p.low) and p.low >= 0 for p in (one, other))
    if positive and math.inf not in (one.high, other.high):
        return Interval(one.low * other.low, one.high * other.high, inputs)  # sizes are not negative
    return Interval(-math.inf, math.inf, inputs)


def clamp(pieces: Pieces, low: int | None, high: int | None) -> Pieces:
    import sympy  # type: ignore[import-untyped]

    floor = -math.inf if low is None else low
    ceiling = math.inf if high is None else high

    def cut(value: Any) -> Any:
        if is_number(value):
            return min(max(value, floor), ceiling)
        for limit, function in ((floor, sympy.Max), (ceiling, sympy.Min)):
            if limit not in (math.inf, -math.inf):
                value = function(value, limit)
        return value

    result: list[Interval | Affine] = []
    for piece in pieces:
        if isinstance(piece, Affine):
            result.append(replace(piece, clip_low=cut(piece.clip_low), clip_high=cut(piece.clip_high)))
        else:
            result.append(Interval(cut(piece.low), cut(piece.high), piece.inputs))
    return tuple(result)


def remainder(pieces: Pieces, divisor: int | None, floors: bool) -> Pieces:
    if divisor is None or divisor <= 0:
        return opaque(sources(pieces))
    low = 0 if floors else 1 - divisor
    result: list[Interval | Affine] = []
    for piece in pieces:
        if isinstance(piece, Interval) and _is_finite(piece) and 0 <= piece.low <= piece.high < divisor:
            result.append(piece)
        else:
            result.append(Interval(low, divisor - 1, sources((piece,))))
    return tuple(result)
