"""How ops of an exported program treat index values: tables of ops, and what can be read off a node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from .index_values import Interval, Pieces, add, hull, is_number

_words = str.split

# Ops whose elements are those of their first argument, all or some.
SAME_VALUES = frozenset(
    _words(
        "view reshape expand expand_as squeeze unsqueeze permute transpose t slice select narrow clone contiguous "
        "detach alias lift_fresh lift_fresh_copy flatten unflatten repeat flip roll movedim unfold diagonal chunk "
        "split split_with_sizes unbind type_as view_as _unsafe_view _reshape_alias broadcast_to swapaxes swapdims item "
        "_local_scalar_dense index_select gather take_along_dim index _unsafe_index tile take masked_select amax amin "
        "to _to_copy dropout rot90 tensor_split squeeze_copy unsqueeze_copy view_copy slice_copy select_copy "
        "expand_copy permute_copy tril triu"
    )
)
UNIONS = frozenset(_words("cat concat concatenate stack hstack vstack dstack maximum minimum fmax fmin"))
# Their values are those of the first argument, or positions.
WITH_POSITIONS = frozenset(_words("sort topk kthvalue mode median cummax cummin max min"))
# Some elements are replaced by those of the argument that is named here.
REPLACING = {
    "masked_fill": "value", "fill": "value", "constant_pad_nd": "value", "pad": "value", "index_fill": "value",
    "select_scatter": "src", "slice_scatter": "src", "scatter": "src", "index_put": "values", "copy": "src",
    "_unsafe_index_put": "values", "index_copy": "source", "masked_scatter": "source",
}  # fmt: skip
# Only the first argument's sizes matter, not its values.
VALUE_FREE = frozenset(
    _words(
        "sym_size sym_numel sym_stride zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty"
    )
)


def point(value: Any) -> Pieces:
    return (Interval(value, value),)


def number(pieces: Pieces) -> int | None:
    """The one integer that the pieces stand for, if they do."""
    if len(pieces) == 1 and isinstance(pieces[0], Interval):
        low, high = pieces[0].low, pieces[0].high
        if isinstance(low, int) and low == high:
            return low
    return None


def size_expression(size: Any) -> Any:
    """A size as a number or as an expression over the exporter's symbols."""
    if isinstance(size, torch.SymInt):
        expression = size.node.expr
        return int(expression) if expression.is_Integer else expression
    return size if isinstance(size, int) and not isinstance(size, bool) else None


def dimension(node: Any, axis: int) -> Any:
    fake = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if not isinstance(fake, torch.Tensor) or not -fake.dim() <= axis < fake.dim():
        return None
    return size_expression(fake.shape[axis])


def numel(node: Any) -> Any:
    fake = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return size_expression(fake.numel()) if isinstance(fake, torch.Tensor) else None


def is_mask(node: Any) -> bool:
    return isinstance(node, torch.fx.Node) and node.meta["val"].dtype in (torch.bool, torch.uint8)


def aligned_indices(indices: Sequence[Any]) -> list[tuple[int, Any]]:
    """The indices with the axis that each picks from; a mask covers as many axes as it has."""
    axis, result = 0, []
    for index in indices:
        if index is not None:
            result.append((axis, index))
        axis += index.meta["val"].dim() if index is not None and is_mask(index) else 1
    return result


def named_arguments(node: torch.fx.Node) -> dict[str, Any]:
    assert isinstance(node.target, torch._ops.OpOverload)
    names = [argument.name for argument in node.target._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def attribute(module: torch.fx.GraphModule, target: Any) -> torch.Tensor | None:
    value: Any = module
    for part in str(target).split("."):
        value = getattr(value, part, None)
    return value if isinstance(value, torch.Tensor) else None


def subgraph(module: torch.fx.GraphModule, node: torch.fx.Node) -> torch.fx.GraphModule | None:
    value = getattr(module, str(node.target), None) if node.op == "get_attr" else None
    return value if isinstance(value, torch.fx.GraphModule) else None


def progression(start: Pieces, end: Pieces, step: int | None) -> Pieces:
    if step is None or step == 0 or len(start) != 1 or len(end) != 1:
        return ()
    first, last = (start, add(end, point(-1))) if step > 0 else (add(end, point(1)), start)
    low, high = first[0], last[0]
    if isinstance(low, Interval) and isinstance(high, Interval):
        return (Interval(low.low, high.high),)
    return ()


def floor_divide(pieces: Pieces, divisor: int | None) -> Pieces:
    span = hull(pieces)
    if span is None or divisor is None or divisor <= 0 or not (is_number(span.low) and is_number(span.high)):
        return ()
    low, high = (v if math.isinf(v) else v // divisor for v in (span.low, span.high))
    return (Interval(low, high, span.inputs),)


def sum(pieces: Pieces, arguments: dict[str, Any]) -> Pieces:
    """A sum of at most `count` values, which may be none."""
    dims = arguments.get("dim")
    dims = dims[0] if isinstance(dims, (list, tuple)) and len(dims) == 1 else dims
    count = dimension(arguments["self"], dims) if isinstance(dims, int) else numel(arguments["self"])
    span = hull(pieces)
    if span is None or count is None or not (isinstance(span.low, int) and isinstance(span.high, int)):
        return ()
    low, high = (0 if end == 0 else end * count for end in (min(span.low, 0), max(span.high, 0)))
    return (Interval(low, high, span.inputs),)
