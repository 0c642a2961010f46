"""What ``tune`` found and decided, as data and as tables."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["CandidateResult", "GraphResult", "SpeedUp", "TuneResult"]

SCHEMA_VERSION = 1


@dataclasses.dataclass
class SpeedUp:
    """Eager's time over the candidate's at one point, measured in turns, with its 95 % confidence interval (None where
    the budget ended before there were enough rounds for one); typical times of a call, and the time that 99 % of the
    calls do not exceed."""

    point: dict[str, int]
    ratio: float
    low: float | None
    high: float | None
    rounds: int
    eager_seconds: float
    candidate_seconds: float
    eager_p99_seconds: float = 0.0
    candidate_p99_seconds: float = 0.0


@dataclasses.dataclass
class CandidateResult:
    """One engine that was tried on a graph, and what became of it.

    ``peak_memory_bytes`` is what its process held at most, with the interpreter and torch.
    ``status``: ``chosen``, ``valid`` (right values, but another was better), ``rejected`` (wrong values), or ``failed``
    (not built or not loaded); ``reason`` says why in one line. ``name`` is that of the ``backend``, with the options
    that are not its defaults; ``options`` has them all.
    """

    name: str
    status: str
    reason: str = ""
    backend: str = ""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    build_seconds: float = 0.0
    reused: bool = False
    max_deviation: float | None = None
    cases: int = 0
    peak_memory_bytes: int | None = None
    speed_ups: list[SpeedUp] = dataclasses.field(default_factory=list)
    log: str | None = None


@dataclasses.dataclass
class GraphResult:
    """One graph: its tables, candidates and plan.

    ``weights`` has the share of the recorded calls that each of ``points`` stands for. ``eager_reason`` is set when
    nothing could be tuned.
    """

    name: str
    description: str
    symbols: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    points: list[dict[str, int]] = dataclasses.field(default_factory=list)
    weights: list[float] = dataclasses.field(default_factory=list)
    candidates: list[CandidateResult] = dataclasses.field(default_factory=list)
    plan: list[str] = dataclasses.field(default_factory=list)
    eager_reason: str = ""
    notes: list[str] = dataclasses.field(default_factory=list)
    evidence: list[str] = dataclasses.field(default_factory=list)

    @property
    def chosen(self) -> CandidateResult | None:
        return next((candidate for candidate in self.candidates if candidate.status == "chosen"), None)


@dataclasses.dataclass
class TuneResult:
    """The outcome of a tuning run; ``print`` shows it as tables, ``to_dict`` gives JSON data.

    ``module`` is the tuned module: the one given, or the wrapper made for a plain ``nn.Module``. When a function
    was tuned that calls several wrapped modules, ``modules`` has them all and ``module`` the first.
    """

    module: Any
    modules: list[Any]
    graphs: dict[str, list[GraphResult]]
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "seconds": self.seconds,
            "modules": {name: [dataclasses.asdict(graph) for graph in graphs] for name, graphs in self.graphs.items()},
        }

    def __str__(self) -> str:
        parts = []
        for name, graphs in self.graphs.items():
            parts += [format_graph(graph, name) for graph in graphs]
        return "\n\n".join(parts)

    __repr__ = __str__


def format_graph(graph: GraphResult, module_name: str = "") -> str:
    """The FULL tables of the graph, its candidates and its plan."""
    title = f"{module_name} · {graph.name}" if module_name else graph.name
    return "\n".join([title, graph.description, format_candidates(graph), format_plan(graph)])


def format_candidates(graph: GraphResult) -> str:
    """Build time and deviation of each candidate, its speed-up at each measured size, and why some were not taken."""
    if not graph.candidates:
        return f"No candidate: {graph.eager_reason}" if graph.eager_reason else "No candidate was tried."
    from rich.table import Table  # only what is printed needs it

    facts = Table("Candidate", "Result")
    facts.add_column("Build", justify="right")
    facts.add_column("Largest deviation", justify="right")
    for candidate in graph.candidates:
        build = f"{candidate.build_seconds:.1f} s"
        facts.add_row(
            candidate.name,
            candidate.status,
            f"{build}, reused" if candidate.reused else build,
            "-" if candidate.max_deviation is None else f"{candidate.max_deviation:.1e}",
        )
    lines = [_render(facts)]
    lines += [f"  {candidate.name}: {candidate.reason}" for candidate in graph.candidates if candidate.reason]
    measured = [candidate for candidate in graph.candidates if candidate.speed_ups]
    if measured:
        lines.append(_format_speed_ups(graph.points, measured))
    return "\n".join(lines)


def _format_speed_ups(points: Sequence[dict[str, int]], candidates: Sequence[CandidateResult]) -> str:
    from rich.table import Table

    table = Table("Size")
    table.add_column("eager", justify="right")
    for candidate in candidates:
        table.add_column(candidate.name, justify="right")
    for point in points:
        speeds = [next((s for s in candidate.speed_ups if s.point == point), None) for candidate in candidates]
        eager = next((speed.eager_seconds for speed in speeds if speed is not None), None)
        table.add_row(
            _point_text(point),
            "-" if eager is None else f"{eager * 1e3:.2f} ms",
            *("-" if speed is None else _ratio_text(speed) for speed in speeds),
        )
    return _render(table)


def _ratio_text(speed: SpeedUp) -> str:
    if speed.low is None or speed.high is None:
        return f"{speed.ratio:.2f}x (of {speed.rounds})"
    return f"{speed.ratio:.2f}x ({speed.low:.2f}..{speed.high:.2f})"


def format_plan(graph: GraphResult) -> str:
    lines = ["Plan: " + ("; ".join(graph.plan) if graph.plan else "eager")]
    if graph.eager_reason:
        lines.append(f"  eager because {graph.eager_reason}")
    lines += [f"  note: {note}" for note in graph.notes]
    lines += [f"  evidence: {evidence}" for evidence in graph.evidence]
    return "\n".join(lines)


def _point_text(point: dict[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in point.items()) or "static"


def _render(table: Table) -> str:
    from rich.console import Console

    # A fixed width: the text is the same on a terminal, in a log and in a notebook.
    buffer = io.StringIO()
    Console(file=buffer, width=120, color_system=None).print(table)
    return buffer.getvalue().rstrip("\n")


def plan_entries(entries: Sequence[tuple[str, dict[str, tuple[int, int]]]]) -> list[str]:
    """A plan's entries in words: the engine and where it serves."""
    words = []
    for engine, limits in entries:
        where = ", ".join(f"{name} in {low}..{high}" for name, (low, high) in limits.items()) or "everywhere"
        words.append(f"{engine} {where}")
    return words
