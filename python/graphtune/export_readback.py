"""Reads an exported program's sizes back and translates the exporter's symbols into the caller's."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import _core
from .size_expressions import Ranges, Shape, Size, always_holds, evaluate, symbols_of

__all__ = ["ExportError", "FixedAxis", "ReadBack", "find_conditions", "user_inputs", "user_outputs"]


class ExportError(RuntimeError):
    """A graph that cannot be exported; the message is the reason for people, `details` the exporter's whole text."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details or message


@dataclass(frozen=True)
class FixedAxis:
    """An axis that was to be dynamic and that the exported program holds at one size."""

    input: int
    axis: int
    symbol: str
    size: int


class ReadBack:
    """Translates the exporter's symbols into ours, from the input axes."""

    def __init__(self, program: Any, shapes: Sequence[Shape], ranges: Ranges) -> None:
        import sympy  # type: ignore[import-untyped]

        self._sympy = sympy
        self.ours: dict[str, Any] = {n: sympy.Symbol(n, integer=True, positive=True) for n in ranges}
        self.theirs: dict[Any, Any] = {}  # exporter's symbol -> our expression
        self.fixed: list[FixedAxis] = []
        self.equal: set[frozenset[str]] = set()
        inputs = user_inputs(program)
        derived = []
        for index, (value, shape) in enumerate(zip(inputs, shapes, strict=True)):
            for axis, (got, size) in enumerate(zip(value.shape, shape, strict=True)):
                if isinstance(size, int):
                    continue
                expression = got.node.expr if isinstance(got, torch.SymInt) else sympy.Integer(got)
                if not expression.free_symbols:
                    self.fixed.append(FixedAxis(index, axis, size, int(expression)))
                elif size in self.ours:
                    self._match(expression, self.ours[size])
                else:
                    derived.append((expression, size))
        for expression, size in derived:
            self._match(expression, evaluate(size, self.ours))

    def _match(self, expression: Any, our: Any) -> None:
        known = expression.xreplace(self.theirs)
        free = [symbol for symbol in expression.free_symbols if symbol not in self.theirs]
        if not free:
            if known != our and known in self.ours.values() and our in self.ours.values():
                self.equal.add(frozenset((str(known), str(our))))
        elif len(free) == 1:
            solutions = self._sympy.solve(known - our, free[0])
            if len(solutions) == 1:
                self.theirs[free[0]] = solutions[0]

    def size(self, got: Any) -> Size | None:
        if not isinstance(got, torch.SymInt):
            return int(got)
        expression = got.node.expr.xreplace(self.theirs)
        if not expression.free_symbols:
            return int(expression)
        if not expression.free_symbols <= set(self.ours.values()):
            return None
        text = str(expression).replace(" ", "")
        try:
            symbols_of(text)
        except ValueError:
            return None  # a form that is not ours, such as a ceiling
        return text


def _user_values(program: Any, inputs: bool) -> list[Any]:
    if inputs:
        names = program.graph_signature.user_inputs
        values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
        return [values[name] for name in names]
    output = program.graph.find_nodes(op="output")[0]
    specs = program.graph_signature.output_specs
    return [
        node.meta.get("val") if isinstance(node, torch.fx.Node) else node
        for node, spec in zip(output.args[0], specs, strict=True)
        if spec.kind.name == "USER_OUTPUT"
    ]


def user_inputs(program: Any) -> list[Any]:
    """The fake tensors of an exported program's user inputs, in order."""
    return _user_values(program, inputs=True)


def user_outputs(program: Any) -> list[Any]:
    """The fake tensors of an exported program's user outputs, in order."""
    return _user_values(program, inputs=False)


def find_conditions(program: Any, shapes: Sequence[Shape], ranges: Ranges) -> list[str]:
    """The guards that the exported program checks, over our symbols, without those that always hold.

    Each is one that a contract can check (SizeCondition), written as it writes it.
    """
    result = []
    guards = [*(getattr(program, "_guards_code", None) or []), *_range_guards(program, shapes)]
    for guard in guards:
        condition = re.sub(
            r"L\['tensors'\]\[(\d+)\]\.size\(\)\[(\d+)\]",
            lambda match: f"({shapes[int(match[1])][int(match[2])]})",
            guard,
        )
        try:
            names = symbols_of(condition)
        except ValueError as error:
            raise ExportError(
                f"torch.export guards its program by a condition that is not one on sizes: {guard}",
                str(error),
            ) from None
        if not set(names) <= set(ranges):
            raise ExportError(f"torch.export guards its program by {guard}, which names no known size")
        if not _same_sides(condition, names) and not always_holds(condition, ranges):
            text = ast.unparse(_InOrder().visit(ast.parse(condition.strip(), mode="eval")))
            try:
                text = str(_core.SizeCondition(text))  # without the many brackets
            except ValueError as error:
                raise ExportError(
                    f"torch.export guards its program by {text}, which can't be checked at each call", str(error)
                ) from None
            if text not in result:
                result.append(text)
    return result


class _InOrder(ast.NodeTransformer):
    """Writes a product of two symbols as elsewhere: b*s0."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.BinOp:
        self.generic_visit(node)
        left, right = node.left, node.right
        if isinstance(node.op, ast.Mult) and isinstance(left, ast.Name) and isinstance(right, ast.Name):
            node.left, node.right = sorted((left, right), key=lambda name: (len(name.id), name.id))
        return node


def _range_guards(program: Any, shapes: Sequence[Shape]) -> list[str]:
    """The exporter's own ranges of input sizes, as guards."""
    guards = []
    for index, (value, shape) in enumerate(zip(user_inputs(program), shapes, strict=True)):
        for axis, (got, size) in enumerate(zip(value.shape, shape, strict=True)):
            if isinstance(size, int):
                continue
            name = f"L['tensors'][{index}].size()[{axis}]"
            if not isinstance(got, torch.SymInt):
                guards.append(f"{name} == {int(got)}")
                continue
            span = program.range_constraints.get(got.node.expr)
            if span is not None and span.lower.is_Integer:
                guards.append(f"{name} >= {int(span.lower)}")
            if span is not None and span.upper.is_Integer:
                guards.append(f"{name} <= {int(span.upper)}")
    return guards


def _same_sides(condition: str, names: Sequence[str]) -> bool:
    """Whether a condition is an equation of two equal polynomials, as `b == b` over many more points than we try."""
    import sympy

    left, equals, right = condition.partition("==")
    if not equals:
        return False
    symbols = {name: sympy.Symbol(name, integer=True, positive=True) for name in names}
    try:
        difference = evaluate(left, symbols) - evaluate(right, symbols)
        return bool(sympy.expand(difference) == 0)
    except (ValueError, TypeError):
        return False  # not two plain sides
