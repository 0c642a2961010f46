"""A model as a function of flat tensors: what is exported, and what engines are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

__all__ = ["FlatModule"]


class FlatModule(torch.nn.Module):
    """A model seen as a function of the flat list of its call's tensors to the flat tuple of its result's tensors.

    ``begin`` sees the arguments before the model runs; what it gives is called after, for more tensors of the result.
    """

    __call__: Callable[..., tuple[torch.Tensor, ...]]  # nn.Module's gives Any

    def __init__(
        self,
        model: torch.nn.Module,
        rebuild: Callable[[list[torch.Tensor]], tuple[Sequence[Any], Mapping[str, Any]]],
        flatten_output: Callable[[Any], list[torch.Tensor]],
        begin: Callable[[Any, Any], Callable[[], list[torch.Tensor]]] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.training = model.training
        self._rebuild = rebuild
        self._flatten_output = flatten_output
        self._begin = begin

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args, kwargs = self._rebuild(list(tensors))
        finish = None if self._begin is None else self._begin(args, kwargs)
        result = self._flatten_output(self.model(*args, **kwargs))
        return tuple(result if finish is None else [*result, *finish()])
