"""Tunes one model many times beside a process that burns a core: the plans must agree, or report a tie where not.

    .venv/bin/python benchmarks/python/check_stability.py [--tunes 10] [--json FILE]

MiniLM is recorded once and tuned again and again, with the builds from the cache. Two plans agree at a size when the
same engine serves it, or when the notes of one of them say that both engines tie there. Exit status 1 when some don't.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

from support.minilm import BATCH_SIZES, load_model, tuned_minilm


def engine_at(plan: list[str], point: dict[str, int]) -> str:
    """The engine that a plan's entries, in words, give a size to."""
    for entry in plan:
        engine, _, where = entry.partition(" ")
        limits = re.findall(r"(\w+) in (\d+)\.\.(\d+)", where)
        if all(int(low) <= point[name] <= int(high) for name, low, high in limits):
            return engine
    return "eager"


def ties_at(notes: list[str], point: dict[str, int]) -> set[str]:
    """The engines that tie at a size, as the notes say."""
    text = ", ".join(f"{name}={value}" for name, value in sorted(point.items()))
    for note in notes:
        found = re.fullmatch(r"a tie of (.+?) at (.+)", note)
        if found and text in found[2].split("; "):
            return set(found[1].split(" and "))
    return set()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tunes", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    module, _ = tuned_minilm(load_model(), measure_seconds=0)
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    tunes = []
    try:
        for number in range(options.tunes):
            started = time.monotonic()
            graph = module.tune(batch_sizes=tuple(BATCH_SIZES), progress=False).graphs["minilm"][0]
            tunes.append(graph)
            print(f"{number + 1}: {'; '.join(graph.plan)} ({time.monotonic() - started:.0f} s)", flush=True)
            for note in graph.notes:
                print(f"   {note}", flush=True)
    finally:
        burner.kill()

    disagreements = 0
    points = tunes[0].points
    for point in points:
        served = [engine_at(graph.plan, point) for graph in tunes]
        for graph, engine in zip(tunes, served, strict=True):
            ties = ties_at(graph.notes, point)
            for other, there in zip(tunes, served, strict=True):
                if there == engine:
                    continue
                if not {engine, there} <= ties and not {engine, there} <= ties_at(other.notes, point):
                    disagreements += 1
                    print(f"at {point}: {engine} here, {there} there, and neither says that they tie")
    plans = {"; ".join(graph.plan) for graph in tunes}
    print(f"{len(tunes)} tunes, {len(plans)} different plans, {disagreements} disagreements without a tie")
    if options.json is not None:
        options.json.write_text(json.dumps([{"plan": graph.plan, "notes": graph.notes} for graph in tunes], indent=1))
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
