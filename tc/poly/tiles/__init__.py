"""Tile plans to loop nests, without polyhedral code generation.

The iteration domains of a specialised program are boxes, some of them with conditions.  The loops of a tiled
box are known, so isl does not generate them (which takes 10 ms and more a nest; docs/adr/0006); conditions
that the box does not imply are tested.  Extents are constants, so the loops of a whole tile have constant
trip counts and no guards; the remainder of an axis has a body of its own.
"""

from tc.poly.tiles.builder import Builder, block
from tc.poly.tiles.nests import TiledLoops

__all__ = ["Builder", "TiledLoops", "block"]
