"""Calls whose form was served before skip ``forward``; whatever else has to be done goes through it as before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from call_ways import is_quick, python_frames
from graphtune.cache import BuildCache
from graphtune.call_mode import inactive
from graphtune.serving import take_calls_of
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import graphtune


class Scorer(nn.Module):
    """Gives its first input back beside what it computes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)
        self.table = nn.Embedding(10, 4)

    def forward(
        self, x: torch.Tensor, ids: torch.Tensor, extra: Any = None, mode: str = "sum", scale: float = 1.0
    ) -> dict[str, Any]:
        hidden = x + self.table(ids)
        if extra is not None:
            hidden = hidden + extra["a"][0] - extra["b"]
        out = self.layer(hidden) * scale
        return {"x": x, "y": (out.sum(1) if mode == "sum" else out.amax(1), out)}


def sample(batch: int, length: int, **rest: Any) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(batch * 100 + length)
    return {
        "x": torch.rand(batch, length, 4, generator=generator),
        "ids": torch.randint(0, 10, (batch, length), generator=generator),
        **rest,
    }


def with_extra(batch: int, length: int) -> dict[str, Any]:
    return sample(batch, length, extra={"a": [torch.ones(4)], "b": torch.rand(length, 4)})


@pytest.fixture(scope="module")
def bundle(build_cache: BuildCache, tmp_path_factory: pytest.TempPathFactory) -> Path:
    module = graphtune.Module(Scorer().eval(), name="scorer")
    with torch.no_grad():
        for batch, length in ((1, 3), (2, 5), (4, 8)):
            with graphtune.batch_size(batch):
                module(**sample(batch, length))
                module(**with_extra(batch, length))
                module(**sample(batch, length, mode="max"))
    module.tune(backends=("torchscript",), force="torchscript", measure_seconds=0, progress=False, cache=build_cache)
    assert all(graph.eager_reason == "" for graph in module.graph_specs)
    return graphtune.save(module, tmp_path_factory.mktemp("quick") / "scorer.bundle")


@pytest.fixture
def tuned(bundle: Path) -> graphtune.Module:
    """Of a model that has the weights of the bundle's, as it was made with the same seed."""
    module = graphtune.load(bundle, Scorer().eval())
    module.miss_policy = "error"
    return module


@torch.no_grad()
def test_the_second_call_of_a_form_is_quick_and_right(tuned: graphtune.Module) -> None:
    model = tuned.wrapped
    forms: list[Callable[[int, int], tuple[tuple[Any, ...], dict[str, Any]]]] = [
        lambda b, n: ((), sample(b, n)),
        lambda b, n: (tuple(sample(b, n).values()), {}),
        lambda b, n: ((), dict(reversed(sample(b, n).items()))),
        lambda b, n: ((), sample(b, n, mode="sum", extra=None)),
        lambda b, n: ((), sample(b, n, mode="max")),
        lambda b, n: ((), with_extra(b, n)),
        lambda b, n: ((), sample(b, n, extra=dict(reversed(with_extra(b, n)["extra"].items())))),
    ]
    for form in forms:
        assert not is_quick(tuned, *form(2, 4)[0], **form(2, 4)[1])
        for batch, length in ((2, 4), (1, 3), (4, 8), (3, 7)):
            args, kwargs = form(batch, length)
            expected, actual = model(*args, **kwargs), tuned(*args, **kwargs)
            torch.testing.assert_close(actual, expected)
            assert list(actual) == ["x", "y"] and type(actual["y"]) is tuple
            x = args[0] if args else kwargs["x"]
            assert actual["x"] is x
        args, kwargs = form(2, 6)
        assert is_quick(tuned, *args, **kwargs)
    served = sum(tuned.stats()["by_graph"][graph]["torchscript"] for graph in tuned.stats()["by_graph"])
    assert tuned.stats() == {"calls": served, "by_graph": tuned.stats()["by_graph"], "misses": {}}
    assert served == len(forms) * 6


@torch.no_grad()
def test_what_no_engine_may_have_is_not_quick(tuned: graphtune.Module) -> None:
    tuned(**sample(2, 4))
    assert is_quick(tuned, **sample(2, 4))
    bad_ids = sample(2, 4)
    bad_ids["ids"][1, 3] = 10
    for call in (
        sample(5, 4),  # ranges
        sample(2, 9),
        {**sample(2, 4), "ids": torch.zeros(2, 5, dtype=torch.int64)},  # relation
        {**sample(2, 4), "x": torch.rand(2, 4, 5)},  # fixed size
        {**sample(2, 4), "x": torch.rand(2, 4, 4, dtype=torch.float64)},
        {**sample(2, 4), "ids": torch.zeros(2, 4, dtype=torch.int32)},
        {**sample(2, 4), "x": torch.rand(4, 4)},
        sample(2, 4, mode="mean"),
        sample(2, 4, scale=2.0),
        bad_ids,
    ):
        assert not is_quick(tuned, **call)
        with pytest.raises(graphtune.MissError):
            tuned(**call)


