"""Choose tilings (first form: by hand)."""
from __future__ import annotations
from dataclasses import dataclass
from tc.options import Options
from tc.poly.plan import *
from tc.poly.scop import Scop
from .machine import Machine

@dataclass(frozen=True)
class Choice:
    tilings: tuple[RegionTiling, ...]
    text: str

OVERRIDE = {}
def choose(scop, regions, machine, options):
    out=[]
    for r in regions:
        ts=[]
        for n in r.nests:
            names=tuple(a.name for a in n.axes)
            tiles={a.name: Tile(a.extent,1) for a in n.axes}
            t=Tiling(tiles,names,names,tuple(PhaseTile() for _ in n.phases))
            if OVERRIDE: t=OVERRIDE['f'](n)
            ts.append(t)
        out.append(RegionTiling(tuple(1 for _ in r.axes),tuple(ts)))
    return Choice(tuple(out),"")
