"""Where a pipeline keeps its modules: attributes, items of containers and submodules, by dotted path."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .errors import GraphtuneTypeError, GraphtuneValueError
from .recording import RecordingModule

__all__ = ["Place", "find_modules", "is_callable", "is_wrapped", "modules_by_identity", "resolve"]

# Plain objects and containers within each other, and entries of a container: beyond this a pipeline keeps no modules.
_MAX_DEPTH = 6
_MAX_ENTRIES = 10_000
_LEAVES = (str, bytes, bytearray, int, float, complex, bool, type(None), torch.Tensor, type)


@dataclasses.dataclass(frozen=True)
class Place:
    """A place that holds a value: ``kind`` is "submodule", "attribute", "item", or "fixed" (of a tuple)."""

    path: str
    holder: Any
    kind: str
    key: Any

    @property
    def value(self) -> Any:
        if self.kind == "submodule":
            return self.holder._modules[self.key]
        return getattr(self.holder, self.key) if self.kind == "attribute" else self.holder[self.key]

    def put(self, value: Any) -> None:
        """Raises ``GraphtuneTypeError`` where nothing else can be put."""
        try:
            if self.kind == "submodule":
                self.holder._modules[self.key] = value
            elif self.kind == "attribute":
                setattr(self.holder, self.key, value)
            elif self.kind == "item":
                self.holder[self.key] = value
            else:
                raise TypeError("it is an item of a tuple, which can't be changed")
        except (AttributeError, TypeError) as error:
            raise GraphtuneTypeError(f"{self.path}: nothing else can be put in this place: {error}") from error


def is_callable(module: torch.nn.Module) -> bool:
    """Not of ``ModuleList`` and ``ModuleDict``, which only hold others."""
    return type(module).forward is not torch.nn.Module.forward


def is_wrapped(value: Any) -> bool:
    return isinstance(value, RecordingModule)


def resolve(root: Any, path: str) -> list[Place]:
    """The places on the way to ``path``, the last being the one it names.

    Raises ``GraphtuneValueError`` that says what is there instead of a missing part.
    """
    if not path:
        raise GraphtuneValueError(
            "path: it is empty, which names the target itself: wrap that with graphtune.Module(target)"
        )
    places: list[Place] = []
    value, rest, prefix = root, path, ""
    while rest:
        known = dict(_parts_of(value, prefix))
        # A dict's keys may have dots: the longest that fits is meant.
        name = max((n for n in known if rest == n or rest.startswith(n + ".")), key=len, default="")
        place = known.get(name) or _property_of(value, rest.partition(".")[0], prefix)
        if place is None:
            where = f"{prefix} ({type(value).__name__})" if prefix else f"the target ({type(value).__name__})"
            there = ", ".join(n for n, p in known.items() if _may_hold(p.value)) or "nothing that could be a module"
            raise GraphtuneValueError(f"{path}: {where} has no {rest.partition('.')[0]!r}; it has {there}")
        places.append(place)
        rest = rest[len(place.path) - (len(prefix) + 1 if prefix else 0) :].removeprefix(".")
        value, prefix = place.value, place.path
    return places


def find_modules(root: Any, within: bool = True) -> Iterator[Place]:
    """Every place below ``root`` that holds an ``nn.Module``, in the order of definition, parents first.

    ``within``: also those within modules that can be called. What is reached by several ways comes once for each place
    that holds it, but what is within it only by the first. Looked into are modules, lists, tuples, dicts and the
    attributes of plain objects.
    """
    yield from _walk(root, "", 0, {id(root)}, within)


def _walk(value: Any, prefix: str, depth: int, seen: set[int], within: bool) -> Iterator[Place]:
    is_module = isinstance(value, torch.nn.Module)
    if isinstance(value, (Mapping, list, tuple)) and len(value) > _MAX_ENTRIES:
        return
    for _, place in _parts_of(value, prefix):
        part = place.value
        if isinstance(part, torch.nn.Module):
            yield place
            if not within and is_callable(part):
                continue
        elif is_module or not _may_hold(part) or depth >= _MAX_DEPTH:
            continue
        if id(part) not in seen:
            seen.add(id(part))
            yield from _walk(part, place.path, depth + 1, seen, within)


def modules_by_identity(root: Any) -> dict[int, list[Place]]:
    """The places of each module below ``root``; a module of several places is shared."""
    found: dict[int, list[Place]] = {}
    for place in find_modules(root):
        found.setdefault(id(place.value), []).append(place)
    return found


def _parts_of(value: Any, prefix: str) -> Iterator[tuple[str, Place]]:
    def place(name: str, kind: str, key: Any) -> tuple[str, Place]:
        return name, Place(f"{prefix}.{name}" if prefix else name, value, kind, key)

    if isinstance(value, torch.nn.Module):
        for name, module in value._modules.items():
            if module is not None:
                yield place(name, "submodule", name)
    elif isinstance(value, Mapping):
        for key in value:
            if isinstance(key, (str, int)) and str(key):
                yield place(str(key), "item", key)
    elif isinstance(value, (list, tuple)):
        kind = "item" if isinstance(value, list) else "fixed"
        for index in range(len(value)):
            yield place(str(index), kind, index)
    elif not isinstance(value, _LEAVES):
        slots = [name for cls in type(value).__mro__ for name in _slots_of(cls) if hasattr(value, name)]
        for name in [*getattr(value, "__dict__", {}), *slots]:
            yield place(name, "attribute", name)


def _slots_of(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _property_of(value: Any, name: str, prefix: str) -> Place | None:
    """A part that a class computes, such as ``pipeline.encoder`` of a property."""
    if isinstance(value, (Mapping, list, tuple, torch.nn.Module)) or not hasattr(value, name):
        return None
    return Place(f"{prefix}.{name}" if prefix else name, value, "attribute", name)


def _may_hold(value: Any) -> bool:
    """A module, or something that may hold one: containers, and objects of classes that are not Python's own."""
    if isinstance(value, (torch.nn.Module, Mapping, list, tuple, types.SimpleNamespace)):
        return True
    if isinstance(value, _LEAVES) or type(value).__module__.partition(".")[0] in sys.stdlib_module_names:
        return False
    return hasattr(value, "__dict__") or any(_slots_of(cls) for cls in type(value).__mro__)
