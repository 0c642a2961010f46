"""Plans of several engines against one of them alone, in one process; nothing is measured here."""

import math

import pytest
from graphtune.confirmation import confirm_plan
from graphtune.engine_worker import MIXED, _Server, _Size
from graphtune.measurements import Measurements
from graphtune.planning import PlanEntry
from graphtune.probing import Point
from graphtune.processes import WorkerFailure
from graphtune.turns import TurnsResult

POINTS = tuple(Point.of({"b": b}) for b in (1, 4))
SEVERAL = [PlanEntry("aoti", (("b", (1, 2)),)), PlanEntry("openvino")]
ALONE = [PlanEntry("openvino")]


def measured():
    """Aoti is fast at batch 1, OpenVINO everywhere and at batch 4, where most calls are, faster still."""
    seconds = {"eager": (2.0, 2.0), "aoti": (1.0, 1.9), "openvino": (1.1, 1.0)}
    turns = TurnsResult("eager", 0.95)
    for name, values in seconds.items():
        turns.rounds[name] = {str(p): dict.fromkeys(range(8), s) for p, s in zip(POINTS, values, strict=True)}
    return Measurements(
        {"b": (1, 4)}, POINTS, dict(zip(POINTS, (0.25, 0.75), strict=True)), ("aoti", "openvino"), turns
    )


class Found:
    """Trials that compare plans by given ratios, or fail."""

    def __init__(self, ratio):
        self.ratio = ratio

    def compare_plans(self, plans, reference, engines, cases, weights):
        assert plans == {"several engines": SEVERAL, "openvino": ALONE} and reference == "openvino"
        assert [weights[point] for point in POINTS] == [0.25, 0.75]
        if isinstance(self.ratio, Exception):
            raise self.ratio
        return {"openvino": 1.0} | ({} if self.ratio is None else {"several engines": self.ratio})


@pytest.mark.parametrize(
    ("ratio", "plan", "note"),
    [
        (1.04, SEVERAL, "aoti and openvino in one process: 1.04x as fast as openvino alone"),
        (0.995, SEVERAL, "aoti and openvino in one process: 0.99x as fast as openvino alone"),
        (0.97, ALONE, "openvino alone: aoti and openvino in one process are 0.97x as fast"),
        (1.02, SEVERAL, "aoti and openvino in one process: 1.02x as fast as openvino alone"),
        (0.98, ALONE, "openvino alone: aoti and openvino in one process are 0.98x as fast"),
        (None, ALONE, "openvino alone: aoti and openvino could not be run in one process"),
        (WorkerFailure("gone"), ALONE, "openvino alone: its comparison with aoti and openvino failed: gone"),
    ],
)
def test_a_plan_of_several_is_given_up_where_it_is_slower(ratio, plan, note):
    assert confirm_plan(SEVERAL, measured(), Found(ratio), {}, {}) == (plan, note)


class Timed:
    def __init__(self, seconds):
        self.seconds = seconds

    def time(self, tensors, n_calls):
        return [self.seconds] * n_calls


def test_calls_of_all_sizes_in_turn_count_by_their_weights():
    server = _Server({}, {}, [], [])
    server.sizes = {"small": _Size(Timed(1e-3), [], 0.75), "large": _Size(Timed(16e-3), [], 0.25)}
    assert server.block("large", 2) == [16e-3, 16e-3]
    assert server.block(MIXED, 3) == pytest.approx([2e-3] * 3)
    # As the ratio of a plan's times to another's is the mean of the ratios at the sizes, no size counts by its length.
    faster = _Server({}, {}, [], [])
    faster.sizes = {"small": _Size(Timed(5e-4), [], 0.75), "large": _Size(Timed(16e-3), [], 0.25)}
    gain = server.block(MIXED, 1)[0] / faster.block(MIXED, 1)[0]
    assert math.log(gain) == pytest.approx(0.75 * math.log(2))
