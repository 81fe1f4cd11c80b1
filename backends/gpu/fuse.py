"""When sharing loops pays on a GPU: it saves launches and traffic, unless it leaves units without blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tc.poly.fusion.fusion import Counts, Judge, Proposal
from tc.poly.scop import Scop

from .target import Target

PARTS = "blocks make parts of results, which are whole when all of them have ended"

_SMALL = 1 << 17  # instances that one block runs in the time that a launch takes


def apart(statements: Collection[str], judge: Judge) -> Judge:
    """Of a judge one by which these statements share loops with no other: several blocks update their
    results, which are whole only when all of them have ended."""
    alone = frozenset(statements)

    def why(p: Proposal) -> str:
        updated = not alone.isdisjoint((*p.first, *p.second))
        return PARTS if updated else judge.why(p)

    return Judge(why)


def within(number: Mapping[str, int], judge: Judge, told: str) -> Judge:
    """Of a judge one that leaves statements of different numbers (0 if they have none) apart, as `told`."""

    def why(p: Proposal) -> str:
        return judge.why(p) if len({number.get(s, 0) for s in (*p.first, *p.second)}) == 1 else told

    return Judge(why)


def judge(scop: Scop, target: Target, typical: Mapping[str, int]) -> Judge:
    """The default of the option `fusion`; `typical` are values of the program's dynamic sizes.

    What groups of statements share is what can be told apart by blocks: a kernel of a few rows, each shared
    by the threads of one block, leaves most of a GPU idle where its parts have more to share out.  Groups
    that only read the same, and pass nothing on, are not worth a loop of either that could be shared out.
    """

    counts = Counts(scop, typical)

    def passes_on(p: Proposal) -> bool:
        written = {scop.statement(s).write.buffer for s in p.first}
        return any(a.buffer in written for s in p.second for a in scop.statement(s).accesses)

    def why(p: Proposal) -> str:
        kept = counts.tasks(p.after)
        parallel = (sum(m.coincident for m in members) for members in (p.before, p.own))
        if sum(m.coincident for m in p.after) < min(parallel) and not passes_on(p):
            return "they pass nothing on, and each has more loops to share out to blocks"
        if p.level > 0 or kept >= target.units // 4:
            return ""
        groups = ((p.before, p.first), (p.own, p.second))
        if any(counts.tasks(m) > kept and counts.instances(names) > _SMALL for m, names in groups):
            return f"{kept} iterations would be too few for {target.units} units"
        return ""

    return Judge(why)
