"""Kernels in Triton for `benchmarks.spellings.with_triton`, a module an idea.

Offsets are 32-bit: arrays have less than 2**31 elements.  float32 products are exact float32 ones (`ieee`).
"""
