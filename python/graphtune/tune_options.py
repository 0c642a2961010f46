"""How to tune."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .cache import BuildCache
from .contracts import UserContract, check_contract
from .engine_configs import EngineConfig, candidate_configs
from .errors import GraphtuneTypeError, GraphtuneValueError
from .strategies import MaxThroughput, Strategy

__all__ = ["TuneOptions"]


@dataclasses.dataclass(frozen=True)
class TuneOptions:
    """How to tune; the defaults are meant to be left alone.

    ``backends``, names and configs (``OpenVINOConfig(threads=1)``), are tried in this order, and of two that are
    equally fast the first is taken; ``builds_at_once`` are built side by side. ``measure_seconds`` is the budget of one
    graph.

    ``tolerances`` maps dtype names ("float32") to (relative, absolute) and replaces the defaults. ``verify`` is called
    with eager's result and an engine's, and judges the values instead: True or None accepts, False or an
    ``AssertionError`` refuses the engine.

    ``strategy`` chooses among the engines that are right. ``gate`` is how much faster than eager an engine has to be;
    None takes eager out of the choice. ``force`` names a candidate (or the backend of the only one) that is taken
    whenever its values are right, however fast it is.

    ``threads`` is given to the engines whose config says nothing else, 0 lets each decide. ``batch_sizes`` are measured
    where they lie in the learned range; without them, recorded ones. ``contract`` widens the ranges that were recorded:
    {"input_ids": {0: Batch(1, 32), 1: Dynamic("length", 1, 512)}}; what was widened is validated at its ends.
    """

    backends: tuple[str | EngineConfig, ...] = ("openvino", "onnxruntime", "aoti")
    measure_seconds: float = 60.0
    build_seconds: float = 900.0
    build_memory_share: float = 0.8
    builds_at_once: int = 2
    tolerances: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    verify: Callable[[Any, Any], bool | None] | None = None
    strategy: Strategy = dataclasses.field(default_factory=MaxThroughput)
    gate: float | None = 1.01
    force: str | None = None
    threads: int = 0
    batch_sizes: tuple[int, ...] = ()
    contract: UserContract = dataclasses.field(default_factory=dict)
    cache: BuildCache | None = None
    report: Callable[[str], None] = lambda text: None

    def __post_init__(self) -> None:
        for name, lowest in (("measure_seconds", 0), ("build_seconds", 0), ("builds_at_once", 1), ("threads", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise GraphtuneTypeError(f"{name}: {value!r} is no number")
            if not lowest <= value < float("inf"):
                raise GraphtuneValueError(f"{name}: {value!r} is less than {lowest}, or not finite")
        if self.gate is not None and (isinstance(self.gate, bool) or not isinstance(self.gate, (int, float))):
            raise GraphtuneTypeError(f"gate: {self.gate!r} is neither a number nor None")
        if self.gate is not None and not 1 <= self.gate < float("inf"):
            raise GraphtuneValueError(
                f"gate: {self.gate!r} is below 1, or not finite; None takes eager out of the choice"
            )
        if not isinstance(self.strategy, Strategy):
            raise GraphtuneTypeError(f"strategy: a graphtune.Strategy is needed, not {self.strategy!r}")
        if self.verify is not None and not callable(self.verify):
            raise GraphtuneTypeError(f"verify: a function of two results is needed, not {self.verify!r}")
        check_contract(self.contract)
        named = [config.name for config in self.configs if self.force == config.backend]
        if self.force not in [config.name for config in self.configs] and named:
            if len(named) > 1:
                raise GraphtuneValueError(f"force: {self.force!r} is any of {', '.join(named)}: name one")
            object.__setattr__(self, "force", named[0])

    @property
    def configs(self) -> tuple[EngineConfig, ...]:
        """``backends``, each as a config."""
        return candidate_configs(self.backends)

    def only(self, names: Sequence[str]) -> TuneOptions:
        """The same with these candidates alone. Raises GraphtuneValueError for one that is not among them."""
        configs = {config.name: config for config in self.configs}
        for name in names:
            if name not in configs:
                raise GraphtuneValueError(f"strategy: candidate {name!r} is none of {', '.join(configs)}")
        return dataclasses.replace(self, backends=tuple(configs[name] for name in names), force=None)

    def named(self, name: str) -> TuneOptions:
        """The same, with the name of what is tuned in front of each report."""
        return dataclasses.replace(self, report=lambda text: self.report(f"{name}: {text}"))
