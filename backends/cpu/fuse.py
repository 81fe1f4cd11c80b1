"""When sharing loops pays on a CPU: it saves traffic, unless it takes parallelism or data that are used again
out of the cache."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tc.ir.expr import IntImm, inline_lets, variables
from tc.poly.fusion import Member, Predicate, Proposal
from tc.poly.scop import Scop

from .machine import Machine

_SMALL = 1 << 16  # instances that one core runs in the time it takes to start others a few times


def predicate(scop: Scop, machine: Machine) -> Predicate:
    """The default of this backend's `fusion`."""
    sizes = {
        b.name: math.prod(r.extent.value for r in b.box if isinstance(r.extent, IntImm)) * b.dtype.itemsize
        for b in scop.program.buffers
    }

    def extent(m: Member) -> int:
        name, var = next(iter(m.vars.items()))
        found = next(v for v in scop.statement(name).stage.domain.vars if v.name == var).range.extent
        return found.value if isinstance(found, IntImm) else 1

    def tasks(members: Iterable[Member]) -> int:
        return math.prod(extent(m) for m in members if m.coincident)

    def instances(names: tuple[str, ...]) -> int:
        return sum(
            math.prod(
                v.range.extent.value
                for v in scop.statement(n).stage.domain.vars
                if isinstance(v.range.extent, IntImm)
            )
            for n in names
        )

    def fuse(p: Proposal) -> bool:
        if p.level > 0:
            return True
        kept = tasks(p.after)
        for members, names in ((p.before, p.first), (p.own, p.second)):
            if kept < 2 * machine.cores and tasks(members) > kept and instances(names) > _SMALL:
                return False
        if len(p.after) == len(p.before) == len(p.own):
            return True
        # Data that the shared loops do not move are read again in each of their iterations.
        shared = {(n, v) for m in p.after for n, v in m.vars.items()}
        again = {
            a.buffer
            for n in (*p.first, *p.second)
            for a in scop.statement(n).accesses
            if not any((n, v) in shared for e in a.subscripts for v in variables(inline_lets(e)))
        }
        return sum(sizes[b] for b in again) <= machine.l2 // 2

    return fuse
