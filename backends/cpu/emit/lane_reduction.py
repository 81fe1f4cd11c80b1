"""Reduction of the lanes of several vectors together, each to one element.

A single vector is halved until one lane is left, so most lanes idle in all but the first steps.  The halves
of two vectors fit one vector, so each step combines pairs: as many vectors as there are lanes become one
vector of results after log2(lanes) steps, with a third of the instructions.  The elements of each vector are
combined in the same order as those of a single vector.
"""

from __future__ import annotations

from dataclasses import dataclass

_LANE_BYTES = 16  # bytes of a 128-bit lane, within which shuffles are cheap


@dataclass(frozen=True, slots=True)
class Step:
    """One step on two vectors of `lanes` each, or on one vector with itself: the lanes that form the first
    operands and the second operands."""

    lanes: int
    first: tuple[int, ...]
    second: tuple[int, ...]


def groups(count: int, lanes: int) -> list[int]:
    """The sizes of groups of `count` vectors: powers of two, the largest first, none larger than the lanes of
    a vector."""
    out: list[int] = []
    while count:
        out.append(min(lanes, 1 << (count.bit_length() - 1)))
        count -= out[-1]
    return out


def combinations(count: int, lanes: int) -> int:
    """The combining operations, of two vectors or of the halves of one, that reduce each of `count` vectors
    to one lane."""
    levels = range(1, max(lanes, 2).bit_length())
    return sum(max(1, n >> i) for n in groups(count, max(lanes, 2)) for i in levels)


def steps(count: int, lanes: int, itemsize: int) -> tuple[list[Step], list[int]]:
    """The steps that combine `count` vectors, a power of two up to `lanes`; and the order in which to take
    the vectors, by number, so that the results come out in theirs."""
    out: list[Step] = []
    owners = [[i] for i in range(count)]  # for each remaining vector, the vectors whose parts it holds
    width = lanes  # of a part
    while width > 1:
        half = width // 2
        paired = len(owners) > 1
        each = _LANE_BYTES // itemsize // width  # parts in a 128-bit lane
        together = min(each, len(owners[0])) if paired and each else len(owners[0])
        parts = [
            (source, part)
            for start in range(0, len(owners[0]), together)
            for source in range(1 + paired)
            for part in range(start, start + together)
        ]
        first = tuple(source * lanes + part * width + i for source, part in parts for i in range(half))
        out.append(Step(lanes, first, tuple(i + half for i in first)))
        if paired:
            pairs = zip(owners[::2], owners[1::2], strict=True)
            owners = [[(a, b)[source][part] for source, part in parts] for a, b in pairs]
        else:
            lanes = half * len(owners[0])
        width = half
    order = [0] * count
    for place, owner in enumerate(owners[0]):
        order[owner] = place
    return out, order
