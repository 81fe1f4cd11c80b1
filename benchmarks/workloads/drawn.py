"""Cases at random: what nobody has chosen sizes for.

A third are named families at other sizes than those of the tables, the rest are of the families that are said
in indices.  A seed gives the same cases everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from benchmarks.workloads import general
from benchmarks.workloads.cases import CASES, PROGRAMS
from benchmarks.workloads.model import Case, Workload

# What a case may take: operations, and bytes of inputs and results.
FLOPS = (1e6, 1e9)
BYTES = (1 << 18, 96 << 20)
NAMED = 3  # one case in so many is of a named family
# Extents that programs have: powers of two, channels, classes, pixels, primes.
_EXTENTS = (
    2, 3, 4, 5, 7, 8, 10, 12, 16, 17, 20, 24, 31, 32, 33, 48, 50, 56, 64, 72, 80, 96, 100, 112, 127,
    128,
)  # fmt: skip
_LONG = (
    150, 196, 200, 224, 250, 256, 300, 384, 400, 500, 512, 600, 768, 1000, 1023, 1024, 1500, 2000,
    2048, 4096,
)  # fmt: skip

Said = tuple[tuple[str, ...], tuple[int, ...]]  # words and sizes


def _shuffled(rng: random.Random, indices: str) -> str:
    return "".join(rng.sample(indices, len(indices)))


def _extents(rng: random.Random, count: int) -> tuple[int, ...]:
    return tuple(rng.choice(_EXTENTS + _LONG if count < 4 else _EXTENTS) for _ in range(count))


def _contraction(rng: random.Random) -> Said:
    # Indices of batches, of one factor, of the other, and of the sum.
    counts = (rng.choice((0, 0, 1)), rng.randint(0, 2), rng.randint(1, 2), rng.randint(1, 2))
    names = iter("abcdefgh")
    n, a, b, k = ("".join(next(names) for _ in range(c)) for c in counts)
    parts = (n + a + k, n + b + k, n + a + b)
    x, y, z = (_shuffled(rng, p) for p in parts)
    return (f"{x},{y}->{z}",), _extents(rng, sum(counts))


def _indices(rng: random.Random) -> str:
    return "abcd"[: rng.randint(2, 4)]


def _some(rng: random.Random, indices: str) -> str:
    """A part of the indices, in their order; neither none nor all."""
    kept = set(rng.sample(indices, rng.randint(1, len(indices) - 1)))
    return "".join(c for c in indices if c in kept)


def _reduction(rng: random.Random) -> Said:
    x = _indices(rng)
    return (rng.choice(("sum", "sum", "max")), f"{x}->{_some(rng, x)}"), _extents(rng, len(x))


def _permutation(rng: random.Random) -> Said:
    x = _indices(rng)
    y = next(y for y in iter(lambda: _shuffled(rng, x), "") if y != x)
    return (f"{x}->{y}",), _extents(rng, len(x))


def _broadcast(rng: random.Random) -> Said:
    y = _indices(rng)
    inputs = (y, _some(rng, y), rng.choice((y, _some(rng, y))))
    return (f"{','.join(inputs)}->{y}",), _extents(rng, len(y))


def _normalisation(rng: random.Random) -> Said:
    x = _indices(rng)
    kept = x[:-1] if rng.random() < 0.5 else _some(rng, x)
    return (rng.choice(("softmax", "standard")), f"{x}->{kept}"), _extents(rng, len(x))


def _convolution(rng: random.Random) -> Said:
    groups = rng.choice((1, 1, 1, 1, 8, 32, 64))
    channels = (1, 2, 4, 8) if groups > 1 else (3, 16, 24, 32, 48, 64, 96, 128, 256)
    c, f = rng.choice(channels), rng.choice(channels)
    side = rng.choice((7, 9, 14, 16, 18, 28, 30, 32, 56, 58, 64, 112, 224))
    window = rng.choice(((1, 1), (3, 3), (3, 3), (3, 3), (5, 5), (1, 5), (7, 7), (2, 2)))
    return (), (rng.choice((1, 2, 4, 8, 16)), groups, c, f, side, side, *window, rng.choice((1, 1, 2)), 1)


def _stencil(rng: random.Random) -> Said:
    dims = rng.choice((1, 2, 2, 3))
    shape, radius = rng.choice((("star", 1), ("star", 2), ("box", 1), ("star", 3)))
    long = {1: (100_000, 1_000_000, 5_000_000), 2: (256, 500, 1000, 2048, 3000), 3: (32, 64, 100, 128, 200)}
    return (shape,), (radius, *(rng.choice(long[dims]) for _ in range(dims)))


DRAWS: dict[Callable[..., Workload], Callable[[random.Random], Said]] = {
    general.contraction: _contraction,
    general.reduction: _reduction,
    general.permutation: _permutation,
    general.broadcast: _broadcast,
    general.normalisation: _normalisation,
    general.convolution: _convolution,
    general.stencil: _stencil,
}


def draw(seed: int, count: int) -> list[Case]:
    """So many cases.  A longer list begins with the shorter one."""
    rng = random.Random(seed)
    return [_named(rng) if rng.randrange(NAMED) == 0 else _general(rng) for _ in range(count)]


def _general(rng: random.Random) -> Case:
    family = rng.choice(list(DRAWS))
    while True:
        words, sizes = DRAWS[family](rng)
        found = Case("drawn", family, sizes, tiny(family, sizes), words=words)
        if _affordable(found.workload()):
            return found


def _named(rng: random.Random) -> Case:
    """A case of the tables at other sizes, with no more work than it has."""
    while True:
        case = rng.choice(CASES + PROGRAMS)
        sizes = tuple(max(2, round(n * 2 ** rng.uniform(-3, 1.5))) for n in case.sizes)
        found = Case("drawn", case.family, sizes, case.tiny)
        workload, most = found.workload(), case.workload().flops
        done = workload.flops > 0 or not most  # not of images that are smaller than the window
        if done and workload.flops <= most and _affordable(workload):
            return found


def tiny(family: Callable[..., Workload], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The same program at sizes that a test can afford."""
    if family is general.convolution:
        n, g, _, _, _, _, kh, kw, stride, dilation = sizes
        return min(n, 2), min(g, 2), 2, 3, dilation * kh + 4, dilation * kw + 3, kh, kw, stride, dilation
    if family is general.stencil:
        return sizes[0], *(2 * sizes[0] + 3 + i for i in range(len(sizes) - 1))
    return tuple(min(n, 3 + i % 3) for i, n in enumerate(sizes))


def _affordable(workload: Workload) -> bool:
    nbytes = workload.read_bytes() + workload.result_bytes
    return (
        BYTES[0] <= nbytes <= BYTES[1]
        and workload.flops <= FLOPS[1]
        and max(workload.flops, nbytes) >= FLOPS[0]
    )
