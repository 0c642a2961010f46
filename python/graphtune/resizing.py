"""Brings tensors to other sizes by repeating or cutting their slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from .size_expressions import Shape, evaluate

__all__ = ["resize_axis", "resize_tensors"]


def resize_axis(tensor: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """The tensor with another size along one axis: its slices repeated in turn, or the first ones; zeros where there is
    none to repeat. A tensor that has its size already is itself returned."""
    have = tensor.shape[axis]
    if have == size:
        return tensor
    if have == 0:
        shape = [*tensor.shape[:axis], size, *tensor.shape[axis + 1 :]]
        return torch.zeros(shape, dtype=tensor.dtype, device=tensor.device)
    return tensor.index_select(axis, torch.arange(size, device=tensor.device) % have)


def resize_tensors(
    tensors: Sequence[torch.Tensor], shapes: Sequence[Shape], values: Mapping[str, int]
) -> list[torch.Tensor]:
    """The tensors at the sizes that the symbols' values give, axis by axis."""
    resized = []
    for tensor, shape in zip(tensors, shapes, strict=True):
        for axis, size in enumerate(shape):
            tensor = resize_axis(tensor, axis, int(evaluate(size, values)))
        resized.append(tensor)
    return resized
