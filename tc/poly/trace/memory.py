"""Who touched what in a launch: memory that threads share, between the barriers that order them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tc.poly.trace.events import Cell, OutOfBoundsError

_NOBODY, _SEVERAL = -1, -2


@dataclass(slots=True)
class _Touched:
    """The block that touched a cell, and the thread that did last, since the barrier `epoch`."""

    block: int = _NOBODY
    epoch: int = _NOBODY
    thread: int = _NOBODY

    def note(self, block: int, epoch: int, thread: int) -> None:
        if self.block != block:
            self.block = block if self.block == _NOBODY else _SEVERAL
        if self.epoch != epoch:
            self.epoch, self.thread = epoch, thread
        elif self.thread != thread:
            self.thread = _SEVERAL

    def by_another(self, block: int, epoch: int, thread: int) -> bool:
        return self.block not in (_NOBODY, block) or (self.epoch == epoch and self.thread != thread)


@dataclass(slots=True)
class Memory:
    """The accesses of one launch.  `block`, `epoch` (it grows with each barrier) and `thread` say who makes
    the next ones."""

    block: int = 0
    epoch: int = 0
    thread: int = 0
    _reads: dict[Cell, _Touched] = field(default_factory=dict[Cell, _Touched])
    _writes: dict[Cell, _Touched] = field(default_factory=dict[Cell, _Touched])

    def touch(self, cell: Cell, what: str, *, write: bool) -> None:
        """Raises OutOfBoundsError where another thread may touch the cell at the same time."""
        here = (self.block, self.epoch, self.thread)
        others = [self._writes.get(cell), self._reads.get(cell) if write else None]
        if any(o is not None and o.by_another(*here) for o in others):
            does = "writes" if write else "reads"
            raise OutOfBoundsError(f"{what} {does} {cell} while another thread may touch it")
        (self._writes if write else self._reads).setdefault(cell, _Touched()).note(*here)
