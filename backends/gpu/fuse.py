"""When sharing loops pays on a GPU: it saves launches and traffic, unless it leaves units without blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tc.ir.evaluate import evaluate
from tc.poly.fusion import Member, Predicate, Proposal
from tc.poly.scop import Scop

from .target import Target

_SMALL = 1 << 17  # instances that one block runs in the time that a launch takes


def predicate(scop: Scop, target: Target, typical: Mapping[str, int]) -> Predicate:
    """The default of the option `fusion`; `typical` are values of the program's dynamic sizes.

    What groups of statements share is what can be told apart by blocks: a kernel of a few rows, each shared
    by the threads of one block, leaves most of a GPU idle where its parts have more to share out.
    """

    def extent(m: Member) -> int:
        name, var = next(iter(m.vars.items()))
        found = next(v for v in scop.statement(name).stage.domain.vars if v.name == var).range.extent
        return evaluate(found, typical)

    def tasks(members: Iterable[Member]) -> int:
        return math.prod(extent(m) for m in members if m.coincident)

    def instances(names: tuple[str, ...]) -> int:
        return sum(
            math.prod(evaluate(v.range.extent, typical) for v in scop.statement(n).stage.domain.vars)
            for n in names
        )

    def fuse(p: Proposal) -> bool:
        kept = tasks(p.after)
        if p.level > 0 or kept >= target.units // 4:
            return True
        groups = ((p.before, p.first), (p.own, p.second))
        return not any(tasks(m) > kept and instances(names) > _SMALL for m, names in groups)

    return fuse
