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
        {"name": "route_known/graphs:1", "real_time": 250.0, "time_unit": "ns"},
        {"name": "route_known/graphs:64", "real_time": 260.0, "time_unit": "ns"},
        {"name": "update_shapes_seen_known/tensors:100", "real_time": 1.5, "time_unit": "us"},
        {"name": "minilm/openvino/8/64", "real_time": 97.0, "time_unit": "ms"},
    ]
}
MEDIANS = {
    ("from_inputs, 5 tensors", "graphtune from_inputs"): 1.4,
    ("from_inputs, 100 tensors", "graphtune from_inputs"): 25.0,
    ("update_shapes_seen, 100 tensors", "graphtune update_shapes_seen"): 15.0,
    ("update_shapes_seen, 10000 tensors", "graphtune update_shapes_seen"): 2500.0,
    ("make_batch, 5 tensors, no-op", "graphtune make_batch"): 1.0,
    ("make_batch, 5 tensors, grow 2 to 8", "graphtune make_batch"): 20.0,
    ("make_batch, 5 tensors, grow 2 to 8", "the copies alone (index_select)"): 15.0,
    ("describe(FULL), 100 tensors", "graphtune describe(FULL)"): 150.0,
    ("recording a known call", "graphtune module(x, y), recorded"): 14.0,
    ("recording a known call", "the model alone"): 10.0,
    ("import", "graphtune, after torch"): 45_000.0,
    ("module call, tiny model on aoti", "graphtune module(x, y)"): 5.0,
    ("module call, tiny model on aoti", "the engine alone"): 2.0,
}
CALLS = {
    "machine": {"cpu": "a processor", "cpus": 2, "load": 0.5, "python": "3.11", "versions": {"torch": "2.13.0"}},
    "rows": [
        {"group": group, "name": name, "median_us": took, "p10_us": took, "p90_us": took, "ratio": 1.0}
        for (group, name), took in MEDIANS.items()
    ],
}


def test_targets_say_what_is_met_and_by_how_much_the_others_are_missed(report: Any) -> None:
    rows = {row[0]: row[1:] for row in report.target_rows(report.read(CORE, CALLS))}
    assert rows["route a call of 5 tensors in C++ (form, range check, plan)"] == ["100 ns", "250 ns", "missed by 150%"]
    assert rows["the same with 64 graphs in rotation, over one graph"] == ["1.10x", "1.04x", "met"]
    assert rows["tuned `module(x, y)` over its engine's bare run"] == ["2.0 µs", "3.0 µs", "missed by 50%"]
    assert rows["`make_batch`, 5 tensors, grow, over the copies"] == ["3.0 µs", "5.0 µs", "missed by 67%"]
    assert rows["`update_shapes_seen`, 10,000 tensors, new sizes"] == ["2.0 ms", "2.5 ms", "missed by 25%"]
    assert rows["`update_shapes_seen`, 100 tensors, new sizes"][-1] == "met"
    assert rows["recording a known call, over the model's"] == ["5.0 µs", "4.0 µs", "met"]
    assert rows["`import graphtune` over `import torch`"] == ["100.0 ms", "45.0 ms", "met"]


def test_the_pages_own_prose_is_kept(report: Any) -> None:
    page = PAGE.read_text(encoding="utf-8")
    filled = report.fill(page, report.sections(CORE, CALLS))
    assert "| `minilm/openvino/8/64` | 97.0 ms |" in filled
    assert "2 cores of a processor, Python 3.11, torch 2.13.0; load 0.5 when it began." in filled
    assert report.fill(filled, report.sections(CORE, CALLS)) == filled
    prose = [line for line in page.splitlines() if line.startswith("#") or "<!--" in line]
    assert [line for line in filled.splitlines() if line in prose] == prose
    with pytest.raises(ValueError, match="0 places for the figures of 'other'"):
        report.fill(page, {"other": ""})
