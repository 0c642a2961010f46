"""Containers of many kinds for the tests."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree

from graphtune import SampleMetadata


def t(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def locators(value: Any) -> list[str]:
    return [str(locator) for locator, _ in SampleMetadata.from_outputs(value).tensor_data]


class Pair(NamedTuple):
    a: Any
    b: Any = 0


class NamedChild(Pair):
    """A named tuple with attributes."""


@dataclasses.dataclass
class Plain:
    a: Any
    b: Any = 0


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any
    b: Any = 0


@dataclasses.dataclass(slots=True)
class Slotted:
    a: Any
    b: Any = 0


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlotted:
    a: Any
    b: Any = 0


@dataclasses.dataclass
class Inherited(Plain):
    c: Any = None


@dataclasses.dataclass
class WithInitVar:
    a: Any
    scale: dataclasses.InitVar[int]
    b: Any = dataclasses.field(init=False)

    def __post_init__(self, scale: int) -> None:
        self.b = scale
        self.made = True


class Attributes(dict):  # type: ignore[type-arg]
    """The dict whose items are its attributes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class Picky(dict):  # type: ignore[type-arg]
    def __init__(self, needed: int, **items: Any) -> None:
        super().__init__(**items)
        self.needed = needed


class MyList(list):  # type: ignore[type-arg]
    pass


class MyTuple(tuple):  # type: ignore[type-arg]
    __slots__ = ()


class Mapping(collections.abc.Mapping):  # type: ignore[type-arg]
    def __init__(self, items: Any) -> None:
        self.items_ = dict(items)

    def __getitem__(self, key: Any) -> Any:
        return self.items_[key]

    def __iter__(self) -> Any:
        return iter(self.items_)

    def __len__(self) -> int:
        return len(self.items_)


class Box:
    def __init__(self, a: Any, b: Any, note: Any) -> None:
        self.a, self.b, self.note = a, b, note


class KeyedBox(Box):
    pass


class LateBox(Box):
    pass


pytree.register_pytree_node(Box, lambda x: ([x.a, x.b], x.note), lambda parts, note: Box(*parts, note))
pytree.register_pytree_node(
    KeyedBox,
    lambda x: ([x.a, x.b], x.note),
    lambda parts, note: KeyedBox(*parts, note),
    flatten_with_keys_fn=lambda x: ([(pytree.GetAttrKey("a"), x.a), (pytree.MappingKey("k"), x.b)], x.note),
)
