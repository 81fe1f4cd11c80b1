# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
"""Statements that run beyond their domain, so that no guard stands in the innermost loops of a partial tile.

That is harmless where an instance touches nothing but registers of its thread and copies in shared memory:
these are as large as whole tiles are, and what comes of it is never stored.  Only axes that are not reduced
are padded; one iteration more of a reduction would count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import islpy as isl

from tc.poly.mapping.coordinates import of_statement
from tc.poly.mapping.plan import Unit, bounded, covered, several
from tc.poly.mapping.registers import Kept, Parts
from tc.poly.mapping.shared import Shared
from tc.poly.scop import Scop


def padded(
    scop: Scop, unit: Unit, kept: Sequence[Kept], parts: Mapping[str, Parts], memory: Sequence[Shared]
) -> frozenset[str]:
    """The statements of a unit that may run at all points of its tiles."""
    if unit.shared_out:
        return frozenset()
    # What a nest loads first is loaded where there is something to load: elsewhere it would be undefined.
    registers = {k.buffer for k in kept if k.nest == unit.nest and not k.load}
    out: set[str] = set()
    for name in unit.statements:
        s = scop.statement(name)
        shared = {x.read for x in memory if x.statement == name}
        own = name in parts or all(a.buffer in registers for a in s.accesses if a.kind != "read")
        private = own and all(i in shared or a.buffer in registers for i, a in enumerate(s.reads))
        if private and bounded(scop, unit, name):
            out.add(name)
    return frozenset(out)


def domain(scop: Scop, unit: Unit, name: str, statements: Collection[str]) -> isl.Set:
    """The instances of a statement that run: those of its domain, of `statements` those of whole tiles."""
    found = scop.statement(name).domain
    axes = [(a, m) for a, m in unit.axes if name in a.vars and a.first is None]
    if name not in statements or not axes:
        return found
    t = of_statement(scop, name, (a for a, _ in unit.axes))
    dimensions = {t.axes[a.name] for a, _ in axes}
    conditions = [f"e{i} = d{i}" for i in range(len(t.variables)) if i not in dimensions]
    for a, m in axes:
        d = t.axes[a.name]
        size = covered(a, m)
        if size is None or (a.size is not None and not m.tile):
            conditions.append(f"e{d} = d{d}")
        elif several(a, m):
            conditions.append(f"floor((e{d} - {a.min})/{m.tile}) = floor((d{d} - {a.min})/{m.tile})")
        else:
            conditions.append(f"{a.min} <= e{d} < {a.min + size}")
    source = ", ".join(f"d{i}" for i in range(len(t.variables)))
    target = source.replace("d", "e")
    same = isl.Map.read_from_str(
        scop.ctx, f"{{ {name}[{source}] -> {name}[{target}] : {' and '.join(conditions)} }}"
    )
    return found.apply(same).coalesce()
