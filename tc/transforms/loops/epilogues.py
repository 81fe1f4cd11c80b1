"""Loops for costly functions after long reductions, in place of unrolled code.

The statements after a reduction use the registers that hold its results, and so are unrolled: an `erf` of 24
vectors is 24 polynomials, on which LLVM spends more time than on the rest of the kernel.  If the unrolled
code is long, the vectors are copied to a tile in memory, a loop computes one vector in each iteration, and
the results are copied back.

This costs 20 cycles a vector (Golden Cove), since fewer polynomials overlap, which is negligible beside
hundreds of multiply-adds.  With two vectors in an iteration it would cost 10, but their constants would fill
the registers, and a loop that spills is compiled again with fewer accumulators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tc.dtypes import DType
from tc.errors import InternalError
from tc.ir.expr import Expr, IfThenElse, IntImm, Let, Load, Sub, Variable, rebuild, walk
from tc.ir.loops import (
    Array,
    Block,
    Compute,
    For,
    If,
    LoopKind,
    LoopNest,
    Promote,
    Stmt,
    statements,
)
from tc.ir.simplify import simplify
from tc.ir.trip_counts import iterations

_MOST = 400.0  # vector instructions after a reduction that are unrolled
_LONG = 64  # iterations of a reduction, of about four points each

Point = Sequence[tuple[Expr, int]]  # of each loop around the number of its iteration, and how many there are


def reroll(nest: LoopNest, cost: Callable[[Expr], float]) -> LoopNest:
    """A nest with loops in place of unrolled costly functions, and the tiles that these loops need; `cost`
    gives the vector instructions of a value."""
    roller = _Roller({a.name: a.dtype for a in nest.arrays}, cost)
    body = roller.everywhere(nest.body)
    return replace(nest, body=body, arrays=(*nest.arrays, *roller.tiles.values()))


@dataclass(slots=True)
class _Roller:
    dtypes: dict[str, DType]
    cost: Callable[[Expr], float]
    tiles: dict[str, Array] = field(default_factory=dict[str, Array])

    def everywhere(self, s: Stmt) -> Stmt:
        match s:
            case Block():
                return Block(tuple(map(self.everywhere, s.body)))
            case For():
                return replace(s, body=self.everywhere(s.body))
            case If():
                other = None if s.otherwise is None else self.everywhere(s.otherwise)
                return replace(s, then=self.everywhere(s.then), otherwise=other)
            case Promote(body=Block() as body):
                return self.epilogues(s, body)
            case _:
                return s

    def epilogues(self, s: Promote, body: Block) -> Promote:
        """What is after the last loop."""
        found = [iterations(part) for part in body.body]
        if max(found) < _LONG:
            return s
        after = max(i for i, n in enumerate(found) if n > 1) + 1
        written = _written(body)
        buffers, parts = s.buffers, list(body.body[:after])
        for part in body.body[after:]:
            if self.pays(part) and _point_by_point(part, s.buffers & written):
                # What is only read has no register for an element that the loop's variable names.
                buffers -= {x.buffer for x in _loads(part)} - written
                parts += self.loop(part, s.buffers & written)
            else:
                parts.append(part)
        return Promote(buffers, s.dead, Block(tuple(parts)))

    def pays(self, s: Stmt) -> bool:
        if not _unrolled(s):
            return False
        whole, once = (sum(n * self.cost(c.value) for c, n in _vectors(x)) for x in (s, _serial(s)))
        return whole > _MOST and 2 * once <= whole

    def loop(self, s: Stmt, promoted: frozenset[str]) -> Iterator[Stmt]:
        """Copies of `promoted` arrays to tiles, a loop over these, and copies of results back."""

        def load(c: Compute, at: Point, x: Load) -> Load:
            number = list(_reads(c, promoted)).index((x.buffer, x.subscripts))
            name = f"{x.buffer}.{c.stage}.{number}"
            return Load(*self.place(name, x.buffer, at), x.dtype)

        def fill(c: Compute, at: Point) -> Stmt:
            into = [(load(c, at, x), x) for x in _reads(c, promoted).values()]
            return Block(tuple(_copy(f"{c.stage}.in", to.buffer, to.subscripts, x) for to, x in into))

        def result(c: Compute, at: Point) -> tuple[str, tuple[Expr, ...]]:
            if c.buffer not in promoted:
                return c.buffer, c.subscripts
            return self.place(f"{c.buffer}.{c.stage}", c.buffer, at)

        def run(c: Compute, at: Point) -> Stmt:
            def tiled(e: Expr) -> Expr:
                if isinstance(e, Load) and e.buffer in promoted:
                    return load(c, at, e)
                return rebuild(e, tiled)

            buffer, subscripts = result(c, at)
            return replace(c, buffer=buffer, subscripts=subscripts, value=tiled(c.value))

        def store(c: Compute, at: Point) -> Stmt:
            value = Load(*result(c, at), self.dtypes[c.buffer])
            return _copy(f"{c.stage}.out", c.buffer, c.subscripts, value)

        yield _each(s, fill)
        yield _serial(_each(s, run))
        if _written(s) & promoted:
            yield _each(s, lambda c, at: store(c, at) if c.buffer in promoted else Block(()))

    def place(self, name: str, like: str, at: Point) -> tuple[str, tuple[Expr, ...]]:
        """The element of a tile for an iteration of the loops around."""
        shape = tuple(n for _, n in at)
        name += "." + "x".join(map(str, shape))
        if name not in self.tiles:
            self.tiles[name] = Array(name, self.dtypes[like], tuple(map(IntImm, shape)), "register")
        return name, tuple(i for i, _ in at)


def _copy(stage: str, buffer: str, subscripts: tuple[Expr, ...], value: Load) -> Compute:
    return Compute(stage, buffer, subscripts, None, value, (), "")


def _each(s: Stmt, leaf: Callable[[Compute, Point], Stmt], at: Point = ()) -> Stmt:
    """A statement with others in place of its assignments."""
    match s:
        case Block():
            return Block(tuple(_each(c, leaf, at) for c in s.body))
        case For():
            number = simplify(Sub(Variable(s.var), s.lower), exact=True)
            return replace(s, body=_each(s.body, leaf, (*at, (number, s.lanes or _trips(s)))))
        case Compute():
            return leaf(s, at)
        case _:
            raise InternalError(f"{type(s).__name__} among loops that are unrolled")


def _serial(s: Stmt) -> Stmt:
    """Unrolled loops as loops."""
    match s:
        case Block():
            return Block(tuple(map(_serial, s.body)))
        case For(kind=LoopKind.UNROLLED):
            return replace(s, kind=LoopKind.SERIAL, body=_serial(s.body))
        case _:
            return s


def _vectors(s: Stmt, times: int = 1) -> Iterator[tuple[Compute, int]]:
    """The assignments, each with the number of vectors that unrolled code computes."""
    match s:
        case Block():
            for c in s.body:
                yield from _vectors(c, times)
        case For():
            yield from _vectors(s.body, times * (_trips(s) if s.kind is LoopKind.UNROLLED else 1))
        case Compute():
            yield s, times
        case _:
            raise InternalError(f"{type(s).__name__} among loops that are unrolled")


def _trips(s: For) -> int:
    trips = simplify(Sub(s.upper, s.lower), exact=True)
    return trips.value if isinstance(trips, IntImm) else 0


def _unrolled(s: Stmt) -> bool:
    """Whether a statement consists of unrolled loops around vector loops and assignments alone."""
    loops = [x for x in statements(s) if isinstance(x, For)]
    return all(isinstance(x, (Block, For, Compute)) for x in statements(s)) and all(
        (x.kind is LoopKind.UNROLLED and x.step == 1 and _trips(x) > 0)
        or (x.kind is LoopKind.VECTOR and (x.lanes > 0 or _trips(x) > 0))
        for x in loops
    )


def _point_by_point(s: Stmt, promoted: frozenset[str]) -> bool:
    """Whether each assignment reads, of the promoted arrays that are written here, only the element that it
    writes, and reads all its promoted elements unconditionally."""
    computes = [c for c in statements(s) if isinstance(c, Compute)]
    writers = {b: {c.stage for c in computes if c.buffer == b} for b in _written(s)}
    for c in computes:
        if c.op is not None or any(isinstance(e, Let) for e in walk(c.value)):
            return False
        lazy = [x for e in walk(c.value) if isinstance(e, IfThenElse) for x in walk(e)]
        if any(isinstance(x, Load) and x.buffer in promoted for x in lazy):
            return False
        for x in _loads(c):
            if x.checked or (x.buffer in promoted and _depends_on_data(x)):
                return False
            if x.buffer in writers and (x.subscripts != c.subscripts or writers[x.buffer] != {c.stage}):
                return False
    return True


def _depends_on_data(x: Load) -> bool:
    return any(isinstance(e, Load) for i in x.subscripts for e in walk(i))


def _reads(c: Compute, promoted: frozenset[str]) -> dict[tuple[str, tuple[Expr, ...]], Load]:
    """The elements of promoted arrays that an assignment reads, each once."""
    return {(x.buffer, x.subscripts): x for x in _loads(c) if x.buffer in promoted}


def _loads(s: Stmt) -> Iterator[Load]:
    for c in statements(s):
        if isinstance(c, Compute):
            yield from (e for e in walk(c.value) if isinstance(e, Load))


def _written(s: Stmt) -> frozenset[str]:
    return frozenset(c.buffer for c in statements(s) if isinstance(c, Compute))
