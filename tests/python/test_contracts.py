"""Ranges that the user gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from graphtune.cache import BuildCache
from graphtune.contracts import widen
from graphtune.probing import Point, grid

import graphtune
from graphtune import Batch, Dynamic, GraphSpec, SampleMetadata


class Encoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(20, 8)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.linear(self.table(ids)) * mask.unsqueeze(-1)


def call(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, 20, (batch, length)), torch.ones(batch, length)


def spec_of(*sizes: tuple[int, int]) -> GraphSpec:
    spec = None
    for batch, length in sizes:
        inputs = SampleMetadata.from_inputs((), {"ids": call(batch, length)[0]}, batch_size=batch)
        outputs = SampleMetadata.from_outputs(torch.zeros(batch, length, 4), batch_size=batch)
        if spec is None:
            spec = GraphSpec("graph_0", inputs, outputs)
        else:
            spec.update(inputs, outputs)
    assert spec is not None
    return spec


def test_wider_ranges_are_built_for_and_validated(build_cache: BuildCache) -> None:
    model = Encoder().eval()
    module = graphtune.Module(model, name="encoder")
    for batch, length in ((1, 4), (2, 7), (3, 9)):
        with graphtune.batch_size(batch), torch.no_grad():
            module(*call(batch, length))
    result = module.tune(
        contract={"ids": {0: Batch(1, 16, 8), 1: Dynamic("length", 2, 64, opt=10)}},
        backends=("openvino",),
        force="openvino",
        progress=False,
        measure_seconds=0,
        cache=build_cache,
    )
    assert module.graph_specs[0].symbols == {"b": (1, 16), "s0": (2, 64)}
    points = result.graphs["encoder"][0].points
    assert {point["b"] for point in points} == {1, 8, 16}
    assert {point["s0"] for point in points} == {2, 10, 64}
    with torch.no_grad():
        for batch, length in ((1, 2), (16, 64), (1, 64), (16, 2), (5, 33)):
            args = call(batch, length)
            torch.testing.assert_close(module(*args), model(*args), rtol=1e-5, atol=1e-5)
        assert module.stats()["by_graph"]["graph_0"]["openvino"] == 5
        module(*call(17, 9))
    assert module.stats()["misses"] == {"range": 1}


@pytest.mark.parametrize(
    "contract, words",
    [
        ({"ids": {0: Batch(2, 8)}}, r"axis 0 of 'ids' in graph_0: .* leaves out what was recorded, sizes 1 to 4 of b"),
        ({"ids": {1: Dynamic("s", 1, 8)}}, "sizes 5 to 9 of s0"),
        ({"ids": {1: Batch(1, 8)}}, "is no batch axis"),
        ({"ids": {0: Dynamic("s", 1, 8)}}, "axis 0 .* is b"),
        ({"ids": {2: Batch(1, 8)}}, "the input has 2 axes"),
    ],
)
def test_what_contradicts_the_samples_is_refused(contract: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        widen(spec_of((1, 5), (2, 9), (4, 6)), contract)


def test_axes_of_one_size_say_what_to_record() -> None:
    with pytest.raises(ValueError, match=r"has size 5 in all samples.*record a call of another size"):
        widen(spec_of((1, 5), (2, 5)), {"ids": {1: Dynamic("s", 1, 8)}})


@pytest.mark.parametrize("name", ["ids", "['ids']", "kwargs_ids"])
def test_inputs_go_by_any_of_their_names(name: str) -> None:
    spec = spec_of((1, 5), (2, 9), (4, 6))
    assert widen(spec, {name: {0: Batch(1, 9), -1: Dynamic("s", 1, 80)}}) == {
        "b": Batch(1, 9),
        "s0": Dynamic("s", 1, 80),
    }


def test_bad_contracts_are_refused_before_anything_is_built() -> None:
    module = graphtune.Module(torch.nn.Identity().eval())
    module(torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"no recorded call has an input 'y'; there are \['input'\]"):
        module.tune(contract={"y": {0: Batch(1, 2)}}, progress=False)
    for broken in (3, {"x": 3}, {"x": {0: 5}}, {"x": {"0": Batch(1, 2)}}, {1: {}}):
        with pytest.raises(TypeError, match="contract"):
            module.tune(contract=broken, progress=False)
    assert module.graph_specs[0].sample_count == 1


@pytest.mark.parametrize("bad", [(0, 4), (4, 2), (1, 4, 5), (3, 4, 2)])
def test_bad_ranges(bad: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="does not hold"):
        Batch(*bad)
    for wrong in (True, 1.0, "1", None):
        with pytest.raises(TypeError, match="max must be an int"):
            Dynamic("s", 1, wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name"):
        Dynamic("", 1, 2)


def test_typical_sizes_are_measured() -> None:
    points = grid({"b": (1, 32), "s0": (1, 64)}, [Point.of({"b": 2, "s0": 9})], (1, 4), {"s0": 20})
    assert {point.values["b"] for point in points} == {1, 4, 32}
    assert {point.values["s0"] for point in points} == {1, 20, 64}
