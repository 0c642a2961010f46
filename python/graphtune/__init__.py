"""graphtune finds the execution graphs of a PyTorch model and runs each on its fastest engine."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

import torch as _torch  # noqa: F401  # first: the extension is linked with torch's libraries

from graphtune._core import GraphSpec, InfoLevel, Locator, SampleMetadata, TensorSpec
from graphtune.batch_size import batch_size, current_batch_size
from graphtune.config import config
from graphtune.errors import (
    BundleError,
    EngineError,
    Error,
    GraphtuneTypeError,
    GraphtuneValueError,
    MissError,
    TuneError,
)
from graphtune.recording import RecordingModule
from graphtune.types import register_type

if _TYPE_CHECKING:
    from graphtune._core import list_backends
    from graphtune.bundles import LoadedModule, load, save
    from graphtune.contracts import Batch, Dynamic
    from graphtune.engine_configs import (
        AotiConfig,
        EngineConfig,
        InductorConfig,
        OnnxRuntimeConfig,
        OpenVINOConfig,
        TorchScriptConfig,
    )
    from graphtune.inspection import inspect
    from graphtune.inspection_result import Inspection
    from graphtune.module import Module
    from graphtune.python_engines import register_engine
    from graphtune.result import TuneResult
    from graphtune.strategies import FirstWins, LatencyBudget, MaxThroughput, MinLatency, OneBackend, Strategy
    from graphtune.tune_options import TuneOptions
    from graphtune.tuner import tune
    from graphtune.wrapping import unwrap, wrap

# Imported when they are first used: worker processes, and programs that only look at metadata, start without them.
_LAZY = {
    "AotiConfig": "engine_configs",
    "Batch": "contracts",
    "Dynamic": "contracts",
    "EngineConfig": "engine_configs",
    "FirstWins": "strategies",
    "InductorConfig": "engine_configs",
    "Inspection": "inspection_result",
    "LatencyBudget": "strategies",
    "LoadedModule": "bundles",
    "MaxThroughput": "strategies",
    "MinLatency": "strategies",
    "Module": "module",
    "OneBackend": "strategies",
    "OnnxRuntimeConfig": "engine_configs",
    "OpenVINOConfig": "engine_configs",
    "Strategy": "strategies",
    "TorchScriptConfig": "engine_configs",
    "TuneOptions": "tune_options",
    "TuneResult": "result",
    "inspect": "inspection",
    "list_backends": "_core",
    "load": "bundles",
    "register_engine": "python_engines",
    "save": "bundles",
    "tune": "tuner",
    "unwrap": "wrapping",
    "wrap": "wrapping",
}


def __getattr__(name: str) -> _Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'graphtune' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"graphtune.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = [
    "AotiConfig",
    "Batch",
    "BundleError",
    "Dynamic",
    "EngineConfig",
    "EngineError",
    "Error",
    "FirstWins",
    "GraphSpec",
    "GraphtuneTypeError",
    "GraphtuneValueError",
    "InductorConfig",
    "InfoLevel",
    "Inspection",
    "LatencyBudget",
    "LoadedModule",
    "Locator",
    "MaxThroughput",
    "MinLatency",
    "MissError",
    "Module",
    "OneBackend",
    "OnnxRuntimeConfig",
    "OpenVINOConfig",
    "RecordingModule",
    "SampleMetadata",
    "Strategy",
    "TensorSpec",
    "TorchScriptConfig",
    "TuneError",
    "TuneOptions",
    "TuneResult",
    "batch_size",
    "config",
    "current_batch_size",
    "inspect",
    "list_backends",
    "load",
    "register_engine",
    "register_type",
    "save",
    "tune",
    "unwrap",
    "wrap",
]
