"""What the shim finds wrong: the kind, both sides, the element."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

Order = Literal["ascending", "descending"] | int
"""How the threads of a block, and the blocks, take their turns; a number is the seed of a random order."""

ORDERS: tuple[Order, ...] = ("ascending", "descending", 1)


class Kind(StrEnum):
    """What can be wrong; the first fourteen in the runtime's order."""

    RACE = "race"
    UNINITIALISED = "uninitialised read"
    OUT_OF_BOUNDS = "out of bounds"
    INDEX = "index out of range"
    MISALIGNED = "misaligned access"
    BARRIER = "divergent barrier"
    WARP = "divergent warp operation"
    SHUFFLE = "shuffle from an absent lane"
    UNFINISHED_COPY = "asynchronous copy not waited for"
    FOREIGN_STACK = "access to another thread's local memory"
    STATIC = "access to static memory (not modelled)"
    NO_PROGRESS = "no progress"
    TRAP = "trap"
    BAD_COPY = "malformed asynchronous copy"
    ORDER = "result depends on the order of the threads"


KINDS = tuple(Kind)
WHAT = (
    "read", "written", "updated atomically", "copied to asynchronously",
    "waits at a barrier", "waits at a warp operation", "has ended", "runs",
    "exchanged atomically",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Access:
    """One side of a finding.  `block` and `thread` count in a row, x fastest; lines count from 1."""

    block: int
    thread: int
    what: str
    line: int | None
    """In the text; the innermost where functions were inlined.  None for a thread that has ended."""
    callers: tuple[int, ...] = ()
    """The lines that the line was inlined into, inwards out."""


@dataclass(frozen=True, slots=True)
class Finding:
    kind: Kind
    kernel: str
    first: Access | None
    """Who was running when it was found."""
    second: Access | None = None
    """The other side of a race, or a thread that waits elsewhere."""
    array: str | None = None
    """A kernel's parameter or a shared array."""
    offset: int | None = None
    """In bytes from the array's beginning; negative or too large where it was left."""
    index: tuple[int, ...] | None = None
    note: str = ""
    count: int = 1
    """How often: the same lines and the same array are one finding."""
    order: Order = "ascending"
    source: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @property
    def line(self) -> int | None:
        return self.first.line if self.first else None

    @property
    def lines(self) -> frozenset[int | None]:
        """The lines of both sides."""
        return frozenset(a.line for a in (self.first, self.second) if a)

    def __str__(self) -> str:
        place = ""
        if self.array is not None:
            index = (
                "".join(f"[{i}]" for i in self.index) if self.index is not None else f" + {self.offset} bytes"
            )
            place = f" on {self.array}{index}"
        note = f" ({self.note})" if self.note else ""
        times = f", {self.count} times" if self.count > 1 else ""
        out = [f"{self.kind} in {self.kernel}{place}{note}{times}"]
        for a in (self.first, self.second):
            if a is None:
                continue
            out.append(f"  thread {a.thread} of block {a.block}: {a.what}")
            for n in (a.line, *a.callers):
                if n is not None:
                    text = self.source[n - 1].strip() if 0 < n <= len(self.source) else ""
                    out.append(f"    line {n}: {text}")
        return "\n".join(out)


def report(findings: Iterable[Finding]) -> str:
    return "\n".join(map(str, findings))
