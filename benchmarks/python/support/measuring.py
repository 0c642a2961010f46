"""Measures contestants in blocks that take turns, and prints what it found."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from graphtune import _core

BLOCK_SECONDS = 0.002
MIN_TURNS = 5

#: Runs that many calls and gives the seconds that they took.
Block = Callable[[int], float]


@dataclass
class Contestant:
    name: str
    block: Block
    count: int = 0  # calls of a block; 0: as many as take BLOCK_SECONDS


@dataclass
class Group:
    """The first contestant is graphtune's; the others are compared with it."""

    name: str
    contestants: list[Contestant]
    notes: list[str] = field(default_factory=list)


@dataclass
class Row:
    group: str
    name: str
    median_us: float
    p10_us: float
    p90_us: float
    ratio: float
    calls_per_block: int
    turns_us: list[float]  # of a call, turn by turn: those of one group can be compared turn by turn


def calls(run: Callable[[], object]) -> Block:
    def block(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            run()
        return time.perf_counter() - start

    return block


def calls_with(prepare: Callable[[], Any], run: Callable[[Any], object]) -> Block:
    """Each call gets an argument of its own, which is made before the clock starts."""

    def block(count: int) -> float:
        arguments = [prepare() for _ in range(count)]
        start = time.perf_counter()
        for argument in arguments:
            run(argument)
        return time.perf_counter() - start

    return block


def block_size(block: Block) -> int:
    """How many calls take BLOCK_SECONDS: by the best of a few blocks, since first and interrupted calls are slow."""
    count = 1
    while True:
        seconds = min(block(count) for _ in range(5))
        if seconds >= BLOCK_SECONDS or count >= 100_000:
            return max(1, round(count * BLOCK_SECONDS / seconds))
        count *= 4


def measure(group: Group, seconds: float) -> list[Row]:
    counts = [contestant.count or block_size(contestant.block) for contestant in group.contestants]
    times: list[list[float]] = [[] for _ in group.contestants]
    gc.collect()
    gc.disable()
    try:
        deadline = time.perf_counter() + seconds
        while len(times[0]) < MIN_TURNS or time.perf_counter() < deadline:
            for contestant, count, own in zip(group.contestants, counts, times, strict=True):
                own.append(contestant.block(count) / count)
    finally:
        gc.enable()
    rows = []
    for contestant, count, own in zip(group.contestants, counts, times, strict=True):
        deciles = statistics.quantiles(own, n=10, method="inclusive")
        ratio = statistics.median(mine / ours for mine, ours in zip(own, times[0], strict=True))
        median, low, high = (1e6 * value for value in (statistics.median(own), deciles[0], deciles[-1]))
        turns = [round(1e6 * each, 4) for each in own]
        rows.append(Row(group.name, contestant.name, median, low, high, ratio, count, turns))
    return rows


def machine() -> dict[str, Any]:
    # Not by importlib: in a development setup graphtune is found without being installed.
    versions = {"graphtune": _core.__version__}
    for name in ("torch", "optree", "openvino", "aitune"):
        if _is_installed(name):
            versions[name] = importlib.metadata.version(name)
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    return {
        "cpu": cpu,
        "cpus": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "torch_threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": versions,
    }


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def print_rows(rows: list[Row]) -> None:
    width = max(len(row.name) for row in rows)
    print(f"  {'':{width}}  {'median µs':>10}  {'p10':>10}  {'p90':>10}  {'ratio':>7}")
    for row in rows:
        times = "  ".join(f"{value:10.2f}" for value in (row.median_us, row.p10_us, row.p90_us))
        print(f"  {row.name:{width}}  {times}  {row.ratio:6.2f}x")
