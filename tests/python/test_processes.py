"""Workers that die, hang and raise; measuring in turns, with participants whose times are made up."""

import itertools
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from graphtune.processes import Worker, WorkerDied, WorkerError, WorkerFailure, WorkerTimeout
from graphtune.turn_statistics import (
    Ratio,
    chance_of_zero_mean,
    median_interval,
    paired_ratio,
    quantile,
    separated,
    typical_times,
)
from graphtune.turns import LocalParticipant, WorkerParticipant, take_turns

ECHO = "misbehaving_builders:echo_worker"


def is_running(pid):
    return Path(f"/proc/{pid}").exists() and state_of(pid) != "Z"


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_commands_and_results():
    with Worker(ECHO, {"base": 1}) as worker:
        assert worker.call("hello", x=[1, 2]) == {"command": "hello", "pid": worker.pid, "base": 1, "x": [1, 2]}
        worker.call("print")  # what it prints is not taken for a reply
        worker.call("count")
        assert worker.call("count")["count"] == 2
        assert worker.pid != os.getpid()
        pid = worker.pid
    assert not is_running(pid)
    with pytest.raises(WorkerFailure, match="closed"):
        worker.call("hello")
    worker.close()


def test_peak_memory_is_the_processes_own():
    code = "from graphtune.process_group import peak_memory; print(peak_memory())"
    before = int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    large = b"x" * (before + 2**28)  # more than such a process ever has
    beside = int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    del large
    assert 2**20 < beside < before + 2**27


def test_large_messages():
    with Worker(ECHO) as worker:
        assert worker.call("hello", x="y" * 3_000_000)["x"] == "y" * 3_000_000


def test_an_error_leaves_the_worker_alive():
    with Worker(ECHO, name="echo") as worker:
        with pytest.raises(WorkerError, match="echo: ValueError: no such size: 7") as caught:
            worker.call("raise")
        assert caught.value.kind == "ValueError" and "Traceback" in caught.value.details
        assert worker.call("hello")["command"] == "hello"


def test_results_that_are_not_json_are_errors():
    with Worker("misbehaving_builders:worker_with_sets") as worker, pytest.raises(WorkerError, match="TypeError"):
        worker.call("hello")


def test_a_crash_is_named_with_the_last_words():
    with Worker(ECHO, name="echo") as worker:
        with pytest.raises(WorkerDied, match="echo: the worker died of SIGSEGV: last words") as caught:
            worker.call("crash")
        assert caught.value.ending == "SIGSEGV" and caught.value.last_lines == ["last words"]
        assert not worker.alive
        with pytest.raises(WorkerDied):
            worker.call("hello")


def test_no_reply_in_time():
    with Worker(ECHO, name="echo") as worker:
        pid = worker.pid
        with pytest.raises(WorkerTimeout, match=r"no reply within 0\.2 s"):
            worker.call("hang", timeout_s=0.2)
        assert not is_running(pid)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("misbehaving_builders:broken_worker", "FileNotFoundError: model.pt2 is missing"),
        ("no_such_module:x", "ModuleNotFoundError"),
    ],
)
def test_a_worker_that_does_not_start(function, message):
    with pytest.raises(WorkerError, match=message):
        Worker(function)


def test_a_paused_worker_does_nothing(tmp_path):
    file = tmp_path / "ticks"
    with Worker("misbehaving_builders:ticking_worker", {"file": str(file)}) as worker:
        deadline = time.monotonic() + 30
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        worker.pause()
        while state_of(worker.pid) != "T" and time.monotonic() < deadline:
            time.sleep(0.01)
        before = file.read_text()
        time.sleep(0.1)
        assert file.read_text() == before
        worker.call("wake")
        assert not worker.paused and state_of(worker.pid) != "T"
        worker.pause()
    assert not is_running(worker.pid)  # closing wakes it first


# --- statistics ----------------------------------------------------------------------------------------------------


def test_median_interval_covers_the_median_as_often_as_it_says():
    chooser = random.Random(1)
    hits = 0
    for _ in range(1000):
        low, high = median_interval([chooser.expovariate(1.0) for _ in range(15)])
        hits += low <= 0.6931 <= high
    assert hits >= 940


def test_median_interval_needs_six_values_and_ignores_outliers():
    assert median_interval([1.0] * 5) is None
    assert median_interval([]) is None
    assert median_interval([3, 1, 2, 4, 6, 5]) == (1, 6)
    assert median_interval([1, 2, 3, 4, 5, 6, 7, 8, 1e9]) == (2, 8)


