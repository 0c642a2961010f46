"""Versions of graphtune and of the libraries that its engines depend on."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

__all__ = ["library_versions"]

_LIBRARIES = ("torch", "openvino", "onnx", "onnxscript", "onnxruntime")


@lru_cache(maxsize=1)
def library_versions() -> dict[str, str]:
    """Library -> version, of those that are installed."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
