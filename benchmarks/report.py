"""Writes the figures of `make bench` into docs/benchmarks.md, between its `<!-- figures: … -->` marks.

    .venv/bin/python benchmarks/report.py CORE.json CALLS.json [--page docs/benchmarks.md]

CORE.json is what Google Benchmark writes, CALLS.json what bench_call.py writes. The prose around the marks is kept.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Figures:
    """Microseconds: of core benchmarks by name, of calls by (group, contestant)."""

    core: dict[str, float]
    calls: dict[tuple[str, str], float]


@dataclass(frozen=True)
class Target:
    """A line of the design's targets. ``figure`` is in microseconds, or a ratio where ``unit`` is "x"."""

    what: str
    figure: Callable[[Figures], float]
    limit: float
    unit: str = "µs"


def _over_engine(figures: Figures) -> float:
    group = next(group for group, _ in figures.calls if group.startswith("module call, tiny model"))
    return figures.calls[group, "graphtune module(x, y)"] - figures.calls[group, "the engine alone"]


def _rotation(figures: Figures) -> float:
    return figures.core["route_known/graphs:64"] / figures.core["route_known/graphs:1"]


def _copies(figures: Figures) -> float:
    group = "make_batch, 5 tensors, grow 2 to 8"
    return figures.calls[group, "graphtune make_batch"] - figures.calls[group, "the copies alone (index_select)"]


def _recording(figures: Figures) -> float:
    group = "recording a known call"
    return figures.calls[group, "graphtune module(x, y), recorded"] - figures.calls[group, "the model alone"]


def _seen_again(figures: Figures) -> float:
    return figures.core["update_shapes_seen_known/tensors:100"]


def _call(group: str, contestant: str) -> Callable[[Figures], float]:
    return lambda figures: figures.calls[group, contestant]


TARGETS = (
    Target("route a call of 5 tensors in C++ (form, range check, plan)", lambda f: f.core["route_known/graphs:1"], 0.1),
    Target("the same with 64 graphs in rotation, over one graph", _rotation, 1.1, "x"),
    Target("tuned `module(x, y)` over its engine's bare run", _over_engine, 2.0),
    Target("`from_inputs`, 5 tensors", _call("from_inputs, 5 tensors", "graphtune from_inputs"), 1.5),
    Target("`from_inputs`, 100 tensors", _call("from_inputs, 100 tensors", "graphtune from_inputs"), 20.0),
    Target(
        "`update_shapes_seen`, 100 tensors, new sizes",
        _call("update_shapes_seen, 100 tensors", "graphtune update_shapes_seen"),
        15.0,
    ),
    Target(
        "`update_shapes_seen`, 10,000 tensors, new sizes",
        _call("update_shapes_seen, 10000 tensors", "graphtune update_shapes_seen"),
        2000.0,
    ),
    Target("`update_shapes_seen`, 100 tensors, known sizes", _seen_again, 15.0),
    Target("`make_batch`, 5 tensors, no-op", _call("make_batch, 5 tensors, no-op", "graphtune make_batch"), 2.0),
    Target("`make_batch`, 5 tensors, grow, over the copies", _copies, 3.0),
    Target(
        "`describe` FULL, 100 tensors", _call("describe(FULL), 100 tensors", "graphtune describe(FULL)"), 200.0
    ),
    Target("recording a known call, over the model's", _recording, 5.0),
    Target("`import graphtune` over `import torch`", _call("import", "graphtune, after torch"), 100_000.0),
)  # fmt: skip


def read(core: Any, calls: Any) -> Figures:
    factors = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
    times = {
        row["name"].replace("/real_time", "").replace("/manual_time", ""): row["real_time"] * factors[row["time_unit"]]
        for row in core["benchmarks"]
    }
    return Figures(times, {(row["group"], row["name"]): row["median_us"] for row in calls["rows"]})


def time_text(microseconds: float) -> str:
    if microseconds < 1:
        return f"{microseconds * 1e3:.0f} ns"
    return f"{microseconds / 1e3:.1f} ms" if microseconds >= 1000 else f"{microseconds:.1f} µs"


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def target_rows(figures: Figures) -> list[list[str]]:
    rows = []
    for target in TARGETS:
        found = target.figure(figures)
        shown, limit = (
            (f"{found:.2f}x", f"{target.limit:.2f}x")
            if target.unit == "x"
            else (time_text(found), time_text(target.limit))
        )
        state = "met" if found <= target.limit else f"missed by {found / target.limit - 1:.0%}"
        rows.append([target.what, limit, shown, state])
    return rows


def call_row(row: dict[str, Any]) -> list[str]:
    times = [time_text(row[each]) for each in ("median_us", "p10_us", "p90_us")]
    return [row["group"], row["name"], *times, f"{row['ratio']:.2f}x"]


def sections(core: Any, calls: Any) -> dict[str, str]:
    figures = read(core, calls)
    facts = calls["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return {
        "machine": f"{facts['cpus']} cores of {facts['cpu']}, Python {facts['python']}, {versions}; load "
        f"{facts['load']:.1f} when it began.",
        "targets": table(["what", "target", "measured", ""], target_rows(figures)),
        "core": table(["benchmark", "time"], [[f"`{name}`", time_text(took)] for name, took in figures.core.items()]),
        "calls": table(
            ["group", "contestant", "median", "p10", "p90", "ratio"], [call_row(row) for row in calls["rows"]]
        ),
    }


def fill(page: str, texts: dict[str, str]) -> str:
    """The page with each section between its marks replaced. Raises ValueError for a section without marks."""
    for name, text in texts.items():
        marks = re.compile(rf"(<!-- figures: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page, count = marks.subn(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)  # type: ignore[misc]
        if count != 1:
            raise ValueError(f"the page has {count} places for the figures of {name!r}, one is needed")
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("core", type=Path)
    parser.add_argument("calls", type=Path)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    core, calls = (json.loads(file.read_text(encoding="utf-8")) for file in (options.core, options.calls))
    page = options.page.read_text(encoding="utf-8")
    options.page.write_text(fill(page, sections(core, calls)), encoding="utf-8")
    for row in target_rows(read(core, calls)):
        print("  ".join(f"{cell:60}" if place == 0 else f"{cell:>10}" for place, cell in enumerate(row)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
