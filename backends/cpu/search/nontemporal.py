"""Non-temporal stores: which results are stored past the caches, because they are written once and too large
to be found there later.

An ordinary store first reads the line that it overwrites (write-allocate), so two bytes move for each byte
written.  That costs nothing while the caches hold all that a nest reads and writes; and while they hold most
of it, the next reader of the result finds its end there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tc.ir.evaluate import bytes_of
from tc.poly.register_promotion import promotion
from tc.poly.scop import Scop
from tc.poly.tile_plan import Nest, Region

from ..target import Machine

# The bytes that a nest reads and writes, at least, as a multiple of the last cache.  On a Zen 4 core, with a
# third to all of them written, normalisations, sums and rectifications were 1.1 to 2 times as fast from 1.5
# on, and 0.97 to 1.5 times with a kernel that reads the result next; at 1.25 they were down to 0.9 times as
# fast with that kernel (docs/experiments/nontemporal-stores.md).
_BEYOND = 1.5

# The bytes written, at least, as a share of the bytes read: below there is nothing to save.
_WRITTEN = 0.1


def nontemporal_results(
    scop: Scop, regions: Iterable[Region], machine: Machine, typical: Mapping[str, int], wanted: bool | None
) -> frozenset[str]:
    """The results that a nest only writes, and that are better stored non-temporally.

    These are results of a nest that reads and writes more than the last cache holds; if the nest computes for
    longer than it writes, the result alone must exceed the last cache.  `typical` are values of the program's
    dynamic sizes; `wanted` is the option `nontemporal`.
    """
    if wanted is False:
        return frozenset()
    sizes = {b.name: bytes_of(b, typical) for b in scop.program.buffers}
    results = {b.name for b in scop.program.buffers if b.role == "output" and not b.inout}
    out: set[str] = set()
    for nest in (n for r in regions for n in r.nests):
        written = {a.buffer for n in nest.statements for a in scop.statement(n).accesses if a.kind == "write"}
        written_once = {
            b for b in results & written if wanted or _exceeds_cache(scop, nest, b, written, sizes, machine)
        }
        kept = promotion(scop, nest).buffers if written_once else frozenset[str]()
        for buffer in written_once:
            touching = [s for s in scop.statements if any(a.buffer == buffer for a in s.accesses)]
            inside = all(s.name in nest.statements for s in touching)
            plain = all(a.kind == "write" for s in touching for a in s.accesses if a.buffer == buffer)
            if touching and inside and (buffer in kept or (plain and len(touching) == 1)):
                out.add(buffer)
    return frozenset(out)


def _exceeds_cache(
    scop: Scop, nest: Nest, result: str, written: set[str], sizes: Mapping[str, int], machine: Machine
) -> bool:
    """Whether a result passes through the caches with so much else that they should not hold it."""
    if any(p.axes for p in nest.phases) and sizes[result] >= machine.l3:
        return True
    touched = dict.fromkeys(written, 0) | {b: sizes[b] for b in written if b in sizes}
    for a in (a for n in nest.statements for a in scop.statement(n).reads):
        # A gather reads no more elements than there are results.
        most = sizes[a.buffer] if a.must else min(sizes[a.buffer], sizes[result])
        touched[a.buffer] = max(touched.get(a.buffer, 0), most)
    total = sum(touched.values())
    return total >= _BEYOND * machine.l3 and sizes[result] >= _WRITTEN * (total - sizes[result])
