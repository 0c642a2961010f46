"""Plans from given speed-ups; no measurement here."""

import math

import pytest
from graphtune.planning import PlanEntry, choose_plan
from graphtune.probing import Point
from hypothesis import given
from hypothesis import strategies as st

RANGES = {"b": (1, 8), "s0": (3, 60)}
POINTS = [Point.of({"b": b, "s0": s}) for b in (1, 2, 4, 8) for s in (3, 20, 60)]


def ratios(function):
    return {point: function(point.values) for point in POINTS}


def test_fastest_engine_serves_everything():
    plan = choose_plan(RANGES, POINTS, {"aoti": ratios(lambda v: 1.5), "openvino": ratios(lambda v: 2.0)})
    assert plan == [PlanEntry("openvino")]


def test_tie_goes_to_the_first():
    plan = choose_plan(RANGES, POINTS, {"aoti": ratios(lambda v: 1.5), "openvino": ratios(lambda v: 1.5)})
    assert plan == [PlanEntry("aoti")]


def test_an_engine_slower_than_eager_somewhere_yields_to_one_that_is_not():
    fast_but = ratios(lambda v: 0.9 if v["b"] == 8 else 9.0)
    plan = choose_plan(RANGES, POINTS, {"aoti": fast_but, "openvino": ratios(lambda v: 1.2)})
    assert plan == [PlanEntry("openvino")]


def test_a_cut_keeps_eager_where_it_is_faster():
    plan = choose_plan(RANGES, POINTS, {"aoti": ratios(lambda v: 2.0 if v["b"] <= 2 else 0.8)})
    assert plan == [PlanEntry("aoti", (("b", (1, 2)),)), PlanEntry("eager")]


def test_the_gate_keeps_eager():
    assert choose_plan(RANGES, POINTS, {"aoti": ratios(lambda v: 1.005)}) == [PlanEntry("eager")]
    assert choose_plan(RANGES, POINTS, {"aoti": ratios(lambda v: 0.5)}) == [PlanEntry("eager")]
    assert choose_plan(RANGES, POINTS, {}) == [PlanEntry("eager")]


def test_an_engine_that_was_not_measured_everywhere_is_not_taken():
    partial = {POINTS[0]: 9.0}
    assert choose_plan(RANGES, POINTS, {"aoti": partial}) == [PlanEntry("eager")]


def test_static_graph():
    point = Point.of({})
    assert choose_plan({}, [point], {"aoti": {point: 1.3}}) == [PlanEntry("aoti")]


@pytest.mark.parametrize("engines", [("aoti",), ("aoti", "openvino")])
@given(data=st.data())
def test_no_measured_point_is_ever_slower_than_eager(engines, data):
    table = {engine: ratios(lambda v: data.draw(st.floats(0.3, 6.0))) for engine in engines}
    plan = choose_plan(RANGES, POINTS, table)
    for point in POINTS:
        entry = next((entry for entry in plan if entry.holds(point)), PlanEntry("eager"))
        if entry.engine != "eager":
            assert table[entry.engine][point] >= 1.0
            assert not math.isnan(table[entry.engine][point])


def test_engines_that_are_level_tie_whatever_the_noise():
    first = ratios(lambda v: 2.0)
    for noise in (0.99, 1.0, 1.015):
        second = ratios(lambda v, noise=noise: 2.0 * noise)
        assert choose_plan(RANGES, POINTS, {"first": first, "second": second}) == [PlanEntry("first")]
    second = ratios(lambda v: 2.1)
    assert choose_plan(RANGES, POINTS, {"first": first, "second": second}) == [PlanEntry("second")]
