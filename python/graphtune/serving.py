"""Puts engines before a model: the router, what of the model it watches, and the calls that it must not see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from . import _core
from .recording import RecordingModule, is_traced

__all__ = ["is_transformed", "tuned_router"]


def tuned_router(
    router: _core.Router, signature: Any, templates: Sequence[Any], model: torch.nn.Module | None
) -> _core.TunedRouter:
    """A router for calls of Python objects. With a model: none is served once the model has changed.

    A model has changed when a parameter or buffer was written or moved, when one of them, a submodule or a mode was
    replaced, and when a hook was added or removed.
    """
    found = [] if model is None else list(model.modules())
    # Of a wrapped module, both: a wrapper has no state of its own but its hooks.
    parts = [part.wrapped if isinstance(part, RecordingModule) else part for part in found]
    weights = [] if model is None else [*model.parameters(), *model.buffers()]
    dicts = [each for part in parts for each in (part._parameters, part._buffers, part._modules)]
    slots = [*((each, name) for each in dicts for name in each), *((vars(part), "training") for part in parts)]
    hooked = list(dict.fromkeys([*found, *parts]))
    hooks = [each for part in hooked for each in (part._forward_hooks, part._forward_pre_hooks)]
    return _core.make_tuned_router(router, signature, templates, weights, slots, hooks)


def is_transformed() -> bool:
    """The call is traced, or computes otherwise than it says: an engine would be a constant to the tracer, lose a
    tangent, or ignore autocast."""
    return (
        is_traced()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch.is_autocast_enabled("cpu")
        or forward_ad._current_level >= 0
    )
