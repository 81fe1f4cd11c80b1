"""The CPU backend: polyhedral, SIMD, multi-threaded; LLVM makes the machine code."""

from .backend import Backend

__all__ = ["Backend"]
