"""How the threads of a block reduce their values: within warps by shuffles, where the language has them, and
then through shared memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tc.ir.loops import WARP

_MAX_LOADS = 64  # partial results that a thread loads
# Threads up to which a serial reduction by one thread, or by each of them, is faster than a tree.
_SERIAL_THREADS, _SERIAL_THREADS_EVERYWHERE = 32, 8


@dataclass(frozen=True, slots=True)
class Grouping:
    """A reduction over `count` threads with numbers `stride` apart, in a block of `threads`: over `lanes` of
    a warp by shuffles (1: none), over `warps` through shared memory."""

    count: int
    stride: int
    lanes: int
    threads: int

    @staticmethod
    def of(threads: Sequence[tuple[str, int]], variable: str, shuffles: bool) -> Grouping:
        """The reduction over the threads along a variable of the block."""
        position = [v for v, _ in threads].index(variable)
        count, stride = threads[position][1], math.prod(n for _, n in threads[:position])
        lanes = WARP // stride if WARP % stride == 0 else 1
        if count < lanes and count & (count - 1) == 0:
            lanes = count
        lanes = lanes if shuffles and count % lanes == 0 else 1
        return Grouping(count, stride, lanes, math.prod(n for _, n in threads))

    @property
    def warps(self) -> int:
        """The partial results of a group after shuffles."""
        return self.count // self.lanes

    @property
    def slots(self) -> int:
        """The slots in shared memory for one value a thread."""
        if self.warps == 1:
            return 0
        return self.threads if self.lanes == 1 else -(-self.threads // WARP) * self.stride

    def elements_per_round(self, elements: int) -> int:
        """The values of a thread, of so many, that go through shared memory between the same barriers: a
        divisor of their number, with at most one slot a thread."""
        limit = self.threads // self.slots if self.warps > 1 else elements
        return max(n for n in range(1, elements + 1) if elements % n == 0 and n <= max(1, limit))

    def slots_needed(self, elements: int) -> int:
        """The slots in shared memory for so many values a thread: at most one a thread."""
        return self.slots * self.elements_per_round(elements)

    def rounds(self, elements: int) -> int:
        """The rounds through shared memory; all but the first wait until all threads have loaded the values
        before."""
        return elements // self.elements_per_round(elements)

    def shares_partial_results(self, elements: int) -> bool:
        """Whether the partial results of warps are divided among threads, which load the results after
        another barrier, as otherwise each thread would load too many."""
        return (
            self.lanes > 1 and self.warps > 1 and self.warps * self.elements_per_round(elements) > _MAX_LOADS
        )

    def is_serial(self, everywhere: bool) -> bool:
        """Whether, without shuffles, the threads that need the result load all values after one barrier; else
        there is a tree with a barrier in each step."""
        return self.lanes == 1 and self.count <= (
            _SERIAL_THREADS_EVERYWHERE if everywhere else _SERIAL_THREADS
        )

    def barriers(self, elements: int, waits: bool, everywhere: bool = False) -> int:
        """The barriers of the block; `waits`: the slots may still be read; `everywhere`: all threads get the
        result."""
        if self.warps == 1:
            return 0
        rounds = self.rounds(elements)
        barriers = 1 + self.shares_partial_results(elements)
        if self.lanes == 1 and not self.is_serial(everywhere):
            barriers = (self.count - 1).bit_length() + everywhere
        return rounds * (barriers + (waits or rounds > 1))
