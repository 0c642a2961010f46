"""The printed forms of the document that the project realises."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import graphtune
from graphtune import InfoLevel, SampleMetadata

RUNNER = Path(__file__).parents[3] / "shared" / "seed" / "run_blocks.py"


@dataclasses.dataclass
class ModelInput:
    data: torch.Tensor
    metadata: str


@pytest.mark.skipif(not RUNNER.exists(), reason="the document is not beside this clone")
def test_all_blocks_of_the_document() -> None:
    done = subprocess.run([sys.executable, RUNNER, "--show-diff"], capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("17 passed, 0 failed"), done.stdout + done.stderr


def test_full_table() -> None:
    metadata = SampleMetadata.from_inputs((torch.zeros(2, 3, 4),), {})
    assert repr(metadata) == (
        "Tensors:\n"
        "╒═══════════╤════════╤═══════════╤═════════════╤═════════════╤═══════════════╕\n"
        "│ Locator   │ Name   │ Shape     │ Min Shape   │ Max Shape   │ Dtype         │\n"
        "╞═══════════╪════════╪═══════════╪═════════════╪═════════════╪═══════════════╡\n"
        "│ [0]       │ args_0 │ [2, 3, 4] │ [2, 3, 4]   │ [2, 3, 4]   │ torch.float32 │\n"
        "╘═══════════╧════════╧═══════════╧═════════════╧═════════════╧═══════════════╛"
    )
    assert metadata.describe() == metadata.describe(InfoLevel.FULL) == repr(metadata)


def test_medium_and_short() -> None:
    metadata = SampleMetadata.from_inputs((torch.zeros(2, 3), torch.zeros(4, 5, 6)), {"mask": torch.zeros(2, 1)})
    assert metadata.describe(InfoLevel.SHORT) == "Tensors: args_0, args_1, kwargs_mask"
    assert metadata.describe(InfoLevel.MEDIUM) == (
        "Tensors:\n"
        "Locator    Name         Shape\n"
        "---------  -----------  ---------\n"
        "[0]        args_0       [2, 3]\n"
        "[1]        args_1       [4, 5, 6]\n"
        "['mask']   kwargs_mask  [2, 1]"
    )


def test_tensors_in_call_order_and_others_by_name() -> None:
    args = [
        "first",
        torch.zeros(1),
        (torch.zeros(2), torch.zeros(3)),
        {"t": torch.zeros(4)},
        ModelInput(data=torch.zeros(5), metadata="info"),
    ]
    kwargs = {
        "t1": torch.zeros(1, 1),
        "t2": [torch.zeros(2, 2), torch.zeros(3, 3)],
        "t3": ModelInput(data=torch.zeros(4, 4), metadata="xyz"),
        "last": "other",
    }
    metadata = SampleMetadata.from_inputs(args, kwargs, strict=True)
    assert [str(locator) for locator, _ in metadata.tensor_data] == [
        "[1]",
        "[2][0]",
        "[2][1]",
        "[3]['t']",
        "[4].data",
        "['t1']",
        "['t2'][0]",
        "['t2'][1]",
        "['t3'].data",
    ]
    assert [spec.name for spec in metadata.tensor_specs] == [
        "args_1",
        "args_2_0",
        "args_2_1",
        "args_3_t",
        "args_4.data",
        "kwargs_t1",
        "kwargs_t2_0",
        "kwargs_t2_1",
        "kwargs_t3.data",
    ]
    assert [(str(locator), value) for locator, value in metadata.other_data] == [
        ("[0]", "first"),
        ("[4].metadata", "info"),
        ("['last']", "other"),
        ("['t3'].metadata", "xyz"),
    ]


def test_args_are_shown_in_call_order_beyond_nine() -> None:
    args = tuple(torch.zeros(1) if index % 2 else index for index in range(12))
    metadata = SampleMetadata.from_inputs(args, {}, strict=True)
    assert [spec.name for spec in metadata.tensor_specs] == [f"args_{index}" for index in range(1, 12, 2)]
    assert [str(locator) for locator, _ in metadata.other_data] == [f"[{index}]" for index in range(0, 12, 2)]


def test_one_module_makes_graphs_of_different_ranks_and_arguments() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, mask: bool = False, mode: str = "train") -> torch.Tensor:
            return x

    module = graphtune.RecordingModule(Model())
    module(torch.zeros(1, 10))
    module(torch.zeros(1, 10, 5))
    module(torch.zeros(1, 10), mask=True)
    module(torch.zeros(1, 10), mode="eval")
    module(torch.zeros(7, 3))
    assert len(module.graph_specs) == 4
