"""Texts that identify the value of constants which C++ does not read itself.

Two constants are the same when their types and these texts are. A value without such a text (an object that has only an
identity) makes its holder opaque: the call is recorded, but its graph is not tuned.
"""

from __future__ import annotations

import array
import ast
import dataclasses
import datetime
import decimal
import enum
import fractions
import hashlib
import importlib
import pathlib
import re
import sys
import types
import uuid
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["Encoder", "constant_value", "context_text", "encode_tuple", "encoder_of", "is_singleton"]

#: Gives (identity, display) of an object, or None for one that has no value.
Encoder = Callable[[Any], "tuple[str, str] | None"]

_MAX_SHOWN = 64


class _NoValueError(Exception):
    """The object can't be told from others of its type by a text."""


def type_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _digest(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


def _text(value: Any) -> str:
    """The identity of any value that is made of constants."""
    cls = type(value)
    if cls is int:
        return hex(value)  # decimal is limited
    if value is None or cls in (bool, float, str, bytes):
        return repr(value)
    if cls in (list, tuple):
        inner = ", ".join(map(_text, value))
        if cls is list:
            return f"[{inner}]"
        return f"({inner},)" if inner else "()"
    if cls is dict:
        items = ((_text(key), _text(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}: {item}" for key, item in sorted(items)) + "}"
    if issubclass(cls, torch.Tensor):
        raise _NoValueError
    encoder = encoder_of(cls)
    if encoder is not None:
        encoded = encoder(value)
        if encoded is None:
            raise _NoValueError
        return f"{type_name(cls)}({encoded[0]})"
    if dataclasses.is_dataclass(cls):
        parts = [f"{field.name}={_text(getattr(value, field.name, None))}" for field in dataclasses.fields(cls)]
        return f"{type_name(cls)}({', '.join(parts)})"
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return f"{type_name(cls)}({', '.join(map(_text, value))})"
    raise _NoValueError


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


def context_text(context: object) -> str | None:
    """The text of a flattened object's context; None when it has no value to compare by."""
    try:
        return _text(context)
    except _NoValueError:
        return None


def encode_tuple(key: tuple[Any, ...]) -> tuple[str, str] | None:
    """A tuple as dict key."""
    try:
        text = "(" + ", ".join(map(_text, key)) + ")"
    except _NoValueError:
        return None
    return text, _shortened(repr(key))


def _encode_repr(value: object) -> tuple[str, str]:
    text = repr(value)
    return text, text


def _encode_parts(parts: Callable[[Any], tuple[Any, ...]]) -> Encoder:
    def encode(value: Any) -> tuple[str, str] | None:
        try:
            return ", ".join(map(_text, parts(value))), _shortened(repr(value))
        except _NoValueError:
            return None

    return encode


def _encode_set(value: Any) -> tuple[str, str] | None:
    try:
        return "{" + ", ".join(sorted(map(_text, value))) + "}", _shortened(repr(value))
    except _NoValueError:
        return None


def _encode_enum(member: Any) -> tuple[str, str]:
    name = member._name_
    if name is None:  # a combination of flags without a name
        name = _text(member._value_)
    return name, f"{type(member).__name__}.{name}"


def _encode_buffer(value: Any) -> tuple[str, str]:
    data = bytes(value)
    return _digest(data), f"{type(value).__name__} of {len(data)} bytes"


def _encode_array(value: array.array[Any]) -> tuple[str, str]:
    return f"{value.typecode}, {_digest(value.tobytes())}", f"array of {len(value)} '{value.typecode}'"


def _encode_subclass(base: type) -> Encoder:
    def encode(value: Any) -> tuple[str, str]:
        plain = base(value) if base is not str else str.__str__(value)
        return _text(plain), _shortened(str(plain))

    return encode


def _importable_name(value: Any) -> str | None:
    """`module.qualname`, if that is where the function or class is found."""
    qualname = getattr(value, "__qualname__", None)
    name = getattr(value, "__name__", None)
    places = [(getattr(value, "__module__", None), qualname), ("torch", name), ("torch.nn.functional", name)]
    for module_name, path in places:
        found: Any = sys.modules.get(module_name) if isinstance(module_name, str) else None
        if found is None or not isinstance(path, str):
            continue
        for part in path.split("."):
            found = getattr(found, part, None)
        if found is value:
            return f"{module_name}.{path}"
    return None


def _encode_importable(value: Any) -> tuple[str, str] | None:
    # Others, lambdas say, may share their name with one that does something else.
    name = _importable_name(value)
    return None if name is None else (name, name)


def _encode_module(value: types.ModuleType) -> tuple[str, str]:
    return value.__name__, value.__name__


def _encode_ndarray(value: Any) -> tuple[str, str] | None:
    shown = f"array(shape={value.shape}, dtype={value.dtype})"
    if not value.dtype.hasobject:
        kind = value.dtype.descr if value.dtype.names else value.dtype.str
        return f"{kind}, {value.shape}, {_digest(value.tobytes())}", shown
    try:
        return f"object, {value.shape}, {_text(value.tolist())}", shown
    except _NoValueError:
        return None


def _encode_numpy_scalar(value: Any) -> tuple[str, str] | None:
    if value.dtype.hasobject:
        return None
    return f"{value.dtype.str}, {value.tobytes().hex()}", _shortened(str(value))


_SINGLETONS = (torch.dtype, torch.layout, torch.memory_format, type(Ellipsis), type(NotImplemented))

_ENCODERS: dict[type, Encoder] = {
    **dict.fromkeys(_SINGLETONS, _encode_repr),
    torch.device: _encode_repr,
    torch.qscheme: _encode_repr,
    torch.Size: _encode_parts(lambda size: tuple(size)),
    set: _encode_set,
    frozenset: _encode_set,
    slice: _encode_parts(lambda s: (s.start, s.stop, s.step)),
    range: _encode_repr,
    complex: _encode_repr,
    bytearray: _encode_buffer,
    memoryview: _encode_buffer,
    array.array: _encode_array,
    datetime.date: _encode_repr,
    datetime.datetime: _encode_repr,
    datetime.time: _encode_repr,
    datetime.timedelta: _encode_repr,
    datetime.timezone: _encode_repr,
    decimal.Decimal: _encode_repr,
    fractions.Fraction: _encode_repr,
    uuid.UUID: _encode_repr,
    re.Pattern: _encode_parts(lambda p: (p.pattern, p.flags)),
    types.FunctionType: _encode_importable,
    types.BuiltinFunctionType: _encode_importable,
    types.MethodDescriptorType: _encode_importable,
    types.WrapperDescriptorType: _encode_importable,
    types.ModuleType: _encode_module,
}


def is_singleton(cls: type) -> bool:
    """Few objects, that live as long as the type: their texts can be kept."""
    return cls in _SINGLETONS or issubclass(cls, enum.Enum)


def encoder_of(cls: type) -> Encoder | None:
    """The encoder for objects of this type; None for containers and for objects without a value."""
    found = _ENCODERS.get(cls)
    if found is not None:
        return found
    if issubclass(cls, enum.Enum):
        return _encode_enum
    numpy = sys.modules.get("numpy")  # whoever passes an array has imported it
    if numpy is not None:
        if cls in (numpy.ndarray, numpy.memmap):
            return _encode_ndarray
        if issubclass(cls, numpy.generic):
            return _encode_numpy_scalar
        if issubclass(cls, numpy.dtype):
            return _encode_repr
    if issubclass(cls, type):
        return _encode_importable
    if issubclass(cls, pathlib.PurePath):
        return _encode_repr
    for base in (int, float, str, bytes):
        if issubclass(cls, base):
            return _encode_subclass(base)
    return None


# Builtin types that are not found under the module that they name.
_HIDDEN = {type_name(cls): cls for cls in vars(types).values() if isinstance(cls, type)}


def find_class(name: str) -> type:
    """The class `module.qualname`. Its module is imported. Raises TypeError that says what is missing."""
    if name in _HIDDEN:
        return _HIDDEN[name]
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        module_name = ".".join(parts[:count])
        try:
            found: Any = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)
        if isinstance(found, type):
            return found
    raise TypeError(f"there is no class {name!r} here: import or install what defines it")


def constant_value(name: str, identity: str) -> object:
    """The constant of type `name` with this identity, for results that are built from a bundle.

    Raises TypeError for types whose identity does not give the value.
    """
    cls = find_class(name)
    if issubclass(cls, enum.Enum):
        return cls[identity] if identity in cls.__members__ else cls(ast.literal_eval(identity))
    if cls in (torch.dtype, torch.layout, torch.memory_format):
        found = getattr(torch, identity.removeprefix("torch."), None)
        if isinstance(found, cls):
            return found
    if issubclass(cls, type):
        return find_class(identity)
    if cls is torch.Size:
        return torch.Size(ast.literal_eval(f"({identity},)") if identity else ())
    if cls is torch.device:
        match = re.fullmatch(r"device\(type='(\w+)'(?:, index=(\d+))?\)", identity)
        if match is not None:
            return torch.device(match[1]) if match[2] is None else torch.device(match[1], int(match[2]))
    if cls in (slice, range):
        text = identity if cls is slice else identity.removeprefix("range")
        return cls(*ast.literal_eval(f"({text},)" if cls is slice else text))
    if cls is complex:
        return complex(identity.strip("()"))
    if cls in (set, frozenset):
        return cls(ast.literal_eval(identity) if identity != "{}" else ())
    if cls is type(Ellipsis):
        return Ellipsis
    raise TypeError(f"a {name} can't be made from its recorded text {_shortened(identity)!r}")
