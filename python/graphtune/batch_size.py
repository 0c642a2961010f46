"""The batch size of the calls that are being made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from graphtune import _core
from graphtune._core import current_batch_size

__all__ = ["batch_size", "current_batch_size"]


@contextmanager
def batch_size(size: int | None) -> Iterator[None]:
    """Calls recorded within are samples of this batch size; None: of an unknown one.

        with graphtune.batch_size(4):
            module(x)

    The value belongs to the current context (contextvars): other threads and tasks do not see it.
    """
    value = None if size is None else _core.check_batch_size(size, "size")
    token = _core.batch_size_variable.set(value)
    try:
        yield
    finally:
        _core.batch_size_variable.reset(token)
