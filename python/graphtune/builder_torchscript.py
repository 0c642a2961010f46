"""The builder of TorchScript engines; see builders.py for what a builder is called with and gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from . import _core
from .builders import Job, check_at_range_ends, engine_facts
from .torchscript_graph import save_torchscript

__all__ = ["build_torchscript"]


def build_torchscript(job: Job) -> dict[str, Any]:
    """One archive with the weights as constants. Options: ``freeze`` (fold what doesn't depend on the inputs),
    ``optimize`` (the interpreter optimises the graph as it runs)."""
    options = {"freeze": True, "optimize": True, **job["options"]}
    program = torch.export.load(job["program"])
    folder = Path(job["output"])
    save_torchscript(program, str(folder / "model.pt"), freeze=options["freeze"])
    engine = engine_facts(job, program, "model.pt", ["model.pt"])
    engine["options"] = {"optimize": options["optimize"]}
    (folder / "engine.json").write_text(json.dumps(engine))
    runtime = _core.Engine("torchscript", folder)
    # Twice: the interpreter optimises the graph after it has run once.
    for _ in range(2):
        check_at_range_ends(job, program, lambda tensors: list(runtime.run(tensors)))
    return engine
