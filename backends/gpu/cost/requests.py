"""What a launch asks of memory, and what else it does, as numbers of the whole launch."""

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
SCRATCH = "scratch"  # what combinations have in shared memory


@dataclass(frozen=True, slots=True)
class Access:
    """One in the text of a kernel; the numbers are those of the whole launch.

    `requests` of warps, for `elements` of all lanes.  `moved`: sectors of global memory, or cycles of shared
    memory; `least`: how many it would be if the same elements were neighbours.
    """

    buffer: str
    subscripts: tuple[Expr, ...]
    shared: bool
    store: bool
    requests: float
    elements: float
    moved: float
    least: float

    @property
    def text(self) -> str:
        return f"{self.buffer}[{', '.join(map(text, self.subscripts))}]"

    @property
    def each(self) -> float:
        """Sectors of a request, or cycles: bank conflicts, where there are more than needed."""
        return self.moved / self.requests if self.requests else 0.0

    @property
    def coalesced(self) -> bool:
        """No more sectors than needed but one, where a row does not start with a sector; no conflicts."""
        return self.moved <= self.least * (1 + 1e-9) + (0 if self.shared else self.requests)


@dataclass(frozen=True, slots=True)
class Work:
    """What a launch does: warps' instructions by pipe (`arithmetic`; `multiply-add` are among them, and of
    shuffles), those of control and of `guards` alone; `barriers` of a thread, and in one iteration of the
    loop with the most of its own; how often a loop runs on average, if it does at all, and how nvcc unrolls
    it, by its `id`."""

    accesses: tuple[Access, ...]
    arithmetic: Mapping[str, float] = field(hash=False)
    control: float = 0.0
    guards: float = 0.0
    barriers: float = 0.0
    barriers_each: int = 0
    multiply_adds: float = 0.0  # of lanes
    trips: Mapping[int, float] = field(hash=False, default_factory=dict[int, float])
    unrolled: Mapping[int, Unrolling] = field(hash=False, default_factory=dict[int, Unrolling])
    warps: float = 0.0

    @property
    def instructions(self) -> float:
        pipes = sum(n for p, n in self.arithmetic.items() if p != MULTIPLY_ADD)
        return pipes + self.control + sum(a.requests for a in self.accesses)


def block_counts(launch: Launch, sizes: Mapping[str, int]) -> list[int]:
    return [max(0, evaluate(n, sizes)) for _, n in launch.blocks]


def thread_count(launch: Launch) -> int:
    return math.prod(n for _, n in launch.threads)
