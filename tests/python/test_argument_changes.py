"""Forward changes a container among its arguments: engines must not lose that."""

from __future__ import annotations

import collections
import copy
import dataclasses
import itertools
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from graphtune.candidate_builds import EngineFolder
from graphtune.engine_worker import read_case, to_devices
from graphtune.graph_tuner import GraphTuner
from graphtune.planning import PlanEntry
from graphtune.python_engines import build_engine
from graphtune.result import CandidateResult, GraphResult
from torch import nn
from user_engines import Interpreter

import graphtune


@dataclasses.dataclass
class State:
    value: torch.Tensor
    step: int = 0


@dataclasses.dataclass(frozen=True)
class FrozenState:
    value: torch.Tensor


class Box:
    """Known to torch's pytree, which can't write to it."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Fresh(Box):
    """Makes its tensors anew each time that it is read."""


class Registered(Box):
    """Registered with graphtune, with a way to change it."""


pytree.register_pytree_node(Box, lambda box: ([box.value], None), lambda parts, _: Box(*parts))
pytree.register_pytree_node(Fresh, lambda box: ([box.value * 1], None), lambda parts, _: Fresh(*parts))
graphtune.register_type(
    Registered,
    lambda box: ({"value": box.value}, None),
    lambda parts, _: Registered(parts["value"]),
    lambda box, parts, _: setattr(box, "value", parts["value"]),
)


class Changing(nn.Module):
    """Does something to its argument, and gives a value of its own."""

    def __init__(self, change: Callable[[Any, torch.Tensor], object], gives_past: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)
        self.change = change
        self.gives_past = gives_past

    def forward(self, x: torch.Tensor, past: Any) -> Any:
        y: torch.Tensor = self.linear(x)
        self.change(past, y)
        return {"y": y + 1, "past": past} if self.gives_past else y + 1


def replace(past: Any, y: torch.Tensor) -> None:
    past[0] = torch.cat([past[0], y], 1)


def set_value(past: Any, y: torch.Tensor) -> None:
    past.value = past.value + y


def set_frozen(past: Any, y: torch.Tensor) -> None:
    object.__setattr__(past, "value", past.value + y)


def step(past: Any, y: torch.Tensor) -> None:
    past.step += 1
    past.value = y


def several(past: Any, y: torch.Tensor) -> None:
    past["new"] = {"y": y, "old": past["a"], "list": past["list"]}
    past["list"].append(y)
    past["list"][0] = past["a"]
    del past["gone"]


def order(past: Any, y: torch.Tensor) -> None:
    past["a"] = past.pop("a") + y


def rows(batch: int) -> torch.Tensor:
    return torch.rand(batch, 4)


# What is done, to what, and the place of the container that is changed first.
CHANGES: dict[str, tuple[Callable[[Any, torch.Tensor], object], Callable[[int], Any], str]] = {
    "append": (lambda past, y: past.append(y), lambda b: [rows(b)], "['past']"),
    "append to none": (lambda past, y: past.append(y), lambda b: [], "['past']"),
    "replace": (replace, lambda b: [rows(b)], "['past']"),
    "pop": (lambda past, y: past.pop(), lambda b: [rows(b)], "['past']"),
    "swap": (lambda past, y: past.reverse(), lambda b: [rows(b), rows(b)], "['past']"),
    "key": (lambda past, y: past.update(k=y), lambda b: {"k": rows(b)}, "['past']"),
    "new key": (lambda past, y: past.update(n=y * past["k"]), lambda b: {"k": rows(b), 7: rows(b)}, "['past']"),
    "order": (order, lambda b: {"a": rows(b), "b": rows(b)}, "['past']"),
    "nested": (lambda past, y: past["k"][1].append(y), lambda b: {"k": (rows(b), [])}, "['past']['k'][1]"),
    "several": (several, lambda b: {"a": rows(b), "list": [rows(b)], "gone": 1}, "['past']['list']"),
    "attribute": (set_value, lambda b: State(rows(b)), "['past']"),
    "constant": (step, lambda b: State(rows(b)), "['past']"),
    "frozen": (set_frozen, lambda b: FrozenState(rows(b)), "['past']"),
    "namespace": (set_value, lambda b: types.SimpleNamespace(value=rows(b)), "['past']"),
    "new attribute": (lambda past, y: setattr(past, "n", y), lambda b: types.SimpleNamespace(v=rows(b)), "['past']"),
    "deque": (lambda past, y: past.append(y), lambda b: collections.deque([rows(b), rows(b)], 2), "['past']"),
    "ordered": (order, lambda b: collections.OrderedDict(a=rows(b), b=rows(b)), "['past']"),
    "user list": (lambda past, y: past.append(y), lambda b: collections.UserList([rows(b)]), "['past']"),
    "user dict": (lambda past, y: past.update(k=y), lambda b: collections.UserDict(k=rows(b)), "['past']"),
    "registered": (set_value, lambda b: Registered(rows(b)), "['past']"),
}


def record(model: nn.Module, *pasts: Any, sizes: tuple[int, ...] = (2,)) -> graphtune.Module:
    module = graphtune.Module(model.eval(), name="changing")
    with torch.no_grad():
        for past in pasts:
            for size in sizes:
                with graphtune.batch_size(size):
                    module(rows(size), past(size) if callable(past) else past)
    return module


@pytest.fixture(autouse=True)
def _program_as_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The exported program is the engine, in this process: what engines do with programs is tested elsewhere."""
    graphtune.register_engine("interpreter", Interpreter)

    def build(self: Any, exported: Any, cases: Any, *_: Any) -> Any:
        for case in cases:
            stored, expected = read_case(case.path)
            inputs = to_devices(stored, self._calls.devices)
            torch.testing.assert_close(list(exported.program.module()(*inputs)), expected)
        folder = tmp_path / "engine"
        folder.mkdir()
        job = {"program": exported.path, "output": str(folder), "shapes": exported.shapes, "ranges": exported.ranges}
        build_engine(
            {**job, "conditions": [], "options": {}, "threads": 0, "backend": "interpreter", "engine_class": ""}
        )
        self._result.candidates.append(CandidateResult("interpreter", "valid", backend="interpreter"))
        return [PlanEntry("interpreter")], {"interpreter": EngineFolder("interpreter", "interpreter", folder)}

    monkeypatch.setattr(GraphTuner, "_try_candidates", build)


