"""A candidate: a register tile, its vector axis, and what is packed for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.poly.tile_plan import PhaseTile, Tile


def lane_axis(tiles: Mapping[str, Tile]) -> str | None:
    """The axis of a nest that runs in lanes; None where none does."""
    return next((n for n, t in tiles.items() if t.lanes > 1), None)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A register tile: points of each axis of the nest, the phases' own tiles (with their own vector axes, if
    the nest has none), and the reads that are packed, by statement and number."""

    tiles: Mapping[str, Tile] = field(hash=False)
    phases: tuple[PhaseTile, ...]
    packs: frozenset[tuple[str, int]]

    @property
    def vectors(self) -> int:
        """Vectors of results that the register tile computes side by side."""
        points = math.prod(-(-t.register // t.lanes) for t in self.tiles.values())
        return points * max((p.accumulators for p in self.phases if p.vector is not None), default=1)
