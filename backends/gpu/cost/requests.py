"""The memory requests, instructions and barriers of a whole launch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.ir.evaluate import evaluate
from tc.ir.expr import Expr
from tc.ir.loops import Launch
from tc.ir.printer import text

from .instructions import MULTIPLY_ADD
from .unrolling import Unrolling

GLOBAL = ("input", "output", "temporary")
SCRATCH = "scratch"  # the shared memory that reductions across threads use


@dataclass(frozen=True, slots=True)
class Access:
    """An access in the text of a kernel, with numbers of the whole launch.

    `requests` of warps, for `elements` of all lanes.  `transactions` are sectors of global memory, or cycles
    of shared memory; `ideal_transactions` those of as many contiguous elements.  `lines` are those of the L1
    cache that requests to global memory touch.
    """

    buffer: str
    subscripts: tuple[Expr, ...]
    shared: bool
    store: bool
    requests: float
    elements: float
    transactions: float
    ideal_transactions: float
    lines: float = 0.0

    @property
    def text(self) -> str:
        return f"{self.buffer}[{', '.join(map(text, self.subscripts))}]"

    @property
    def transactions_per_request(self) -> float:
        """Sectors of a request to global memory, or cycles of one to shared memory."""
        return self.transactions / self.requests if self.requests else 0.0

    @property
    def coalesced(self) -> bool:
        """At most one sector more than the ideal number for each request, as rows need not be aligned to
        sectors; in shared memory no bank conflicts."""
        return self.transactions <= self.ideal_transactions * (1 + 1e-9) + (
            0 if self.shared else self.requests
        )


@dataclass(frozen=True, slots=True)
class Work:
    """What a launch executes, in instructions of warps.

    `arithmetic` has them by pipe, with shuffles, and with `multiply-add` counted a second time.  `control`
    are branches and comparisons, `guards` those of conditions inside loops.  `barriers` are those of a
    thread, `barriers_per_iteration` those in one iteration of the loop with most of them.  By the `id` of a
    loop, `trip_counts` has its average where it runs at all, and `unrollings` how nvcc unrolls it.
    """

    accesses: tuple[Access, ...]
    arithmetic: Mapping[str, float] = field(hash=False)
    control: float = 0.0
    guards: float = 0.0
    barriers: float = 0.0
    barriers_per_iteration: int = 0
    multiply_adds: float = 0.0  # of lanes
    trip_counts: Mapping[int, float] = field(hash=False, default_factory=dict[int, float])
    unrollings: Mapping[int, Unrolling] = field(hash=False, default_factory=dict[int, Unrolling])
    warps: float = 0.0

    @property
    def instructions(self) -> float:
        pipes = sum(n for p, n in self.arithmetic.items() if p != MULTIPLY_ADD)
        return pipes + self.control + sum(a.requests for a in self.accesses)


def block_counts(launch: Launch, sizes: Mapping[str, int]) -> list[int]:
    return [max(0, evaluate(n, sizes)) for _, n in launch.blocks]


def thread_count(launch: Launch) -> int:
    return math.prod(n for _, n in launch.threads)
