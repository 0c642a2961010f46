"""What loading a bundle takes: time and peak memory, for each way of loading, each in a process of its own.

    .venv/bin/python benchmarks/python/bench_load.py [--rounds 5] [--json FILE]

MiniLM is tuned for OpenVINO and for ONNX Runtime (builds come from the cache), and saved with a plan of each alone and
of both. Memory is what the process has at most, less what it has with torch and graphtune imported.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

HERE = Path(__file__).resolve()
BACKENDS = ("openvino", "onnxruntime")
WAYS = ("in_turn", "in_parallel", "on_first_call")


def load(bundle: str, way: str) -> None:
    """In a process of its own: prints seconds to load, seconds of the first call, and peak memory in MB."""
    import time

    import torch
    from graphtune.process_group import peak_memory

    import graphtune

    ids = torch.full((1, 16), 2000)
    call = {"input_ids": ids, "token_type_ids": torch.zeros_like(ids), "attention_mask": torch.ones_like(ids)}
    before, started = peak_memory(), time.perf_counter()
    module = graphtune.load(bundle, loading=way)
    loaded = time.perf_counter()
    with torch.inference_mode():
        module(**call)
    called = time.perf_counter()
    print(
        json.dumps(
            {"load": loaded - started, "first_call": called - loaded, "memory": (peak_memory() - before) / 2**20}
        )
    )


def make_bundles(folder: Path) -> dict[str, Path]:
    from graphtune.planning import PlanEntry
    from support.minilm import load_model, tuned_minilm

    import graphtune

    model = load_model()
    bundles: dict[str, Path] = {}
    modules: dict[str, graphtune.Module] = {}
    for backend in BACKENDS:
        module, _ = tuned_minilm(model, force=backend, measure_seconds=0.0, progress=False)
        modules[backend] = module
        bundles[backend] = graphtune.save(module, folder / backend)
    first, second = (modules[backend]._graphtune_tuned[0] for backend in BACKENDS)
    both = dataclasses.replace(
        first,
        plan=[PlanEntry(second.plan[0].engine, (("b", (1, 2)),)), *first.plan],
        engines=[*first.engines, *second.engines],
    )
    modules[BACKENDS[0]]._graphtune_tuned[0] = both
    bundles["both"] = graphtune.save(modules[BACKENDS[0]], folder / "both")
    return bundles


def measure(bundles: dict[str, Path], rounds: int) -> list[dict[str, Any]]:
    rows = {(name, way): [] for name in bundles for way in WAYS}
    for _ in range(rounds):
        for (name, way), found in rows.items():
            command = [sys.executable, HERE, "--load", bundles[name], way]
            shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
            found.append(json.loads(shown.splitlines()[-1]))
    return [
        {"plan": name, "loading": way, **{key: median(each[key] for each in found) for key in found[0]}}
        for (name, way), found in rows.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--load", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.load:
        load(*options.load)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        bundles = make_bundles(Path(folder))
        for name, path in bundles.items():
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            print(f"{name}: {size / 2**20:.0f} MB on disk")
        rows = measure(bundles, options.rounds)
    print(f"\n{'plan':14}{'loading':16}{'load':>10}{'first call':>12}{'memory':>10}")
    for row in rows:
        times = f"{row['load'] * 1e3:8.0f}ms{row['first_call'] * 1e3:10.0f}ms"
        print(f"{row['plan']:14}{row['loading']:16}{times}{row['memory']:8.0f}MB")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
