"""Points of a contract and the samples made for them."""

import pytest
import torch
from graphtune.probing import Point, between, corners, grid, resize_samples
from hypothesis import given
from hypothesis import strategies as st

ranges_strategy = st.dictionaries(
    st.sampled_from(["b", "s0", "s1", "s2", "s3", "s4"]),
    st.tuples(st.integers(1, 40), st.integers(0, 40)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=6,
)


def test_corners_of_a_box():
    assert [str(point) for point in corners({"s0": (3, 9), "b": (1, 8)})] == [
        "b=1, s0=3",
        "b=1, s0=9",
        "b=8, s0=3",
        "b=8, s0=9",
    ]
    assert corners({}) == [Point.of({})]
    assert len(corners({"b": (2, 2), "s0": (1, 5)})) == 2


@given(ranges_strategy)
def test_points_lie_in_the_ranges_and_differ(ranges):
    edge = corners(ranges)
    inner = between(ranges, edge, count=5)
    assert len(set(edge)) == len(edge)
    assert not set(inner) & set(edge)
    for point in edge + inner + grid(ranges, inner):
        assert all(ranges[name][0] <= value <= ranges[name][1] for name, value in point.items)
        assert set(point.values) == set(ranges)


def test_between_finds_odd_and_even_sizes():
    sizes = {point.values["s0"] % 2 for point in between({"b": (1, 8), "s0": (3, 62)}, [], count=6)}
    assert sizes == {0, 1}


def test_between_a_box_without_inside():
    assert between({"b": (1, 2)}, [], count=4) == []


def test_grid_takes_recorded_batch_sizes_and_low_typical_high():
    recorded = [Point.of({"b": b, "s0": s}) for b in (1, 2, 4, 8) for s in (5, 12, 13, 60)]
    points = grid({"b": (1, 8), "s0": (5, 60)}, recorded)
    assert sorted({point.values["b"] for point in points}) == [1, 2, 4, 8]
    assert sorted({point.values["s0"] for point in points}) == [5, 13, 60]
    assert len(points) == 12


@given(ranges_strategy)
def test_grid_is_limited(ranges):
    assert 1 <= len(grid(ranges, [])) <= 12


def test_resize_repeats_and_cuts():
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    (grown,) = resize_samples([ids], [["b", "s0"]], {"b": 3, "s0": 5})
    assert grown.tolist() == [[1, 2, 3, 1, 2], [4, 5, 6, 4, 5], [1, 2, 3, 1, 2]]
    (cut,) = resize_samples([ids], [["2*b", "s0+1"]], {"b": 1, "s0": 1})
    assert cut.shape == (2, 2)


def test_resize_leaves_a_tensor_of_the_right_size_alone():
    ids = torch.zeros(2, 3)
    assert resize_samples([ids], [["b", 3]], {"b": 2})[0] is ids


def test_an_empty_axis_cannot_grow():
    with pytest.raises(ValueError, match="tensor 0: axis 1 is empty"):
        resize_samples([torch.zeros(2, 0)], [["b", "s0"]], {"b": 2, "s0": 3})
