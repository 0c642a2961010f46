"""The engine ``inductor``: torch.compile on the exported program. In Python only, and compiled anew in each process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

__all__ = ["InductorEngine"]

_PROGRAM = "program.pt2"
_SIZES = "sizes.json"


class InductorEngine:
    """Options: ``mode``, as torch.compile's; ``threads``."""

    @staticmethod
    def version() -> str:
        return f"torch {torch.__version__}"

    def build(self, job: Mapping[str, Any]) -> dict[str, Any]:
        folder = Path(job["output"])
        shutil.copyfile(job["program"], folder / _PROGRAM)
        sizes = {name: job[name] for name in ("shapes", "ranges", "conditions")}
        (folder / _SIZES).write_text(json.dumps(sizes))
        return {"file": _PROGRAM, "options": {"mode": "default", **job["options"]}}

    def load(self, folder: Path, options: Mapping[str, Any]) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
        from .builders import range_ends
        from .resizing import resize_tensors

        program = torch.export.load(str(folder / _PROGRAM))
        settings = dict(torch._inductor.list_mode_options(options["mode"], dynamic=True))
        if options["threads"]:
            settings["cpp.threads"] = options["threads"]
        # The contract has checked what the program's own guards would.
        module = program.module(check_guards=False)
        compiled = torch.compile(module, dynamic=True, fullgraph=True, options=settings)

        def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            return list(compiled(*tensors))

        # Sizes of 1 get code of their own: it is compiled now, not in a call.
        sizes = json.loads((folder / _SIZES).read_text())
        examples = program.example_inputs[0] if program.example_inputs else ()
        with torch.no_grad():
            for end in range_ends(sizes):
                run([tensor.contiguous() for tensor in resize_tensors(examples, sizes["shapes"], end)])
        return run
