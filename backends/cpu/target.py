"""The machine that the cost model assumes: facts from the system and LLVM, and measured constants."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tc.codegen import llvm_jit
from tc.errors import BackendError
from tc.options import Options
from tc.support import machine_overrides

from .isa import AVX2, AVX512, ISAS, NEON, SSE42, Isa

LINE = 64  # bytes of a cache line, in every cache
PAGE = 4096  # bytes within which the hardware prefetcher follows a stream


@dataclass(frozen=True, slots=True)
class Machine:
    """What the cost model knows of a machine; the option `machine` overrides each fact but `isa`.

    Caches (`l1`, `l2`, `l3`) are in bytes and a core's own but for `l3`; `l1_ways` and `l2_ways` are their
    associativity.  `fma_units` multiply-adds and `loads` loads of vectors, `broadcasts` loads of single
    elements and `issue_width` operations of any kind start each cycle; `latency` is that of a multiply-add in
    cycles.  Bandwidths are bytes a cycle and core.

    Penalties are in cycles:

    - `scattered_store_penalty`: for each row of a few elements that a register tile stores to a large result,
      beside the stores themselves.
    - `unprefetched_row_penalty`: for each row of a large result that the hardware prefetcher does not follow.
    - `page_stride_penalty`: arithmetic stalls so long for each row that it reads of an array larger than the
      second cache, times the pages from one row to the next (at most 8).
    - `conflict_reload_penalty`: arithmetic stalls so long for a line of a block of rows that found no room in
      its set of the first cache, each time that another tile reads it again.
    - `partial_line_penalty`: for a line of results of which a part is stored and which the second cache has
      evicted.
    - `set_conflict_store_penalty`: for a row of results, times how often the rows stored together fill their
      set of the first cache.
    - `many_pages_penalty`: for a row of results where the rows stored together lie on more pages than the
      prefetcher follows.

    `conflict_miss_factor` is how many times as long, at most, a line takes that finds no room in its set of
    the first cache.  `prefetch_level` is the cache, 1 or 2, into which prefetch instructions bring lines.
    `prefetch_rereads` is 1 where rows that a nest reads several times are prefetched while the rows before
    them are read, `prefetch_blocks` where those of the next block of a reduction are while one is read; a
    larger value is the bytes of a row from which the hardware prefetcher follows such blocks, so that shorter
    rows alone are prefetched.  `stream_tasks` is how many tasks each core gets of a nest that streams blocks
    of rows.  `stream_prefetch` is how many bytes ahead of its loads and stores a pointwise nest
    prefetches what it streams; 0 where that does not pay.  `fused_products` is 1 where a product among
    multiply-adds delays these and is better emitted as a multiply-add.
    """

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
    issue_width: float = 3.0
    latency: int = 4
    l2_bandwidth: float = 32.0
    l3_bandwidth: float = 12.0
    bandwidth: float = 6.0
    scattered_store_penalty: float = 0.0
    unprefetched_row_penalty: float = 0.0
    page_stride_penalty: float = 0.0
    conflict_miss_factor: float = 4.0
    conflict_reload_penalty: float = 0.0
    partial_line_penalty: float = 0.0
    set_conflict_store_penalty: float = 0.0
    many_pages_penalty: float = 0.0
    prefetch_level: int = 2
    prefetch_rereads: int = 1
    prefetch_blocks: int = 1
    stream_tasks: int = 2
    stream_prefetch: int = 0
    fused_products: int = 0

    def issue(self, width: int) -> tuple[int, int]:
        """Multiply-adds and loads of vectors of `width` bytes that start each cycle.  A core that runs a wide
        vector as two halves runs two narrow ones at a time."""
        if width <= 32 < self.isa.vector_bytes:
            return max(2, self.fma_units), max(2, self.loads)
        return self.fma_units, self.loads


# Facts that may be 0.
_MAY_BE_ZERO = frozenset(
    [
        "scattered_store_penalty",
        "unprefetched_row_penalty",
        "page_stride_penalty",
        "conflict_reload_penalty",
        "partial_line_penalty",
        "set_conflict_store_penalty",
        "many_pages_penalty",
        "prefetch_rereads",
        "prefetch_blocks",
        "stream_prefetch",
        "fused_products",
    ]
)

# Old names of facts.
_OLD_NAMES = {
    "short_store": "scattered_store_penalty",
    "stray_row": "unprefetched_row_penalty",
    "far_row": "page_stride_penalty",
    "crowded": "conflict_miss_factor",
    "evicted": "conflict_reload_penalty",
    "lost_line": "partial_line_penalty",
    "full_set": "set_conflict_store_penalty",
    "many_pages": "many_pages_penalty",
    "starts": "issue_width",
    "asks_again": "prefetch_rereads",
    "hinted": "prefetch_level",
}

# Processors, by a prefix of LLVM's name, whose gathers are slower than single loads (Fog, "Instruction
# tables", 2025, Zen 2 to Zen 5).
_SLOW_GATHERS = "znver"

# Stores to many lines delay the loads after them.  On a Golden Cove core, 32 to 64 rows of 4 to 10 elements
# each, stored after some thousand cycles of multiply-adds, took a quarter to a half of all the time; of 1 to
# 12 cycles a row, 3 chose best (docs/experiments/golden-cove.md).  On Zen 4 nothing like it was measured.
_SCATTERED_STORE_PENALTY = 3.0

# The prefetcher of the second cache follows one stream on each page (Intel, "Optimization Reference Manual",
# 2024, on data prefetching).  On the same core, a tile of three rows of 32 results, 888 bytes apart, took 20
# cycles longer for each row but one, tiles of five rows of 16 results 26; stores to up to 48 pages took 12
# cycles a line, to 64 pages 27 (docs/experiments/golden-cove.md).  On Zen 4 it was not measured, and is 0.
_UNPREFETCHED_ROW_PENALTY = 20.0

# Rows on pages of their own stall the arithmetic on them.  On the same core, a product with five broadcast
# elements from each of 1000 rows took 3 to 8 cycles more a row where the rows lay 4 KB apart and the array
# was larger than the second cache, and 20 to 35 where they lay 16 KB apart; an array that the second cache
# holds cost nothing.  Neither prefetches nor pages of 2 MiB changed that; rows that are only copied do not
# stall.  Of 4, 8 and 16 cycles, 4 chose best (docs/experiments/golden-cove.md).  On Zen 4 random contractions
# are slower with 4 than with 0, and it is 0.
_PAGE_STRIDE_PENALTY = 4.0

# Bytes a cycle that a loop of multiply-adds over a pack took from the second cache of that core.
_L2_BANDWIDTH = 26.0

# Time factor of lines whose sets are full.  Of 1, 1.5, 2, 3 and 4, 2 chose best
# (docs/experiments/golden-cove.md); on Zen 4, where random contractions chose it, it is 4.
_CONFLICT_MISS_FACTOR = 2.0

# Blocks of rows 4096 bytes apart, which map to a few sets, are slow to read again.  On Zen 4 tiles of 8 x 32
# of a product took 6 cycles longer for each line; of 3 and 6, 3 chose best
# (docs/experiments/cost-model.md).  On a Golden Cove core such blocks were the fastest, and it is 0.
_ZEN: dict[str, Any] = {"conflict_reload_penalty": 3.0}

# Prefetching rows that are read several times does not pay everywhere.  On a Golden Cove core, whose own
# prefetcher looks farther ahead, normalisations of rows of 1 to 8 KB were 1.05 to 1.16 times as fast without
# it (one of seven 0.93 times), and of rows of 1200 bytes, one instead of four side by side, 1.8 times
# (docs/experiments/emerald-rapids.md); on Zen 4 they are 0.6 to 0.9 times as fast without it.
_PREFETCH_REREADS = 0

# Sums of columns read blocks of rows, each row some lines at a time.  On a Golden Cove core the hardware
# prefetcher follows: sums of 16 to 160 MB, of rows of 2 to 80 KB, were 1.06 to 1.14 times as fast without
# prefetches of the next block (docs/experiments/emerald-rapids.md).  On Zen 4 these pay.
_PREFETCH_BLOCKS = 0

# A store waits for the line that it overwrites, and the hardware prefetcher runs behind the stores of a loop
# that does little else.  On a Golden Cove core, loops that add 1 to 0.8 to 64 MB of doubles were 1.0 to 1.3
# times as fast with the lines of the result prefetched for writing 1 to 4 KB ahead, and as fast where the
# second cache held all (docs/experiments/emerald-rapids.md).  On Zen 4 it was not measured, and is 0.
_STREAM_PREFETCH = 2048

# Stores to parts of lines of results stall if the second cache has evicted the lines.  On a Golden Cove core,
# products of which columns of six results were stored to rows 128 or 256 KB apart, which share a set or two,
# took 1.07 to 1.3 times as long as with rows of 64 results; 30 chooses these, as it did on Zen 2
# (docs/experiments/emerald-rapids.md).
_PARTIAL_LINE_PENALTY = 30.0

_GOLDEN_COVE: dict[str, Any] = {
    "l2_bandwidth": _L2_BANDWIDTH,
    "scattered_store_penalty": _SCATTERED_STORE_PENALTY,
    "unprefetched_row_penalty": _UNPREFETCHED_ROW_PENALTY,
    "page_stride_penalty": _PAGE_STRIDE_PENALTY,
    "conflict_miss_factor": _CONFLICT_MISS_FACTOR,
    "partial_line_penalty": _PARTIAL_LINE_PENALTY,
    "prefetch_rereads": _PREFETCH_REREADS,
    "prefetch_blocks": _PREFETCH_BLOCKS,
    "stream_prefetch": _STREAM_PREFETCH,
}

# Processors, by a prefix of LLVM's name, that take the facts of `_ZEN`; all others take those of
# `_GOLDEN_COVE`.
_ZEN_NAMES = "znver"

# Cycles until a multiply-add can use the sum of another (Fog, "Instruction tables", 2025); elsewhere 4.
_LATENCY = {"znver1": 5, "znver2": 5, "haswell": 5, "broadwell": 5}

# Processors that run each 512-bit operation as two halves (Fog, "The microarchitecture of Intel, AMD and VIA
# CPUs", 2024, chapter on Zen 4).
_SPLIT_512 = frozenset(["znver4"])


# Facts of single processors, by LLVM's names.  On Zen 2:
# - Operations that start each cycle beside another thread's: tiles of 2 x 5 and 2 x 6 vectors run at the rate
#   of their multiply-adds; of 3, 3.3, 3.6, 4 and 5, 4 chose best.
# - Products, which take three cycles, and multiply-adds, which take five, share two units: as many of each
#   start at 1.74 a cycle, multiply-adds alone at 2.  On Zen 4 (three and four cycles) nothing like it was
#   measured.
# - Short rows of results, pages apart, wait for the last cache.  On Zen 4 they do not: tiles of 32 x 8 of a
#   product, whose rows are 64 KB apart, are fast there.
# - Prefetched lines, for whatever cache, come to the first one (docs/experiments/zen-4.md). On Zen 4:
# - Of images of 64 x 64, 96 x 96 and 128 x 128 pixels, whose rows map to one set, 32 filters stored four or
#   eight pixels at a time stall 4 to 7 cycles a row, twice 32 filters 11 to 13, 16 filters 2 to 3.
# - Twice 32 filters of 58 x 58 pixels, on 64 pages, stall 7 to 12 cycles a row; on 32 pages none
#   (docs/experiments/random-programs.md).
# On Zen 3 sums of columns, of rows of 8 to 128 KB, were 1.02 to 1.5 times as fast without prefetches of the
# next block, of rows of 2 to 4 KB 0.6 to 0.9 times; with one task a core, which reads longer pieces of rows,
# and without these prefetches 1.0 to 1.8 times (docs/experiments/zen-3.md).
# On Zen 5 rows stall as on Zen 4: with its two facts six of fifteen convolutions and products were 1.2 to
# 2.5 times as fast, the others as fast (docs/experiments/zen-5.md).
_BY_NAME: dict[str, dict[str, Any]] = {
    "znver2": {"issue_width": 4.0, "fused_products": 1, "partial_line_penalty": 30.0, "prefetch_level": 1},
    "znver3": {
        "prefetch_blocks": 8 << 10,
        "stream_tasks": 1,
        "page_stride_penalty": _PAGE_STRIDE_PENALTY,
    },
    "znver4": {"set_conflict_store_penalty": 1.7, "many_pages_penalty": 6.0},
    "znver5": {"set_conflict_store_penalty": 1.7, "many_pages_penalty": 6.0},
}


# How much of a last cache that others share the model counts on, as a virtual machine does not see the
# others: so much for each core, and at least that of a Zen 4 complex.  On two cores of an Emerald Rapids with
# 300 MiB of it, a copy of 24 MB was 2.3 times as fast with non-temporal stores, and stencils, sums and
# transpositions of 50 to 160 MB were 1.1 to 3.2 times as fast (docs/experiments/emerald-rapids.md).
_L3_PER_CORE, _L3_LEAST = 8 << 20, 32 << 20


def _cache(level: int, kind: str, size: int, ways: int) -> tuple[int, int]:
    """The size in bytes and the associativity of a cache of this machine; `size` and `ways` where the system
    does not tell."""
    base = Path("/sys/devices/system/cpu/cpu0/cache")
    for index in sorted(base.glob("index*")) if base.exists() else []:
        try:
            if int(_sysfs(index, "level")) == level and _sysfs(index, "type") in (kind, "Unified"):
                text = _sysfs(index, "size")
                size = int(text[:-1]) << {"K": 10, "M": 20}[text[-1]]
                ways = int(_sysfs(index, "ways_of_associativity")) or ways
                break
        except (OSError, ValueError, KeyError):
            continue
    return size, ways


def _sysfs(index: Path, name: str) -> str:
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
    if name.startswith(_SLOW_GATHERS) and isa is AVX512:  # LLVM itself avoids gathers of narrower sets
        isa = replace(isa, features=f"{isa.features},+prefer-no-gather")
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
        min(l3, max(_L3_LEAST, _L3_PER_CORE * cores)),
        l1_ways,
        l2_ways,
        fma_units=1 if name in _SPLIT_512 and isa.vector_bytes == 64 else 2,
        loads=1 if name in _SPLIT_512 and isa.vector_bytes == 64 else 2,
        latency=_LATENCY.get(name, 4),
        **_ZEN if name.startswith(_ZEN_NAMES) else _GOLDEN_COVE,
        **_BY_NAME.get(name, {}),
    )


def with_overrides(machine: Machine, given: Iterable[tuple[str, float]]) -> Machine:
    """The machine with some facts replaced by `given`; old names of facts work, with a notice.  Raises
    BackendError (TC0814) for unknown facts, and for numbers that a fact cannot be."""
    return machine_overrides.with_overrides(machine, given, "cpu", ("isa",), _MAY_BE_ZERO, _OLD_NAMES)


def without_preset(options: Options) -> None:
    """Raises BackendError (TC0814) where options name a preset, which are machines of GPUs."""
    if options.preset:
        raise BackendError(
            f"the cpu backend has no preset of a machine {options.preset!r}",
            code="TC0814",
            help="say what it has by name, for example machine={'cores': 4}",
        )


def with_isa(name: str) -> Machine:
    """This machine with another instruction set.  Raises BackendError (TC0811) for one that the processor
    does not have."""
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
