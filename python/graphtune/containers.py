"""Copies of containers with other children, and containers from their parts, each of its very type.

No constructor of the user runs where that can be avoided: an object is made by the class that stores its items
(`dict.__new__`, `object.__new__` …), and gets the attributes that the original has.
"""

from __future__ import annotations

import collections
import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

__all__ = ["Builder", "Rebuilder", "Step", "builder_of", "field_names", "rebuilder_of"]

#: How a container reaches a child.
Step = tuple[Literal["index", "key", "attribute"], Any]
#: (object, new children in the order of the walk) -> a copy of the object with these children
Rebuilder = Callable[[Any, list[Any]], Any]
#: ((step, child) pairs) -> a new object
Builder = Callable[[Sequence[tuple[Step, Any]]], Any]


def _slots(cls: type) -> Iterable[str]:
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name in ("__dict__", "__weakref__"):
                continue
            private = name.startswith("__") and not name.endswith("__")
            yield f"_{base.__name__.lstrip('_')}{name}" if private else name


def _copy_attributes(source: Any, target: Any) -> None:
    attributes = getattr(source, "__dict__", None)
    if attributes is source:  # class AttrDict(dict): self.__dict__ = self
        target.__dict__ = target
    elif attributes is not None:
        target.__dict__.update(attributes)
    for name in _slots(type(source)):
        try:
            value = getattr(source, name)
        except AttributeError:
            continue
        object.__setattr__(target, name, value)


def _new_object(cls: Any) -> Any:
    try:
        return object.__new__(cls)
    except TypeError:  # a class that is stored in its own way, such as an exception
        return cls.__new__(cls)


# Tuples with names


def _rebuild_named(value: Any, children: list[Any]) -> Any:
    new = tuple.__new__(type(value), children)
    _copy_attributes(value, new)
    return new


def _rebuild_structseq(value: Any, children: list[Any]) -> Any:
    return type(value)(children)


# Attributes


def field_names(cls: type) -> tuple[str, ...]:
    """Names of a dataclass's fields, a named tuple's, or those of the results of torch.max and the like."""
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    names = getattr(cls, "_fields", None)
    if isinstance(names, tuple):
        return names
    return tuple(getattr(cls, "__match_args__", ()))


def _rebuild_fields(value: Any, children: list[Any]) -> Any:
    cls = type(value)
    new = _new_object(cls)
    _copy_attributes(value, new)
    present = [name for name in field_names(cls) if hasattr(value, name)]
    for name, child in zip(present, children, strict=True):
        if getattr(value, name) is not child:
            object.__setattr__(new, name, child)
    return new


def _rebuild_namespace(value: Any, children: list[Any]) -> Any:
    cls: Any = type(value)
    new = cls.__new__(cls)
    _copy_attributes(value, new)
    new.__dict__.update(zip(value.__dict__, children, strict=True))
    return new


# Mappings


def _dict_base(cls: type) -> Any:
    for base in (collections.OrderedDict, collections.defaultdict):
        if issubclass(cls, base):
            return base
    return dict


def _rebuild_dict(value: Any, children: list[Any]) -> Any:
    cls = type(value)
    base = _dict_base(cls)
    new = base.__new__(cls)
    if base is collections.defaultdict:
        new.default_factory = value.default_factory
    _copy_attributes(value, new)
    own = getattr(value, "__dict__", {})
    for (key, old), child in zip(value.items(), children, strict=True):
        base.__setitem__(new, key, child)
        # ModelOutput shows its items as attributes too.
        if own is not value and isinstance(key, str) and key in own and own[key] is old:
            new.__dict__[key] = child
    return new


def _rebuild_user_dict(value: Any, children: list[Any]) -> Any:
    new = _new_object(type(value))
    _copy_attributes(value, new)
    new.data = value.data.copy()
    new.data.update(zip(value.keys(), children, strict=True))
    return new


def _rebuild_proxy(value: Any, children: list[Any]) -> Any:
    new = value.copy()  # of the dict, or whatever it is, behind the proxy
    for key, child in zip(value, children, strict=True):
        new[key] = child
    return types.MappingProxyType(new)


def _make_mapping(cls: Any, items: dict[Any, Any]) -> Any:
    try:
        new = cls(items)
        same = len(new) == len(items) and all(new[key] is item for key, item in items.items())
    except Exception as error:
        raise TypeError(
            f"{cls.__qualname__} can't be made from a dict of its items ({error}): tell graphtune how with "
            f"graphtune.register_type"
        ) from error
    if not same:
        raise TypeError(
            f"{cls.__qualname__} made from a dict of its items holds something else: tell graphtune how it is made "
            f"with graphtune.register_type"
        )
    return new


