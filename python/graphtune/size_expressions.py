"""Arithmetic over the symbols of sizes: ``b``, ``2*b``, ``s0+s1``, and conditions such as ``b*s0 <= 20``.

An expression is checked against a small grammar before it is compiled, so that one read from a file cannot
run anything else.
"""

from __future__ import annotations

import ast
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

__all__ = [
    "Ranges",
    "Shape",
    "Size",
    "always_holds",
    "evaluate",
    "holding_values",
    "ranges_of",
    "symbols_of",
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


def always_holds(condition: str, ranges: Ranges) -> bool:
    """True only where the condition was evaluated at every point of the ranges and held."""
    names = symbols_of(condition)
    points, complete = _points(names, ranges)
    return all(_holds(condition, names, point) for point in points) and complete


def holding_values(conditions: Sequence[str], symbol: str, span: tuple[int, int]) -> list[int]:
    """The values of one symbol for which all conditions that have no other symbol hold."""
    mine = [condition for condition in conditions if symbols_of(condition) == (symbol,)]
    low, high = span
    if not mine:
        return list(range(low, high + 1))
    return [v for v in range(low, high + 1) if all(_holds(c, (symbol,), (v,)) for c in mine)]


def _holds(condition: str, names: Sequence[str], point: Sequence[int]) -> bool:
    try:
        return bool(evaluate(condition, dict(zip(names, point, strict=True))))
    except ZeroDivisionError:
        return False  # a guard that divides by a size of 0 cannot hold there
