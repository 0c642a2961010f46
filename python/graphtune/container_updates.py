"""Containers that are changed in place: they get other children, as if their owner had put them there."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from graphtune.containers import field_names

__all__ = ["Updater", "updater_of"]

#: (object, its new children in order: by key or attribute a dict, else a list; context) puts them into the object
Updater = Callable[[Any, Any, "str | None"], None]

_DICTS = (dict, collections.OrderedDict, collections.defaultdict)


def _update_list(value: Any, children: list[Any], context: str | None) -> None:
    list.__setitem__(value, slice(None), children)


def _update_deque(value: Any, children: list[Any], context: str | None) -> None:
    value.clear()
    value.extend(children)


def _update_user_list(value: Any, children: list[Any], context: str | None) -> None:
    value.data[:] = children


def _update_dict(value: Any, children: dict[Any, Any], context: str | None) -> None:
    if list(value) != list(children):
        value.clear()
    value.update(children)


def _update_fields(value: Any, children: dict[str, Any], context: str | None) -> None:
    for name in field_names(type(value)):
        if name not in children:
            if hasattr(value, name):
                object.__delattr__(value, name)
        elif getattr(value, name, None) is not children[name]:
            object.__setattr__(value, name, children[name])


def _update_namespace(value: Any, children: dict[str, Any], context: str | None) -> None:
    attributes = vars(value)
    for name in [name for name in attributes if name not in children]:
        del attributes[name]
    attributes.update(children)


def updater_of(cls: type, kind: str) -> Updater | None:
    """How an object of this type gets other children; ``kind`` as in types.classify. None: it can't be changed, or
    only by methods that may do more than that."""
    if kind == "fields":
        return _update_fields
    if kind == "namespace":
        return _update_namespace
    if kind == "mapping":
        return _update_dict if cls in (*_DICTS, collections.UserDict) else None
    if kind == "sequence":
        if issubclass(cls, list):
            return _update_list
        if cls is collections.deque:
            return _update_deque
        return _update_user_list if cls is collections.UserList else None
    return None
