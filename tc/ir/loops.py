"""Loop nests: what every emitter reads, and all it reads.

    LoopNest : Argument*, Stmt
    Stmt     : Block | For | If | Compute | Promote | Prefetch | Launch | Combine | Sync
    For      : var from lower to upper (exclusive) by step, of a kind (from the marks of the schedule)
    Compute  : buffer[subscripts] (op)= value     one instance of a stage
    Promote  : a statement during which elements of some buffers live in registers
    Prefetch : fetches the cache line of an element that will be read soon
    Launch   : a kernel on a GPU, its body for each thread of each block
    Combine  : one value of those that several threads hold
    Sync     : a barrier

Subscripts are zero-based; expressions hold `Load`s, loop iterators and scalar arguments, no `Call`s of
Funcs.  Extents are constants once the program is specialised, otherwise expressions over the sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
    PREFIX = (
        "prefix"  # in lanes: each combines the elements up to its own (`tc.transforms.loops.lane_prefixes`)
    )
    TRANSPOSED = "transposed"  # the rows of a block that is transposed in registers; its columns are lanes


@dataclass(frozen=True, slots=True)
class For:
    """`lanes`: the width of a vector loop, at least its length (0: the next power of two).  `unroll`: how
    many iterations of a serial loop the compiler of a GPU unrolls (0: it decides)."""

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

    `point` gives the values of the stage's iteration variables (for comments, traces and the error record of
    checked accesses); `text` is the source statement.  An `asynchronous` one copies an element to shared
    memory, or 0 under a condition, while its thread continues: the element is there after a `Sync` for
    copies.  One of `width` elements copies an element and those that follow it in both rows, converted or
    not; both places are aligned to vectors of that many elements, and a condition holds for all of them or
    for none.  An `atomic` update may be made by several threads to the same element at the same time.
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
    """While `body` runs, the elements of `buffers` that it accesses are in registers: loaded before it if
    their first access reads them, and stored after it unless the buffer is one of `dead`, whose values are
    not needed any more."""

    buffers: frozenset[str]
    dead: frozenset[str]
    body: Stmt


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A hint: the element need not exist, and nothing is read.  `level` is the cache to fetch the line into;
    with `write` it is fetched for a store."""

    buffer: str
    subscripts: tuple[Expr, ...]
    level: int = 1
    write: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel on a GPU: `body` runs for each value of the variables `blocks`, and in each block for each
    value of `threads`.

    Both start at 0, and the first one varies fastest; no variables mean one block or one thread.  There are
    at most `MOST_BLOCKS`.  Blocks run in any order, and so do the threads of a block between two barriers.
    The next launch sees what a launch has written to memory.  Each block has its own copy of a `shared`
    array, each thread of a `register` array; their initial contents are undefined.
    """

    name: str
    blocks: tuple[tuple[str, Expr], ...]
    threads: tuple[tuple[str, int], ...]
    body: Stmt


@dataclass(frozen=True, slots=True)
class Combine:
    """A reduction across threads: each element of the register array `buffer` is combined by `op` over all
    threads of the block that differ only in the variable `thread`, always in the same order.

    The thread with `thread` 0 has the result; with `everywhere` all threads have it, otherwise theirs is
    undefined.  All threads of a block reach it together; if the combined threads belong to several warps
    (`tc.ir.grouping`), it is a barrier of the block.
    """

    buffer: str
    op: Op
    thread: str
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    """A barrier: no thread of the block, or of each `warp` (32 neighbours), continues before all have reached
    it; then each sees what the others have written, and with `copies` also what they have copied
    asynchronously."""

    warp: bool = False
    copies: bool = False


Stmt = Block | For | If | Compute | Promote | Prefetch | Launch | Combine | Sync


ArrayRole = Literal["input", "output", "temporary", "private", "register", "shared"]


@dataclass(frozen=True, slots=True)
class Array:
    """A buffer of the nest, dense and row-major with extents `shape`.

    `offset` is the place of a temporary in the workspace, in bytes, else None; `lower` are the logical
    coordinates of the first element.

    Each iteration of the parallel loop `owner` has its own copy of a `private` array (a pack, a tile of a
    temporary) for as long as it runs: the copies of iterations that run at the same time are `stride` bytes
    apart.  A `register` array exists only inside a `Promote` or a `Launch`, a `shared` one only inside a
    `Launch`; `padding` unused elements follow each of its rows.  All of these may hold partial results of the
    buffer `partial_of`, to be combined later.  A `nontemporal` array is only written, once, by stores that
    bypass the caches; if `line_aligned`, its tiles begin at cache lines, which depends on its address at run
    time.  `shift`: it holds the excess of sums of products of a shifted pack.  `replicas`: several threads
    have a copy of a register array with the same contents, since all of them run the statements that write
    it.  `planes`: the last two dimensions are exchanged with respect to the source.  `copies`: the first
    dimension, which the source does not have, numbers copies of the array.
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
        """The number of a dimension in the source, for messages."""
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


def expressions(s: Stmt) -> Iterator[Expr]:
    """The values, subscripts, conditions and bounds of a statement, without those of its parts."""
    match s:
        case Compute():
            yield from (s.value, *s.subscripts)
        case If():
            yield s.condition
        case For():
            yield from (s.lower, s.upper)
        case _:
            pass


def rebuilt(s: Stmt, f: Callable[[Stmt], Stmt]) -> Stmt:
    """A statement with `f` applied to its direct parts."""
    match s:
        case Block():
            return replace(s, body=tuple(map(f, s.body)))
        case If():
            return replace(s, then=f(s.then), otherwise=None if s.otherwise is None else f(s.otherwise))
        case For() | Promote() | Launch():
            return replace(s, body=f(s.body))
        case _:
            return s


def with_values(s: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """A statement with `f` applied to its expressions and those of its parts."""
    s = rebuilt(s, lambda c: with_values(c, f))
    match s:
        case Compute():
            return replace(s, subscripts=tuple(map(f, s.subscripts)), value=f(s.value))
        case If():
            return replace(s, condition=f(s.condition))
        case For():
            return replace(s, lower=f(s.lower), upper=f(s.upper))
        case Prefetch():
            return replace(s, subscripts=tuple(map(f, s.subscripts)))
        case _:
            return s


def flattened(s: Stmt) -> Iterator[Stmt]:
    """The parts of a statement, with blocks flattened."""
    if isinstance(s, Block):
        for c in s.body:
            yield from flattened(c)
    else:
        yield s


def copied(s: Compute) -> tuple[Load | None, Expr | None]:
    """The source of a copy to shared memory, possibly converted, and the condition without which the copy is
    0.  Nothing is read where the condition is false."""
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
