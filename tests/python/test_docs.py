"""The examples in docs/ run, and print what the page says."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

import graphtune

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) of each fenced block."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def run(code: str, page: str, namespace: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, page, "exec"), namespace)
    return printed.getvalue()


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.fixture
def namespace(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look their module up
    return vars(module)


def test_concepts(namespace: dict[str, Any]) -> None:
    page = blocks("concepts.md")
    assert len(page) > 10
    for (language, code), (following, expected) in zip(page, [*page[1:], ("", "")], strict=True):
        if language == "python":
            printed = run(code, "concepts.md", namespace)
            assert lines(printed) == (lines(expected) if following == "text" else []), code
    # Every text block is the output of a block of code.
    assert all(before == "python" for (before, _), (each, _) in itertools.pairwise(page) if each == "text")


class Pipeline:
    """Calls its encoder several times."""

    def __init__(self) -> None:
        self.encoder: torch.nn.Module = torch.nn.Linear(4, 4).eval()

    def __call__(self, prompts: list[str], steps: int) -> torch.Tensor:
        x = torch.tensor([[float(len(prompt))] * 4 for prompt in prompts])
        for _ in range(steps):
            x = self.encoder(x)
        return x


class Boxes:
    def __init__(self, corners: torch.Tensor, format: str) -> None:
        self.corners, self.format = corners, format


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_python_guide(namespace: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    # What is built and measured is tested elsewhere; here no engine is tried.
    for place in ("graphtune.tuner", "graphtune.module"):
        original = sys.modules[place].make_options
        monkeypatch.setattr(
            sys.modules[place], "make_options", lambda *args, o=original: o(False, args[1], {"backends": (), **args[2]})
        )
    namespace.update(
        graphtune=graphtune,
        model=torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU()).eval(),
        dataset=torch.randn(16, 4),
        pipeline=Pipeline(),
        prompts=["a", "bb", "ccc", "dddd", "eeeee"],
        traffic=[(torch.randn(size, 4), None) for size in (1, 3, 2)],
        Boxes=Boxes,
    )
    for language, code in blocks("python.md"):
        if language == "python":
            run(code, "python.md", namespace)
    result, module = namespace["result"], namespace["module"]
    assert list(result.graphs) == ["encoder"]
    assert module.tuned
    assert namespace["served"].name == "encoder"
    boxes = graphtune.SampleMetadata.from_outputs(Boxes(torch.zeros(2, 4), "xyxy"))
    assert [str(locator) for locator, _ in boxes.tensor_data] == [".corners"]
