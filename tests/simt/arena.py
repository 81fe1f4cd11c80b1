"""The arrays of a session in memory of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class Arena:
    """The arrays of a session in one piece of memory, each in 256-byte chunks of its own between wide gaps,
    so that what leaves an array does not land in another.  Arrays that overlap do so here too."""

    CHUNK = 256

    def __init__(self, arrays: list[np.ndarray[Any, Any]], undefined: list[np.ndarray[Any, Any]]) -> None:
        for a in arrays:
            if not a.flags.c_contiguous:
                raise ValueError("an array that is not C-contiguous")
        self.arrays = arrays
        pieces: list[list[int]] = []  # begin, end, granule, defined
        unset = [(u.ctypes.data, u.ctypes.data + u.nbytes) for u in undefined]
        for a in sorted(arrays, key=lambda a: a.ctypes.data):
            begin, end = a.ctypes.data, a.ctypes.data + a.nbytes
            granule = math.gcd(a.itemsize, 4)
            defined = int(not any(b <= begin and end <= e for b, e in unset))
            if pieces and begin < pieces[-1][1]:
                p = pieces[-1]
                pieces[-1] = [p[0], max(p[1], end), min(p[2], granule), max(p[3], defined)]
            else:
                pieces.append([begin, end, granule, defined])
        self.pieces = pieces
        gap = max([1 << 16, *(-(-(p[1] - p[0]) // self.CHUNK) * self.CHUNK for p in pieces)])
        total = gap
        starts = []
        for begin, end, _, _ in pieces:
            starts.append(total + begin % 16)  # an array aligned to 4 bytes only stays so
            total = -(-(starts[-1] + end - begin) // self.CHUNK) * self.CHUNK + gap
        self.buffer = np.zeros(total + self.CHUNK, np.uint8)  # the gaps are never touched and cost nothing
        self.base = -(-self.buffer.ctypes.data // self.CHUNK) * self.CHUNK
        self.bytes = total
        self.starts = [self.base + s for s in starts]
        for a in sorted(arrays, key=lambda a: -a.nbytes):
            unknown = any(b <= a.ctypes.data and a.ctypes.data + a.nbytes <= e for b, e in unset)
            self._view(a)[:] = 0xFF if unknown else a.reshape(-1).view(np.uint8)

    def piece(self, a: np.ndarray[Any, Any]) -> int:
        at = a.ctypes.data
        return next(i for i, p in enumerate(self.pieces) if p[0] <= at and at + a.nbytes <= p[1])

    def address(self, a: np.ndarray[Any, Any]) -> int:
        i = self.piece(a)
        return self.starts[i] + a.ctypes.data - self.pieces[i][0]

    def _view(self, a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        start = self.address(a) - self.buffer.ctypes.data
        return self.buffer[start : start + a.nbytes]

    def contents(self) -> list[np.ndarray[Any, Any]]:
        return [
            self._view(a).view(a.dtype).reshape(a.shape).copy() if a.size else a.copy() for a in self.arrays
        ]
