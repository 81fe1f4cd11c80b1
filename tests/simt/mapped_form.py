"""The form of mapped loops: what kernels keep where, how they wait, how they subscript registers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tc.ir.expr import Expr, IntImm, Load, variables, walk
from tc.ir.loops import (
    Array,
    Block,
    Combine,
    Compute,
    For,
    If,
    Launch,
    LoopKind,
    LoopNest,
    Stmt,
    Sync,
    statements,
)


class Mapped:
    """The properties of mapped loops that tests assert."""

    def __init__(self, nest: LoopNest) -> None:
        self.nest = nest
        every = list(statements(nest.body))
        self.launches = [s for s in every if isinstance(s, Launch)]
        self.kernels = len(self.launches)
        self.barriers = sum(isinstance(s, Sync) for s in every)
        self.combined = [s.op for s in every if isinstance(s, Combine)]
        self.order = [s.stage for s in every if isinstance(s, Compute) and s.stage]

    def held(self, role: str) -> dict[str, tuple[int, ...]]:
        """The buffers with elements, not partial results, in shared or register arrays, and how many
        elements."""
        found = [a for a in self.nest.arrays if a.role == role and a.partial_of is None]
        return {re.sub(r"[._]\d+$", "", a.name): _extents(a) for a in found}

    @property
    def shared(self) -> dict[str, tuple[int, ...]]:
        return self.held("shared")

    @property
    def registers(self) -> dict[str, tuple[int, ...]]:
        return self.held("register")

    def threads(self) -> tuple[int, ...]:
        (launch,) = self.launches
        return tuple(n for _, n in launch.threads)

    def blocks(self) -> tuple[int, ...]:
        (launch,) = self.launches
        return tuple(n.value for _, n in launch.blocks if isinstance(n, IntImm))


def _extents(a: Array) -> tuple[int, ...]:
    return tuple(n.value for n in a.shape if isinstance(n, IntImm))


def register_subscripts(s: Stmt, n: LoopNest, unrolled: frozenset[str]) -> Iterator[bool]:
    """For each access to registers, whether its subscripts are constants after unrolling."""

    def reads(*es: Expr) -> Iterator[bool]:
        for e in es:
            for x in walk(e):
                if isinstance(x, Load) and n.array(x.buffer).role == "register":
                    yield all(variables(i) <= unrolled for i in x.subscripts)

    match s:
        case Block():
            for c in s.body:
                yield from register_subscripts(c, n, unrolled)
        case For():
            own = {s.var} if s.kind is LoopKind.UNROLLED else set[str]()
            yield from register_subscripts(s.body, n, unrolled | own)
        case Launch():
            yield from register_subscripts(s.body, n, unrolled)
        case If():
            yield from reads(s.condition)
            yield from register_subscripts(s.then, n, unrolled)
        case Compute():
            yield from reads(s.value)
            if n.array(s.buffer).role == "register":
                yield all(variables(i) <= unrolled for i in s.subscripts)
        case _:
            pass