def test_paired_ratio_cancels_what_hits_both():
    chooser = random.Random(2)
    drift = [chooser.uniform(1, 5) for _ in range(12)]
    ratio = paired_ratio([2.0 * d for d in drift], [1.0 * d for d in drift])
    assert ratio == Ratio(2.0, 2.0, 2.0, 12)
    assert paired_ratio([2.0], [1.0]) == Ratio(2.0, None, None, 1)
    with pytest.raises(ValueError, match="1 and 2"):
        paired_ratio([1.0], [1.0, 2.0])


def test_typical_times_of_two_have_the_median_of_their_ratios():
    chooser = random.Random(3)
    one = {turn: chooser.uniform(1, 2) for turn in range(9)}
    other = {turn: chooser.uniform(1, 2) for turn in range(9)}
    times = typical_times({"one": one, "other": other})
    assert times["one"] / times["other"] == pytest.approx(paired_ratio([*one.values()], [*other.values()]).value)


def test_typical_times_are_compared_in_the_same_turns():
    # The machine is slow after three turns, when eager sits out: by medians of their own it would be the fastest.
    speed = {turn: 1.0 if turn < 3 else 3.0 for turn in range(12)}
    rounds = {
        "eager": dict.fromkeys(range(3), 1.5),
        "fast": {turn: 1.0 * slow for turn, slow in speed.items()},
        "faster": {turn: 0.9 * slow for turn, slow in speed.items() if turn != 1},
        "never": {},
    }
    assert typical_times(rounds) == pytest.approx({"eager": 4.5, "fast": 3.0, "faster": 2.7})
    assert typical_times({}) == {} == typical_times({"never": {}})


@pytest.mark.parametrize(
    ("values", "chance"),  # by tables of the distribution
    [
        ([1.0, 3.0], 0.295167),
        ([1.0, 2.0, 3.0], 0.074180),
        ([1.0, 2.0, 3.0, 4.0], 0.030466),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.013236),
        ([-1.0, 0.5, 2.0, 1.5, 0.0, 1.0, 0.25], 0.158797),
    ],
)
def test_chance_of_zero_mean(values, chance):
    assert chance_of_zero_mean(values) == pytest.approx(chance, abs=2e-6)
    assert chance_of_zero_mean([-value for value in values]) == pytest.approx(chance, abs=2e-6)


def test_chance_of_zero_mean_at_its_ends():
    assert chance_of_zero_mean([]) == chance_of_zero_mean([5.0]) == 1
    assert chance_of_zero_mean([0.0, 0.0]) == 1 and chance_of_zero_mean([2.0, 2.0]) == 0
    assert chance_of_zero_mean([-1.0, 1.0]) == 1


def test_separated():
    assert separated(Ratio(1.2, 1.1, 1.3, 9)) and separated(Ratio(0.8, 0.7, 0.9, 9))
    assert not separated(Ratio(1.1, 0.9, 1.3, 9)) and not separated(Ratio(2.0, None, None, 2))
    assert separated(Ratio(1.0, 0.995, 1.005, 9), tie=0.01)


def test_quantile():
    assert quantile([5, 1, 4, 2, 3], 0.5) == 3 and quantile([1, 2], 1.0) == 2


# --- turns ---------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self):
        self.now = 0.0
        self.drift = 1.0

    def __call__(self):
        return self.now


class MadeUp:
    """Its calls take the times of a rule, on a clock of our own."""

    def __init__(self, name, clock, seconds, log, fails_at=None):
        self.name, self.clock, self.seconds, self.log, self.fails_at = name, clock, seconds, log, fails_at
        self.awake = True
        self.blocks = 0

    def block(self, size_key, n_calls):
        assert self.awake
        self.blocks += 1
        if self.fails_at is not None and self.blocks >= self.fails_at:
            raise WorkerFailure(f"{self.name} died")
        self.log.append((self.name, size_key, n_calls, frozenset(p.name for p in self.others if p.awake)))
        seconds = self.seconds(size_key)
        cold = [50.0] if seconds > 0.05 else [50.0, 20.0]  # the first long call warms up all there is
        times = cold + [seconds * self.clock.drift for _ in range(n_calls - len(cold))]
        self.clock.now += sum(times)
        return times

    def pause(self):
        self.awake = False

    def resume(self):
        self.awake = True


