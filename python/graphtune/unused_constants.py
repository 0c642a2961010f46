"""Which constants of a call its result does not depend on; asked where strict mode is off."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from . import _core

__all__ = ["find_unused_constants"]


class Call(Protocol):
    """A recorded call."""

    @property
    def args(self) -> tuple[Any, ...]: ...

    @property
    def kwargs(self) -> dict[str, Any]: ...


def find_unused_constants(model: torch.nn.Module, signature: Any, base: Call, others: Sequence[Call]) -> list[int]:
    """Places, in canonical order, of the constants that differ between ``base`` and ``others`` and that ``model`` never
    looks at.

    TorchDynamo guards every value of Python that the traced code depends on. So a constant is unused when code that was
    traced with one value takes a call with another without being traced again. Where the model can't be traced whole,
    all count as used.
    """
    values = _core.call_constants(base.args, base.kwargs, signature)
    tensors = list(_core.call_tensors(base.args, base.kwargs, signature))
    unused: set[int] = set()
    used: set[int] = set()
    for other in others:
        changed = {
            place
            for place, (ours, theirs) in enumerate(
                zip(values, _core.call_constants(other.args, other.kwargs, signature), strict=True)
            )
            if ours != theirs
        }
        if not changed or changed <= unused or changed & used:
            continue
        # Copies of the containers, which the model may change.
        first, call = (_core.call_with_tensors(each.args, each.kwargs, tensors, signature) for each in (base, other))
        if _takes_without_tracing(model, first, call):
            unused |= changed
        elif len(changed - unused) == 1:
            used |= changed - unused
    return sorted(unused)


def _takes_without_tracing(model: torch.nn.Module, call: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    traced = 0

    def count(graph: torch.fx.GraphModule, _: Sequence[torch.Tensor]) -> Callable[..., Any]:
        nonlocal traced
        traced += 1
        return graph.forward

    def run(args: Any, kwargs: Any) -> Any:
        return model(*args, **kwargs)

    # A code object of its own: what is traced of it is forgotten with it, and nothing of the user's is.
    run.__code__ = run.__code__.replace()
    compiled = torch.compile(run, backend=count, fullgraph=True, dynamic=False)
    settings = {"specialize_int": True, "specialize_float": True, "automatic_dynamic_shapes": False}
    try:
        with torch._dynamo.config.patch(settings), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = _core.result_tensors(compiled(*call))
            before = traced
            actual = _core.result_tensors(compiled(*other))
    except Exception:  # a model that Dynamo can't trace raises whatever it likes: nothing is known of it then
        return False
    finally:
        torch._C._dynamo.eval_frame.reset_code(run.__code__)
    return traced == before == 1 and all(
        torch.equal(ours.nan_to_num(), theirs.nan_to_num()) if ours.is_floating_point() else ours.equal(theirs)
        for ours, theirs in zip(expected, actual, strict=True)
    )
