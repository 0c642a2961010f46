"""What ``inspect`` found out about the modules of a pipeline, as data and as a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

__all__ = ["GraphSummary", "Inspection", "ModuleReport"]

SCHEMA_VERSION = 1


@dataclasses.dataclass(frozen=True)
class GraphSummary:
    """One execution graph of a module: how many calls had it, the ranges of its symbols, and what keeps it eager."""

    name: str
    calls: int
    symbols: dict[str, tuple[int, int]]
    eager_reason: str


@dataclasses.dataclass(frozen=True)
class ModuleReport:
    """One module of a pipeline.

    ``path`` is "" for the target itself, and ``depth`` counts the modules around it, the target included; ``also_at``
    are the other places of a shared module. ``total_seconds`` are those of its calls with all that they call,
    ``own_seconds`` without the modules within; of a container that is never called, the total is that of what it holds.
    ``parameters`` counts elements and ``weight_bytes`` the memory of parameters and buffers, each once, those of the
    modules within included. ``obstacle`` says why it isn't worth wrapping as it is; empty where it is.
    """

    path: str
    class_name: str
    depth: int
    also_at: tuple[str, ...]
    calls: int
    graphs: tuple[GraphSummary, ...]
    total_seconds: float
    own_seconds: float
    total_share: float
    own_share: float
    parameters: int
    weight_bytes: int
    wrapped: bool
    obstacle: str


@dataclasses.dataclass(frozen=True)
class Inspection:
    """What ``inspect`` found; ``print`` shows it as a table, ``to_dict`` gives JSON data.

    ``seconds`` is the time of all batches, of which the modules' shares are parts.
    """

    target: str
    modules: tuple[ModuleReport, ...]
    batches: int
    batch_sizes: tuple[int, ...]
    seconds: float

    def __getitem__(self, path: str) -> ModuleReport:
        """The module at a path; a shared one is found at each of its places."""
        for report in self.modules:
            if path == report.path or path in report.also_at:
                return report
        raise KeyError(path)

    def candidates(self, min_share: float = 0.05) -> list[ModuleReport]:
        """The modules worth wrapping: the outermost without an obstacle that take at least ``min_share`` of the time.

        None lies within another, nor within a module that is wrapped already, nor holds one.
        """
        chosen: list[ModuleReport] = []
        closed = [report.path for report in self.modules if report.wrapped]
        for report in self.modules:
            if report.obstacle or report.total_share < min_share or any(_is_within(report.path, p) for p in closed):
                continue
            if any(_is_within(path, report.path) for path in closed):
                continue
            chosen.append(report)
            closed.append(report.path)
        return chosen

    def to_dict(self) -> dict[str, Any]:
        candidates = {report.path for report in self.candidates()}
        return {
            "schema_version": SCHEMA_VERSION,
            "target": self.target,
            "batches": self.batches,
            "batch_sizes": list(self.batch_sizes),
            "seconds": self.seconds,
            "modules": [
                {**dataclasses.asdict(report), "candidate": report.path in candidates} for report in self.modules
            ],
        }

    def table(self, depth: int | None = 2, min_share: float = 0.0) -> str:
        """The module tree down to ``depth`` (None: all of it), without modules that take less than ``min_share``."""
        from rich.table import Table  # only what is printed needs it
        from rich.text import Text

        from .result import _render

        candidates = {report.path for report in self.candidates()}
        table = Table()
        table.add_column("Module", overflow="fold")
        table.add_column("Class", overflow="fold")
        for header in ("Calls", "Graphs", "Total", "Own", "Parameters", "Weights"):
            table.add_column(header, justify="right")
        table.add_column("Wrap")
        paths = [report.path for report in self.modules]
        hidden = 0
        for report in self.modules:
            if (depth is not None and report.depth > depth) or report.total_share < min_share:
                hidden += 1
                continue
            table.add_row(
                Text(_indented(report, self.target, paths)),
                Text(report.class_name),
                str(report.calls) if report.calls else "-",
                str(len(report.graphs)) if report.graphs else "-",
                f"{report.total_share:.1%}" if report.calls or report.total_seconds else "-",
                f"{report.own_share:.1%}" if report.calls else "-",
                _short_count(report.parameters),
                _short_bytes(report.weight_bytes),
                "wrapped" if report.wrapped else "yes" if report.path in candidates else "",
            )
        lines = [f"{self.target}: {self.batches} batches, {self.seconds:.3f} s", _render(table)]
        if hidden:
            lines.append(
                f"{hidden} modules are not shown: they lie deeper or take less time (table(depth=…, min_share=…))"
            )
        lines += self._notes(candidates, depth)
        return "\n".join(lines)

    def _notes(self, candidates: set[str], depth: int | None) -> list[str]:
        shown = [report for report in self.modules if depth is None or report.depth <= depth]
        lines = [f"  {report.path}: also at {', '.join(report.also_at)}" for report in shown if report.also_at]
        lines += [
            f"  {report.path or self.target}: {report.obstacle}"
            for report in shown
            if report.obstacle and report.calls and report.total_share >= 0.05 and not report.wrapped
        ]
        if candidates == {""}:
            lines.append("Worth wrapping: all of it, with graphtune.Module")
        elif candidates:
            lines.append(f"Worth wrapping: {', '.join(r.path for r in self.modules if r.path in candidates)}")
        else:
            lines.append("Worth wrapping: nothing more" if any(r.wrapped for r in shown) else "Worth wrapping: nothing")
        return lines

    def __str__(self) -> str:
        return self.table()

    __repr__ = __str__


def _is_within(path: str, other: str) -> bool:
    return path == other or not other or path.startswith(other + ".")


def _indented(report: ModuleReport, target: str, paths: Sequence[str]) -> str:
    if not report.path:
        return target
    around = max((path for path in paths if path and report.path.startswith(path + ".")), key=len, default="")
    return "  " * (report.depth - 1) + report.path.removeprefix(around).removeprefix(".")


def _short_count(count: int) -> str:
    return _scaled(count, ((10**9, " G"), (10**6, " M"), (10**3, " k")), "")


def _short_bytes(count: int) -> str:
    return _scaled(count, ((10**9, " GB"), (10**6, " MB"), (10**3, " kB")), " B")


def _scaled(count: int, units: Sequence[tuple[int, str]], plain: str) -> str:
    for size, unit in units:
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return f"{count}{plain}" if count else "-"
