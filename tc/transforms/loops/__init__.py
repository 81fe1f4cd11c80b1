"""Transformations of loop nests, before code is emitted."""
