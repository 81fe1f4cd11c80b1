"""The innermost loop of a phase in a register tile, and where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tc.ir.expr import Expr
from tc.ir.loops import Array
from tc.poly.tile_plan import Axis, Phase, PhaseTile
from tc.poly.tiles.register_tile import RegisterTile


@dataclass(frozen=True, slots=True)
class InnermostLoop:
    """The loop over `axis` of a phase, tiled as `plan` says: in lanes, unrolled, or by dot products.

    `at` are the points of the loops around it, by axis; `partial` are the arrays of partial results, by
    statement.
    """

    tile: RegisterTile
    phase: Phase
    plan: PhaseTile
    axis: Axis
    at: Mapping[str, Expr]
    partial: Mapping[str, Array]

    @property
    def extent(self) -> int | Expr:
        """Its points; an expression where they depend on dynamic sizes."""
        return self.tile.extent(self.axis)

    def point(self, offset: Expr) -> dict[str, Expr]:
        """The points of all axes of the phase, with this one at `offset`."""
        return {**self.at, self.axis.name: offset}

    def name(self) -> str:
        """A new name of a variable that counts points of it."""
        return self.tile.builder.name(self.axis.name)
