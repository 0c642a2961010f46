"""Measures participants in turns: short blocks of calls, A B C A B C, the others asleep.

What slows the machine down for a while slows all of them, and no engine's spinning threads take another's cores.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

from .processes import Worker, WorkerFailure
from .turn_statistics import Ratio, paired_ratio, quantile, separated, tied_with_best

__all__ = ["LocalParticipant", "Participant", "TurnsResult", "WorkerParticipant", "take_turns"]

# Who is slower than another by so much, in each of so many rounds, is beaten at that size.
_ROUNDS_TO_BE_BEATEN = 2
_FAR = 1.1


class Participant(Protocol):
    """One who takes turns."""

    def block(self, size_key: str, n_calls: int) -> list[float]:
        """Makes calls of one size, one after the other; gives the seconds of each."""

    def pause(self) -> None:
        """Leaves the machine to the others."""

    def resume(self) -> None:
        """Its turn is next."""


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


class WorkerParticipant:
    """A participant in a worker process, whose handler knows the command "block" with `size_key` and `n_calls`."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def block(self, size_key: str, n_calls: int) -> list[float]:
        times = self._worker.call("block", size_key=size_key, n_calls=n_calls)
        return [float(seconds) for seconds in times]

    def pause(self) -> None:
        self._worker.pause()

    def resume(self) -> None:
        self._worker.resume()


@dataclass
class TurnsResult:
    """Seconds per call by participant and size; ratios are against the reference, above 1 is faster than it."""

    reference: str
    confidence: float
    rounds: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # name -> size -> medians of blocks
    calls: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # name -> size -> all calls after warm-up
    failures: dict[str, str] = field(default_factory=dict)  # name -> why it was dropped
    beaten: set[str] = field(default_factory=set)  # far behind at every size: measured no longer
    settled: list[str] = field(default_factory=list)  # sizes whose winner is sure
    seconds: float = 0.0

    def median(self, name: str, size_key: str) -> float:
        return median(self.rounds[name][size_key])

    def latency(self, name: str, size_key: str, share: float) -> float:
        """Such as share=0.99 for p99."""
        return quantile(self.calls[name][size_key], share)

    def ratio(self, name: str, size_key: str) -> Ratio:
        ours, theirs = self.rounds[self.reference][size_key], self.rounds[name][size_key]
        count = min(len(ours), len(theirs))  # a round may have been cut by the budget
        return paired_ratio(ours[:count], theirs[:count], self.confidence)

    def leaders(self, size_key: str) -> list[str]:
        """The fastest first, then all that are not surely slower than it."""
        rounds = {name: self.rounds[name][size_key] for name in self.rounds if self.is_measured(name)}
        return tied_with_best({name: blocks for name, blocks in rounds.items() if blocks}, self.confidence)

    def is_measured(self, name: str) -> bool:
        """Still takes turns: it neither failed nor fell far behind."""
        return name not in self.failures and name not in self.beaten

    def to_dict(self) -> dict[str, Any]:
        measured = {n: [s for s, r in sizes.items() if r] for n, sizes in self.rounds.items() if n not in self.failures}
        return {
            "reference": self.reference,
            "confidence": self.confidence,
            "medians": {n: {s: self.median(n, s) for s in sizes} for n, sizes in measured.items()},
            "p99": {n: {s: self.latency(n, s, 0.99) for s in sizes} for n, sizes in measured.items()},
            "ratios": {n: {s: self.ratio(n, s).to_dict() for s in sizes} for n, sizes in measured.items()},
            "failures": dict(self.failures),
            "beaten": sorted(self.beaten),
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
    max_rounds: int = 60,
    confidence: float = 0.95,
    tie: float = 0.01,
    on_round: Callable[[int, TurnsResult], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> TurnsResult:
    """Rounds of blocks until each size's winner is sure, or the budget is spent.

    Every size gets at least one round, whatever the budget. A candidate that fails is dropped with its reason; the
    reference's failure is raised. One that is far behind another at every size takes no more turns: its time goes to
    those that are close.
    """
    if reference not in participants:
        raise ValueError(f"reference: {reference!r} is not among the participants {sorted(participants)}")
    started = clock()
    result = TurnsResult(reference, confidence)
    result.rounds = {name: {size: [] for size in size_keys} for name in participants}
    result.calls = {name: {size: [] for size in size_keys} for name in participants}
    counts: dict[tuple[str, str], int] = {}
    everyone = list(participants)
    for participant in participants.values():
        participant.pause()
    try:
        for turn in range(max_rounds):
            open_sizes = [size for size in size_keys if size not in result.settled]
            # The one who comes first in a round changes, so that none always follows the same other.
            shift = turn % len(everyone)
            order = everyone[shift:] + everyone[:shift]
            for size in open_sizes:
                if turn > 0 and clock() - started > budget_s:
                    break
                for name in order:
                    if not result.is_measured(name):
                        continue
                    try:
                        _take_turn(participants[name], name, size, counts, result, block_s, warm_up)
                    except WorkerFailure as failure:
                        if name == reference:
                            raise
                        result.failures[name] = str(failure)
                if turn + 1 >= min_rounds and _is_settled(result, size, tie):
                    result.settled.append(size)
            if turn + 1 >= _ROUNDS_TO_BE_BEATEN:
                result.beaten |= {name for name in everyone if name != reference and _is_beaten(result, name)}
            if on_round is not None:
                on_round(turn + 1, result)
            if len(result.settled) == len(size_keys) or clock() - started > budget_s:
                break
    finally:
        for participant in participants.values():
            participant.resume()
    result.seconds = clock() - started
    return result


def _take_turn(
    participant: Participant,
    name: str,
    size: str,
    counts: dict[tuple[str, str], int],
    result: TurnsResult,
    block_s: float,
    warm_up: int,
) -> None:
    participant.resume()
    try:
        if (name, size) not in counts:
            # Its first calls may compile or allocate; they only tell how many calls make a block.
            typical = max(participant.block(size, warm_up + 1)[-1], 1e-9)
            counts[name, size] = min(max(math.ceil(block_s / typical), 2), 1000)
        # After its sleep, one long call warms up as well as two short ones.
        cold = warm_up if counts[name, size] > 2 else 1
        times = participant.block(size, cold + counts[name, size])[cold:]
    finally:
        participant.pause()
    result.rounds[name][size].append(median(times))
    result.calls[name][size].extend(times)


def _is_beaten(result: TurnsResult, name: str) -> bool:
    """Whether at every size there is one that was faster by a tenth in each round."""
    others = [other for other in result.rounds if other != name and other not in result.failures]
    if name in result.failures or any(len(rounds) < _ROUNDS_TO_BE_BEATEN for rounds in result.rounds[name].values()):
        return False
    return all(
        any(
            all(theirs * _FAR < ours for ours, theirs in zip(rounds, result.rounds[other][size], strict=False))
            for other in others
        )
        for size, rounds in result.rounds[name].items()
    )


def _is_settled(result: TurnsResult, size: str, tie: float) -> bool:
    """Whether the fastest is told apart from every other, or level with it for sure."""
    alive = {name: result.rounds[name][size] for name in result.rounds if result.is_measured(name)}
    best = min(alive, key=lambda name: median(alive[name]))
    count = min(len(rounds) for rounds in alive.values())
    return all(
        separated(paired_ratio(rounds[:count], alive[best][:count], result.confidence), tie)
        for name, rounds in alive.items()
        if name != best
    )
