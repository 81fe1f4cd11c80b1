"""When sharing loops pays on a GPU: it saves launches and traffic, unless it leaves units without blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tc.poly.fusion import Counts, Predicate, Proposal, Strategy, named
from tc.poly.scop import Scop

from .target import Target

_SMALL = 1 << 17  # instances that one block runs in the time that a launch takes


def apart(statements: Collection[str], predicate: Predicate | Strategy) -> Predicate:
    """Of a predicate one by which these statements share loops with no other: several blocks update their
    results, which are whole only when all of them have ended."""
    fuse, alone = named(predicate), frozenset(statements)
    return lambda p: alone.isdisjoint((*p.first, *p.second)) and fuse(p)


def predicate(scop: Scop, target: Target, typical: Mapping[str, int]) -> Predicate:
    """The default of the option `fusion`; `typical` are values of the program's dynamic sizes.

    What groups of statements share is what can be told apart by blocks: a kernel of a few rows, each shared
    by the threads of one block, leaves most of a GPU idle where its parts have more to share out.
    """

    counts = Counts(scop, typical)

    def fuse(p: Proposal) -> bool:
        kept = counts.tasks(p.after)
        if p.level > 0 or kept >= target.units // 4:
            return True
        groups = ((p.before, p.first), (p.own, p.second))
        return not any(counts.tasks(m) > kept and counts.instances(names) > _SMALL for m, names in groups)

    return fuse
