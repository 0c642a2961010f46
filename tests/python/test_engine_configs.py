"""Typed options of engines: what they refuse, how candidates are called, and where they arrive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from graphtune.cache import BuildCache
from graphtune.engine_configs import candidate_configs
from graphtune.tensorrt_profiles import shape_profiles
from hypothesis import given
from hypothesis import strategies as st

import graphtune
from graphtune import _core

# --- the configs themselves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: graphtune.AotiConfig(freezing=1), TypeError, "AotiConfig.freezing: True or False is needed, not 1"),
        (lambda: graphtune.OpenVINOConfig(threads=-1), ValueError, r"OpenVINOConfig.threads: -1 is not in 0\.\."),
        (lambda: graphtune.OpenVINOConfig(threads=True), TypeError, "True is no int"),
        (lambda: graphtune.OpenVINOConfig(precision="f8"), ValueError, "'f8' is none of f32, bf16, f16"),
        (lambda: graphtune.OnnxRuntimeConfig(providers=()), ValueError, r"\(\) is no choice of CPU, CUDA, TensorRT"),
        (lambda: graphtune.OnnxRuntimeConfig(providers="CPU"), TypeError, "a tuple of names is needed"),
        (lambda: graphtune.OnnxRuntimeConfig(providers=("CPU", "CPU")), ValueError, "each once"),
        (lambda: graphtune.OnnxRuntimeConfig(graph_optimization="most"), ValueError, "'most' is none of none, basic"),
        (lambda: graphtune.InductorConfig(mode="fast"), ValueError, "'fast' is none of default"),
        (lambda: graphtune.TorchScriptConfig(optimize="yes"), TypeError, "optimize: True or False"),
        (lambda: graphtune.EngineConfig(""), TypeError, "the name of a backend is needed"),
    ],
)
def test_values_that_can_not_be_are_refused(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        make()
    assert isinstance(caught.value, graphtune.Error)


def test_candidates_are_called_by_what_is_not_their_default() -> None:
    configs = candidate_configs(
        [
            "openvino",
            graphtune.OpenVINOConfig(threads=1),
            graphtune.OnnxRuntimeConfig(providers=["TensorRT", "CUDA"], threads=2),
            graphtune.TorchScriptConfig(freeze=False),
            graphtune.EngineConfig("mine", threads=3),
        ]
    )
    assert [config.name for config in configs] == [
        "openvino",
        "openvino(threads=1)",
        "onnxruntime(threads=2,providers=TensorRT+CUDA)",
        "torchscript(freeze=False)",
        "mine(threads=3)",
    ]
    assert [config.backend for config in configs][:3] == ["openvino", "openvino", "onnxruntime"]


def test_what_is_no_choice_of_backends_is_refused() -> None:
    with pytest.raises(graphtune.GraphtuneValueError, match="openvino is there twice"):
        graphtune.TuneOptions(backends=("openvino", graphtune.OpenVINOConfig()))
    with pytest.raises(graphtune.GraphtuneTypeError, match="3 is neither"):
        graphtune.TuneOptions(backends=(3,))  # type: ignore[arg-type]
    with pytest.raises(graphtune.GraphtuneTypeError, match="a list of names and configs"):
        graphtune.TuneOptions(backends="openvino")  # type: ignore[arg-type]


def test_a_forced_backend_is_its_only_candidate() -> None:
    one = graphtune.OpenVINOConfig(threads=1)
    assert graphtune.TuneOptions(backends=(one, "aoti"), force="openvino").force == "openvino(threads=1)"
    assert graphtune.TuneOptions(backends=(one, "openvino"), force="openvino").force == "openvino"
    with pytest.raises(graphtune.GraphtuneValueError, match="is any of"):
        graphtune.TuneOptions(backends=(one, graphtune.OpenVINOConfig(threads=2)), force="openvino")


# --- where they arrive ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tuned(build_cache: BuildCache, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Path]:
    """One model with several candidates of one backend, and its bundle."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh()).eval()
    module = graphtune.Module(model, name="configured")
    result = graphtune.tune(
        module,
        torch.randn(8, 6),
        batch_sizes=[1, 2, 4],
        progress=False,
        backends=(
            "openvino",
            graphtune.OpenVINOConfig(threads=1),
            graphtune.OnnxRuntimeConfig(graph_optimization="basic"),
            graphtune.OnnxRuntimeConfig(providers=("CUDA", "CPU")),
        ),
        force="openvino(threads=1)",
        threads=2,
        measure_seconds=0,
        cache=build_cache,
    )
    return result, model, graphtune.save(module, tmp_path_factory.mktemp("configured") / "it.bundle")


