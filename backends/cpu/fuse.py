"""When sharing loops pays on a CPU: it saves traffic, unless it takes parallelism or data that are used again
out of the cache."""

from __future__ import annotations

from collections.abc import Mapping

from tc.ir.evaluate import bytes_of
from tc.ir.expr import inline_lets, variables
from tc.poly.fusion import Counts, Judge, Proposal
from tc.poly.scop import Scop

from .machine import Machine
from .model.balance import balanced

_SMALL = 1 << 16  # instances that one core runs in the time it takes to start others a few times


def judge(scop: Scop, machine: Machine, typical: Mapping[str, int] | None = None) -> Judge:
    """The default of this backend's `fusion`; `typical` are values of the program's dynamic sizes."""
    known = typical or {}
    sizes = {b.name: bytes_of(b, known) for b in scop.program.buffers}
    halves = {b.name for b in scop.program.buffers if b.dtype.is_half}
    counts = Counts(scop, known)

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
        # Data that the shared loops do not move are read again in each of their iterations, and converted.
        shared = {(n, v) for m in p.after for n, v in m.vars.items()}
        again = {
            a.buffer
            for n in (*p.first, *p.second)
            for a in scop.statement(n).accesses
            if not any((n, v) in shared for e in a.subscripts for v in variables(inline_lets(e)))
        }
        if any(b in halves and sizes[b] > machine.l1 for b in again):
            return "halves would be converted again in each iteration"
        total = sum(sizes[b] for b in again)
        return f"each iteration would read {total} bytes again" if total > machine.l2 // 2 else ""

    return Judge(why)
