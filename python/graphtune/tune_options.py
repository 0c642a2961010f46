"""How to tune."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from .cache import BuildCache
from .contracts import UserContract, check_contract
from .errors import GraphtuneTypeError, GraphtuneValueError

__all__ = ["TuneOptions"]


@dataclasses.dataclass(frozen=True)
class TuneOptions:
    """How to tune; the defaults are meant to be left alone.

    ``backends`` are tried in this order, and of two that are equally fast the first is taken; ``builds_at_once`` are
    built side by side. ``measure_seconds`` is the budget of one graph. ``tolerances`` maps dtype names ("float32") to
    (relative, absolute) and replaces the defaults. ``gate`` is how much faster than eager an engine has to be;
    ``force`` names a backend that is taken whenever its values are right, however fast it is. ``threads`` is given to
    the engines, 0 lets each decide. ``batch_sizes`` are measured where they lie in the learned range; without them,
    recorded ones. ``contract`` widens the ranges that were recorded: {"input_ids": {0: Batch(1, 32),
    1: Dynamic("length", 1, 512)}}; what was widened is validated at its ends.
    """

    backends: tuple[str, ...] = ("openvino", "onnxruntime", "aoti")
    measure_seconds: float = 40.0
    build_seconds: float = 900.0
    build_memory_share: float = 0.8
    builds_at_once: int = 2
    tolerances: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    gate: float = 1.01
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

        check_contract(self.contract)

    def named(self, name: str) -> TuneOptions:
        """The same, with the name of what is tuned in front of each report."""
        return dataclasses.replace(self, report=lambda text: self.report(f"{name}: {text}"))
