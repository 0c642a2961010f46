"""Saving and loading, from Python and with the command line tool."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.modeling_outputs import BaseModelOutput

import graphtune


@dataclass
class Scores:
    first: torch.Tensor
    rest: list


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(20, 8)

    def forward(self, ids, mask=None):
        hidden = self.embedding(ids)
        if mask is not None:
            hidden = hidden * mask.unsqueeze(-1)
        scores = Scores(hidden * 2, [hidden.sum(-1), {"label": "a", "none": None}])
        return BaseModelOutput(last_hidden_state=hidden, hidden_states=(hidden.sum(1), hidden + 1, scores))


def ids(batch, length):
    return torch.arange(batch * length).reshape(batch, length) % 20


@pytest.fixture(scope="session")
def saved(build_cache, tmp_path_factory):
    """The model, and the bundle of its tuned module."""
    torch.manual_seed(0)
    model = Encoder().eval()
    module = graphtune.Module(model, name="encoder")
    with torch.no_grad():
        for batch, length in ((1, 3), (2, 5), (4, 5)):
            with graphtune.batch_size(batch):
                module(ids(batch, length), torch.ones(batch, length))
    module.tune(backends=("openvino",), force="openvino", measure_seconds=0, progress=False, cache=build_cache)
    return model, graphtune.save(module, tmp_path_factory.mktemp("bundles") / "encoder.bundle")


def test_loaded_without_the_model_gives_the_very_types(saved):
    model, path = saved
    served = graphtune.load(path)
    with torch.no_grad():
        expected = model(ids(3, 4), torch.ones(3, 4))
    actual = served(ids(3, 4), mask=torch.ones(3, 4))
    assert type(actual) is BaseModelOutput
    torch.testing.assert_close(actual.last_hidden_state, expected.last_hidden_state)
    torch.testing.assert_close(actual["hidden_states"][1], expected.hidden_states[1])
    assert isinstance(actual.hidden_states, tuple)
    scores = actual.hidden_states[2]
    assert type(scores) is Scores
    assert scores.rest[1] == {"label": "a", "none": None}
    torch.testing.assert_close(scores.first, expected.last_hidden_state * 2)
    assert served.stats()["by_graph"] == {"graph_0": {"openvino": 1}}


def test_a_call_outside_of_the_bundle_is_a_miss(saved):
    served = graphtune.load(saved[1])
    with pytest.raises(graphtune.MissError, match=r"axis 0.*5"):
        served(ids(5, 4), torch.ones(5, 4))
    with pytest.raises(graphtune.MissError):
        served(ids(2, 4))
    with pytest.raises(graphtune.MissError, match="20"):
        served(torch.full((2, 4), 20), torch.ones(2, 4))
    with pytest.raises(graphtune.MissError, match=r"\['mask'\] has dtype float32, here int64"):
        served(ids(2, 4), torch.ones(2, 4, dtype=torch.int64))
    assert served.stats()["misses"] == {"range": 1, "unknown_graph": 2, "index_range": 1}


def test_loaded_with_the_model_falls_back_to_it(saved):
    model, path = saved
    module = graphtune.load(path, model)
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="range"):
        assert module(ids(6, 4), torch.ones(6, 4)).last_hidden_state.shape == (6, 4, 8)
    with torch.no_grad():
        module(ids(2, 4), torch.ones(2, 4))
    assert module.stats()["by_graph"]["graph_0"] == {"openvino": 1}


def test_a_model_of_other_weights_is_refused(saved):
    torch.manual_seed(1)
    with pytest.raises(graphtune.GraphtuneValueError, match="weights"):
        graphtune.load(saved[1], Encoder().eval())


def test_an_untuned_module_can_not_be_saved(tmp_path):
    with pytest.raises(graphtune.GraphtuneValueError, match="not tuned"):
        graphtune.save(graphtune.Module(Encoder().eval()), tmp_path / "x")
    with pytest.raises(graphtune.GraphtuneTypeError):
        graphtune.save(Encoder(), tmp_path / "x")


def damage_nothing(folder):
    shutil.rmtree(folder)


def damage_manifest(folder):
    (folder / "manifest.json").write_text("{")


def damage_engine(folder):
    weights = max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)


def damage_missing(folder):
    next(p for p in folder.rglob("*.xml")).unlink()


def damage_format(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["format_version"] = 99
    (folder / "manifest.json").write_text(json.dumps(manifest))


def damage_foreign(folder):
    (folder / "manifest.json").write_text('{"name": "an extension of a browser", "manifest_version": 3}')


def damage_empty(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def damage_file(folder):
    shutil.rmtree(folder)
    folder.write_text("no folder")


def damage_name(folder):
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace("graph_0/openvino/", "../outside/"))


DAMAGES = {
    damage_nothing: "does not exist",
    damage_manifest: "manifest.json.*line 1",
    damage_engine: "SHA-256",
    damage_missing: r"\.xml: is missing",
    damage_format: "format version 99.*update graphtune",
    damage_foreign: "it is no graphtune bundle",
    damage_empty: "has no manifest.json",
    damage_file: "a bundle is a folder",
    damage_name: "leads out of the bundle",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_or_foreign_bundle_is_refused(saved, tmp_path, damage):
    model, path = saved
    folder = tmp_path / "copy.bundle"
    shutil.copytree(path, folder)
    damage(folder)
    for each in (None, model):
        with pytest.raises(graphtune.BundleError, match=DAMAGES[damage]) as caught:
            graphtune.load(folder, each)
        assert "\n" not in str(caught.value)


@pytest.fixture
def without_engine_library(saved, tmp_path):
    """A bundle whose engine would be in a library that is not there."""
    folder = tmp_path / "other.bundle"
    shutil.copytree(saved[1], folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    for graph in manifest["graphs"]:
        for engine in graph["engines"]:
            engine["backend"] = "elsewhere"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_a_missing_engine_library_is_named(saved, without_engine_library):
    with pytest.raises(graphtune.EngineError, match=r"(?s)graph_0.*libgraphtune_engine_elsewhere\.so"):
        graphtune.load(without_engine_library)
    # With the model, calls run eagerly and say why.
    model = saved[0]
    with pytest.warns(RuntimeWarning, match=r"(?s)libgraphtune_engine_elsewhere\.so"):
        module = graphtune.load(without_engine_library, model)
    call = ids(2, 4), torch.ones(2, 4)
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="elsewhere"):
        assert torch.equal(module(*call).last_hidden_state, model(*call).last_hidden_state)
    assert module.stats()["misses"] == {"not_tuned": 1}


def test_a_bundle_is_replaced_but_nothing_else_is(saved, tmp_path):
    model, path = saved
    other = tmp_path / "mine"
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    module = graphtune.load(path, model)
    with pytest.raises(graphtune.GraphtuneValueError):
        graphtune.save(module, other)
    assert (other / "letter.txt").read_text() == "dear"


# --- the tool ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def tool():
    beside = Path(sys.executable).with_name("graphtune")
    found = str(beside) if beside.exists() else shutil.which("graphtune")
    if not found:
        pytest.skip("the graphtune tool is not beside this Python: run scripts/setup.sh")
    return found


def run_tool(tool, *arguments):
    return subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def test_tool_links_no_python(tool):
    assert "libpython" not in subprocess.run(["ldd", tool], capture_output=True, text=True).stdout


def test_tool_gives_eagers_values(tool, saved, tmp_path):
    model, path = saved
    calls = {}
    for number, (batch, length) in enumerate([(1, 3), (3, 4), (4, 5)]):
        calls[f"{number}/ids"] = ids(batch, length)
        calls[f"{number}/mask"] = torch.ones(batch, length)
    save_file(calls, tmp_path / "calls.safetensors")
    done = run_tool(tool, "run", path, "--input", tmp_path / "calls.safetensors", "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    results = load_file(tmp_path / "out")
    for number, (batch, length) in enumerate([(1, 3), (3, 4), (4, 5)]):
        with torch.no_grad():
            expected = model(ids(batch, length), torch.ones(batch, length))
        torch.testing.assert_close(results[f"{number}/last_hidden_state"], expected.last_hidden_state)


def test_tool_inspects(tool, saved):
    done = run_tool(tool, "inspect", saved[1])
    assert done.returncode == 0, done.stderr
    assert "['ids']" in done.stdout
    assert "openvino" in done.stdout


@pytest.mark.parametrize(
    "arguments, status", [((), 2), (("nonsense",), 2), (("inspect", "/nowhere"), 1), (("run",), 2)]
)
def test_tool_errors(tool, arguments, status):
    done = run_tool(tool, *arguments)
    assert done.returncode == status
    assert done.stderr.strip()
    assert "terminate called" not in done.stderr
