"""Plans of several engines against one of them alone, in one process; nothing is measured here."""

import math

import pytest
from graphtune.confirmation import confirm_plan
from graphtune.engine_worker import MIXED, _Server, _Size
from graphtune.measurements import Measurements
from graphtune.planning import PlanEntry
from graphtune.probing import Point
from graphtune.processes import WorkerFailure
from graphtune.strategies import MaxThroughput
from graphtune.turns import TurnsResult

POINTS = tuple(Point.of({"b": b}) for b in (1, 2, 4))
WEIGHTS = dict(zip(POINTS, (0.25, 0.15, 0.6), strict=True))
RANGES = {"b": (1, 4)}
# Of batch 1, of batch 2, and of batch 4, where most calls are.
SECONDS = {
    "eager": (2.0, 2.0, 2.0),
    "aoti": (1.0, 1.5, 1.9),
    "onnxruntime": (1.5, 1.0, 1.5),
    "openvino": (1.1, 1.1, 1.0),
}
ALONE = [PlanEntry("openvino")]
TWO = [PlanEntry("aoti", (("b", (1, 1)),)), PlanEntry("openvino")]
THREE = [PlanEntry("aoti", (("b", (1, 1)),)), PlanEntry("onnxruntime", (("b", (2, 3)),)), PlanEntry("openvino")]


def measured(names=("aoti", "onnxruntime", "openvino")):
    turns = TurnsResult("eager", 0.95)
    for name in ("eager", *names):
        times = zip(POINTS, SECONDS[name], strict=True)
        turns.rounds[name] = {str(point): dict.fromkeys(range(8), seconds) for point, seconds in times}
    return Measurements(RANGES, POINTS, WEIGHTS, names, turns)


def choose(part):
    """What a strategy gives of a part of the engines."""
    return MaxThroughput().choose(part, 1.01).plan


class Found:
    """Trials whose plans are as fast as given, as often as ``rounds``, or that fail; noise is +- 10 %."""

    def __init__(self, plans, found, rounds=20):
        self.plans = plans
        self.found = found
        self.rounds = rounds

    def compare_plans(self, plans, reference, engines, cases, weights):
        assert list(plans.values()) == self.plans and reference == "openvino" and weights == WEIGHTS
        if isinstance(self.found, Exception):
            raise self.found
        turns = TurnsResult(reference, 0.95)
        for name, speed in zip(plans, [*self.found, 1.0], strict=True):
            if speed is None:
                turns.failures[name] = "gone"
            else:
                noise = (0.9 if turn % 2 else 1.1 for turn in range(self.rounds))
                times = {turn: (each if name != reference else 1.0) / speed for turn, each in enumerate(noise)}
                turns.rounds[name] = {MIXED: times}
        return turns


@pytest.mark.parametrize(
    ("ratio", "rounds", "plan", "figure"),
    [
        (1.04, 20, TWO, "1.05x (0.95..1.16)"),
        (0.96, 20, TWO, "0.97x (0.87..1.07)"),
        (0.9, 20, ALONE, "0.91x (0.82..1.00)"),
        (0.9, 4, TWO, "0.91x"),
        (0.5, 4, ALONE, "0.51x"),
        (None, 20, ALONE, "could not run"),
    ],
)
def test_a_plan_of_several_is_given_up_where_it_is_surely_slower(ratio, rounds, plan, figure):
    assert choose(measured(("aoti", "openvino"))) == TWO
    found = Found([TWO, ALONE], [ratio], rounds)
    kept, note = confirm_plan(TWO, choose, measured(("aoti", "openvino")), found, {}, {})
    assert kept == plan
    head = "openvino alone" if plan == ALONE else "aoti and openvino"
    assert note == f"{head}: in one process, as fast as openvino alone: aoti and openvino {figure}"


def test_a_plan_whose_comparison_fails_is_given_up():
    found = Found([TWO, ALONE], WorkerFailure("gone"))
    kept, note = confirm_plan(TWO, choose, measured(("aoti", "openvino")), found, {}, {})
    assert (kept, note) == (ALONE, "openvino alone: the comparison with aoti and openvino failed: gone")


@pytest.mark.parametrize(
    ("three", "two", "plan"),
    [
        (1.05, 1.0, THREE),
        (0.99, 1.0, THREE),  # level, and faster size by size
        (0.90, 0.99, TWO),
        (0.98, 1.10, TWO),
        (0.80, 0.90, ALONE),
        (None, 1.0, TWO),
        (None, None, ALONE),
    ],
)
def test_fewer_engines_are_tried_before_one_alone(three, two, plan):
    assert choose(measured()) == THREE
    found = Found([THREE, TWO, ALONE], [three, two])
    kept, note = confirm_plan(THREE, choose, measured(), found, {}, {})
    assert kept == plan
    assert ("could not run" in note) == (three is None)


def test_a_strategy_that_wants_all_its_engines_gets_them():
    kept, note = confirm_plan(THREE, lambda part: THREE, measured(), Found([], []), {}, {})
    assert kept == THREE and "not compared" in note


class Timed:
    def __init__(self, seconds):
        self.seconds = seconds
        self.calls = 0

    def time(self, tensors, n_calls):
        self.calls += n_calls
        return [self.seconds] * n_calls


def server_of(small, large):
    server = _Server({}, {}, [], [])
    server.sizes = {"small": _Size(Timed(small), [], 0.75), "large": _Size(Timed(large), [], 0.25)}
    return server


def test_calls_of_all_sizes_count_by_their_weights():
    server = server_of(1e-3, 16e-3)
    assert server.block("large", 2) == [16e-3, 16e-3]
    assert server.block(MIXED, 3) == pytest.approx([2e-3] * 3)
    # As the ratio of a plan's times to another's is the mean of the ratios at the sizes, no size counts by its length.
    gain = server.block(MIXED, 1)[0] / server_of(5e-4, 16e-3).block(MIXED, 1)[0]
    assert math.log(gain) == pytest.approx(0.75 * math.log(2))


def test_calls_of_all_sizes_are_as_frequent_as_recorded_and_in_one_order_everywhere():
    server = server_of(1e-3, 1e-3)
    server.sizes |= {f"rare {i}": _Size(Timed(1e-3), [], 1e-6) for i in range(10)}
    order = server.mixed_order()
    counts = {key: order.count(key) for key in server.sizes}
    assert counts["small"] == 3 * counts["large"] and {counts[f"rare {i}"] for i in range(10)} == {1}
    again = server_of(5e-4, 1e-3)
    again.sizes |= {f"rare {i}": _Size(Timed(1e-3), [], 1e-6) for i in range(10)}
    assert again.mixed_order() == order != sorted(order)
    server.block(MIXED, 2)
    assert {key: size.engine.calls for key, size in server.sizes.items()} == {k: 2 * n for k, n in counts.items()}
