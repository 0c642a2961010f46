"""The recorded calls of one graph, as the tuner needs them: flat tensors in canonical order, sizes in symbols."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from . import _core
from .argument_changes import ArgumentChanges, find_changes
from .engine_worker import read_case, to_devices
from .export_checks import StateWatch
from .flat_module import FlatModule
from .probing import Point, Ranges
from .size_expressions import evaluate, holds_at
from .validation import Case, Verify

__all__ = ["Extent", "GraphCalls", "Sample", "run_without_gradients"]


@dataclasses.dataclass(frozen=True)
class Sample:
    """A recorded call and its result."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Any
    batch_size: int | None


@dataclasses.dataclass(frozen=True)
class Extent:
    """What a graph is tuned for: the size of each axis of each tensor in symbols, their ranges, and conditions."""

    sizes: Sequence[Sequence[int | str]]
    ranges: Ranges
    conditions: Sequence[str]

    def covers(self, values: Mapping[str, int], tensors: Sequence[torch.Tensor]) -> bool:
        """Tensors of these sizes are tuned for: the exporter may have limited, fixed or joined some."""
        return self.holds(values) and all(
            have == evaluate(size, values)
            for tensor, shape in zip(tensors, self.sizes, strict=True)
            for have, size in zip(tensor.shape, shape, strict=True)
        )

    def holds(self, values: Mapping[str, int]) -> bool:
        """The values lie in the ranges, and the conditions hold."""
        return holds_at(values, self.ranges, self.conditions)


class GraphCalls:
    """The samples and the traffic of one graph of a model.

    ``signature`` is the one by which the calls were normalised; ``traffic`` has the sizes of all recorded calls (of all
    axes, in canonical order) and how often they came; ``change`` is what its calls do to their arguments
    (``CallRecorder.change``).
    """

    def __init__(
        self,
        model: torch.nn.Module,
        signature: Any,
        spec: Any,
        samples: Sequence[Sample],
        traffic: Sequence[tuple[Sequence[int], int]],
        change: tuple[int, str, str] | None = None,
    ) -> None:
        self.model = model
        self.signature = signature
        self.spec = spec
        self.samples = samples
        self._traffic = traffic
        self._change = change

    @functools.cached_property
    def exported_sample(self) -> Sample:
        """The call whose structure and constants the exported program has: the largest."""
        return max(self.samples, key=lambda sample: sum(tensor.numel() for tensor in self.tensors(sample)))

    def tensors(self, sample: Sample) -> list[torch.Tensor]:
        return list(_core.call_tensors(sample.args, sample.kwargs, self.signature))

    @functools.cached_property
    def changes(self) -> ArgumentChanges | None:
        """What the model does to containers among the arguments; None when there are none. Raises ``ChangeError``."""
        tensors = [tensor.clone() for tensor in self.tensors(self.exported_sample)]
        watch = StateWatch(self._flat_result())
        try:
            return find_changes(self.model, self.signature, *self._with_tensors(tensors), self._change)
        finally:
            watch.restore()

    def flat_module(self) -> FlatModule:
        """The model as a function of flat tensors; of changed arguments it gives the new tensors too."""
        return self._flat_result(None if self.changes is None else self.changes.begin)

    def _flat_result(self, begin: Callable[[Any, Any], Callable[[], list[torch.Tensor]]] | None = None) -> FlatModule:
        return FlatModule(self.model, self._with_tensors, lambda result: list(_core.result_tensors(result)), begin)

    def output_names(self) -> list[str]:
        """How messages call what an engine gives."""
        return [*_core.output_names(self.spec), *(self.changes.extra_names if self.changes else ())]

    @functools.cached_property
    def devices(self) -> list[str]:
        """Of each input."""
        return [str(tensor.device) for tensor in self.tensors(self.exported_sample)]

    def eager_call(self, case: Case) -> Callable[[], object]:
        """A call of the model itself, of the case's sizes, that is done when it returns."""
        tensors = to_devices(read_case(case.path)[0], self.devices)
        once = self._with_tensors(tensors)
        # What the last call changed (a cache that has grown) is no part of the case.
        anew = self.changes is not None and self.changes.changes_something
        on_cuda = any(device.startswith("cuda") for device in self.devices)

        def call() -> None:
            args, kwargs = self._with_tensors(tensors) if anew else once
            self.model(*args, **kwargs)
            if on_cuda:
                torch.cuda.synchronize()

        return call

    def recorded_points(self, extent: Extent) -> list[tuple[Point, list[torch.Tensor]]]:
        """The samples that lie in the (perhaps narrowed) extent, with their symbols' values."""
        found = []
        for sample in self.samples:
            values = self._symbols(sample)
            if values is None:
                continue
            kept = {name: value for name, value in values.items() if name in extent.ranges}
            tensors = self.tensors(sample)
            if extent.covers(kept, tensors):
                found.append((Point.of(kept), tensors))
        return found

    def recorded_calls(self, extent: Extent) -> list[tuple[dict[str, int], int]]:
        """The symbols' values of all recorded calls that lie in the extent, and how often they came."""
        places = [size for shape in extent.sizes for size in shape]
        found = []
        for sizes, count in self._traffic:
            values = {size: have for size, have in zip(places, sizes, strict=True) if isinstance(size, str)}
            values = {name: value for name, value in values.items() if name in extent.ranges}
            if len(values) == len(extent.ranges) and extent.holds(values):
                found.append((values, count))
        return found

    def usual_value(self, symbol: str, default: int) -> int:
        """The most frequent value of a symbol among the samples."""
        found = [values[symbol] for sample in self.samples if symbol in (values := self._symbols(sample) or {})]
        return Counter(found).most_common(1)[0][0] if found else default

    def flat_verify(self, verify: Callable[[Any, Any], bool | None] | None) -> Verify | None:
        """A user's judgement of results, as one of flat outputs."""
        if verify is None:
            return None
        outputs = self.samples[0].outputs
        count = len(_core.result_tensors(outputs))  # others are of changed arguments

        def judge(expected: list[torch.Tensor], actual: list[torch.Tensor]) -> str:
            trees = [_core.result_with_tensors(outputs, tensors[:count]) for tensors in (expected, actual)]
            try:
                verdict = verify(*trees)
            except AssertionError as error:
                return f"verify: {' '.join(str(error).split()) or 'an assertion failed'}"
            return "" if verdict is None or verdict is True else "verify refused the values"

        return judge

    def template(self) -> Any:
        """A result with empty tensors, from which results are rebuilt."""
        outputs = self.samples[0].outputs
        placeholders = [torch.empty(0, dtype=tensor.dtype) for tensor in _core.result_tensors(outputs)]
        return _core.result_with_tensors(outputs, placeholders)

    def _with_tensors(self, tensors: list[torch.Tensor]) -> tuple[Any, Any]:
        sample = self.exported_sample
        return _core.call_with_tensors(sample.args, sample.kwargs, tensors, self.signature)

    def _symbols(self, sample: Sample) -> dict[str, int] | None:
        return _core.symbols_of_call(self.spec, sample.args, sample.kwargs, self.signature)


def run_without_gradients(flat: FlatModule) -> Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]:
    def run(tensors: list[torch.Tensor]) -> Sequence[torch.Tensor]:
        with torch.no_grad():
            return flat(*tensors)

    return run
