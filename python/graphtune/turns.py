"""Measures participants in turns: short blocks of calls, A B C A B C, the others asleep.

What slows the machine down for a while slows all of them, and no engine's spinning threads take another's cores.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, Protocol

from .processes import Worker, WorkerFailure
from .turn_statistics import Ratio, chance_of_zero_mean, paired_ratio, quantile, separated, typical_times

__all__ = ["LocalParticipant", "Participant", "TurnsResult", "WorkerParticipant", "take_turns"]

# Who is slower than another in so many rounds is far behind at that size: by so much in each, or by so much in the
# median, which no noise explains.
_ROUNDS_TO_FALL_BEHIND = 3
_FAR = 1.1
_BEYOND_NOISE = 1.5
# The share of the budget that may go into telling those that are close apart; what is left completes the others.
_FOR_DECIDING = 0.8


class Participant(Protocol):
    """One who takes turns."""

    def block(self, size_key: str, n_calls: int) -> list[float]:
        """Makes calls of one size, one after the other; gives the seconds of each."""

    def pause(self) -> None:
        """Leaves the machine to the others."""

    def resume(self) -> None:
        """Its turn is next."""

    def relaunch(self) -> None:
        """Starts its process anew, where it has one of its own. May raise ``WorkerFailure``."""


class LocalParticipant:
    """A participant in this process: `run(size_key)` makes one call. It sleeps when it isn't called."""

    def __init__(self, run: Callable[[str], object]) -> None:
        self._run = run

    def block(self, size_key: str, n_calls: int) -> list[float]:
        times = []
        for _ in range(n_calls):
            started = time.perf_counter()
            self._run(size_key)
            times.append(time.perf_counter() - started)
        return times

    def pause(self) -> None:
        """Nothing runs between its blocks."""

    def resume(self) -> None:
        """Nothing was stopped."""

    def relaunch(self) -> None:
        """It has no process of its own."""


class WorkerParticipant:
    """A participant in a worker process, whose handler knows the command "block" with `size_key` and `n_calls`.

    `relaunch` ends the process and gives another one that does the same.
    """

    def __init__(self, worker: Worker, relaunch: Callable[[], Worker] | None = None) -> None:
        self._worker = worker
        self._relaunch = relaunch

    def block(self, size_key: str, n_calls: int) -> list[float]:
        times = self._worker.call("block", size_key=size_key, n_calls=n_calls)
        return [float(seconds) for seconds in times]

    def pause(self) -> None:
        self._worker.pause()

    def resume(self) -> None:
        self._worker.resume()

    def relaunch(self) -> None:
        if self._relaunch is not None:
            self._worker = self._relaunch()


