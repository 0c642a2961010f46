"""What ``inspect`` finds out about the modules of a pipeline."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
import torch
from torch import nn

import graphtune
from graphtune import GraphtuneTypeError, GraphtuneValueError


class Sleep(nn.Module):
    """Takes a known time by itself, and that of the module within."""

    def __init__(self, seconds: float, inner: nn.Module | None = None) -> None:
        super().__init__()
        self.seconds = seconds
        self.inner = inner
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor, times: int = 1) -> torch.Tensor:
        time.sleep(self.seconds)
        for _ in range(times):
            x = x if self.inner is None else self.inner(x)
        return x + 1


class Pipeline:
    def __init__(self) -> None:
        self.shared = Sleep(0.002).eval()
        self.encoder = Sleep(0.004, Sleep(0.002)).eval()
        self.decoders = {"main": Sleep(0.002, self.shared).eval()}
        self.unused = nn.Linear(4, 4).eval()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.002)
        self.encoder(x, times=2)
        return self.decoders["main"](self.shared(x))


def no_hooks(*modules: nn.Module) -> bool:
    return all(
        not part._forward_hooks and not part._forward_pre_hooks and not part._forward_hooks_always_called
        for module in modules
        for part in module.modules()
    )


@pytest.fixture(scope="module")
def found() -> graphtune.Inspection:
    return graphtune.inspect(Pipeline(), torch.randn(6, 4), batch_sizes=[1, 2])


def test_calls_and_times_are_told_apart(found: graphtune.Inspection) -> None:
    assert found.batches == 9
    assert [report.path for report in found.modules] == [
        "", "shared", "encoder", "encoder.inner", "decoders.main", "unused"
    ]  # fmt: skip
    assert {report.path: report.calls for report in found.modules} == {
        "": 9, "shared": 18, "encoder": 9, "encoder.inner": 18, "decoders.main": 9, "unused": 0
    }  # fmt: skip
    # Sleeps may take longer than they should, never shorter.
    encoder, inner, main, shared = (found[p] for p in ("encoder", "encoder.inner", "decoders.main", "shared"))
    assert encoder.own_seconds >= 9 * 0.004
    assert inner.total_seconds == inner.own_seconds >= 18 * 0.002
    assert encoder.total_seconds == pytest.approx(encoder.own_seconds + inner.total_seconds, rel=1e-6)
    assert main.total_seconds >= 9 * 0.004
    assert main.own_seconds < main.total_seconds
    # What is each one's own makes up the whole.
    assert sum(report.own_seconds for report in found.modules) == pytest.approx(found.seconds, rel=1e-6)
    assert sum(report.own_share for report in found.modules) == pytest.approx(1, rel=1e-6)
    assert found[""].total_share == pytest.approx(1)
    assert shared.total_share < encoder.total_share < 1


def test_shared_modules_come_once_and_say_where_else_they_are(found: graphtune.Inspection) -> None:
    assert found["shared"].also_at == ("decoders.main.inner",)
    assert found["decoders.main.inner"] is found["shared"]
    with pytest.raises(KeyError):
        found["decoders"]
    assert found["decoders.main"].parameters == 6  # its own, and those of the shared one within
    assert found[""].parameters == 3 * 4 + 4 * 4 + 4
    assert found[""].weight_bytes == found[""].parameters * 4


def test_graphs_are_those_of_the_recorder(found: graphtune.Inspection) -> None:
    (graph,) = found["encoder"].graphs
    assert graph.calls == 9
    assert graph.symbols == {"b": (1, 2)}
    assert not found["unused"].graphs


def test_candidates_are_the_outermost_modules_that_can_be_tuned(found: graphtune.Inspection) -> None:
    assert [report.path for report in found.candidates()] == ["shared", "encoder", "decoders.main"]
    assert [report.path for report in found.candidates(min_share=0.99)] == []
    assert found["unused"].obstacle == "it was not called"
    assert "no nn.Module" in found[""].obstacle


def test_the_table_and_the_data(found: graphtune.Inspection) -> None:
    text = str(found)
    assert all(len(line) <= 120 for line in text.splitlines())
    for words in ("Pipeline: 9 batches", "encoder", "decoders.main", "Sleep", "shared: also at decoders.main.inner",
                  "Worth wrapping: shared, encoder, decoders.main", "yes"):  # fmt: skip
        assert words in text
    assert "inner " in text
    flat = found.table(depth=1)
    assert "  inner" not in flat
    assert "1 modules are not shown" in flat
    data = json.loads(json.dumps(found.to_dict()))
    assert data["schema_version"] == 1
    assert data["batch_sizes"] == [1, 2]
    row = next(each for each in data["modules"] if each["path"] == "encoder")
    assert row["candidate"] is True
    assert row["graphs"] == [{"name": "graph_0", "calls": 9, "symbols": {"b": [1, 2]}, "eager_reason": ""}]


class Choosy(nn.Module):
    """Parts that can't be tuned as they are called."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = Sleep(0.001)
        self.writer = Writer()
        self.object = TakesAnything()
        self.layers = nn.ModuleList([Sleep(0.001), Sleep(0.001)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in range(1, 12):
            self.steps(x, step)
        self.writer(x.clone())
        self.object(x, object())
        for layer in self.layers:
            x = layer(x)
        return x


class Writer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.005)
        return x.add_(1)


class TakesAnything(nn.Module):
    def forward(self, x: torch.Tensor, anything: Any) -> torch.Tensor:
        time.sleep(0.005)
        return x * 2


def test_obstacles_are_said() -> None:
    found = graphtune.inspect(Choosy().eval(), torch.randn(2, 4))
    assert "11 execution graphs" in found["steps"].obstacle
    assert "strict=False" in found["steps"].obstacle
    assert "writes to its input" in found["writer"].obstacle
    assert "register_type" in found["object"].obstacle
    assert "never called itself" in found["layers"].obstacle
    layers = found["layers"]
    assert layers.calls == 0
    assert layers.total_seconds == pytest.approx(found["layers.0"].total_seconds + found["layers.1"].total_seconds)
    text = str(found)
    assert "steps: its calls have 11 execution graphs" in text
    # The whole is the outermost that can be tuned.
    assert [report.path for report in found.candidates()] == [""]
    assert "Worth wrapping: all of it, with graphtune.Module" in text
    with pytest.raises(GraphtuneValueError, match=r"names the target itself"):
        graphtune.wrap(Choosy(), found)


def test_candidates_are_wrapped() -> None:
    pipeline = Pipeline()
    modules = graphtune.wrap(pipeline, graphtune.inspect(pipeline, torch.randn(2, 4)))
    assert list(modules) == ["shared", "encoder", "decoders.main"]
    assert pipeline.encoder is modules["encoder"]
    again = graphtune.inspect(pipeline, torch.randn(2, 4))
    assert [report.path for report in again.modules if report.wrapped] == ["shared", "encoder", "decoders.main"]
    assert again["encoder"].class_name == "Sleep"
    assert again.candidates() == []
    assert "Worth wrapping: nothing more" in str(again)
    assert all(not module.graph_specs for module in modules.values())  # looked at, not recorded
    with pytest.raises(GraphtuneValueError, match=r"found no module worth wrapping"):
        graphtune.wrap(pipeline, again)


def test_nothing_stays_changed_when_a_call_raises() -> None:
    class Failing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            if self.calls == 3:
                raise RuntimeError("out of luck")
            return self.inner(x)

    model = Failing().eval()
    with pytest.raises(RuntimeError, match=r"out of luck"):
        graphtune.inspect(model, torch.randn(8, 4))
    assert no_hooks(model)


def test_a_call_that_raises_and_is_caught_ends_too() -> None:
    class Catching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.picky = nn.Linear(5, 5)
            self.after = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                return self.picky(x)
            except RuntimeError:
                return self.after(x)

    found = graphtune.inspect(Catching().eval(), torch.randn(3, 4))
    assert (found["picky"].calls, len(found["picky"].graphs)) == (3, 0)
    assert (found["after"].calls, len(found["after"].graphs)) == (3, 1)
    assert sum(report.own_seconds for report in found.modules) == pytest.approx(found[""].total_seconds, rel=1e-6)


def test_a_function_with_the_modules_given() -> None:
    pipeline = Pipeline()
    found = graphtune.inspect(
        lambda texts: pipeline(torch.zeros(len(texts), 4)),
        ["a", "b", "c"],
        modules=pipeline,
        collate=list,
        batch_size=2,
    )
    assert (found.target, found.batches, found["encoder"].calls) == ("<lambda>", 2, 2)
    model = pipeline.encoder
    found = graphtune.inspect(lambda x: model(model(x)), torch.zeros(2, 4), modules=model)
    assert [(report.path, report.calls) for report in found.modules] == [("", 4), ("inner", 4)]
    found = graphtune.inspect(pipeline, torch.zeros(2, 4), modules={"one": model})
    assert [report.path for report in found.modules] == ["", "one", "one.inner"]


def test_calls_from_other_threads_count_by_themselves() -> None:
    class Threaded(Pipeline):
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            threads = [threading.Thread(target=self.encoder, args=(x,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return x

    found = graphtune.inspect(Threaded(), torch.zeros(2, 4))
    assert found["encoder"].calls == found["encoder.inner"].calls == 6
    assert found["encoder"].total_seconds == pytest.approx(
        found["encoder"].own_seconds + found["encoder.inner"].total_seconds, rel=1e-6
    )


def test_arguments_are_checked() -> None:
    data = torch.zeros(2, 4)
    with pytest.raises(GraphtuneValueError, match=r"encoder is in train mode"):
        pipeline = Pipeline()
        pipeline.encoder.train()
        graphtune.inspect(pipeline, data)
    with pytest.raises(GraphtuneTypeError, match=r"modules=pipeline"):
        graphtune.inspect(object(), data)
    with pytest.raises(GraphtuneValueError, match=r"no nn.Module was found"):
        graphtune.inspect(lambda x: x, data)
    with pytest.raises(GraphtuneValueError, match=r"give one of them"):
        graphtune.inspect(Pipeline(), data, batch_size=1, batch_sizes=[1])
    with pytest.raises(GraphtuneValueError, match=r"empty"):
        graphtune.inspect(Pipeline(), [])
    with pytest.raises(GraphtuneTypeError, match=r"'4'"):
        graphtune.inspect(Pipeline(), data, batch_size="4")  # type: ignore[arg-type]
