"""Settings, the batch size of the context, and the exceptions."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import threading
from typing import Any

import pytest
from graphtune.config import Config

import graphtune
from graphtune import config


def test_defaults() -> None:
    assert repr(Config()) == (
        "Config(strict_mode=True, max_num_samples_stored=16, min_num_samples=1, max_graphs=64, miss_policy='eager')"
    )


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("strict_mode", 1, TypeError),
        ("strict_mode", "yes", TypeError),
        ("max_num_samples_stored", True, TypeError),
        ("max_num_samples_stored", 1.0, TypeError),
        ("max_num_samples_stored", -1, ValueError),
        ("max_num_samples_stored", 2**40, ValueError),
        ("min_num_samples", 0, ValueError),
        ("max_graphs", 0, ValueError),
        ("miss_policy", "ignore", ValueError),
        ("miss_policy", None, TypeError),
    ],
)
def test_wrong_values_are_refused(name: str, value: Any, error: type[Exception]) -> None:
    before = getattr(config, name)
    with pytest.raises(error, match=f"config.{name}") as caught:
        setattr(config, name, value)
    assert isinstance(caught.value, graphtune.Error)
    assert getattr(config, name) == before


def test_wrong_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="strict_mode"):
        config.strict = True  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        config.strict  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="can't be deleted"):
        del config.strict_mode


def test_override() -> None:
    with config.override(strict_mode=False, max_graphs=2) as inner:
        assert inner is config
        assert (config.strict_mode, config.max_graphs) == (False, 2)
        with config.override(max_graphs=3):
            assert config.max_graphs == 3
        assert config.max_graphs == 2
    assert (config.strict_mode, config.max_graphs) == (True, 64)
    with pytest.raises(RuntimeError), config.override(max_graphs=2):
        raise RuntimeError
    assert config.max_graphs == 64


def test_an_override_that_is_refused_changes_nothing() -> None:
    with pytest.raises(TypeError), config.override(max_graphs=2, strict_mode="no"):
        pass
    with pytest.raises(AttributeError), config.override(max_graphs=2, other=1):
        pass
    assert config.max_graphs == 64


# Batch sizes


def test_batch_sizes_nest() -> None:
    assert graphtune.current_batch_size() is None
    with graphtune.batch_size(2):
        assert graphtune.current_batch_size() == 2
        with graphtune.batch_size(3):
            assert graphtune.current_batch_size() == 3
        with graphtune.batch_size(None):
            assert graphtune.current_batch_size() is None
        assert graphtune.current_batch_size() == 2
    assert graphtune.current_batch_size() is None


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (True, TypeError), (2.0, TypeError), ("2", TypeError)])
def test_bad_batch_sizes(size: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="size"), graphtune.batch_size(size):
        pass
    assert graphtune.current_batch_size() is None


def test_threads_have_their_own() -> None:
    seen: dict[int, Any] = {}
    barrier = threading.Barrier(4)

    def work(size: int) -> None:
        before = graphtune.current_batch_size()
        with graphtune.batch_size(size):
            barrier.wait()
            seen[size] = (before, graphtune.current_batch_size())

    with graphtune.batch_size(9):
        threads = [threading.Thread(target=work, args=(size,)) for size in (1, 2, 3, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen == {size: (None, size) for size in (1, 2, 3, 4)}


def test_tasks_have_their_own() -> None:
    async def work(size: int) -> int | None:
        with graphtune.batch_size(size):
            await asyncio.sleep(0.01)
            return graphtune.current_batch_size()

    async def main() -> list[int | None]:
        return await asyncio.gather(*(work(size) for size in (1, 2, 3)))

    assert asyncio.run(main()) == [1, 2, 3]


# Exceptions


def test_classes_of_exceptions() -> None:
    assert issubclass(graphtune.GraphtuneValueError, ValueError)
    assert issubclass(graphtune.GraphtuneTypeError, TypeError)
    for cls in ("GraphtuneValueError", "GraphtuneTypeError", "MissError", "BundleError", "EngineError"):
        error = getattr(graphtune, cls)("why")
        assert isinstance(error, graphtune.Error)
        assert (type(error).__module__, type(error).__qualname__) == ("graphtune", cls)
        assert repr(pickle.loads(pickle.dumps(error))) == repr(error)


def test_importing_is_cheap() -> None:
    """Nothing heavy comes along with the package."""
    code = (
        "import sys, torch, time; before = set(sys.modules); start = time.perf_counter(); import graphtune;"
        "print(time.perf_counter() - start); print(*sorted(set(sys.modules) - before))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    seconds, modules = output.splitlines()
    heavy = {"openvino", "transformers", "torch._dynamo", "torch._inductor", "torch.export", "onnx", "pandas", "rich"}
    assert not heavy & set(modules.split())
    assert float(seconds) < 1.0  # 0.1 s on a machine that has nothing else to do
