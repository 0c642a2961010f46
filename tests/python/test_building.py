"""Every end that a build can come to is one result, and the artefacts run where the ranges end."""

import _thread
import dataclasses
import json
import threading
import time
from pathlib import Path

import pytest
import torch
from graphtune.building import BuildJob, build, build_all, register_builder
from graphtune.exporting import export_flat
from graphtune.flat_module import FlatModule
from torch import nn

from graphtune import building

RANGES = {"b": (1, 4), "s0": (1, 6)}


@pytest.fixture(autouse=True)
def builders(monkeypatch):
    monkeypatch.setattr(building, "_BUILDERS", dict(building._BUILDERS))
    for name in ("well", "and_raise", "and_hang", "and_crash", "and_exit", "and_eat_memory", "and_take_memory"):
        register_builder(name, f"misbehaving_builders:build_{name}")


def job(tmp_path, backend, **changes):
    return BuildJob(backend=backend, program="none", output=str(tmp_path / "out"), shapes=[], ranges={}, **changes)


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_good_build(tmp_path):
    result = build(job(tmp_path, "well", options={"text": "hello"}))
    assert (result.status, result.reason) == ("built", "")
    assert result.files == ["engine.json", "weights/model.bin"]
    assert result.engine == {"format": 1, "backend": "well"}
    assert (Path(result.output) / "weights/model.bin").read_text() == "hello"
    assert Path(result.log).exists()
    json.dumps(result.to_dict())


def test_a_builder_that_raises(tmp_path):
    result = build(job(tmp_path, "and_raise"))
    assert (result.status, result.files, result.engine) == ("failed", [], None)
    assert result.reason == "NotImplementedError: the op frobnicate is not known"
    assert "Traceback" in Path(result.log).read_text()


def test_a_builder_that_cannot_be_imported(tmp_path):
    register_builder("absent", "no_such_module:build")
    result = build(job(tmp_path, "absent"))
    assert result.status == "failed" and "no_such_module" in result.reason


def test_a_builder_that_hangs_ends_with_all_it_started(tmp_path):
    child = tmp_path / "out/child.pid"
    for seconds in (12, 60):  # on a busy machine it takes its time to begin
        waits = []
        result = build(job(tmp_path, "and_hang", time_limit_s=seconds), on_wait=waits.append)
        assert (result.status, result.reason) == ("timeout", f"not done after {seconds} s")
        assert waits
        if child.exists():
            break
    assert not is_running(int(child.read_text()))


def test_a_builder_that_crashes(tmp_path):
    result = build(job(tmp_path, "and_crash"))
    assert result.status == "crashed"
    assert result.reason == "the builder ended with SIGSEGV: about to dereference"
    result = build(job(tmp_path, "and_exit"))
    assert (result.status, result.reason) == ("crashed", "the builder ended with exit status 7")


def test_a_builder_that_eats_the_memory(tmp_path):
    share = 2**30 / building.available_memory()
    result = build(job(tmp_path, "and_eat_memory", memory_share=share))
    assert (result.status, result.reason) == ("memory", "needed more than 1.0 GiB of memory")
    assert result.peak_memory_bytes > 2**30


def test_an_earlier_result_is_not_taken_for_this_one(tmp_path):
    assert build(job(tmp_path, "well")).built
    assert not build(job(tmp_path, "and_exit")).built
    assert not (tmp_path / "out/engine.json").exists()


