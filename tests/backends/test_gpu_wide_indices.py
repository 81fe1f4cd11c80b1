"""64-bit indices on GPUs: where 32 bits do not suffice, and nowhere else."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tc

DOUBLE = "def f(int8(N) A) -> (B) { B(i) = A(i) * int8(2) }"
SUM = "def f(int8(N) A) -> (B) { B +=! int32(A(i)) }"
TAIL = "def f(int8(N) A) -> (O) { O(i) = A(N - 4107 + i) where i in 0:4107 }"


@pytest.mark.share(18)
@pytest.mark.parametrize("backend", ["cuda", "opencl"])
@pytest.mark.parametrize(
    ("source", "n", "wide"),
    [
        (DOUBLE, 2**31 - 1, False),
        (DOUBLE, 2**31, False),
        (DOUBLE, 2**31 + 1, True),
        (DOUBLE, 2**45, True),
        (
            SUM,
            2**30,
            False,
        ),  # chunks and their points are bounded separately, so nearer to 2^31 it is not proved
        (SUM, 2**31 + 1, True),
    ],
)
def test_indices_have_64_bits_only_where_32_do_not_suffice(
    source: str, n: int, wide: bool, backend: str
) -> None:
    """The last index of 2^31 elements has 31 bits; if a grid has too few blocks, they run several tiles."""
    options = {"isa": "sm_90"} if backend == "cuda" else {}
    code = tc.compile(source, backend, options=options).inspect("code", N=n)
    long = "long long" if backend == "cuda" else "long"
    accesses = re.findall(r"\b[AB]\w*\[[^;]*", code)
    assert any(long in a for a in accesses) is wide, code
    assert (f"for ({long} c0 = ({long})b0;" in code) is (n == 2**45)


@pytest.mark.slow  # 12 s, 4 GiB
def test_elements_beyond_31_bits_are_accessed_on_a_device() -> None:
    a = np.zeros(2**31 + 4099, np.int8)
    put = {0: 1, 2**31 - 9: 5, 2**31 - 1: 2, 2**31: 3, 2**31 + 5: -4, a.size - 1: 7}
    for at, value in put.items():
        a[at] = value
    out = tc.compile(TAIL, "opencl")(a)
    first = a.size - 4107
    assert {int(i) + first: int(out[i]) for i in np.flatnonzero(out)} == {
        k: v for k, v in put.items() if k >= first
    }
