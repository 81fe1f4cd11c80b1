"""Runs kernels of the cpu backend on arrays that touch unmapped pages; a process of its own, since an access
beyond an array ends it.

python guarded_pages.py ISA: every program is named before it runs, `done` comes last.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import mmap
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import tc
from tests.backends.cpu_cases import BY_NAME, Array, Case, compiled, interpreted, same

PAGE = mmap.PAGESIZE
_LIBC = ctypes.CDLL(None, use_errno=True)

# Sizes that leave tails, and row lengths at which the end of an array is the end of its last row.
PROGRAMS: dict[str, tuple[int, ...]] = {
    "float": (5, 19), "double": (7, 9), "half": (5, 35), "int8": (3, 67), "int64": (5, 11), "bool": (9, 21),
    "gemm": (7, 5, 19), "gemm of transposed": (9, 19, 7), "gemm in bytes": (5, 7, 21),
    "bias and relu": (5, 7, 9),
    "softmax": (5, 19), "moments": (17, 5), "layer norm": (3, 21), "mlp": (9, 5, 7, 3),
    "convolution": (3, 9, 11, 5), "strided": (3, 13, 17, 5), "pooling": (3, 11, 23), "dilated": (31,),
    "lookup": (19, 7, 3), "lookup of a column": (9, 21), "clamped": (21,),
    "triangle": (19,), "band": (17, 19),
    "padding": (21,), "padded convolution": (19,), "ternary on data": (5, 19), "transposition": (5, 7, 19),
    "transposition of bytes": (19, 21), "reversal": (17, 19), "halves": (21,),
    "scaled up by three": (3, 5, 17), "pixels of channels": (3, 5, 17), "rolled": (5, 83),
    "mirrored at an edge": (5, 35), "in turn": (167,), "scalar result": (35,),
    "several reductions": (3, 5, 7, 9), "in place": (7, 9), "stencils": (23,), "concatenation": (5, 7, 9),
    "every second": (42,), "every third byte": (111,), "every fourth": (3, 84), "every fifth": (85,),
    "every second, as data say": (38,), "columns": (21, 19),
    "casts": (23,), "division": (5, 19), "kronecker": (3, 5, 7, 9),
}  # fmt: skip


class Guarded:
    """An array between unmapped pages, at the end of the mapped ones, or `offset` bytes from their start."""

    def __init__(self, shape: Sequence[int], dtype: np.dtype[Any], place: str) -> None:
        size = int(np.prod(shape)) * dtype.itemsize
        offset = dtype.itemsize if place == "odd" else 0
        pages = max(1, -(-(size + offset) // PAGE))
        self.memory = mmap.mmap(-1, (pages + 2) * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for page in (start, start + (pages + 1) * PAGE):
            if _LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        at = PAGE + (pages * PAGE - size if place == "end" else offset)
        self.rest = np.frombuffer(self.memory, np.uint8, (pages * PAGE), PAGE)
        self.rest[...] = 0xA5
        self.mine = slice(at - PAGE, at - PAGE + size)
        self.array: Array = (
            np.frombuffer(self.memory, np.uint8, size, at).view(dtype).reshape(shape)
            if size
            else np.zeros(shape, dtype)
        )
        self.array.flags.writeable = True

    def intact(self) -> bool:
        """Whether nothing beside the array was written."""
        around = self.rest.copy()
        around[self.mine] = 0xA5
        return bool((around == 0xA5).all())


def run(name: str, drawn: Sequence[int], isa: str) -> None:
    case = BY_NAME[name]
    sizes = case.sizes(drawn)
    given, out = case.arguments(sizes, 0)
    want = interpreted(case.source, **given, out={k: v.copy() for k, v in out.items()} or None)
    kernel = compiled(case.source, isa=isa)
    for place in ("start", "end", "odd"):
        sys.stdout.write(f"{name}, {place}\n")
        sys.stdout.flush()
        one(case, kernel, given, out, want, place)


def one(
    case: Case,
    kernel: tc.Kernel,
    given: dict[str, Any],
    out: dict[str, Array],
    want: tuple[Array, ...],
    place: str,
) -> None:
    held: list[Guarded] = []

    def placed(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        held.append(Guarded(value.shape, value.dtype, place))
        held[-1].array[...] = value
        return held[-1].array

    args = {k: placed(v) for k, v in given.items()}
    results: dict[str, Array] = {}
    for x, w in zip(kernel.front.checked.returns, want):
        results[x.name] = placed(out.get(x.name, np.zeros(w.shape, w.dtype)))
    kernel(**args, out=results)
    for w, g in zip(want, results.values()):
        same(w, g, case.ulps)
    for k, v in given.items():
        if isinstance(v, np.ndarray):
            same(v, args[k])
    if not all(h.intact() for h in held):
        raise AssertionError("written beside an array")


def main() -> None:
    warnings.simplefilter("ignore")
    for name, drawn in PROGRAMS.items():
        run(name, drawn, sys.argv[1])
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
