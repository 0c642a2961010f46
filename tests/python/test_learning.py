"""What several samples teach about shapes."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphtune import SampleMetadata, TensorSpec


def t(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def learn(*samples: tuple[Any, int | None]) -> SampleMetadata:
    """Each sample: sizes of the only tensor, or of several, and the batch size."""
    metadata: SampleMetadata | None = None
    for sizes, batch in samples:
        shapes = sizes if isinstance(sizes[0], tuple) else (sizes,)
        other = SampleMetadata.from_inputs(tuple(t(*shape) for shape in shapes), {}, batch_size=batch)
        if metadata is None:
            metadata = other
        else:
            metadata.update_shapes_seen(other)
    assert metadata is not None
    return metadata


def test_a_first_sample_is_static() -> None:
    (spec,) = learn(((2, 3), 2)).tensor_specs
    assert (spec.shape, spec.min_shape, spec.max_shape) == ([2, 3], [2, 3], [2, 3])
    assert not spec.has_batch_axis()
    assert not spec.has_dynamic_axis()
    assert spec.get_batch_axis_multipliers() == {}


def test_batch_and_dynamic_axes() -> None:
    (spec,) = learn(((1, 10), 1), ((2, 25), 2)).tensor_specs
    assert (spec.shape, spec.min_shape, spec.max_shape) == (["batch0", "dim1"], [1, 10], [2, 25])
    assert spec.has_batch_axis()
    assert spec.has_dynamic_axis()


def test_multiplier() -> None:
    (spec,) = learn(((2, 3), 1), ((4, 3), 2)).tensor_specs
    assert spec.get_batch_axis_multipliers() == {0: 2}


def test_an_axis_that_might_be_either_is_ambiguous() -> None:
    metadata = learn(((1, 10), 1), ((2, 20), 2))
    (spec,) = metadata.tensor_specs
    assert spec.shape == ["batch0", "batch1"]
    assert spec.get_batch_axis_multipliers() == {0: 1, 1: 10}
    report = metadata.explain()[1]
    assert report.ambiguous
    assert report.kind == "batch"
    assert report.multiplier == 10
    assert report.settle
    assert report.reason
    assert report.decided_by == [(1, 10), (2, 20)]


@pytest.mark.parametrize("order", list(itertools.permutations([((2, 8), 2), ((4, 8), 4), ((4, 16), 4)])))
def test_order_does_not_matter(order: Any) -> None:
    (spec,) = learn(*order).tensor_specs
    assert (spec.shape, spec.min_shape, spec.max_shape) == (["batch0", "dim1"], [2, 8], [4, 16])


def test_a_short_last_batch() -> None:
    (spec,) = learn(((4, 8), 4), ((2, 8), 2), ((3, 8), 4)).tensor_specs
    assert spec.shape == ["batch0", 8]
    assert spec.min_shape == [2, 8]


def test_axes_that_are_equal_share_a_symbol() -> None:
    metadata = learn((((1, 5), (1, 5)), 1), (((2, 7), (2, 7)), 2), (((4, 9), (4, 9)), 4))
    sizes = [report.size for report in metadata.explain()]
    assert sizes == ["b", "s0", "b", "s0"]
    assert metadata.symbols == {"b": (1, 4), "s0": (5, 9)}


def test_unrelated_axes_do_not() -> None:
    metadata = learn((((1, 5), (1, 6)), 1), (((2, 7), (2, 3)), 2), (((4, 9), (4, 8)), 4))
    assert [report.size for report in metadata.explain()] == ["b", "s0", "b", "s1"]


def test_sums_are_found() -> None:
    samples = [(past, new) for past, new in ((3, 4), (5, 1), (8, 6), (2, 9), (11, 5))]
    metadata = learn(*((((b, past), (b, new), (b, past + new)), b) for b, (past, new) in enumerate(samples, 1)))
    assert metadata.explain()[5].size in ("s0+s1", "s1+s0")


def test_merging_unites_ranges() -> None:
    left, right = learn(((1, 5), 1), ((2, 6), 2)), learn(((8, 3), 8), ((4, 9), 4))
    left.update_shapes_seen(right)
    (spec,) = left.tensor_specs
    assert (spec.shape, spec.min_shape, spec.max_shape) == (["batch0", "dim1"], [1, 3], [8, 9])
    assert (left.min_batch_size, left.max_batch_size) == (1, 8)


@pytest.mark.parametrize(
    ("batch_size", "error"),
    [(0, ValueError), (-1, ValueError), (2**70, ValueError), (True, TypeError), (1.0, TypeError), ("1", TypeError)],
)
def test_bad_batch_sizes(batch_size: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="batch_size"):
        SampleMetadata.from_inputs((t(1),), {}, batch_size=batch_size)
    with pytest.raises(error, match="batch_size"):
        SampleMetadata.from_outputs(t(1), batch_size=batch_size)
    with pytest.raises(error, match="batch_size"):
        SampleMetadata.from_inputs((t(1),), {}).make_batch((t(1),), {}, batch_size)
    with pytest.raises(error, match="batch_size"):
        TensorSpec("a", [1], torch.float32, batch_size)


def test_integers_of_other_libraries_are_batch_sizes() -> None:
    import numpy as np

    assert SampleMetadata.from_inputs((t(2),), {}, batch_size=np.int64(2)).max_batch_size == 2


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ((t(1, 2, 3), {}), "rank"),
        ((t(1, 2).half(), {}), "float16"),
        ((t(1, 2), {"a": 1}), "'a'"),
        ((t(1, 2).to_sparse(), {}), "sparse"),
    ],
)
def test_samples_of_another_graph_are_refused(other: Any, words: str) -> None:
    metadata = SampleMetadata.from_inputs((t(1, 2),), {}, strict=True, batch_size=1)
    before = copy.copy(metadata)
    tensor, kwargs = other
    with pytest.raises(ValueError, match=words):
        metadata.update_shapes_seen(SampleMetadata.from_inputs((tensor,), kwargs, strict=True, batch_size=2))
    assert metadata.describe() == before.describe()


def test_copies_are_independent() -> None:
    metadata = learn(((1, 5), 1))
    before = copy.deepcopy(metadata)
    metadata.update_shapes_seen(learn(((2, 5), 2)))
    assert before.tensor_specs[0].shape == [1, 5]


def everything(metadata: SampleMetadata) -> Any:
    """All that was learned."""
    reports = [(repr(each), each.reason, each.settle, each.decided_by) for each in metadata.explain()]
    return metadata.describe(), metadata.symbols, (metadata.min_batch_size, metadata.max_batch_size), reports


def sample(rows: int, length: int, other: int, batch: int | None) -> tuple[Any, int | None]:
    """Three tensors, of which one axis may be a batch axis and one a sum."""
    return ((rows * (batch or 1), length), (rows, other, length + other), ((batch or 1), 3)), batch


samples = st.lists(
    st.builds(sample, st.integers(1, 4), st.integers(1, 6), st.integers(1, 3), st.sampled_from([None, 1, 2, 4])),
    min_size=1,
    max_size=7,
)


@given(samples, st.randoms())
def test_any_order_of_samples_teaches_the_same(seen: list[Any], random: Any) -> None:
    shuffled = seen[:]
    random.shuffle(shuffled)
    assert everything(learn(*shuffled)) == everything(learn(*seen))


@given(samples, st.randoms())
def test_any_grouping_of_learned_metadata_teaches_the_same(seen: list[Any], random: Any) -> None:
    """Any two are merged until one is left; one of the samples is learned from twice."""
    parts = [learn(each) for each in (*seen, random.choice(seen))]
    while len(parts) > 1:
        random.shuffle(parts)
        last = parts.pop()
        everything(last)  # what was derived in between must leave no trace
        random.choice(parts).update_shapes_seen(last)
    assert everything(parts[0]) == everything(learn(*seen))
