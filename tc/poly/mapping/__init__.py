"""From fused loops to blocks and threads: the mapped schedule tree of a region and its loop nest."""

from tc.poly.mapping import plan
from tc.poly.mapping.loops import Kernel, kernel
from tc.poly.mapping.memory import Placed, placed
from tc.poly.mapping.tree import Mapped, mapped

__all__ = ["Kernel", "Mapped", "Placed", "kernel", "mapped", "placed", "plan"]
