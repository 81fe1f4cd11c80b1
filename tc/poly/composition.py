"""The loop nest of a program with sequential loops, composed from those of its segments.

Each segment is compiled on its own (`tc.transforms.program.segments`), with the counters of the loops around
it as sizes.  Here the counters become loops again, and all segments share one workspace: the temporaries of
the program have separate places, and the memory that a segment adds follows them and is shared by all
segments, since only one runs at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.errors import InternalError
from tc.ir.expr import Add, Expr, IntImm, Load, Sub, rebuild
from tc.ir.loops import (
    Array,
    Block,
    Combine,
    Compute,
    For,
    LoopKind,
    LoopNest,
    Prefetch,
    Promote,
    Stmt,
    rebuilt,
    with_values,
)
from tc.ir.program import Program
from tc.ir.simplify import simplify
from tc.poly import loop_nest
from tc.transforms.program.segments import Part, Repeat, Segment


@dataclass(frozen=True, slots=True)
class Compiled:
    """The loop nest of a segment's program.  Passes may have added temporaries to the program, and removed
    others."""

    nest: LoopNest
    program: Program

    @property
    def own(self) -> Expr:
        """The bytes of the workspace that the temporaries of its program take; what passes add follows
        them."""
        placed = {a.name for a in self.nest.arrays if a.offset is not None}
        unused = {b.name for b in self.program.buffers if b.role == "temporary"} - placed
        return loop_nest.assemble(self.program, Block(()), unused).workspace


def composed(
    program: Program, parts: Sequence[Part], compile_segment: Callable[[Segment], Compiled]
) -> LoopNest:
    """The nest of these parts."""
    base = loop_nest.assemble(program, Block(()))
    common = {a.name for a in base.arrays}
    more: list[Array] = []
    sites = list(base.sites)
    origins = dict(base.origins)
    count = most = 0

    def of(part: Part) -> Stmt:
        nonlocal count, most
        if isinstance(part, Repeat):
            body = Block(tuple(map(of, part.body)))
            return For(part.loop.name, IntImm(0), part.loop.trips, 1, LoopKind.SERIAL, body)
        made = compile_segment(part)
        own = [a for a in made.nest.arrays if a.name not in common]
        names = {a.name: f"{a.name}.s{count}" for a in own}
        for a in own:
            offset = a.offset
            if offset is not None:
                offset = simplify(Add(base.workspace, Sub(offset, made.own)), exact=True)
            whole = None if a.partial_of is None else names.get(a.partial_of, a.partial_of)
            more.append(replace(a, name=names[a.name], offset=offset, partial_of=whole))
        added = simplify(Sub(made.nest.workspace, made.own), exact=True)
        if not isinstance(added, IntImm):
            raise InternalError("a part of a program with loops added temporaries of symbolic size")
        most = max(most, added.value)
        for k, site in enumerate(made.nest.sites):
            if site != program.sites[k]:
                sites[k] = site
        count += 1
        origins.update(made.nest.origins)
        return renamed(made.nest.body, names)

    body = Block(tuple(map(of, parts)))
    workspace = simplify(Add(base.workspace, IntImm(most)), exact=True)
    return replace(
        base,
        body=body,
        arrays=(*base.arrays, *more),
        workspace=workspace,
        sites=tuple(sites),
        counters=tuple(loop.name for loop in program.loops),
        origins=origins,
    )


def renamed(s: Stmt, names: Mapping[str, str]) -> Stmt:
    """A statement with arrays renamed."""
    if not names:
        return s

    def value(e: Expr) -> Expr:
        e = rebuild(e, value)
        return replace(e, buffer=names[e.buffer]) if isinstance(e, Load) and e.buffer in names else e

    def of(s: Stmt) -> Stmt:
        s = rebuilt(s, of)
        match s:
            case Promote():
                buffers, dead = (frozenset(names.get(b, b) for b in some) for some in (s.buffers, s.dead))
                return replace(s, buffers=buffers, dead=dead)
            case Compute() | Prefetch() | Combine():
                return replace(s, buffer=names.get(s.buffer, s.buffer))
            case _:
                return s

    return with_values(of(s), value)
