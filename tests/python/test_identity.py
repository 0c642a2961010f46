"""What makes two calls the same execution graph."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import re
import uuid
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphtune import RecordingModule, SampleMetadata, _core


class Color(enum.IntEnum):
    RED = 1
    BLUE = 2


class Name(enum.StrEnum):
    A = "a"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Data:
    a: Any
    b: Any


class MyDict(dict):  # type: ignore[type-arg]
    pass


class MyStr(str):
    pass


class Opaque:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def t(*shape: int, **options: Any) -> torch.Tensor:
    return torch.zeros(shape, **options)


def graph(*args: Any, strict: bool = True, **kwargs: Any) -> SampleMetadata:
    return SampleMetadata.from_inputs(args, kwargs, strict=strict)


def all_different(items: list[Any]) -> bool:
    graphs = [graph(item) for item in items]
    return all(a != b for i, a in enumerate(graphs) for b in graphs[:i]) and all(
        a == graph(item) and hash(a) == hash(graph(item)) for a, item in zip(graphs, items, strict=True)
    )


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None, mask: Any = None, flag: bool = False) -> Any:
        self.seen = mask
        return x


# Tensors


def test_rank_makes_a_graph() -> None:
    assert graph(t(1, 10)) != graph(t(1, 10, 5))
    assert graph(t()) != graph(t(1))


def test_sizes_do_not() -> None:
    assert graph(t(1, 10)) == graph(t(7, 3))
    assert hash(graph(t(1, 10))) == hash(graph(t(7, 3)))


def test_dtype_layout_and_device_type_do() -> None:
    dense = t(2, 2)
    assert all_different(
        [
            dense,
            dense.half(),
            dense.long(),
            dense.to_sparse(),
            dense.to_sparse_csr(),
            t(2, 2, device="meta"),
            dense.bfloat16(),
            dense.bool(),
            dense.to(torch.complex64),
        ]
    )


def test_parameters_are_tensors() -> None:
    assert graph(torch.nn.Parameter(t(2))) == graph(t(2))


# Normalised calls


@pytest.mark.parametrize(
    "calls",
    [
        [((0, 1), {}), ((0,), {"y": 1}), ((), {"y": 1, "x": 0}), ((), {"x": 0, "y": 1})],
        [((0,), {}), ((0, None), {}), ((0,), {"mask": None}), ((0, None, None, False), {}), ((), {"x": 0})],
    ],
)
def test_one_graph_however_arguments_are_passed(calls: list[Any]) -> None:
    module = RecordingModule(Model())
    for args, kwargs in calls:
        tensors = (t(2, 3), t(2, 4))
        of = lambda index: tensors[index] if type(index) is int else index  # noqa: B023, E731
        module(*map(of, args), **{name: of(index) for name, index in kwargs.items()})
    assert len(module.graph_specs) == 1
    assert module.graph_specs[0].sample_count == len(calls)


def test_values_beside_defaults_make_graphs() -> None:
    module = RecordingModule(Model())
    module(t(2))
    module(t(2), flag=True)
    module(t(2), flag=0)  # equals the default, but is no bool
    module(t(2), mask=0)
    assert len(module.graph_specs) == 4


def test_from_inputs_does_not_normalise() -> None:
    assert graph(t(1)) != graph(x=t(1))


# Order of keys


def test_order_of_dict_keys_is_no_matter_and_the_model_gets_the_callers() -> None:
    module = RecordingModule(Model())
    for keys in (["a", "b", "c"], ["c", "a", "b"]):
        mask = {key: {inner: t(2) for inner in keys} for key in keys}
        module(t(2), mask=mask)
        assert list(module.seen) == keys
        assert [list(inner) for inner in module.seen.values()] == [keys] * 3
    assert len(module.graph_specs) == 1


@given(st.dictionaries(st.one_of(st.text(), st.integers(), st.booleans(), st.none()), st.integers()), st.randoms())
def test_any_order_of_keys(items: dict[Any, int], random: Any) -> None:
    shuffled = list(items.items())
    random.shuffle(shuffled)
    assert _core.key_of(items) == _core.key_of(dict(shuffled))


def test_rows_follow_the_callers_order() -> None:
    metadata = graph(b=t(1), a=t(2))
    assert [spec.name for spec in metadata.tensor_specs] == ["kwargs_b", "kwargs_a"]


# Constants


def test_equal_looking_constants_of_five_types() -> None:
    assert all_different([True, 1, 1.0, "1", b"1"])


def test_nan_equals_nan() -> None:
    assert graph(float("nan")) == graph(-float("nan"))


def test_zero_differs_from_minus_zero() -> None:
    assert graph(0.0) != graph(-0.0)


def test_empty_containers_and_none_at_all() -> None:
    graphs = [graph([]), graph({}), graph(()), graph()]
    assert all(a != b for i, a in enumerate(graphs) for b in graphs[:i])


def test_the_type_of_a_container_matters() -> None:
    a, b = t(1), t(2)
    assert all_different(
        [
            [a, b],
            (a, b),
            Pair(a, b),
            Data(a, b),
            {"a": a, "b": b},
            MyDict(a=a, b=b),
            collections.OrderedDict(a=a, b=b),
            collections.deque([a, b]),
        ]
    )


def test_enum_members_are_no_ints() -> None:
    assert all_different([Color.RED, Color.BLUE, 1, Name.A, "a", MyStr("a"), Access.READ, Access.READ | Access.WRITE])


@pytest.mark.parametrize(
    "values",
    [
        [np.zeros(3), np.ones(3), np.zeros((3, 1)), np.zeros(3, dtype="float32")],
        [np.float32(1), np.float64(1), np.int64(1), 1.0, np.float32(2), np.bool_(True)],
        [{1, 2}, {1, 3}, frozenset({1, 2}), {1.0, 2}, set(), {(1, 2)}, {"1", "2"}],
        [slice(1), slice(1, 2), slice(None), slice(1, None, 2), range(2), range(3)],
        [bytearray(b"a"), bytearray(b"b"), b"a"],
        [torch.Size([1, 2]), torch.Size([2, 1]), torch.Size([])],
        [torch.float32, torch.float64, torch.int8],
        [torch.device("cpu"), torch.device("cuda"), torch.device("cuda", 1)],
        [torch.channels_last, torch.contiguous_format, torch.strided],
        [1j, 2j, complex(0, -0.0), complex(-0.0, 0), 1 + 0j],
        [datetime.date(2020, 1, 2), datetime.date(2020, 1, 3), datetime.datetime(2020, 1, 2)],
        [datetime.timedelta(1), datetime.timedelta(2), datetime.time(1)],
        [decimal.Decimal("1.0"), decimal.Decimal("1.00"), fractions.Fraction(1, 2), fractions.Fraction(1, 3)],
        [pathlib.PurePosixPath("/a"), pathlib.PurePosixPath("/b"), "/a"],
        [uuid.UUID(int=1), uuid.UUID(int=2)],
        [re.compile("a"), re.compile("b"), re.compile("a", re.IGNORECASE)],
        [int, float, torch.nn.Linear, torch.relu, torch.nn.functional.gelu, len],
        [..., NotImplemented, None],
        [2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**5000, 10**5000 + 1],
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_constants_of_many_types(values: list[Any]) -> None:
    assert all_different(values)
    assert graph(*values, strict=False) == graph(*reversed(values), strict=False)


def test_a_module_takes_constants_of_every_type() -> None:
    module = RecordingModule(Model())
    values = [
        np.zeros(3),
        {1, 2},
        slice(1),
        bytearray(b"a"),
        torch.Size([1]),
        torch.int8,
        torch.device("cpu"),
        Color.RED,
    ]
    for value in (*values, *values):
        module(t(2), mask=value)
        assert module.seen is value
    assert [spec.sample_count for spec in module.graph_specs] == [2] * len(values)
    assert not any(spec.eager_reason for spec in module.graph_specs)


def test_sets_are_compared_whatever_their_order() -> None:
    words = [f"word{index}" for index in range(100)]
    backwards = words[::-1]
    assert graph(set(words)) == graph(set(backwards))


def test_changed_arrays_are_other_constants() -> None:
    array = np.zeros(4)
    before = graph(array)
    array[2] = 1
    assert graph(array) != before


def test_arrays_of_objects_and_what_numpy_can_not_compare() -> None:
    assert graph(np.array([1, "a"], dtype=object)) == graph(np.array([1, "a"], dtype=object))
    assert [str(locator) for locator in graph(np.array([object()], dtype=object)).opaque_data] == ["[0]"]


def test_functions_that_share_a_name_are_opaque() -> None:
    functions = [lambda x, n=n: x + n for n in (1, 2)]
    assert [str(locator) for locator in graph(*functions).opaque_data] == ["[0]", "[1]"]


# Opaque objects


def test_opaque_objects_do_not_make_a_graph_each() -> None:
    module = RecordingModule(Model())
    for _ in range(3):
        module(t(2), mask=Opaque(t(3)))
    (spec,) = module.graph_specs
    assert [str(locator) for locator in spec.input_spec.opaque_data] == ["['mask']"]
    assert "Opaque" in spec.eager_reason
    assert "['mask']" in spec.eager_reason


def test_dicts_with_keys_that_have_no_value_are_opaque() -> None:
    metadata = graph({object(): t(1)}, {"a": {object(): 1}})
    assert [str(locator) for locator in metadata.opaque_data] == ["[0]", "[1]['a']"]


def test_keys_of_other_types() -> None:
    graphs = [graph({key: t(1)}) for key in (1, "1", 1.0, None, (1, 2), (1, "2"), Color.RED, b"1", torch.float32)]
    assert all(a != b for i, a in enumerate(graphs) for b in graphs[:i])


# Not strict


def test_without_strict_constants_are_ignored_but_structure_is_not() -> None:
    assert graph(t(1), 1, strict=False) == graph(t(2), "a", strict=False)
    assert graph(t(1), [1], strict=False) != graph(t(1), 1, strict=False)
    assert graph(t(1), {"a": 1}, strict=False) != graph(t(1), {"b": 1}, strict=False)
    assert graph(t(1), 1, strict=False) != graph(t(1), strict=False)
    assert graph(t(1), 1, strict=False).other_data == []
