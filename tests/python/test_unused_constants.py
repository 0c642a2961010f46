"""With strict mode off: which constants a result depends on, and that no call meets an engine with others built in."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from graphtune.cache import BuildCache
from graphtune.graph_calls import Sample
from graphtune.recording import signature_of
from graphtune.unused_constants import find_unused_constants

import graphtune


class Model(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, a: Any, b: Any = None) -> torch.Tensor:
        return self.function(x, a, b)


def unused(function: Any, *constants: tuple[Any, Any]) -> list[int]:
    model = Model(function).eval()
    samples = [Sample((torch.ones(2, 3), *pair), {}, None, None) for pair in constants]
    return find_unused_constants(model, signature_of(model), samples[0], samples)


@pytest.mark.parametrize(
    "values", [(1, 2), (0.5, 1.5), ("first", "second"), (True, False), (None, 3), ([1], [2])], ids=str
)
def test_what_is_never_looked_at_is_unused(values: Any) -> None:
    assert unused(lambda x, a, b: x + 1, *((value, 7) for value in values)) == [0]
    assert unused(lambda x, a, b: x * b, *((value, 7) for value in values)) == [0]


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (lambda x, a, b: x * a, (2.0, 3.0)),
        (lambda x, a, b: x * a, (2, 3)),
        (lambda x, a, b: x + 1 if a == "first" else x, ("first", "second")),
        (lambda x, a, b: x + 1 if a else x, (True, False)),
        (lambda x, a, b: x + 1 if a is None else x, (None, 3)),
        (lambda x, a, b: x + a[0], ([1], [2])),
        # Both values give the same here; another, such as 9, would not.
        (lambda x, a, b: x + 1 if a > 8 else x, (1, 2)),
        (lambda x, a, b: torch.full_like(x, a), (1.0, 2.0)),
    ],
)
def test_what_is_looked_at_is_used(function: Any, values: Any) -> None:
    assert unused(function, *((value, 7) for value in values)) == []


def test_several_that_change_together() -> None:
    calls = [(1, "x"), (2, "y"), (2, "x")]
    assert unused(lambda x, a, b: x * a, *calls) == []
    assert unused(lambda x, a, b: x * a, *calls, (1, "z")) == [1]
    assert unused(lambda x, a, b: x * 3, *calls) == [0, 1]


def test_of_a_model_that_cannot_be_traced_all_count_as_used() -> None:
    def reads(x: torch.Tensor, a: Any, b: Any) -> torch.Tensor:
        print(x.sum().item(), end="")
        torch._dynamo.graph_break()
        return x

    assert unused(reads, (1, 7), (2, 7)) == []


def test_an_engine_serves_only_calls_with_the_constants_it_was_built_with(
    build_cache: BuildCache, tmp_path: Any
) -> None:
    model = Model(lambda x, a, b: torch.softmax(x * a, -1)).eval()
    module = graphtune.Module(model, name="scaled", strict=False)
    with torch.no_grad():
        for batch, a, b in ((1, 2.0, "r1"), (2, 3.0, "r2"), (3, 2.0, "r3"), (3, 2.0, "r4")):
            with graphtune.batch_size(batch):
                module(torch.rand(batch, 4), a, b)
    options: dict[str, Any] = {"backends": ("openvino",), "force": "openvino", "measure_seconds": 0, "progress": False}
    (graph,) = module.tune(cache=build_cache, **options).graphs["scaled"]
    assert graph.chosen.name == "openvino"
    assert any("strict mode is off and 1 constants may change results" in note for note in graph.notes)
    graphtune.save(module, tmp_path / "bundle")
    loaded = graphtune.load(tmp_path / "bundle")
    x = torch.rand(2, 4)
    with torch.no_grad(), pytest.warns(RuntimeWarning, match=r"\['a'\] is 3\.0"):
        for a in (2.0, 3.0, 2, 4.0):
            torch.testing.assert_close(module(x, a, "r9"), model(x, a, "r9"))
    assert module.stats()["by_graph"]["graph_0"]["openvino"] == 1
    assert module.stats()["misses"] == {"constant": 3}
    torch.testing.assert_close(loaded(x, 2.0, "r10"), model(x, 2.0))
    with pytest.raises(
        graphtune.MissError, match=r"\['a'\] is 3\.0 \(float\), the engines have 2\.0 \(float\) built in"
    ):
        loaded(x, 3.0, "r10")
