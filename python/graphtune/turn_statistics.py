"""The statistics of measuring in turns: paired ratios, and which of them tell participants apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

__all__ = ["Ratio", "chance_of_zero_mean", "median_interval", "paired_ratio", "quantile", "separated", "typical_times"]

_POLISHES = 30
_POLISHED = 1e-6


@dataclass(frozen=True)
class Ratio:
    """How many times faster than the reference: the median over the rounds, and its confidence interval.

    The bounds are None where there are too few rounds for that confidence.
    """

    value: float
    low: float | None
    high: float | None
    rounds: int

    def to_dict(self) -> dict[str, float | int | None]:
        return dict(vars(self))


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """A confidence interval of the median from the order of the values alone: outliers cannot widen it.

    The number of values below the true median is binomial(n, 1/2), whatever the distribution.
    """
    ordered = sorted(values)
    count = len(ordered)
    # Drop as many from each end as the tails of the binomial allow.
    tail, dropped = 0.0, 0
    while dropped < count // 2:
        tail += math.comb(count, dropped) / 2.0**count
        if 2 * tail > 1 - confidence:
            break
        dropped += 1
    if dropped == 0:
        return None
    return ordered[dropped - 1], ordered[count - dropped]


def paired_ratio(reference: Sequence[float], candidate: Sequence[float], confidence: float = 0.95) -> Ratio:
    """Reference time over candidate time, round by round: what slows a whole round down cancels out."""
    if len(reference) != len(candidate) or not reference:
        raise ValueError(f"ratios need pairs of rounds, not {len(reference)} and {len(candidate)}")
    ratios = [ours / theirs for ours, theirs in zip(reference, candidate, strict=True)]
    interval = median_interval(ratios, confidence)
    low, high = interval if interval else (None, None)
    return Ratio(median(ratios), low, high, len(ratios))


def typical_times(rounds: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    """The time of each participant in a typical turn, from their times by turn, though not all took each turn.

    Medians of their own would compare one who was there while the machine was slow with one who wasn't. So a logarithm
    of a time is a sum of the participant's, the turn's and a rest, by median polish (Tukey, Exploratory Data Analysis,
    1977, chapter 11): of two that took the same turns, the ratio is the median of the turns' ratios.
    """
    logs = {name: {turn: math.log(time) for turn, time in times.items()} for name, times in rounds.items() if times}
    if not logs:
        return {}
    of_turn = {turn: [name for name in logs if turn in logs[name]] for turn in sorted(set().union(*logs.values()))}
    complete = [turn for turn, names in of_turn.items() if len(names) == len(logs)] or list(of_turn)
    own = {name: median(times[turn] for turn in complete if turn in times) for name, times in logs.items()}
    for _ in range(_POLISHES):
        shared = {turn: median(logs[name][turn] - own[name] for name in names) for turn, names in of_turn.items()}
        change = {name: median(log - shared[turn] for turn, log in logs[name].items()) - own[name] for name in logs}
        own = {name: own[name] + change[name] for name in own}
        if all(abs(each) < _POLISHED for each in change.values()):
            break
    typical = median(shared.values())
    return {name: math.exp(each + typical) for name, each in own.items()}


def chance_of_zero_mean(values: Sequence[float]) -> float:
    """Student's test: how likely a mean at least so far from 0 is by chance; 1 for fewer than two values.

    The distribution by Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    count = len(values)
    if count < 2:
        return 1.0
    center, spread = fmean(values), stdev(values)
    if spread == 0:
        return float(center == 0)
    freedom = count - 1
    angle = math.atan(abs(center) / (spread / math.sqrt(count)) / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    if freedom % 2 == 0:
        term = total = 1.0
        for k in range(2, freedom - 1, 2):
            term *= (k - 1) / k * cosine**2
            total += term
        return max(0.0, 1 - sine * total)
    total = 0.0
    if freedom > 1:
        term = total = cosine
        for k in range(3, freedom - 1, 2):
            term *= (k - 1) / k * cosine**2
            total += term
    return max(0.0, 1 - 2 / math.pi * (angle + sine * total))


def separated(ratio: Ratio, tie: float = 0.0) -> bool:
    """Whether the two are told apart, or so surely within `tie` of each other that it does not matter."""
    if ratio.low is None or ratio.high is None:
        return False
    return ratio.low > 1 or ratio.high < 1 or (ratio.low >= 1 / (1 + tie) and ratio.high <= 1 + tie)


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of the values do not exceed (the nearest rank)."""
    if not values or not 0 < share <= 1:
        raise ValueError(f"no quantile {share} of {len(values)} values")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
