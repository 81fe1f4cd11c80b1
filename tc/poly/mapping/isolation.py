# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
"""Tiles of a reduction all of whose points exist, apart from those on the border of a condition.

`C(i,j) +=! A(i,k) * B(k,j) where k <= i`: the points of a tile end at different iterations.  Nothing says in
advance what the iterations beyond would add, so no padding helps; but most tiles are whole, and these need no
guards.
"""

from __future__ import annotations

import islpy as isl

from tc.poly.mapping.memory import Placed
from tc.poly.mapping.plan import Unit, isolated, several


def whole_tiles(p: Placed, u: Unit) -> isl.Set | None:
    """The instances in whole tiles, if a unit's statement has some that are to be isolated."""
    name = u.statements[0]
    if not isolated(p.scop, u, name):
        return None
    t, domain = p.instances(u, name), p.scop.statement(name).domain
    along = {t.axes[a.name]: (a, m) for a, m in (*u.axes, *u.own) if name in a.vars}
    tiles: list[str] = []
    for i in range(len(t.variables)):
        if i not in along:
            tiles.append(f"e{i} = d{i}")
            continue
        a, m = along[i]
        if several(a, m):
            tiles.append(f"floor((e{i} - {a.min})/{m.tile}) = floor((d{i} - {a.min})/{m.tile})")
        else:
            tiles.append(f"{a.min} <= e{i} < {a.min + a.extent}")
    source = ", ".join(f"d{i}" for i in range(len(t.variables)))
    text = f"{{ {name}[{source}] -> {name}[{source.replace('d', 'e')}] : {' and '.join(tiles)} }}"
    together = isl.Map.read_from_str(p.ctx, text).intersect_domain(domain)
    partial = together.intersect_range(domain.complement()).domain()
    whole = domain.subtract(partial).coalesce()
    return None if whole.is_empty() else whole
