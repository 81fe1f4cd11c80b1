"""Loop nests: what every emitter reads, and all it reads.

    LoopNest : Argument*, Stmt
    Stmt     : Block | For | If | Compute | Promote | Prefetch | Launch | Combine | Sync
    For      : var from lower to upper (exclusive) by step, of a kind (what a schedule's marks said)
    Compute  : buffer[subscripts] (op)= value     one instance of a stage
    Promote  : a statement during which elements of some buffers live in registers
    Prefetch : asks for the cache line of an element that will be read soon
    Launch   : a kernel on a GPU, its body for each thread of each block
    Combine  : one value of those that several threads hold
    Sync     : a barrier

Subscripts are zero-based; expressions hold `Load`s, loop iterators and scalar arguments, no `Call`s of
Funcs.  Extents are constants once the program is specialised, otherwise expressions over the sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from tc.dtypes import DType
from tc.errors import InternalError, Span
from tc.ir.expr import Cast, Expr, FloatImm, IfThenElse, IntImm, Load, UIntImm
from tc.ir.program import Op, Site

WARP = 32  # neighbouring threads of a block that run together on a GPU
MOST_BLOCKS = (1 << 31) - 1  # of a launch
VECTOR = 16  # bytes that one of them moves at once; arrays of a launch begin at multiples of as many


class LoopKind(Enum):
    """How a loop runs; set by marks on the schedule's bands."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTOR = "vector"
    UNROLLED = "unrolled"
    DOT = "dot"  # neighbours in both factors of a product, summed (or moved) together
    PREFIX = "prefix"  # in lanes: each combines what comes up to itself (`tc.transforms.loops.lane_prefixes`)
    TRANSPOSED = "transposed"  # the rows of a block that is moved through registers, its columns lanes


@dataclass(frozen=True, slots=True)
class For:
    """`lanes`: the width of a vector loop, at least its length (0: the next power of two).  `unroll`: how
    many iterations of a serial loop the compiler of a GPU is to unroll (0: as it likes)."""

    var: str
    lower: Expr
    upper: Expr
    step: int
    kind: LoopKind
    body: Stmt
    lanes: int = 0
    unroll: int = 0


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None


@dataclass(frozen=True, slots=True)
class Block:
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Compute:
    """`buffer[subscripts] = value`, or `= buffer[subscripts] <op> value`.

    `point` gives the values of the stage's iteration variables (for comments, traces and the error
    record of checked accesses); `text` is the source statement.  An `asynchronous` one copies an element to
    shared memory, or 0 under a condition, while its thread goes on: it is there after a `Sync` for copies.
    A copy of `width` elements is one of an element and of those that follow it in both rows, converted or
    not; all of them lie where vectors of so many do, and a condition holds for all or for none.  An `atomic`
    update is one that other threads may make of the same element at the same time.
    """

    stage: str
    buffer: str
    subscripts: tuple[Expr, ...]
    op: Op | None
    value: Expr
    point: tuple[Expr, ...]
    text: str
    asynchronous: bool = False
    width: int = 1
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class Promote:
    """While `body` runs, the elements of `buffers` that it touches live in registers: loaded before if their
    first use reads them, stored after unless the buffer is one of `dead`, whose values nobody needs."""

    buffers: frozenset[str]
    dead: frozenset[str]
    body: Stmt


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A hint: the element need not exist, and nothing is read.  `level`: the cache that it should be in;
    `write`: to be written there."""

    buffer: str
    subscripts: tuple[Expr, ...]
    level: int = 1
    write: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel on a GPU: `body` runs for each value of the variables `blocks`, and in each block for each
    value of `threads`; both start at 0, the first varies fastest, none is one block or one thread.

    There are at most `MOST_BLOCKS`.  Blocks run in any order, so do the threads of a block between two
    barriers.  What a launch writes to memory is there for the next.  Of a `shared` array each block has its
    own, of a `register` array each thread; what they hold at first is undefined.
    """

    name: str
    blocks: tuple[tuple[str, Expr], ...]
    threads: tuple[tuple[str, int], ...]
    body: Stmt


