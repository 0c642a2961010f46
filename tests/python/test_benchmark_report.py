"""The page of figures is written from what the benchmarks measured."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"


@pytest.fixture(scope="module")
def report() -> Any:
    spec = importlib.util.spec_from_file_location("benchmark_report", ROOT / "benchmarks" / "report.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look
    spec.loader.exec_module(module)
    return module


CORE = {
    "benchmarks": [
        {"name": "route_known/graphs:64", "real_time": 260.0, "time_unit": "ns"},
        {"name": "by_two_threads/real_time", "real_time": 1.0, "time_unit": "s", "two_over_one": 1.6},
        {"name": "minilm/openvino/8/64", "real_time": 97.0, "time_unit": "ms"},
    ]
}
YARDSTICK = "yardstick: optree.tree_flatten of 5 tensors"
# Turn by turn; the machine is twice as slow in the second half.
TURNS = {
    ("from_inputs, 5 tensors", "graphtune from_inputs"): [1.4, 1.4, 2.8],
    ("from_inputs, 100 tensors", "graphtune from_inputs"): [25.0, 25.0, 50.0],
    ("update_shapes_seen, 100 tensors", "graphtune update_shapes_seen"): [14.0, 14.0, 28.0],
    ("update_shapes_seen, 10000 tensors", "graphtune update_shapes_seen"): [2500.0, 2500.0, 5000.0],
    ("make_batch, 5 tensors, no-op", "graphtune make_batch"): [1.0, 1.0, 2.0],
    ("make_batch, 5 tensors, grow 2 to 8", "graphtune make_batch"): [20.0, 20.0, 40.0],
    ("make_batch, 5 tensors, grow 2 to 8", "the copies alone (index_select)"): [15.0, 15.0, 30.0],
    ("describe(FULL), 100 tensors", "graphtune describe(FULL)"): [150.0, 150.0, 300.0],
    ("routing in C++", "route_known/graphs:1"): [0.25, 0.25, 0.5],
    ("routing from Python", "graphtune, from Python objects"): [0.4, 0.4, 0.8],
    ("recording a known call", "graphtune module(x, y), recorded"): [14.0, 14.0, 28.0],
    ("recording a known call", "the model alone"): [10.0, 10.0, 20.0],
    ("import", "graphtune, after torch"): [45_000.0, 45_000.0, 90_000.0],
    ("module call, tiny model on aoti", "graphtune module(x, y)"): [5.0, 5.0, 10.0],
    ("module call, tiny model on aoti", "the engine alone"): [2.0, 2.0, 4.0],
    ("graphs in turn, on an engine without code of their own", "graphtune, graphs: 1"): [5.0, 5.0, 10.0],
    ("graphs in turn, on an engine without code of their own", "graphtune, graphs: 64"): [5.2, 6.0, 10.0],
}
GROUPS = dict.fromkeys(group for group, _ in TURNS)


def calls_report(yardstick: list[float]) -> dict[str, Any]:
    measured = {**TURNS, **({(group, YARDSTICK): yardstick for group in GROUPS} if yardstick else {})}
    return {
        "machine": {"cpu": "a processor", "cpus": 2, "load": 0.5, "python": "3.11", "versions": {"torch": "2.13.0"}},
        "rows": [
            {"group": group, "name": name, "median_us": 1.0, "p10_us": 1.0, "p90_us": 1.0, "ratio": 1.0, "turns_us": us}
            for (group, name), us in measured.items()
        ],
    }


# As fast as the design's machine, but for the turn in which all is twice as slow.
CALLS = calls_report([1.8, 1.8, 3.6])


def targets_of(report: Any, calls: dict[str, Any]) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in report.target_rows(report.read(CORE, calls))}


def test_targets_say_what_is_met_and_by_how_much_the_others_are_missed(report: Any) -> None:
    rows = targets_of(report, CALLS)
    assert rows["route a call of 5 tensors in C++"] == ["100 ns", "250 ns", "250 ns", "missed by 150%"]
    assert rows["the same from Python objects"] == ["500 ns", "400 ns", "400 ns", "met"]
    assert rows["tuned `module(x, y)` over its engine"] == ["2.0 µs", "3.0 µs", "3.0 µs", "missed by 50%"]
    assert rows["a call while 64 graphs rotate, over one graph"] == ["1.10x", "1.04x", "1.04x", "met"]
    assert rows["a C++ call, two threads over one"] == ["0.56x", "0.62x", "0.62x", "missed by 12%"]
    assert rows["`make_batch`, 5 tensors, grow, over the copies"] == ["3.0 µs", "5.0 µs", "5.0 µs", "missed by 67%"]
    assert rows["`update_shapes_seen`, 10,000 tensors"] == ["2.0 ms", "2.5 ms", "2.5 ms", "missed by 25%"]
    assert rows["`update_shapes_seen`, 100 tensors"][-1] == "met"
    assert rows["recording a known call, over the model's"] == ["5.0 µs", "4.0 µs", "4.0 µs", "met"]
    assert rows["`import graphtune` over `import torch`"] == ["100.0 ms", "45.0 ms", "45.0 ms", "met"]


def test_figures_of_a_slower_machine_are_brought_to_the_designs_speed(report: Any) -> None:
    rows = targets_of(report, calls_report([3.6, 3.6, 7.2]))
    assert rows["route a call of 5 tensors in C++"] == ["100 ns", "250 ns", "125 ns", "missed by 25%"]
    assert rows["the same from Python objects"] == ["500 ns", "400 ns", "200 ns", "met"]
    assert rows["tuned `module(x, y)` over its engine"] == ["2.0 µs", "3.0 µs", "1.5 µs", "met at the design's speed"]
    # Importing is reading files as much as computing.
    assert rows["`import graphtune` over `import torch`"] == ["100.0 ms", "45.0 ms", "45.0 ms", "met"]


def test_without_the_yardstick_figures_stand_as_measured(report: Any) -> None:
    rows = targets_of(report, calls_report([]))
    assert rows["the same from Python objects"] == ["500 ns", "400 ns", "400 ns", "met"]
    assert rows["tuned `module(x, y)` over its engine"] == ["2.0 µs", "3.0 µs", "3.0 µs", "missed by 50%"]


LOAD = [{"plan": "both", "loading": "in_turn", "load": 1.25, "first_call": 0.02, "memory": 321.4}]
TOGETHER = {
    "alternating": [{"size": [1, 6], "engine": "openvino", "alone": 0.004, "paused": 0.005, "in_turn": 0.0042}],
    "threads": [{"engine": "openvino", "what": "module", "two_threads_over_one": 1.9}],
}


def test_the_pages_own_prose_is_kept(report: Any) -> None:
    page = PAGE.read_text(encoding="utf-8")
    sections = report.sections(CORE, CALLS, LOAD, TOGETHER)
    filled = report.fill(page, sections)
    assert "| both | `in_turn` | 1250 ms | 20 ms | 321 MB |" in filled
    assert "| openvino beside the others, (1, 6) | 4.20 ms | 1.05x its time alone, 1.25x after a pause |" in filled
    assert "| openvino, a tuned module |  | two threads 1.90x one |" in filled
    assert "| `minilm/openvino/8/64` | 97.0 ms |" in filled
    assert "2 cores of a processor, Python 3.11, torch 2.13.0; load 0.5 when it began." in filled
    assert report.fill(filled, sections) == filled
    prose = [line for line in page.splitlines() if line.startswith("#") or "<!--" in line]
    assert [line for line in filled.splitlines() if line in prose] == prose
    with pytest.raises(ValueError, match="0 places for the figures of 'other'"):
        report.fill(page, {"other": ""})