def party(clock, log, **rules):
    participants = {
        name: MadeUp(name, clock, *rule, log=log) if isinstance(rule, tuple) else MadeUp(name, clock, rule, log)
        for name, rule in rules.items()
    }
    for one in participants.values():
        one.others = [other for other in participants.values() if other is not one]
    return participants


def test_turns_are_taken_alone_and_warm_up_is_dropped():
    clock, log = Clock(), []
    who = party(clock, log, eager=lambda s: 0.010, fast=lambda s: 0.005)
    result = take_turns(who, ["1x8", "8x8"], "eager", budget_s=1e9, block_s=0.1, clock=clock)
    assert all(not awake for *_, awake in log)
    assert all(one.awake for one in who.values())
    assert result.settled == ["1x8", "8x8"]
    assert result.typical_times("1x8")["fast"] == pytest.approx(0.005)
    assert result.ratio("fast", "8x8").value == pytest.approx(2.0)
    assert len(result.rounds["eager"]["1x8"]) == 6
    # Blocks of about the same time: twice the calls where they take half as long, and two to warm up.
    assert {n for name, _, n, _ in log if name == "eager"} == {3, 12}
    assert {n for name, _, n, _ in log if name == "fast"} == {3, 22}
    names = [name for name, size, n, _ in log if size == "1x8" and n > 3]
    assert names[:4] == ["eager", "fast", "fast", "eager"]
    json.dumps(result.to_dict())


def test_drift_hits_all_alike():
    clock, log = Clock(), []
    chooser = random.Random(3)
    who = party(clock, log, eager=lambda s: 0.010, near=lambda s: 0.0095)

    def drift(turn, result):
        clock.drift = chooser.uniform(1, 4)

    result = take_turns(who, ["a"], "eager", budget_s=1e9, clock=clock, on_round=drift)
    assert result.settled == ["a"] and result.contenders("a") == ["eager", "near"]
    assert result.ratio("near", "a").low == pytest.approx(0.010 / 0.0095)


def test_equals_are_a_tie():
    clock, log = Clock(), []
    chooser = random.Random(4)
    who = party(clock, log, eager=lambda s: chooser.uniform(0.009, 0.011), same=lambda s: chooser.uniform(0.009, 0.011))
    result = take_turns(who, ["a"], "eager", budget_s=1e9, clock=clock, max_rounds=20, tie=0.0)
    assert result.settled == [] and len(result.rounds["same"]["a"]) == 20


def test_the_budget_goes_to_those_that_are_close():
    clock, log = Clock(), []
    chooser = random.Random(5)
    near = lambda s: chooser.uniform(0.0049, 0.0051)  # noqa: E731
    who = party(clock, log, eager=lambda s: 0.010, one=near, other=near, mixed=lambda s: 0.012 if s == "a" else 0.002)
    turns = {}
    result = take_turns(
        who, ["a", "b"], "eager", budget_s=1e9, max_rounds=30, tie=0.0, clock=clock,
        on_round=lambda turn, so_far: turns.update({turn: (len(so_far.settled), clock())}),
    )  # fmt: skip
    count = {name: {size: len(rounds) for size, rounds in sizes.items()} for name, sizes in result.rounds.items()}
    # At "b" three rounds show one far ahead; at "a" two go on.
    assert result.settled == ["b"] and turns[3][0] == 1
    assert result.contenders("b") == ["mixed"] and result.contenders("a") == ["one", "other"]
    # At the end the six rounds of those that sat out are completed, beside eager.
    assert count["one"]["a"] == count["other"]["a"] == 33
    assert count["eager"] == {"a": 6, "b": 6} and count["mixed"] == {"a": 6, "b": 6}
    assert result.ratio("mixed", "a").value == pytest.approx(0.010 / 0.012)

    # Once all is decided, or four fifths of the budget are spent, the others get their rounds too.
    for close, budget in ((lambda s: 0.0049, 1e9), (near, turns[20][1])):
        clock = Clock()
        who = party(clock, log, eager=lambda s: 0.010, one=lambda s: 0.0050, other=close, slow=lambda s: 0.02)
        result = take_turns(who, ["a"], "eager", budget_s=budget, tie=0.0, max_rounds=400, clock=clock)
        assert len(result.rounds["slow"]["a"]) == len(result.rounds["eager"]["a"]) == 6
        assert len(result.rounds["one"]["a"]) >= 9
        assert result.ratio("one", "a") == Ratio(*[pytest.approx(2.0)] * 3, 6)
        assert result.ratio("slow", "a").rounds == 6


