"""What graphtune knows of Python types: how objects are taken apart, and put together again.

The extension asks `classify` once a type. Types that torch's pytree knows need no registration; others can be
registered with `register_type`. Everything else is opaque: calls with such objects are recorded, but their graphs stay
eager.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch

from graphtune import _core
from graphtune.constants import context_text, encode_tuple, encoder_of, find_class, is_singleton, type_name
from graphtune.container_updates import Updater, updater_of
from graphtune.containers import Rebuilder, Step, builder_of, field_names, rebuilder_of
from graphtune.errors import GraphtuneTypeError, GraphtuneValueError
from graphtune.transformers_types import is_plain_cache

__all__ = [
    "Contents",
    "TypeEntry",
    "build",
    "classify",
    "contents",
    "encode_tuple",
    "pytree_nodes",
    "register_type",
    "updater",
    "with_children",
]

T = TypeVar("T")
#: (steps or None for indices, children, text of the context or None)
_Flattening = tuple["list[Step] | None", Sequence[Any], "str | None"]


@dataclasses.dataclass(frozen=True)
class TypeEntry:
    """How the objects of one type are read. `kind` is one of:

    named, fields, namespace, mapping, sequence  children by attribute, attribute, attribute, key, index
    flattened                                    `flatten` gives the children
    constant                                     `encode` gives the text that identifies the value
    opaque
    """

    kind: str
    fields: tuple[str, ...] = ()
    flatten: Callable[[Any], _Flattening | None] | None = None
    encode: Callable[[Any], tuple[str, str] | None] | None = None
    rebuild: Rebuilder | None = None
    build: Callable[[Sequence[tuple[Step, Any]], object], Any] | None = None
    update: Updater | None = None
    singletons: bool = False


@dataclasses.dataclass(frozen=True)
class _UserType:
    flatten: Callable[[Any], tuple[Any, Any]]
    unflatten: Callable[[Any, Any], Any]
    update: Callable[[Any, Any, Any], None] | None


_user_types: dict[type, _UserType] = {}
_OPAQUE = TypeEntry("opaque")
_updaters: weakref.WeakKeyDictionary[type, Updater | None] = weakref.WeakKeyDictionary()


def register_type(
    cls: type[T],
    flatten: Callable[[T], tuple[Sequence[Any] | dict[str, Any], Any]],
    unflatten: Callable[[Any, Any], T],
    update: Callable[[T, Any, Any], None] | None = None,
) -> None:
    """Makes graphtune look into objects of exactly this type.

    `flatten(obj)` gives (children, context): the children as a list (locators `[0]`, `[1]` …) or as a dict by attribute
    name (locators `.name`), and a context of constants, which becomes part of the structure: None, numbers, strings,
    enum members, dtypes … and lists, tuples, dicts and dataclasses of those. `unflatten(children, context)` makes the
    object again from children in the same form. Where a model changes such arguments, `update(obj, children, context)`
    is needed as well, which puts other children and context into the object itself.

        graphtune.register_type(Boxes, lambda b: ({"corners": b.corners}, b.format),
                                lambda children, format: Boxes(children["corners"], format))

    Types registered with torch's pytree are known already. Raises GraphtuneValueError for a type that graphtune reads
    by itself, or that is registered already.
    """
    if not isinstance(cls, type):
        raise GraphtuneTypeError(f"cls must be a class, not {type(cls).__name__}")
    for name, function in (("flatten", flatten), ("unflatten", unflatten)):
        if not callable(function):
            raise GraphtuneTypeError(f"{name} must be callable, not {type(function).__name__}")
    if update is not None and not callable(update):
        raise GraphtuneTypeError(f"update must be callable or None, not {type(update).__name__}")
    if cls in _user_types:
        raise GraphtuneValueError(f"{type_name(cls)} is registered already")
    if issubclass(cls, torch.Tensor) or cls in (list, tuple, dict, str, int, float, bool, bytes, type(None)):
        raise GraphtuneValueError(f"graphtune reads {type_name(cls)} by itself: register a subclass")
    _user_types[cls] = _UserType(flatten, unflatten, update)
    _updaters.clear()
    _core.forget_types()


def pytree_nodes() -> dict[type, Any]:
    """torch's registry, as it is: the extension looks whether it has grown."""
    import torch.utils._pytree as pytree

    return pytree.SUPPORTED_NODES


