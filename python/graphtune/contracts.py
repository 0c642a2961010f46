"""Ranges that the user gives: wider than what was recorded, per axis of an input."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import GraphtuneTypeError, GraphtuneValueError

__all__ = ["Batch", "Dynamic", "UserContract", "check_contract", "check_inputs", "widen"]


@dataclasses.dataclass(frozen=True)
class Batch:
    """The batch sizes to serve, ``min`` to ``max``; ``opt`` is the most frequent one."""

    min: int
    max: int
    opt: int | None = None

    def __post_init__(self) -> None:
        _check_range(self, 1)


@dataclasses.dataclass(frozen=True)
class Dynamic:
    """The sizes of a dynamic axis to serve; axes of one ``name`` are always equal."""

    name: str
    min: int
    max: int
    opt: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise GraphtuneTypeError(f"Dynamic: name must be a text, not {self.name!r}")
        _check_range(self, 0)


Axis = Batch | Dynamic
UserContract = Mapping[str, Mapping[int, Axis]]


def _check_range(axis: Axis, lowest: int) -> None:
    kind = type(axis).__name__
    for name in ("min", "max", "opt"):
        value = getattr(axis, name)
        if value is None and name == "opt":
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise GraphtuneTypeError(f"{kind}: {name} must be an int, not {value!r}")
    opt = axis.min if axis.opt is None else axis.opt
    if not lowest <= axis.min <= opt <= axis.max:
        raise GraphtuneValueError(f"{kind}: {lowest} <= min <= opt <= max does not hold for {axis}")


def check_contract(contract: Any) -> UserContract:
    """The contract itself. Raises GraphtuneTypeError where it is not input -> axis -> Batch or Dynamic."""
    if not isinstance(contract, Mapping):
        raise GraphtuneTypeError(
            f'contract: {{"input": {{axis: Batch(…) or Dynamic(…)}}}} is needed, not {type(contract).__name__}'
        )
    for path, axes in contract.items():
        if not isinstance(path, str) or not isinstance(axes, Mapping):
            raise GraphtuneTypeError(f"contract: {path!r}: a dict of axes is needed, not {type(axes).__name__}")
        for number, axis in axes.items():
            if isinstance(number, bool) or not isinstance(number, int) or not isinstance(axis, Batch | Dynamic):
                raise GraphtuneTypeError(f"contract: {path!r}: {number!r}: {axis!r} is not axis: Batch or Dynamic")
    return contract


def widen(spec: Any, contract: UserContract) -> dict[str, Axis]:
    """What the contract says of each symbol of one graph; inputs that the graph hasn't are left out.

    Raises GraphtuneValueError where it contradicts the samples, naming input, axis and what was recorded.
    """
    found: dict[str, Axis] = {}
    reports = spec.input_spec.explain()
    for path, axes in contract.items():
        of_input = [report for report in reports if path in _names(report.locator)]
        rank = len(of_input)
        for number, axis in axes.items() if of_input else ():
            where = f"contract: axis {number} of {path!r} in {spec.name}"
            if not -rank <= number < rank:
                raise GraphtuneValueError(f"{where}: the input has {rank} axes")
            report = of_input[number]
            symbol = _symbol(where, axis, report)
            low, high = spec.symbols[symbol]
            if not axis.min <= low <= high <= axis.max:
                raise GraphtuneValueError(
                    f"{where}: {axis} leaves out what was recorded, sizes {low} to {high} of {symbol}; give at least "
                    "that range, or leave those samples out"
                )
            before = found.setdefault(symbol, axis)
            if (before.min, before.max) != (axis.min, axis.max):
                raise GraphtuneValueError(f"{where}: {axis}, but {before} was given for an axis that is always equal")
    _check_names(spec, found)
    return found


def check_inputs(specs: Sequence[Any], contract: UserContract) -> None:
    """Raises GraphtuneValueError for an input that no graph has."""
    known = {name for spec in specs for locator, _ in spec.input_spec.tensor_data for name in _names(locator)}
    for path in contract:
        if path not in known:
            inputs = sorted({str(locator) for spec in specs for locator, _ in spec.input_spec.tensor_data})
            raise GraphtuneValueError(
                f"contract: no recorded call has an input {path!r}; there are {', '.join(inputs)}"
            )


def _names(locator: Any) -> set[str]:
    """How an input may be called: "['x']", "kwargs_x", and, for an argument itself, "x"."""
    names = {str(locator), locator.name}
    if len(locator.steps) == 1:
        names.add(str(locator.steps[0][1]))
    return names


def _symbol(where: str, axis: Axis, report: Any) -> str:
    size = report.size
    if isinstance(axis, Batch):
        if report.kind == "batch":
            return "b"
        raise GraphtuneValueError(f"{where} is no batch axis: {report.reason}")
    if report.kind == "dynamic" and size.startswith("s") and size[1:].isdigit():
        return str(size)
    if report.kind == "static":
        raise GraphtuneValueError(
            f"{where} has size {report.min} in all samples, so that nothing is known of what depends on it: record a "
            "call of another size"
        )
    raise GraphtuneValueError(f"{where} is {size}: give the ranges of the axes that show its symbols by themselves")


def _check_names(spec: Any, found: Mapping[str, Axis]) -> None:
    symbols: dict[str, str] = {}
    for symbol, axis in found.items():
        if isinstance(axis, Dynamic) and symbols.setdefault(axis.name, symbol) != symbol:
            raise GraphtuneValueError(
                f"contract: {axis.name!r} names axes of {spec.name} that differ in the samples "
                f"({symbols[axis.name]} and {symbol}); give them two names"
            )