def test_ctrl_c_ends_the_builder(tmp_path):
    child = tmp_path / "out/child.pid"

    def interrupt():
        deadline = time.monotonic() + 60
        while not (child.exists() and child.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        _thread.interrupt_main()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        build(job(tmp_path, "and_hang", time_limit_s=90))
    assert not is_running(int(child.read_text()))


def test_builds_side_by_side(tmp_path):
    started, done = [], {}
    jobs = [
        BuildJob(backend=backend, program="none", output=str(tmp_path / f"{number}"), shapes=[], ranges={})
        for number, backend in enumerate(["well", "and_raise", "and_exit", "well"])
    ]
    build_all(jobs, lambda job, result: done.update({job.output: result}), at_once=2, on_start=started.append)
    assert started == jobs
    assert [done[job.output].status for job in jobs] == ["built", "failed", "crashed", "built"]


def test_builds_that_need_too_much_memory_together_run_alone(tmp_path):
    share = 2**30 / building.available_memory()
    jobs = [BuildJob("and_take_memory", "none", str(tmp_path / str(n)), [], {}, memory_share=share) for n in range(2)]
    started, done = [], []
    build_all(jobs, lambda job, result: done.append((job, result.status)), at_once=2, on_start=started.append)
    assert started == [*jobs, jobs[1]]
    assert done == [(jobs[0], "built"), (jobs[1], "built")]


def test_unknown_backends(tmp_path):
    with pytest.raises(ValueError, match=r"'none' is not one of and_crash, .*aoti"):
        build(job(tmp_path, "none"))
    with pytest.raises(ValueError, match="module:function"):
        register_builder("x", "nothing")


class Odd(nn.Module):
    """Unused input, repeated output, many types, a size that is computed."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.linear = nn.Linear(8, 3)

    def forward(self, ids, unused, scale):
        hidden = self.linear(self.table(ids)) * scale
        return hidden, hidden, ids > 2, ids + 1, hidden.mean((1, 2)), hidden.argmax(-1), torch.cat([ids, ids], 1)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(0)
    flat = FlatModule(Odd().eval(), lambda tensors: (tensors, {}), list)
    tensors = [torch.randint(0, 11, (2, 3)), torch.randn(2), torch.tensor(2.5)]
    path = tmp_path_factory.mktemp("exported") / "graph.pt2"
    return flat, export_flat(flat, tensors, [["b", "s0"], ["b"], []], RANGES, path)


def engine_job(graph, backend, folder):
    return BuildJob(
        backend=backend,
        program=graph.path,
        output=str(folder),
        shapes=graph.shapes,
        ranges=graph.ranges,
        conditions=graph.conditions,
    )


def samples():
    for b, s in ((1, 1), (4, 6), (1, 6), (4, 1), (3, 2)):
        yield [torch.randint(0, 11, (b, s)), torch.randn(b), torch.tensor(-0.5)]


@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="no vector unit to build for")
def test_aoti(exported, tmp_path):
    flat, graph = exported
    result = build(dataclasses.replace(engine_job(graph, "aoti", tmp_path), threads=1))
    assert result.built, result.reason
    assert result.files == ["engine.json", "model.pt2"]
    engine = result.engine
    assert [entry["index"] for entry in engine["inputs"]] == [0, 1, 2]
    assert [entry["dtype"] for entry in engine["outputs"]] == [
        "float32", "float32", "bool", "int64", "float32", "int64", "int64",
    ]  # fmt: skip
    assert engine["threads"] == 1
    assert engine["built_for"]["device"] == "cpu"
    assert engine["built_for"]["cpu_capability"] == torch.backends.cpu.get_cpu_capability()
    assert engine["versions"] == {"torch": torch.__version__}
    model = torch._inductor.aoti_load_package(str(tmp_path / engine["file"]))
    for tensors in samples():
        with torch.no_grad():
            expected = flat(*tensors)
        torch.testing.assert_close(list(model(*tensors)), list(expected))


def test_openvino(exported, tmp_path):
    openvino = pytest.importorskip("openvino")
    flat, graph = exported
    result = build(engine_job(graph, "openvino", tmp_path))
    assert result.built, result.reason
    assert result.files == ["engine.json", "model.bin", "model.xml"]
    engine = result.engine
    assert engine["options"] == {"INFERENCE_PRECISION_HINT": "f32"}
    assert [entry["result"] for entry in engine["outputs"]][:2] == [0, 0]
    assert engine["outputs"][2]["dtype"] == "bool"
    model = openvino.Core().compile_model(str(tmp_path / engine["file"]), "CPU", engine["options"])
    first = model.inputs[[entry["index"] for entry in engine["inputs"]].index(0)]
    assert str(first.partial_shape) == "[1..4,1..6]"
    for tensors in samples():
        found = model([tensors[entry["index"]].numpy() for entry in engine["inputs"]])
        with torch.no_grad():
            expected = flat(*tensors)
        for want, entry in zip(expected, engine["outputs"], strict=True):
            got = torch.from_numpy(found[entry["result"]]).to(getattr(torch, entry["dtype"]))
            torch.testing.assert_close(got, want)


def test_openvino_refuses_what_it_would_compute_less_exactly(tmp_path):
    pytest.importorskip("openvino")
    flat = FlatModule(nn.Identity(), lambda tensors: (tensors, {}), lambda result: [result * 2])
    x = torch.zeros(2, 3, dtype=torch.float64)
    graph = export_flat(flat, [x], [["b", 3]], {"b": (1, 4)}, tmp_path / "graph.pt2")
    result = build(engine_job(graph, "openvino", tmp_path / "out"))
    assert result.status == "failed" and "input 0 is float64" in result.reason


def test_a_program_that_does_not_load_is_a_failed_build(exported, tmp_path):
    _, graph = exported
    bad = tmp_path / "bad.pt2"
    bad.write_bytes(b"not a program")
    job = dataclasses.replace(engine_job(graph, "openvino", tmp_path / "out"), program=str(bad))
    result = build(job)
    assert result.status == "failed" and result.reason
