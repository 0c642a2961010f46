"""Example tensors for the exporter, whose sizes it can tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from .resizing import resize_tensors
from .size_expressions import Ranges, Shape, symbols_of

__all__ = ["make_example", "sizes_of"]


def sizes_of(tensors: Sequence[torch.Tensor], shapes: Sequence[Shape]) -> dict[str, int]:
    """The symbols' sizes in these tensors, from the axes that are a symbol alone."""
    sizes: dict[str, int] = {}
    for tensor, shape in zip(tensors, shapes, strict=True):
        for have, size in zip(tensor.shape, shape, strict=True):
            if isinstance(size, str) and symbols_of(size) == (size,):
                sizes.setdefault(size, have)
    return sizes


def _choose_sizes(sizes: Mapping[str, int], shapes: Sequence[Shape], ranges: Ranges) -> dict[str, int]:
    """Sizes for tracing: at least 2 and unlike each other and every fixed size, near the given ones."""
    taken = {size for shape in shapes for size in shape if isinstance(size, int)}
    chosen: dict[str, int] = {}
    # The narrowest range has the least choice, so it chooses first.
    for name in sorted(ranges, key=lambda n: (ranges[n][1] - ranges[n][0], n)):
        low, high = ranges[name]
        wish = min(max(sizes.get(name, low), low, 2), high)
        near = sorted(range(low, min(high, low + 4096) + 1), key=lambda size: abs(size - wish))
        free = [size for size in near if size >= 2 and size not in taken]
        chosen[name] = free[0] if free else wish
        taken.add(chosen[name])
    return chosen


def make_example(tensors: Sequence[torch.Tensor], shapes: Sequence[Shape], ranges: Ranges) -> list[torch.Tensor]:
    """Contiguous tensors of distinct sizes >= 2 where the ranges allow it, made of the given ones."""
    chosen = _choose_sizes(sizes_of(tensors, shapes), shapes, ranges)
    resized = resize_tensors([tensor.detach() for tensor in tensors], shapes, chosen)
    # Each its own object: the exporter takes one tensor passed twice for one input.
    return [tensor.clone(memory_format=torch.contiguous_format) for tensor in resized]
