"""Compares a candidate with eager at recorded sizes, at the corners of the contract, and in between."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from .engine_worker import read_case, write_case
from .probing import Point, between, corners, distance, resize_samples
from .processes import Worker
from .size_expressions import holds_at

__all__ = ["Case", "CaseMaker", "Verdict", "Verify", "validate"]

Size = int | str
# A user's judgement of flat outputs, eager's and an engine's: what is wrong with them, or an empty text.
Verify = Callable[[list[torch.Tensor], list[torch.Tensor]], str]


@dataclasses.dataclass(frozen=True)
class Case:
    """One call with eager's results, stored in a file."""

    point: Point
    origin: str  # "recorded", "corner" or "between"
    path: Path

    def __str__(self) -> str:
        return f"{self.origin} sizes {self.point}"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether all cases were right, with the largest deviation, and the first problem."""

    cases: int
    deviation: float
    problem: str = ""


class CaseMaker:
    """Makes cases of one graph in a folder, each point once.

    ``run`` is eager: flat tensors in, flat tensors out. ``samples`` are recorded calls as flat tensors.
    """

    def __init__(
        self,
        run: Callable[[list[torch.Tensor]], Sequence[torch.Tensor]],
        samples: Sequence[tuple[Point, list[torch.Tensor]]],
        sizes: Sequence[Sequence[Size]],
        folder: Path,
    ) -> None:
        self._run = run
        self._samples = samples
        self._sizes = sizes
        self._folder = folder
        self._paths: dict[Point, Path | None] = {}
        self._origins: dict[Point, str] = {}
        self._refusals: dict[Point, str] = {}

    def all_cases(
        self,
        ranges: Mapping[str, tuple[int, int]],
        recorded: int = 6,
        count_inside: int = 4,
        conditions: Sequence[str] = (),
    ) -> list[Case]:
        """Recorded points (some, spread), the corners, and points in between that were never recorded; where the
        conditions do not hold at a corner, the outermost sizes where they do."""
        inside = (point for point, _ in self._samples if holds_at(point.values, ranges, conditions))
        known = list(dict.fromkeys(inside))
        step = max(1, -(-len(known) // recorded))
        cases = [self.case(point, "recorded") for point in known[::step]]
        cases += [self.case(point, "corner") for point in corners(ranges, conditions)]
        cases += [self.case(point, "between") for point in between(ranges, known, count_inside, conditions)]
        return [case for case in dict.fromkeys(cases) if case is not None]

    def case(self, point: Point, origin: str = "between") -> Case | None:
        """The case of a point; None where eager itself refuses the sizes."""
        path = self._stored(point)
        return None if path is None else Case(point, self._origins.setdefault(point, origin), path)

    def refusal(self, point: Point) -> str:
        """What eager says where it refuses the sizes of a point; empty where it takes them."""
        self._stored(point)
        return self._refusals.get(point, "")

    def _stored(self, point: Point) -> Path | None:
        if point not in self._paths:
            self._paths[point] = self._store(point)
        return self._paths[point]

    def _store(self, point: Point) -> Path | None:
        inputs = next((tensors for known, tensors in self._samples if known == point), None)
        if inputs is None:
            nearest = min(self._samples, key=lambda sample: distance(sample[0], point))
            inputs = resize_samples(nearest[1], self._sizes, point.values)
        inputs = [tensor.detach().contiguous() for tensor in inputs]
        try:
            outputs = self._run([tensor.clone() for tensor in inputs])
        except Exception as error:  # a model may refuse sizes that were never recorded, in any way it likes
            self._refusals[point] = f"{type(error).__name__}: {_first_line(error)}"
            return None
        path = self._folder / f"case_{len(self._paths):04}.safetensors"
        write_case(path, inputs, list(outputs))
        return path


def validate(
    worker: Worker, cases: Sequence[Case], reply_timeout_s: float = 120.0, verify: Verify | None = None
) -> Verdict:
    """Runs every case in the worker until one is wrong. With ``verify`` that judges the values, here, instead of the
    tolerances there. Raises WorkerFailure when the engine fails, and what ``verify`` raises."""
    largest = 0.0
    for count, case in enumerate(cases, start=1):
        kept = None if verify is None else case.path.with_suffix(".actual")
        answer = worker.call("validate", reply_timeout_s, case=str(case.path), keep=None if kept is None else str(kept))
        if answer["deviation"] is not None:
            largest = max(largest, answer["deviation"])
        problem = answer["problem"]
        if verify is not None and kept is not None and not problem:
            problem = verify(read_case(case.path)[1], read_case(kept)[1])
            kept.unlink()
        if problem:
            return Verdict(count, largest, f"at {case}: {problem}")
    return Verdict(len(cases), largest)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else ""
