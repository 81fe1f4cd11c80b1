"""Results that go past the caches: which, by what instructions, and right at every alignment."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tests.backends.cpu_cases import CORPUS, Case, check, compiled, isas

SMALL = (("l3", 64),)  # a machine whose caches hold next to nothing
ADD = "def f(float(M,N) A, float(M,N) B) -> (C) { C(i,j) = A(i,j) + B(i,j) }"


@pytest.mark.share(3)
@pytest.mark.parametrize("case", CORPUS, ids=lambda c: c.name)
def test_results_past_the_caches(case: Case) -> None:
    for isa in isas():
        check(case, case.sizes([19, 32, 5, 3]), 1, {"machine": SMALL, "isa": isa})


def streams(source: str, **sizes: int) -> bool:
    """Whether there are stores past the caches; then something waits for them at the end of each task."""
    llvm = compiled(source, machine=SMALL).inspect("llvm", **sizes)
    functions = [f for f in llvm.split("define ") if "!nontemporal" in f]
    assert all(f.count("sfence()") == 1 for f in functions)
    return bool(functions)


def test_a_stream_is_stored_past_the_caches_and_waited_for() -> None:
    assert streams(ADD, M=64, N=256)
    assert "nontemporal" not in compiled(ADD).inspect("llvm", M=64, N=256), "it stays in the caches"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(float(M,N) A) -> (C) { C(i,j) = A(i,j) C(i,j) += 1 }", "C"),  # in registers in between
        ("def f(float(M,N) A) -> (C) { C(i,j) = 2 where i in 0:M, j in 0:N }", "C"),
        ("def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }", "C"),  # there is time
        ("def f(float(M,N) A) -> (C, D) { C(i,j) = A(i,j) D(i) +=! C(i,k) * C(k,i) where k in 0:N }", "D"),
    ],
)
def test_which_results_are_streamed(source: str, names: str) -> None:
    """What is read again is not."""
    kernel = compiled(source, machine=SMALL)
    sizes = {n: 256 for n in "MNK" if f"{n})" in source or f"({n}," in source}
    shown = kernel.inspect("loops", **sizes).splitlines()
    assert "".join(line.split("[")[0][-1] for line in shown if line.endswith(", streamed")) == names


@pytest.mark.parametrize(
    ("source", "bytes_", "names"),
    [
        (ADD, 3 << 16, "C"),
        ("def f(float(M,N) A) -> (C) { C(i,j) = A(i,j) + A(i,j) * 2 }", 2 << 16, "C"),  # read once
        ("def f(float(M,N) A) -> (C) { C(i,j) = 2 where i in 0:M, j in 0:N }", 1 << 16, "C"),
        ("def f(float(M,N) A) -> (C, D) { C(i,j) = A(i,j) + 1 D(i,j) = A(i,j) * 3 }", 3 << 16, "CD"),
        (
            "def f(float(M,N) A, int32(M) I) -> (C) { C(i,j) = A(max(min(I(i),M-1),0),j) }",
            (2 << 16) + 512,
            "C",
        ),
        # Of a large table no more counts than there are results.
        (
            "def f(float(E,N) T, int32(M) I) -> (C) { C(i,j) = T(max(min(I(i),E-1),0),j) }",
            (2 << 16) + 512,
            "C",
        ),
    ],
)
def test_results_are_streamed_once_the_last_cache_does_not_hold_what_is_touched(
    source: str, bytes_: int, names: str
) -> None:
    """From one and a half times its size on; 128 x 128 floats are 64 KiB."""
    sizes = {"M": 128, "N": 128} | ({"E": 1 << 16} if "E" in source else {})
    for cache, expected in ((int(bytes_ / 1.5), names), (int(bytes_ / 1.5) + 64, "")):
        kernel = compiled(source, machine=(("l3", cache),))
        shown = [line for line in kernel.inspect("loops", **sizes).splitlines() if ", streamed" in line]
        assert "".join(line.split("[")[0][-1] for line in shown) == expected


def test_a_small_result_of_much_that_is_read_stays_in_the_caches() -> None:
    source = "def f(float(M,N) A, float(N) b) -> (C) { C(i) +=! A(i,k) * b(k) }"
    kernel = compiled(source, machine=(("l3", 1 << 20),))
    assert "streamed" not in kernel.inspect("loops", M=4096, N=1024)


def test_rows_that_start_on_no_line_are_stored_as_ever() -> None:
    rows = "def f(float(M,N) A, float(N) B) -> (C) { C(i,j) = A(i,j) + B(j) }"
    assert not streams(rows, M=64, N=250) and streams(rows, M=64, N=256)


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("offset", [0, 1, 4, 8, 15])
def test_every_alignment(isa: str, offset: int) -> None:
    r = np.random.default_rng(0)
    a, b = r.random((2, 37, 64), np.float32)
    room = np.full(37 * 64 + 48, -1, np.float32)
    start = (-room.ctypes.data // 4) % 16 + offset
    out = room[start : start + 37 * 64].reshape(37, 64)
    kernel = compiled(ADD, machine=SMALL, isa=isa)
    kernel(a, b, out=out)
    np.testing.assert_array_equal(out, a + b)
    np.testing.assert_array_equal(room[:start], -1)
    np.testing.assert_array_equal(room[start + 37 * 64 :], -1)


def test_a_dynamic_size_counts_as_its_typical_value() -> None:
    kernel = tc.compile(ADD, "cpu", options=tc.Options(machine=SMALL), dynamic={"M": 64})
    assert "C[M, 256], streamed" in kernel.inspect("loops", N=256)