def test_every_config_is_a_candidate_with_its_options(tuned: tuple[Any, Any, Path]) -> None:
    rows = {candidate.name: candidate for candidate in tuned[0].graphs["configured"][0].candidates}
    names = ["openvino", "openvino(threads=1)", "onnxruntime(graph_optimization=basic)"]
    assert list(rows)[:3] == names
    assert [rows[name].status for name in names] == ["valid", "chosen", "valid"], [r.reason for r in rows.values()]
    # What the config leaves open is what tune was told.
    assert [rows[name].options["threads"] for name in names] == [2, 1, 2]
    assert rows[names[2]].options["graph_optimization"] == "basic"
    assert {rows[name].backend for name in names} == {"openvino", "onnxruntime"}


def test_other_precisions_and_ways_to_compile_are_built_and_judged_by_the_tolerance(build_cache: BuildCache) -> None:
    torch.manual_seed(0)
    module = graphtune.Module(torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh()).eval(), name="configured")
    configs = (
        graphtune.OpenVINOConfig(precision="bf16"),
        graphtune.OpenVINOConfig(precision="f16"),
        graphtune.AotiConfig(max_autotune=True),
        graphtune.AotiConfig(freezing=False),
    )
    result = graphtune.tune(
        module,
        torch.randn(8, 6),
        batch_sizes=[1, 2, 4],
        progress=False,
        backends=configs,
        force="aoti(max_autotune=True)",
        tolerances={"float32": (0.05, 0.05)},
        measure_seconds=0,
        cache=build_cache,
    )
    rows = {row.name: (row.status, row.reason) for row in result.graphs["configured"][0].candidates}
    assert [rows[config.name][0] for config in configs] == ["valid", "valid", "chosen", "valid"], rows


def test_a_provider_that_is_not_here_is_the_reason(tuned: tuple[Any, Any, Path]) -> None:
    row = tuned[0].graphs["configured"][0].candidates[3]
    assert row.name == "onnxruntime(providers=CUDA+CPU)"
    lacking = _core.cuda_unavailable_reason()
    assert row.status == "failed"
    assert row.reason == lacking if lacking else "has no CUDAExecutionProvider" in row.reason
    assert not lacking or lacking.startswith("no CUDA device")


def test_the_bundle_keeps_threads_and_options(tuned: tuple[Any, Any, Path]) -> None:
    _, model, bundle = tuned
    engine = json.loads((bundle / "graph_0/openvino(threads=1)/engine.json").read_text())
    assert engine["threads"] == 1
    assert engine["build_options"] == {"INFERENCE_PRECISION_HINT": "f32"}
    assert engine["built_for"]["device"] == "cpu"
    info = json.loads((bundle / "manifest.json").read_text())["graphs"][0]["engines"][0]["info"]
    assert info["options"] == {"INFERENCE_PRECISION_HINT": "f32", "threads": 1}
    x = torch.randn(3, 6)
    for threads in (0, 2):
        with torch.no_grad():
            torch.testing.assert_close(graphtune.load(bundle, threads=threads)(x), model(x))


def test_options_are_part_of_the_cache_key(tuned: tuple[Any, Any, Path], build_cache: BuildCache) -> None:
    _, model, _ = tuned
    module = graphtune.Module(model, name="again")
    options = {"force": "openvino", "measure_seconds": 0, "cache": build_cache, "progress": False}
    backends = (graphtune.OpenVINOConfig(threads=1), "openvino")
    result = graphtune.tune(module, torch.randn(8, 6), batch_sizes=[1, 2, 4], backends=backends, threads=0, **options)
    one, default = result.graphs["again"][0].candidates
    assert one.reused
    assert not default.reused  # it was built for two threads


# --- TensorRT's profiles ----------------------------------------------------------------------------------------------

SIZES = ["b", "s0", "2*b", "s0+s1", "s1+3", "b*s0", "s0-s1", "s0//2", 7, 1]


@given(
    shapes=st.lists(st.lists(st.sampled_from(SIZES), max_size=4), max_size=4),
    spans=st.tuples(*[st.tuples(st.integers(1, 50), st.integers(0, 100))] * 3),
    opt=st.dictionaries(st.sampled_from(["b", "s0", "s1"]), st.integers(-5, 200)),
)
def test_profiles_are_in_order_on_every_axis(shapes: Any, spans: Any, opt: dict[str, int]) -> None:
    ranges = {name: (low, low + more) for name, (low, more) in zip(("b", "s0", "s1"), spans, strict=True)}
    inputs = [(f"in{index}", shape) for index, shape in enumerate(shapes)]
    profiles = shape_profiles(inputs, ranges, opt)
    dynamic = [(name, shape) for name, shape in inputs if any(isinstance(size, str) for size in shape)]
    assert bool(profiles) == bool(dynamic)
    if not dynamic:
        return
    assert list(profiles) == ["trt_profile_min_shapes", "trt_profile_opt_shapes", "trt_profile_max_shapes"]
    low, usual, high = (
        [(name, [int(size) for size in sizes.split("x")]) for name, sizes in (e.split(":") for e in text.split(","))]
        for text in profiles.values()
    )
    for (name, shape), *kinds in zip(dynamic, low, usual, high, strict=True):
        assert [each[0] for each in kinds] == [name] * 3
        for size, *values in zip(shape, *(each[1] for each in kinds), strict=True):
            assert values[0] <= values[1] <= values[2]
            if size in ranges:
                span = ranges[size]
                wanted = min(max(opt.get(size, span[1]), span[0]), span[1])
                assert values == [span[0], wanted, span[1]]
            elif isinstance(size, int):
                assert values == [size] * 3


