"""Decoders of transformers, whose calls change the cache that they are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from graphtune.cache import BuildCache
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
from transformers.integrations.executorch import register_dynamic_cache_export_support
from transformers.modeling_outputs import CausalLMOutputWithPast

import graphtune

VOCABULARY = 64
CONFIG = LlamaConfig(
    vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=256,
)  # fmt: skip
BACKEND = "torchscript"


def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(CONFIG).eval()


def step(model: Any, ids: torch.Tensor, cache: DynamicCache) -> CausalLMOutputWithPast:
    mask = torch.ones(len(ids), cache.get_seq_length() + ids.shape[1], dtype=torch.int64)
    with torch.no_grad():
        result: CausalLMOutputWithPast = model(
            input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True
        )
    return result


def decode(model: Any, prompt: torch.Tensor, chunks: list[int]) -> DynamicCache:
    """A prompt, then as many of the likeliest tokens at a time as the chunks say."""
    cache = DynamicCache(config=CONFIG)
    ids = prompt
    for chunk in chunks:
        logits = step(model, ids, cache).logits
        ids = logits[:, -1:].argmax(-1).repeat(1, chunk)
    step(model, ids, cache)
    return cache


def record(module: Any, *prompts: tuple[int, list[int]]) -> None:
    generator = torch.Generator().manual_seed(0)
    for batch in (1, 2, 4):
        for length, chunks in prompts:
            with graphtune.batch_size(batch):
                decode(module, torch.randint(0, VOCABULARY, (batch, length), generator=generator), chunks)


def assert_same_cache(actual: DynamicCache, expected: DynamicCache) -> None:
    assert len(actual.layers) == len(expected.layers)
    for one, other in zip(actual.layers, expected.layers, strict=True):
        torch.testing.assert_close(one.keys, other.keys, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(one.values, other.values, rtol=1e-3, atol=1e-4)
        assert (one.is_initialized, one.device) == (other.is_initialized, other.device)


KEYS = "['past_key_values'].layers[0].keys"


@pytest.fixture(scope="module")
def tuned(build_cache: BuildCache) -> tuple[graphtune.Module, graphtune.TuneResult]:
    module = graphtune.Module(llama(), name="llama")
    record(module, (3, [1, 1]), (5, [1, 1]), (6, [1, 1]))
    result = module.tune(
        progress=False, backends=(BACKEND,), force=BACKEND, measure_seconds=0, cache=build_cache,
        contract={KEYS: {2: graphtune.Dynamic("past", 1, 64)}},
    )  # fmt: skip
    return module, result


def sizes_of(spec: Any) -> dict[tuple[str, int], int | str]:
    return {(str(axis.locator), axis.axis): axis.size for axis in spec.input_spec.explain()}


def test_the_mask_is_as_long_as_past_and_new_tokens_together() -> None:
    module = graphtune.Module(llama(), name="llama")
    record(module, (3, [1, 2, 1]), (5, [2, 3, 1]), (6, [1, 1, 3]))
    prompt, decoding = module.graph_specs
    assert (prompt.sample_count, decoding.sample_count) == (9, 27)
    assert not decoding.eager_reason
    sizes = sizes_of(decoding)
    new, past = sizes["['input_ids']", 1], sizes[KEYS, 2]
    assert {new, past} == {"s0", "s1"}
    assert sizes["['past_key_values'].layers[1].values", 2] == past
    assert sizes["['attention_mask']", 1] == "s0+s1"


def test_prompts_and_steps_are_two_graphs(tuned: Any) -> None:
    module, result = tuned
    prompt, decoding = module.graph_specs
    assert (prompt.sample_count, decoding.sample_count) == (9, 18)
    sizes = sizes_of(decoding)
    assert (sizes["['input_ids']", 1], sizes[KEYS, 2], sizes["['attention_mask']", 1]) == ("1", "s0", "s0+1")
    assert decoding.symbols["s0"] == (1, 64)
    for graph in result.graphs["llama"]:
        assert graph.chosen is not None, str(result)


def serve_lengths_never_recorded(served: Any) -> None:
    eager = llama()
    # Prompts of lengths that were recorded, then caches far beyond what was seen.
    for batch, length, chunks in ((3, 4, [1] * 30), (4, 6, [1] * 6), (1, 3, [1] * 3)):
        prompt = torch.randint(0, VOCABULARY, (batch, length))
        cache, expected_cache = DynamicCache(config=CONFIG), DynamicCache(config=CONFIG)
        ids = prompt
        for chunk in [*chunks, 1]:
            got, expected = step(served, ids, cache), step(eager, ids, expected_cache)
            torch.testing.assert_close(got.logits, expected.logits, rtol=1e-3, atol=1e-4)
            assert type(got) is CausalLMOutputWithPast
            assert got.past_key_values is cache
            assert_same_cache(cache, expected_cache)
            ids = expected.logits[:, -1:].argmax(-1).repeat(1, chunk)
        assert cache.get_seq_length() == length + sum(chunks)
    assert served.stats()["by_graph"] == {"graph_0": {BACKEND: 3}, "graph_1": {BACKEND: 39}}
    assert served.stats()["misses"] == {}


def test_lengths_that_were_never_recorded_are_served(tuned: Any) -> None:
    module, _ = tuned
    module.miss_policy = "error"
    serve_lengths_never_recorded(module)


@pytest.mark.parametrize("with_model", [False, True])
def test_a_bundle_does_the_same(tuned: Any, with_model: bool, tmp_path: Path) -> None:
    graphtune.save(tuned[0], tmp_path / "bundle")
    if with_model:
        serve_lengths_never_recorded(graphtune.load(tmp_path / "bundle", llama(), miss_policy="error"))
    else:
        serve_lengths_never_recorded(graphtune.load(tmp_path / "bundle"))


def test_prompts_without_a_cache_give_a_new_one() -> None:
    module = graphtune.Module(llama(), name="llama")
    for batch in (1, 2):
        with graphtune.batch_size(batch), torch.no_grad():
            result = module(input_ids=torch.ones(batch, 3, dtype=torch.int64), use_cache=True)
    assert type(result.past_key_values) is DynamicCache
    assert not module.graph_specs[0].eager_reason


def test_transformers_own_registration_with_pytree_changes_nothing() -> None:
    cache = DynamicCache()
    cache.update(torch.zeros(1, 2, 3, 8), torch.zeros(1, 2, 3, 8), 0)
    known = graphtune._core.key_of(cache)
    register_dynamic_cache_export_support()
    try:
        assert graphtune._core.key_of(cache) == known
    finally:
        pytree._deregister_pytree_node(DynamicCache)


def test_a_sliding_window_keeps_the_graph_eager() -> None:
    config = MistralConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, sliding_window=8,
    )  # fmt: skip
    module = graphtune.Module(MistralForCausalLM(config).eval(), name="mistral")
    with torch.no_grad():
        module(torch.ones(1, 3, dtype=torch.int64), past_key_values=DynamicCache(config=config), use_cache=True)
    assert "DynamicSlidingWindowLayer" in module.graph_specs[0].eager_reason
    assert "['past_key_values'].layers[0]" in module.graph_specs[0].eager_reason
