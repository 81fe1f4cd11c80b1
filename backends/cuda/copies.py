"""Copies of arrays of any strides on a device, such as transposed arrays and slices.

Kernels take dense arrays that begin at multiples of 16 bytes.  Other arrays are copied first, by a kernel
that the driver compiles from PTX, so that only the driver is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tc.pipeline.devices import Layout

from .copy_ptx import PTX
from .driver import Driver, DriverError

DIMENSIONS = 4
THREADS = 256
_MOST_BLOCKS = (1 << 31) - 1
# What PTX was made of, by NVRTC (tests/device/test_copies.py does it again).
TEXT = """\
extern "C" __global__ __launch_bounds__(256) void copy(
    const char *from, char *to, long long size, long long count, long long n1, long long n2, long long n3,
    long long s0, long long s1, long long s2, long long s3,
    long long t0, long long t1, long long t2, long long t3) {
  const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
  if (i >= count) return;
  const long long i3 = i % n3, r3 = i / n3;
  const long long i2 = r3 % n2, r2 = r3 / n2;
  const long long i1 = r2 % n1, i0 = r2 / n1;
  const char *p = from + (i0 * s0 + i1 * s1 + i2 * s2 + i3 * s3);
  char *q = to + (i0 * t0 + i1 * t1 + i2 * t2 + i3 * t3);
  if (size == 4) *(int *)q = *(const int *)p;
  else if (size == 8) *(long long *)q = *(const long long *)p;
  else if (size == 2) *(short *)q = *(const short *)p;
  else *q = *p;
}
"""


class Copier:
    """The kernels of a device that copy."""

    def __init__(self, driver: Driver) -> None:
        """Loads them, which is not possible while a stream is captured."""
        self._driver = driver
        text = getattr(driver, "takes_text", False)  # a stand-in, which runs CUDA C++
        module = driver.load(TEXT.encode() if text else PTX.encode() + b"\0")
        self._function = driver.function(module, "copy", 0)

    def copy(self, target: Layout, source: Layout, stream: int) -> None:
        """Copy elements to as many others, in the order of the stream."""
        for size, to, fro, dims in pieces(target, source):
            count = math.prod(n for n, _, _ in dims)
            blocks = -(-count // THREADS)
            if blocks > _MOST_BLOCKS:
                raise DriverError(f"a copy of {count} elements is larger than a launch can be")
            numbers = [
                size,
                count,
                *(n for n, _, _ in dims[1:]),
                *(s for _, s, _ in dims),
                *(t for _, _, t in dims),
            ]
            arguments: list[Any] = [fro, to, *(np.int64(n) for n in numbers)]
            self._driver.launch(self._function, arguments, blocks, THREADS, 0, stream)


Dimensions = list[tuple[int, int, int]]  # extent, stride of the source, stride of the target


def pieces(target: Layout, source: Layout) -> Iterator[tuple[int, int, int, Dimensions]]:
    """Copies of at most four dimensions: the bytes of an element, both addresses, and the dimensions."""
    dims = [(n, s, t) for n, s, t in zip(source.shape, source.strides, target.strides, strict=True) if n != 1]
    if not all(n for n, _, _ in dims):
        return
    size = source.itemsize
    everything = (source.address, target.address, *(x for _, s, t in dims for x in (s, t)))
    # Elements that are not aligned to their size, or longer than 8 bytes, are copied in parts.
    part = math.gcd(size, 8, *everything)
    if part < size:
        dims.append((size // part, part, part))
    merged: Dimensions = []
    for n, s, t in dims:
        if merged and merged[-1][1] == s * n and merged[-1][2] == t * n:
            merged[-1] = merged[-1][0] * n, s, t
        else:
            merged.append((n, s, t))
    outer, inner = merged[:-DIMENSIONS], merged[-DIMENSIONS:]
    inner = [(1, 0, 0)] * (DIMENSIONS - len(inner)) + inner
    for at in np.ndindex(*(n for n, _, _ in outer)):
        fro = source.address + sum(i * s for i, (_, s, _) in zip(at, outer, strict=True))
        to = target.address + sum(i * t for i, (_, _, t) in zip(at, outer, strict=True))
        yield part, to, fro, inner