def _rebuild_mapping(value: Any, children: list[Any]) -> Any:
    return _make_mapping(type(value), dict(zip(value.keys(), children, strict=True)))


# Sequences


def _rebuild_list(value: Any, children: list[Any]) -> Any:
    new = list.__new__(type(value))
    list.extend(new, children)
    _copy_attributes(value, new)
    return new


def _rebuild_deque(value: Any, children: list[Any]) -> Any:
    new: Any = collections.deque.__new__(type(value))
    collections.deque.__init__(new, children, value.maxlen)
    _copy_attributes(value, new)
    return new


def _rebuild_user_list(value: Any, children: list[Any]) -> Any:
    new = _new_object(type(value))
    _copy_attributes(value, new)
    new.data = children
    return new


def rebuilder_of(cls: type, kind: str) -> Rebuilder:
    """How an object of this type is copied with other children; `kind` as in types.classify."""
    if kind == "named":
        return _rebuild_structseq if hasattr(cls, "n_sequence_fields") else _rebuild_named
    if kind == "fields":
        return _rebuild_fields
    if kind == "namespace":
        return _rebuild_namespace
    if kind == "mapping":
        if issubclass(cls, dict):
            return _rebuild_dict
        if issubclass(cls, collections.UserDict):
            return _rebuild_user_dict
        return _rebuild_proxy if cls is types.MappingProxyType else _rebuild_mapping
    if issubclass(cls, list):
        return _rebuild_list
    if issubclass(cls, tuple):
        return _rebuild_named
    return _rebuild_deque if issubclass(cls, collections.deque) else _rebuild_user_list


def _build_fields(cls: type, pairs: Sequence[tuple[Step, Any]]) -> Any:
    new = _new_object(cls)
    for (_, name), child in pairs:
        object.__setattr__(new, name, child)
    return new


def _build_named(cls: Any, pairs: Sequence[tuple[Step, Any]]) -> Any:
    by_name = {name: child for (_, name), child in pairs}
    children = [by_name[name] for name in field_names(cls)]
    return cls(children) if hasattr(cls, "n_sequence_fields") else tuple.__new__(cls, children)


def _build_namespace(cls: Any, pairs: Sequence[tuple[Step, Any]]) -> Any:
    new = cls.__new__(cls)
    new.__dict__.update({name: child for (_, name), child in pairs})
    return new


def _build_mapping(cls: Any, pairs: Sequence[tuple[Step, Any]]) -> Any:
    items: dict[Any, Any] = {key: child for (_, key), child in pairs}
    if issubclass(cls, dict):
        has_fields = dataclasses.is_dataclass(cls)
        if has_fields:  # ModelOutput: the attributes of absent items come from its constructor
            return cls(**items)
        base = _dict_base(cls)
        new = base.__new__(cls)
        for key, child in items.items():
            base.__setitem__(new, key, child)
        return new
    if issubclass(cls, collections.UserDict):
        new = _new_object(cls)
        new.data = items
        return new
    return types.MappingProxyType(items) if cls is types.MappingProxyType else _make_mapping(cls, items)


def _build_sequence(cls: Any, pairs: Sequence[tuple[Step, Any]]) -> Any:
    children = [child for _, child in pairs]
    if issubclass(cls, list):
        new: Any = list.__new__(cls)
        list.extend(new, children)
        return new
    if issubclass(cls, tuple):
        return tuple.__new__(cls, children)
    if issubclass(cls, collections.deque):
        new = collections.deque.__new__(cls)
        collections.deque.__init__(new, children)
        return new
    new = _new_object(cls)
    new.data = children
    return new


_BUILDERS: Mapping[str, Callable[[Any, Sequence[tuple[Step, Any]]], Any]] = {
    "fields": _build_fields,
    "named": _build_named,
    "namespace": _build_namespace,
    "mapping": _build_mapping,
    "sequence": _build_sequence,
}


def builder_of(cls: type, kind: str) -> Builder:
    """How an object of this type is made from its parts alone.

    What is no child is not there then: the maxlen of a deque, the factory of a defaultdict, attributes of a dict.
    """
    build = _BUILDERS[kind]
    return lambda pairs: build(cls, pairs)
