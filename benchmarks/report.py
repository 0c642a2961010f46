"""Writes the figures of `make bench` into docs/benchmarks.md, between its `<!-- figures: … -->` marks.

    .venv/bin/python benchmarks/report.py FOLDER [--page docs/benchmarks.md]

The folder has core.json of Google Benchmark, calls.json of bench_call.py, load.json of bench_load.py and together.json
of bench_together.py. The prose around the marks is kept.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"


#: Each group has it among its contestants (bench_call.py).
YARDSTICK = "yardstick: optree.tree_flatten of 5 tensors"
#: What it took on the machine for which the design set its targets, in microseconds.
YARDSTICK_OF_DESIGN = 1.8
#: The group of the core's benchmark that takes turns by itself.
THREADS = "calls from threads"


@dataclass(frozen=True)
class Figures:
    """Microseconds: of core benchmarks by name; of calls by (group, contestant), turn by turn."""

    core: dict[str, float]
    turns: dict[tuple[str, str], list[float]]

    def of(self, group: str, name: str, less: str = "") -> tuple[list[float], list[float]]:
        """What `name` took in each turn, less what another took in the same turn; and the yardstick there."""
        took = self.turns[group, name]
        others = self.turns[group, less] if less else [0.0] * len(took)
        difference = [mine - other for mine, other in zip(took, others, strict=True)]
        return difference, self.turns.get((group, YARDSTICK), [])


@dataclass(frozen=True)
class Target:
    """A line of the design's targets, in microseconds: what a contestant takes, less what another one does; or, as a
    ratio, ``over`` another."""

    what: str
    limit: float
    group: str
    name: str
    less: str = ""
    over: str = ""
    scales: bool = True  # with the machine's speed, as the yardstick does


def _module_group(figures: Figures, start: str) -> str:
    return next(group for group, _ in figures.turns if group.startswith(start))


def targets(figures: Figures) -> list[Target]:
    one = _module_group(figures, "module call, tiny model")
    module, engine = "graphtune module(x, y)", "the engine alone"
    turn = "graphs in turn, on an engine without code of their own"
    many, update = "graphtune, graphs: 64", "graphtune update_shapes_seen"
    one_thread, two_threads = "one thread", "two threads"
    grow, copies = "make_batch, 5 tensors, grow 2 to 8", "the copies alone (index_select)"
    recorded, model = "graphtune module(x, y), recorded", "the model alone"
    return [
        Target("route a call of 5 tensors in C++", 0.1, "routing in C++", "route_known/graphs:1"),
        Target("the same from Python objects", 0.5, "routing from Python", "graphtune, from Python objects"),
        Target("tuned `module(x, y)` over its engine", 2.0, one, module, engine),
        Target("a call while 64 graphs rotate, over one graph", 1.1, turn, many, over="graphtune, graphs: 1"),
        Target("a C++ call, two threads over one", 1 / 1.8, THREADS, two_threads, over=one_thread),
        Target("`from_inputs`, 5 tensors", 1.5, "from_inputs, 5 tensors", "graphtune from_inputs"),
        Target("`from_inputs`, 100 tensors", 20.0, "from_inputs, 100 tensors", "graphtune from_inputs"),
        Target("`update_shapes_seen`, 100 tensors", 15.0, "update_shapes_seen, 100 tensors", update),
        Target("`update_shapes_seen`, 10,000 tensors", 2000.0, "update_shapes_seen, 10000 tensors", update),
        Target("`make_batch`, 5 tensors, no-op", 2.0, "make_batch, 5 tensors, no-op", "graphtune make_batch"),
        Target("`make_batch`, 5 tensors, grow, over the copies", 3.0, grow, "graphtune make_batch", copies),
        Target("`describe` FULL, 100 tensors", 200.0, "describe(FULL), 100 tensors", "graphtune describe(FULL)"),
        Target("recording a known call, over the model's", 5.0, "recording a known call", recorded, model),
        Target(
            "`import graphtune` over `import torch`", 100_000.0, "import", "graphtune, after torch", scales=False
        ),
    ]  # fmt: skip


def read(core: Any, calls: Any) -> Figures:
    factors = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
    times: dict[str, float] = {}
    turns = {(row["group"], row["name"]): row["turns_us"] for row in calls["rows"]}
    for row in core["benchmarks"]:
        name = row["name"].replace("/real_time", "").replace("/manual_time", "")
        if "two_over_one" in row:
            turns |= {(THREADS, "one thread"): [1.0], (THREADS, "two threads"): [1 / row["two_over_one"]]}
        else:
            times[name] = row["real_time"] * factors[row["time_unit"]]
    return Figures(times, turns)


def time_text(microseconds: float) -> str:
    if abs(microseconds) < 1:
        return f"{microseconds * 1e3:.0f} ns"
    return f"{microseconds / 1e3:.1f} ms" if abs(microseconds) >= 1000 else f"{microseconds:.1f} µs"


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def target_rows(figures: Figures) -> list[list[str]]:
    rows = []
    for target in targets(figures):
        if target.over:
            own, other = (figures.turns[target.group, name] for name in (target.name, target.over))
            ratio = median(mine / its for mine, its in zip(own, other, strict=True))
            state = "met" if ratio <= target.limit else f"missed by {ratio / target.limit - 1:.0%}"
            rows.append([target.what, f"{target.limit:.2f}x", f"{ratio:.2f}x", f"{ratio:.2f}x", state])
            continue
        took, yardstick = figures.of(target.group, target.name, target.less)
        here = scaled = median(took)
        if target.scales and yardstick:
            scaled = median(each / unit for each, unit in zip(took, yardstick, strict=True)) * YARDSTICK_OF_DESIGN
        state = "met" if here <= target.limit else "met at the design's speed"
        if scaled > target.limit:
            state = f"missed by {scaled / target.limit - 1:.0%}"
        rows.append([target.what, time_text(target.limit), time_text(here), time_text(scaled), state])
    return rows


def call_row(row: dict[str, Any]) -> list[str]:
    times = [time_text(row[each]) for each in ("median_us", "p10_us", "p90_us")]
    return [row["group"], row["name"], *times, f"{row['ratio']:.2f}x"]


def load_rows(load: Any) -> list[list[str]]:
    return [
        [row["plan"], f"`{row['loading']}`", *(f"{row[key] * 1e3:.0f} ms" for key in ("load", "first_call")),
         f"{row['memory']:.0f} MB"]
        for row in load
    ]  # fmt: skip


def together_rows(together: Any) -> list[list[str]]:
    alternating = [
        [f"{row['engine']} beside the others, ({', '.join(map(str, row['size']))})", f"{row['in_turn'] * 1e3:.2f} ms",
         f"{row['in_turn'] / row['alone']:.2f}x its time alone, {row['paused'] / row['alone']:.2f}x after a pause"]
        for row in together["alternating"]
    ]  # fmt: skip
    threads = [
        [f"{row['engine']}, {'a tuned module' if row['what'] == 'module' else 'the engine by itself'}", "",
         f"two threads {row['two_threads_over_one']:.2f}x one"]
        for row in together["threads"]
    ]  # fmt: skip
    return alternating + threads


def sections(core: Any, calls: Any, load: Any, together: Any) -> dict[str, str]:
    figures = read(core, calls)
    facts = calls["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return {
        "machine": f"{facts['cpus']} cores of {facts['cpu']}, Python {facts['python']}, {versions}; load "
        f"{facts['load']:.1f} when it began.",
        "targets": table(["what", "target", "here", "at the design's speed", ""], target_rows(figures)),
        "core": table(["benchmark", "time"], [[f"`{name}`", time_text(took)] for name, took in figures.core.items()]),
        "calls": table(
            ["group", "contestant", "median", "p10", "p90", "ratio"], [call_row(row) for row in calls["rows"]]
        ),
        "load": table(["plan", "loading", "load", "first call", "memory"], load_rows(load)),
        "together": table(["what", "a call", ""], together_rows(together)),
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
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    names = ("core", "calls", "load", "together")
    core, calls, *others = (json.loads((options.folder / f"{name}.json").read_text("utf-8")) for name in names)
    page = options.page.read_text(encoding="utf-8")
    options.page.write_text(fill(page, sections(core, calls, *others)), encoding="utf-8")
    for row in target_rows(read(core, calls)):
        print("  ".join(f"{cell:60}" if place == 0 else f"{cell:>10}" for place, cell in enumerate(row)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