def classify(cls: type) -> TypeEntry:
    """How objects of `cls` are read. Not asked for tensors and for builtins that the extension reads itself."""
    if cls in _user_types:
        return _user_entry(cls, _user_types[cls])
    if issubclass(cls, torch.nn.Module):
        return _OPAQUE
    encoder = encoder_of(cls)
    if encoder is not None:
        return TypeEntry("constant", encode=encoder, singletons=is_singleton(cls))
    kind = _container_kind(cls)
    node = pytree_nodes().get(cls)
    if is_plain_cache(cls):
        kind = "namespace"  # transformers' own functions for pytree leave out what is not initialised
    elif node is not None and (kind is None or _is_custom(cls, node)):
        return _pytree_entry(cls, node)
    if kind is None:
        return _OPAQUE
    names = field_names(cls) if kind in ("named", "fields") else ()
    build = builder_of(cls, kind)
    return TypeEntry(
        kind,
        names,
        rebuild=rebuilder_of(cls, kind),
        build=lambda pairs, context: build(pairs),
        update=updater_of(cls, kind),
    )


def _container_kind(cls: type) -> str | None:
    if issubclass(cls, tuple):
        named = isinstance(getattr(cls, "_fields", None), tuple)
        # What torch.max and the like give; each of its items has a name.
        structseq = hasattr(cls, "n_sequence_fields") and cls.n_sequence_fields == len(field_names(cls))
        return "named" if named or structseq else "sequence"
    if issubclass(cls, (dict, collections.UserDict, types.MappingProxyType)):
        return "mapping"
    if issubclass(cls, (list, collections.deque, collections.UserList)):
        return "sequence"
    if dataclasses.is_dataclass(cls):
        return "fields"
    if issubclass(cls, types.SimpleNamespace):
        return "namespace"
    return "mapping" if issubclass(cls, Mapping) else None


def _is_custom(cls: type, node: Any) -> bool:
    """Registered with functions of the user's own, which know more than we do.

    Subclasses of dict, list and tuple are read as what they are all the same: ModelOutput's functions would give its
    items numbers instead of names.
    """
    if issubclass(cls, (dict, list, tuple, collections.deque)):
        return False
    return not str(getattr(node.flatten_fn, "__module__", "")).startswith("torch.")


# Types of the user and of torch's pytree


def _user_entry(cls: type, user_type: _UserType) -> TypeEntry:
    def parts(value: Any) -> tuple[Any, Any]:
        flat = user_type.flatten(value)
        if not isinstance(flat, tuple) or len(flat) != 2 or not isinstance(flat[0], (list, tuple, dict)):
            raise GraphtuneTypeError(
                f"the flatten function of {type_name(cls)} must give (children, context), children as list or dict"
            )
        return flat

    def flatten(value: Any) -> _Flattening:
        children, context = parts(value)
        text = None
        if context is not None:
            text = context_text(context)
            if text is None:
                raise GraphtuneTypeError(
                    f"the flatten function of {type_name(cls)} gave a context that can't be compared by value "
                    f"({type(context).__name__}): use constants, and lists, tuples, dicts or dataclasses of them"
                )
        if isinstance(children, dict):
            return [("attribute", name) for name in children], list(children.values()), text
        return None, children, text

    def rebuild(value: Any, new: list[Any]) -> Any:
        children, context = parts(value)
        form = dict(zip(children, new, strict=True)) if isinstance(children, dict) else new
        return user_type.unflatten(form, context)

    def build(pairs: Sequence[tuple[Step, Any]], context: object) -> Any:
        if pairs and pairs[0][0][0] == "attribute":
            return user_type.unflatten({name: child for (_, name), child in pairs}, context)
        return user_type.unflatten([child for _, child in pairs], context)

    def update(value: Any, children: Any, context: str | None) -> None:
        assert user_type.update is not None
        user_type.update(value, children, _context_value(cls, context))

    return TypeEntry(
        "flattened", flatten=flatten, rebuild=rebuild, build=build, update=update if user_type.update else None
    )


def _pytree_step(key: Any, index: int) -> Step:
    import torch.utils._pytree as pytree

    if isinstance(key, pytree.GetAttrKey):
        return ("attribute", key.name)
    if isinstance(key, pytree.MappingKey):
        return ("key", key.key)
    return ("index", index)


