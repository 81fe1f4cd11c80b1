"""Race detection in memory that the threads of a launch share: accesses since the last barrier."""

from __future__ import annotations

from dataclasses import dataclass, field

from tc.ir.loops import WARP
from tc.poly.trace.events import Cell, Instance, OutOfBoundsError, instance_text

_NOBODY, _SEVERAL = -1, -2


@dataclass(slots=True)
class _Accesses:
    """The accesses to a cell: the block, or that there were several, and the threads since the barrier
    `epoch`, each with the last barrier of warps before its access."""

    block: int = _NOBODY
    epoch: int = _NOBODY
    threads: dict[int, int] = field(default_factory=dict[int, int])

    def record(self, block: int, epoch: int, step: int, thread: int) -> None:
        if self.block != block:
            self.block = block if self.block == _NOBODY else _SEVERAL
        if self.epoch != epoch:
            self.epoch, self.threads = epoch, {}
        self.threads[thread] = step

    def conflicts(self, block: int, epoch: int, step: int, thread: int) -> bool:
        if self.block not in (_NOBODY, block):
            return True
        return self.epoch == epoch and any(
            other != thread and (other // WARP != thread // WARP or when == step)
            for other, when in self.threads.items()
        )


@dataclass(slots=True)
class Memory:
    """The accesses of a launch.  `block` and `thread` make the next access; `epoch` counts barriers, `step`
    barriers of warps, too."""

    block: int = 0
    epoch: int = 0
    step: int = 0
    thread: int = 0
    in_flight: set[Cell] = field(default_factory=set[Cell])  # of asynchronous copies
    _reads: dict[Cell, _Accesses] = field(default_factory=dict[Cell, _Accesses])
    _writes: dict[Cell, _Accesses] = field(default_factory=dict[Cell, _Accesses])
    _updates: dict[Cell, _Accesses] = field(default_factory=dict[Cell, _Accesses])  # atomic ones

    def access(self, cell: Cell, at: Instance, *, write: bool, atomic: bool = False) -> None:
        """Raises OutOfBoundsError if another thread may access the cell at the same time, unless both update
        it atomically."""
        if cell in self.in_flight:
            raise OutOfBoundsError(f"{_access_text(at)} touches {cell} while it is being copied")
        current = (self.block, self.epoch, self.step, self.thread)
        others = [self._writes.get(cell)]
        if write:
            others.append(self._reads.get(cell))
        if not atomic:
            others.append(self._updates.get(cell))
        for o in others:
            if o is not None and o.conflicts(*current):
                verb = "writes" if write else "reads"
                raise OutOfBoundsError(f"{_access_text(at)} {verb} {cell} while another thread may touch it")
        own = self._updates if atomic else self._writes if write else self._reads
        own.setdefault(cell, _Accesses()).record(*current)


def _access_text(at: Instance) -> str:
    return instance_text(at) if at[0] else "a copy"
