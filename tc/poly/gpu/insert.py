"""Statements of extension nodes of a mapped tree: barriers, transfers, combinations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import islpy as isl

from tc.ir.expr import Expr, IntImm, Load, Mul, Variable, substitute
from tc.ir.loops import WARP, Array, Compute, For, LoopKind, Stmt, Sync
from tc.ir.lower import neutral
from tc.ir.simplify import simplify
from tc.poly.ast import Inserted, View
from tc.poly.bodies import zero_based
from tc.poly.context import maps_of
from tc.poly.gpu.bands import of_thread, over_steps
from tc.poly.gpu.coordinates import function, of_axes, relation, threads_of
from tc.poly.gpu.local import Local
from tc.poly.gpu.mapping import Unit, alone, several
from tc.poly.gpu.nodes import Part
from tc.poly.gpu.private_memory import PartialResults, PrivateArray, index
from tc.poly.gpu.promotion import PromotedRegion
from tc.poly.gpu.replicated import Replicated


@dataclass(frozen=True, slots=True)
class _Moved:
    """An array in registers that holds elements of a buffer: those with these subscripts in `statement`."""

    array: Array
    statement: str
    buffer: str
    subscripts: Sequence[Expr]


@dataclass(slots=True)
class Insertions:
    """Makes the extension nodes of a mapped tree.

    `made` has the functions from point and views to each inserted statement, `views` the accesses of each
    that are redirected.  `starts`: the first point of a tile, for axes of which a block has one tile.
    """

    promoted: PromotedRegion
    made: dict[str, Inserted] = field(default_factory=dict[str, Inserted])
    views: dict[str, tuple[View, ...]] = field(default_factory=dict[str, tuple[View, ...]])
    starts: dict[str, Expr] = field(default_factory=dict[str, Expr])

    def __post_init__(self) -> None:
        for a, m in (x for u in self.promoted.units for x in (*u.axes, *u.own)):
            if m.block is not None and several(a, m) and alone(a, m):
                self.starts[a.name] = simplify(Mul(Variable(m.block), IntImm(m.tile)), exact=True)

    def opaque(self, name: str, what: Stmt, outer: isl.UnionMap) -> Part:
        """A statement that all threads of a block run once in each tile."""
        self.made[name] = lambda point, views: what
        target = isl.Set.read_from_str(self.promoted.ctx, f"{{ {name}[] }}")
        tiles = isl.Set.from_union_set(outer.range()).reset_tuple_id()
        found = isl.Map.from_domain_and_range(tiles, target).to_union_map()
        return Part(universe(found), "", found)

    def barrier(self, name: str, outer: isl.UnionMap, *, copies: bool = False) -> Part:
        """A barrier of the block in each tile, or of the warp if the block has only one warp.  `copies`: it
        also waits for asynchronous copies."""
        one = math.prod(n for _, n in self.promoted.mapping.threads) <= WARP
        return self.opaque(name, Sync(warp=one, copies=copies), outer)

    def points(
        self, name: str, u: Unit, statements: Sequence[str], outer: isl.UnionMap, everywhere: bool = False
    ) -> Part:
        """A statement that runs at each point of a nest's axes at which one of these statements runs: on the
        thread of the point, or `everywhere` on all threads that have the point."""
        t = of_axes(name, [a for a, _ in u.axes])
        found = isl.UnionMap.empty_ctx(self.promoted.ctx)
        for s in statements:
            source = self.promoted.instances(next(x for x in self.promoted.units if s in x.statements), s)
            point = relation(self.promoted.ctx, source, [f"d{source.axes[a.name]}" for a, _ in u.axes], name)
            domain = isl.UnionSet.from_set(self.promoted.scop.statement(s).domain)
            for m in maps_of(outer.intersect_domain(domain)):
                m = m.reset_tuple_id(_OUT).reverse().apply_range(point)
                found = found.union(m.to_union_map())
        below = over_steps(self.promoted, u.axes, [t], "", unrolled={a.name for a, _ in u.axes})
        threads = threads_of(t, u.axes, self.promoted.variables, everywhere)
        mapped = of_thread(self.promoted, {t: threads}, below)
        return Part(universe(found), mapped, found)

    def transfer(self, k: PrivateArray | Replicated, u: Unit, outer: isl.UnionMap, *, load: bool) -> Part:
        """The load or the store of the elements that threads keep in registers."""
        p = self.promoted
        name = f"{'load' if load else 'store'}_{[*p.private_arrays, *p.replicated].index(k)}"
        if isinstance(k, Replicated):
            users = sorted(k.writers)
        else:
            statements = (p.scop.statement(s) for x in p.units if x.nest == u.nest for s in x.statements)
            users = [s.name for s in statements if any(a.buffer == k.buffer for a in s.accesses)]
        t = k.array.dtype

        def moved(element: tuple[Expr, ...], buffer: str, place: tuple[Expr, ...]) -> Stmt:
            if load:
                text = f"{k.buffer} to registers"
                return Compute("", k.array.name, element, None, Load(buffer, place, t), (), text)
            text = f"{k.buffer} from registers"
            return Compute("", buffer, place, None, Load(k.array.name, element, t), (), text)

        of = _Moved(k.array, k.statement, k.buffer, k.access.subscripts)
        return self.between(name, u, users, of, moved, outer)

    def result(self, p: PartialResults, u: Unit, outer: isl.UnionMap) -> Part:
        """The update of results by combined parts."""
        stage = self.promoted.scop.statement(p.statement).stage

        def combined(element: tuple[Expr, ...], buffer: str, place: tuple[Expr, ...]) -> Stmt:
            value = Load(p.array.name, element, p.array.dtype)
            return Compute("", buffer, place, p.op, value, (), f"{p.buffer}, its parts", atomic=p.atomic)

        of = _Moved(p.array, p.statement, p.buffer, stage.args)
        return self.between(f"finish_{p.statement}", u, [p.statement], of, combined, outer)

    def between(
        self,
        name: str,
        u: Unit,
        users: Sequence[str],
        of: _Moved,
        made: Callable[[tuple[Expr, ...], str, tuple[Expr, ...]], Stmt],
        outer: isl.UnionMap,
    ) -> Part:
        """A transfer between an array in registers and a buffer, at the points where some of the `users` run.

        `made` gives the statement for an element of the array and the element of the buffer.  The buffer may
        itself be promoted to other registers or to shared memory.
        """
        statement, buffer = of.statement, of.buffer
        t = of_axes(name, [a for a, _ in u.axes])
        there = self.promoted.home(u.nest, buffer, of.array)
        views = [View(None, of.array.name, function(self.promoted.ctx, t, index(t, u.axes)))]
        if isinstance(there, Local):
            at_place = there.place(t, u, statement, of.subscripts)
            views.append(View(0, there.array.name, function(self.promoted.ctx, t, at_place)))
        elif there is not None:
            views.append(View(0, there.array.name, function(self.promoted.ctx, t, index(t, u.axes))))
        self.views[name] = tuple(views)
        box = self.promoted.scop.program.buffer(buffer).box
        variables = {a.vars[statement]: i for i, (a, _) in enumerate(u.axes) if statement in a.vars}

        def at(point: tuple[Expr, ...], views: Sequence[tuple[Expr, ...]]) -> Stmt:
            values = {v: point[i] for v, i in variables.items()}
            element, *inside = views
            if there is not None:
                return made(element, there.array.name, inside[0])
            place = zero_based((substitute(e, dict(values)) for e in of.subscripts), box)
            return made(element, buffer, place)

        self.made[name] = at
        return self.points(name, u, users, outer, isinstance(there, Replicated))


_OUT = isl.dim_type.out


def universe(found: isl.UnionMap) -> isl.UnionSet:
    """The filter that selects inserted statements."""
    return found.range().universe()


def started(p: PartialResults) -> Stmt:
    """The initialization of a thread's parts of results to the neutral element."""
    names = [f"u{i}" for i in range(len(p.array.shape))]
    s: Stmt = Compute(
        "", p.array.name, tuple(map(Variable, names)), None, neutral(p.op, p.array.dtype), (), ""
    )
    for v, n in zip(reversed(names), reversed(p.array.shape), strict=True):
        s = For(v, IntImm(0), n, 1, LoopKind.UNROLLED, s)
    return s
