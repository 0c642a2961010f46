"""Axes that the samples leave in doubt are settled by asking the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from graphtune.settling import settle_ambiguities

import graphtune
from graphtune import RecordingModule


class Takes(torch.nn.Module):
    """Any sizes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Refuses(torch.nn.Module):
    """All but ten columns for each row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0], 10, x.shape[0])


def recorded(model: torch.nn.Module, *sizes: tuple[int, int]) -> RecordingModule:
    module = RecordingModule(model)
    for batch, length in sizes:
        with graphtune.batch_size(batch):
            module(torch.arange(float(batch * length)).reshape(batch, length))
    return module


def settle(module: RecordingModule) -> tuple[list[str], list[Any]]:
    """The evidence, and the calls that were made."""
    asked = []

    def call(args: tuple[Any, ...], kwargs: dict[str, Any], batch_size: int) -> object:
        asked.append((args, kwargs, batch_size))
        with graphtune.batch_size(batch_size):
            return module(*args, **kwargs)

    sample: Any = module.samples(0)[-1]
    return settle_ambiguities(lambda: module.graph_specs[0], sample, module.signature, call), asked


def axis(module: RecordingModule, number: int) -> Any:
    return module.graph_specs[0].input_spec.explain()[number]


def test_an_axis_that_the_model_takes_by_itself_is_dynamic() -> None:
    module = recorded(Takes(), (1, 10), (2, 20))
    assert axis(module, 1).ambiguous
    (evidence,), (question,) = settle(module)
    assert "axis 1 of" in evidence
    assert "independent of the batch size" in evidence
    assert (axis(module, 1).kind, axis(module, 1).size, axis(module, 1).ambiguous) == ("dynamic", "s0", False)
    # Made of the recorded call: the same rows at another batch size.
    args, kwargs, batch = question
    (x,) = (*args, *kwargs.values())
    assert (batch, tuple(x.shape)) == (1, (1, 20))
    assert torch.equal(x, torch.arange(20.0)[None])


def test_an_axis_that_the_model_needs_follows_the_batch_size() -> None:
    module = recorded(Refuses(), (1, 10), (2, 20))
    (evidence,), asked = settle(module)
    assert len(asked) == 1
    assert "follows the batch size" in evidence
    assert "RuntimeError" in evidence
    assert "\n" not in evidence
    assert (axis(module, 1).kind, axis(module, 1).multiplier) == ("batch", 10)
    assert module.graph_specs[0].sample_count == 2


@pytest.mark.parametrize("sizes", [((1, 10), (2, 20), (2, 10)), ((1, 8), (2, 8)), ((2, 4),)])
def test_nothing_is_asked_without_need(sizes: Any) -> None:
    module = recorded(Takes(), *sizes)
    assert settle(module) == ([], [])
