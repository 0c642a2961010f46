"""The builders: each takes a job (BuildJob as a dict), writes its artefacts into job["output"] and gives engine.json.

engine.json, which an engine reads when it is loaded:
  format    1
  backend   "aoti", "onnxruntime", "openvino" or "torchscript"
  file      the artefact's main file, relative to the folder
  files     all its files
  inputs    in the engine's own order: {"index": place among the graph's flat tensors, "name": the engine's name for
            it, "dtype": as the graph has it, "shape": sizes and expressions over the symbols}; an engine may need
            fewer inputs than the graph has
  outputs   in the graph's order: {"result": place among the engine's results, "dtype": as the graph has it,
            "engine_dtype": as the engine gives it, "rank"}; two outputs may share one result
  ranges    symbol -> [low, high], what it was built for
  options   for the engine's runtime: strings, numbers and booleans
  build_options  what the job asked for
  threads   to run with, unless the loader asks for others; 0: the runtime's choice
  versions  of what built it
  built_for {"machine", "cpu_capability", "device"}: what the artefact's code needs
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .export_readback import user_inputs, user_outputs
from .probing import corners
from .resizing import resize_tensors
from .size_expressions import ranges_of

__all__ = [
    "build_aoti",
    "build_openvino",
    "check_at_range_ends",
    "device_type",
    "dtype_name",
    "engine_facts",
    "range_ends",
]

Job = Mapping[str, Any]
Run = Callable[[list[torch.Tensor]], list[torch.Tensor]]


def dtype_name(value: torch.Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")


def device_type(program: torch.export.ExportedProgram) -> str:
    """Where the program computes: the kind of device of its weights and inputs. Raises ValueError for several."""
    tensors = [*program.state_dict.values(), *user_inputs(program), *user_outputs(program)]
    kinds = sorted({tensor.device.type for tensor in tensors if isinstance(tensor, torch.Tensor)})
    if len(kinds) > 1:
        raise ValueError(f"the program's tensors are on {' and '.join(kinds)}; an engine runs on one device")
    return kinds[0] if kinds else "cpu"


def engine_facts(job: Job, program: torch.export.ExportedProgram, file: str, files: list[str]) -> dict[str, Any]:
    inputs = user_inputs(program)
    names = program.graph_signature.user_inputs
    return {
        "format": 1,
        "backend": job["backend"],
        "file": file,
        "files": files,
        "inputs": [
            {"index": i, "name": names[i], "dtype": dtype_name(value), "shape": job["shapes"][i]}
            for i, value in enumerate(inputs)
        ],
        "outputs": [
            {"result": i, "dtype": dtype_name(value), "engine_dtype": dtype_name(value), "rank": value.dim()}
            for i, value in enumerate(user_outputs(program))
        ],
        "ranges": {name: list(span) for name, span in job["ranges"].items()},
        "options": {},
        "build_options": job["options"],
        "threads": job["threads"],
        "versions": {"torch": torch.__version__},
        "built_for": {
            "machine": platform.machine(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "device": device_type(program),
        },
    }


# --- the ends of the ranges ---------------------------------------------------------------------------------------


def range_ends(job: Job, most: int = 16) -> list[dict[str, int]]:
    """The lowest and highest sizes, and the mixed corners; where the program does not hold there, the nearest to them
    where it does."""
    ends = corners({name: (span[0], span[1]) for name, span in job["ranges"].items()}, job["conditions"])
    return [point.values for point in dict.fromkeys([*ends[:1], *ends[-1:], *ends])][:most]


def check_at_range_ends(job: Job, program: torch.export.ExportedProgram, run: Run) -> None:
    """Runs an engine where its ranges end. Values are for validation to compare; here it must run, and shapes fit."""
    examples = program.example_inputs[0] if program.example_inputs else ()
    reference = program.module()
    for sizes in range_ends(job):
        tensors = [tensor.contiguous() for tensor in resize_tensors(examples, job["shapes"], sizes)]
        with torch.no_grad():
            expected = reference(*[tensor.clone() for tensor in tensors])
            actual = run(tensors)
        where = ", ".join(f"{name}={size}" for name, size in sizes.items()) or "the fixed sizes"
        if len(actual) != len(expected):
            raise RuntimeError(f"the engine gives {len(actual)} outputs instead of {len(expected)}")
        for index, (want, got) in enumerate(zip(expected, actual, strict=True)):
            if want.shape != got.shape or want.dtype != got.dtype:
                raise RuntimeError(
                    f"output {index} at {where} is {dtype_name(got)} {list(got.shape)}, "
                    f"eager gives {dtype_name(want)} {list(want.shape)}"
                )


# --- AOTInductor --------------------------------------------------------------------------------------------------


def build_aoti(job: Job) -> dict[str, Any]:
    """One .pt2 package of native code, with the weights folded in where the compiler can."""
    import torch._inductor

    program = torch.export.load(job["program"])
    package = Path(job["output"]) / "model.pt2"
    package.unlink(missing_ok=True)
    options = {"freezing": True, **job["options"]}
    if job["threads"]:
        options["cpp.threads"] = job["threads"]  # the code has its threads written in
    with torch.no_grad():
        torch._inductor.aoti_compile_and_package(program, package_path=str(package), inductor_configs=options)
    compiled = torch._inductor.aoti_load_package(str(package))
    # A fresh copy: compiling may have changed the program in memory.
    program = torch.export.load(job["program"])

    def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        result = compiled(*tensors)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    check_at_range_ends(job, program, run)
    return engine_facts(job, program, package.name, [package.name])


# --- OpenVINO -----------------------------------------------------------------------------------------------------


def _without_repeated_outputs(program: torch.export.ExportedProgram) -> list[int]:
    """Drops outputs that are another one again, which OpenVINO's converter refuses; gives each output's result."""
    import torch.utils._pytree as pytree

    same = (torch.ops.aten.clone.default, torch.ops.aten.detach.default, torch.ops.aten.alias.default)
    output = program.graph.find_nodes(op="output")[0]
    places: dict[Any, int] = {}
    specs, results = [], []
    for node, spec in zip(output.args[0], program.graph_signature.output_specs, strict=True):
        origin = node
        while origin.op == "call_function" and origin.target in same:  # the converter sees through these
            origin = origin.args[0]
        if origin not in places:
            places[origin] = len(places)
            spec.arg = type(spec.arg)(name=origin.name)
            specs.append(spec)
        results.append(places[origin])
    if len(specs) < len(results):
        output.args = (tuple(places),)
        program.graph_signature.output_specs[:] = specs
        signature = program.module_call_graph[0].signature
        assert signature is not None
        signature.out_spec = pytree.tree_structure(tuple(range(len(specs))))
        program.graph_module.recompile()
    return results


def _partial_shape(shape: Sequence[int | str], ranges: Mapping[str, Sequence[int]]) -> Any:
    import openvino

    spans = {name: (span[0], span[1]) for name, span in ranges.items()}
    return openvino.PartialShape([openvino.Dimension(*ranges_of(size, spans)) for size in shape])


def build_openvino(job: Job) -> dict[str, Any]:
    """An OpenVINO model (.xml and .bin) in full precision, its input sizes bounded by the ranges."""
    import openvino

    program = torch.export.load(job["program"])
    original = torch.export.load(job["program"])
    if device_type(original) != "cpu":
        raise ValueError(f"the program is on {device_type(original)}, this engine takes tensors of the CPU")
    for what, tensors in (("input", user_inputs(original)), ("output", user_outputs(original))):
        for place, value in enumerate(tensors):
            if value.dtype == torch.float64:
                raise ValueError(f"{what} {place} is float64, which OpenVINO computes as float32 on a CPU")
    results = _without_repeated_outputs(program)
    model = openvino.convert_model(program)

    # Inputs are found by the exported names: the converter may drop or reorder them.
    names = {name: index for index, name in enumerate(original.graph_signature.user_inputs)}
    indices, shapes = [], {}
    for port in model.inputs:
        index = next((names[name] for name in port.get_names() if name in names), None)
        if index is None:
            raise RuntimeError(f"OpenVINO's input {sorted(port.get_names())} is none of the graph's inputs")
        indices.append(index)
        shapes[port] = _partial_shape(job["shapes"][index], job["ranges"])
    model.reshape(shapes)
    if len(model.outputs) != len(set(results)):
        raise RuntimeError(f"OpenVINO made {len(model.outputs)} results of {len(set(results))} outputs")

    folder = Path(job["output"])
    openvino.save_model(model, str(folder / "model.xml"), compress_to_fp16=False)
    # Without the hint, a CPU with bfloat16 units computes in bfloat16.
    options = {"INFERENCE_PRECISION_HINT": "f32", **job["options"]}
    threads = {"INFERENCE_NUM_THREADS": job["threads"]} if job["threads"] else {}
    compiled = openvino.Core().compile_model(str(folder / "model.xml"), "CPU", {**options, **threads})
    dtypes = [getattr(torch, dtype_name(value)) for value in user_outputs(original)]

    def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        found = compiled([tensors[index].numpy() for index in indices])
        return [torch.from_numpy(found[r].copy()).to(d) for r, d in zip(results, dtypes, strict=True)]

    check_at_range_ends(job, original, run)
    engine = engine_facts(job, original, "model.xml", ["model.xml", "model.bin"])
    engine["inputs"] = [
        {**engine["inputs"][index], "name": port.get_any_name()}
        for index, port in zip(indices, compiled.inputs, strict=True)
    ]
    for output, result in zip(engine["outputs"], results, strict=True):
        output["result"] = result
        output["engine_dtype"] = compiled.outputs[result].element_type.get_type_name()
    engine["options"] = options
    engine["versions"]["openvino"] = openvino.get_version()
    return engine