def test_the_budget_ends_it_after_one_round_at_least():
    clock, log = Clock(), []
    who = party(clock, log, eager=lambda s: 1.0, fast=lambda s: 0.5)
    result = take_turns(who, ["a", "b"], "eager", budget_s=0.0, clock=clock)
    assert len(result.rounds["fast"]["b"]) == 1 and result.settled == []
    assert result.ratio("fast", "b") == Ratio(2.0, None, None, 1)


def test_a_candidate_that_dies_is_dropped_with_its_reason():
    clock, log = Clock(), []
    who = party(clock, log, eager=lambda s: 1.0, fast=lambda s: 0.5, bad=(lambda s: 0.1,))
    who["bad"].fails_at = 3
    result = take_turns(who, ["a"], "eager", budget_s=1e9, clock=clock)
    assert result.failures == {"bad": "bad died"}
    assert result.settled == ["a"] and "bad" not in result.to_dict()["typical"]
    who = party(clock, log, eager=(lambda s: 1.0,), fast=lambda s: 0.5)
    who["eager"].fails_at = 2
    with pytest.raises(WorkerFailure, match="eager died"):
        take_turns(who, ["a"], "eager", clock=clock)
    with pytest.raises(ValueError, match="'x' is not among"):
        take_turns(who, ["a"], "x")


def test_those_that_are_close_are_launched_anew():
    def bias(launch):  # what a process has for as long as it lives
        return (1.06, 0.94, 1.02, 0.98)[launch]

    class Launched(MadeUp):
        launches = 0

        def relaunch(self):
            assert not any(other.awake for other in self.others)
            self.clock.now += 1000.0
            self.launches += 1
            if self.launches == self.fails_to_start:
                raise WorkerFailure(f"{self.name} does not start")

    def launched(**fails_to_start):
        clock = Clock()
        who = {}
        up, down = (1.02, 0.98), (0.98, 1.02)  # by turns: the two in between are never told apart
        for name, seconds, noise in (
            ("eager", 0.010, (1,)),
            ("one", 0.005, up),
            ("other", 0.005, down),
            ("slow", 0.02, (1,)),
        ):
            own = who[name] = Launched(name, clock, None, [])
            noises = itertools.cycle(noise)
            own.seconds = lambda s, own=own, seconds=seconds, noises=noises: seconds * bias(own.launches) * next(noises)
            own.fails_to_start = fails_to_start.get(name, -1)
        for own in who.values():
            own.others = [other for other in who.values() if other is not own]
        return who, clock

    who, clock = launched()
    result = take_turns(who, ["a"], "eager", budget_s=12_000, tie=0.0, max_rounds=200, launch_s=3000, clock=clock)
    assert [own.launches for own in who.values()] == [0, 3, 3, 0]
    assert result.seconds < 12_500  # launching is not counted
    # Its first calls, which are slow, are not timed after a launch either.
    assert max(max(times) for sizes in result.calls.values() for times in sizes.values()) < 0.03
    assert result.failures == {}

    who, clock = launched(one=2)
    result = take_turns(who, ["a"], "eager", budget_s=12_000, tie=0.0, max_rounds=200, launch_s=3000, clock=clock)
    assert result.failures == {"one": "one does not start"} and who["other"].launches >= 1


def test_workers_take_turns():
    with (
        Worker("misbehaving_builders:timing_worker", {"seconds": 0.002}) as slow,
        Worker("misbehaving_builders:timing_worker", {"seconds": 0.001}) as fast,
    ):
        who = {"slow": WorkerParticipant(slow), "fast": WorkerParticipant(fast)}
        result = take_turns(who, ["a"], "slow", max_rounds=6, block_s=0.01)
    assert result.failures == {} and len(result.rounds["fast"]["a"]) == 6
    assert result.ratio("fast", "a").value == 2.0


def test_a_worker_is_launched_anew():
    def start():
        return Worker("misbehaving_builders:timing_worker", {"seconds": 0.001})

    first, second = start(), start()
    try:
        participant = WorkerParticipant(first, lambda: second)
        participant.relaunch()
        first.close()
        assert participant.block("a", 3) == [0.001] * 3
        participant.pause()
        assert second.paused
        alone = WorkerParticipant(second)
        alone.relaunch()  # it stays
        assert alone.block("a", 1) == [0.001]
    finally:
        first.close()
        second.close()


def test_a_local_participant_makes_as_many_calls_as_it_is_asked_for():
    made = []
    times = LocalParticipant(made.append).block("1x8", 4)
    assert made == ["1x8"] * 4 and len(times) == 4 and min(times) >= 0
