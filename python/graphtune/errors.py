"""What graphtune raises. All are ``Error``; those for bad arguments are also the builtin that one expects."""

from graphtune._core import (
    BundleError,
    EngineError,
    Error,
    GraphtuneTypeError,
    GraphtuneValueError,
    MissError,
)

__all__ = [
    "BundleError",
    "EngineError",
    "Error",
    "GraphtuneTypeError",
    "GraphtuneValueError",
    "MissError",
    "TuneError",
]


class TuneError(Error):
    """What was asked for can't be built, or gives wrong values."""