@dataclass
class TurnsResult:
    """Seconds per call by participant and size; ratios are against the reference, above 1 is faster than it."""

    reference: str
    confidence: float
    #: name -> size -> turn -> median of the block. Who sits a turn out has none of that number.
    rounds: dict[str, dict[str, dict[int, float]]] = field(default_factory=dict)
    calls: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # name -> size -> all calls after warm-up
    failures: dict[str, str] = field(default_factory=dict)  # name -> why it was dropped
    settled: list[str] = field(default_factory=list)  # sizes whose winner is sure
    seconds: float = 0.0

    def typical_times(self, size_key: str) -> dict[str, float]:
        """Seconds a call by participant, as if all had taken the same turns."""
        return typical_times({name: sizes[size_key] for name, sizes in self.rounds.items()})

    def latency(self, name: str, size_key: str, share: float) -> float:
        """Such as share=0.99 for p99."""
        return quantile(self.calls[name][size_key], share)

    def ratio(self, name: str, size_key: str) -> Ratio:
        return self.compare(self.reference, name, size_key)

    def compare(self, slow: str, fast: str, size_key: str, confidence: float | None = None) -> Ratio:
        """The time of one over the time of another, over the turns that both took."""
        return paired_ratio(*self._in_common(slow, fast, size_key), confidence or self.confidence)

    @property
    def deciding_confidence(self) -> float:
        """That of a decision at one size, so that those at all sizes together have ``confidence`` (Bonferroni)."""
        return 1 - (1 - self.confidence) / max(1, len(self.rounds[self.reference]))

    def is_told_apart(self, slow: str, fast: str, size_key: str, tie: float) -> bool:
        """Whether one is slower than another by more than ``tie`` for sure: so far that no noise explains it, or beyond
        the noise by the order of the rounds, which outliers don't move, or by their mean, for which fewer do."""
        ratio = self.compare(slow, fast, size_key, self.deciding_confidence)
        if self._is_far_behind(slow, fast, size_key) or (ratio.low is not None and ratio.low > 1 + tie):
            return True
        pairs = zip(*self._in_common(slow, fast, size_key), strict=True)
        logs = [math.log(ours / theirs / (1 + tie)) for ours, theirs in pairs]
        return ratio.value > 1 + tie and fmean(logs) > 0 and chance_of_zero_mean(logs) <= 1 - self.deciding_confidence

    def contenders(self, size_key: str) -> list[str]:
        """Those that no other was far ahead of in the turns that both took; all, while there are too few turns."""
        alive = [name for name in self.rounds if name not in self.failures]
        return [n for n in alive if not any(self._is_far_behind(n, other, size_key) for other in alive if other != n)]

    def _is_far_behind(self, name: str, other: str, size_key: str) -> bool:
        pairs = zip(*self._in_common(name, other, size_key), strict=True)
        ratios = [ours / theirs for ours, theirs in pairs]
        return len(ratios) >= _ROUNDS_TO_FALL_BEHIND and (min(ratios) > _FAR or median(ratios) > _BEYOND_NOISE)

    def _in_common(self, name: str, other: str, size_key: str) -> tuple[list[float], list[float]]:
        """The times of two, turn by turn, of the turns that both took."""
        ours, theirs = self.rounds[name][size_key], self.rounds[other][size_key]
        turns = sorted(ours.keys() & theirs.keys())
        return [ours[turn] for turn in turns], [theirs[turn] for turn in turns]

    def to_dict(self) -> dict[str, Any]:
        measured = {n: [s for s, r in sizes.items() if r] for n, sizes in self.rounds.items() if n not in self.failures}
        typical = {size: self.typical_times(size) for size in self.rounds[self.reference]}
        return {
            "reference": self.reference,
            "confidence": self.confidence,
            "typical": {n: {s: typical[s][n] for s in sizes} for n, sizes in measured.items()},
            "p99": {n: {s: self.latency(n, s, 0.99) for s in sizes} for n, sizes in measured.items()},
            "ratios": {n: {s: self.ratio(n, s).to_dict() for s in sizes} for n, sizes in measured.items()},
            "failures": dict(self.failures),
            "settled": list(self.settled),
            "seconds": self.seconds,
        }


