"""Kernels as operators of frameworks: the only importer of PyTorch and JAX."""
