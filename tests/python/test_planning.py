"""Plans from what may serve each point; no measurement here."""

import itertools
import math

import pytest
from graphtune.planning import PlanEntry, make_plan, plan_engines
from graphtune.probing import Point
from hypothesis import given
from hypothesis import strategies as st

RANGES = {"b": (1, 8), "s0": (3, 60)}
POINTS = [Point.of({"b": b, "s0": s}) for b in (1, 2, 4, 8) for s in (3, 20, 60)]
EVERYWHERE = {"b": range(1, 9), "s0": range(3, 61)}


def plan_of(allowed, engines=("aoti", "openvino"), gain=lambda name, point: 0.0, points=POINTS):
    return make_plan(RANGES, {point: allowed(point.values) for point in points}, engines, gain)


def serves(plan, **values):
    return next(entry.engine for entry in plan if entry.holds(Point.of(values)))


def test_one_engine_that_may_serve_everything_does():
    assert plan_of(lambda v: ["openvino"]) == [PlanEntry("openvino")]


def test_as_few_engines_as_possible():
    # aoti alone would do, openvino is allowed at most points.
    plan = plan_of(lambda v: ["aoti"] if v["b"] == 8 else ["aoti", "openvino", "eager"])
    assert plan == [PlanEntry("aoti")]


def test_level_plans_go_to_the_engine_named_first_and_better_ones_to_the_better():
    both = lambda v: ["aoti", "openvino"]  # noqa: E731
    level = lambda name, point: {"aoti": 1.0, "openvino": 1.0 + math.log(1.015)}[name] / len(POINTS)  # noqa: E731
    assert plan_of(both, gain=level) == [PlanEntry("aoti")]
    assert plan_of(both, ("openvino", "aoti"), gain=level) == [PlanEntry("openvino")]
    better = lambda name, point: {"aoti": 1.0, "openvino": 1.0 + math.log(1.03)}[name] / len(POINTS)  # noqa: E731
    assert plan_of(both, gain=better) == [PlanEntry("openvino")]


def test_two_engines_meet_half_way_between_measured_sizes():
    plan = plan_of(lambda v: ["aoti"] if v["s0"] <= 20 else ["openvino"])
    assert plan == [PlanEntry("aoti", (("s0", (3, 40)),)), PlanEntry("openvino")]


def test_one_engine_serves_wherever_it_may_however_many_regions_that_takes():
    # aoti must serve two corners, openvino all the rest; in fewer regions aoti would serve half of the sizes.
    def allowed(v):
        if v["s0"] == 3 and v["b"] in (2, 8):
            return ["aoti"]
        return ["aoti", "openvino"] if v["s0"] == 3 else ["openvino"]

    plan = plan_of(allowed)
    for b, s in itertools.product((1, 2, 4, 8), (3, 20, 60)):
        assert serves(plan, b=b, s0=s) == ("aoti" if s == 3 and b in (2, 8) else "openvino")


@pytest.mark.parametrize(("often", "main"), [(3, "aoti"), (60, "openvino")])
def test_the_one_that_can_serve_most_calls_serves_where_both_may(often, main):
    def allowed(v):
        return {3: ["aoti"], 20: ["aoti", "openvino"], 60: ["openvino"]}[v["s0"]]

    points = {point: allowed(point.values) for point in POINTS}
    share = lambda point: float(point.values["s0"] == often)  # noqa: E731
    plan = make_plan(RANGES, points, ["aoti", "openvino"], lambda n, p: 0.0, share)
    assert len(plan) == 2 and serves(plan, b=4, s0=20) == main


def test_what_was_not_measured_beside_eager_is_eager():
    plan = plan_of(lambda v: ["aoti"] if v["b"] <= 2 else ["eager"])
    assert plan == [PlanEntry("aoti", (("b", (1, 2)),)), PlanEntry("eager")]
    plan = plan_of(lambda v: ["aoti"] if v["s0"] == 60 else ["eager"])
    assert plan == [PlanEntry("aoti", (("s0", (60, 60)),)), PlanEntry("eager")]


def test_regions_of_two_symbols():
    plan = plan_of(lambda v: ["openvino"] if v["b"] == 1 or v["s0"] == 3 else ["aoti"])
    assert len(plan) == 2  # aoti where both are large, openvino everywhere else
    for b, s in itertools.product((1, 2, 4, 8), (3, 20, 60)):
        assert serves(plan, b=b, s0=s) == ("openvino" if b == 1 or s == 3 else "aoti")


def test_eager_alone():
    assert plan_of(lambda v: ["eager"]) == [PlanEntry("eager")]
    assert make_plan(RANGES, {}, ["aoti"], lambda name, point: 0.0) == [PlanEntry("eager")]
    assert plan_engines([PlanEntry("eager")]) == []


def test_static_graph():
    assert make_plan({}, {Point.of({}): ["aoti"]}, ["aoti"], lambda n, p: 0.0) == [PlanEntry("aoti")]


def test_a_point_that_nobody_may_serve_is_an_error():
    with pytest.raises(ValueError, match="none that may serve"):
        plan_of(lambda v: [] if v["b"] == 1 else ["aoti"])


def test_corners_of_many_symbols():
    ranges = {f"s{i}": (1, 9) for i in range(8)}
    low = dict.fromkeys(ranges, 1)
    points = [Point.of(low), Point.of(dict.fromkeys(ranges, 9))]
    points += [Point.of({**low, name: 9}) for name in ranges]
    allowed = {point: ["aoti"] if index % 2 else ["openvino"] for index, point in enumerate(points)}
    plan = make_plan(ranges, allowed, ["aoti", "openvino"], lambda n, p: 0.0)
    for point, names in allowed.items():
        assert next(entry.engine for entry in plan if entry.holds(point)) in names


@given(data=st.data())
def test_every_point_is_served_by_one_of_those_allowed_and_every_size_by_someone(data):
    names = ["aoti", "openvino", "onnxruntime", "eager"]
    allowed = {p: data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True)) for p in POINTS}
    table = {(n, p): data.draw(st.floats(-1, 2)) for n in names for p in POINTS}
    plan = make_plan(RANGES, allowed, names[:3], lambda name, point: table[name, point])
    assert len(set(plan)) == len(plan)
    for point, there in allowed.items():
        assert serves(plan, **point.values) in there
    for b, s in itertools.product(EVERYWHERE["b"], EVERYWHERE["s0"]):
        assert serves(plan, b=b, s0=s) in names
    # No smaller set of engines, with eager beside them, would do.
    count = len(plan_engines(plan))
    for smaller in itertools.chain.from_iterable(itertools.combinations(names[:3], n) for n in range(count)):
        assert not all(set(there) & {*smaller, "eager"} for there in allowed.values())
