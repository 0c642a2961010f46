"""The builder of ONNX Runtime engines; see builders.py for what a builder is called with and gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from . import _core
from .builders import Job, check_at_range_ends, device_type, engine_facts
from .export_readback import user_outputs
from .tensorrt_profiles import shape_profiles

__all__ = ["build_onnxruntime"]


def build_onnxruntime(job: Job) -> dict[str, Any]:
    """An ONNX model; weights that are too large for one file lie beside it."""
    program = torch.export.load(job["program"])
    if device_type(program) != "cpu":
        raise ValueError(f"the program is on {device_type(program)}, this engine takes and gives tensors of the CPU")
    # A copy of its own: the exporter may change what it is given.
    model = torch.onnx.export(torch.export.load(job["program"]), (), dynamo=True, verbose=False)
    assert model is not None
    folder = Path(job["output"])
    model.save(str(folder / "model.onnx"))

    names = [value.name for value in model.model.graph.inputs]
    known = {name: index for index, name in enumerate(program.graph_signature.user_inputs)}
    # So the exporter calls an input that is an output too.
    known |= {f"{name}_orig": index for name, index in known.items()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise RuntimeError(f"the ONNX model's input {unknown[0]} is none of the graph's inputs")
    indices = [known[name] for name in names]
    _check_inputs(job, model.model.graph.inputs, indices)
    if len(model.model.graph.outputs) != len(user_outputs(program)):
        raise RuntimeError(
            f"the ONNX model has {len(model.model.graph.outputs)} outputs, the graph {len(user_outputs(program))}"
        )

    engine = engine_facts(job, program, "model.onnx", sorted(path.name for path in folder.glob("model.onnx*")))
    engine["inputs"] = [{**engine["inputs"][index], "name": name} for name, index in zip(names, indices, strict=True)]
    engine["options"] = {**job["options"], **_profiles(job, engine["inputs"])}
    engine["versions"]["onnxruntime"] = _core.backend_info("onnxruntime").version.removeprefix("onnxruntime ")
    (folder / "engine.json").write_text(json.dumps(engine))
    runtime = _core.Engine("onnxruntime", folder)
    check_at_range_ends(job, program, lambda tensors: list(runtime.run(tensors)))
    return engine


def _profiles(job: Job, inputs: list[dict[str, Any]]) -> dict[str, str]:
    """What TensorRT needs to know of the sizes; nothing for other providers."""
    if "TensorRT" not in job["options"].get("providers", "").split(","):
        return {}
    ranges = {name: (span[0], span[1]) for name, span in job["ranges"].items()}
    profiles = shape_profiles([(each["name"], each["shape"]) for each in inputs], ranges, job["opt"])
    return {f"TensorRT.{name}": value for name, value in profiles.items()}


def _check_inputs(job: Job, inputs: Any, indices: list[int]) -> None:
    """An axis that varies must not have become a number on the way."""
    for value, index in zip(inputs, indices, strict=True):
        for axis, (wanted, size) in enumerate(zip(job["shapes"][index], value.shape, strict=True)):
            if isinstance(wanted, str) and isinstance(size, int):
                raise RuntimeError(f"the ONNX exporter fixed axis {axis} of input {value.name} at {size}")
