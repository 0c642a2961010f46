"""Saving and loading, from Python and with the command line tool."""

import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.modeling_outputs import BaseModelOutput

import graphtune
from graphtune import _core


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


@pytest.mark.parametrize("loading", ["in_turn", "in_parallel", "on_first_call"])
def test_engines_may_be_loaded_in_turn_in_parallel_or_by_the_first_call(saved, loading):
    model, path = saved
    for served in (graphtune.load(path, loading=loading), graphtune.load(path, copy.deepcopy(model), loading=loading)):
        if isinstance(served, graphtune.Module):
            served.miss_policy = "error"
        with torch.no_grad():
            for batch in (3, 1):
                call = ids(batch, 4), torch.ones(batch, 4)
                expected = model(*call)
                for _ in range(2):  # the second goes by its form
                    torch.testing.assert_close(served(*call).last_hidden_state, expected.last_hidden_state)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"loading": "later"}, ValueError, "loading: 'later' is none of in_turn, in_parallel, on_first_call"),
        ({"loading": None}, ValueError, "loading: None is none of"),
        ({"loading": ["in_turn"]}, ValueError, "loading: "),
        ({"threads": -1}, ValueError, r"threads: -1 is not in 0\.\."),
        ({"threads": 2**31}, ValueError, r"threads: 2147483648 is not in 0\.\."),
        ({"threads": "2"}, TypeError, "threads: '2' is no int"),
        ({"threads": True}, TypeError, "threads: True is no int"),
        ({"threads": None}, TypeError, "threads: None is no int"),
    ],
)
def test_options_that_cannot_be_are_refused_before_anything_is_read(tmp_path, options, error, words):
    with pytest.raises(error, match=words) as caught:
        graphtune.load(tmp_path / "not there", **options)
    assert isinstance(caught.value, graphtune.Error)


def test_an_engine_that_cannot_be_loaded_by_its_first_call_leaves_it_to_the_model(saved, tmp_path):
    model, path = saved
    copied = tmp_path / "copy.bundle"
    shutil.copytree(path, copied)
    alone = graphtune.load(copied, loading="on_first_call")
    with_model = graphtune.load(copied, copy.deepcopy(model), loading="on_first_call")
    for weights in copied.rglob("*.bin"):
        weights.write_bytes(b"")
    call = ids(3, 4), torch.ones(3, 4)
    with torch.no_grad():
        for _ in range(2):
            with pytest.raises(
                graphtune.MissError, match="its files were changed or removed after the bundle was opened"
            ):
                alone(*call)
            torch.testing.assert_close(with_model(*call).last_hidden_state, model(*call).last_hidden_state)
    assert with_model.stats()["misses"] == {"engine_failed": 2}


@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_what_the_first_call_loads_is_what_was_checked(saved, tmp_path, change):
    path = tmp_path / "copy.bundle"
    shutil.copytree(saved[1], path)
    served = graphtune.load(path, loading="on_first_call")
    facts = {file: file.stat() for file in path.rglob("*") if file.is_file()}
    shutil.rmtree(path)
    if change == "replaced":  # by files of the same sizes and times
        shutil.copytree(saved[1], path)
        for file, of in facts.items():
            os.utime(file, ns=(of.st_atime_ns, of.st_mtime_ns))
            assert file.stat().st_size == of.st_size
    with pytest.raises(graphtune.MissError, match="its files were changed or removed"), torch.no_grad():
        served(ids(3, 4), torch.ones(3, 4))


def test_an_engine_whose_files_are_gone_is_none_to_be_loaded_later(saved, tmp_path):
    path = tmp_path / "copy.bundle"
    shutil.copytree(saved[1], path)
    bundle = _core.read_bundle(path)
    for folder in path.glob("graph_0/*"):
        shutil.rmtree(folder)
    with pytest.raises(graphtune.EngineError, match="the engine's files can't be read"):
        _core.load_router(bundle, loading=_core.EngineLoading.ON_FIRST_CALL)


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


