"""Mapping of fused loops to blocks and threads: the mapped schedule tree of a region and its loop nest."""

from tc.poly.gpu import mapping
from tc.poly.gpu.loops import Kernel, kernel
from tc.poly.gpu.mapped_tree import Mapped, mapped
from tc.poly.gpu.promotion import PromotedRegion, promote

__all__ = ["Kernel", "Mapped", "PromotedRegion", "kernel", "mapped", "mapping", "promote"]
