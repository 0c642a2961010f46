"""Settles what the samples can't say about an axis, by asking the model with samples made for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _core
from .graph_calls import Sample

__all__ = ["settle_ambiguities"]

# Each question settles at least one axis; a graph of more ambiguous axes than this is left as learned.
_MAX_QUESTIONS = 8


def settle_ambiguities(
    spec_of: Callable[[], Any],
    sample: Sample,
    signature: Any,
    call: Callable[[tuple[Any, ...], dict[str, Any], int], object],
) -> list[str]:
    """Asks the model about axes that seem to follow the batch size but might vary by themselves.

    The question is a recorded call of which only the axes that surely are batch axes are brought to another batch
    size. A model that takes it has shown that the other axes are independent: the call is recorded, and so learned
    from. One that refuses it needs them to follow the batch size, as learned.

    ``spec_of`` gives the graph as learned so far; ``call`` runs and records a call at a batch size. Gives the
    evidence, in sentences.
    """
    evidence: list[str] = []
    asked: set[tuple[str, int]] = set()
    for _ in range(_MAX_QUESTIONS):
        spec = spec_of()
        if spec.eager_reason:
            break
        open_axes = [
            report
            for report in spec.input_spec.explain()
            if report.ambiguous and report.kind == "batch" and (report.name, report.axis) not in asked
        ]
        if not open_axes:
            break
        question = _question(spec, sample, signature, open_axes)
        asked.update((report.name, report.axis) for report in open_axes)
        if question is None:
            continue
        args, kwargs, batch_size = question
        names = ", ".join(f"axis {report.axis} of {report.locator}" for report in open_axes)
        try:
            with torch.no_grad():
                call(args, kwargs, batch_size)
        except Exception as error:  # a refusal is the answer, in whatever form the model gives it
            lines = str(error).strip().splitlines()
            evidence.append(
                f"{names}: follows the batch size, since the model refuses a call in which only the batch changes to "
                f"{batch_size} ({type(error).__name__}: {lines[0] if lines else ''})"
            )
        else:
            evidence.append(
                f"{names}: independent of the batch size, since the model takes a call in which only the batch changes "
                f"to {batch_size}"
            )
    return evidence


def _question(
    spec: Any, sample: Sample, signature: Any, open_axes: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any], int] | None:
    if sample.batch_size is None:
        return None
    low, high = spec.input_spec.min_batch_size, spec.input_spec.max_batch_size
    batch_size = high if sample.batch_size != high else low
    tensors = list(_core.call_tensors(sample.args, sample.kwargs, signature))
    reports = {(report.name, report.axis): report for report in spec.input_spec.explain()}
    doubtful = {(report.name, report.axis) for report in open_axes}
    names = _core.input_names(spec)
    changed = False
    for index, name in enumerate(names):
        for axis in range(tensors[index].dim()):
            report = reports[name, axis]
            if report.kind != "batch" or (name, axis) in doubtful:
                continue
            rows = torch.arange(report.multiplier * batch_size) % max(tensors[index].shape[axis], 1)
            tensors[index] = tensors[index].index_select(axis, rows)
            changed = True
    if not changed:
        return None
    args, kwargs = _core.call_with_tensors(sample.args, sample.kwargs, tensors, signature)
    return args, kwargs, batch_size
