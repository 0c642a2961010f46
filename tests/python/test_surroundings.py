"""What surrounds a call and changes what the model computes: a tuned module gives what the model gives there."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from call_ways import is_quick
from graphtune.cache import BuildCache
from torch import nn
from torch.nn.modules import module as torch_module
from torch.overrides import TorchFunctionMode

import graphtune


class Model(nn.Module):
    """Makes a tensor of its own, of torch's default dtype and on its default device."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.linear.weight) + self.linear(x) * torch.full((3,), 2.0)


@pytest.fixture(scope="module")
def bundle(build_cache: BuildCache, tmp_path_factory: pytest.TempPathFactory) -> Path:
    module = graphtune.Module(Model().eval())
    with torch.no_grad():
        for batch in (1, 2, 4):
            with graphtune.batch_size(batch):
                module(torch.rand(batch, 4))
    module.tune(backends=("torchscript",), force="torchscript", measure_seconds=0, progress=False, cache=build_cache)
    assert module.graph_specs[0].eager_reason == ""
    return graphtune.save(module, tmp_path_factory.mktemp("surroundings") / "model.bundle")


@pytest.fixture
def tuned(bundle: Path) -> Iterator[graphtune.Module]:
    module = graphtune.load(bundle, Model().eval(), miss_policy="error")
    with torch.no_grad():
        module(torch.rand(2, 4))
        assert is_quick(module, torch.rand(2, 4))
        yield module


def is_served(module: graphtune.Module, x: Any) -> bool:
    before = module.stats()["calls"]
    module(x)
    return bool(module.stats()["calls"] > before)