def _pytree_entry(cls: type, node: Any) -> TypeEntry:
    def flatten(value: Any) -> _Flattening | None:
        steps: list[Step] | None = None
        if node.flatten_with_keys_fn is not None:
            pairs, context = node.flatten_with_keys_fn(value)
            steps = [_pytree_step(key, index) for index, (key, _) in enumerate(pairs)]
            children = [child for _, child in pairs]
            if len({(kind, str(key)) for kind, key in steps}) < len(steps):
                steps = None  # keys that do not tell the children apart
        else:
            children, context = node.flatten_fn(value)
        if context is None:
            return steps, children, None
        text = context_text(context)
        return None if text is None else (steps, children, text)

    def rebuild(value: Any, new: list[Any]) -> Any:
        return node.unflatten_fn(new, node.flatten_fn(value)[1])

    def build(pairs: Sequence[tuple[Step, Any]], context: object) -> Any:
        return node.unflatten_fn([child for _, child in pairs], context)

    return TypeEntry("flattened", flatten=flatten, rebuild=rebuild, build=build)


def build(cls: type | str, pairs: Sequence[tuple[Step, Any]], context: str | None = None) -> Any:
    """An object of the type (given as class, or as `module.qualname`, whose module is then imported) from its parts.

    `pairs` holds each child with the step that leads to it, in the order in which the object was walked; `context` is
    the text that its flatten function gave. Raises TypeError for a class that is no container here, or whose context
    can't be made from its text.
    """
    found = find_class(cls) if isinstance(cls, str) else cls
    entry = classify(found)
    if entry.build is None:
        raise GraphtuneTypeError(f"graphtune can't make a {type_name(found)}: register it with graphtune.register_type")
    return entry.build(pairs, _context_value(found, context))


def _context_value(cls: type, context: str | None) -> object:
    if context is None:
        return None
    try:
        value: object = ast.literal_eval(context)
    except (ValueError, SyntaxError) as error:
        raise GraphtuneTypeError(
            f"a {type_name(cls)} can't be made again: its context {context[:64]!r} is more than literals"
        ) from error
    return value


# One object at a time, as the extension reads it


@dataclasses.dataclass(frozen=True)
class Contents:
    """What a container holds: its children, each with the step to it, and the text of its context."""

    steps: list[Step]
    children: list[Any]
    context: str | None = None

    def named(self) -> Any:
        """The children as an updater takes them: a dict by key or attribute, a list by index."""
        if all(kind == "index" for kind, _ in self.steps):
            return list(self.children)
        return {key: child for (_, key), child in zip(self.steps, self.children, strict=True)}


def contents(value: Any) -> Contents | None:
    """What an object holds; None of a leaf: a tensor, a constant, an opaque object."""
    cls = type(value)
    if issubclass(cls, torch.Tensor):
        return None
    entry = _BUILTIN.get(cls) or classify(cls)
    if entry.kind == "sequence":
        return Contents([("index", index) for index in range(len(value))], list(value))
    if entry.kind == "mapping":
        return Contents([("key", key) for key in value], list(value.values()))
    if entry.kind == "flattened":
        assert entry.flatten is not None
        flat = entry.flatten(value)
        if flat is None:
            return None
        steps, children, context = flat
        return Contents(steps or [("index", index) for index in range(len(children))], list(children), context)
    if entry.kind == "namespace":
        return Contents([("attribute", name) for name in vars(value)], list(vars(value).values()))
    if entry.kind in ("named", "fields"):
        names = [name for name in entry.fields if hasattr(value, name)]
        return Contents([("attribute", name) for name in names], [getattr(value, name) for name in names])
    return None


def with_children(value: Any, children: list[Any]) -> Any:
    """A copy of a container, of its very type, with these children."""
    cls = type(value)
    if cls is dict:
        return dict(zip(value, children, strict=True))
    if cls in (list, tuple):
        return cls(children)
    rebuild = classify(cls).rebuild
    assert rebuild is not None
    return rebuild(value, children)


def updater(cls: type) -> Updater | None:
    """How objects of this type get other children, in place; None where that can't be done."""
    if cls not in _updaters:
        _updaters[cls] = (_BUILTIN.get(cls) or classify(cls)).update
    return _updaters[cls]


_BUILTIN = {
    list: TypeEntry("sequence", update=updater_of(list, "sequence")),
    tuple: TypeEntry("sequence"),
    dict: TypeEntry("mapping", update=updater_of(dict, "mapping")),
    **dict.fromkeys((type(None), bool, int, float, str, bytes), TypeEntry("constant")),
}
