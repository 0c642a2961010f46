"""Exported programs become TorchScript with the sizes left open, and engines of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from graphtune.building import BuildJob, BuildResult, build
from graphtune.cache import BuildCache
from graphtune.exporting import export_flat
from graphtune.flat_module import FlatModule
from graphtune.torchscript_graph import save_torchscript, torchscript_graph
from torch import nn

import graphtune
from graphtune import _core

RANGES = {"b": (1, 4), "s0": (1, 6)}


class Sizes(nn.Module):
    """Sizes that are computed with, an unused input, a repeated output, lists, and operators of several results."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.convolution = nn.Conv1d(8, 8, 1)
        self.normalisation = nn.BatchNorm1d(8)
        self.register_buffer("offsets", torch.arange(8.0))

    def forward(self, ids: torch.Tensor, unused: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, ...]:
        batch, length = ids.shape
        hidden = self.table(ids).view(batch, length, 2, 4).transpose(1, 2).reshape(batch, 2 * length, 4)
        first, second = hidden.split([length, length], 1)
        both = torch.cat([first, second + scale], -1)
        folded = self.normalisation(self.convolution(both.transpose(1, 2)))
        place = torch.arange(length, device=ids.device).expand(batch, length)
        value, index = both.max(-1)
        masked = both.masked_fill((ids > 5).unsqueeze(-1), float("-inf")).softmax(-1)
        return both, both, folded, place, value, index, masked, both + self.offsets, ids[:, -1], both.mean() / length


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[FlatModule, Any]:
    torch.manual_seed(0)
    model = Sizes().eval()
    model.normalisation.running_mean.uniform_()
    flat = FlatModule(model, lambda tensors: (tensors, {}), list)
    tensors = [torch.randint(0, 11, (2, 3)), torch.randn(2), torch.tensor(2.5)]
    path = tmp_path_factory.mktemp("exported") / "graph.pt2"
    return flat, export_flat(flat, tensors, [["b", "s0"], ["b"], []], RANGES, path)


def make(graph: Any, folder: Path, **options: Any) -> BuildResult:
    return build(BuildJob("torchscript", graph.path, str(folder), graph.shapes, graph.ranges, options=options))


@pytest.mark.parametrize("options", [{}, {"freeze": False, "optimize": False}], ids=["default", "plain"])
def test_every_size_in_the_ranges_is_as_eager(
    exported: tuple[FlatModule, Any], tmp_path: Path, options: dict[str, Any]
) -> None:
    flat, graph = exported
    result = make(graph, tmp_path, **options)
    assert result.built, result.reason
    assert result.files == ["engine.json", "model.pt"]
    assert result.engine is not None
    assert result.engine["options"] == {"optimize": options.get("optimize", True)}
    assert [entry["index"] for entry in result.engine["inputs"]] == [0, 1, 2]
    engine = _core.Engine("torchscript", tmp_path)
    for batch, length in ((1, 1), (4, 6), (1, 6), (4, 1), (3, 2), (2, 5)):
        tensors = [torch.randint(0, 11, (batch, length)), torch.randn(batch), torch.tensor(-0.5)]
        with torch.no_grad():
            expected = flat(*tensors)
        torch.testing.assert_close(engine.run(tensors), list(expected), equal_nan=True)


def test_freezing_folds(exported: tuple[FlatModule, Any], tmp_path: Path) -> None:
    for freeze in (True, False):
        save_torchscript(torch.export.load(exported[1].path), str(tmp_path / "model.pt"), freeze)
        nodes = str(torch.jit.load(tmp_path / "model.pt").graph)
        assert ("aten::batch_norm" in nodes) is not freeze


def test_results_are_not_the_models_own(tmp_path: Path) -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(3.0))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return self.table, self.table[1:], x * 2

    flat = FlatModule(Constant().eval(), lambda tensors: (tensors, {}), list)
    graph = export_flat(flat, [torch.ones(2, 3)], [["b", 3]], {"b": (1, 4)}, tmp_path / "graph.pt2")
    assert make(graph, tmp_path / "engine").built
    engine = _core.Engine("torchscript", tmp_path / "engine")
    for _ in range(3):
        table, part, doubled = engine.run([torch.ones(2, 3)])
        assert (table.tolist(), part.tolist(), doubled.sum().item()) == ([0.0, 1.0, 2.0], [1.0, 2.0], 12.0)
        table.zero_()
        part.zero_()


def test_what_torchscript_has_no_operator_for_is_the_reason(tmp_path: Path) -> None:
    @torch.library.custom_op("graphtune_test::negate", mutates_args=())
    def negate(x: torch.Tensor) -> torch.Tensor:
        return -x

    @negate.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    class Custom(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return negate(x)

    program = torch.export.export(Custom(), (torch.ones(2),))
    with pytest.raises(NotImplementedError, match="graphtune_test::negate is no operator of torch itself"):
        torchscript_graph(program)


def test_no_grad_within_the_model() -> None:
    class Inner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                y = x.view(x.shape[0] * 2, -1) + 1
            return y * x.sum()

    program = torch.export.export(Inner(), (torch.rand(3, 4),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    graph = torch._C._create_function_from_graph("forward", torchscript_graph(program))
    x = torch.rand(5, 4)
    torch.testing.assert_close(graph(x)[0], Inner()(x))


def test_a_tuned_module_is_served_saved_and_loaded(build_cache: BuildCache, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 2)).eval()
    module = graphtune.Module(model, name="small")
    options = {"backends": ("torchscript",), "force": "torchscript", "measure_seconds": 0, "cache": build_cache}
    result = graphtune.tune(module, torch.randn(8, 6), batch_sizes=[1, 2, 4], progress=False, **options)
    (graph,) = result.graphs["small"]
    assert graph.chosen is not None, graph.eager_reason
    x = torch.randn(3, 6)
    served = graphtune.load(graphtune.save(module, tmp_path / "small.bundle"))
    with torch.no_grad():
        torch.testing.assert_close(module(x), model(x))
        torch.testing.assert_close(served(x), model(x))
    assert served.stats()["by_graph"] == {"graph_0": {"torchscript": 1}}
    # An archive is a program: where it comes from matters, as it does for machine code.
    with pytest.raises(graphtune.BundleError, match="native code"):
        graphtune.load(tmp_path / "small.bundle", allow_native_code=False)
