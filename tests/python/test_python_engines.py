"""Engines that are written in Python: registered, validated as any other, served, saved and loaded."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import user_engines
from graphtune.cache import BuildCache

import graphtune
from graphtune import _core, building, python_engines

GOOD = {
    "user_interpreter": user_engines.Interpreter,
    "user_reuses": user_engines.ReusesMemory,
    "user_turns": user_engines.TakesTurns,
    "user_later": user_engines.FailsLater,
}
BAD: dict[str, tuple[type, str, str]] = {
    "user_wrong": (user_engines.TwoPercentOff, "rejected", "worst at ["),
    "user_absent": (user_engines.Unavailable, "failed", "no such device"),
    "user_build": (user_engines.RaisesInBuild, "failed", "NotImplementedError: no kernel for this"),
    "user_load": (user_engines.RaisesInLoad, "failed", "OSError: no licence found"),
    "user_run": (user_engines.RaisesInRun, "failed", "ValueError: cannot do this"),
    "user_result": (user_engines.GivesNoList, "failed", "a list of tensors is needed as the result, not Tensor"),
    "user_crash": (user_engines.CrashesInRun, "failed", "SIGSEGV"),
    "user_crash_later": (user_engines.CrashesWhenItIsMeasured, "failed", "SIGSEGV"),
    "user_hang": (user_engines.HangsInLoad, "failed", "not done after 90 s"),
}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x: torch.Tensor, shift: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.linear(x)
        return hidden.relu(), hidden.argmax(-1)


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    """The registry holds for the process; what tune knows by name is as before afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "_BUILDERS", dict(building._BUILDERS))
        patch.setattr(python_engines, "_classes", dict(python_engines._classes))
        for name, engine in GOOD.items():
            graphtune.register_engine(name, engine)
        for name, (engine, _, _) in BAD.items():
            graphtune.register_engine(name, engine)
        yield


def tune(cache: BuildCache, *backends: Any, force: str, **options: Any) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model = Model().eval()
    module = graphtune.Module(model, name="model")
    result = graphtune.tune(
        module, torch.randn(8, 6), batch_sizes=[1, 2, 4], progress=False,
        backends=backends, force=force, measure_seconds=0, cache=cache, **options,
    )  # fmt: skip
    return model, module, result.graphs["model"][0]


@pytest.fixture(scope="module")
def tuned(build_cache: BuildCache) -> tuple[Any, Any, Any]:
    return tune(build_cache, *GOOD, force="user_interpreter", threads=1)


def test_an_engine_of_the_users_is_validated_and_serves(tuned: tuple[Any, Any, Any]) -> None:
    model, module, graph = tuned
    rows = {row.name: row for row in graph.candidates}
    assert [rows[name].reason for name in GOOD] == [""] * len(GOOD)
    assert rows["user_interpreter"].status == "chosen"
    assert rows["user_interpreter"].cases >= 3
    for batch in (1, 3, 4):
        x = torch.randn(batch, 6)
        with torch.no_grad():
            torch.testing.assert_close(module(x), model(x))
    with torch.inference_mode():
        torch.testing.assert_close(module(x), model(x))
    assert module.stats()["by_graph"]["graph_0"] == {"user_interpreter": 4}


def engine_of(cache: BuildCache, name: str) -> Any:
    """One that was built above, found in the cache."""
    model, module, graph = tune(cache, name, force=name, threads=1)
    assert graph.candidates[0].reused
    return model, module


def test_results_are_the_callers(tuned: Any, build_cache: BuildCache) -> None:
    model, module = engine_of(build_cache, "user_reuses")
    xs = [torch.randn(2, 6) for _ in range(3)]
    with torch.no_grad():
        results = [module(x) for x in xs]
        for x, result in zip(xs, results, strict=True):
            torch.testing.assert_close(result, model(x))
    assert not results[0][0].requires_grad


