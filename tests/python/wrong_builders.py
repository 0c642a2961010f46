"""Builders whose engines must not be used; they run in build processes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from graphtune.builders import build_openvino


def build_two_percent_off(job: Mapping[str, Any]) -> dict[str, Any]:
    """An engine whose values are finite, of the right shape, and wrong."""
    program = torch.export.load(job["program"])
    with torch.no_grad():
        for parameter in program.parameters():
            parameter.mul_(1.02)
    other = Path(job["output"]) / "wrong.pt2"
    torch.export.save(program, str(other))
    facts = build_openvino({**job, "program": str(other)})
    other.unlink()
    return facts


def build_and_refuse(job: Mapping[str, Any]) -> dict[str, Any]:
    raise NotImplementedError("no kernel for aten::frobnicate")
