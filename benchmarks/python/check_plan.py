"""Measures a tuned model anew, apart from the tuner: is each size served as fast as by the best candidate?

    .venv/bin/python benchmarks/python/check_plan.py [--launches 3] [--rounds 8] [--block 0.2] [--measure-seconds 60]

MiniLM is tuned, then tuned again with each backend forced (builds come from the cache), and all are saved as bundles.
Each bundle and eager run in a process of their own, through `graphtune.load`, in blocks that take turns while the
others are stopped. Processes are started anew for each launch, because where the system puts one's memory makes it a
few per cent faster or slower for as long as it lives. Who was far behind at a size in the first launch sits it out
in the others. The ratio of two is the median over the rounds, with its 95 % confidence interval from their order.
The last row has calls of all sizes, drawn by the recorded traffic, as they may come where the plan is deployed.
Exit status 1 when the plan is more than 3 % slower than some candidate at some size, or slower than eager, beyond that
interval: on a shared machine one engine differs from itself by more than 3 % from round to round.

Nothing of the tuner's own measurement is used, so that both would have to be wrong in the same way.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from graphtune.turn_statistics import Ratio, paired_ratio

os.environ.setdefault("HF_HUB_OFFLINE", "1")

HERE = Path(__file__).resolve()
Times = dict[str, dict[str, dict[int, float]]]  # size -> who -> round -> seconds of a call
BACKENDS = ["openvino", "onnxruntime", "aoti"]
_MIXED = "mixed"  # the row of calls of all sizes
_MIXED_CALLS = 32
_LIMIT = 1.03
_FAR = 1.15


# --- a process that makes the calls of one bundle, or of eager ----------------------------------------------------


def serve(bundle: str) -> None:
    import torch
    from support.minilm import call_of, load_model

    import graphtune

    model = load_model()  # a plan may serve some sizes eagerly
    run = model if bundle == "eager" else graphtune.load(bundle, model)
    print("ready", flush=True)
    with torch.inference_mode():
        for line in sys.stdin:
            order = json.loads(line)
            calls = [call_of(point["b"], point["s0"]) for point in order["points"]]
            times: list[float] = []
            for call in (calls * 2)[:2]:
                run(**call)
            end = time.perf_counter() + order["seconds"]
            while len(times) < 3 or time.perf_counter() < end:
                for call in calls:
                    started = time.perf_counter()
                    run(**call)
                    times.append(time.perf_counter() - started)
            # Of calls of one size the median, of those of many the geometric mean: none counts by its length.
            several = len({json.dumps(point) for point in order["points"]}) > 1
            print(json.dumps(math.exp(fmean(map(math.log, times))) if several else median(times)), flush=True)


class Server:
    def __init__(self, name: str, bundle: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, str(HERE), "--serve", bundle],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        while self._line() != "ready":
            pass
        self._signal(signal.SIGSTOP)

    def block(self, points: list[dict[str, int]], seconds: float) -> float:
        """The time of a call, of blocks of calls of these sizes in turn."""
        self._signal(signal.SIGCONT)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"points": points, "seconds": seconds}) + "\n")
        self._process.stdin.flush()
        time_of_call = float(self._line())
        self._signal(signal.SIGSTOP)
        return time_of_call

    def close(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.name} ended")
        return line.strip()

    def _signal(self, which: signal.Signals) -> None:
        os.killpg(self._process.pid, which)


# --- tuning ---------------------------------------------------------------------------------------------------------


@dataclass
class Tuned:
    """The points that the tuner measured, their shares of the recorded calls, bundles by name ("plan" is the tuned
    one), and the tuner's own result."""

    points: list[dict[str, int]]
    weights: list[float]
    bundles: dict[str, str]
    found: dict[str, object]

    def rows(self, seed: int) -> dict[str, list[dict[str, int]]]:
        """The calls of each row's blocks."""
        mixed = random.Random(seed).choices(self.points, self.weights, k=_MIXED_CALLS)
        return {str(point): [point] for point in self.points} | {_MIXED: mixed}


def tune_all(folder: Path, measure_seconds: float) -> Tuned:
    from support.minilm import load_model, tuned_minilm

    import graphtune

    model = load_model()
    tuned = Tuned([], [], {}, {})
    for name in ("plan", *BACKENDS):
        options: dict[str, object] = {"force": name, "measure_seconds": 0.0, "progress": False}
        if name == "plan":
            options = {"measure_seconds": measure_seconds}
        module, result = tuned_minilm(model, **options)
        graph = result.graphs["minilm"][0]
        if name == "plan":
            tuned.points, tuned.weights, tuned.found = graph.points, graph.weights, result.to_dict()
            print(result, flush=True)
        elif graph.chosen is None:
            print(f"{name} is left out: {'; '.join(graph.notes)}", flush=True)
            continue
        tuned.bundles[name] = str(folder / name)
        graphtune.save(module, tuned.bundles[name])
    return tuned


