"""The reference backend: identity mapping, one thread, no transformation, no fast math.  For validation."""

from .backend import Backend

__all__ = ["Backend"]
