"""Isolation of the whole tiles of a reduction from those that a condition cuts.

`C(i,j) +=! A(i,k) * B(k,j) where k <= i`: the points of a tile end at different iterations.  Further
iterations would add unknown values, so padding is impossible; but most tiles are whole, and these need no
guards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tc.poly.gpu import padded_domains
from tc.poly.gpu.coordinates import to_tile_points
from tc.poly.gpu.mapping import Unit, isolated
from tc.poly.gpu.promotion import PromotedRegion

if TYPE_CHECKING:
    import islpy as isl


def whole_tiles(p: PromotedRegion, u: Unit) -> tuple[isl.Set, isl.Set] | None:
    """The instances in whole tiles and the other instances, if a unit's statement is to be isolated."""
    name = u.statements[0]
    if not isolated(p.scop, u, name):
        return None
    t, domain = p.instances(u, name), padded_domains.domain(p.scop, u, name, p.padded_statements)
    axes = ((a, m, a.typical_extent) for a, m in (*u.axes, *u.own) if name in a.vars)
    box = to_tile_points(p.ctx, t, axes).intersect_domain(domain)
    partial = box.intersect_range(domain.complement()).domain()
    whole = domain.subtract(partial).coalesce()
    return None if whole.is_empty() else (whole, domain.subtract(whole))
