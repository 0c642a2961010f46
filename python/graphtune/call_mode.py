"""What wrapped modules do with calls in the current context: serve them, record them for ``tune``, or step aside."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .module import Module

__all__ = ["INACTIVE", "call_mode", "call_mode_variable", "inactive", "recording_session"]


class Inactive:
    """The mode in which every wrapper runs the model that it wraps, and nothing else."""


INACTIVE: Final = Inactive()

# A list: the modules called since tune() began, in order, which is how it finds those that a function calls.
call_mode_variable: contextvars.ContextVar[list[Module] | Inactive | None] = contextvars.ContextVar(
    "graphtune_mode", default=None
)


def call_mode() -> list[Module] | Inactive | None:
    """None: calls are served, or recorded where nothing was tuned."""
    return call_mode_variable.get()


@contextlib.contextmanager
def recording_session() -> Iterator[list[Module]]:
    """Within, every call of a wrapped module is recorded and run on the model, whether it was tuned or not.

    Gives the list of the modules that were called, which grows meanwhile.
    """
    modules: list[Module] = []
    token = call_mode_variable.set(modules)
    try:
        yield modules
    finally:
        call_mode_variable.reset(token)


@contextlib.contextmanager
def inactive() -> Iterator[None]:
    """Within, wrapped modules neither serve nor record: what is exported, compared and measured of one module must
    not hold the engine of another, and calls made up for one are no samples of another.

    It holds for the current context (contextvars): not for other threads.
    """
    token = call_mode_variable.set(INACTIVE)
    try:
        yield
    finally:
        call_mode_variable.reset(token)
