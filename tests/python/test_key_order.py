"""The order of a dict's keys is no part of a graph, so a model that reads it is found out."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch
from graphtune.key_order import find_key_order
from graphtune.recording import signature_of
from sample_types import Plain

import graphtune


class Function(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, y: Any = None) -> Any:
        return self.function(x)


class Keywords(torch.nn.Module):
    def forward(self, **tensors: torch.Tensor) -> torch.Tensor:
        return torch.cat(list(tensors.values()))


def found(function: Any, x: Any) -> Any:
    model = function if isinstance(function, torch.nn.Module) else Function(function)
    return find_key_order(model, (x,), {}, signature_of(model))


def pair(kind: Any = dict) -> Any:
    """Of equal values, which the model is asked about with others."""
    return kind({"a": torch.zeros(2), "b": torch.zeros(2)})


def joined(x: Any) -> torch.Tensor:
    return torch.cat(list(x.values()))


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, collections.UserDict])
def test_a_model_that_reads_the_order_is_found(kind: Any) -> None:
    assert found(joined, pair(kind)) == ("['x']", "the result has other values or sizes")


def test_one_that_reads_by_name_is_not() -> None:
    assert found(lambda x: torch.cat([x["a"], x["b"]]), pair()) is None
    assert found(lambda x: {key: value * 2 for key, value in x.items()}, pair()) is None
    assert found(lambda x: sum(x.values()), pair()) is None


def test_dicts_within_others() -> None:
    assert found(lambda x: x[0]["deep"].a["z"] + 1, [{"deep": Plain({"z": torch.ones(1), "y": 1})}]) is None
    place, _ = found(lambda x: joined(x[0]["deep"].a), [{"deep": Plain(pair())}])
    assert place == "['x'][0]['deep'].a"


def test_two_dicts_whose_orders_go_together() -> None:
    def products(x: Any) -> torch.Tensor:
        return sum(a * b for a, b in zip(x[0].values(), x[1].values(), strict=True))

    assert found(products, [pair(), pair()])[0] == "['x'][0]"


def test_constants_in_a_dict() -> None:
    assert found(lambda x: x["t"] * next(iter(x["n"].values())), {"t": torch.ones(1), "n": {"a": 1, "b": 2}}) == (
        "['x']['n']",
        "the result has other values or sizes",
    )


def test_a_model_that_refuses_or_changes_its_form() -> None:
    def needs_a_first(x: Any) -> torch.Tensor:
        assert next(iter(x)) == "a"
        return x["a"]

    assert found(needs_a_first, pair())[1] == "the model raises AssertionError"
    assert found(lambda x: [x["a"], next(iter(x))], pair())[1] == "the result has another structure"


def test_keyword_arguments_matter_only_where_any_are_taken() -> None:
    tensors = pair()
    model = Keywords()
    assert find_key_order(model, (), tensors, signature_of(model)) == (
        "the keyword arguments",
        "the result has other values or sizes",
    )
    named = Function(lambda x: x * 2)
    assert find_key_order(named, (), {"x": torch.ones(1), "y": torch.ones(2)}, signature_of(named)) is None


def test_what_was_given_is_unchanged() -> None:
    x = pair()
    tensors = dict(x)
    found(joined, x)
    assert list(x) == ["a", "b"]
    assert all(x[key] is tensor and not tensor.any() for key, tensor in tensors.items())


def test_positional_arguments_that_have_no_name() -> None:
    class Unnamed(torch.nn.Module):
        def forward(self, x: Any, /, *more: Any) -> torch.Tensor:
            return joined(more[0])

    model = Unnamed()
    place = find_key_order(model, (1, pair()), {}, signature_of(model))
    assert place is not None
    assert place[0] == "[1]"


def test_many_dicts() -> None:
    many = [pair() for _ in range(40)]
    assert found(lambda x: joined(x[39]), many) is not None
    assert found(lambda x: x[39]["a"], many) is None


def test_such_a_graph_stays_eager_and_serves_every_order() -> None:
    module = graphtune.Module(Function(joined).eval())
    with torch.no_grad():
        for batch in (1, 2):
            with graphtune.batch_size(batch):
                module({"a": torch.zeros(batch), "b": torch.ones(batch)})
        result = module.tune(progress=False)
        (graph,) = result.graphs["Function"]
        assert "order of the keys of ['x']" in graph.eager_reason
        with pytest.warns(RuntimeWarning, match="order of the keys"):
            assert module({"b": torch.ones(1), "a": torch.zeros(1)}).tolist() == [1, 0]
        assert module({"a": torch.zeros(1), "b": torch.ones(1)}).tolist() == [0, 1]
