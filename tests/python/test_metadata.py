"""SampleMetadata, TensorSpec, Locator and GraphSpec as objects."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
import torch

import graphtune
from graphtune import GraphSpec, InfoLevel, SampleMetadata, TensorSpec


def t(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def metadata() -> SampleMetadata:
    first = SampleMetadata.from_inputs((t(1, 5), "text"), {"a": {"k": [t(2, 3)]}}, strict=True, batch_size=1)
    for batch, length in ((2, 6), (4, 9), (3, 5)):
        other = SampleMetadata.from_inputs(
            (t(batch, length), "text"), {"a": {"k": [t(2 * batch, 3)]}}, strict=True, batch_size=batch
        )
        first.update_shapes_seen(other)
    return first


def test_tensor_data() -> None:
    (locator, spec), (nested, _) = metadata().tensor_data
    assert (str(locator), locator.name, locator.root, locator.steps) == ("[0]", "args_0", "args", [("index", 0)])
    assert (spec.name, spec.dtype, spec.device, spec.layout) == ("args_0", torch.float32, "cpu", "strided")
    assert isinstance(spec.dtype, torch.dtype)
    assert (str(nested), nested.root) == ("['a']['k'][0]", "kwargs")
    assert nested.steps == [("key", "a"), ("key", "k"), ("index", 0)]
    assert repr(nested) == "<Locator kwargs ['a']['k'][0]>"
    assert locator == metadata().tensor_data[0][0]
    assert locator != nested
    assert len({locator, metadata().tensor_data[0][0], nested}) == 2


def test_other_data_has_values() -> None:
    values = (None, True, 3, 2**70, 0.5, "text", b"bytes", torch.float16)
    other = SampleMetadata.from_inputs(values, {}, strict=True).other_data
    assert [value for _, value in other] == [*values[:-1], "torch.float16"]
    assert [type(value) for _, value in other[:-1]] == [type(value) for value in values[:-1]]


def test_outputs() -> None:
    (single,) = SampleMetadata.from_outputs(t(2)).tensor_data
    assert (str(single[0]), single[1].name) == ("", "outputs")
    (only,) = SampleMetadata.from_outputs((t(2),)).tensor_data
    assert (str(only[0]), only[1].name) == ("[0]", "outputs_0")
    assert SampleMetadata.from_outputs(None, strict=True).tensor_data == []


def test_equality_and_hash_are_the_graphs() -> None:
    one, other = metadata(), SampleMetadata.from_inputs((t(9, 9), "text"), {"a": {"k": [t(1, 1)]}}, strict=True)
    assert one == other
    assert hash(one) == hash(other)
    assert one != SampleMetadata.from_inputs((t(9, 9), "other"), {"a": {"k": [t(1, 1)]}}, strict=True)
    assert one != 1
    assert one is not None


def test_explain_tells_of_each_axis() -> None:
    reports = metadata().explain()
    assert [(report.name, report.axis, report.kind) for report in reports] == [
        ("args_0", 0, "batch"),
        ("args_0", 1, "dynamic"),
        ("kwargs_a_k_0", 0, "batch"),
        ("kwargs_a_k_0", 1, "static"),
    ]
    assert [report.size for report in reports] == ["b", "s0", "2*b", "3"]
    assert [(report.min, report.max) for report in reports] == [(1, 4), (5, 9), (2, 8), (3, 3)]
    assert reports[2].multiplier == 2
    assert all(report.reason for report in reports)
    assert not reports[0].ambiguous
    assert "args_0 axis 0: batch b" in repr(reports[0])


def test_symbols_and_batch_sizes() -> None:
    assert metadata().symbols == {"b": (1, 4), "s0": (5, 9)}
    assert (metadata().min_batch_size, metadata().max_batch_size) == (1, 4)
    unknown = SampleMetadata.from_inputs((t(1),), {})
    assert (unknown.symbols, unknown.min_batch_size, unknown.max_batch_size) == ({}, None, None)


def test_json_and_back() -> None:
    known = metadata()
    data = known.to_dict()
    read = SampleMetadata.from_dict(json.loads(json.dumps(data)))
    assert read == known
    assert read.describe() == known.describe()
    assert read.to_dict() == data
    assert repr(read.explain()) == repr(known.explain())
    read.update_shapes_seen(
        SampleMetadata.from_inputs((t(8, 5), "text"), {"a": {"k": [t(16, 3)]}}, strict=True, batch_size=8)
    )
    assert read.max_batch_size == 8


def test_json_of_odd_values() -> None:
    values = [
        float("nan"),
        -0.0,
        2**70,
        b"\xff",
        "\ud800",
        {"k\ud800": 1, 1: 2, 1.5: 3, (1, 2): 4},
        torch.float16,
        10**5000,
    ]
    known = SampleMetadata.from_inputs(tuple(values), {"x\ud800": t(1)}, strict=True)
    read = SampleMetadata.from_dict(json.loads(json.dumps(known.to_dict())))
    assert read == known
    assert read.describe() == known.describe()


@pytest.mark.parametrize(
    "broken", [None, 1, [], {}, {"strict": 1}, {"strict": True, "structure": {}}, {"x": float("nan")}]
)
def test_json_that_is_none_of_ours(broken: Any) -> None:
    for cls in (SampleMetadata, TensorSpec, GraphSpec):
        with pytest.raises(ValueError, match=r"."):
            cls.from_dict(broken)


@pytest.mark.parametrize("change", ["pickle", "copy", "deepcopy"])
def test_copies(change: str) -> None:
    of = {"pickle": lambda x: pickle.loads(pickle.dumps(x)), "copy": copy.copy, "deepcopy": copy.deepcopy}[change]
    known = metadata()
    graph = GraphSpec("g", known, SampleMetadata.from_outputs({"y": t(1, 2)}, batch_size=1))
    assert of(known).describe() == known.describe()
    assert of(graph).describe() == graph.describe()
    assert of(known.tensor_specs[0]) == known.tensor_specs[0]


def test_a_graph_takes_a_call_and_a_result() -> None:
    call, result = metadata(), SampleMetadata.from_outputs(t(1, 2))
    with pytest.raises(ValueError, match="output_spec: expected the metadata of a result"):
        GraphSpec("g", call, call)
    with pytest.raises(ValueError, match="input_spec: expected the metadata of a call"):
        GraphSpec("g", result, result)


def test_symbols_and_ambiguities_of_a_graph() -> None:
    result = SampleMetadata.from_outputs(t(1, 2), batch_size=1)
    graph = GraphSpec("g", metadata(), result)
    assert graph.symbols == {"b": (1, 4), "s0": (5, 9)}
    assert graph.ambiguities == []
    inputs = SampleMetadata.from_inputs((t(1, 10),), {}, batch_size=1)
    inputs.update_shapes_seen(SampleMetadata.from_inputs((t(2, 20),), {}, batch_size=2))
    (first,) = [report for report in GraphSpec("g", inputs, result).ambiguities if report.axis == 1]
    assert (first.kind, first.multiplier, first.ambiguous) == ("batch", 10, True)
    assert first.settle


# TensorSpec


def test_a_spec_by_itself() -> None:
    spec = TensorSpec("x", [1, 5], torch.float32, batch_size=1)
    spec.update_shapes_seen(TensorSpec("x", [2, 7], torch.float32, batch_size=2))
    assert (spec.shape, spec.min_shape, spec.max_shape) == (["batch0", "dim1"], [1, 5], [2, 7])
    assert spec.get_batch_axis_multipliers() == {0: 1}
    assert spec.has_batch_axis()
    assert spec.has_dynamic_axis()
    assert spec.describe() == "x: torch.float32 ['batch0', 'dim1'], min [1, 5], max [2, 7]"
    assert repr(spec) == f"<TensorSpec {spec.describe()}>"
    assert TensorSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


def test_specs_that_match() -> None:
    spec = TensorSpec("x", [1, 5], torch.float32)
    assert spec.matches(TensorSpec("y", [9, 9], torch.float32))
    for other in (
        TensorSpec("x", [1], torch.float32),
        TensorSpec("x", [1, 5], torch.float64),
        TensorSpec("x", [1, 5], torch.float32, device="cuda"),
        TensorSpec("x", [1, 5], torch.float32, layout="sparse_coo"),
    ):
        assert not spec.matches(other)
        with pytest.raises(ValueError, match="x"):
            spec.update_shapes_seen(other)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("x", [-1], torch.float32), ValueError),
        (("x", [1], "float32"), TypeError),
        (("x", ["a"], torch.float32), TypeError),
        (("x", [1], torch.float32, 0), ValueError),
        (("x", [1], torch.float32, None, "nowhere"), ValueError),
    ],
)
def test_bad_specs(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        TensorSpec(*arguments)


# The batch size of the context


def test_the_context_gives_the_batch_size() -> None:
    with graphtune.batch_size(3):
        assert SampleMetadata.from_inputs((t(3),), {}).max_batch_size == 3
        assert SampleMetadata.from_outputs(t(3)).max_batch_size == 3
        assert SampleMetadata.from_inputs((t(3),), {}, batch_size=6).max_batch_size == 6
    assert SampleMetadata.from_inputs((t(3),), {}).max_batch_size is None


# GraphSpec


def test_graph_spec() -> None:
    spec = GraphSpec("graph_0", metadata(), SampleMetadata.from_outputs(t(1, 2), batch_size=1))
    assert (spec.name, spec.sample_count, spec.eager_reason) == ("graph_0", 1, "")
    assert spec.input_spec == metadata()
    assert (spec.min_batch_size, spec.max_batch_size) == (1, 4)
    spec.update(
        SampleMetadata.from_inputs((t(8, 5), "text"), {"a": {"k": [t(16, 3)]}}, strict=True, batch_size=8),
        SampleMetadata.from_outputs(t(8, 2), batch_size=8),
    )
    assert (spec.sample_count, spec.max_batch_size) == (2, 8)
    assert spec.output_spec.tensor_specs[0].shape == ["batch0", 2]
    assert "graph_0" in repr(spec)
    assert spec.describe(InfoLevel.SHORT) != spec.describe()
    read = GraphSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert read.describe() == spec.describe()
    spec.set_eager_reason("because")
    assert spec.eager_reason == "because"


def test_a_graph_refuses_calls_of_another() -> None:
    spec = GraphSpec("graph_0", SampleMetadata.from_inputs((t(1),), {}), SampleMetadata.from_outputs(t(1)))
    with pytest.raises(ValueError, match="rank"):
        spec.update(SampleMetadata.from_inputs((t(1, 1),), {}), SampleMetadata.from_outputs(t(1)))


def test_levels_are_an_enum() -> None:
    assert [level.name for level in InfoLevel] == ["SHORT", "MEDIUM", "FULL"]
    with pytest.raises(TypeError):
        metadata().describe("FULL")  # type: ignore[arg-type]
