"""What the model knows of the machine: from the operating system and LLVM."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tc.codegen import llvm_jit
from tc.errors import BackendError
from tc.support import machine_overrides

from .isa import AVX2, AVX512, ISAS, NEON, SSE42, Isa

LINE = 64  # bytes of a line of every cache
PAGE = 4096  # bytes that the hardware follows a stream in


@dataclass(frozen=True, slots=True)
class Machine:
    """Caches are in bytes, a core's own but for `l3`, with `ways` of so many lines a set; `fma_units` and
    `loads` are vectors a cycle, `broadcasts` single elements a cycle, `starts` operations of any kind;
    `latency` is that of a multiply-add; bandwidths are bytes a cycle and core.

    `short_store` is cycles that a few elements wait which are stored to a line of a large result, beside what
    storing them takes; `stray_row` is cycles that a row of a large result waits which the hardware does not
    follow; `far_row` is cycles that arithmetic waits for each row that it reads, pages apart, of an array
    larger than the second cache; `crowded` is how many times as long, at most, a line takes that finds no
    room in its set of the first cache; `evicted` is cycles that arithmetic waits for such a line of a block
    of rows, each time that another tile reads it again; `lost_line` is cycles that a line of results waits of
    which a part is stored, and which the second cache has lost; `full_set` is cycles that a row of results
    waits for each time that the rows stored together fill its set of the first cache; `many_pages` is cycles
    that it waits where these lie on more pages than the hardware follows; `hinted` is the cache, 1 or 2, to
    which lines come that are asked for ahead.  `asks_again` is 1 where rows that a nest reads several times
    are asked for while those before them are read; `fused_products` is 1 where products among multiply-adds
    hold these up and had better be multiply-adds."""

    isa: Isa
    cores: int
    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 32 << 20
    l1_ways: int = 8
    l2_ways: int = 8
    fma_units: int = 2
    loads: int = 2
    broadcasts: int = 2
    starts: float = 3.0
    latency: int = 4
    l2_bandwidth: float = 32.0
    l3_bandwidth: float = 12.0
    bandwidth: float = 6.0
    short_store: float = 0.0
    stray_row: float = 0.0
    far_row: float = 0.0
    crowded: float = 4.0
    evicted: float = 0.0
    lost_line: float = 0.0
    full_set: float = 0.0
    many_pages: float = 0.0
    hinted: int = 2
    asks_again: int = 1
    fused_products: int = 0

    def issue(self, width: int) -> tuple[int, int]:
        """Multiply-adds and loads a cycle of vectors of `width` bytes: what runs a wide vector as two halves
        runs two narrow ones at a time."""
        if width <= 32 < self.isa.vector_bytes:
            return max(2, self.fma_units), max(2, self.loads)
        return self.fma_units, self.loads


# Facts that may be 0.
_WAITS = frozenset(
    [
        "short_store", "stray_row", "far_row", "evicted", "lost_line", "full_set", "many_pages",
        "asks_again", "fused_products",
    ]
)  # fmt: skip

# Processors whose gathers are slower than single loads (Fog, "Instruction tables", 2025, Zen 2 to Zen 5).
_SLOW_GATHERS = "znver"

# Where stores to many lines hold up the loads after them.  On a Golden Cove core, 32 to 64 rows of 4 to 10
# elements each, stored after some thousand cycles of multiply-adds, took a quarter to a half of all the time;
# of 1 to 12 cycles a row, 3 chose best (ADR 8).  On Zen 4 nothing like it was seen.
_SHORT_STORE = 3.0

# Where the prefetcher of the second cache follows one stream on each page (Intel, "Optimization Reference
# Manual", 2024, on data prefetching).  On the same core, a tile of three rows of 32 results, 888 bytes apart,
# took 20 cycles longer for each row but one, tiles of five rows of 16 results 26; stores to up to 48 pages
# took 12 cycles a line, to 64 pages 27 (ADR 8).  On Zen 4 it was not measured, and is 0.
_STRAY_ROW = 20.0

# Where rows on pages of their own hold up the arithmetic on them.  On the same core, a product with five
# broadcast elements from each of 1000 rows took 3 to 8 cycles more a row where the rows lay 4 KB apart and
# the array was larger than the second cache, 20 to 35 where they lay 16 KB apart; none of an array that the
# second cache holds.  Neither prefetches nor pages of 2 MiB changed that; rows that are only copied do not
# wait.  Of 4, 8 and 16 cycles, 4 chose best (ADR 8).  On Zen 4 random contractions are slower with 4 than
# with 0, and it is 0.
_FAR_ROW = 4.0

# Bytes a cycle that a loop of multiply-adds took from the second cache of that core, over a pack.
_L2_BANDWIDTH = 26.0

# How much longer lines take whose sets are full.  Of 1, 1.5, 2, 3 and 4 times, 2 chose best (ADR 8); on
# Zen 4, where random contractions chose it, it is 4.
_CROWDED = 2.0

# Where blocks of rows 4096 bytes apart, which fall into a few sets, are slow to read again.  On Zen 4 tiles
# of 8 x 32 of a product took 6 cycles longer for each line; of 3 and 6, 3 chose best (ADR 8).  On a Golden
# Cove core such blocks were the fastest, and it is 0.
_ZEN: dict[str, Any] = {"evicted": 3.0}

# Where it does not pay to ask for rows that are read several times.  On a Golden Cove core, which looks
# farther ahead, normalisations of rows of 1 to 8 KB were 1.05 to 1.16 times as fast without (one of seven
# 0.93 times), of rows of 1200 bytes, one instead of four side by side, 1.8 times (ADR 8); on Zen 4 they are
# 0.6 to 0.9 times as fast.
_ASKS_AGAIN = 0

# Where parts of lines of results wait that the second cache has lost.  On a Golden Cove core, products of
# which columns of six results were stored to rows 128 or 256 KB apart, which share a set or two, took 1.07 to
# 1.3 times as long as with rows of 64 results; 30 chooses these, as it did on Zen 2 (ADR 8).
_LOST_LINE = 30.0

_GOLDEN_COVE: dict[str, Any] = {
    "l2_bandwidth": _L2_BANDWIDTH,
    "short_store": _SHORT_STORE,
    "stray_row": _STRAY_ROW,
    "far_row": _FAR_ROW,
    "crowded": _CROWDED,
    "lost_line": _LOST_LINE,
    "asks_again": _ASKS_AGAIN,
}

# Where none of these is counted, but what is in `_ZEN`.
_NO_WAITS = "znver"

# Cycles until a multiply-add can use the sum of another (Fog, "Instruction tables", 2025); elsewhere 4.
_LATENCY = {"znver1": 5, "znver2": 5, "haswell": 5, "broadwell": 5}

# Processors that run each 512-bit operation as two halves (Fog, "The microarchitecture of Intel, AMD and VIA
# CPUs", 2024, chapter on Zen 4).
_HALVES = frozenset(["znver4"])


# What is known of single processors, by LLVM's names.  On Zen 2:
# - operations that start a cycle beside another thread's: tiles of 2 x 5 and 2 x 6 vectors run at the rate of
#   their multiply-adds; of 3, 3.3, 3.6, 4 and 5, 4 chose best;
# - products, which take three cycles, and multiply-adds, which take five, share two units: as many of each
#   start 1.74 a cycle, multiply-adds alone 2.  On Zen 4 (three and four cycles) nothing like it was seen;
# - short rows of results, pages apart, wait for the last cache.  On Zen 4 they do not: tiles of 32 x 8 of a
#   product, whose rows are 64 KB apart, are fast there;
# - what is asked for, of whatever cache, comes to the first one (ADR 8).
# On Zen 4:
# - of images of 64 x 64, 96 x 96 and 128 x 128 pixels, whose rows fall into one set, 32 filters stored four
#   or eight pixels at a time wait 4 to 7 cycles a row, twice 32 filters 11 to 13, 16 filters 2 to 3;
# - twice 32 filters of 58 x 58 pixels, on 64 pages, wait 7 to 12 cycles a row; on 32 pages none (ADR 8).
_KNOWN: dict[str, dict[str, Any]] = {
    "znver2": {"starts": 4.0, "fused_products": 1, "lost_line": 30.0, "hinted": 1},
    "znver4": {"full_set": 1.7, "many_pages": 6.0},
}


# What is counted on of a last cache that others share, whom a virtual machine does not see: so much for each
# core, and at least that of a Zen 4 complex.  On two cores of an Emerald Rapids with 300 MiB of it, a copy of
# 24 MB was 2.3 times as fast past the caches, and stencils, sums and transpositions of 50 to 160 MB were 1.1
# to 3.2 times (ADR 8).
_SHARE, _LEAST = 8 << 20, 32 << 20


def _cache(level: int, kind: str, size: int, ways: int) -> tuple[int, int]:
    """The bytes and the ways of a cache; what the system does not tell is as given."""
    base = Path("/sys/devices/system/cpu/cpu0/cache")
    for index in sorted(base.glob("index*")) if base.exists() else []:
        try:
            if int(_fact(index, "level")) == level and _fact(index, "type") in (kind, "Unified"):
                text = _fact(index, "size")
                size = int(text[:-1]) << {"K": 10, "M": 20}[text[-1]]
                ways = int(_fact(index, "ways_of_associativity")) or ways
                break
        except (OSError, ValueError, KeyError):
            continue
    return size, ways


def _fact(index: Path, name: str) -> str:
    return (index / name).read_text().strip()


@cache
def host() -> Machine:
    """This machine."""
    name, features = llvm_jit.host_cpu()
    have = {f[1:] for f in features.split(",") if f.startswith("+")}
    if {"avx512f", "avx512vl", "avx512dq", "avx512bw"} <= have:
        isa = AVX512
    elif {"avx2", "fma"} <= have:
        isa = AVX2
    elif "sse4.2" in have:
        isa = SSE42
    else:
        isa = NEON
    if name.startswith(_SLOW_GATHERS) and isa is AVX512:  # LLVM knows it of narrower ones
        isa = replace(isa, features="+prefer-no-gather")
    dots = "avx512vnni" if isa is not AVX2 and isa.vector_bytes == 64 else "avxvnni"
    if isa.x86 and isa.vector_bytes >= 32 and dots in have:
        isa = replace(isa, features=f"{isa.features},+{dots}".lstrip(","), dots=True)
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    l1, l1_ways = _cache(1, "Data", 32 << 10, 8)
    l2, l2_ways = _cache(2, "Unified", 1 << 20, 8)
    l3, _ = _cache(3, "Unified", 32 << 20, 16)
    return Machine(
        isa,
        cores,
        l1,
        l2,
        min(l3, max(_LEAST, _SHARE * cores)),
        l1_ways,
        l2_ways,
        fma_units=1 if name in _HALVES and isa.vector_bytes == 64 else 2,
        loads=1 if name in _HALVES and isa.vector_bytes == 64 else 2,
        latency=_LATENCY.get(name, 4),
        **_ZEN if name.startswith(_NO_WAITS) else _GOLDEN_COVE,
        **_KNOWN.get(name, {}),
    )


def believed(machine: Machine, given: Iterable[tuple[str, float]]) -> Machine:
    """A machine of which some facts are taken as given; raises BackendError (TC0814) for unknown ones, and
    for numbers that they cannot be."""
    return machine_overrides.believed(machine, given, "cpu", ("isa",), _WAITS)


def with_isa(name: str) -> Machine:
    """This machine with an instruction set; raises BackendError (TC0811) for one it does not have."""
    machine = host()
    order = [SSE42.name, AVX2.name, AVX512.name]
    here = machine.isa.name
    if name != here and not (name in order and here in order and order.index(name) < order.index(here)):
        raise BackendError(
            f"this processor has {here}, and cannot run {name} code",
            code="TC0811",
            help=f"use isa={here!r} or leave it out",
        )
    isa = ISAS[name]
    if isa.vector_bytes == machine.isa.vector_bytes:
        return machine
    return replace(machine, isa=isa, fma_units=2, loads=2)
