"""Padded iteration domains: statements run beyond their domain, so that the innermost loops of a partial tile
need no guards.

That is legal if an instance accesses only registers of its thread and copies in shared memory: these have the
size of whole tiles, and the additional results are never stored.  Only axes that are not reduced are padded;
an additional iteration of a reduction would change the result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from tc.ir.expr import variables
from tc.poly.gpu.coordinates import of_statement, to_tile_points
from tc.poly.gpu.mapping import AxisMap, Unit, bounded, covered, isolated
from tc.poly.gpu.private_memory import PartialResults, PrivateArray
from tc.poly.gpu.shared import Shared
from tc.poly.scop import Scop
from tc.poly.tile_plan import Axis

if TYPE_CHECKING:
    import islpy as isl


def padded(
    scop: Scop,
    unit: Unit,
    private_arrays: Sequence[PrivateArray],
    partial_results: Mapping[str, PartialResults],
    shared_reads: Sequence[Shared],
) -> frozenset[str]:
    """The statements of a unit that may run at all points of its tiles; isolated ones only along axes that no
    condition uses."""
    if unit.reduction_threads:
        return frozenset()
    # Elements are loaded inside of the domain only; the registers of other points would be undefined.
    registers = {k.buffer for k in private_arrays if k.nest == unit.nest and not k.load}
    out: set[str] = set()
    for name in unit.statements:
        s = scop.statement(name)
        shared = {x.read for x in shared_reads if x.statement == name}
        own = name in partial_results or all(a.buffer in registers for a in s.accesses if a.kind != "read")
        private = own and all(i in shared or a.buffer in registers for i, a in enumerate(s.reads))
        if private and (bounded(scop, unit, name) or isolated(scop, unit, name)):
            out.add(name)
    return frozenset(out)


def domain(scop: Scop, unit: Unit, name: str, statements: Collection[str]) -> isl.Set:
    """The instances of a statement that run: its domain, padded to whole tiles for those of `statements`."""
    s = scop.statement(name)
    if name not in statements:
        return s.domain
    conditional = {v for c in s.stage.domain.conditions for v in variables(c)}
    fixed = conditional if isolated(scop, unit, name) else set[str]()
    axes: list[tuple[Axis, AxisMap, int]] = []
    for a, m in unit.axes:
        size = covered(a, m)
        known = a.first is None and (a.size is None or m.tile)
        if known and size is not None and name in a.vars and a.vars[name] not in fixed:
            axes.append((a, m, size))
    if not axes:
        return s.domain
    t = of_statement(scop, name, (a for a, _ in unit.axes))
    return s.domain.apply(to_tile_points(scop.ctx, t, axes)).coalesce()
