"""Containers of every kind: tensors are found in them, and copies with other tensors keep their types."""

from __future__ import annotations

import collections
import copy
import dataclasses
import gc
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from graphtune.bundles import _template_of as result_template
from hypothesis import given
from hypothesis import strategies as st
from sample_types import (
    Attributes,
    Box,
    Frozen,
    FrozenSlotted,
    Inherited,
    Mapping,
    MyList,
    MyTuple,
    NamedChild,
    Pair,
    Picky,
    Plain,
    Slotted,
    WithInitVar,
    locators,
    t,
)
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.tokenization_utils_base import BatchEncoding

import graphtune
from graphtune import GraphSpec, RecordingModule, SampleMetadata, _core


def _named_child() -> NamedChild:
    value = NamedChild(t(1), t(2))
    value.note = "kept"  # type: ignore[attr-defined]
    return value


def _user_dict() -> Any:
    return collections.UserDict({"a": t(1), "b": [t(2)]})


def _max() -> Any:
    return torch.max(torch.zeros(2, 3), 1)


CONTAINERS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "list": (lambda: [t(1), [t(2)]], ["[0]", "[1][0]"]),
    "tuple": (lambda: (t(1), (t(2),)), ["[0]", "[1][0]"]),
    "dict": (lambda: {"a": t(1), 0: t(2), "0": t(3)}, ["['a']", "[0]", "['0']"]),
    "deque": (lambda: collections.deque([t(1), t(2)], maxlen=5), ["[0]", "[1]"]),
    "namespace": (lambda: types.SimpleNamespace(a=t(1), b={"c": t(2)}), [".a", ".b['c']"]),
    "proxy": (lambda: types.MappingProxyType({"a": t(1)}), ["['a']"]),
    "ordered": (lambda: collections.OrderedDict(a=t(1), b=t(2)), ["['a']", "['b']"]),
    "default": (lambda: collections.defaultdict(list, a=t(1)), ["['a']"]),
    "counter": (lambda: collections.Counter(a=t(1)), ["['a']"]),
    "user dict": (_user_dict, ["['a']", "['b'][0]"]),
    "user list": (lambda: collections.UserList([t(1)]), ["[0]"]),
    "model output": (
        lambda: BaseModelOutputWithPooling(last_hidden_state=t(1), hidden_states=(t(2), t(3))),
        ["['last_hidden_state']", "['hidden_states'][0]", "['hidden_states'][1]"],
    ),
    "encoding": (lambda: BatchEncoding({"input_ids": t(1)}), ["['input_ids']"]),
    "named tuple": (lambda: Pair(t(1), [t(2)]), [".a", ".b[0]"]),
    "named child": (_named_child, [".a", ".b"]),
    "struct sequence": (_max, [".values", ".indices"]),
    "dataclass": (lambda: Plain(t(1), t(2)), [".a", ".b"]),
    "frozen": (lambda: Frozen(t(1), t(2)), [".a", ".b"]),
    "slots": (lambda: Slotted(t(1), t(2)), [".a", ".b"]),
    "frozen slots": (lambda: FrozenSlotted(t(1), t(2)), [".a", ".b"]),
    "inherited": (lambda: Inherited(t(1), 2, t(3)), [".a", ".c"]),
    "init var": (lambda: WithInitVar(t(1), 3), [".a"]),
    "attributes": (lambda: Attributes(a=t(1)), ["['a']"]),
    "picky": (lambda: Picky(1, a=t(1)), ["['a']"]),
    "list subclass": (lambda: MyList([t(1), t(2)]), ["[0]", "[1]"]),
    "tuple subclass": (lambda: MyTuple([t(1), t(2)]), ["[0]", "[1]"]),
    "mapping": (lambda: Mapping({"a": t(1)}), ["['a']"]),
}


