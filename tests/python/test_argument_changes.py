"""Forward changes a container among its arguments: engines must not lose that."""

from __future__ import annotations

import collections
import dataclasses
import types
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn

import graphtune
from graphtune import RecordingModule


@dataclasses.dataclass
class State:
    value: torch.Tensor
    step: int = 0


class Box:
    """Known to torch's pytree, which can't write to it."""

    def __init__(self, value: Any) -> None:
        self.value = value


pytree.register_pytree_node(Box, lambda box: ([box.value], None), lambda parts, _: Box(*parts))


class Fresh(Box):
    """Makes its tensors anew each time that it is read."""


pytree.register_pytree_node(Fresh, lambda box: ([box.value * 1], None), lambda parts, _: Fresh(*parts))


class Changing(nn.Module):
    """Does something to its argument, and gives a value of its own."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.change = change

    def forward(self, x: torch.Tensor, past: Any) -> torch.Tensor:
        y: torch.Tensor = self.linear(x)
        self.change(past, y)
        return y + 1


def record(change: Any, *pasts: Any) -> RecordingModule:
    module = RecordingModule(Changing(change).eval())
    with torch.no_grad():
        for past in pasts:
            module(torch.rand(2, 4), past)
    return module


def replace(past: Any, y: torch.Tensor) -> None:
    past[0] = torch.cat([past[0], y])


def set_value(past: Any, y: torch.Tensor) -> None:
    past.value = past.value + y


CHANGES: dict[str, tuple[Any, Any, str]] = {
    "append": (lambda past, y: past.append(y), lambda: [torch.zeros(2, 4)], "['past']"),
    "replace": (replace, lambda: [torch.zeros(2, 4)], "['past']"),
    "pop": (lambda past, y: past.pop(), lambda: [torch.zeros(2, 4)], "['past']"),
    "swap": (lambda past, y: past.reverse(), lambda: [torch.zeros(2, 4), torch.ones(2, 4)], "['past']"),
    "key": (lambda past, y: past.update(k=y), lambda: {"k": torch.zeros(2, 4)}, "['past']"),
    "new key": (lambda past, y: past.update(n=y), lambda: {"k": torch.zeros(2, 4)}, "['past']"),
    "order": (lambda past, y: past.update(a=past.pop("a")), lambda: {"a": torch.ones(1), "b": torch.ones(1)}, "['past']"),
    "nested": (lambda past, y: past["k"][1].append(y), lambda: {"k": (torch.zeros(1), [])}, "['past']['k'][1]"),
    "attribute": (set_value, lambda: State(torch.zeros(2, 4)), "['past']"),
    "constant": (lambda past, y: setattr(past, "step", past.step + 1), lambda: State(torch.zeros(1)), "['past']"),
    "namespace": (set_value, lambda: types.SimpleNamespace(value=torch.zeros(2, 4)), "['past']"),
    "deque": (lambda past, y: past.append(y), lambda: collections.deque([torch.zeros(2, 4)], 4), "['past']"),
    "pytree": (set_value, lambda: Box(torch.zeros(2, 4)), "['past']"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name: str) -> None:
    change, past, place = CHANGES[name]
    module = record(change, past(), past())
    (spec,) = module.graph_specs
    assert f"changes its argument {place}" in spec.eager_reason


def test_reading_is_no_change() -> None:
    for past in ([torch.ones(4)], {"k": torch.ones(4)}, State(torch.ones(4)), Box(torch.ones(4)), Fresh(torch.ones(4))):
        module = record(lambda past, y: None, past, past)
        assert not module.graph_specs[0].eager_reason
        assert module.graph_specs[0].sample_count == 2


def test_a_change_that_comes_later_is_seen() -> None:
    module = record(lambda past, y: past.append(y) if past[0].sum() > 0 else None, [torch.zeros(4)], [torch.ones(4)])
    assert "['past']" in module.graph_specs[0].eager_reason