def test_calls_from_many_threads_take_turns(tuned: Any, build_cache: BuildCache) -> None:
    model, module = engine_of(build_cache, "user_turns")
    wrong: list[str] = []

    def call(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(20):
            x = torch.randn(3, 6, generator=generator)
            with torch.no_grad():
                if not torch.allclose(module(x)[0], model(x)[0], atol=1e-6):
                    wrong.append("value")

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert module.stats()["by_graph"]["graph_0"] == {"user_turns": 160}
    assert module.stats()["misses"] == {}


def test_what_it_raises_in_a_call_is_a_miss_and_ctrl_c_is_not_lost(
    tuned: Any, build_cache: BuildCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, module = engine_of(build_cache, "user_later")
    x = torch.randn(2, 6)
    with torch.no_grad():
        monkeypatch.setattr(user_engines.FailsLater, "fails", True)
        with pytest.warns(RuntimeWarning, match="engine user_later failed: .*RuntimeError: out of luck"):
            torch.testing.assert_close(module(x), model(x))
        assert module.stats()["misses"] == {"engine_failed": 1}
        monkeypatch.setattr(user_engines.FailsLater, "interrupts", True)
        with pytest.raises(KeyboardInterrupt):
            module(x)


def test_bad_ones_are_rows_and_the_tuning_goes_on(tmp_path: Path) -> None:
    _, module, graph = tune(BuildCache(tmp_path), *BAD, "user_interpreter", force="user_interpreter", build_seconds=90)
    rows = {row.name: row for row in graph.candidates}
    for name, (_, status, words) in BAD.items():
        assert words in rows[name].reason, name
        assert rows[name].status == status, name
    assert rows["user_interpreter"].status == "chosen"
    with torch.no_grad():
        module(torch.randn(2, 6))
    assert module.stats()["by_graph"]["graph_0"] == {"user_interpreter": 1}


def test_a_bundle_serves_where_the_engine_is_registered(tuned: Any, tmp_path: Path) -> None:
    model, module, _ = tuned
    path = graphtune.save(module, tmp_path / "user.bundle")
    x = torch.randn(3, 6)
    with torch.no_grad():
        torch.testing.assert_close(graphtune.load(path)(x), model(x))
    with pytest.raises(graphtune.BundleError, match="native code"):
        graphtune.load(path, allow_native_code=False)
    # Another process, where nobody has registered it; and one without Python.
    program = f"import graphtune; graphtune.load({str(path)!r})"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert other.returncode != 0
    assert "backend 'user_interpreter' is not available" in other.stderr
    assert "graphtune.register_engine" in other.stderr
    tool = Path(_core.__file__).parents[2] / "bin/graphtune"
    bench = subprocess.run([tool, "bench", path], capture_output=True, text=True, check=False)
    assert bench.returncode == 1
    assert "user_interpreter" in bench.stderr


def test_an_edited_class_is_built_anew(tuned: Any, build_cache: BuildCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphtune.candidate_builds.source_digest", lambda class_name: "another text")
    _, _, graph = tune(build_cache, "user_interpreter", force="user_interpreter", threads=1)
    assert not graph.candidates[0].reused


def test_what_can_not_be_an_engine_is_refused() -> None:
    class Local(user_engines.Interpreter):
        pass

    for name, engine, error, words in (
        ("user_local", Local, ValueError, "defined in a function"),
        ("openvino", user_engines.Interpreter, ValueError, "one of graphtune's own"),
        ("Upper", user_engines.Interpreter, ValueError, "lower-case letters"),
        ("user_x", "no_such_module:Engine", ValueError, "can't be imported"),
        ("user_x", "user_engines", ValueError, "module:qualname"),
        ("user_x", user_engines.NotAnEngine, TypeError, "has no method load"),
        ("user_x", user_engines.Interpreter(), TypeError, "a class is needed"),
    ):
        with pytest.raises(error, match=words) as caught:
            graphtune.register_engine(name, engine)  # type: ignore[arg-type]
        assert isinstance(caught.value, graphtune.Error)
    with pytest.raises(graphtune.GraphtuneValueError, match="user_x"):
        graphtune.tune(Model().eval(), torch.randn(4, 6), backends=("user_x",), progress=False)


def test_backends_are_listed_with_those_of_python() -> None:
    known = {info.name: info for info in graphtune.list_backends()}
    assert known["user_interpreter"].version == "interpreter 1.0"
    assert known["user_absent"].unavailable_reason == "no such device"
    assert known["inductor"].version == f"torch {torch.__version__}"


def test_inductor_serves_every_size_of_the_range(build_cache: BuildCache, tmp_path: Path) -> None:
    config = graphtune.InductorConfig(threads=1)
    model, module, graph = tune(build_cache, config, force="inductor")
    (row,) = graph.candidates
    assert (row.name, row.status) == ("inductor(threads=1)", "chosen"), row.reason
    assert row.options == {"mode": "default", "threads": 1}
    served = graphtune.load(graphtune.save(module, tmp_path / "inductor.bundle"))
    for batch in (1, 2, 3, 4):
        x = torch.randn(batch, 6)
        with torch.no_grad():
            torch.testing.assert_close(module(x), model(x))
            torch.testing.assert_close(served(x), model(x))
    assert module.stats()["misses"] == {}


class ManyRanks(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1


@pytest.fixture(scope="module")
def three_graphs(build_cache: BuildCache, tmp_path_factory: pytest.TempPathFactory) -> Path:
    module = graphtune.Module(ManyRanks().eval(), name="ranks")
    with torch.no_grad():
        for batch in (1, 2, 4):
            with graphtune.batch_size(batch):
                for shape in ((batch, 3), (batch, 3, 2), (batch, 3, 2, 2)):
                    module(torch.rand(shape))
    options = {"backends": ("user_interpreter",), "force": "user_interpreter", "measure_seconds": 0.0}
    module.tune(**options, progress=False, cache=build_cache)
    return graphtune.save(module, tmp_path_factory.mktemp("ranks") / "ranks.bundle")


def served_by_three_threads(module: graphtune.Module) -> list[bool]:
    """Each makes the first call of another graph, all at once."""
    barrier = threading.Barrier(3)
    right: list[bool] = []

    def call(shape: tuple[int, ...]) -> None:
        x = torch.rand(shape)
        barrier.wait()
        with torch.no_grad():
            right.append(torch.equal(module(x), x * 2 + 1))

    threads = [threading.Thread(target=call, args=(shape,)) for shape in ((2, 3), (2, 3, 2), (2, 3, 2, 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return right


# What loads an exported program bears one at a time.
@pytest.mark.parametrize("loading", ["in_parallel", "on_first_call"])
def test_several_are_loaded_at_once(three_graphs: Path, loading: str, recwarn: pytest.WarningsRecorder) -> None:
    for _ in range(4):
        module = graphtune.load(three_graphs, ManyRanks().eval(), loading=loading, miss_policy="error")
        assert served_by_three_threads(module) == [True, True, True]
        assert module.stats()["misses"] == {}
    assert [str(each.message) for each in recwarn if "left out" in str(each.message)] == []
