"""Arithmetic over the symbols of sizes: ``b``, ``2*b``, ``s0+s1``, and conditions such as ``b*s0 <= 20``.

An expression is checked against a small grammar before it is compiled, so that one read from a file cannot
run anything else.
"""

from __future__ import annotations

import ast
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

__all__ = [
    "Ranges",
    "Shape",
    "Size",
    "all_hold",
    "always_holds",
    "evaluate",
    "holding_range",
    "holds",
    "holds_at",
    "nearest",
    "ranges_of",
    "symbols_of",
    "without_implied",
]

Ranges = Mapping[str, tuple[int, int]]
Size = int | str
Shape = Sequence[Size]

_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.Name, ast.Load,
    ast.Constant, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub, ast.And, ast.Or, ast.Not,
    ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
)  # fmt: skip
_FUNCTIONS: dict[str, Any] = {"min": min, "max": max}
# More points than this are sampled instead of counted through.
_MAX_POINTS = 20_000
# Values this near are looked at one by one.
_REACH = 1024


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> tuple[CodeType, tuple[str, ...]]:
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"not an expression over sizes: {expression!r}: {error}") from None
    names = set()
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise ValueError(f"{type(node).__name__} is not allowed in the expression {expression!r}")
        if isinstance(node, ast.Constant) and type(node.value) is not int:
            raise ValueError(f"{node.value!r} is not an integer in the expression {expression!r}")
        if isinstance(node, ast.Call) and (
            not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS or node.keywords
        ):
            raise ValueError(f"only min and max can be called in the expression {expression!r}")
        if isinstance(node, ast.Name) and node.id not in _FUNCTIONS:
            names.add(node.id)
    return compile(tree, "<size expression>", "eval"), tuple(sorted(names))


def symbols_of(expression: int | str) -> tuple[str, ...]:
    """The names in an expression, sorted; none for a number."""
    return () if isinstance(expression, int) else _compiled(expression)[1]


def evaluate(expression: int | str, values: Mapping[str, Any]) -> Any:
    """The value of an expression; `values` may be integers or sympy symbols."""
    if isinstance(expression, int):
        return expression
    code, names = _compiled(expression)
    missing = [name for name in names if name not in values]
    if missing:
        raise KeyError(f"no size given for {', '.join(missing)} in {expression!r}")
    return eval(code, {"__builtins__": {}, **_FUNCTIONS}, dict(values))


def ranges_of(expression: int | str, ranges: Ranges) -> tuple[int, int]:
    """The lowest and highest value of a size expression (sums and products of sizes: found at the corners)."""
    names = symbols_of(expression)
    corners = itertools.product(*(ranges[name] for name in names))
    values = [evaluate(expression, dict(zip(names, corner, strict=True))) for corner in corners]
    return min(values), max(values)


def _points(names: Sequence[str], ranges: Ranges) -> tuple[Iterator[tuple[int, ...]], bool]:
    count = 1
    for name in names:
        count *= ranges[name][1] - ranges[name][0] + 1
    if count <= _MAX_POINTS:
        return itertools.product(*(range(ranges[n][0], ranges[n][1] + 1) for n in names)), True
    chooser = random.Random(0)
    corners = itertools.product(*(ranges[name] for name in names))
    sampled = (tuple(chooser.randint(*ranges[name]) for name in names) for _ in range(_MAX_POINTS))
    return itertools.chain(corners, sampled), False


def holds(condition: str, sizes: Mapping[str, int]) -> bool:
    """Whether a condition holds for these sizes; not where it divides by 0."""
    try:
        return bool(evaluate(condition, sizes))
    except ZeroDivisionError:
        return False


def all_hold(conditions: Sequence[str], sizes: Mapping[str, int]) -> bool:
    return all(holds(condition, sizes) for condition in conditions)


def holds_at(sizes: Mapping[str, int], ranges: Ranges, conditions: Sequence[str]) -> bool:
    """Whether these sizes are inside the ranges and fit the conditions."""
    inside = all(low <= sizes[name] <= high for name, (low, high) in ranges.items())
    return inside and all_hold(conditions, sizes)


def always_holds(condition: str, ranges: Ranges) -> bool:
    """True only where the condition was evaluated at every point of the ranges and held."""
    names = symbols_of(condition)
    points, complete = _points(names, ranges)
    return all(holds(condition, dict(zip(names, point, strict=True))) for point in points) and complete


def without_implied(conditions: Sequence[str], ranges: Ranges) -> list[str]:
    """The conditions without those that hold wherever the others do, as far as that can be counted through."""
    names = sorted({name for condition in conditions for name in symbols_of(condition)})
    points, complete = _points(names, ranges)
    if len(conditions) < 2 or not complete:
        return list(conditions)
    fails = [
        {condition for condition in conditions if not holds(condition, sizes)}
        for sizes in (dict(zip(names, point, strict=True)) for point in points)
    ]
    kept = list(conditions)
    # Of two that say the same, the one of fewer symbols stays.
    for condition in sorted(conditions, key=lambda text: (len(symbols_of(text)), len(text)), reverse=True):
        # Needed where it alone refuses a point.
        if not any(each.intersection(kept) == {condition} for each in fails):
            kept.remove(condition)
    return kept


def nearest(value: int, span: tuple[int, int], good: Callable[[int], bool]) -> int | None:
    """The value of an inclusive range that is nearest to ``value`` and good, of two the smaller; None: none was found.

    Beyond a distance of 1024 distances are doubled, so that among the values farther away some may be overlooked.
    """
    low, high = span
    for distance in range(min(max(value - low, high - value), _REACH) + 1):
        for candidate in (value - distance, value + distance):
            if low <= candidate <= high and good(candidate):
                return candidate
    found = [far for end in span if (far := _nearest_far(value, end, good)) is not None]
    return min(found, key=lambda far: abs(far - value), default=None)


def _nearest_far(value: int, end: int, good: Callable[[int], bool]) -> int | None:
    whole, sign = abs(end - value), 1 if end > value else -1
    bad = distance = _REACH
    while bad < whole:
        distance = min(2 * bad, whole)
        if good(value + sign * distance):
            while distance - bad > 1:
                middle = (distance + bad) // 2
                if good(value + sign * middle):
                    distance = middle
                else:
                    bad = middle
            return value + sign * distance
        bad = distance
    return None


def holding_range(conditions: Sequence[str], symbol: str, span: tuple[int, int]) -> tuple[int, int] | None:
    """The range cut at both ends to values for which all conditions hold that have no other symbol; None: there is
    none. In between some may not hold."""
    mine = [condition for condition in conditions if symbols_of(condition) == (symbol,)]

    def good(value: int) -> bool:
        return all_hold(mine, {symbol: value})

    low, high = nearest(span[0], span, good), nearest(span[1], span, good)
    return None if low is None or high is None else (low, high)
