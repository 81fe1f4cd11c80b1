"""Whether one kernel is faster than another: times of calls in turns, and what follows from them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

HOPELESS = 4.0  # times the incumbent's time, from which a candidate is given up after one sample
SLOW_HOPELESS = 1.5  # the same of a slow kernel, which is disturbed less
SLOWER = 1.25  # the same, after a few
ROUNDS = 15  # that a verdict is taken from
LEAST_ROUNDS, _SURE = 5, 7  # rounds in which a kernel can win; in which it has if it is faster in all of them
_CLEAR = 0.03  # a difference, as a share, that needs no further rounds
_BETTER = 0.01  # the least gain of a winner
_WINS = 0.8  # of all rounds, those that a winner is faster in; by chance these are 12 of 15 in 2 % of cases


@dataclass(frozen=True, slots=True)
class Paired:
    """Rounds in which two kernels were timed one after the other: nanoseconds of each."""

    challenger: tuple[int, ...] = ()
    incumbent: tuple[int, ...] = ()

    def plus(self, challenger: Sequence[int], incumbent: Sequence[int]) -> Paired:
        return Paired(
            (*self.challenger, round(statistics.median(challenger))),
            (*self.incumbent, round(statistics.median(incumbent))),
        )

    @property
    def ratios(self) -> tuple[float, ...]:
        return tuple(c / i for c, i in zip(self.challenger, self.incumbent, strict=True))

    @property
    def ratio(self) -> float:
        """The challenger's time over the incumbent's: the median of the rounds."""
        return statistics.median(self.ratios)

    @property
    def wins(self) -> float:
        """The share of rounds in which the challenger is faster."""
        return sum(r < 1 for r in self.ratios) / len(self.ratios)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the median of the ratio lies with a probability of about 95 %, by order statistics."""
        r = sorted(self.ratios)
        n = len(r)
        k = max(0, round(n / 2 - 0.98 * n**0.5))
        return r[k], r[n - 1 - k]

    @property
    def won(self) -> bool:
        """Whether the challenger is faster, beyond noise; of few rounds it has to win all."""
        n = len(self.ratios)
        if n < LEAST_ROUNDS or self.ratio > 1 - _BETTER:
            return False
        return self.wins >= _WINS if n >= ROUNDS else self.wins == 1.0

    @property
    def decided(self) -> bool:
        """Whether more rounds are not worth it: it has lost, or is far ahead."""
        n = len(self.ratios)
        return (n >= 3 and self.ratio > 1.0) or (n >= _SURE and self.wins == 1.0 and self.ratio < 1 - _CLEAR)


def noise(ns: Sequence[int]) -> float:
    """The spread of times: the median distance from the median, as a share of it."""
    if not ns:
        return 0.0
    middle = statistics.median(ns)
    return statistics.median(abs(x - middle) for x in ns) / middle


def percentile(ns: Sequence[int], share: float) -> float:
    """The value below which a share of the times lies."""
    ordered = sorted(ns)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])
