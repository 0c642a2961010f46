"""What ``tune`` finds, builds, rejects and leaves to eager."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import torch
from graphtune.cache import BuildCache
from torch.utils.data import DataLoader, TensorDataset

import graphtune
from graphtune import building


class Function(torch.nn.Module):
    """A model of one function, which gets the model and the arguments."""

    def __init__(self, function: Any, **buffers: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(self, *tensors)


def recorded(model: torch.nn.Module, *calls: tuple[int, tuple[Any, ...]], **options: Any) -> graphtune.Module:
    module = graphtune.Module(model.eval(), **options)
    with torch.no_grad():
        for batch, args in calls:
            with graphtune.batch_size(batch):
                module(*args)
    return module


def two_calls(*sizes: int, inputs: int = 1) -> list[tuple[int, tuple[Any, ...]]]:
    return [(batch, tuple(torch.rand(batch, *sizes) for _ in range(inputs))) for batch in (1, 3)]


def quick(cache: BuildCache | None = None, **options: Any) -> dict[str, Any]:
    return {"progress": False, "backends": ("openvino",), "measure_seconds": 0, "cache": cache, **options}


# --- what the samples and the exporter allow --------------------------------------------------------------------------


def flow_on_sizes(model: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    # y may have 7 columns, or one that is repeated; the exporter has to decide.
    return {"x": x * 2 if x.shape[1] > 8 else x + 1, "y": y + model.w}


@pytest.fixture(scope="module")
def limited(build_cache: BuildCache) -> tuple[Any, Any, Any]:
    model = Function(flow_on_sizes, w=torch.rand(1, 7))
    calls = [(b, (torch.rand(b, s), torch.rand(b, c))) for b, s, c in ((1, 4, 7), (2, 12, 1), (4, 10, 7), (3, 9, 7))]
    module = recorded(model, *calls, name="limited")
    return model, module, module.tune(**quick(build_cache, force="openvino"))


def test_what_the_exporter_cannot_do_limits_the_contract(limited: Any) -> None:
    model, module, result = limited
    (graph,) = result.graphs["limited"]
    assert graph.chosen.name == "openvino"
    assert graph.symbols == {"b": (1, 4), "s0": (9, 12)}
    notes = "\n".join(graph.notes)
    assert "limited to s1 = 7" in notes
    assert "limited to s0 in 9..12 of 4..12 recorded: the model takes another path at other sizes" in notes
    expected_engine_calls = 0
    with torch.no_grad():
        for length in range(4, 13):
            for columns in (1, 7):
                call = (torch.rand(2, length), torch.rand(2, columns))
                actual, expected = module(*call), model(*call)
                assert all(torch.allclose(actual[name], expected[name]) for name in expected)
                expected_engine_calls += length > 8 and columns == 7
    assert module.stats()["by_graph"]["graph_0"] == {"openvino": expected_engine_calls}


def test_the_result_tells_what_was_done(limited: Any) -> None:
    _, module, result = limited
    assert result.module is module
    (graph,) = result.graphs["limited"]
    assert graph.chosen.cases >= 6
    assert graph.chosen.max_deviation < 1e-4
    assert len(graph.chosen.speed_ups) == len(graph.points) >= 4
    text = str(result)
    for words in ("limited · graph_0", "[0]", "'batch0'", "openvino", "Plan: openvino everywhere", "note: limited"):
        assert words in text
    assert json.loads(json.dumps(result.to_dict()))["schema_version"] == 1


def test_one_batch_size_is_said_aloud_and_more_can_be_recorded(build_cache: BuildCache) -> None:
    module = recorded(Function(lambda _, x: x * 2), (2, (torch.rand(2, 3),)), name="one")
    (graph,) = module.tune(**quick(build_cache, force="openvino")).graphs["one"]
    assert graph.chosen.name == "openvino"
    assert graph.symbols == {}
    assert any("every recorded call has the same sizes: engines serve these sizes only" in note for note in graph.notes)
    with torch.no_grad():
        assert module(torch.ones(2, 3)).tolist() == [[2.0] * 3] * 2
        module.miss_policy = "error"
        with pytest.raises(graphtune.MissError, match=r"axis 0 of \[0\] has size 3"):
            module(torch.ones(3, 3))
        module.miss_policy = "record"
        with graphtune.batch_size(3):
            assert module(torch.ones(3, 3)).tolist() == [[2.0] * 3] * 3
    assert module.stats()["by_graph"]["graph_0"] == {"openvino": 1}
    (graph,) = module.tune(**quick(backends=())).graphs["one"]
    assert graph.symbols == {"b": (2, 3)}


def test_an_ambiguous_axis_is_settled_by_asking_the_model() -> None:
    calls = [(batch, (torch.ones(batch, 10 * batch),)) for batch in (1, 2)]
    module = recorded(Function(lambda _, x: x * 2 + 1), *calls, name="either")
    (graph,) = module.tune(**quick(backends=())).graphs["either"]
    assert any("independent of the batch size" in line for line in graph.evidence)
    assert graph.symbols == {"b": (1, 2), "s0": (10, 20)}


def test_constants_make_a_graph_each() -> None:
    class Flag(torch.nn.Module):
        def forward(self, x: torch.Tensor, double: bool = False) -> torch.Tensor:
            return x * 2 if double else x + 1

    calls = [(batch, (torch.ones(batch, 3), flag)) for batch in (1, 2) for flag in (True, False)]
    result = recorded(Flag(), *calls).tune(**quick(backends=()))
    assert [graph.symbols for graph in result.graphs["Flag"]] == [{"b": (1, 2)}] * 2


# --- what is chosen, and by what --------------------------------------------------------------------------------------


def scale(_: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ torch.eye(3) * 2, -1)


@pytest.fixture
def scaled() -> graphtune.Module:
    return recorded(Function(scale), *two_calls(3), name="scaled")


def test_of_first_wins_what_comes_after_the_winner_is_not_built(
    scaled: graphtune.Module, build_cache: BuildCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(building._BUILDERS, "aoti", "wrong_builders:build_and_refuse")
    options = quick(build_cache, backends=("aoti", "openvino", "onnxruntime"), gate=None)
    (graph,) = scaled.tune(strategy=graphtune.FirstWins(), **options).graphs["scaled"]
    assert [(each.name, each.status) for each in graph.candidates] == [("aoti", "failed"), ("openvino", "chosen")]
    with torch.no_grad():
        scaled(torch.rand(2, 3))
    assert scaled.stats()["by_graph"]["graph_0"] == {"openvino": 1}


def test_one_backend_is_taken_however_fast_and_raises_its_failure(
    scaled: graphtune.Module, build_cache: BuildCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = quick(build_cache, backends=("aoti", "openvino"), gate=9.0)
    (graph,) = scaled.tune(strategy=graphtune.OneBackend("openvino"), **options).graphs["scaled"]
    assert [(each.name, each.status) for each in graph.candidates] == [("openvino", "chosen")]
    monkeypatch.setitem(building._BUILDERS, "aoti", "wrong_builders:build_and_refuse")
    for _ in range(2):  # tuned, and its record, are as they were
        with pytest.raises(graphtune.TuneError, match="graph_0: aoti: NotImplementedError: no kernel"):
            scaled.tune(strategy=graphtune.OneBackend("aoti"), **options)
        assert scaled.stats()["by_graph"]["graph_0"].keys() <= {"openvino"}
        assert len(scaled.samples(0)) == 2
    with pytest.raises(ValueError, match="is none of the backends"):
        scaled.tune(strategy=graphtune.OneBackend("tensorrt"), **options)


def test_one_backend_raises_why_a_graph_cannot_be_exported() -> None:
    module = recorded(Function(lambda _, x: x.add_(1)), *two_calls(3), name="read")
    with pytest.raises(graphtune.TuneError, match=r"graph_0: forward writes to its input"):
        module.tune(**quick(strategy=graphtune.OneBackend("openvino")))


def test_verify_judges_results_as_the_model_gives_them(
    build_cache: BuildCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Named(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> Any:
            return {"y": super().forward(x)}

    monkeypatch.setitem(building._BUILDERS, "openvino", "wrong_builders:build_two_percent_off")
    module = recorded(Named(3, 3), *two_calls(3), name="judged")
    seen = []

    def close(expected: Any, actual: Any) -> bool:
        seen.append((set(expected), type(actual)))
        return bool(torch.allclose(expected["y"], actual["y"], rtol=0.05))

    def exact(expected: Any, actual: Any) -> None:
        torch.testing.assert_close(actual["y"], expected["y"])

    (graph,) = module.tune(**quick(build_cache, gate=None, verify=close)).graphs["judged"]
    assert graph.chosen.name == "openvino"
    assert set(map(str, seen)) == {"({'y'}, <class 'dict'>)"}
    for verify, words in ((exact, "verify: Tensor-likes are not close"), (lambda *_: False, "verify refused")):
        (graph,) = module.tune(**quick(build_cache, verify=verify)).graphs["judged"]
        assert graph.candidates[0].status == "rejected"
        assert words in graph.candidates[0].reason
    with pytest.raises(ZeroDivisionError):  # a mistake in it is not an engine's
        module.tune(**quick(build_cache, verify=lambda *_: 1 / 0))


def test_the_result_has_latencies_memory_and_the_share_of_each_size(build_cache: BuildCache) -> None:
    calls = [(b, (torch.rand(b, 3),)) for b in (1, 1, 1, 4)]
    module = recorded(Function(scale), *calls, name="figures")
    (graph,) = module.tune(**quick(build_cache, force="openvino")).graphs["figures"]
    assert dict(zip([p["b"] for p in graph.points], graph.weights, strict=True)) == {1: 0.75, 4: 0.25}
    (candidate,) = graph.candidates
    assert candidate.peak_memory_bytes > 50e6
    for speed in candidate.speed_ups:
        assert speed.eager_p99_seconds >= speed.eager_seconds > 0
        assert speed.candidate_p99_seconds >= speed.candidate_seconds > 0


# --- engines that can't be used ---------------------------------------------------------------------------------------


def test_wrong_values_are_rejected_and_failed_builds_are_told(
    build_cache: BuildCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    builders = {"openvino": "wrong_builders:build_two_percent_off", "aoti": "wrong_builders:build_and_refuse"}
    monkeypatch.setattr(building, "_BUILDERS", builders)
    model = torch.nn.Linear(4, 4)
    # A cache of its own: other tests must not find these engines.
    cache = BuildCache(build_cache.folder / "wrong")
    module = recorded(model, *two_calls(4))
    (graph,) = module.tune(**quick(cache, backends=("openvino", "aoti"), force="openvino")).graphs["Linear"]
    wrong, refused = graph.candidates
    assert (wrong.status, refused.status) == ("rejected", "failed")
    assert "recorded sizes" in wrong.reason
    assert "worst at [" in wrong.reason
    assert wrong.max_deviation > 0.001
    assert refused.reason == "NotImplementedError: no kernel for aten::frobnicate"
    assert wrong.reason in graph.eager_reason
    assert refused.reason in graph.eager_reason
    assert graph.plan == ["eager"]
    x = torch.rand(2, 4)
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="frobnicate"):
        assert torch.equal(module(x), model(x))
    # What was recorded is there, for the next attempt.
    assert module.graph_specs[0].sample_count == 2
    assert len(module.samples(0)) == 2


def counts(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.n += 1
    return x * model.n


def averages(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.mean.lerp_(x.mean(0), 0.1)
    return x - model.mean


def counts_in_python(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.calls = getattr(model, "calls", 0) + 1
    return x * model.calls


def keeps(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.last = x.mean() + getattr(model, "last", torch.zeros(()))
    return x * model.last


def branches(_: Any, x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum() > 0 else x - 1


def loops(_: Any, x: torch.Tensor) -> torch.Tensor:
    while x.abs().max() < 100:
        x = x * 2
    return x


STAYS_EAGER: dict[str, tuple[Any, dict[str, torch.Tensor], int, str]] = {
    "counter in a buffer": (counts, {"n": torch.zeros(())}, 1, "state: n"),
    "running statistics": (averages, {"mean": torch.zeros(3)}, 1, "state: mean"),
    "counter in Python": (counts_in_python, {}, 1, "state: calls"),
    "tensor kept in Python": (keeps, {}, 1, "state: last"),
    "input written": (lambda _, x: x.mul_(2) + 1, {}, 1, r"writes to its input \[0\] in place"),
    "view of an input written": (lambda _, x: x[0].mul_(2) + x, {}, 1, r"writes to its input \[0\] in place"),
    "one of two inputs written": (lambda _, x, y: x.mul_(2) + y, {}, 2, r"writes to its input \[0\] in place"),
    "view of an input returned": (lambda _, x: (x * 2, x[:, 1:]), {}, 1, "output 1 is a view of input 0"),
    "branch on values": (branches, {}, 1, "torch.export: .*data-dependent"),
    "loop on values": (loops, {}, 1, "torch.export: .*data-dependent"),
    "random numbers": (lambda _, x: x + 0 * torch.rand_like(x), {}, 1, "random numbers"),
}


@pytest.mark.parametrize("name", STAYS_EAGER)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_no_engine_does_stays_eager_with_the_reason_and_is_as_eager(name: str) -> None:
    function, buffers, inputs, words = STAYS_EAGER[name]
    copies = [{key: value.clone() for key, value in buffers.items()} for _ in range(2)]
    model, reference = (Function(function, **each) for each in copies)
    calls = two_calls(3, inputs=inputs)
    module = recorded(model, *((batch, tuple(x.clone() for x in args)) for batch, args in calls))
    result = module.tune(**quick())
    (graph,) = result.graphs["Function"]
    assert re.search(words, graph.eager_reason)
    assert module.graph_specs[0].eager_reason == graph.eager_reason
    assert f"eager because {graph.eager_reason}" in str(result)

    # From here on as a model that was never tuned, state and all.
    with torch.no_grad():
        for _, args in calls:
            reference(*(x.clone() for x in args))
        for given in (torch.rand(3, 3), -torch.rand(3, 3), torch.rand(2, 3) + 100):
            shared = given.clone()
            args, others = ((x,) if inputs == 1 else (x, x[:]) for x in (given, shared))
            actual, expected = module(*args), reference(*others)
            pairs = zip(actual, expected, strict=True) if isinstance(expected, tuple) else [(actual, expected)]
            assert all(torch.equal(a, b) for a, b in pairs)
            assert torch.equal(given, shared)
    assert all(torch.equal(model.get_buffer(key), reference.get_buffer(key)) for key in buffers)
    assert module.stats()["misses"] == {"not_tuned": 3}


def test_opaque_arguments_stay_eager() -> None:
    class Thing:
        def __init__(self) -> None:
            self.tensor = torch.ones(2)

    module = recorded(
        Function(lambda _, x, thing: x + thing.tensor), *((b, (torch.ones(b, 2), Thing())) for b in (1, 2))
    )
    (graph,) = module.tune(**quick()).graphs["Function"]
    assert len(module.graph_specs) == 1
    assert "Thing" in graph.eager_reason
    assert "register_type" in graph.eager_reason
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="Thing"):
        assert module(torch.ones(1, 2), Thing()).tolist() == [[2.0, 2.0]]


# --- bad input --------------------------------------------------------------------------------------------------------


def linear() -> graphtune.Module:
    return graphtune.Module(torch.nn.Linear(2, 2).eval())


@pytest.mark.parametrize("part", ["whole", "submodule"])
def test_train_mode_is_refused(part: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout()).eval()
    module = recorded(model, (1, (torch.ones(1, 2),)))
    (model if part == "whole" else model[1]).train()
    for tune in (
        lambda: graphtune.tune(module, torch.ones(4, 2), progress=False),
        lambda: graphtune.tune(lambda x: module(x), torch.ones(4, 2), progress=False),
        lambda: module.tune(progress=False),
    ):
        with pytest.raises(graphtune.GraphtuneValueError, match=r"Sequential is in train mode.*Sequential\.eval\(\)"):
            tune()
    assert not module.tuned
    assert module.graph_specs[0].sample_count >= 1


@pytest.mark.parametrize(
    "empty",
    [
        [],
        torch.ones(0, 2),
        {"input": torch.ones(0, 2)},
        (x for x in ()),
        DataLoader([], batch_size=2),
        TensorDataset(torch.ones(0, 2)),
    ],
    ids=["list", "tensor", "dict", "generator", "loader", "dataset"],
)
def test_an_empty_data_set_is_refused_and_what_was_recorded_is_kept(empty: Any) -> None:
    module = recorded(torch.nn.Linear(2, 2), *two_calls(2))
    with pytest.raises(graphtune.GraphtuneValueError, match="dataset: it is empty"):
        graphtune.tune(module, empty, progress=False)
    assert [spec.sample_count for spec in module.graph_specs] == [2]


def test_an_empty_batch_is_refused() -> None:
    loader = DataLoader([torch.ones(2, 2), torch.ones(0, 2)], batch_size=None)
    module = linear()
    with pytest.raises(graphtune.GraphtuneValueError, match="dataset: it gave an empty batch"):
        graphtune.tune(module, loader, progress=False)
    assert module.graph_specs[0].sample_count == 1


def test_a_model_that_raises_on_the_way_raises_its_own_error_and_the_record_is_kept() -> None:
    def picky(_: Any, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 2:
            raise RuntimeError("no pairs, please")
        return x * 2

    module = graphtune.Module(Function(picky).eval())
    with pytest.raises(RuntimeError, match=r"^no pairs, please$"):
        graphtune.tune(module, torch.ones(4, 2), batch_sizes=[1, 2, 4], progress=False)
    assert [spec.sample_count for spec in module.graph_specs] == [4]
    assert not module.tuned


def test_a_failed_attempt_leaves_the_module_as_it_was() -> None:
    module = recorded(torch.nn.Linear(2, 2), *two_calls(2))
    module.tune(**quick(backends=()))
    before = module.graph_specs[0].describe()
    for bad in ([], [1, 2, 3], torch.ones(4, 5)):
        with pytest.raises((ValueError, TypeError, RuntimeError)):
            graphtune.tune(module, bad, progress=False)
        assert module.tuned
        assert module.graph_specs[0].describe() == before


def test_a_function_that_calls_no_wrapped_module_is_refused() -> None:
    inner = torch.nn.Linear(2, 2).eval()
    for function in (lambda batch: batch, lambda batch: inner(batch)):
        with pytest.raises(graphtune.GraphtuneValueError, match="it called no module that is wrapped"):
            graphtune.tune(function, torch.ones(4, 2), progress=False)


@pytest.mark.parametrize("target", [None, 3, "model", torch.ones(2)])
def test_other_targets_are_refused(target: Any) -> None:
    with pytest.raises(graphtune.GraphtuneTypeError, match=r"target: an nn.Module or a function"):
        graphtune.tune(target, torch.ones(4, 2), progress=False)


@pytest.mark.parametrize("dataset", [None, 3, "text", {"a": torch.ones(3), "b": torch.ones(4)}])
def test_other_data_sets_are_refused(dataset: Any) -> None:
    with pytest.raises(graphtune.GraphtuneTypeError, match="dataset: "):
        graphtune.tune(linear(), dataset, progress=False)


@pytest.mark.parametrize("sizes", [[0], [-1], []])
def test_bad_batch_sizes_are_refused(sizes: Any) -> None:
    with pytest.raises(graphtune.GraphtuneValueError, match="batch_sizes"):
        graphtune.tune(linear(), torch.ones(4, 2), batch_sizes=sizes, progress=False)


@pytest.mark.parametrize("sizes", [[True], [1.0], ["1"], 3])
def test_batch_sizes_of_wrong_types_are_refused(sizes: Any) -> None:
    with pytest.raises(graphtune.GraphtuneTypeError, match="batch_sizes"):
        graphtune.tune(linear(), torch.ones(4, 2), batch_sizes=sizes, progress=False)


def test_unknown_backends_and_options_are_refused() -> None:
    with pytest.raises(graphtune.GraphtuneValueError, match="nope"):
        graphtune.tune(linear(), torch.ones(4, 2), backends=("nope",), progress=False)
    with pytest.raises(graphtune.GraphtuneTypeError, match="budget"):
        graphtune.tune(linear(), torch.ones(4, 2), budget=3, progress=False)


class Nested(torch.nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.depth = depth

    def forward(self, x: torch.Tensor, deep: bool = True) -> Any:
        result: Any = x + 1
        for _ in range(self.depth if deep else 0):
            result = [result]
        return result


def test_a_result_that_can_not_be_recorded_is_the_reason() -> None:
    module = graphtune.Module(Nested(3000).eval(), name="nested")
    with (
        pytest.raises(graphtune.GraphtuneValueError, match=r"nested: no call could be recorded.*nest deeper than 1000"),
        pytest.warns(RuntimeWarning, match="could not be recorded"),
    ):
        graphtune.tune(module, torch.ones(4, 2), progress=False)


def test_calls_that_could_not_be_recorded_are_noted(build_cache: Any) -> None:
    module = graphtune.Module(Nested(3000).eval(), name="nested")
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="could not be recorded"):
        module(torch.ones(4, 2), deep=False)
        module(torch.ones(4, 2))
    result = module.tune(backends=("openvino",), force="openvino", measure_seconds=0, progress=False, cache=build_cache)
    assert any("nest deeper than 1000" in note for note in result.graphs["nested"][0].notes)


def test_nothing_recorded() -> None:
    with pytest.raises(graphtune.GraphtuneValueError, match="no call was recorded"):
        linear().tune(progress=False)