class Doubling(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is nn.functional.linear else result


class Passing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextmanager
def hook_around_all(register: Any, hook: Any) -> Iterator[None]:
    handle = register(hook)
    try:
        yield
    finally:
        handle.remove()


def doubled_result(module: nn.Module, args: Any, result: torch.Tensor) -> torch.Tensor | None:
    return result * 2 if isinstance(module, nn.Linear) else None


def doubled_input(module: nn.Module, args: tuple[torch.Tensor]) -> tuple[torch.Tensor] | None:
    return (args[0] * 2,) if isinstance(module, nn.Linear) else None


SURROUNDINGS = {
    "a function mode": Doubling,
    "a function mode that changes nothing": Passing,
    "a function mode over a default device": lambda: _both(torch.device("cpu"), Doubling()),
    "a hook after all modules": lambda: hook_around_all(torch_module.register_module_forward_hook, doubled_result),
    "a hook before all modules": lambda: hook_around_all(torch_module.register_module_forward_pre_hook, doubled_input),
}


@contextmanager
def _both(outer: Any, inner: Any) -> Iterator[None]:
    with outer, inner:
        yield


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_the_model_runs_where_it_computes_otherwise(tuned: graphtune.Module, name: str) -> None:
    x = torch.rand(2, 4)
    plain = tuned.wrapped(x)
    with SURROUNDINGS[name]():
        expected = tuned.wrapped(x)
        torch.testing.assert_close(tuned(x), expected)
        assert not is_served(tuned, x)
    assert torch.equal(expected, plain) == ("changes nothing" in name)
    assert is_quick(tuned, x)
    torch.testing.assert_close(tuned(x), plain)


def test_the_call_of_all_modules_may_be_replaced(tuned: graphtune.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    original = nn.Module.__call__

    def doubling(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        return result * 2 if isinstance(self, nn.Linear) else result

    x = torch.rand(2, 4)
    with monkeypatch.context() as patch:
        patch.setattr(nn.Module, "__call__", doubling)
        torch.testing.assert_close(tuned(x), tuned.wrapped(x))
        assert not is_served(tuned, x)
    assert is_served(tuned, x) and is_quick(tuned, x)


def test_the_default_device_that_it_was_tuned_with_is_no_change(tuned: graphtune.Module) -> None:
    x = torch.rand(2, 4)
    with torch.device("cpu"):
        assert is_served(tuned, x)


def test_other_defaults_are_a_change(tuned: graphtune.Module) -> None:
    x = torch.rand(2, 4)
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(graphtune.MissError, match="torch's default dtype or device"):
            tuned(x)
        tuned.miss_policy = "eager"
        assert tuned(x).dtype == tuned.wrapped(x).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert is_served(tuned, x)
    with torch.device("meta"):
        for call in (tuned, tuned.wrapped):
            with pytest.raises(RuntimeError):
                call(x)
    assert is_quick(tuned, x)


def test_what_was_loaded_under_a_default_device_serves_without_it_if_it_is_the_same(bundle: Path) -> None:
    x = torch.rand(2, 4)
    with torch.no_grad():
        with torch.device("cpu"):
            module = graphtune.load(bundle, Model().eval(), miss_policy="error")
            assert is_served(module, x)
        assert is_served(module, x) and is_quick(module, x)


class Plain(torch.Tensor):
    pass


class Scaling(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result * 2 if func is nn.functional.linear else result


@pytest.mark.parametrize("kind", [Plain, Scaling])
def test_tensors_of_a_type_of_ones_own_are_left_to_the_model(tuned: graphtune.Module, kind: type) -> None:
    x = torch.rand(2, 4).as_subclass(kind)
    expected = tuned.wrapped(x)
    with pytest.raises(graphtune.MissError):
        tuned(x)
    tuned.miss_policy = "eager"
    actual = tuned(x)
    assert type(actual) is type(expected) is kind
    assert torch.equal(actual.as_subclass(torch.Tensor), expected.as_subclass(torch.Tensor))


@pytest.mark.parametrize("kind", [Plain, Scaling])
def test_recorded_ones_are_served_eagerly(kind: type) -> None:
    model = Model().eval()
    module = graphtune.Module(model)
    x = torch.rand(2, 4).as_subclass(kind)
    with torch.no_grad():
        for _ in range(2):
            with graphtune.batch_size(2):
                assert type(module(x)) is kind
        (spec,) = module.graph_specs
        assert kind.__name__ in spec.eager_reason or "opaque" in spec.eager_reason
        result = module.tune(backends=("torchscript",), measure_seconds=0, progress=False)
        assert result.graphs[module.name][0].chosen is None
        module.miss_policy = "eager"
        assert torch.equal(module(x).as_subclass(torch.Tensor), model(x).as_subclass(torch.Tensor))


def test_parameters_and_buffers_are_plain_tensors(tuned: graphtune.Module) -> None:
    x = torch.rand(2, 4)
    for kind in (nn.Parameter(x, requires_grad=False), nn.Buffer(x)):
        assert is_served(tuned, kind)
        assert is_quick(tuned, kind)


def test_the_users_classes_are_made_once_and_called_in_their_order() -> None:
    made = []

    class Tagged(graphtune.Module):
        def __init_subclass__(cls, *, tag: str, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            made.append(cls.__name__)
            cls.tag = tag

        tag: str

    class Named(Tagged, tag="x"):
        pass

    class Adding(nn.Module):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(*args, **kwargs) + 100

    class Mixed(graphtune.Module, Adding):
        pass

    model = nn.Linear(2, 2)
    x = torch.ones(1, 2)
    named, mixed = Named(model), Mixed(model)
    assert made == ["Named"] and named.tag == "x" and type(named).__mro__.index(Named) > 0
    assert torch.equal(named(x), model(x))
    assert torch.equal(mixed(x), model(x) + 100)
    assert torch.equal(mixed(x), mixed.__call__(x))


def test_classes_are_not_kept_when_their_modules_are_gone() -> None:
    def wrap_a_local_class() -> weakref.ref[type]:
        class Local(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x

        first, second = graphtune.Module(Local()), graphtune.Module(Local())
        assert type(first) is type(second)
        return weakref.ref(Local)

    known = wrap_a_local_class()
    for _ in range(2):  # the wrapped class is freed with the wrapper's
        gc.collect()
    assert known() is None


def test_modules_that_are_not_made_yet_say_so() -> None:
    class Unready(nn.Module):
        def __init__(self) -> None:
            pass

    with pytest.raises(graphtune.GraphtuneTypeError, match=r"super\(\).__init__\(\) in the __init__ of Unready"):
        graphtune.Module(Unready())
    empty = graphtune.Module.__new__(graphtune.Module, nn.Linear(2, 2))
    assert not hasattr(empty, "weight")
    with pytest.raises(graphtune.GraphtuneTypeError, match="wrap the parallel one"):
        graphtune.Module(nn.Linear(2, 2))._replicate_for_data_parallel()
