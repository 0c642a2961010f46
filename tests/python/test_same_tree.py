"""Python objects and C++ values that stand for the same give the same key."""

from __future__ import annotations

import collections
import dataclasses
import enum
import json
import random
import struct
import types
from typing import Any, NamedTuple

import pytest
import torch

from graphtune import _core


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Data:
    a: Any
    b: Any


class MyDict(dict):  # type: ignore[type-arg]
    pass


class Color(enum.Enum):
    RED = 1
    BLUE = 2


_DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool, torch.complex64]
_INTS = [0, 1, -1, 2**63 - 1, -(2**63), 2**63, 10**40, -(10**400)]
_FLOATS = [0.0, -0.0, 1.0, float("inf"), float("nan"), 1e300, 5e-324]
_TEXTS = ["", "a", "é", "a" * 300, "naïve", "0", "\u2028", "'", '"', "\x00", "中文"]
_HERE = __name__


class Maker:
    """Makes an object, and the JSON from which C++ makes the value that stands for it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def constant(self) -> tuple[Any, Any]:
        choice = self.random.randrange(9)
        if choice == 0:
            return None, ["none"]
        if choice == 1:
            value: Any = self.random.random() < 0.5
            return value, ["bool", value]
        if choice in (2, 3):
            value = self.random.choice(
                [0, 1, -1, 2**63 - 1, -(2**63), 2**63, 10**40, -(10**400), self.random.getrandbits(70)]
            )
            return value, ["int", hex(value)]
        if choice == 4:
            value = self.random.choice(
                [0.0, -0.0, 1.0, float("inf"), float("nan"), 1e300, 5e-324, self.random.random()]
            )
            return value, ["float", struct.pack("<d", value).hex()]
        if choice in (5, 6):
            value = self.random.choice(_TEXTS)
            return value, ["str", value.encode().hex()]
        if choice == 7:
            value = self.random.randbytes(self.random.choice([0, 1, 5, 400]))
            return value, ["bytes", value.hex()]
        member = self.random.choice(list(Color))
        return member, ["other", f"{_HERE}.Color", member.name]

    def tensor(self) -> tuple[Any, Any]:
        dtype = self.random.choice(_DTYPES)
        sizes = [self.random.randrange(4) for _ in range(self.random.randrange(4))]
        return torch.zeros(sizes, dtype=dtype), ["tensor", str(dtype).removeprefix("torch."), sizes]

    def keys(self, count: int) -> list[tuple[Any, Any]]:
        found: dict[Any, Any] = {}
        for _ in range(count):
            key, text = self.constant()
            if key == key:  # NaN keys are told apart by Python, not by graphtune
                found.setdefault(key, (key, text))
        return list(found.values())

    def value(self, depth: int = 0) -> tuple[Any, Any]:
        choice = self.random.randrange(4 if depth > 4 else 13)
        if choice < 2:
            return self.constant()
        if choice < 4:
            return self.tensor()
        count = self.random.randrange(4)
        children = [self.value(depth + 1) for _ in range(count)]
        objects, texts = [child for child, _ in children], [text for _, text in children]
        if choice == 4:
            return objects, ["list", texts]
        if choice == 5:
            return tuple(objects), ["tuple", texts]
        if choice == 6:
            return collections.deque(objects), [
                "object",
                "collections.deque",
                [[["index", i], x] for i, x in enumerate(texts)],
            ]
        if choice in (7, 8):
            keys = self.keys(count)
            pairs = list(zip(keys, children, strict=False))
            cls = dict if choice == 7 else MyDict
            made = cls((key, child) for (key, _), (child, _) in pairs)
            # C++ gets them in another order.
            shuffled = self.random.sample(pairs, len(pairs))
            if cls is dict:
                return made, ["dict", [[key, child] for (_, key), (_, child) in shuffled]]
            steps = [[["key", key], child] for (_, key), (_, child) in shuffled]
            return made, ["object", f"{_HERE}.MyDict", steps]
        if choice == 9:
            names = [f"n{index}" for index in range(count)]
            steps = [[["attribute", name], text] for name, text in zip(names, texts, strict=True)]
            made_of = dict(zip(names, objects, strict=True))
            return types.SimpleNamespace(**made_of), ["object", "types.SimpleNamespace", steps]
        a, b = self.value(depth + 1), self.value(depth + 1)
        steps = [[["attribute", "a"], a[1]], [["attribute", "b"], b[1]]]
        if choice == 10:
            return Pair(a[0], b[0]), ["object", f"{_HERE}.Pair", steps]
        return Data(a[0], b[0]), ["object", f"{_HERE}.Data", steps]


@pytest.mark.parametrize("strict", [True, False])
def test_a_thousand_random_trees(strict: bool) -> None:
    kinds: set[type] = set()
    for seed in range(1000):
        value, description = Maker(seed).value()
        kinds.add(type(value))
        assert _core.key_of(value, strict) == _core.key_of_json(json.dumps(description), strict), description
    assert {list, tuple, dict, MyDict, Pair, Data, collections.deque, types.SimpleNamespace, torch.Tensor} <= kinds


def test_different_trees_have_different_keys() -> None:
    made = [Maker(seed).value()[1] for seed in range(1000)]
    keys = {_core.key_of_json(json.dumps(description)) for description in made}
    # Trees that differ only in sizes or in the order of keys are one; most differ more.
    assert len(keys) > 600
