"""The CUDA backend: CUDA C++ compiled by NVRTC, without a toolkit or a device, and run by pycuda."""

from .backend import Backend

__all__ = ["Backend"]
