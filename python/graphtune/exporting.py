"""Exports one execution graph with torch.export, as a function of flat tensors, and says what the exporter made of it.

Sizes are named by the symbols of the graph's specification (``b``, ``s0``, ``2*b``, ``s0+s1``). The exporter has
its own; they are read back from the exported program and translated, so that an axis that was silently fixed, two
symbols that were silently unified and a range that was silently narrowed are found.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .export_checks import EagerRun, StateWatch, find_random_ops
from .export_cleanup import drop_empty_operands
from .export_examples import make_example, sizes_of
from .export_readback import (
    ExportError,
    ReadBack,
    find_conditions,
    user_inputs,
    user_outputs,
)
from .exported_graph import Alias, ExportedGraph
from .flat_module import FlatModule
from .size_expressions import (
    Ranges,
    Shape,
    Size,
    always_holds,
    evaluate,
    holding_range,
    holds_at,
    ranges_of,
    symbols_of,
    without_implied,
)

__all__ = [
    "ExportError",
    "export_flat",
]


# --- calling the exporter ----------------------------------------------------------------------------------------


def _dynamic_shapes(shapes: Sequence[Shape], ranges: Ranges, named: bool) -> tuple[tuple[Any, ...], ...]:
    """The exporter's dims. Named ones keep a symbol one on all its axes; automatic ones take what they can get.

    A sum of two symbols cannot be written with named dims, so such an axis is automatic in any case.
    """
    # A Dim of a single size is refused; an axis of such a symbol alone is fixed already.
    dims = {name: torch.export.Dim(name, min=low, max=high) for name, (low, high) in ranges.items() if low < high}

    def dim(size: Size) -> Any:
        if isinstance(size, int):
            return torch.export.Dim.STATIC
        if named and size in dims:
            return dims[size]
        names = symbols_of(size)
        factor = re.fullmatch(r"(\d+)\*(\w+)|(\w+)\*(\d+)", size.replace(" ", ""))
        if named and factor and names[0] in dims and any(size == names[0] for s in shapes for size in s):
            return int(factor[1] or factor[4]) * dims[names[0]]
        low, high = ranges_of(size, ranges)
        return torch.export.Dim.AUTO(min=low, max=high)

    return (tuple({axis: dim(s) for axis, s in enumerate(shape)} for shape in shapes),)


@contextmanager
def _quiet_export() -> Iterator[None]:
    import torch.fx.experimental._config as symbolic_config

    # Sizes 0 and 1 are traced as any other: else `if batch == 1` is silently decided by the example, and a
    # range that starts at 1 is not really covered.
    # What torch logs on its way to an error comes with the error; other threads' records pass.
    this_thread = threading.get_ident()
    handlers = logging.getLogger("torch").handlers

    def from_elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != this_thread

    for handler in handlers:
        handler.addFilter(from_elsewhere)
    try:
        with (
            symbolic_config.patch(backed_size_oblivious=True),  # type: ignore[attr-defined]
            warnings.catch_warnings(),
            torch.no_grad(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(from_elsewhere)


def _export(
    module: FlatModule, example: Sequence[torch.Tensor], shapes: Sequence[Shape], ranges: Ranges
) -> torch.export.ExportedProgram:
    from torch._dynamo.exc import UserError, UserErrorType

    def attempt(named: bool) -> torch.export.ExportedProgram:
        dims = _dynamic_shapes(shapes, ranges, named)
        with _quiet_export():
            return torch.export.export(module, tuple(example), dynamic_shapes=dims, strict=False)

    try:
        try:
            return attempt(named=True)
        except UserError as error:
            if error.error_type != UserErrorType.CONSTRAINT_VIOLATION:
                raise
            # The model needs something of the sizes (equal, fixed, smaller): let the exporter say what.
            return attempt(named=False)
    except (KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:  # exporters raise whatever the model's code runs into
        raise ExportError(f"torch.export: {_short_reason(error)}", str(error)) from error


_NOISE = re.compile(
    r"(For more information|The error above occurred|For extended logs|If you suspect|For more debugging|"
    r"For C\+\+ stack|Suggested fixes|consider using|Caused by|To fix the error|User [Ss]tack|User code)"
)


def _short_reason(error: BaseException, limit: int = 400) -> str:
    """The first sentences of an exporter's message, and the model's line where it names one."""
    text = str(error).strip() or type(error).__name__
    place = re.search(r"The following call raised this error:\s*\n\s*(File .+)\n\s*(.+)", text)
    lines = []
    for line in text.splitlines():
        if _NOISE.search(line) or line.startswith("The following call"):
            head = _NOISE.split(line)[0].strip()
            if head:
                lines.append(head)
            break
        if line.strip():
            lines.append(line.strip())
    reason = " ".join(lines) or text.splitlines()[0]
    if not isinstance(error, RuntimeError) or type(error) is RuntimeError:
        reason = f"{type(error).__name__}: {reason}"
    if len(reason) > limit:
        reason = reason[: limit - 1].rstrip() + "…"
    if place:
        reason += f" (at {place[1].strip()}: {place[2].strip()})"
    return reason


# --- the whole -------------------------------------------------------------------------------------------------------


def _check_arguments(tensors: Sequence[torch.Tensor], shapes: Sequence[Shape], ranges: Ranges) -> None:
    if len(tensors) != len(shapes):
        raise ValueError(f"shapes: {len(shapes)} were given for {len(tensors)} tensors")
    for index, (tensor, shape) in enumerate(zip(tensors, shapes, strict=True)):
        if tensor.dim() != len(shape):
            raise ValueError(f"shapes[{index}] has {len(shape)} axes, its tensor {tensor.dim()}")
        for axis, size in enumerate(shape):
            unknown = [name for name in symbols_of(size) if name not in ranges]
            if unknown:
                raise ValueError(f"shapes[{index}][{axis}] = {size!r}: no range is given for {unknown[0]}")
            if isinstance(size, int) and size != tensor.shape[axis]:
                raise ValueError(f"shapes[{index}][{axis}] is {size}, its tensor has {tensor.shape[axis]}")
    for name, (low, high) in ranges.items():
        if not 0 <= low <= high:
            raise ValueError(f"ranges[{name!r}] = ({low}, {high}) is not a range of sizes")


def _settle(shape: Shape, single: Mapping[str, int]) -> list[Size]:
    """A shape with the symbols of one possible size replaced by it; an expression that mixes both stays one."""
    result: list[Size] = []
    for size in shape:
        names = symbols_of(size)
        if names and all(name in single for name in names):
            result.append(int(evaluate(size, single)))
        else:
            result.append(size)
    return result


def _same_shapes(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> bool:
    return all(one.shape == other.shape for one, other in zip(left, right, strict=True))


def _run_recorded(watch: StateWatch, tensors: Sequence[torch.Tensor]) -> EagerRun:
    try:
        return watch.run(tensors)
    except Exception as error:
        raise ExportError(f"the model fails on its own sample: {_short_reason(error)}", str(error)) from error


def _compare_with_eager(
    program: torch.export.ExportedProgram,
    what: str,
    inputs: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            actual = program.module()(*[tensor.clone() for tensor in inputs])
        except Exception as error:
            raise ExportError(f"the exported program fails {what}: {_short_reason(error)}", str(error)) from error
    for index, (want, got) in enumerate(zip(expected, actual, strict=True)):
        try:
            torch.testing.assert_close(got, want, equal_nan=True)
        except AssertionError as error:
            raise ExportError(
                "the exported program gives other values than eager: "
                f"output {index} {what}: {' '.join(str(error).split())}"
            ) from None


def _narrow(ranges: Ranges, conditions: Sequence[str]) -> tuple[dict[str, tuple[int, int]], list[str]]:
    """Ranges cut to what the one-symbol conditions allow, and the conditions that this does not say already."""
    narrowed = dict(ranges)
    for name, span in ranges.items():
        held = holding_range(conditions, name, span)
        if held is None:
            raise ExportError(
                f"torch.export: no size of {name} in {span[0]}..{span[1]} fits {' and '.join(conditions)}"
            )
        narrowed[name] = held
    rest = [condition for condition in conditions if not always_holds(condition, narrowed)]
    return narrowed, without_implied(rest, narrowed)


def export_flat(
    flat_module: FlatModule,
    tensors: Sequence[torch.Tensor],
    shapes: Sequence[Shape],
    ranges: Ranges,
    path: str | Path,
) -> ExportedGraph:
    """Exports the graph for all sizes in `ranges`, saves it to `path` and compares its values with eager.

    `shapes[i][axis]` is a size or an expression over the symbols of `ranges`. Inputs are exported as contiguous
    tensors. Raises ExportError with the exporter's reason.
    """
    started = time.monotonic()
    _check_arguments(tensors, shapes, ranges)
    single = {name: low for name, (low, high) in ranges.items() if low == high}
    flexible = {name: span for name, span in ranges.items() if name not in single}
    settled = [_settle(shape, single) for shape in shapes]
    recorded = [t.detach().clone(memory_format=torch.contiguous_format) for t in tensors]
    example = make_example(tensors, settled, ranges)

    watch = StateWatch(flat_module)
    try:
        runs = [("on the traced example", example, watch.run(example))]
    except Exception:  # the model's own error: these made sizes do not suit it, the recorded ones do
        example = recorded
        runs = []
    if not _same_shapes(example, recorded) or not runs:
        runs.append(("on the recorded sample", recorded, _run_recorded(watch, recorded)))
    try:
        program = _export(flat_module, example, settled, ranges)
    finally:
        watch.restore()
    drop_empty_operands(program)
    read = ReadBack(program, settled, ranges)
    found = find_conditions(program, settled, ranges)
    narrowed, conditions = _narrow(ranges, found)
    random_ops = find_random_ops(program)
    aliases = [Alias(*alias) for alias in runs[-1][2][1]]
    lowest = {name: low for name, (low, _) in narrowed.items()}
    for what, inputs, (outputs, _) in runs:
        if not outputs:
            raise ExportError("the result holds no tensor")
        sizes = {**lowest, **sizes_of(inputs, shapes)}
        # Where forward writes to its state, a second run has other values by right; the reason says so.
        if holds_at(sizes, narrowed, conditions) and not (random_ops or watch.mutated_state):
            _compare_with_eager(program, what, inputs, outputs)

    results = user_outputs(program)
    output_shapes = [[read.size(size) for size in value.shape] for value in results]
    graph = ExportedGraph(
        path=str(path),
        shapes=[list(shape) for shape in settled],
        dtypes=[_dtype(value) for value in user_inputs(program)],
        output_shapes=output_shapes,
        output_dtypes=[_dtype(value) for value in results],
        ranges=narrowed,
        narrowed={n: span for n, span in narrowed.items() if n in flexible and span != tuple(ranges[n])},
        conditions=conditions,
        unified=sorted(sorted(pair) for pair in read.equal),
        fixed_axes=read.fixed,
        aliases=aliases,
        mutated_inputs=sorted(watch.mutated_inputs),
        mutated_state=sorted(watch.mutated_state),
        random_ops=random_ops,
        unbacked_outputs=[i for i, v in enumerate(results) if _is_unbacked(v)],
        torch_version=torch.__version__,
        seconds=0.0,
        program=program,
    )
    _save(program, Path(path))
    return replace(graph, reason=_why_not(graph), seconds=time.monotonic() - started)


def _save(program: torch.export.ExportedProgram, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # An axis of size s0 + s1 has a range of its own. Loaded again, torch takes it for a symbol's and can't decompose
    # the program; it says nothing that the ranges of its symbols don't.
    ranges = program.range_constraints
    sums = {expression: span for expression, span in ranges.items() if not expression.is_Symbol}
    for expression in sums:
        del ranges[expression]
    try:
        torch.export.save(program, str(path))
    finally:
        ranges.update(sums)


def _dtype(value: torch.Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")


def _is_unbacked(value: torch.Tensor) -> bool:
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols(value))


def _why_not(graph: ExportedGraph) -> str | None:
    reasons = []
    if graph.mutated_inputs:
        reasons.append(f"forward writes into its input {', '.join(map(str, graph.mutated_inputs))}")
    if graph.mutated_state:
        reasons.append(f"forward changes the model's state: {', '.join(graph.mutated_state)}")
    views = [alias for alias in graph.aliases if alias.kind == "view"]
    if views:
        reasons.append(f"output {views[0].output} is a view of input {views[0].input}")
    if graph.random_ops:
        reasons.append(f"forward draws random numbers: {', '.join(graph.random_ops)}")
    return "; ".join(reasons) or None
