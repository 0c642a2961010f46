"""Messages to the user: which of their lines a warning points at, and how texts are put together."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import warnings
from pathlib import Path
from types import FrameType

import torch

__all__ = ["sentence", "shorten", "warn_user"]

# What stands between the user's line and a warning: hooks and wrappers add frames, so that a fixed stacklevel is wrong.
_PASSED_OVER = (
    f"{Path(__file__).parent}{os.sep}",
    f"{Path(torch.__file__).parent}{os.sep}",
    copy.__file__,
    pickle.__file__,
)
_MAX_SHOWN = 200


def warn_user(message: str) -> None:
    """A ``RuntimeWarning`` at the innermost line that is neither graphtune's nor torch's."""
    frame: FrameType | None = sys._getframe(1)
    outermost = frame
    while frame is not None and frame.f_code.co_filename.startswith(_PASSED_OVER):
        outermost, frame = frame, frame.f_back
    frame = frame or outermost
    assert frame is not None
    warnings.warn_explicit(
        f"graphtune: {message}",
        RuntimeWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__") or "<unknown>",
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def sentence(text: str) -> str:
    """The text with one full stop at its end."""
    text = text.rstrip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def shorten(text: str) -> str:
    """The text as it is up to 200 characters, else its beginning and its end."""
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN * 3 // 4]}…{text[-_MAX_SHOWN // 4 :]}"
