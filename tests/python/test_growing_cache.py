"""A loop as of diffusion and decoding: one module is called many times, each time with a longer cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from graphtune.cache import BuildCache
from torch import nn

import graphtune

WIDTH = 8


class Denoiser(nn.Module):
    """Refines new frames, which see those of the past; gives the frames and the cache with them at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, frames: torch.Tensor, past: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        cache = torch.cat([past, self.value(frames)], 1)
        scores = self.query(frames) @ cache.transpose(1, 2)
        weights = (scores + (1 - mask).unsqueeze(1) * -1e4).softmax(-1)
        return {"frames": frames + self.out(weights @ cache), "cache": cache}


class Diffusion:
    """Calls its denoiser once a step, with all that was made before."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.denoiser: nn.Module = Denoiser().eval()

    def __call__(self, start: torch.Tensor, new: int, steps: int) -> torch.Tensor:
        frames, past = start[:, :new], start
        for _ in range(steps):
            mask = torch.ones(len(start), past.shape[1] + new)
            made = self.denoiser(frames, past, mask)
            frames, past = made["frames"], made["cache"]
        return past


def starts(batch: Any) -> tuple[torch.Tensor, int]:
    """Prompts of lengths 3 to 5, of which 1 to 3 frames are made at a time."""
    length = 3 + int(batch[0]) % 3
    generator = torch.Generator().manual_seed(int(batch[0]))
    return torch.rand(len(batch), length, WIDTH, generator=generator), 1 + int(batch[0]) % 3


@pytest.fixture(scope="module")
def tuned(build_cache: BuildCache) -> tuple[Diffusion, graphtune.Module, graphtune.TuneResult]:
    pipeline = Diffusion()
    modules = graphtune.wrap(pipeline)
    result = graphtune.tune(
        lambda batch: pipeline(*starts(batch), steps=4), list(range(6)), batch_sizes=[1, 2, 4], collate=list,
        progress=False, backends=("openvino",), force="openvino", measure_seconds=0, cache=build_cache,
        contract={"past": {1: graphtune.Dynamic("past", 1, 40)}},
    )  # fmt: skip
    return pipeline, modules["denoiser"], result


def test_all_steps_are_one_graph_whose_mask_is_a_sum(tuned: Any) -> None:
    _, module, result = tuned
    (spec,) = module.graph_specs
    assert spec.sample_count == 4 * (6 + 3 + 2)
    sizes = {(axis.name, axis.axis): axis.size for axis in spec.input_spec.explain()}
    new, past = sizes["kwargs_frames", 1], sizes["kwargs_past", 1]
    assert {new, past} == {"s0", "s1"}
    assert sizes["kwargs_mask", 1] == "s0+s1"
    (graph,) = result.graphs["denoiser"]
    assert graph.chosen is not None, str(result)
    assert graph.symbols["b"] == (1, 4)
    assert graph.symbols[past] == (1, 40)


def test_lengths_that_were_never_recorded_are_served(tuned: Any) -> None:
    pipeline, module, _ = tuned
    plain = Diffusion()
    plain.denoiser.load_state_dict(module.wrapped.state_dict())
    module.miss_policy = "error"
    served = 0
    with torch.no_grad():
        # A prompt of 1 frame, and 30 steps: the cache grows to 31, far beyond what was seen.
        for batch, length, new, steps in ((3, 1, 1, 30), (4, 7, 3, 11), (1, 2, 2, 5)):
            start = torch.rand(batch, length, WIDTH)
            torch.testing.assert_close(pipeline(start, new, steps), plain(start, new, steps), rtol=1e-3, atol=1e-4)
            served += steps
    assert module.stats()["by_graph"] == {"graph_0": {"openvino": served}}
    assert module.stats()["misses"] == {}


def test_one_step_too_many_is_a_miss(tuned: Any) -> None:
    pipeline, module, _ = tuned
    module.miss_policy = "error"
    with torch.no_grad(), pytest.raises(graphtune.MissError, match=r"axis 1 of .*past.* 41"):
        pipeline(torch.rand(1, 40, WIDTH), 1, 3)


def test_inspect_shows_the_loop(tuned: Any) -> None:
    pipeline = Diffusion()
    found = graphtune.inspect(
        lambda batch: pipeline(*starts(batch), steps=4), list(range(6)), batch_sizes=[1, 2], collate=list,
        modules=pipeline,
    )  # fmt: skip
    report = found["denoiser"]
    assert (report.calls, len(report.graphs)) == (4 * (6 + 3), 1)
    assert report.graphs[0].symbols["b"] == (1, 2)
    assert [each.path for each in found.candidates()] == ["denoiser"]