def tune(module: graphtune.Module, **options: Any) -> GraphResult:
    result = module.tune(progress=False, backends=("interpreter",), measure_seconds=0, **options)
    (graph,) = result.graphs[module.name]
    return graph


def plain(value: Any) -> Any:
    """A value as nested lists, to be compared whole."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (list, tuple, collections.deque, collections.UserList)):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, (dict, collections.UserDict)):
        return [type(value).__name__, *([key, plain(item)] for key, item in value.items())]
    if hasattr(value, "__dict__"):
        return [type(value).__name__, plain(vars(value))]
    return value


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value for tensor in tensors_of(each)] if isinstance(value, list) else []


def assert_same(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(tensors_of(plain(actual)), tensors_of(plain(expected)))
    assert without_tensors(plain(actual)) == without_tensors(plain(expected))


def without_tensors(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.Tensor
    return [without_tensors(each) for each in value] if isinstance(value, list) else value


# Recording


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name: str) -> None:
    change, past, place = CHANGES[name]
    module = record(Changing(change), past, past)
    assert len(module.graph_specs) == 1
    seen = module._graphtune_recorder.change(0)
    assert seen is not None
    assert seen[1] == place


def test_reading_is_no_change() -> None:
    for past in ([torch.ones(4)], {"k": torch.ones(4)}, State(torch.ones(4)), Box(torch.ones(4)), Fresh(torch.ones(4))):
        module = record(Changing(lambda past, y: None), past, past)
        assert module._graphtune_recorder.change(0) is None
        assert module.graph_specs[0].sample_count == 2


@pytest.mark.parametrize("first", [True, False])
def test_a_change_of_some_calls_keeps_the_graph_eager(first: bool) -> None:
    pasts = [[torch.zeros(4)], [torch.ones(4)]]
    change = Changing(lambda past, y: past.append(y) if past[0].sum() > 0 else None)
    module = record(change, *(pasts if first else pasts[::-1]))
    assert "['past'] (a list) in some calls" in module.graph_specs[0].eager_reason


# Tuned calls


@pytest.mark.parametrize("gives_past", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_a_tuned_call_changes_the_same(name: str, gives_past: bool, tmp_path: Path) -> None:
    change, past, _ = CHANGES[name]
    module = record(Changing(change, gives_past), past, past, sizes=(1, 2, 4))
    result = tune(module)
    assert result.chosen is not None, str(result)
    graphtune.save(module, tmp_path / "bundle")
    loaded = graphtune.load(tmp_path / "bundle")
    again = graphtune.load(tmp_path / "bundle", Changing(change, gives_past).eval())
    module.miss_policy = again.miss_policy = "error"
    eager = module.wrapped
    for served in (module, loaded, again):
        for size in (3, 1, 4):  # 3 was never recorded
            x = rows(size)
            given = past(size)
            expected_past = copy.deepcopy(given)
            kept = tensors_of(plain(given))
            with torch.no_grad():
                got, expected = served(x, given), eager(x, expected_past)
            assert_same(given, expected_past)
            assert_same(got, expected)
            if gives_past:
                assert got["past"] is given
            # A tensor that stays is the caller's own, as in eager.
            ids = {id(tensor) for tensor in kept}
            stays = sum(id(tensor) in ids for tensor in tensors_of(plain(given)))
            with torch.no_grad():
                model_past = past(size)
                ids = {id(tensor) for tensor in tensors_of(plain(model_past))}
                eager(x, model_past)
            assert stays == sum(id(tensor) in ids for tensor in tensors_of(plain(model_past)))
        assert served.stats()["by_graph"] == {"graph_0": {"interpreter": 3}}


def test_a_tensor_of_the_result_is_the_one_in_the_container() -> None:
    class Keeping(nn.Module):
        def forward(self, x: torch.Tensor, past: list[torch.Tensor]) -> torch.Tensor:
            y = x * 2
            past.append(y)
            return y

    module = record(Keeping(), lambda size: [], sizes=(1, 2))
    assert tune(module).chosen
    past: list[torch.Tensor] = []
    with torch.no_grad():
        y = module(rows(2), past)
    assert past[0] is y


def test_a_container_that_is_only_given_back_is_the_callers() -> None:
    module = record(Changing(lambda past, y: None, True), lambda size: [rows(size)], sizes=(1, 2))
    assert tune(module).chosen
    past = [rows(2)]
    with torch.no_grad():
        assert module(rows(2), past)["past"] is past
    assert module.stats()["misses"] == {}


def test_engines_failures_leave_the_containers_alone() -> None:
    module = record(Changing(lambda past, y: past.append(y)), lambda size: [rows(size)], sizes=(1, 2))
    assert tune(module).chosen
    past = [rows(9)]
    with torch.no_grad():
        module(rows(9), past)  # out of range: eager
    assert len(past) == 2
    assert module.stats()["misses"] == {"range": 1}


class TwoLists(nn.Module):
    def forward(self, x: torch.Tensor, a: list[torch.Tensor], b: list[torch.Tensor]) -> torch.Tensor:
        a.append(x + 1)
        return x + len(b)


def test_a_container_given_twice_is_a_miss() -> None:
    module = graphtune.Module(TwoLists().eval(), name="changing")
    with torch.no_grad():
        for size in (1, 2):
            with graphtune.batch_size(size):
                module(rows(size), [], [])
        assert tune(module).chosen
        same: list[torch.Tensor] = []
        x = rows(2)
        torch.testing.assert_close(module(x, same, same), x + 1)
    assert len(same) == 1
    assert module.stats()["misses"] == {"shared_argument": 1}


def test_a_container_recorded_twice_keeps_the_graph_eager() -> None:
    module = graphtune.Module(TwoLists().eval(), name="changing")
    with torch.no_grad():
        for size in (1, 2):
            same: list[torch.Tensor] = []
            with graphtune.batch_size(size):
                module(rows(size), same, same)
    assert "['a'] (a list) in recorded calls" in tune(module).eager_reason


EAGER: dict[str, tuple[Callable[[Any, torch.Tensor], object], Callable[[int], Any], str]] = {
    "pytree": (set_value, lambda b: Box(rows(b)), r"\['past'\], and graphtune can't change a .*Box.*register_type"),
    "object": (lambda past, y: past.append(object()), lambda b: [], "leaves there a builtins.object"),
    "length": (lambda past, y: past.append(len(y)), lambda b: [], r"\['past'\] \(a list\) in some calls"),
}


@pytest.mark.parametrize("name", EAGER)
def test_what_can_not_be_done_keeps_the_graph_eager(name: str) -> None:
    change, past, reason = EAGER[name]
    module = record(Changing(change), past, sizes=(1, 2))
    graph = tune(module, contract={"x": {0: graphtune.Batch(1, 8)}})
    assert graph.chosen is None
    assert re.search(reason, graph.eager_reason), graph.eager_reason
    x, given, expected = rows(2), past(2), past(2)
    if name == "pytree":
        expected = copy.deepcopy(given)
    with torch.no_grad():
        torch.testing.assert_close(module(x, given), module.wrapped(x, expected))
    torch.testing.assert_close(tensors_of(plain(given)), tensors_of(plain(expected)))


def test_a_change_at_some_sizes_limits_the_graph_to_these() -> None:
    change = Changing(lambda past, y: past.append(y) if y.shape[0] < 5 else None)
    module = record(change, lambda size: [], sizes=(1, 2))
    graph = tune(module, contract={"x": {0: graphtune.Batch(1, 8)}})
    assert graph.symbols == {"b": (1, 4)}
    given: list[torch.Tensor] = []
    with torch.no_grad():
        module(rows(6), given)
    assert given == []
    assert module.stats()["misses"] == {"range": 1}


def test_a_change_that_ends_keeps_the_graph_eager() -> None:
    calls = itertools.count()
    module = record(
        Changing(lambda past, y: past.append(y) if next(calls) < 3 else None), lambda size: [], sizes=(1, 2)
    )
    assert "in one way at some sizes and in another at others" in tune(module).eager_reason
