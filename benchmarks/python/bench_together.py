"""Engines beside one another: several in one process that alternate, and one that several threads call.

    .venv/bin/python benchmarks/python/bench_together.py [--rounds 12] [--json FILE]

MiniLM, built for OpenVINO, ONNX Runtime and AOTInductor. Alternating: all are loaded in this process, and take turns
call by call, or one is called alone; thread pools that spin while they wait would take the other's cores. A call after
as long a pause as the others take shows what of it is no matter of theirs: threads that fell asleep, and on a machine
that is shared caches that others used. Threads: a module served by an engine of one thread, called from one thread and
from two, beside the same engine called directly.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from support.minilm import call_of, load_model, tuned_minilm

import graphtune
from graphtune import _core

BACKENDS = ("openvino", "onnxruntime", "aoti")
SIZES = ((1, 6), (1, 22), (2, 22), (4, 22), (8, 22), (8, 69))
CALLS_A_BLOCK = 4


def engine_of(module: graphtune.Module, threads: int) -> Any:
    (engine,) = module._graphtune_tuned[0].engines
    return _core.Engine(engine.backend, engine.folder, threads)


def seconds_of(engine: Any, inputs: list[torch.Tensor]) -> float:
    started = time.perf_counter()
    engine.run(inputs)
    return time.perf_counter() - started


def alternating(engines: dict[str, Any], rounds: int) -> list[dict[str, Any]]:
    rows = []
    for batch, length in SIZES:
        inputs = list(call_of(batch, length).values())
        times: dict[str, dict[str, list[float]]] = {
            name: {"alone": [], "after a pause": [], "in turn": []} for name in engines
        }
        for engine in engines.values():
            engine.run(inputs)
        for _ in range(rounds):
            for name, engine in engines.items():
                engine.run(inputs)
                times[name]["alone"] += [seconds_of(engine, inputs) for _ in range(CALLS_A_BLOCK)]
            for _ in range(CALLS_A_BLOCK):
                for name, engine in engines.items():
                    times[name]["in turn"].append(seconds_of(engine, inputs))
            for name, engine in engines.items():
                others = sum(median(of["in turn"]) for other, of in times.items() if other != name)
                for _ in range(CALLS_A_BLOCK):
                    time.sleep(others)
                    times[name]["after a pause"].append(seconds_of(engine, inputs))
        for name, found in times.items():
            alone, paused, in_turn = (median(found[how]) for how in ("alone", "after a pause", "in turn"))
            rows.append({"size": [batch, length], "engine": name, "alone": alone, "paused": paused, "in_turn": in_turn})
            print(
                f"({batch}, {length:2})  {name:12} alone {alone * 1e3:7.2f} ms, in turn {in_turn * 1e3:7.2f} ms: "
                f"{in_turn / alone:.2f}x; after a pause {paused / alone:.2f}x",
                flush=True,
            )
    return rows


def calls_a_second(run: Callable[[], object], threads: int, seconds: float) -> float:
    counts = [0] * threads
    failures: list[Exception] = []
    end = time.perf_counter() + seconds

    def work(index: int) -> None:
        try:
            with torch.inference_mode():
                while time.perf_counter() < end:
                    run()
                    counts[index] += 1
        except Exception as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    return sum(counts) / seconds


def threaded(modules: dict[str, graphtune.Module], folder: Path, rounds: int) -> list[dict[str, Any]]:
    rows = []
    call = call_of(1, 22)
    inputs = list(call.values())
    for name, module in modules.items():
        served = graphtune.load(graphtune.save(module, folder / name), threads=1)
        engine = engine_of(module, 1)
        runs = {"module": lambda s=served: s(**call), "engine": lambda e=engine: e.run(inputs)}
        found: dict[tuple[str, int], list[float]] = {(what, threads): [] for what in runs for threads in (1, 2)}
        for _ in range(rounds):
            for (what, threads), rates in found.items():
                rates.append(calls_a_second(runs[what], threads, 0.3))
        for what in runs:
            gain = median(two / one for one, two in zip(found[what, 1], found[what, 2], strict=True))
            rows.append({"engine": name, "what": what, "two_threads_over_one": gain})
            print(
                f"{name:12} {what:7} {median(found[what, 1]):6.1f} calls a second, two threads {gain:.2f}x", flush=True
            )
    return rows


def main() -> int:
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    model = load_model()
    modules = {name: tuned_minilm(model, force=name, measure_seconds=0.0, progress=False)[0] for name in BACKENDS}
    pairs = alternating({name: engine_of(module, 0) for name, module in modules.items()}, options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        threads = threaded(modules, Path(folder), options.rounds)
    if options.json is not None:
        options.json.write_text(json.dumps({"alternating": pairs, "threads": threads}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
