"""Medians, and intervals that assume nothing about how times are distributed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median and the bounds of its confidence interval."""

    median: float
    low: float
    high: float


def order_rank(count: int, confidence: float = 0.95) -> int:
    """The rank r (from 1) such that the r-th least and r-th greatest of `count` values enclose the median
    with at least that confidence; 1 where so few values cannot give it.

    Each value lies below the median with probability 1/2, so the number below is binomial.
    """
    tail, rank = 0.0, 0
    while rank < count // 2:
        tail += math.comb(count, rank) / 2**count
        if tail > (1 - confidence) / 2:
            break
        rank += 1
    return max(1, rank)


def estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The median with its order-statistics interval."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    rank = order_rank(len(ordered), confidence)
    return Estimate(statistics.median(ordered), ordered[rank - 1], ordered[-rank])


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Estimate:
    """The median of the ratios of values measured in the same round, which share what disturbed it."""
    if len(numerators) != len(denominators):
        raise ValueError("ratios need as many numerators as denominators")
    return estimate([n / d for n, d in zip(numerators, denominators, strict=True)])


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(v) for v in values) / len(values))