def same(a: Any, b: Any) -> bool:
    """Equal down to the types and attributes, tensors by identity."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a is b
    if dataclasses.is_dataclass(a) and not isinstance(a, dict):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, collections.abc.Mapping):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple, collections.deque, collections.UserList)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, types.SimpleNamespace):
        return same(vars(a), vars(b))
    return bool(a == b)


@pytest.mark.parametrize("name", CONTAINERS)
def test_tensors_are_found(name: str) -> None:
    make, expected = CONTAINERS[name]
    assert locators(make()) == expected
    assert SampleMetadata.from_outputs(make()) == SampleMetadata.from_outputs(make())


@pytest.mark.parametrize("name", CONTAINERS)
def test_copies_keep_the_type(name: str) -> None:
    original = CONTAINERS[name][0]()
    tensors = _core.tensors_of(original)
    assert _core.rebuild(original, tensors) is original
    others = [tensor + 1 for tensor in tensors]
    changed = _core.rebuild(original, others)
    assert type(changed) is type(original)
    assert all(a is b for a, b in zip(_core.tensors_of(changed), others, strict=True))
    # The original is as it was, and the way back gives the same.
    assert all(a is b for a, b in zip(_core.tensors_of(original), tensors, strict=True))
    assert same(_core.rebuild(changed, tensors), original)


@pytest.mark.parametrize("name", CONTAINERS)
def test_make_batch_keeps_the_type(name: str) -> None:
    def of_batch(size: int) -> Any:
        value = CONTAINERS[name][0]()
        return _core.rebuild(value, [tensor.repeat_interleave(size, 0) for tensor in _core.tensors_of(value)])

    metadata = SampleMetadata.from_inputs((of_batch(1),), {}, batch_size=1)
    metadata.update_shapes_seen(SampleMetadata.from_inputs((of_batch(2),), {}, batch_size=2))
    original = of_batch(2)
    (value,), kwargs = metadata.make_batch((original,), {}, 5)
    assert type(value) is type(original)
    assert kwargs == {}
    assert [x.shape for x in _core.tensors_of(value)] == [x.shape for x in _core.tensors_of(of_batch(5))]
    assert same(_core.rebuild(value, _core.tensors_of(original)), original)


@pytest.mark.parametrize("name", CONTAINERS)
def test_results_of_engines_keep_the_type(name: str) -> None:
    """Also those of a bundle, which are made from the manifest alone."""
    original = CONTAINERS[name][0]()
    others = [tensor + 1 for tensor in _core.result_tensors(original)]
    result = _core.result_with_tensors(original, others)
    assert type(result) is type(original)
    assert result is not original
    assert all(a is b for a, b in zip(_core.result_tensors(result), others, strict=True))
    assert same(_core.rebuild(result, _core.tensors_of(original)), original)

    spec = GraphSpec(
        "graph", SampleMetadata.from_inputs((t(1),), {}, strict=True), SampleMetadata.from_outputs(original, True)
    )
    made = result_template(GraphSpec.from_dict(spec.to_dict()))
    assert type(made) is type(original)
    assert locators(made) == locators(original)


def test_details_of_copies() -> None:
    def changed(value: Any) -> Any:
        return _core.rebuild(value, [tensor + 1 for tensor in _core.tensors_of(value)])

    assert changed(collections.deque([t(1)], maxlen=5)).maxlen == 5
    assert changed(collections.defaultdict(list, a=t(1)))["missing"] == []
    assert changed(_named_child()).note == "kept"
    assert changed(Picky(7, a=t(1))).needed == 7
    assert changed(WithInitVar(t(1), 3)).made
    attributes = changed(Attributes(a=t(1)))
    assert attributes.a is attributes["a"]
    output = changed(BaseModelOutputWithPooling(last_hidden_state=t(1)))
    assert output.last_hidden_state is output["last_hidden_state"] is output[0]
    assert output.pooler_output is None
    ordered = collections.OrderedDict(a=t(1), b=t(2))
    ordered.move_to_end("a")
    assert list(changed(ordered)) == ["b", "a"]
    assert all(a.shape == b.shape for a, b in zip(changed(ordered).values(), ordered.values(), strict=True))


def test_what_holds_no_changed_tensor_is_the_same_object() -> None:
    untouched = {"a": [t(1)], "c": Plain(t(2))}
    value = [untouched, [t(3)]]
    tensors = _core.tensors_of(value)
    changed = _core.rebuild(value, [*tensors[:2], t(4)])
    assert changed is not value
    assert changed[0] is untouched


def test_containers_can_be_copied_all() -> None:
    value = {"a": [t(1), {"b": 2}], "c": Plain([])}
    copied = _core.rebuild(value, _core.tensors_of(value), copy_containers=True)
    assert same(copied, value)
    assert copied is not value
    assert copied["a"] is not value["a"]
    assert copied["a"][1] is not value["a"][1]
    assert copied["c"].a is not value["c"].a  # type: ignore[attr-defined]


def test_constructors_do_not_run() -> None:
    class Counted:
        made = 0

    @dataclasses.dataclass
    class Loud(Counted):
        a: Any

        def __post_init__(self) -> None:
            type(self).made += 1

    value = Loud(t(1))
    _core.rebuild(value, [t(2)])
    assert Loud.made == 1


def test_a_mapping_that_can_not_be_made_says_so() -> None:
    class Stubborn(Mapping):
        def __init__(self, items: Any, needed: int) -> None:
            super().__init__(items)

    with pytest.raises(TypeError, match="register_type"):
        _core.rebuild(Stubborn({"a": t(1)}, 1), [t(2)])


def test_a_field_that_was_never_set() -> None:
    value = Slotted(t(1), t(2))
    del value.b
    assert locators(value) == [".a"]
    assert not hasattr(_core.rebuild(value, [t(3)]), "b")


# Sizes and depths


def test_a_list_that_contains_itself() -> None:
    inner: list[Any] = [t(1)]
    inner.append(inner)
    with pytest.raises(ValueError, match=r"\[0\]\['a'\].* contains itself.*\[0\]\['a'\]\[1\]"):
        SampleMetadata.from_inputs(({"a": inner},), {})
    with pytest.raises(graphtune.Error, match="the root contains itself"):
        SampleMetadata.from_outputs(inner)


def test_other_containers_that_contain_themselves() -> None:
    holder = Plain(None)
    holder.a = {"x": [holder]}
    with pytest.raises(ValueError, match="contains itself"):
        SampleMetadata.from_outputs(holder)
    box = Box(None, [], None)
    box.b.append((box,))
    with pytest.raises(ValueError, match="contains itself"):
        SampleMetadata.from_outputs(box)
    wide: list[Any] = [t(1)] * 100_000
    wide.append(wide)
    with pytest.raises(ValueError, match="contains itself"):
        SampleMetadata.from_outputs(wide)


@pytest.mark.parametrize(
    "wrap", [lambda x: [x], lambda x: (x,), lambda x: {"a": x}, Plain, lambda x: Box(x, 0, None), lambda x: Pair(x, 0)]
)
def test_deep_nesting(wrap: Any) -> None:
    value: Any = t(1)
    for _ in range(100_000):
        value = wrap(value)
    with pytest.raises(ValueError, match="nest deeper"):
        SampleMetadata.from_outputs(value)
    while not isinstance(value, torch.Tensor):  # taken apart from the outside: Python's own destructors recurse
        value = value["a"] if isinstance(value, dict) else value.a if hasattr(value, "a") else value[0]


def test_deep_nesting_in_a_thread() -> None:
    """Whose stack is smaller."""
    errors: list[Exception] = []

    def walk() -> None:
        value: Any = t(1)
        for _ in range(998):
            value = Plain([value]) if len(errors) else [value]
        try:
            SampleMetadata.from_outputs(value)
            SampleMetadata.from_outputs([[value, [[value]]]])
        except ValueError as error:
            errors.append(error)

    before = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=walk)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert len(errors) == 1


@pytest.mark.parametrize("wrap", [list, tuple, lambda tensors: {str(i): x for i, x in enumerate(tensors)}])
def test_ten_thousand_tensors_take_linear_time(wrap: Any) -> None:
    def seconds(count: int) -> dict[str, float]:
        one, two = ((wrap([t(batch, 3) for _ in range(count)]),) for batch in (1, 2))
        spent: dict[str, float] = {}

        def timed(step: str, action: Callable[[], Any]) -> Any:
            gc.disable()
            start = time.thread_time()
            result = action()
            spent[step] = time.thread_time() - start
            gc.enable()
            return result

        metadata = timed("from_inputs", lambda: SampleMetadata.from_inputs(one, {}, batch_size=1))
        other = SampleMetadata.from_inputs(two, {}, batch_size=2)
        timed("update_shapes_seen", lambda: metadata.update_shapes_seen(other))
        (value,), _ = timed("make_batch", lambda: metadata.make_batch(one, {}, 3))
        assert len(value) == count
        assert len(timed("describe", metadata.describe).splitlines()) == 2 * count + 4
        assert len(timed("tensor_data", lambda: metadata.tensor_data)) == count
        module = RecordingModule(torch.nn.Identity())
        timed("record", lambda: module(*one))
        timed("record again", lambda: module(*two))
        return spent

    # Quadratic time would be 100 times as much. The best of several rounds counts: a machine may be busy.
    few, many = seconds(1_000), seconds(10_000)
    for _ in range(5):
        slow = [step for step in few if many[step] > 60 * few[step] + 1e-3]
        if not slow:
            break
        for best, count in ((few, 1_000), (many, 10_000)):
            for step, spent in seconds(count).items():
                best[step] = min(best[step], spent)
    assert not slow, [(step, few[step], many[step]) for step in slow]


def test_names_are_unique() -> None:
    metadata = SampleMetadata.from_inputs((), {"a_b": t(1), "a": {"b": t(2)}})
    names = [spec.name for spec in metadata.tensor_specs]
    assert len(set(names)) == 2
    assert "kwargs_a_b" in names


def test_quotes_in_keys() -> None:
    assert locators({"it's": t(1), 'say "x"': t(2), "both '\"": t(3), "\n": t(4)}) == [
        '["it\'s"]',
        "['say \"x\"']",
        "['both \\'\"']",
        "['\\n']",
    ]


def test_long_texts_and_numbers_are_shortened() -> None:
    text = "x" * 10_000_000
    metadata = SampleMetadata.from_inputs((text, 10**5000, "é" * 1_000_000), {}, strict=True)
    assert len(metadata.describe()) < 3000
    assert metadata == SampleMetadata.from_inputs((text, 10**5000, "é" * 1_000_000), {}, strict=True)
    assert metadata != SampleMetadata.from_inputs((text + "y", 10**5000, "é" * 1_000_000), {}, strict=True)


def test_texts_that_look_like_numbers() -> None:
    described = SampleMetadata.from_inputs(("007", "1e5"), {}, strict=True).describe()
    assert "007" in described
    assert "1e5" in described


def test_lone_surrogates() -> None:
    metadata = SampleMetadata.from_inputs((t(1), "\ud800"), {"\udfff": t(2)}, strict=True)
    metadata.describe()
    assert metadata != SampleMetadata.from_inputs((t(1), "\ud801"), {"\udfff": t(2)}, strict=True)


# Tensors that are no plain ones


def test_nested_tensors_are_opaque() -> None:
    nested = torch.nested.nested_tensor([t(2), t(3)])
    assert [str(locator) for locator in SampleMetadata.from_outputs([nested]).opaque_data] == ["[0]"]
    jagged = torch.nested.nested_tensor([t(2), t(3)], layout=torch.jagged)
    assert [str(locator) for locator in SampleMetadata.from_outputs([jagged]).opaque_data] == ["[0]"]


def test_fake_tensors_have_specs() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        metadata = SampleMetadata.from_inputs((torch.empty(2, 3),), {})
    assert metadata.tensor_specs[0].shape == [2, 3]


def test_tensors_go_through_the_core_without_a_copy() -> None:
    base = torch.arange(24.0).reshape(2, 3, 4)
    views = (base[:, 1:], base.transpose(0, 2), base[0, 0, 0], base.expand(1, 2, 3, 4))
    for tensor in (base, *views, t(0, 3), base.half()):
        shared = _core.share(tensor)
        assert shared.shape == tensor.shape
        assert shared.stride() == tensor.stride()
        assert shared.dtype == tensor.dtype
        assert shared.data_ptr() == tensor.data_ptr()
        assert torch.equal(shared, tensor)
    conjugate = torch.tensor([1 + 2j]).conj()
    assert torch.equal(_core.share(conjugate), conjugate.resolve_conj())


def test_shared_memory_lives_as_long_as_it_is_used() -> None:
    tensor = torch.arange(1000.0)
    gone = weakref.ref(tensor)
    shared = _core.share(tensor)
    del tensor
    gc.collect()
    assert shared[999] == 999
    del shared
    assert gone() is None


@pytest.mark.parametrize("make", [lambda: t(2, 2).to_sparse(), lambda: t(2, 2).to_sparse_csr()])
def test_sparse_tensors_can_not_be_shared(make: Any) -> None:
    with pytest.raises(TypeError, match="no strided memory"):
        _core.share(make())


# References


def test_nothing_is_kept_or_lost() -> None:
    value = [t(1), {"a": Plain(t(2), Pair(t(3), Box(t(4), "text", 1)))}, collections.deque([t(5)])]
    counts = [sys.getrefcount(part) for part in (value, value[0], value[1], value[2])]
    tensors = _core.tensors_of(value)
    for _ in range(100):
        SampleMetadata.from_outputs(value)
        _core.rebuild(value, tensors)
        _core.rebuild(value, tensors, copy_containers=True)
    del tensors
    gc.collect()
    assert [sys.getrefcount(part) for part in (value, value[0], value[1], value[2])] == counts


def test_dicts_that_change_while_they_are_read() -> None:
    class Growing:
        pass

    value: dict[str, Any] = {"a": Growing(), "b": t(1)}

    def grow(_: Growing) -> Any:
        value[f"c{len(value)}"] = t(1)
        return [], None

    graphtune.register_type(Growing, grow, lambda *_: Growing())
    with pytest.raises(ValueError, match="changed its size"):
        SampleMetadata.from_outputs(value)


# Properties

trees = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.builds(t, st.integers(0, 3))),
    lambda children: st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers()), children, max_size=3),
        st.builds(Pair, children, children),
        st.builds(Frozen, children, children),
        st.lists(children, max_size=3).map(collections.deque),
        st.builds(lambda a: Box(a, 1, "c"), children),
    ),
    max_leaves=12,
)


@given(trees)
def test_rebuild_of_the_same_is_the_same(value: Any) -> None:
    tensors = _core.tensors_of(value)
    assert _core.rebuild(value, tensors) is value
    copied = _core.rebuild(value, tensors, copy_containers=True)
    assert _core.key_of(copied) == _core.key_of(value)
    assert all(a is b for a, b in zip(_core.tensors_of(copied), tensors, strict=True))


@given(trees)
def test_there_and_back(value: Any) -> None:
    tensors = _core.tensors_of(value)
    changed = _core.rebuild(value, [tensor.clone() for tensor in tensors])
    assert _core.key_of(changed) == _core.key_of(value)
    assert all(a is not b for a, b in zip(_core.tensors_of(changed), tensors, strict=True))


@given(trees)
def test_keys_do_not_depend_on_identity(value: Any) -> None:
    assert _core.key_of(copy.deepcopy(value)) == _core.key_of(value)