@dataclass(frozen=True, slots=True)
class Combine:
    """Where the variable `thread` is 0, each element of the register array `buffer` becomes the combination
    by `op` of those of all threads of the block that differ in that variable alone, always in the same order;
    elsewhere it is the same if that is wanted `everywhere`, else undefined.  All threads of a block get
    there together; where those that combine are of several warps (`tc.ir.grouping`), it is a barrier of the
    block."""

    buffer: str
    op: Op
    thread: str
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    """All threads of the block, or of each `warp` (32 neighbours), get here before any of them goes on, and
    see what the others wrote; with `copies` also what they copied asynchronously."""

    warp: bool = False
    copies: bool = False


Stmt = Block | For | If | Compute | Promote | Prefetch | Launch | Combine | Sync


ArrayRole = Literal["input", "output", "temporary", "private", "register", "shared"]


@dataclass(frozen=True, slots=True)
class Array:
    """A buffer of the nest: dense row-major extents; `offset` is its place in the workspace in bytes for
    a temporary, else None; `lower` are the logical coordinates of its first element.

    Of a `private` array (a pack, a tile of a temporary) each iteration of the parallel loop `owner` has its
    own, which does not outlive it: `stride` bytes apart are those of iterations that run at the same time.  A
    `register` array exists only inside a `Promote` or a `Launch`, a `shared` one only inside a `Launch`;
    `padding` elements that nobody uses follow each of its rows. All of these may hold part of the results
    of the buffer `partial_of`, to be combined later. A `nontemporal` array is only written, once, by stores
    that bypass the caches; if `line_aligned`, its tiles begin at cache lines, which depends on its address
    at run time. `shift`: it holds the excess of sums of products of a shifted pack. Of a register array
    with `replicas` several threads hold the same, each its own: they all run the statements that write it.
    Of one in `planes` the last two dimensions are in the other order than in the source; of `copies` of what
    the source has, the first one is not there.
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    role: ArrayRole
    offset: Expr | None = None
    lower: tuple[Expr, ...] = ()
    owner: str | None = None
    stride: int = 0
    partial_of: str | None = None
    nontemporal: bool = False
    line_aligned: bool = False
    shift: bool = False
    padding: int = 0
    replicas: bool = False
    planes: bool = False
    copies: bool = False

    def source_dimension(self, d: int) -> int:
        """What messages call a dimension: its place in the source."""
        rank = len(self.shape)
        if self.copies:
            d, rank = d - 1, rank - 1
        return {rank - 1: rank - 2, rank - 2: rank - 1}[d] if self.planes and d >= rank - 2 else d


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A kernel: `params` names arrays and scalars in the order of the calling convention, outputs last.

    `sizes` are the sizes left symbolic (empty once specialised); `workspace` is in bytes.  `counters` are the
    variables of sequential loops, around parts that were compiled for any value of them.  `origins` has the
    places in the source of the stages that it runs.
    """

    name: str
    params: tuple[str, ...]
    outputs: tuple[str, ...]
    sizes: tuple[str, ...]
    arrays: tuple[Array, ...]
    scalars: tuple[ScalarArgument, ...]
    body: Stmt
    workspace: Expr
    sites: tuple[Site, ...]
    counters: tuple[str, ...] = ()
    origins: Mapping[str, Span] = field(default_factory=dict[str, Span], compare=False, repr=False)

    def array(self, name: str) -> Array:
        return next(a for a in self.arrays if a.name == name)


def statements(s: Stmt) -> Iterator[Stmt]:
    """All statements below one, outermost first."""
    yield s
    match s:
        case Block():
            for c in s.body:
                yield from statements(c)
        case For() | Promote() | Launch():
            yield from statements(s.body)
        case If():
            yield from statements(s.then)
            if s.otherwise is not None:
                yield from statements(s.otherwise)
        case Compute() | Prefetch() | Combine() | Sync():
            pass


def flattened(s: Stmt) -> Iterator[Stmt]:
    """The parts of a statement, with blocks flattened."""
    if isinstance(s, Block):
        for c in s.body:
            yield from flattened(c)
    else:
        yield s


def copied(s: Compute) -> tuple[Load | None, Expr | None]:
    """What a copy to shared memory reads, and the condition without which it is 0.  It may be converted.
    Nothing is read where the condition never holds."""
    load, condition = s.value, None
    if isinstance(load, FloatImm | IntImm | UIntImm) and s.op is None:
        return None, None
    if isinstance(load, IfThenElse):
        load, condition = load.then_value, load.condition
    if isinstance(load, Cast):
        load = load.value
    if not isinstance(load, Load) or s.op is not None:
        raise InternalError(f"what goes to {s.buffer} is no copy")
    return load, condition
