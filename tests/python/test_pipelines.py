"""Pipelines of several modules: tuned one by one with the others inactive, saved as one folder and loaded again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from graphtune.cache import BuildCache
from safetensors.torch import load_file, save_file
from torch import nn

import graphtune
from graphtune import BundleError, GraphtuneTypeError, GraphtuneValueError, MissError, _core


class Mlp(nn.Module):
    def __init__(self, out: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Pipeline:
    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.encoder = Mlp(6).eval()
        self.heads = {"main": Mlp(2).eval()}

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.heads["main"](self.encoder(x))


class Outer(nn.Module):
    """Calls the module within, and one that is no part of it."""

    def __init__(self, friend: nn.Module) -> None:
        super().__init__()
        self.inner = Mlp(6)
        self.friends = [friend]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.friends[0](self.inner(x)) * 2


class NoRouter:
    """Stands for the engines of a tuned module in places where none may be asked."""

    def call(self, *_: Any) -> Any:
        raise AssertionError("an engine was asked")


def nothing_built(**options: Any) -> dict[str, Any]:
    return {"progress": False, "backends": (), **options}


# --- tuning -----------------------------------------------------------------------------------------------------------


def test_other_modules_run_plain_while_one_is_tuned() -> None:
    friend = graphtune.Module(Mlp(6).eval(), name="friend")
    outer = graphtune.Module(Outer(friend).eval(), name="outer")
    inner = graphtune.wrap(outer.wrapped, "inner")["inner"]
    data = torch.randn(8, 6)
    result = graphtune.tune(outer, data, batch_sizes=[1, 2, 4], **nothing_built())
    assert list(result.graphs) == ["outer", "inner", "friend"]
    # What was made up to validate the outer one is no sample of those that it calls.
    counts = {module.name: module.graph_specs[0].sample_count for module in (outer, inner, friend)}
    assert counts["outer"] == counts["inner"] == counts["friend"] == 8 + 4 + 2
    assert all(module.stats()["calls"] == 0 for module in (outer, inner, friend))
    for module in (inner, friend):
        module.install(NoRouter(), module.graph_specs, None)
    (graph,) = graphtune.tune(outer, data, batch_sizes=[1, 2, 4], **nothing_built()).graphs["outer"]
    assert graph.points  # it was exported, and run to validate and to measure it
    assert graph.eager_reason == "no engine is faster than eager"


def test_an_engine_of_a_module_within_is_no_part_of_another_engine(build_cache: BuildCache) -> None:
    outer = graphtune.Module(Outer(nn.Identity()).eval(), name="outer")
    inner = graphtune.wrap(outer.wrapped, "inner")["inner"]
    data = torch.randn(6, 6)
    options = {"progress": False, "backends": ("openvino",), "force": "openvino", "measure_seconds": 0}
    graphtune.tune(inner, data, batch_sizes=[1, 3], cache=build_cache, **options)
    assert inner.tuned
    with torch.no_grad():
        inner(data[:3])
        before = inner.stats()
        assert before["by_graph"] == {"graph_0": {"openvino": 1}}
        (graph,) = graphtune.tune(outer, data, batch_sizes=[1, 3], cache=build_cache, **options).graphs["outer"]
        assert graph.chosen is not None
        plain = graphtune.Module(Outer(nn.Identity()).eval())
        plain.wrapped.load_state_dict(outer.wrapped.state_dict())
        torch.testing.assert_close(outer(data[:2]), plain.wrapped(data[:2]))
        assert outer.stats()["by_graph"] == {"graph_0": {"openvino": 1}}
        # The wrapper within is watched as what it wraps.
        inner.wrapped.layers[1].train()
        with pytest.warns(RuntimeWarning, match=r"weights_changed"):
            outer(data[:2])


def test_what_a_module_records_does_not_depend_on_engines_before_it() -> None:
    pipeline = Pipeline()
    modules = graphtune.wrap(pipeline, ["encoder", "heads.main"])
    modules["encoder"].install(NoRouter(), [], None)
    data = torch.randn(4, 6)
    result = graphtune.tune(pipeline, data, batch_sizes=[1, 2], **nothing_built())
    assert list(result.graphs) == ["encoder", "heads.main"]
    with torch.no_grad():
        expected = modules["encoder"].wrapped(data[:2])
    sample = modules["heads.main"].samples(0)[-1]
    assert torch.equal(sample.kwargs["x"] if sample.kwargs else sample.args[0], expected)


def test_results_of_modules_of_one_name_are_all_kept() -> None:
    first, second = graphtune.Module(Mlp(6).eval()), graphtune.Module(Mlp(2).eval())
    result = graphtune.tune(lambda x: second(first(x)), torch.randn(4, 6), batch_sizes=[1, 2], **nothing_built())
    assert list(result.graphs) == ["Mlp", "Mlp (2)"]
    assert result.modules == [first, second]


# --- saving and loading -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(build_cache: BuildCache, tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, Path]:
    """A pipeline whose modules were tuned, and the folder with both."""
    pipeline = Pipeline()
    graphtune.wrap(pipeline)
    graphtune.tune(
        pipeline, torch.randn(8, 6), batch_sizes=[1, 4], progress=False, backends=("openvino",), force="openvino",
        measure_seconds=0, cache=build_cache,
    )  # fmt: skip
    return pipeline, graphtune.save(pipeline, tmp_path_factory.mktemp("pipelines") / "both.modules")


def test_without_the_pipeline_each_module_is_a_callable(saved: tuple[Pipeline, Path]) -> None:
    modules = graphtune.load(saved[1])
    assert list(modules) == ["encoder", "heads.main"]
    x = torch.randn(3, 6)
    with torch.no_grad():
        torch.testing.assert_close(modules["heads.main"](modules["encoder"](x)), Pipeline()(x))
    with pytest.raises(MissError, match=r"axis 0"):
        modules["encoder"](torch.randn(9, 6))


def test_loaded_into_a_pipeline(saved: tuple[Pipeline, Path], tmp_path: Path) -> None:
    pipeline = Pipeline()
    x = torch.randn(2, 6)
    with torch.no_grad():
        expected = pipeline(x)
        modules = graphtune.load(saved[1], pipeline, miss_policy="error")
        assert modules == {"encoder": pipeline.encoder, "heads.main": pipeline.heads["main"]}
        torch.testing.assert_close(pipeline(x), expected)
        assert {name: module.stats()["calls"] for name, module in modules.items()} == {"encoder": 1, "heads.main": 1}
        with pytest.raises(MissError, match=r"encoder: "):
            pipeline(torch.randn(9, 6))
        # What was loaded can be saved again, over itself too.
        copy = graphtune.save(pipeline, graphtune.save(graphtune.load(saved[1]), tmp_path / "copy"))
        assert list(graphtune.load(copy)) == ["encoder", "heads.main"]
        # Again: the wrappers stay, with engines loaded anew.
        assert graphtune.load(saved[1], pipeline) == modules
        assert pipeline.encoder.stats()["calls"] == 0
        # A dict of models is a pipeline too.
        graphtune.unwrap(pipeline)
        models = {"encoder": pipeline.encoder, "heads": pipeline.heads}
        assert list(graphtune.load(saved[1], models)) == ["encoder", "heads.main"]
        assert isinstance(models["encoder"], graphtune.Module)


def test_a_pipeline_that_does_not_fit_stays_as_it_was(saved: tuple[Pipeline, Path]) -> None:
    pipeline = Pipeline()
    nn.init.zeros_(pipeline.heads["main"].layers[0].weight)
    with pytest.raises(GraphtuneValueError, match=r"weights are not those.*main"):
        graphtune.load(saved[1], pipeline)
    assert type(pipeline.encoder) is Mlp
    pipeline = Pipeline()
    pipeline.heads["first"] = pipeline.heads.pop("main")
    with pytest.raises(GraphtuneValueError, match=r"heads \(dict\) has no 'main'; it has first"):
        graphtune.load(saved[1], pipeline)
    assert type(pipeline.encoder) is Mlp
    with pytest.raises(GraphtuneValueError, match=r"miss_policy"):
        graphtune.load(saved[1], pipeline, miss_policy="ignore")


def test_what_is_saved_may_be_a_dict_or_a_list(saved: tuple[Pipeline, Path], tmp_path: Path) -> None:
    pipeline, _ = saved
    encoder, head = pipeline.encoder, pipeline.heads["main"]
    path = graphtune.save({"a/b": encoder, "../c": head}, tmp_path / "x")
    assert list(graphtune.load(path)) == ["a/b", "../c"]
    assert [each.name for each in tmp_path.iterdir()] == ["x"]
    graphtune.save([encoder, head], path)
    assert list(graphtune.load(path)) == ["encoder", "heads.main"]
    # One module is a bundle as before.
    assert graphtune.load(graphtune.save(encoder, path)).name == "encoder"
    with pytest.raises(GraphtuneTypeError, match=r"is the bundle of one module"):
        graphtune.load(path, Pipeline())
    with pytest.raises(GraphtuneValueError, match=r"two modules to write have the name 'encoder'"):
        graphtune.save([encoder, encoder], tmp_path / "y")
    with pytest.raises(GraphtuneTypeError, match=r"head: a graphtune.Module is needed, not Mlp"):
        graphtune.save({"encoder": encoder, "head": Mlp(2)}, tmp_path / "y")
    with pytest.raises(GraphtuneTypeError, match=r"Pipeline holds none"):
        graphtune.save(Pipeline(), tmp_path / "y")
    untuned = Pipeline()
    graphtune.wrap(untuned)
    with pytest.raises(GraphtuneValueError, match=r"encoder: it was not tuned"):
        graphtune.save(untuned, tmp_path / "y")
    assert not (tmp_path / "y").exists()


def test_damaged_folders_are_refused(saved: tuple[Pipeline, Path], tmp_path: Path) -> None:
    path = tmp_path / "copy"

    def error_after(change: Any) -> str:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(saved[1], path)
        change()
        pipeline = Pipeline()
        with pytest.raises(BundleError) as raised:
            graphtune.load(path, pipeline)
        assert type(pipeline.encoder) is Mlp
        return str(raised.value)

    def edit(**changes: Any) -> None:
        listed = json.loads((path / "modules.json").read_text())
        listed["modules"][1] |= changes
        (path / "modules.json").write_text(json.dumps(listed))

    manifest = path / "heads.main" / "manifest.json"
    assert "SHA-256" in error_after(lambda: manifest.write_text(manifest.read_text().replace("main", "mine")))
    assert "is missing" in error_after(manifest.unlink)
    assert "leads out" in error_after(lambda: edit(folder="../encoder"))
    assert "another module has the same name" in error_after(lambda: edit(name="encoder"))
    assert "modules.json" in error_after(lambda: (path / "modules.json").write_text("{"))


@pytest.fixture(scope="module")
def tool() -> str:
    """The one built with this package, or else the one beside this Python."""
    built = Path(_core.__file__).parents[2] / "bin" / "graphtune"
    found = next((path for path in (built, Path(sys.executable).with_name("graphtune")) if path.exists()), None)
    if found is None:
        pytest.skip("the graphtune tool is not beside this Python: run scripts/setup.sh")
    return str(found)


def test_the_command_line_tool_runs_one_of_several(saved: tuple[Pipeline, Path], tool: str, tmp_path: Path) -> None:
    x = torch.randn(3, 6)
    save_file({"x": x}, tmp_path / "in.safetensors")
    command = [tool, "run", saved[1], "--module", "encoder", "--input", tmp_path / "in.safetensors"]
    subprocess.run([*command, "--output", tmp_path / "out.safetensors"], check=True, capture_output=True)
    (result,) = load_file(tmp_path / "out.safetensors").values()
    with torch.no_grad():
        torch.testing.assert_close(result, Pipeline().encoder(x))
