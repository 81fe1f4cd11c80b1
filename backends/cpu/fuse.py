"""When sharing loops pays on a CPU: it saves traffic, unless it takes parallelism or data that are used again
out of the cache."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from tc.ir.evaluate import bytes_of, evaluate
from tc.ir.expr import Expr, inline_lets, variables
from tc.poly.fusion.fusion import Counts, Judge, Proposal
from tc.poly.scop import Access, Scop

from .cost.balance import balanced
from .target import LINE, Machine

_SMALL = 1 << 16  # instances that one core runs in the time it takes to start others a few times


def judge(scop: Scop, machine: Machine, typical: Mapping[str, int] | None = None) -> Judge:
    """The default of this backend's `fusion`; `typical` are values of the program's dynamic sizes."""
    known = typical or {}
    sizes = {b.name: bytes_of(b, known) for b in scop.program.buffers}
    high = {b.name: math.prod(evaluate(r.extent, known) for r in b.box[:-1]) for b in scop.program.buffers}
    halves = {b.name for b in scop.program.buffers if b.dtype.is_half}
    counts = Counts(scop, known)

    def accesses(names: Sequence[str]) -> Iterator[tuple[str, Access]]:
        return ((n, a) for n in names for a in scop.statement(n).accesses)

    def moved(name: str, a: Access, p: Proposal) -> tuple[bool, bool]:
        """Whether the shared loops move along an array's rows, and whether along anything else of it."""
        along = {m.vars[name] for m in p.after if name in m.vars}

        def by(subscripts: Sequence[Expr]) -> bool:
            return any(along & variables(inline_lets(e)) for e in subscripts)

        return by(a.subscripts[-1:]), by(a.subscripts[:-1])

    def cut(names: Sequence[str], others: Sequence[str], p: Proposal) -> str:
        """A large array of these statements along whose rows the shared loops go, while nothing large that
        they have in common with the others stays in the second cache for it: of an array that the loops cut
        into columns one column takes a line of each row."""
        theirs = {a.buffer for _, a in accesses(others)}
        for n, a in accesses(names):
            if a.buffer not in theirs or 2 * sizes[a.buffer] <= machine.l2:
                continue
            if high[a.buffer] * LINE <= machine.l2 or moved(n, a, p) != (True, False):
                return ""
        for n, a in accesses(names):
            if sizes[a.buffer] > machine.l2 and a.kind == "read" and moved(n, a, p)[0]:
                return a.buffer
        return ""

    def why(p: Proposal) -> str:
        if p.level > 0:
            return ""
        kept = counts.tasks(p.after)
        few = kept < 2 * machine.cores or not balanced(kept, machine.cores)
        for members, names in ((p.before, p.first), (p.own, p.second)):
            if few and counts.tasks(members) > kept and counts.instances(names) > _SMALL:
                return f"{kept} iterations would be too few for {machine.cores} cores"
        if len(p.after) == len(p.before) == len(p.own):
            return ""
        for members, names, others in ((p.before, p.first, p.second), (p.own, p.second, p.first)):
            if len(members) > len(p.after) and (rows := cut(names, others, p)):
                return f"rows of {rows} would be read in pieces, and nothing large common to both would stay"
        # Data that the shared loops do not move are read again in each of their iterations, and converted.
        shared = {(n, v) for m in p.after for n, v in m.vars.items()}
        again = {
            a.buffer
            for n, a in accesses((*p.first, *p.second))
            if not any((n, v) in shared for e in a.subscripts for v in variables(inline_lets(e)))
        }
        if any(b in halves and sizes[b] > machine.l1 for b in again):
            return "halves would be converted again in each iteration"
        total = sum(sizes[b] for b in again)
        return f"each iteration would read {total} bytes again" if total > machine.l2 // 2 else ""

    return Judge(why)