@torch.no_grad()
def test_views_and_other_strides(tuned: graphtune.Module) -> None:
    call = sample(2, 6)
    tuned(**call)
    for x in (call["x"].transpose(0, 1).contiguous().transpose(0, 1), call["x"][:, ::2], call["x"][:1].expand(3, 6, 4)):
        inputs = {"x": x, "ids": call["ids"][:1, : x.shape[1]].expand(len(x), x.shape[1])}
        assert is_quick(tuned, **inputs)
        torch.testing.assert_close(tuned(**inputs), tuned.wrapped(**inputs))


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_surroundings_that_need_forward(tuned: graphtune.Module) -> None:
    call = sample(2, 4)
    with torch.no_grad():
        tuned(**call)
    assert is_quick(tuned, **call)
    assert not is_quick(tuned, **{**call, "x": call["x"].clone().requires_grad_()})
    with torch.no_grad():
        assert is_quick(tuned, **{**call, "x": call["x"].clone().requires_grad_()})
    for surrounding in (
        inactive(),
        torch.autocast("cpu", dtype=torch.bfloat16),
        torch.autograd.forward_ad.dual_level(),
        _Mode(),
    ):
        with surrounding:
            assert not is_quick(tuned, **call)
        assert is_quick(tuned, **call)


def test_hooks_run(tuned: graphtune.Module) -> None:
    call = sample(2, 4)
    seen: list[str] = []
    with torch.no_grad():
        tuned(**call)
        for register in (
            tuned.register_forward_pre_hook,
            tuned.register_forward_hook,
            torch.nn.modules.module.register_module_forward_hook,
            torch.nn.modules.module.register_module_forward_pre_hook,
        ):
            handle = register(lambda *args: seen.append("ran"))  # type: ignore[func-returns-value]
            before = len(seen)
            assert not is_quick(tuned, **call)
            tuned(**call)
            assert len(seen) > before
            handle.remove()
            assert is_quick(tuned, **call)


@torch.no_grad()
def test_a_changed_model_is_seen(tuned: graphtune.Module) -> None:
    call = sample(2, 4)
    model = tuned.wrapped
    tuned.miss_policy = "eager"
    tuned(**call)

    def check() -> None:
        assert not is_quick(tuned, **call)
        torch.testing.assert_close(tuned(**call), model(**call))

    with pytest.warns(RuntimeWarning, match="runs eagerly"):
        model.train()
        check()
        model.eval()
        assert is_quick(tuned, **call)
        own = model.forward
        model.forward = lambda **kwargs: {"x": kwargs["x"], "y": 1}  # type: ignore[assignment]
        assert not is_quick(tuned, **call) and tuned(**call)["y"] == 1
        del model.__dict__["forward"]
        assert model.forward == own and is_quick(tuned, **call)
        handle = model.layer.register_forward_hook(lambda *args: args[2] * 2)
        check()
        handle.remove()
        model.layer.weight.add_(1)
        check()


