"""Puts engines before a model: the router, what of the model it watches, and the calls that it must not see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from . import _core
from .call_mode import call_mode_variable
from .recording import RecordingModule

__all__ = ["TO_RECORD", "is_transformed", "take_calls_of", "tuned_router"]

#: What a module that records has in the place of a router.
TO_RECORD: Final = object()


def _call_entry() -> _core.CallEntry:
    hooks = [
        getattr(torch.nn.modules.module, f"_global_{kind}_hooks")
        for kind in ("forward", "forward_pre", "backward", "backward_pre")
    ]
    untraced = [
        (vars(forward_ad), "_current_level", -1),
        (vars(torch.fx._symbolic_trace), "_is_fx_tracing_flag", False),
        (vars(torch.compiler), "_is_compiling_flag", False),
    ]
    for names, name, _ in untraced:
        if name not in names:
            raise ImportError(f"this version of torch has no {name}, by which graphtune sees that a call is traced")
    return _core.CallEntry(torch.nn.Module, TO_RECORD, call_mode_variable, hooks, untraced, _has_function_modes)


def _has_function_modes() -> bool:
    """Something changes what torch's functions do, and be it by giving them another device. A default device by itself
    is none: whether it is the one that the module was tuned with is another question."""
    modes = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return any(type(mode) is not torch.utils._device.DeviceContext for mode in modes)


_entry = _call_entry()

#: ``take_calls_of(class)``: calls of its instances go from the interpreter straight into the core. It gives the result
#: of the engine for a call whose form was served before, or of a module that records that of the model. What
#: ``Module.forward`` checks is checked; where anything else is to be done, the call goes on to ``nn.Module.__call__``,
#: and so to ``forward``.
take_calls_of = _entry.take_calls_of


def tuned_router(
    router: _core.Router, signature: Any, templates: Sequence[Any], model: torch.nn.Module | None
) -> _core.TunedRouter:
    """A router for calls of Python objects. With a model: none is served once the model has changed.

    A model has changed when a parameter or buffer was written or moved, when one of them, a submodule, a mode
    or ``forward`` was replaced, when a hook was added or removed, and when torch's default dtype or device is another.
    """
    found = [] if model is None else list(model.modules())
    # Of a wrapped module, both: a wrapper has no state of its own but its hooks.
    parts = [part.wrapped if isinstance(part, RecordingModule) else part for part in found]
    weights = [] if model is None else [*model.parameters(), *model.buffers()]
    dicts = [each for part in parts for each in (part._parameters, part._buffers, part._modules)]
    slots = [*((each, name) for each in dicts for name in each)]
    slots += [(vars(part), name) for part in parts for name in ("training", "forward")]
    hooked = list(dict.fromkeys([*found, *parts]))
    hooks = [each for part in hooked for each in (part._forward_hooks, part._forward_pre_hooks)]
    default_device = None if model is None else torch.get_default_device
    return _core.make_tuned_router(router, signature, templates, weights, slots, hooks, default_device)


def is_transformed() -> bool:
    """The call is traced, or computes otherwise than it says: an engine would be a constant to the tracer, lose a
    tangent, or ignore autocast."""
    return is_compiling() or _entry.is_transformed()
