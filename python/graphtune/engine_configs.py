"""How an engine is to be built and run, one class a backend; ``TuneOptions.backends`` takes names and these, mixed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from .errors import GraphtuneTypeError, GraphtuneValueError

__all__ = [
    "AotiConfig",
    "EngineConfig",
    "InductorConfig",
    "OnnxRuntimeConfig",
    "OpenVINOConfig",
    "TorchScriptConfig",
    "candidate_configs",
    "check_threads",
]

_MAX_THREADS = 1 << 16


def check_threads(where: str, threads: Any) -> None:
    """Raises ``GraphtuneTypeError`` and ``GraphtuneValueError`` for what is no number of threads."""
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise GraphtuneTypeError(f"{where}: {threads!r} is no int")
    if not 0 <= threads <= _MAX_THREADS:
        raise GraphtuneValueError(f"{where}: {threads} is not in 0..{_MAX_THREADS}")


@dataclasses.dataclass(frozen=True)
class EngineConfig:
    """What all configs have. For an engine of one's own: ``EngineConfig("name", threads=2)``.

    ``threads``: intra-op threads, 0 for ``TuneOptions.threads``. A saved bundle keeps them; ``load(threads=…)`` sets
    others. Raises ``GraphtuneTypeError`` and ``GraphtuneValueError`` for values that can't be.
    """

    backend: str
    _: dataclasses.KW_ONLY
    threads: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.backend, str) or not self.backend:
            raise GraphtuneTypeError(f"backend: the name of a backend is needed, not {self.backend!r}")
        check_threads(self._where("threads"), self.threads)

    @property
    def name(self) -> str:
        """The candidate's name: the backend's, with whatever differs from the defaults: "openvino(threads=1)"."""
        changed = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name not in ("backend", "_") and value != field.default:
                text = "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
                changed.append(f"{field.name}={text}")
        return f"{self.backend}({','.join(changed)})" if changed else self.backend

    def options(self) -> dict[str, Any]:
        """For the builder: ``BuildJob.options``."""
        return {}

    def requirements(self) -> dict[str, str]:
        """Those options that decide whether such an engine can run here at all: for ``_core.backend_info``."""
        return {}

    def _where(self, name: str) -> str:
        return f"{type(self).__name__}.{name}"

    def _check_flags(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise GraphtuneTypeError(f"{self._where(name)}: True or False is needed, not {value!r}")

    def _check_choice(self, name: str, choices: Sequence[str]) -> None:
        value = getattr(self, name)
        if not isinstance(value, str):
            raise GraphtuneTypeError(f"{self._where(name)}: a text is needed, not {value!r}")
        if value not in choices:
            raise GraphtuneValueError(f"{self._where(name)}: {value!r} is none of {', '.join(choices)}")


@dataclasses.dataclass(frozen=True)
class AotiConfig(EngineConfig):
    """AOTInductor. ``freezing`` folds weights into the code; ``max_autotune`` times several kernels while it builds,
    which takes longer. Threads are compiled in."""

    backend: str = dataclasses.field(default="aoti", init=False)
    freezing: bool = True
    max_autotune: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_flags("freezing", "max_autotune")

    def options(self) -> dict[str, Any]:
        return {"freezing": self.freezing, "max_autotune": self.max_autotune}


@dataclasses.dataclass(frozen=True)
class OpenVINOConfig(EngineConfig):
    """OpenVINO. ``precision`` is what it computes in: "f32", or "bf16" or "f16" where the processor has units for it;
    then it is up to the tolerance whether the values are right."""

    backend: str = dataclasses.field(default="openvino", init=False)
    precision: str = "f32"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_choice("precision", ("f32", "bf16", "f16"))

    def options(self) -> dict[str, Any]:
        return {"INFERENCE_PRECISION_HINT": self.precision}


@dataclasses.dataclass(frozen=True)
class OnnxRuntimeConfig(EngineConfig):
    """ONNX Runtime. ``graph_optimization``: "none", "basic", "extended" or "all"; ``providers``: "CPU", "CUDA" and
    "TensorRT" in the order in which each node is offered to them; what none takes runs on the CPU.

    CUDA and TensorRT need the package onnxruntime-gpu and a device. An engine takes and gives CPU tensors all the same.
    """

    PROVIDERS: ClassVar[tuple[str, ...]] = ("CPU", "CUDA", "TensorRT")

    backend: str = dataclasses.field(default="onnxruntime", init=False)
    graph_optimization: str = "all"
    providers: tuple[str, ...] = ("CPU",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_choice("graph_optimization", ("none", "basic", "extended", "all"))
        if not isinstance(self.providers, (tuple, list)):
            raise GraphtuneTypeError(f"{self._where('providers')}: a tuple of names is needed, not {self.providers!r}")
        object.__setattr__(self, "providers", tuple(self.providers))
        wrong = [each for each in self.providers if each not in self.PROVIDERS]
        if wrong or not self.providers or len(set(self.providers)) < len(self.providers):
            raise GraphtuneValueError(
                f"{self._where('providers')}: {self.providers!r} is no choice of {', '.join(self.PROVIDERS)}, each once"
            )

    def options(self) -> dict[str, Any]:
        return {"graph_optimization": self.graph_optimization, **self.requirements()}

    def requirements(self) -> dict[str, str]:
        return {} if self.providers == ("CPU",) else {"providers": ",".join(self.providers)}


@dataclasses.dataclass(frozen=True)
class TorchScriptConfig(EngineConfig):
    """TorchScript. ``freeze`` folds what doesn't depend on the inputs; ``optimize`` lets the interpreter rewrite the
    graph after it has run once."""

    backend: str = dataclasses.field(default="torchscript", init=False)
    freeze: bool = True
    optimize: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_flags("freeze", "optimize")

    def options(self) -> dict[str, Any]:
        return {"freeze": self.freeze, "optimize": self.optimize}


@dataclasses.dataclass(frozen=True)
class InductorConfig(EngineConfig):
    """torch.compile, in Python only; ``mode`` is its own."""

    backend: str = dataclasses.field(default="inductor", init=False)
    mode: str = "default"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_choice("mode", ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"))

    def options(self) -> dict[str, Any]:
        return {"mode": self.mode}


_CLASSES: dict[str, type[Any]] = {
    "aoti": AotiConfig,
    "inductor": InductorConfig,
    "onnxruntime": OnnxRuntimeConfig,
    "openvino": OpenVINOConfig,
    "torchscript": TorchScriptConfig,
}


def candidate_configs(backends: Iterable[str | EngineConfig]) -> tuple[EngineConfig, ...]:
    """A config for each name and config. Raises GraphtuneTypeError for anything else, GraphtuneValueError for two that
    are the same."""
    if isinstance(backends, (str, EngineConfig)):
        raise GraphtuneTypeError(f"backends: a list of names and configs is needed, not {backends!r}")
    configs: list[EngineConfig] = []
    for each in backends:
        if isinstance(each, str):
            config: EngineConfig = _CLASSES[each]() if each in _CLASSES else EngineConfig(each)
        elif isinstance(each, EngineConfig):
            config = each
        else:
            raise GraphtuneTypeError(f"backends: {each!r} is neither a backend's name nor a config")
        if config.name in [other.name for other in configs]:
            raise GraphtuneValueError(f"backends: {config.name} is there twice")
        configs.append(config)
    return tuple(configs)
