"""The OpenCL backend: OpenCL C, built and run by pyopencl; PoCL runs it where there is no GPU."""

from .backend import Backend

__all__ = ["Backend"]