class Doubling(graphtune.Module):
    """A user's class with a forward of its own."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return {**super().forward(*args, **kwargs), "doubled": True}


@torch.no_grad()
def test_a_users_own_forward_runs(build_cache: BuildCache) -> None:
    module = Doubling(Scorer().eval(), name="scorer")
    for batch in (1, 2, 4):
        with graphtune.batch_size(batch):
            module(**sample(batch, 2 + batch))
    module.tune(backends=("torchscript",), force="torchscript", measure_seconds=0, progress=False, cache=build_cache)
    for _ in range(3):
        assert module(**sample(2, 4))["doubled"] is True
    assert not is_quick(module, **sample(2, 4))
    assert module.stats()["by_graph"]["graph_0"] == {"torchscript": 4}


@torch.no_grad()
def test_odd_arguments(tuned: graphtune.Module) -> None:
    tuned.miss_policy = "eager"
    tuned(**sample(2, 4))
    loop: list[Any] = []
    loop.append(loop)
    for extra in (loop, {1: 2}, 10**30, "ä", b"x", object(), [0] * 5000, Scorer):
        assert not is_quick(tuned, **sample(2, 4), extra=extra)
    assert not is_quick(tuned)
    assert not is_quick(tuned, *range(200))


def test_a_module_that_was_not_tuned_records_in_one_step() -> None:
    model = nn.Linear(2, 2)
    module = graphtune.Module(model)
    x = torch.ones(1, 2)
    assert torch.equal(module(x), model(x))
    (graph,) = module.graph_specs
    assert graph.eager_reason == ""
    assert [sample.args[0].shape for sample in module.samples(0)] == [(1, 2)]
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        module(torch.ones(1, 3))
    assert len(module.samples(0)) == 1  # a call that raises is not recorded
    with inactive():
        assert not is_quick(module, x)
    hook = module.register_forward_pre_hook(lambda module, args: None)
    assert not is_quick(module, x)
    hook.remove()
    assert is_quick(module, x)


def test_a_forward_of_ones_own_is_not_passed_over() -> None:
    class Counting(graphtune.Module):
        calls = 0

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            Counting.calls += 1
            return super().forward(*args, **kwargs)

    module = Counting(nn.Linear(2, 2))
    assert not is_quick(module, torch.ones(1, 2))
    assert Counting.calls == 1
    assert len(module.graph_specs) == 1


def test_threads(tuned: graphtune.Module) -> None:
    expected = {n: tuned.wrapped(**sample(2, n)) for n in range(3, 9)}
    wrong: list[Any] = []

    def work(offset: int) -> None:
        with torch.no_grad():
            for i in range(200):
                n = 3 + (i + offset) % 6
                try:
                    torch.testing.assert_close(tuned(**sample(2, n)), expected[n])
                except AssertionError as error:
                    wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert tuned.stats()["calls"] == 1600 and tuned.stats()["misses"] == {}


def test_compiled_models_may_hold_a_tuned_module(tuned: graphtune.Module) -> None:
    call = sample(2, 4)
    compiled = torch.compile(lambda x, ids: tuned(x, ids)["y"][0], backend="eager", fullgraph=True)
    with torch.no_grad():
        tuned(**call)
        torch.testing.assert_close(compiled(**call), tuned.wrapped(**call)["y"][0])


@torch.no_grad()
def test_the_interpreter_calls_the_core_itself(tuned: graphtune.Module) -> None:
    call = sample(2, 4)
    assert "forward" in [name for _, name in python_frames(lambda: tuned(**call))]
    assert python_frames(lambda: tuned(**call)) == []
    hook = tuned.register_forward_hook(lambda module, args, result: None)
    assert "forward" in [name for _, name in python_frames(lambda: tuned(**call))]
    hook.remove()
    assert python_frames(lambda: tuned(**call)) == []
    torch.testing.assert_close(tuned.__call__(**call)["y"], tuned(**call)["y"])


def test_classes_of_the_users_are_called_as_they_say() -> None:
    class Plain(graphtune.Module):
        pass

    class Own(graphtune.Module):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(*args, **kwargs) + 1

    class Later(graphtune.Module):
        pass

    model = nn.Linear(2, 2)
    x = torch.ones(1, 2)
    plain, own, later = Plain(model), Own(model), Later(model)
    expected = model(x)
    assert torch.equal(plain(x), expected)
    assert torch.equal(own(x), expected + 1)
    assert torch.equal(later(x), expected)
    Later.__call__ = lambda self, *args: "mine"  # type: ignore[method-assign,assignment]
    assert later(x) == "mine"
    del Later.__call__
    assert torch.equal(later(x), expected)
    assert [module.stats()["calls"] for module in (plain, own, later)] == [1, 1, 2]


def test_a_replaced_call_of_all_modules_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = nn.Module.__call__

    def watching(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        seen.append(type(self).__name__)
        return original(self, *args, **kwargs)

    model = nn.Linear(2, 2)
    module = graphtune.Module(model)
    x = torch.ones(1, 2)
    with monkeypatch.context() as patch, inactive():
        patch.setattr(nn.Module, "__call__", watching)
        assert torch.equal(module(x), model(x))
    assert seen == ["Module", "Linear", "Linear"]
    assert torch.equal(module(x), model(x))
    assert module.stats()["calls"] == 1


def test_what_a_model_raises_comes_out_as_it_was(tuned: graphtune.Module) -> None:
    class OddError(Exception):
        pass

    fault = OddError("of the model")

    class Failing(nn.Module):
        def forward(self, x: torch.Tensor, y: int = 0) -> torch.Tensor:
            raise fault

    module = graphtune.Module(Failing())
    for call in (lambda: module(torch.ones(1)), lambda: module(x=torch.ones(1), y=2)):
        with pytest.raises(OddError) as caught:
            call()
        assert caught.value is fault
        assert "forward" in [entry.name for entry in caught.traceback]
        fault.__traceback__ = None
    with pytest.raises(TypeError):
        module(torch.ones(1), z=1)
    with pytest.raises(graphtune.MissError, match="the call is of none of the"), torch.no_grad():
        tuned(torch.ones(1))
    with pytest.raises(TypeError, match="module_class must be a class made in Python"):
        take_calls_of(int)
    with pytest.raises(TypeError):
        take_calls_of(nn.Linear(2, 2))  # type: ignore[arg-type]


def test_calls_nest_as_deep_as_the_interpreter_allows() -> None:
    class Deep(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return module(x)

    module = graphtune.Module(Deep())
    with pytest.raises(RecursionError):
        module(torch.ones(1))
    assert module.graph_specs == []
