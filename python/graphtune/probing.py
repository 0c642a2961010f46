"""Samples made for validation and measurement: recorded tensors brought to sizes that were never recorded."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

import torch

from .resizing import resize_tensors
from .size_expressions import all_hold, evaluate, nearest, symbols_of

__all__ = ["Point", "between", "corners", "distance", "grid", "resize_samples"]

Ranges = Mapping[str, tuple[int, int]]
# A box of more symbols than this has too many corners: then each symbol alone is taken to its ends.
_MAX_CORNER_SYMBOLS = 4
# Steps from a corner to the opposite one.
_PARTS = 32


@dataclasses.dataclass(frozen=True)
class Point:
    """Values of a graph's symbols, as a sorted tuple of pairs: a size to validate or to measure at."""

    items: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, values: Mapping[str, int]) -> Point:
        return cls(tuple(sorted(values.items())))

    @property
    def values(self) -> dict[str, int]:
        return dict(self.items)

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.items) or "static"


def distance(a: Point, b: Point) -> int:
    """How far apart two points are; a symbol that only one of them has makes no difference."""
    other = b.values
    return sum(abs(value - other.get(name, value)) for name, value in a.items)


def corners(ranges: Ranges, conditions: Sequence[str] = ()) -> list[Point]:
    """The corners of the ranges; for more than four symbols the two main ones and each symbol's ends alone.

    A corner where the conditions do not hold is replaced by the outermost sizes where they do, along each symbol:
    for ``b*s0 <= 20`` and the corner b=4, s0=8 these are b=2, s0=8 and b=4, s0=5.
    """
    names = sorted(ranges)
    if len(names) <= _MAX_CORNER_SYMBOLS:
        ends = itertools.product(*(sorted(set(ranges[name])) for name in names))
        points = [Point.of(dict(zip(names, values, strict=True))) for values in ends]
    else:
        low = {name: ranges[name][0] for name in names}
        high = {name: ranges[name][1] for name in names}
        points = [Point.of(low), Point.of(high)]
        for name in names:
            points += [Point.of({**low, name: high[name]}), Point.of({**high, name: low[name]})]
    if conditions:
        points = [point for corner in points for point in _outermost(corner, ranges, conditions)]
    return _unique(points)


