"""Runs in a worker process: loads engines, compares them with eager's stored results, and times blocks of calls."""

from __future__ import annotations

import dataclasses
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from . import _core
from .process_group import peak_memory
from .user_messages import shorten

__all__ = ["MIXED", "read_case", "serve", "to_devices", "write_case"]

# The size key of a block whose calls are of all prepared sizes, each about as often as its weight says, in an order
# drawn once. The time of a call is the geometric mean over sizes, by their weights.
MIXED = "*"
_MIXED_CALLS = 2  # of a size, on average


def write_case(path: Path, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
    """Stores one call: its tensors in canonical order and what eager gave."""
    tensors = {f"in{index:05}": tensor for index, tensor in enumerate(inputs)}
    tensors.update({f"out{index:05}": tensor for index, tensor in enumerate(outputs)})
    _core.write_safetensors(path, {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


def read_case(path: Path) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The inputs of a stored call and what eager gave, all on the CPU."""
    tensors = _core.read_safetensors(path)
    names = sorted(tensors)
    inputs = [tensors[name] for name in names if name.startswith("in")]
    return inputs, [tensors[name] for name in names if name.startswith("out")]


def to_devices(tensors: Sequence[torch.Tensor], devices: Sequence[str]) -> list[torch.Tensor]:
    """Each tensor on its device."""
    return [tensor.to(device) for tensor, device in zip(tensors, devices, strict=True)]


@dataclasses.dataclass(frozen=True)
class _Size:
    """Calls of one size: who runs them, their tensors, and how much they count among all sizes."""

    engine: _core.Engine
    tensors: list[torch.Tensor]
    weight: float


@dataclasses.dataclass
class _Server:
    engines: dict[str, _core.Engine]
    tolerances: Mapping[str, tuple[float, float]]
    output_names: list[str]
    devices: list[str]  # of the inputs
    sizes: dict[str, _Size] = dataclasses.field(default_factory=dict)

    def handle(self, command: str, payload: Mapping[str, Any]) -> Any:
        handlers: dict[str, Callable[..., Any]] = {
            "validate": self.validate,
            "prepare": self.prepare,
            "block": self.block,
            "peak_memory": self.peak_memory,
        }
        return handlers[command](**payload)

    def validate(self, case: str, keep: str | None = None) -> dict[str, Any]:
        """The largest deviation from eager over all outputs of a case, and what is wrong if anything is.

        With ``keep`` values are not judged here: the outputs are stored there, for another to judge.
        """
        stored, expected = read_case(Path(case))
        inputs = to_devices(stored, self.devices)
        given = [tensor.clone() for tensor in inputs]
        actual = [result.cpu() for result in next(iter(self.engines.values())).run(inputs)]
        if len(actual) != len(expected):
            return {"deviation": None, "problem": f"{len(actual)} outputs, eager gives {len(expected)}"}
        for index, (before, after) in enumerate(zip(given, inputs, strict=True)):
            if not _same(before, after):
                return {"deviation": None, "problem": f"the engine wrote to its input {index}"}
        deviation = 0.0
        for name, value, reference in zip(self.output_names, actual, expected, strict=True):
            relative, absolute = self.tolerance(reference.dtype)
            comparison = _core.compare(value, reference, relative, absolute, shorten(name))
            judged = keep is None or value.dtype != reference.dtype or value.shape != reference.shape
            if judged and not comparison.ok():
                return {"deviation": comparison.max_absolute, "problem": comparison.problem}
            deviation = max(deviation, comparison.max_absolute)
        if keep is not None:
            write_case(Path(keep), [], list(actual))
        return {"deviation": deviation, "problem": ""}

    def tolerance(self, dtype: torch.dtype) -> tuple[float, float]:
        chosen = self.tolerances.get(str(dtype).removeprefix("torch."))
        return (chosen[0], chosen[1]) if chosen is not None else _core.default_tolerance(dtype)

    def prepare(self, size_key: str, case: str, engine: str, weight: float) -> None:
        tensors = to_devices(read_case(Path(case))[0], self.devices)
        self.sizes[size_key] = _Size(self.engines[engine], tensors, weight)

    def block(self, size_key: str, n_calls: int) -> list[float]:
        if size_key != MIXED:
            return self.time(self.sizes[size_key], n_calls)
        order = self.mixed_order()
        return [self.time_mixed(order) for _ in range(n_calls)]

    def mixed_order(self) -> list[str]:
        """The same in every process that has these sizes with these weights."""
        calls = _MIXED_CALLS * len(self.sizes) / sum(size.weight for size in self.sizes.values())
        order = [key for key, size in self.sizes.items() for _ in range(max(1, round(calls * size.weight)))]
        random.Random(0).shuffle(order)
        return order

    def time_mixed(self, order: Sequence[str]) -> float:
        logs: dict[str, list[float]] = {key: [] for key in self.sizes}
        for key in order:
            logs[key].append(math.log(self.time(self.sizes[key], 1)[0]))
        return math.exp(fmean([fmean(logs[key]) for key in logs], [size.weight for size in self.sizes.values()]))

    def time(self, size: _Size, n_calls: int) -> list[float]:
        """The seconds of each call."""
        if not any(tensor.is_cuda for tensor in size.tensors):
            return list(size.engine.time(size.tensors, n_calls))
        times = []
        for _ in range(n_calls):
            started = time.perf_counter()
            size.engine.run(size.tensors)
            torch.cuda.synchronize()  # a run only queues its work
            times.append(time.perf_counter() - started)
        return times

    @staticmethod
    def peak_memory() -> int:
        """Bytes that this process held at most, the interpreter and torch included."""
        return peak_memory()


def _same(before: torch.Tensor, after: torch.Tensor) -> bool:
    return torch.equal(before.nan_to_num(), after.nan_to_num()) if before.is_floating_point() else before.equal(after)


def serve(setup: Mapping[str, Any]) -> Callable[[str, Mapping[str, Any]], Any]:
    """Loads the engines of ``setup``: ``engines`` (name -> (backend, folder, threads, its class if that is written in
    Python)), ``tolerances`` by dtype name, ``output_names``, the inputs' ``devices``."""
    engines = {}
    for name, (backend, folder, threads, class_name) in setup["engines"].items():
        if class_name:
            _core.register_python_backend(backend, class_name)
        engines[name] = _core.Engine(backend, Path(folder), threads)
    server = _Server(engines, setup.get("tolerances", {}), list(setup["output_names"]), list(setup["devices"]))
    return server.handle
