"""The lanes of several vectors combined together: each vector yields one element.

A vector alone halves itself until one lane is left: most lanes of all but the first halves are idle.  Of two
vectors the halves fit one, so each step combines pairs: from as many vectors as there are lanes comes one
vector of results after log2(lanes) steps, with a third of the instructions.  Each element is combined in the
order in which its vector alone would be.
"""

from __future__ import annotations

from dataclasses import dataclass

_LANE_BYTES = 16  # bytes within which shuffles are cheap


@dataclass(frozen=True, slots=True)
class Step:
    """What one step takes of two vectors (of one, if they are the same) of `lanes` each: the lanes of the
    first operands and of the second ones."""

    lanes: int
    first: tuple[int, ...]
    second: tuple[int, ...]


def groups(count: int, lanes: int) -> list[int]:
    """So many vectors in groups of powers of two, the largest first, none larger than a vector's lanes."""
    out: list[int] = []
    while count:
        out.append(min(lanes, 1 << (count.bit_length() - 1)))
        count -= out[-1]
    return out


def combinations(count: int, lanes: int) -> int:
    """How often two vectors, or the halves of one, are combined until each of `count` has one lane."""
    levels = range(1, max(lanes, 2).bit_length())
    return sum(max(1, n >> i) for n in groups(count, max(lanes, 2)) for i in levels)


def steps(count: int, lanes: int, itemsize: int) -> tuple[list[Step], list[int]]:
    """The steps that combine `count` vectors, a power of two up to `lanes`, and the numbers of the vectors in
    the order in which they are to be taken so that the results come out in theirs."""
    out: list[Step] = []
    owners = [[i] for i in range(count)]  # of the vectors that are left: whose parts they hold
    width = lanes  # of a part
    while width > 1:
        half = width // 2
        paired = len(owners) > 1
        each = _LANE_BYTES // itemsize // width  # parts in a block
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
