"""Results that go past the caches: written once, and too large to be found there later.

A plain store first reads the line that it is about to write over, and so takes from the bandwidth of what is
read besides, or waits while a reduction could be computed.  Where there is neither, it hides behind the
stores, and one core writes faster through its cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tc.ir.evaluate import bytes_of
from tc.poly.plan import Region
from tc.poly.scop import Scop
from tc.poly.storage import promotion

from .machine import Machine


def streamed(
    scop: Scop, regions: Iterable[Region], machine: Machine, typical: Mapping[str, int], wanted: bool | None
) -> frozenset[str]:
    """The results that a nest only writes and that are larger than the last cache; `typical` are values of
    the program's dynamic sizes, `wanted` is the option `nontemporal`."""
    if wanted is False:
        return frozenset()
    sizes = {b.name: bytes_of(b, typical) for b in scop.program.buffers}
    large = {
        b.name
        for b in scop.program.buffers
        if b.role == "output" and not b.inout and (wanted or sizes[b.name] >= machine.l3)
    }
    out: set[str] = set()
    for nest in (n for r in regions for n in r.nests if large):
        kept = promotion(scop, nest).buffers
        read = {a.buffer for n in nest.statements for a in scop.statement(n).accesses if a.kind == "read"}
        computed = any(p.axes for p in nest.phases)
        for buffer in large:
            if not wanted and not computed and sum(sizes[b] for b in read - {buffer}) < sizes[buffer]:
                continue
            touching = [s for s in scop.statements if any(a.buffer == buffer for a in s.accesses)]
            inside = all(s.name in nest.statements for s in touching)
            plain = all(a.kind == "write" for s in touching for a in s.accesses if a.buffer == buffer)
            if touching and inside and (buffer in kept or (plain and len(touching) == 1)):
                out.add(buffer)
    return frozenset(out)
