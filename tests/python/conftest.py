"""What all Python tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import torch
from graphtune.cache import BuildCache
from hypothesis import settings

import graphtune

# Machines that run tests may be slow, and the first example of a test may import or compile.
settings.register_profile("graphtune", deadline=None)
settings.load_profile("graphtune")

# A shell has the programs that it starts in the background ignore Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is not None and not torch.cuda.is_available():
        pytest.skip("no CUDA device")


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _unchanged_config() -> Iterator[None]:
    """Settings that a test changes hold for that test only."""
    with graphtune.config.override():
        yield


@pytest.fixture(scope="session")
def build_cache(tmp_path_factory: pytest.TempPathFactory) -> BuildCache:
    """One for all tests: equal models are built once."""
    return BuildCache(tmp_path_factory.mktemp("cache"))
