"""Settings of the process: ``graphtune.config``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from graphtune.errors import GraphtuneTypeError, GraphtuneValueError

__all__ = ["Config", "config"]


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise GraphtuneTypeError(f"config.{name} must be True or False, not {value!r}")
    return value


def _count(low: int) -> Callable[[str, object], int]:
    def check(name: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise GraphtuneTypeError(f"config.{name} must be an int, not {type(value).__name__}")
        if not low <= value < 2**32:
            raise GraphtuneValueError(f"config.{name} must be at least {low} and below 2**32, not {value}")
        return value

    return check


def _one_of(*choices: str) -> Callable[[str, object], str]:
    def check(name: str, value: object) -> str:
        if not isinstance(value, str):
            raise GraphtuneTypeError(f"config.{name} must be a str, not {type(value).__name__}")
        if value not in choices:
            raise GraphtuneValueError(f"config.{name} must be one of {', '.join(choices)}, not {value!r}")
        return value

    return check


_CHECKS: dict[str, Callable[[str, object], Any]] = {
    "strict_mode": _flag,
    "max_num_samples_stored": _count(0),
    "min_num_samples": _count(1),
    "max_graphs": _count(1),
    "miss_policy": _one_of("eager", "error", "record"),
}


class Config:
    """Settings that hold for modules wrapped from then on. A wrong name, type or value is refused.

    strict_mode             constants (flags, strings, numbers) are part of a graph's identity
    max_num_samples_stored  samples of different shapes whose tensors are kept for each graph
    min_num_samples         a graph with fewer recorded samples is not tuned
    max_graphs              execution graphs that one module may have
    miss_policy             what a call does that no engine serves: "eager", "error" or "record"
    """

    __slots__ = tuple(_CHECKS)

    strict_mode: bool
    max_num_samples_stored: int
    min_num_samples: int
    max_graphs: int
    miss_policy: str

    def __init__(self) -> None:
        self.strict_mode = True
        self.max_num_samples_stored = 16
        self.min_num_samples = 1
        self.max_graphs = 64
        self.miss_policy = "eager"

    def __setattr__(self, name: str, value: object) -> None:
        check = _CHECKS.get(name)
        if check is None:
            raise AttributeError(f"graphtune.config has no setting {name!r}; there are {', '.join(_CHECKS)}")
        object.__setattr__(self, name, check(name, value))

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"config.{name} can't be deleted")

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={getattr(self, name)!r}' for name in _CHECKS)})"

    @contextmanager
    def override(self, **settings: Any) -> Iterator[Config]:
        """Other settings for the time of a ``with`` block, for all threads. None is changed if one is refused."""
        before = {name: getattr(self, name) for name in _CHECKS}
        try:
            for name, value in settings.items():
                setattr(self, name, value)
            yield self
        finally:
            for name in settings.keys() & before.keys():
                setattr(self, name, before[name])


config = Config()
