"""How the threads of a block put together what each of them holds: within warps by shuffles, where a language
has them, and then through shared memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tc.ir.loops import WARP

_READ = 64  # values that a thread reads one after the other
_FEW, _FEW_EVERYWHERE = 32, 8  # threads whose values one thread, or each, adds up sooner than a tree does


@dataclass(frozen=True, slots=True)
class Grouping:
    """How `count` threads that are `stride` apart combine, in a block of `threads`: the `lanes` of a warp by
    shuffles (1: none do), what `warps` of them have left through shared memory."""

    count: int
    stride: int
    lanes: int
    threads: int

    @staticmethod
    def of(threads: Sequence[tuple[str, int]], variable: str, shuffles: bool) -> Grouping:
        """Of the threads along a variable of a block."""
        place = [v for v, _ in threads].index(variable)
        count, stride = threads[place][1], math.prod(n for _, n in threads[:place])
        lanes = WARP // stride if WARP % stride == 0 else 1
        if count < lanes and count & (count - 1) == 0:
            lanes = count
        lanes = lanes if shuffles and count % lanes == 0 else 1
        return Grouping(count, stride, lanes, math.prod(n for _, n in threads))

    @property
    def warps(self) -> int:
        """How many warps have a part after shuffles; without these how many threads."""
        return self.count // self.lanes

    @property
    def slots(self) -> int:
        """Places in shared memory that a combination of one value a thread takes."""
        if self.warps == 1:
            return 0
        return self.threads if self.lanes == 1 else -(-self.threads // WARP) * self.stride

    def at_once(self, elements: int) -> int:
        """How many of so many values a thread go through shared memory between the same barriers: a divisor
        of their number, and no more than there is a place a thread for."""
        most = self.threads // self.slots if self.warps > 1 else elements
        return max(n for n in range(1, elements + 1) if elements % n == 0 and n <= max(1, most))

    def room(self, elements: int) -> int:
        """Places in shared memory that combinations of so many values a thread take: at most one a thread."""
        return self.slots * self.at_once(elements)

    def rounds(self, elements: int) -> int:
        """How often values go through shared memory; in each round but the first they have to wait until all
        threads are done with those before."""
        return elements // self.at_once(elements)

    def shared_out(self, elements: int) -> bool:
        """Whether threads share out what warps have left, and read the results after another barrier: each
        would read too much to have it all at once."""
        return self.lanes > 1 and self.warps > 1 and self.warps * self.at_once(elements) > _READ

    def in_a_row(self, everywhere: bool) -> bool:
        """Whether, without shuffles, what threads have left is read one after the other after one barrier, by
        those that are to have it; else a tree halves it, with a barrier each step."""
        return self.lanes == 1 and self.count <= (_FEW_EVERYWHERE if everywhere else _FEW)

    def barriers(self, elements: int, waits: bool, everywhere: bool = False) -> int:
        """Barriers of the block; `waits`: the places are still read when threads get here; `everywhere`: all
        threads get what is combined."""
        if self.warps == 1:
            return 0
        rounds = self.rounds(elements)
        each = 1 + self.shared_out(elements)
        if self.lanes == 1 and not self.in_a_row(everywhere):
            each = (self.count - 1).bit_length() + everywhere
        return rounds * (each + (waits or rounds > 1))
