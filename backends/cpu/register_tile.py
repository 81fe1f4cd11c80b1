"""What the chooser chooses: a register tile, its lanes, and what is packed for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.poly.plan import PhaseTile, Tile


@dataclass(frozen=True, slots=True)
class Candidate:
    """A register tile: points of each nest axis, the vector axis or the phases' own vector axes."""

    tiles: Mapping[str, Tile] = field(hash=False)
    phases: tuple[PhaseTile, ...]
    packs: frozenset[tuple[str, int]]

    @property
    def vectors(self) -> int:
        """Vectors that it computes side by side."""
        points = math.prod(-(-t.register // t.lanes) for t in self.tiles.values())
        return points * max((p.accumulators for p in self.phases if p.vector is not None), default=1)
