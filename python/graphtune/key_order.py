"""Finds models whose result depends on the order of a dict's keys.

The order is no part of a call's identity, and an engine is built for one order only.
"""

from __future__ import annotations

import collections
import inspect
from collections.abc import Sequence
from typing import Any

import torch

from . import _core

__all__ = ["find_key_order"]

Path = tuple[str, tuple[tuple[str, Any], ...]]  # "args" or "kwargs", and the steps from there
# Each dict costs a run of the model; of more than these, all others are changed in one run.
_MOST_RUNS = 16


def find_key_order(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], signature: Any
) -> tuple[str, str] | None:
    """The dict of a call whose order of keys changes the result: its locator, and what changes. None if there is none.

    The model must neither write to its inputs nor to its state.
    """
    parameters = _parameters(model)
    args, kwargs = _by_name(parameters, args, kwargs)
    any_keyword = not parameters or any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    dicts = _dicts_of(args, kwargs, any_keyword)
    if not dicts:
        return None
    tensors = list(_core.call_tensors(args, kwargs, signature))
    unlike = [_unlike_others(tensor, number) for number, tensor in enumerate(tensors)]

    def run(given: Sequence[torch.Tensor], changed: Sequence[Path]) -> Any:
        new_args, new_kwargs = _core.call_with_tensors(args, kwargs, given, signature)
        for path in changed:
            _move_first_key_to_the_end(_follow(new_args, new_kwargs, path))
        with torch.no_grad():
            result = model(*new_args, **new_kwargs)
        return result, new_args, new_kwargs  # which it may have changed

    try:
        expected = run(unlike, [])
    except Exception:  # other values don't suit the model; the recorded ones do
        unlike = tensors
        expected = run(unlike, [])
    alone, together = dicts[:_MOST_RUNS], dicts[_MOST_RUNS:]
    for changed in [*([each] for each in alone), *([together] if together else [])]:
        try:
            difference = _difference(expected, run(unlike, changed))
        except Exception as error:  # whatever the model's code runs into
            difference = f"the model raises {type(error).__name__}"
        if difference:
            return _text(changed[0]), difference
    return None


def _parameters(model: torch.nn.Module) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):  # a forward written in C++ may have no signature
        return []


def _by_name(
    parameters: Sequence[inspect.Parameter], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The call with its arguments by name, as graphs have them."""
    if not parameters or any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        return args, kwargs
    nameless = sum(parameter.kind is inspect.Parameter.POSITIONAL_ONLY for parameter in parameters)
    names = [parameter.name for parameter in parameters[nameless : len(args)]]
    return args[:nameless], {**dict(zip(names, args[nameless:], strict=True)), **kwargs}


def _dicts_of(args: tuple[Any, ...], kwargs: dict[str, Any], any_keyword: bool) -> list[Path]:
    """The dicts with more than one key whose order a caller can choose."""
    metadata = _core.SampleMetadata.from_inputs(args, kwargs, strict=True)
    found: dict[Path, None] = {}
    for locator, _ in [*metadata.tensor_data, *metadata.other_data]:
        steps = tuple(locator.steps)
        for length in range(len(steps)):
            path = (locator.root, steps[:length])
            if path in found or (not any_keyword and path == ("kwargs", ())):
                continue
            try:
                value = _follow(args, kwargs, path)
            except (AttributeError, LookupError, TypeError):
                break  # a type whose parts are reached by functions of its own
            if _has_free_order(value):
                found[path] = None
    return list(found)


def _follow(args: tuple[Any, ...], kwargs: dict[str, Any], path: Path) -> Any:
    root, steps = path
    value: Any = args if root == "args" else kwargs
    for kind, key in steps:
        value = getattr(value, key) if kind == "attribute" else value[key]
    return value


def _has_free_order(value: Any) -> bool:
    # Of other mappings the class decides.
    plain = type(value) in (dict, collections.OrderedDict, collections.defaultdict, collections.UserDict)
    return plain and len(value) > 1


def _move_first_key_to_the_end(value: Any) -> None:
    first = next(iter(value))
    value[first] = value.pop(first)


def _unlike_others(tensor: torch.Tensor, number: int) -> torch.Tensor:
    """Other values for numbers, so that two tensors of a dict are not equal by chance (all zeros, say)."""
    if not tensor.is_floating_point():
        return tensor
    generator = torch.Generator().manual_seed(number)
    noise = torch.rand(tensor.shape, generator=generator).to(tensor.dtype)
    return tensor.detach() + noise.to(tensor.device)


def _difference(expected: Any, actual: Any) -> str:
    if _core.key_of(expected) != _core.key_of(actual):
        return "the result has another structure"
    for want, got in zip(_core.result_tensors(expected), _core.result_tensors(actual), strict=True):
        try:
            torch.testing.assert_close(got, want, equal_nan=True)
        except AssertionError:
            return "the result has other values or sizes"
    return ""


def _text(path: Path) -> str:
    steps = (f".{key}" if kind == "attribute" else f"[{key!r}]" for kind, key in path[1])
    return "".join(steps) or "the keyword arguments"
