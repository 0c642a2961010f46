"""What exporting an execution graph gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .export_readback import FixedAxis
from .size_expressions import Size, holds_at

__all__ = ["Alias", "ExportedGraph"]


@dataclass(frozen=True)
class Alias:
    """An output that shares memory with an input: kind "same" (it is that tensor) or "view"."""

    output: int
    input: int
    kind: str


@dataclass(frozen=True)
class ExportedGraph:
    """What was exported. Shapes are in the caller's symbols; an output size that has no such name is None."""

    path: str
    shapes: list[list[Size]]
    dtypes: list[str]
    output_shapes: list[list[Size | None]]
    output_dtypes: list[str]
    ranges: dict[str, tuple[int, int]]  # where the program holds: at most what was asked for
    narrowed: dict[str, tuple[int, int]]  # those of `ranges` that are less than what was asked for
    conditions: list[str]  # what ranges can't say, e.g. "b*s0 <= 20" or "s0 % 4 == 0"
    unified: list[list[str]]  # symbols that the program takes to be equal
    fixed_axes: list[FixedAxis]
    aliases: list[Alias]
    mutated_inputs: list[int]
    mutated_state: list[str]  # buffers, parameters and attributes that forward changes
    random_ops: list[str]
    unbacked_outputs: list[int]  # outputs whose sizes depend on values
    torch_version: str
    seconds: float
    reason: str | None = None  # why this graph should not be tuned
    program: Any = field(default=None, repr=False, compare=False)  # the ExportedProgram, not part of to_dict

    def to_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {k: v for k, v in vars(self).items() if k != "program"}
        result["ranges"] = {name: list(span) for name, span in self.ranges.items()}
        result["narrowed"] = {name: list(span) for name, span in self.narrowed.items()}
        result["fixed_axes"] = [vars(axis) for axis in self.fixed_axes]
        result["aliases"] = [vars(alias) for alias in self.aliases]
        return result

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExportedGraph:
        values = dict(data)
        values["ranges"] = {name: (int(s[0]), int(s[1])) for name, s in data["ranges"].items()}
        values["narrowed"] = {name: (int(s[0]), int(s[1])) for name, s in data["narrowed"].items()}
        values["fixed_axes"] = [FixedAxis(**axis) for axis in data["fixed_axes"]]
        values["aliases"] = [Alias(**alias) for alias in data["aliases"]]
        return cls(**values)

    def holds_at(self, sizes: Mapping[str, int]) -> bool:
        """Whether the exported program is right for these sizes of the symbols."""
        return holds_at(sizes, self.ranges, self.conditions)
