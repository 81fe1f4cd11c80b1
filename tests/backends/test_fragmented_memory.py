"""Machine code in a fragmented address space: sections of one object must not end up out of reach.

With LLVM's own memory manager this ended the process now and then (a 32-bit relocation over more than
2 GiB); `tc.codegen.llvm_jit.engine_of` says why ours does not.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, random, sys, warnings
import numpy as np
import tc

warnings.simplefilter("ignore")
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
INT = ctypes.c_int
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, INT, INT, INT, ctypes.c_long]


def reserve(size):  # no access, no swap: address space alone
    return libc.mmap(None, size, 0, 0x22 | 0x4000, -1, 0)


random.seed(2)
for k in range(12):
    small = random.choice([4096, 8192, 12288, 16384])
    holes = []
    for _ in range(6):
        reserve(3 << 30)
        holes.append(reserve(small))
    reserve(3 << 30)
    for at in holes:
        libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(small))
    body = f"O(i) +=! A(i,j) * C(j) P(i,j) = exp(A(i,j)) * {k}.25"
    source = f"def f(float(N,M) A, float(M) C) -> (O, P) {{ {body} }}"
    o, p = tc.compile(source, sys.argv[1])(np.zeros((4, 9), "f4"), np.ones(9, "f4"))
    assert o.tolist() == [0] * 4 and (p == k + 0.25).all()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mmap flags are Linux's")
@pytest.mark.parametrize("backend", ["reference", "halide"])
def test_kernels_link_wherever_their_sections_land(backend: str) -> None:
    command = [sys.executable, "-c", SCRIPT, backend]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