def take_turns(
    participants: Mapping[str, Participant],
    size_keys: Sequence[str],
    reference: str,
    *,
    budget_s: float = 60.0,
    block_s: float = 0.1,
    warm_up: int = 2,
    min_rounds: int = 6,
    max_rounds: int = 200,
    confidence: float = 0.95,
    tie: float = 0.01,
    launch_s: float = math.inf,
    on_round: Callable[[int, TurnsResult], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> TurnsResult:
    """Rounds of blocks until each size's winner is sure, or the budget is spent.

    Every size gets at least one round of all, whatever the budget. A candidate that fails is dropped with its reason;
    the reference's failure is raised. Who is far behind another at a size, the reference too, sits out there until the
    close ones are told apart; what is left of the budget then completes the ``min_rounds`` of all. A block starts with
    ``warm_up`` calls that are not counted; with 0 it may be one call.

    Where the system puts a process's memory makes it a few per cent faster or slower for as long as it lives. So those
    that are still close are launched anew every ``launch_s`` seconds, which takes time beside the budget.
    """
    if reference not in participants:
        raise ValueError(f"reference: {reference!r} is not among the participants {sorted(participants)}")
    started = clock()
    result = TurnsResult(reference, confidence)
    result.rounds = {name: {size: {} for size in size_keys} for name in participants}
    result.calls = {name: {size: [] for size in size_keys} for name in participants}
    blocks = _Blocks(participants, result, block_s, warm_up)
    launched = started
    everyone = list(participants)
    for participant in participants.values():
        participant.pause()
    try:
        for turn in range(max_rounds + min_rounds):
            deciding = (
                len(result.settled) < len(size_keys)
                and clock() - started <= _FOR_DECIDING * budget_s
                and turn < max_rounds
            )
            if deciding and clock() - launched >= launch_s:
                before = clock()
                close = {name for size in size_keys for name in _undecided(result, size)}
                blocks.relaunch([name for name in everyone if name in close])
                launched = clock()
                started += launched - before
            # The one who comes first in a round changes, so that none always follows the same other.
            shift = turn % len(everyone)
            order = everyone[shift:] + everyone[:shift]
            taken = 0
            for size in size_keys:
                if turn > 0 and clock() - started > budget_s:
                    break
                who = _undecided(result, size) if deciding else _incomplete(result, size, min_rounds)
                for name in [each for each in order if each in who]:
                    try:
                        result.rounds[name][size][turn] = blocks.take(name, size)
                        taken += 1
                    except WorkerFailure as failure:
                        if name == reference:
                            raise
                        result.failures[name] = str(failure)
                if deciding and size not in result.settled and _is_settled(result, size, min_rounds, tie):
                    result.settled.append(size)
            if on_round is not None:
                on_round(turn + 1, result)
            if not (taken or deciding) or clock() - started > budget_s:
                break
    finally:
        for participant in participants.values():
            participant.resume()
    result.seconds = clock() - started
    return result


def _undecided(result: TurnsResult, size: str) -> list[str]:
    return [] if size in result.settled else result.contenders(size)


def _incomplete(result: TurnsResult, size: str, min_rounds: int) -> list[str]:
    """Those that took too few turns together with the reference, and the reference."""
    beside = result.rounds[result.reference][size].keys()
    few = [
        name
        for name, sizes in result.rounds.items()
        if name not in result.failures and len(sizes[size].keys() & beside) < min_rounds
    ]
    return [*few, result.reference] if few else []


class _Blocks:
    """Has participants make blocks of calls, of a number that takes about as long for each."""

    def __init__(
        self, participants: Mapping[str, Participant], result: TurnsResult, block_s: float, warm_up: int
    ) -> None:
        self._participants = participants
        self._result = result
        self._block_s = block_s
        self._warm_up = warm_up
        self._counts: dict[tuple[str, str], int] = {}
        self._warm: set[tuple[str, str]] = set()

    def take(self, name: str, size: str) -> float:
        """The median of the block's calls, after those that warm up."""
        participant = self._participants[name]
        participant.resume()
        try:
            if (name, size) not in self._warm:
                # A process's first calls may compile or allocate; they only tell how many calls make a block.
                typical = max(participant.block(size, self._warm_up + 1)[-1], 1e-9)
                count = min(max(math.ceil(self._block_s / typical), 2 if self._warm_up else 1), 1000)
                self._counts.setdefault((name, size), count)
                self._warm.add((name, size))
            count = self._counts[name, size]
            # After its sleep, one long call warms up as well as two short ones.
            cold = self._warm_up if count > 2 else min(self._warm_up, 1)
            times = participant.block(size, cold + count)[cold:]
        finally:
            participant.pause()
        self._result.calls[name][size].extend(times)
        return median(times)

    def relaunch(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                self._participants[name].relaunch()
                self._participants[name].pause()
            except WorkerFailure as failure:
                if name == self._result.reference:
                    raise
                self._result.failures[name] = str(failure)
            self._warm -= {(who, size) for who, size in self._warm if who == name}


def _is_settled(result: TurnsResult, size: str, min_rounds: int, tie: float) -> bool:
    """Whether the fastest is told apart from every other, or level with it for sure."""
    close = result.contenders(size)
    times = result.typical_times(size)
    best = min(close, key=lambda name: times[name])
    sure = result.deciding_confidence
    against = [result.compare(name, best, size, sure) for name in close if name != best]
    return all(ratio.rounds >= min_rounds and separated(ratio, tie) for ratio in against)
