"""Caches of compiled kernels: one in memory, one on disk."""
