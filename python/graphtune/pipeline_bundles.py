"""Saving several tuned modules as one folder, and loading them, alone or into their pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from . import _core
from .bundles import LoadedModule, LoadedParts, LoadOptions, load_alone
from .errors import GraphtuneTypeError, GraphtuneValueError
from .module import Module
from .module_places import resolve
from .wrapping import find_wrapped, places_to_wrap, put_all

__all__ = ["load_modules", "save_modules"]


Tuned = Module | LoadedModule


def save_modules(modules: Any, path: Path) -> Path:
    """See ``graphtune.save``: a dict, a list or a pipeline."""
    _core.write_modules([(name, module.stored()) for name, module in _named_modules(modules)], path)
    return path


def load_modules(path: Path, pipeline: Any, options: LoadOptions) -> dict[str, LoadedModule] | dict[str, Module]:
    """See ``graphtune.load``: a folder of several modules."""
    entries = [(name, Path(folder)) for name, folder in _core.read_modules(path)]
    if pipeline is None:
        return {name: load_alone(folder, options) for name, folder in entries}
    models = {name: _model_at(pipeline, name, path) for name, _ in entries}
    unwrapped = [name for name, model in models.items() if not isinstance(model, Module)]
    places = places_to_wrap(pipeline, unwrapped)
    parts = {name: LoadedParts(folder, models[name], options) for name, folder in entries}
    # Up to here nothing was changed.
    made = {name: parts[name].put_to_use(name) for name in unwrapped}
    put_all([(place, made[name]) for name in unwrapped for place in places[name]])
    return {name: made[name] if name in made else parts[name].put_to_use() for name in models}


def _named_modules(modules: Any) -> list[tuple[str, Tuned]]:
    if isinstance(modules, Mapping) and any(isinstance(value, Tuned) for value in modules.values()):
        for name, value in modules.items():
            if not isinstance(name, str):
                raise GraphtuneTypeError(f"module: names are strings, not {name!r}")
            if not isinstance(value, Tuned):
                raise GraphtuneTypeError(f"{name}: a graphtune.Module is needed, not {type(value).__name__}")
        return list(modules.items())
    if isinstance(modules, (list, tuple)) and modules and all(isinstance(value, Tuned) for value in modules):
        return [(value.name, value) for value in modules]
    found: list[tuple[str, Tuned]] = list(find_wrapped(modules).items())
    if not found:
        raise GraphtuneTypeError(
            f"module: a graphtune.Module, or a dict, list or pipeline of them is needed; {type(modules).__name__} "
            "holds none (graphtune.wrap puts them around the modules of a pipeline)"
        )
    return found


def _model_at(pipeline: Any, name: str, path: Path) -> torch.nn.Module:
    try:
        model = resolve(pipeline, name)[-1].value
    except GraphtuneValueError as error:
        raise GraphtuneValueError(
            f"model: it has no place for a module of {path}: {error}; load without it, or pass a dict name -> model"
        ) from None
    if not isinstance(model, torch.nn.Module):
        raise GraphtuneTypeError(f"{name}: an nn.Module is needed, there is a {type(model).__name__}")
    return model
