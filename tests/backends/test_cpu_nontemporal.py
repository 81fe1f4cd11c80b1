"""Non-temporal stores: which results take them, by which instructions, and correctness at every alignment."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tests.backends.cpu_cases import CORPUS, Case, check, compiled, isas

SMALL = (("l3", 64),)  # a machine with tiny caches
ADD = "def f(float(M,N) A, float(M,N) B) -> (C) { C(i,j) = A(i,j) + B(i,j) }"


@pytest.mark.share(54)
@pytest.mark.parametrize("case", CORPUS, ids=lambda c: c.name)
def test_results_with_nontemporal_stores(case: Case) -> None:
    for isa in isas():
        check(case, case.sizes([19, 32, 5, 3]), 1, {"machine": SMALL, "isa": isa})


def has_nontemporal_stores(source: str, **sizes: int) -> bool:
    """Whether there are non-temporal stores; then each task ends with a store fence."""
    llvm = compiled(source, machine=SMALL).inspect("llvm", **sizes)
    functions = [f for f in llvm.split("define ") if "!nontemporal" in f]
    assert all(f.count("sfence()") == 1 for f in functions)
    return bool(functions)


def test_large_results_are_stored_nontemporally_with_a_fence() -> None:
    assert has_nontemporal_stores(ADD, M=64, N=256)
    assert "nontemporal" not in compiled(ADD).inspect("llvm", M=64, N=256), "it stays in the caches"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(float(M,N) A) -> (C) { C(i,j) = A(i,j) C(i,j) += 1 }", "C"),  # in registers in between
        ("def f(float(M,N) A) -> (C) { C(i,j) = 2 where i in 0:M, j in 0:N }", "C"),
        ("def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }", "C"),  # compute-bound
        ("def f(float(M,N) A) -> (C, D) { C(i,j) = A(i,j) D(i) +=! C(i,k) * C(k,i) where k in 0:N }", "D"),
    ],
)
def test_results_that_are_not_reread_are_stored_nontemporally(source: str, names: str) -> None:
    """Results that are read again are not."""
    kernel = compiled(source, machine=SMALL)
    sizes = {n: 256 for n in "MNK" if f"{n})" in source or f"({n}," in source}
    shown = kernel.inspect("loops", **sizes).splitlines()
    assert "".join(line.split("[")[0][-1] for line in shown if line.endswith(", nontemporal")) == names


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
        # Of a large table only as many elements count as there are results.
        (
            "def f(float(E,N) T, int32(M) I) -> (C) { C(i,j) = T(max(min(I(i),E-1),0),j) }",
            (2 << 16) + 512,
            "C",
        ),
    ],
)
def test_stores_are_nontemporal_where_the_last_cache_does_not_hold_the_footprint(
    source: str, bytes_: int, names: str
) -> None:
    """From one and a half times its size on; 128 x 128 floats are 64 KiB."""
    sizes = {"M": 128, "N": 128} | ({"E": 1 << 16} if "E" in source else {})
    for cache, expected in ((int(bytes_ / 1.5), names), (int(bytes_ / 1.5) + 64, "")):
        kernel = compiled(source, machine=(("l3", cache),))
        shown = [line for line in kernel.inspect("loops", **sizes).splitlines() if ", nontemporal" in line]
        assert "".join(line.split("[")[0][-1] for line in shown) == expected


def test_a_small_result_of_a_large_input_is_stored_to_the_caches() -> None:
    source = "def f(float(M,N) A, float(N) b) -> (C) { C(i) +=! A(i,k) * b(k) }"
    kernel = compiled(source, machine=(("l3", 1 << 20),))
    assert "nontemporal" not in kernel.inspect("loops", M=4096, N=1024)


def test_short_rows_that_start_on_no_line_take_ordinary_stores() -> None:
    rows = "def f(float(M,N) A, float(N) B) -> (C) { C(i,j) = A(i,j) + B(j) }"
    assert not has_nontemporal_stores(rows, M=64, N=250) and has_nontemporal_stores(rows, M=64, N=256)


ROWS = "def f(float(M,N) A, float(N) B) -> (C) { C(i,j) = A(i,j) + B(j) }"
STENCIL = "def f(float(M,N) A) -> (C) { C(i,j) = A(i,j) + A(i-1,j) + A(i+1,j) + A(i,j-1) * A(i,j+1) }"
SLABS = "def f(float(K,M,N) A, float(M) B) -> (C) { C(k,i,j) = A(k,i,j) * B(i) }"
DOUBLES = "def f(double(M,N) A, double(N) B) -> (C) { C(i,j) = A(i,j) + B(j) }"
BYTES = "def f(uint8(M,N) A, uint8(N) B) -> (C) { C(i,j) = A(i,j) + B(j) }"


@pytest.mark.share(24)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("source", [ROWS, STENCIL, SLABS, DOUBLES, BYTES])
@pytest.mark.parametrize("columns", [769, 1000, 1023, 3081])
def test_results_of_rows_with_a_head_before_the_first_line(source: str, columns: int, isa: str) -> None:
    """Whatever is before the first line of a row, and after the last; and results that begin anywhere."""
    kernel = compiled(source, machine=SMALL, isa=isa)
    r = np.random.default_rng(1)
    dtype = {DOUBLES: np.float64, BYTES: np.uint8}.get(source, np.float32)
    shapes = {SLABS: [(2, 21, columns), (21,)], STENCIL: [(21, columns)]}.get(
        source, [(21, columns), (columns,)]
    )
    arrays = [(r.random(s) * 50).astype(dtype) for s in shapes]
    expected = np.asarray(tc.interpret(source, *arrays))
    np.testing.assert_allclose(kernel(*arrays), expected, rtol=1e-6)
    for offset in (0, 1, 5):
        room = np.zeros(expected.size + 64 + offset, dtype)
        start = (-room.ctypes.data // room.itemsize) % (64 // room.itemsize) + offset
        out = room[start : start + expected.size].reshape(expected.shape)
        kernel(*arrays, out=out)
        np.testing.assert_allclose(out, expected, rtol=1e-6)
        assert not room[:start].any() and not room[start + expected.size :].any()


POOL = "def f(float(N,H,W) I) -> (O) { O(n,y,x) max=! I(n,2*y+ky,2*x+kx) where ky in 0:2, kx in 0:2 }"
CONV = "def f(float(N,C,H,W) I, float(F,C,3,3) K) -> (O) { O(n,f,y,x) +=! I(n,c,y+ky,x+kx) * K(f,c,ky,kx) }"
NORM = "def f(float(N,D) X) -> (O) { s(n) +=! X(n,d) * X(n,d) O(n,d) = X(n,d) * rsqrt(s(n)) }"


@pytest.mark.share(12)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("columns", [20, 28, 40, 56])
def test_short_rows_are_stored_nontemporally_in_whole_pieces(columns: int, isa: str) -> None:
    """Rows of 112 bytes are seven stores of 16, of 160 bytes five of 32: no line has parts of both kinds."""
    kernel = compiled(POOL, machine=SMALL, isa=isa)
    sizes = {"N": 40, "H": 56, "W": 2 * columns}
    llvm = kernel.inspect("llvm", **sizes)
    nontemporal = [line for line in llvm.splitlines() if "!nontemporal !0" in line]
    piece = min(4 * columns & -4 * columns, 64)
    assert nontemporal and all(
        f"align {min(piece, max(widths(nontemporal)))}," in line for line in nontemporal
    )
    image = np.random.default_rng(0).random((40, 56, 2 * columns), np.float32)
    expected = np.asarray(tc.interpret(POOL, image))
    np.testing.assert_array_equal(kernel(image), expected)
    for offset in (0, 4, 5, 8):
        room = np.zeros(expected.size + 64, np.float32)
        start = (-room.ctypes.data // 4) % 16 + offset
        out = room[start : start + expected.size].reshape(expected.shape)
        kernel(image, out=out)
        np.testing.assert_array_equal(out, expected)
        assert not room[:start].any() and not room[start + expected.size :].any()


def widths(stores: list[str]) -> list[int]:
    return [int(line.rsplit("align ", 1)[1].split(",")[0]) for line in stores]


@pytest.mark.parametrize(
    ("source", "sizes", "nontemporal"),
    [
        (POOL, {"N": 40, "H": 56, "W": 56}, True),
        (POOL, {"N": 40, "H": 56, "W": 54}, False),  # 27 elements
        (NORM, {"N": 400, "D": 300}, True),
        # Half of a line would wait for a distant tile.
        (CONV, {"N": 4, "C": 8, "F": 8, "H": 30, "W": 30}, False),
        (CONV, {"N": 4, "C": 8, "F": 8, "H": 34, "W": 34}, True),
    ],
)
def test_partially_written_lines_take_ordinary_stores(
    source: str, sizes: dict[str, int], nontemporal: bool
) -> None:
    assert has_nontemporal_stores(source, **sizes) == nontemporal


def test_the_alignment_of_a_row_is_tested_at_run_time() -> None:
    """One condition for all vectors of a tile; aligned rows and columns of tiles need none."""
    assert has_nontemporal_stores(STENCIL, M=64, N=1024)
    nest = compiled(STENCIL, machine=SMALL).inspect("loops", M=64, N=1024)
    assert "C[62, 1022], nontemporal at cache lines" in nest and "let before" in nest
    aligned = compiled(STENCIL, machine=SMALL).inspect("loops", M=64, N=1026)
    assert "nontemporal at cache lines" not in aligned and "before" not in aligned


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("offset", [0, 1, 4, 8, 15])
def test_results_at_every_alignment(isa: str, offset: int) -> None:
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
    assert "C[M, 256], nontemporal" in kernel.inspect("loops", N=256)