def test_a_profile_reads_as_the_provider_wants_it() -> None:
    inputs = [("ids", ["b", "s0"]), ("scale", []), ("weights", [3, 4]), ("pairs", ["2*b", 8])]
    assert shape_profiles(inputs, {"b": (1, 8), "s0": (1, 128)}, {"b": 4, "s0": 32}) == {
        "trt_profile_min_shapes": "ids:1x1,pairs:2x8",
        "trt_profile_opt_shapes": "ids:4x32,pairs:8x8",
        "trt_profile_max_shapes": "ids:8x128,pairs:16x8",
    }
    with pytest.raises(KeyError):
        shape_profiles(inputs, {"b": (1, 8)})


# --- with a GPU -------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("providers", [("CUDA", "CPU"), ("TensorRT", "CUDA", "CPU")])
def test_a_provider_of_the_gpu_serves(build_cache: BuildCache, providers: tuple[str, ...]) -> None:
    model = torch.nn.Linear(6, 5).eval()
    module = graphtune.Module(model, name="gpu")
    config = graphtune.OnnxRuntimeConfig(providers=providers)
    options = {"force": "onnxruntime", "measure_seconds": 0, "cache": build_cache, "progress": False}
    result = graphtune.tune(module, torch.randn(8, 6), batch_sizes=[1, 2, 4], backends=(config,), **options)
    (row,) = result.graphs["gpu"][0].candidates
    assert row.status == "chosen", row.reason


@pytest.mark.gpu
def test_aoti_is_built_for_the_device_of_the_program(tmp_path: Path) -> None:
    from graphtune.building import BuildJob, build
    from graphtune.exporting import export_flat
    from graphtune.flat_module import FlatModule

    flat = FlatModule(torch.nn.Linear(3, 2).eval().cuda(), lambda tensors: (tensors, {}), lambda result: [result])
    x = torch.randn(2, 3, device="cuda")
    graph = export_flat(flat, [x], [["b", 3]], {"b": (1, 4)}, tmp_path / "graph.pt2")
    result = build(BuildJob("aoti", graph.path, str(tmp_path / "engine"), graph.shapes, graph.ranges))
    assert result.built, result.reason
    assert result.engine is not None
    assert result.engine["built_for"]["device"] == "cuda"
    engine = _core.Engine("aoti", tmp_path / "engine")
    with torch.no_grad():
        torch.testing.assert_close(engine.run([x]), [flat(x)[0]])
    with pytest.raises(graphtune.EngineError, match="is on cpu, it was built for cuda"):
        engine.run([x.cpu()])


@pytest.mark.gpu
def test_a_model_on_the_gpu_is_tuned_there(build_cache: BuildCache) -> None:
    model = torch.nn.Linear(6, 5).eval().cuda()
    module = graphtune.Module(model, name="gpu")
    options = {"force": "aoti", "measure_seconds": 0, "cache": build_cache, "progress": False}
    data = torch.randn(8, 6, device="cuda")
    result = graphtune.tune(module, data, batch_sizes=[1, 2, 4], backends=("aoti", "openvino"), **options)
    rows = {row.name: row for row in result.graphs["gpu"][0].candidates}
    assert rows["aoti"].status == "chosen", rows["aoti"].reason
    assert rows["openvino"].status == "failed" and "is on cuda" in rows["openvino"].reason
    with torch.no_grad():
        torch.testing.assert_close(module(data[:3]), model(data[:3]))
    assert module.stats()["by_graph"]["graph_0"] == {"aoti": 1}


def test_a_model_on_several_kinds_of_device_stays_eager() -> None:
    model = torch.nn.Linear(6, 5).eval()
    model.register_buffer("elsewhere", torch.empty(2, device="meta"))
    module = graphtune.Module(model, name="spread")
    result = graphtune.tune(module, torch.randn(8, 6), batch_sizes=[1, 2], progress=False)
    assert "its weights are on cpu and meta" in result.graphs["spread"][0].eager_reason
