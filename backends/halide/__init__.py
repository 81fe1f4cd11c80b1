"""The halide backend: the lowered Funcs, compiled by Halide.  A second opinion, and its autoschedulers."""

from .backend import Backend

__all__ = ["Backend"]
