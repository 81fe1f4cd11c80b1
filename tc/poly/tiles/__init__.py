"""Plans to loop nests: the loops of tiled boxes, written down.

The domains of a specialised program are boxes, cut by conditions here and there.  The loops of a tiled box
are known, so no polyhedron is scanned for them (that costs isl 10 ms and more a nest; docs/adr/0006);
conditions are tested where they are not implied by the box.  Extents are constants, so the loops of a whole
tile have constant lengths and no guards; what is left over at the end of an axis is a body of its own.
"""

from tc.poly.tiles.builder import Builder, block
from tc.poly.tiles.nests import Scanner

__all__ = ["Builder", "Scanner", "block"]