def _outermost(corner: Point, ranges: Ranges, conditions: Sequence[str]) -> list[Point]:
    """The corner, or what of it holds, found along each symbol. If none does, the search begins farther inside."""
    opposite = {name: sum(ranges[name]) - value for name, value in corner.items}
    for part in range(_PARTS):
        start = {name: value + (opposite[name] - value) * part // _PARTS for name, value in corner.items}
        if all_hold(conditions, start):
            return [Point.of(start)]
        moved = [_moved(start, name, ranges, conditions) for name in start]
        found = [point for point in moved if point is not None]
        if found:
            return found
    return []


def _moved(start: Mapping[str, int], name: str, ranges: Ranges, conditions: Sequence[str]) -> Point | None:
    """The nearest point where the conditions hold, of those that differ in one symbol only."""
    value = nearest(start[name], ranges[name], lambda value: all_hold(conditions, {**start, name: value}))
    return None if value is None else Point.of({**start, name: value})


def _settled(point: Point, ranges: Ranges, conditions: Sequence[str]) -> Point | None:
    """The point, or one near it where the conditions hold; None: none was found."""
    values = point.values
    for name, value in point.items:
        own = [condition for condition in conditions if symbols_of(condition) == (name,)]
        moved = _moved({name: value}, name, ranges, own)
        values[name] = value if moved is None else moved.values[name]
    if all_hold(conditions, values):
        return Point.of(values)
    near = (_moved(values, name, ranges, conditions) for name in values)
    return next((point for point in near if point is not None), None)


def between(ranges: Ranges, known: Iterable[Point], count: int = 4, conditions: Sequence[str] = ()) -> list[Point]:
    """Up to ``count`` points inside the ranges that are neither corners nor known, spread evenly and always the same.

    Fractions of the golden ratio (a low-discrepancy sequence) put each symbol at other places, so that sizes that are
    equal by chance, odd and even, and multiples of a block size all occur. Where the conditions do not hold, points
    near by are taken where they do.
    """
    taken = set(known) | set(corners(ranges, conditions))
    golden = 0.6180339887498949
    points: list[Point] = []
    names = sorted(ranges)
    for step in range(1, 8 * count + 1):
        values = {}
        for place, name in enumerate(names):
            low, high = ranges[name]
            fraction = (step * golden ** (place + 1)) % 1.0
            values[name] = low + int(fraction * (high - low + 1))
        point = _settled(Point.of(values), ranges, conditions)
        if point is not None and point not in taken:
            taken.add(point)
            points.append(point)
        if len(points) == count:
            break
    return points


def grid(
    ranges: Ranges,
    recorded: Sequence[Point],
    batch_sizes: Sequence[int] = (),
    typical: Mapping[str, int] | None = None,
    batch_symbol: str = "b",
    limit: int = 12,
    conditions: Sequence[str] = (),
) -> list[Point]:
    """Where engines are measured: at most four batch sizes, of those asked for or else recorded, each with low, typical
    and high values of the other symbols as they were recorded, or as ``typical`` has them; near by where the conditions
    do not hold there."""
    if not ranges:
        return [Point.of({})]
    axes: list[list[int]] = []
    names = sorted(ranges)
    for name in names:
        low, high = ranges[name]
        seen = sorted(point.values[name] for point in recorded if low <= point.values.get(name, low - 1) <= high)
        seen = seen or [low, high]
        usual = {typical[name]} if typical and low <= typical.get(name, low - 1) <= high else set()
        if name == batch_symbol:
            asked = {size for size in batch_sizes if low <= size <= high} | usual
            sizes = sorted((asked or set(seen)) | {low, high})
            axes.append(_spread(sizes, 4))
        else:
            axes.append(sorted({low, high} | (usual or {seen[len(seen) // 2]})))
    while _product(len(axis) for axis in axes) > limit:
        longest = max(range(len(axes)), key=lambda place: len(axes[place]))
        if len(axes[longest]) <= 2:
            break
        axes[longest] = _spread(axes[longest], len(axes[longest]) - 1)
    points = [Point.of(dict(zip(names, values, strict=True))) for values in itertools.product(*axes)]
    if len(points) > limit:
        return corners(ranges, conditions)[:limit]
    settled = (_settled(point, ranges, conditions) for point in points)
    return _unique(point for point in settled if point is not None)


def resize_samples(
    tensors: Sequence[torch.Tensor], sizes: Sequence[Sequence[int | str]], values: Mapping[str, int]
) -> list[torch.Tensor]:
    """Brings recorded tensors to the sizes that the symbols' values give, by repeating or cutting rows of each axis.

    Only values that were recorded occur in the result, so that token ids and masks stay plausible. A tensor that has
    its sizes already is itself returned.

    Raises ``ValueError`` when an empty axis would have to grow.
    """
    for index, (tensor, axes) in enumerate(zip(tensors, sizes, strict=True)):
        for axis, expression in enumerate(axes):
            wanted = int(evaluate(expression, values))
            if tensor.shape[axis] == 0 < wanted:
                raise ValueError(f"tensor {index}: axis {axis} is empty and can't be repeated to size {wanted}")
    return resize_tensors(tensors, sizes, values)


def _unique(points: Iterable[Point]) -> list[Point]:
    return list(dict.fromkeys(points))


def _spread(values: Sequence[int], count: int) -> list[int]:
    if len(values) <= count:
        return list(values)
    if count == 1:
        return [values[-1]]
    return sorted({values[round(place * (len(values) - 1) / (count - 1))] for place in range(count)})


def _product(numbers: Iterable[int]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result
