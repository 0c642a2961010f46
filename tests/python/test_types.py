"""Types that torch's pytree knows, types that the user registers, and objects made of their parts."""

from __future__ import annotations

import collections
import types
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from graphtune.containers import Step
from graphtune.types import build
from sample_types import Box, FrozenSlotted, KeyedBox, LateBox, Mapping, MyList, MyTuple, Pair, Plain, locators, t
from transformers.modeling_outputs import BaseModelOutputWithPooling

import graphtune
from graphtune import SampleMetadata, _core

# Types of torch's pytree and of the user


def test_pytree_types_are_known() -> None:
    assert locators(Box(t(1), [t(2)], None)) == ["[0]", "[1][0]"]
    assert locators(KeyedBox(t(1), [t(2)], None)) == [".a", "['k'][0]"]
    changed = _core.rebuild(KeyedBox(t(1), t(2), "note"), [t(3), t(4)])
    assert (type(changed), changed.note, changed.b.shape) == (KeyedBox, "note", (4,))


@pytest.mark.parametrize("strict", [True, False])
def test_a_context_is_structure(strict: bool) -> None:
    keys = [_core.key_of(Box(t(1), t(2), note), strict) for note in (None, 1, 2, True, [1], {"a": 1}, (1, "a"), 1.5)]
    assert len(set(keys)) == len(keys)
    assert _core.key_of(Box(t(1), t(2), {"a": 1, "b": 2}), strict) == _core.key_of(
        Box(t(1), t(2), {"b": 2, "a": 1}), strict
    )


def test_a_context_without_value_makes_the_object_opaque() -> None:
    metadata = SampleMetadata.from_outputs([Box(t(1), t(2), object())])
    assert [str(locator) for locator in metadata.opaque_data] == ["[0]"]


def test_a_type_may_be_registered_after_it_was_seen() -> None:
    assert locators(LateBox(t(1), t(2), None)) == []
    pytree.register_pytree_node(LateBox, lambda x: ([x.a, x.b], None), lambda parts, _: LateBox(*parts, None))
    assert locators(LateBox(t(1), t(2), None)) == ["[0]", "[1]"]


def test_user_types() -> None:
    class Boxes:
        def __init__(self, corners: Any, form: str) -> None:
            self.corners, self.form = corners, form

    assert locators(Boxes(t(1), "xy")) == []
    graphtune.register_type(
        Boxes,
        lambda boxes: ({"corners": boxes.corners}, boxes.form),
        lambda children, form: Boxes(children["corners"], form),
    )
    assert locators([Boxes(t(1), "xy")]) == ["[0].corners"]
    assert _core.key_of(Boxes(t(1), "xy")) != _core.key_of(Boxes(t(1), "wh"))
    changed = _core.rebuild(Boxes(t(1), "xy"), [t(2)])
    assert (type(changed), changed.form, changed.corners.shape) == (Boxes, "xy", (2,))
    with pytest.raises(ValueError, match="registered already"):
        graphtune.register_type(Boxes, list, list)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((1, list, list), TypeError, "cls must be a class"),
        ((Mapping, 1, list), TypeError, "flatten must be callable"),
        ((Mapping, list, 1), TypeError, "unflatten must be callable"),
        ((list, list, list), ValueError, "by itself"),
        ((torch.Tensor, list, list), ValueError, "by itself"),
    ],
)
def test_bad_registrations(arguments: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        graphtune.register_type(*arguments)
    assert isinstance(caught.value, graphtune.Error)


def test_errors_of_flatten_functions_say_where() -> None:
    class Broken:
        pass

    def fail(_: Broken) -> Any:
        raise KeyError("mine")

    graphtune.register_type(Broken, fail, lambda *_: Broken())
    with pytest.raises(KeyError, match="mine") as caught:
        SampleMetadata.from_inputs((1,), {"a": [0, {"b": Pair(1, Broken())}]})
    assert any("['a'][1]['b'].b" in note for note in caught.value.__notes__)
    assert len(caught.value.__notes__) == 1


@pytest.mark.parametrize(
    ("flat", "words"),
    [
        (lambda _: 1, "must give"),
        (lambda _: (1, None), "must give"),
        (lambda _: ([], object()), "can't be compared by value"),
    ],
)
def test_flatten_functions_that_give_something_else(flat: Any, words: str) -> None:
    class Odd:
        pass

    graphtune.register_type(Odd, flat, lambda *_: Odd())
    with pytest.raises(TypeError, match=words):
        SampleMetadata.from_outputs(Odd())


# Objects from their parts


def _pairs(*steps: tuple[str, Any]) -> list[tuple[Step, Any]]:
    return [(step, index) for index, step in enumerate(steps)]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("cls", "steps", "expected"),
    [
        (Pair, [("attribute", "b"), ("attribute", "a")], Pair(1, 0)),
        (Plain, [("attribute", "a"), ("attribute", "b")], Plain(0, 1)),
        (FrozenSlotted, [("attribute", "a"), ("attribute", "b")], FrozenSlotted(0, 1)),
        (types.SimpleNamespace, [("attribute", "a")], types.SimpleNamespace(a=0)),
        (collections.OrderedDict, [("key", "b"), ("key", "a")], collections.OrderedDict(b=0, a=1)),
        (collections.defaultdict, [("key", 1)], {1: 0}),
        (collections.UserDict, [("key", 1)], {1: 0}),
        (types.MappingProxyType, [("key", 1)], {1: 0}),
        (Mapping, [("key", 1)], {1: 0}),
        (MyList, [("index", 0), ("index", 1)], [0, 1]),
        (MyTuple, [("index", 0)], (0,)),
        (collections.deque, [("index", 0)], collections.deque([0])),
        (collections.UserList, [("index", 0)], [0]),
    ],
)
def test_objects_are_made_of_their_parts(cls: Any, steps: list[tuple[str, Any]], expected: Any) -> None:
    made = build(cls, _pairs(*steps))
    assert type(made) is cls
    assert made == expected
    assert type(build(f"{cls.__module__}.{cls.__qualname__}", _pairs(*steps))) is cls


def test_more_objects_of_their_parts() -> None:
    output = build(BaseModelOutputWithPooling, [(("key", "last_hidden_state"), t(1))])
    assert output.last_hidden_state is output[0]
    assert output.pooler_output is None
    box = build(Box, [(("index", 0), 1), (("index", 1), 2)], "['literal', 0x2]")
    assert (box.a, box.b, box.note) == (1, 2, ["literal", 2])
    with pytest.raises(TypeError, match="more than literals"):
        build(Box, [], "torch.float32")
    with pytest.raises(TypeError, match=r"no class 'nowhere\.Nothing'"):
        build("nowhere.Nothing", [])
    with pytest.raises(TypeError, match="register_type"):
        build(object, [])
