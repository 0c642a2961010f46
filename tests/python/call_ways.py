"""Which way a call of a wrapped module takes: straight through the core, or through functions of Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import graphtune

__all__ = ["is_quick", "python_frames"]

_PACKAGE = str(Path(graphtune.__file__).parent)


def python_frames(call: Callable[[], object]) -> list[tuple[str, str]]:
    """File and name of the functions of Python that ran, but for the call's own lambda."""
    ran: list[tuple[str, str]] = []

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code is not call.__code__:  # type: ignore[attr-defined]
            ran.append((frame.f_code.co_filename, frame.f_code.co_name))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return ran


def is_quick(module: graphtune.Module, *args: Any, **kwargs: Any) -> bool:
    """Whether no function of the package runs in a call. What becomes of the call is another question."""
    raised: list[Exception] = []

    def call() -> None:
        try:
            module(*args, **kwargs)
        except Exception as error:
            raised.append(error)

    return not any(file.startswith(_PACKAGE) for file, _ in python_frames(call))