def measure(launch: int, tuned: Tuned, times: Times, rounds: int, block: float) -> None:
    """All rounds of one launch, which add to `times`."""
    bundles = {**tuned.bundles, "eager": "eager"}
    here = {row: [name for name in bundles if not is_far_behind(of, name)] for row, of in times.items()}
    servers = [Server(name, bundle) for name, bundle in bundles.items()]
    try:
        for turn in range(launch * rounds, (launch + 1) * rounds):
            for row, points in tuned.rows(turn).items():
                for place in range(len(servers)):
                    server = servers[(place + turn) % len(servers)]
                    if server.name in here[row]:
                        times[row][server.name][turn] = server.block(points, block)
    finally:
        for server in servers:
            server.close()


def is_far_behind(of: dict[str, dict[int, float]], name: str) -> bool:
    """Surely more than 15 % slower than some other; the plan itself never is."""
    against = [ratio_of(of, name, other) for other in of if other != name and of[name]]
    return name != "plan" and any(ratio.low is not None and ratio.low > _FAR for ratio in against)


def ratio_of(of: dict[str, dict[int, float]], slow: str, fast: str) -> Ratio:
    """Over the rounds that both took."""
    both = sorted(of[slow].keys() & of[fast].keys())
    return paired_ratio([of[slow][turn] for turn in both], [of[fast][turn] for turn in both])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=8, help="in each launch")
    parser.add_argument("--measure-seconds", type=float, default=60.0, help="the tuner's budget")
    parser.add_argument("--block", type=float, default=0.2, help="seconds of calls a block")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.rounds < 6:
        parser.error("--rounds: a confidence interval of 95 % needs at least 6")
    if options.serve:
        serve(options.serve)
        return 0

    with tempfile.TemporaryDirectory() as folder:
        tuned = tune_all(Path(folder), options.measure_seconds)
        times = Times({row: {name: {} for name in [*tuned.bundles, "eager"]} for row in tuned.rows(0)})
        for launch in range(options.launches):
            measure(launch, tuned, times, options.rounds, options.block)
    return report(times, tuned.found, options.json)


def report(times: Times, found: object, file: Path | None) -> int:
    def bounds(ratio: Ratio) -> tuple[float, float]:
        # Too few rounds for an interval say nothing.
        return (0.0, float("inf")) if ratio.low is None or ratio.high is None else (ratio.low, ratio.high)

    def text(ratio: Ratio) -> str:
        return "{:.3f} ({:.3f}..{:.3f})".format(ratio.value, *bounds(ratio))

    rows, behind, slower, within, surely = [], [], [], 0, 0
    print(f"\n{'size':20}{'eager':>10}{'plan':>10}  {'eager over plan':>22}  {'best other':>12}  plan over it")
    for row, of in times.items():
        against = {name: ratio_of(of, "plan", name) for name in of if name not in ("plan", "eager")}
        best = max(against, key=lambda name: against[name].value)
        gain = ratio_of(of, "eager", "plan")
        slower += [row] if bounds(gain)[1] < 1 else []
        behind += [f"{row}: {name}" for name, each in against.items() if bounds(each)[0] > _LIMIT]
        within += row != _MIXED and against[best].value <= _LIMIT
        surely += row != _MIXED and bounds(against[best])[1] <= _LIMIT
        medians = f"{median(of['eager'].values()) * 1e3:8.2f}ms{median(of['plan'].values()) * 1e3:8.2f}ms"
        print(f"{row:20}{medians}  {text(gain):>22}  {best:>12}  {text(against[best])}")
        ratios = {name: each.to_dict() for name, each in against.items()}
        rows.append({"row": row, "plan_over": ratios, "eager_over_plan": gain.to_dict(), "seconds": of})
    print(f"\nof {len(times) - 1} sizes: within 3 % of the best other at {within}, surely so at {surely}")
    print(f"surely further behind: {'; '.join(behind) or 'nowhere'}")
    print(f"surely slower than eager: {'; '.join(slower) or 'nowhere'}")
    if file is not None:
        file.write_text(json.dumps({"rows": rows, "tuner": found}, indent=1))
    return 1 if behind or slower else 0


if __name__ == "__main__":
    sys.exit(main())
