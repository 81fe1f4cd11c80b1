"""Kernels of programs that leave something open until arrays arrive: element types, or ranks."""
