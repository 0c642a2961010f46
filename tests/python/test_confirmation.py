"""Plans of several engines against one of them alone, in one process; nothing is measured here."""

import math
from pathlib import Path

import pytest
from graphtune.confirmation import confirm_plan
from graphtune.engine_worker import MIXED, _Server, _Size
from graphtune.measurements import Measurements
from graphtune.planning import PlanEntry
from graphtune.probing import Point
from graphtune.processes import WorkerFailure
from graphtune.strategies import Choice, LatencyBudget, Strategy
from graphtune.trials import Trials
from graphtune.tune_options import TuneOptions
from graphtune.turns import TurnsResult
from graphtune.validation import Case

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


def measured(names=("aoti", "onnxruntime", "openvino"), **other_seconds):
    turns = TurnsResult("eager", 0.95)
    for name in ("eager", *names):
        times = list(zip(POINTS, (SECONDS | other_seconds)[name], strict=True))
        turns.rounds[name] = {str(point): dict.fromkeys(range(8), seconds) for point, seconds in times}
        turns.calls[name] = {str(point): [seconds] for point, seconds in times}
    return Measurements(RANGES, POINTS, WEIGHTS, names, turns)


def confirm(measured, found, strategy=None):
    """The plan that is kept of the strategy's, and the note about it."""
    strategy = strategy or Strategy()
    choice = confirm_plan(strategy.choose(measured, 1.01), strategy, 1.01, measured, found, {}, {})
    return choice.plan, choice.notes[-1]


class Found:
    """Trials whose plans are as fast as given, as often as ``rounds``, or that fail; noise is +- 10 %."""

    def __init__(self, plans, found, rounds=20):
        self.plans = plans
        self.found = found
        self.rounds = rounds

    def compare_plans(self, plans, reference, engines, cases, weights):
        assert list(plans.values()) == self.plans and reference == list(plans)[-1] and weights == WEIGHTS
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
        (0.9, 4, ALONE, "0.91x"),
        (1.0, 4, TWO, "1.01x"),
        (0.5, 4, ALONE, "0.51x"),
        (None, 20, ALONE, "failed: gone"),
    ],
)
def test_a_plan_of_several_is_given_up_where_it_is_surely_slower(ratio, rounds, plan, figure):
    kept, note = confirm(measured(("aoti", "openvino")), Found([TWO, ALONE], [ratio], rounds))
    head = "openvino" if plan == ALONE else "aoti and openvino"
    assert kept == plan
    assert note == f"{head} kept: speed with all in one process, over that of openvino: aoti and openvino {figure}"


def test_where_the_comparison_fails_one_engine_serves():
    kept, note = confirm(measured(("aoti", "openvino")), Found([TWO, ALONE], WorkerFailure("gone")))
    assert kept == ALONE
    assert note == "openvino serves, as the comparison with aoti and openvino in one process failed: gone"


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
    kept, note = confirm(measured(), Found([THREE, TWO, ALONE], [three, two]))
    assert kept == plan
    assert ("failed: gone" in note) == (three is None)


def test_a_plan_that_leaves_calls_to_eager_is_no_match():
    # Each is slower than eager at the other's sizes.
    apart = measured(("aoti", "openvino"), aoti=(1.0, 1.0, 3.0), openvino=(3.0, 3.0, 1.0))
    kept, note = confirm(apart, Found([], []))
    assert len(kept) == 2 and note.startswith("aoti and openvino: not compared in one process")


def test_a_plan_that_misses_the_latency_budget_is_no_match():
    # Without aoti the budget is missed at batch 1, without onnxruntime it is kept.
    seconds = {"aoti": (1.0, 1.5, 1.9), "onnxruntime": (1.5, 1.0, 1.5), "openvino": (1.1, 1.04, 1.0)}
    kept, _ = confirm(measured(**seconds), Found([THREE, TWO], [0.5]), LatencyBudget(1050.0))
    assert kept == TWO
    kept, _ = confirm(measured(**seconds), Found([THREE, TWO, ALONE], [0.5, 0.6]), LatencyBudget(1150.0))
    assert kept == ALONE


class OnlyAll(Strategy):
    def choose(self, measured, gate):
        if len(measured.engines) < 3:
            raise LookupError("three engines are wanted")
        return super().choose(measured, gate)


def test_what_a_strategy_cannot_choose_is_said():
    choice = confirm_plan(OnlyAll().choose(measured(), 1.01), OnlyAll(), 1.01, measured(), Found([], []), {}, {})
    assert choice.plan == THREE
    assert choice.notes[0] == "the strategy gave no plan without aoti: LookupError: three engines are wanted"
    assert len(choice.notes) == 4 and "not compared" in choice.notes[3]


def test_a_strategy_that_wants_all_its_engines_gets_them():
    class Stubborn(Strategy):
        def choose(self, measured, gate):
            return Choice(THREE)

    kept, note = confirm(measured(), Found([], []), Stubborn())
    assert kept == THREE and "not compared" in note


class PlanWorker:
    """A worker whose calls of all sizes take a tenth of a second."""

    def __init__(self, name, engines, log):
        self.name, self.engines, self.log = name, engines, log
        log.append(("start", name, engines))

    def call(self, command, **payload):
        if command == "prepare":
            self.log.append((self.name, payload["size_key"], payload["engine"], payload["weight"]))
            return None
        assert command == "block" and payload["size_key"] == MIXED
        if self.name == "plan dies":
            raise WorkerFailure("died")
        self.log.append(("block", self.name, payload["n_calls"]))
        return [0.1] * payload["n_calls"]

    def pause(self):
        pass

    resume = pause

    def close(self):
        self.log.append(("close", self.name))


def test_plans_run_with_their_engines_at_the_sizes_that_weigh_something(monkeypatch):
    log = []
    trials = Trials(TuneOptions(measure_seconds=0.0), [], ["cpu"], lambda case: lambda: None)

    def start(name, engines):
        if name == "plan refused":
            raise WorkerFailure("no memory")
        return PlanWorker(name, engines, log)

    monkeypatch.setattr(trials, "_start", start)
    plans = {"two": TWO, "dies": TWO, "refused": TWO, "openvino": ALONE}
    cases = {point: Case(point, "recorded", Path("case")) for point in POINTS}
    weights = dict(zip(POINTS, (0.25, 0.0, 0.75), strict=True))
    engines = {"aoti": "A", "openvino": "O"}
    turns = trials.compare_plans(plans, "openvino", engines, cases, weights)
    assert turns.failures == {"dies": "died", "refused": "no memory"}
    assert turns.ratio("two", MIXED).value == pytest.approx(1.0)
    assert ("start", "plan two", ["A", "O"]) in log and ("start", "plan openvino", ["O"]) in log
    prepared = [entry for entry in log if entry[0] == "plan two"]
    assert prepared == [("plan two", "b=1", "aoti", 0.25), ("plan two", "b=4", "openvino", 0.75)]
    # The first call of a process tells how long it takes; a block is one call.
    counts = [entry[2] for entry in log if entry[:2] == ("block", "plan two")]
    assert counts == [1, 1]
    assert sum(entry[0] == "start" for entry in log) == sum(entry[0] == "close" for entry in log) == 3
    with pytest.raises(WorkerFailure, match="no memory"):
        trials.compare_plans({"two": TWO, "refused": ALONE}, "refused", engines, cases, weights)


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
