"""The state that all functions of this package share: names, the program's stages, the arrays that tiling
adds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tc.dtypes import DType
from tc.errors import InternalError
from tc.ir.expr import ZERO, Add, Expr, IntImm, Load, Min, Mul, Sub, Variable, rebuild
from tc.ir.loops import Array, Block, For, LoopKind, Stmt
from tc.ir.program import Box, Stage
from tc.ir.simplify import linear_terms, simplify
from tc.poly.scop import Scop
from tc.poly.tile_plan import Axis

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


@dataclass(frozen=True, slots=True)
class Span:
    """An interval of an axis: `extent` points from `origin` after the axis' first point on, only `rest`
    points in the last tile (where `last` holds).

    With a dynamic length it has `points` points, and `extent` is the upper bound of that, 0 without a bound.
    """

    origin: Expr
    extent: int
    rest: int
    last: Expr | None = None
    points: Expr | None = None

    @property
    def whole(self) -> bool:
        return self.last is None or self.rest == self.extent

    @property
    def count(self) -> Expr:
        """The number of points, except in a last tile of constant extent, which may be shorter."""
        return IntImm(self.extent) if self.points is None else self.points

    @property
    def bound(self) -> int:
        """The upper bound of the number of points.  InternalError if there is none."""
        if self.points is not None and not self.extent:
            raise InternalError("an array depends on an axis whose tile has no constant extent")
        return self.extent


def axis_span(a: Axis) -> Span:
    """All of an axis."""
    return (
        Span(ZERO, a.typical_extent, a.typical_extent) if a.size is None else Span(ZERO, 0, 0, None, a.size)
    )


@dataclass(slots=True)
class Builder:
    """What the functions of this package share while they emit the loops of a program.

    `chunks`: the trip count, at most, of a parallel loop whose body has private arrays.  `workspace`: bytes
    in use, beside `base` bytes, which depend on dynamic sizes.  `version` and `count` make names unique, also
    between several builders of one nest.  `nontemporal`: the results stored so.  `line_aligned`: those
    of them whose tiles begin on cache lines wherever their rows do.  `partial_line_results`: those of them
    that ordinary stores suit better; they are added when their nests are tiled.
    """

    scop: Scop
    chunks: int
    workspace: int
    base: Expr = ZERO
    arrays: list[Array] = field(default_factory=list[Array])
    count: int = 0
    version: str = ""
    nontemporal: frozenset[str] = frozenset()
    line_aligned: set[str] = field(default_factory=set[str])
    partial_line_results: set[str] = field(default_factory=set[str])
    stages: Mapping[str, Stage] = field(init=False)
    bodies: Mapping[str, Expr] = field(init=False)
    boxes: Mapping[str, Box] = field(init=False)
    dtypes: Mapping[str, DType] = field(init=False)
    func_buffers: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        program = self.scop.program
        self.stages = {s.name: s for s in program.stages}
        self.bodies = self.scop.bodies
        self.boxes = {b.name: b.box for b in program.buffers}
        self.dtypes = {b.name: b.dtype for b in program.buffers}
        self.func_buffers = program.func_buffers

    def name(self, stem: str) -> str:
        """A name that no other loop has."""
        self.count += 1
        return f"{stem}.{self.count}"

    def place(self) -> Expr:
        """The present end of the workspace, in bytes."""
        return simplify(Add(self.base, IntImm(self.workspace)), exact=True)

    def private(self, name: str, dtype: DType, shape: tuple[int, ...], chunk: str | None) -> Array:
        """An array with a copy for each iteration of the parallel loop `chunk`, created once for each
        name."""
        name += self.version
        found = next((a for a in self.arrays if a.name == name), None)
        if found is not None:
            return found
        stride = -(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
        place = self.place()
        array = Array(name, dtype, tuple(map(IntImm, shape)), "private", place, (), chunk, stride)
        self.workspace += stride * (self.chunks if chunk is not None else 1)
        self.arrays.append(array)
        return array


def points_of(a: Axis, span: Span) -> Expr:
    """The points of an axis in a cache tile; the last tile may have fewer."""
    return span.count if span.whole else Min(span.count, Sub(IntImm(a.typical_extent), span.origin))


def block(parts: Iterable[Stmt]) -> Stmt:
    """Statements one after the other, without nested blocks."""
    flat: list[Stmt] = []
    for p in parts:
        flat += p.body if isinstance(p, Block) else (p,)
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def named(var: str, value: Expr, body: Stmt) -> Stmt:
    """`body` in which `var` names an index, computed once."""
    return For(var, value, Add(value, IntImm(1)), 1, LoopKind.SERIAL, body)


def defined(names: Sequence[tuple[str, Expr]], body: Stmt) -> Stmt:
    """`body` in which `names` are indices; each may use those before it."""
    for var, value in reversed(names):
        body = named(var, value, body)
    return body


def vector_loops(
    var: str, extent: int, lanes: int, name: Callable[[str], str], body: Stmt, least: int = 0
) -> Stmt:
    """`for var in [0, extent)` in vectors of `lanes`; a shorter last one is at least `least` lanes wide."""
    q, r = divmod(extent, lanes)
    parts: list[Stmt] = []
    if q:
        if q == 1 and not r:
            return For(var, ZERO, IntImm(lanes), 1, LoopKind.VECTOR, body)
        u = name(var)
        start = Mul(Variable(u), IntImm(lanes))
        inner = For(var, start, Add(start, IntImm(lanes)), 1, LoopKind.VECTOR, body)
        parts.append(For(u, ZERO, IntImm(q), 1, LoopKind.UNROLLED, inner))
    if r:
        width = least if r < least else 0
        parts.append(For(var, IntImm(q * lanes), IntImm(extent), 1, LoopKind.VECTOR, body, width))
    return block(parts)


def loads(e: Expr) -> list[Load]:
    """The reads of a value in evaluation order (as tc.poly.accesses numbers them)."""
    out: list[Load] = []

    def visit(x: Expr) -> Expr:
        if isinstance(x, Load):
            for s in x.subscripts:
                visit(s)
            out.append(x)
            return x
        return rebuild(x, visit)

    visit(e)
    return out


def contiguous(read: Load, axes: Sequence[Axis], statement: str) -> Axis | None:
    """The axis along which a read is contiguous."""
    if not read.subscripts:
        return None
    terms, _ = linear_terms(read.subscripts[-1])
    names = {e.name for e, factor in terms.items() if isinstance(e, Variable) and factor == 1}
    return next((a for a in axes if a.vars[statement] in names), None)
