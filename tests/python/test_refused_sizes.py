"""What a model refuses becomes a limit of the contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from graphtune.cache import BuildCache
from graphtune.probing import Point, corners
from graphtune.refused_sizes import SizeLimits, learn_limits
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import graphtune

Sizes = Mapping[str, int]


def limits_of(
    takes: Callable[[Sizes], bool], ranges: Mapping[str, tuple[int, int]], *recorded: Sizes, conditions: Any = ()
) -> SizeLimits:
    """What is learned of a model that takes these sizes; every point that was recorded is one of them."""
    assert all(takes(values) for values in recorded)
    asked = []

    def refusal(point: Point) -> str:
        asked.append(point)
        return "" if takes(point.values) else "ValueError: no"

    limits = learn_limits(refusal, ranges, conditions, [Point.of(values) for values in recorded])
    assert len(asked) < 400
    return limits


def test_a_model_that_takes_all_teaches_nothing() -> None:
    assert limits_of(lambda v: True, {"b": (1, 8)}, {"b": 2}) == SizeLimits({"b": (1, 8)}, [])


def test_a_largest_and_a_smallest_size() -> None:
    limits = limits_of(
        lambda v: 3 <= v["s0"] <= 512, {"b": (1, 8), "s0": (1, 600)}, {"b": 1, "s0": 5}, {"b": 8, "s0": 60}
    )
    assert limits.ranges == {"b": (1, 8), "s0": (3, 512)} and not limits.conditions and not limits.problem
    assert (
        sorted(limits.notes)
        == [
            "limited to s0 in 1..512 of 1..600: the model refuses s0 = 513 (ValueError: no)",
            "limited to s0 in 3..512 of 1..512: the model refuses s0 = 2 (ValueError: no)",
        ]
        or len(limits.notes) == 2
    )


@pytest.mark.parametrize("divisor", [2, 3, 4, 8])
def test_multiples(divisor: int) -> None:
    recorded = [{"b": 2, "s0": 24}, {"b": 3, "s0": 48}]
    limits = limits_of(lambda v: v["s0"] % divisor == 0, {"b": (1, 8), "s0": (2, 99)}, *recorded)
    assert limits.conditions == [f"s0 % {divisor} == 0"] and not limits.problem
    (note,) = limits.notes
    assert note.startswith(f"limited to s0 % {divisor} == 0: the model refuses s0 = ") and "ValueError: no" in note


def test_multiples_up_to_a_size() -> None:
    limits = limits_of(lambda v: v["s0"] % 4 == 0 and v["s0"] <= 64, {"s0": (4, 200)}, {"s0": 8}, {"s0": 12})
    assert limits.conditions == ["s0 % 4 == 0"] and not limits.problem
    assert 64 <= limits.ranges["s0"][1] < 68


def test_a_largest_product() -> None:
    limits = limits_of(
        lambda v: v["b"] * v["s0"] <= 100, {"b": (1, 8), "s0": (1, 60)}, {"b": 8, "s0": 5}, {"b": 1, "s0": 60}
    )
    assert not limits.problem
    (condition,) = limits.conditions
    largest = int(condition.removeprefix("b*s0 <= "))
    assert 96 <= largest <= 100 and limits.ranges == {"b": (1, 8), "s0": (1, 60)}


def test_sizes_that_must_be_equal_are_kept_to_what_was_recorded() -> None:
    limits = limits_of(lambda v: v["s0"] == v["s1"], {"s0": (4, 4), "s1": (3, 9)}, {"s0": 4, "s1": 4})
    assert limits.ranges == {"s0": (4, 4), "s1": (4, 4)} and not limits.problem


def test_what_has_no_form_is_a_problem() -> None:
    limits = limits_of(lambda v: v["s0"] in (7, 600), {"s0": (1, 600)}, {"s0": 7}, {"s0": 600})
    assert not limits.problem and limits.ranges["s0"] in ((7, 7), (600, 600))
    refused = limits_of(lambda v: False, {"s0": (1, 9)})
    assert "refuses" in refused.problem


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_corner_of_what_is_left_is_refused(data: st.DataObject) -> None:
    """Whatever the model takes: what is left is inside of what was asked for, and its corners are taken."""
    low, high = sorted(data.draw(st.tuples(st.integers(1, 90), st.integers(1, 90))))
    most = data.draw(st.integers(1, 900))
    divisor = data.draw(st.sampled_from([1, 1, 2, 4]))

    def takes(v: Sizes) -> bool:
        return low <= v["s0"] <= high and v["b"] * v["s0"] <= most and v["s0"] % divisor == 0

    possible = [{"b": b, "s0": s} for b in (1, 2, 8) for s in range(1, 91) if takes({"b": b, "s0": s})]
    if not possible:
        return
    recorded = data.draw(st.lists(st.sampled_from(possible), min_size=1, max_size=4))
    ranges = {"b": (1, 8), "s0": (1, 90)}
    limits = limits_of(takes, ranges, *recorded)
    assert all(ranges[n][0] <= span[0] <= span[1] <= ranges[n][1] for n, span in limits.ranges.items())
    if not limits.problem:
        assert all(takes(point.values) for point in corners(limits.ranges, limits.conditions))


class Positions(nn.Module):
    """Sentences of at most 32 tokens, as its table has no more places."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.places = nn.Embedding(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.places(torch.arange(x.shape[1]))


def test_a_contract_is_not_wider_than_what_the_model_takes(build_cache: BuildCache) -> None:
    model = Positions().eval()
    module = graphtune.Module(model)
    result = graphtune.tune(
        module, [torch.randn(5, 8), torch.randn(7, 8), torch.randn(9, 8)], batch_sizes=[1, 2], backends=("openvino",),
        collate=lambda rows: torch.stack([rows[0]] * len(rows)), force="openvino", measure_seconds=0, progress=False,
        cache=build_cache, contract={"x": {1: graphtune.Dynamic("length", 2, 40)}},
    )  # fmt: skip
    (graph,) = result.graphs[module.name]
    assert graph.chosen is not None, str(result)
    assert graph.symbols["s0"] == (2, 32)
    assert any("the model refuses s0 = 33 (IndexError" in note for note in graph.notes), graph.notes
    x = torch.randn(2, 32, 8)
    with torch.no_grad():
        torch.testing.assert_close(module(x), model(x))
        with pytest.warns(RuntimeWarning, match="allowed is s0 = 2 to 32"), pytest.raises(IndexError):
            module(torch.randn(2, 33, 8))
    assert module.stats()["by_graph"]["graph_0"] == {"openvino": 1}
