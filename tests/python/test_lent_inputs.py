"""Engines borrow the memory of a call's tensors; what they give back is the caller's own all the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from call_ways import is_quick
from graphtune.serving import tuned_router

import graphtune
from graphtune import _core

ENGINES = Path(__file__).resolve().parents[2] / "build" / "release" / "test_engines"


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def served_by_fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float) -> graphtune.Module:
    """By an engine that multiplies; with a factor of 0 it breaks its word and gives the very input."""
    if not any(ENGINES.glob("libgraphtune_engine_fake.*")):
        pytest.skip("the tests' own engine library is not built (make build)")
    monkeypatch.setenv("GRAPHTUNE_ENGINE_PATH", str(ENGINES))
    (tmp_path / "engine.json").write_text(json.dumps({"factor": factor, "outputs": [0]}))
    model = Double().eval()
    module = graphtune.Module(model, name="double")
    with torch.no_grad():
        for batch in (1, 2, 4):
            with graphtune.batch_size(batch):
                module(torch.rand(batch, 3))
    specs = module.graph_specs
    graph = _core.make_graph(specs[0], [("fake", {})], [("fake", "fake", str(tmp_path), 1)], [-1])
    router = _core.make_router([graph], module.strict)
    module.install(tuned_router(router, module.signature, [torch.empty(0)], model), specs, None)
    module.miss_policy = "error"
    return module


@torch.no_grad()
def test_a_result_that_is_an_input_outlives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = served_by_fake(tmp_path, monkeypatch, 0)
    for _ in range(3):
        x = torch.rand(4, 3)
        values = x.clone()
        result = module(x)
        assert result.data_ptr() != x.data_ptr()
        x.zero_()
        del x
        torch.rand(4, 3)  # takes the memory that was freed
        assert torch.equal(result, values)


@torch.no_grad()
def test_tensors_of_all_kinds_of_memory_are_read_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = served_by_fake(tmp_path, monkeypatch, 2)
    tensors = {
        "plain": torch.rand(2, 3),
        "transposed": torch.rand(3, 2).t(),
        "offset": torch.rand(5, 3)[1:3],
        "expanded": torch.rand(1, 3).expand(2, 3),
        "negated": torch._neg_view(torch.rand(2, 3)),
        "imaginary part of a conjugate": torch.rand(2, 3, dtype=torch.complex64).conj().imag,
        "from numpy": torch.from_numpy(torch.rand(2, 3).numpy()),
    }
    for name, x in tensors.items():
        for _ in range(2):  # by its tree, then by its form
            assert torch.equal(module(x), 2 * x), name
        assert is_quick(module, x)
