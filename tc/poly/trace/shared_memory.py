"""Race detection in memory that the threads of a launch share: accesses since the last barrier."""

from __future__ import annotations

from dataclasses import dataclass, field

from tc.ir.loops import WARP
from tc.poly.trace.events import Cell, Instance, OutOfBoundsError, shown

_NOBODY, _SEVERAL = -1, -2


@dataclass(slots=True)
class _Touched:
    """The block that accessed a cell, and the threads that did since the barrier `epoch`, each with the last
    barrier of its warp before."""

    block: int = _NOBODY
    epoch: int = _NOBODY
    threads: dict[int, int] = field(default_factory=dict[int, int])

    def note(self, block: int, epoch: int, step: int, thread: int) -> None:
        if self.block != block:
            self.block = block if self.block == _NOBODY else _SEVERAL
        if self.epoch != epoch:
            self.epoch, self.threads = epoch, {}
        self.threads[thread] = step

    def by_another(self, block: int, epoch: int, step: int, thread: int) -> bool:
        if self.block not in (_NOBODY, block):
            return True
        return self.epoch == epoch and any(
            other != thread and (other // WARP != thread // WARP or when == step)
            for other, when in self.threads.items()
        )


@dataclass(slots=True)
class Memory:
    """The accesses of one launch.  `block`, `epoch` (it grows with each barrier), `step` (with each barrier
    of warps) and `thread` say who makes the next ones."""

    block: int = 0
    epoch: int = 0
    step: int = 0
    thread: int = 0
    flying: set[Cell] = field(default_factory=set[Cell])  # asynchronous copies that may not have arrived
    _reads: dict[Cell, _Touched] = field(default_factory=dict[Cell, _Touched])
    _writes: dict[Cell, _Touched] = field(default_factory=dict[Cell, _Touched])
    _updates: dict[Cell, _Touched] = field(default_factory=dict[Cell, _Touched])  # atomic ones

    def touch(self, cell: Cell, at: Instance, *, write: bool, atomic: bool = False) -> None:
        """Raises OutOfBoundsError if another thread may access the cell at the same time, unless both update
        it atomically."""
        if cell in self.flying:
            raise OutOfBoundsError(f"{_named(at)} touches {cell} while it is being copied")
        here = (self.block, self.epoch, self.step, self.thread)
        others = [self._writes.get(cell)]
        if write:
            others.append(self._reads.get(cell))
        if not atomic:
            others.append(self._updates.get(cell))
        for o in others:
            if o is not None and o.by_another(*here):
                does = "writes" if write else "reads"
                raise OutOfBoundsError(f"{_named(at)} {does} {cell} while another thread may touch it")
        mine = self._updates if atomic else self._writes if write else self._reads
        mine.setdefault(cell, _Touched()).note(*here)


def _named(at: Instance) -> str:
    return shown(at) if at[0] else "a copy"
