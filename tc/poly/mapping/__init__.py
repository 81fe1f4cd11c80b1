"""From fused loops to blocks and threads: the mapped schedule tree of a region and its loop nest."""

from tc.poly.mapping import plan
from tc.poly.mapping.loops import launch
from tc.poly.mapping.tree import mapped

__all__ = ["launch", "mapped", "plan"]