def edit_manifest(folder, change, seal=True):
    """Changes the manifest of a bundle, as who knows its format would, or as damage does."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    text = json.dumps(manifest)
    path.write_text(_core.seal_manifest(text) if seal else text)


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
    edit_manifest(folder, lambda manifest: manifest.update(format_version=99))


def widened(manifest):
    manifest["graphs"][0]["spec"]["contract"]["symbols"]["b"] = [1, 99]


def damage_range(folder):
    edit_manifest(folder, widened, seal=False)


def damage_contract(folder):
    edit_manifest(folder, lambda manifest: manifest["graphs"][0]["spec"].pop("contract"))


def damage_weights(folder):
    edit_manifest(folder, lambda manifest: manifest["versions"].pop("weights"))


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
    damage_name: "its content is not what its sha256 says.*save the tuned module again",
    damage_range: "its content is not what its sha256 says",
    damage_contract: "'contract' is missing",
    damage_weights: "'weights' is missing",
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

    def rename(manifest):
        for graph in manifest["graphs"]:
            for engine in graph["engines"]:
                engine["backend"] = "elsewhere"

    edit_manifest(folder, rename)
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


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_loaded_module_can_be_saved_again(saved, tmp_path):
    model, path = saved
    module = graphtune.load(path, model)
    copies = [
        graphtune.save(module, tmp_path / "with_model"),
        graphtune.save(graphtune.load(path), tmp_path / "without"),
    ]
    for each in copies:
        assert files_of(each) == files_of(path)
        again = graphtune.load(each, model)
        with torch.no_grad():
            expected = model(ids(2, 4), torch.ones(2, 4))
            torch.testing.assert_close(again(ids(2, 4), torch.ones(2, 4)).last_hidden_state, expected.last_hidden_state)
        assert again.stats()["by_graph"]["graph_0"] == {"openvino": 1}
        # Onto the bundle that it was loaded from.
        assert graphtune.save(again, each) == each
        assert files_of(each) == files_of(path)


def test_a_bundle_that_changed_since_it_was_loaded_is_not_copied(saved, tmp_path):
    folder = tmp_path / "copy.bundle"
    shutil.copytree(saved[1], folder)
    module = graphtune.load(folder, saved[0])
    damage_engine(folder)
    with pytest.raises(graphtune.BundleError, match="was changed since the bundle was loaded"):
        graphtune.save(module, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("path", [None, 5, b"bytes", [], "", "a\0b", "\ud800"], ids=repr)
def test_what_is_no_path_is_named(saved, path):
    error = graphtune.GraphtuneValueError if isinstance(path, str) else graphtune.GraphtuneTypeError
    with pytest.raises(error, match=r"^path: "):
        graphtune.load(path)
    module = graphtune.load(saved[1], saved[0])
    for each in (module, graphtune.load(saved[1]), graphtune.Module(Encoder().eval())):
        with pytest.raises(error, match=r"^path: "):
            graphtune.save(each, path)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_of_a_tuned_module_says_that_it_has_no_engines(saved, duplicate):
    module = graphtune.load(saved[1], saved[0])
    with pytest.warns(RuntimeWarning, match=r"no engines.*graphtune\.save.*graphtune\.load") as caught:
        twin = duplicate(module)
    assert [each.filename for each in caught] == [__file__]
    assert not twin.tuned
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        duplicate(graphtune.Module(saved[0]))


def test_a_module_without_its_model_is_not_pickled_but_copied(saved):
    served = graphtune.load(saved[1])
    with pytest.raises(graphtune.GraphtuneTypeError, match=r"pickled.*graphtune\.load\(path\)"):
        pickle.dumps(served)
    for twin in (copy.copy(served), copy.deepcopy(served)):
        assert twin(ids(2, 4), torch.ones(2, 4)).last_hidden_state.shape == (2, 4, 8)


def test_a_miss_without_the_model_advises_what_can_be_done(saved):
    with pytest.raises(graphtune.MissError) as caught:
        graphtune.load(saved[1])(ids(5, 4), torch.ones(5, 4))
    message = str(caught.value)
    assert "graphtune.load(path, model)" in message
    assert "policy" not in message
    assert ".." not in message
    module = graphtune.load(saved[1], saved[0], miss_policy="error")
    with torch.no_grad(), pytest.raises(graphtune.MissError, match="miss_policy 'eager'") as caught:
        module(ids(5, 4), torch.ones(5, 4))
    assert ".." not in str(caught.value)


def test_the_warning_of_a_miss_points_at_the_users_line(saved):
    for hooked in (False, True):
        module = graphtune.load(saved[1], saved[0])
        outer = torch.nn.Sequential(module)
        if hooked:
            module.register_forward_pre_hook(lambda *_: None)
            outer.register_forward_hook(lambda *_: None)
        for call in (lambda: module(ids(6, 4)), lambda: outer(ids(6, 4))):  # noqa: B023
            module = graphtune.load(saved[1], saved[0])
            outer[0] = module
            with torch.no_grad(), pytest.warns(RuntimeWarning, match="runs eagerly") as caught:
                call()
            assert [(each.filename, each.lineno) for each in caught] == [(__file__, call.__code__.co_firstlineno)]
            assert ".." not in str(caught[0].message)


# --- the tool ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def tool():
    # That of the build which is tested, else the installed one.
    built = Path(graphtune.__file__).parents[2] / "bin" / "graphtune"
    beside = Path(sys.executable).with_name("graphtune")
    found = next((str(path) for path in (built, beside) if path.exists()), None) or shutil.which("graphtune")
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
