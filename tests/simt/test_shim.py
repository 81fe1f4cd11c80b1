"""The shim finds the errors of kernels in the form that our emitter gives them, at the right lines, and no
others.

The texts are CUDA, which NVRTC accepts, too.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.simt import shim as simt
from tests.simt.shim import Finding, Kind
from tests.simt.shim_checks import change, ints, line, only

SHAPE = (45, 39, 50)  # not multiples of the tile

MATMUL = """\
extern "C" __global__ void __launch_bounds__(256)
mm(const float (*__restrict__ A)[39], const float (*__restrict__ B)[50], float (*C)[50], int N) {
  __shared__ float s_A[16][17];
  __shared__ float s_B[16][17];
  const int t = threadIdx.x, t0 = t / 16, t1 = t % 16;
  const int b0 = blockIdx.x / 4, b1 = blockIdx.x % 4;
  float r[1][1];
  #pragma unroll
  for (int u = 0; u < 1; u++) r[u][0] = 0.0f;
  for (int k0 = 0; k0 < 39; k0 += 16) {
    s_A[t0][t1] = 16 * b0 + t0 < N && k0 + t1 < 39 ? A[16 * b0 + t0][k0 + t1] : 0.0f; // copy A
    s_B[t0][t1] = k0 + t0 < 39 && 16 * b1 + t1 < 50 ? B[k0 + t0][16 * b1 + t1] : 0.0f; // copy B
    __syncthreads(); // first
    for (int k = 0; k < 16; k++)
      r[0][0] += s_A[t0][k] // read A
               * s_B[k][t1]; // read B
    __syncthreads(); // second
  }
  if (16 * b0 + t0 < N && 16 * b1 + t1 < 50)
    C[16 * b0 + t0][16 * b1 + t1] = r[0][0]; // result
}
"""


@pytest.fixture
def matrices() -> tuple[np.ndarray[Any, Any], ...]:
    rng = np.random.default_rng(0)
    n, k, m = SHAPE
    return ints(rng, n, k), ints(rng, k, m), np.full((n, m), 7, np.float32)


def multiply(text: str, matrices: tuple[np.ndarray[Any, Any], ...], **options: Any) -> tuple[Finding, ...]:
    a, b, c = matrices
    return simt.check(text, [("mm", 12, 256, [a, b, c, SHAPE[0]])], undefined=[c], **options)


# ---- Tiles in shared memory.


def test_a_correct_kernel_has_no_findings(matrices: tuple[np.ndarray[Any, Any], ...]) -> None:
    a, b, c = matrices
    for order in (*simt.ORDERS, 2):
        c[:] = 0
        assert not multiply(MATMUL, matrices, orders=[order])
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("order", simt.ORDERS)
def test_without_the_first_barrier_reads_race_with_the_copies(
    matrices: tuple[np.ndarray[Any, Any], ...], order: simt.Order
) -> None:
    text = change(MATMUL, "__syncthreads(); // first", "// first")
    races = [f for f in multiply(text, matrices, orders=[order]) if f.kind is Kind.RACE]
    assert {(f.array, f.lines) for f in races} == {
        (f"s_{x}", frozenset({line(text, f"// copy {x}"), line(text, f"// read {x}")})) for x in "AB"
    }


@pytest.mark.parametrize("order", simt.ORDERS)
def test_without_the_second_barrier_copies_race_with_reads_of_the_last_iteration(
    matrices: tuple[np.ndarray[Any, Any], ...], order: simt.Order
) -> None:
    text = change(MATMUL, "__syncthreads(); // second", "// second")
    found = multiply(text, matrices, orders=[order])
    assert {(f.kind, f.array, f.lines) for f in found} == {
        (Kind.RACE, f"s_{x}", frozenset({line(text, f"// copy {x}"), line(text, f"// read {x}")}))
        for x in "AB"
    }
    for f in found:
        assert f.first and f.second and f.first.thread != f.second.thread and f.first.block == f.second.block
        assert f.index is not None and len(f.index) == 2 and f.count > 1


def test_a_finding_names_threads_lines_and_element(matrices: tuple[np.ndarray[Any, Any], ...]) -> None:
    text = change(MATMUL, "__syncthreads(); // second", "// second")
    found = multiply(text, matrices, orders=["ascending"])
    f = next(f for f in found if f.array == "s_B")
    # Thread 0 copies s_B[0][0] for the second time, then thread 16 reads the first tile's.
    assert f.index == (0, 0) and f.offset == 0
    shown = str(f)
    assert "race in mm on s_B[0][0]" in shown
    assert re.search(r"thread \d+ of block 0: read\n    line 16: \* s_B\[k\]\[t1\]; // read B", shown)
    assert re.search(r"thread \d+ of block 0: written\n    line 12: s_B\[t0\]\[t1\] = ", shown)


def test_a_read_of_unwritten_padding_is_found(
    matrices: tuple[np.ndarray[Any, Any], ...],
) -> None:
    text = change(change(MATMUL, "s_A[t0][k]", "s_A[t0][k + 1]"), "k < 16;", "k < 16 - (k0 > 99);")
    found = [f for f in multiply(text, matrices) if f.kind is Kind.UNINITIALISED]
    f = only(tuple(found))
    assert (f.array, f.line, f.index) == ("s_A", line(text, "// read A"), (0, 16))


def test_reads_of_an_unwritten_shared_array_are_found(matrices: tuple[np.ndarray[Any, Any], ...]) -> None:
    text = change(MATMUL, "s_A[t0][t1] =", "float unused =")
    f = only(multiply(text, matrices))
    assert (f.kind, f.array, f.line) == (Kind.UNINITIALISED, "s_A", line(text, "// read A"))
    assert np.isnan(matrices[2]).all()


def test_shared_memory_is_uninitialized_in_each_block() -> None:
    text = """\
__global__ void k(float *out) {
  __shared__ float s[32];
  if (blockIdx.x == 0) s[threadIdx.x] = 1.0f;
  out[32 * blockIdx.x + threadIdx.x] = s[threadIdx.x]; // here
}
"""
    f = only(simt.run(text, "k", 2, 32, [np.zeros(64, np.float32)]))
    assert (f.kind, f.line, f.array, f.count) == (Kind.UNINITIALISED, 4, "s", 32)


# ---- Bounds.


@pytest.mark.parametrize("order", simt.ORDERS)
def test_a_global_read_beyond_the_last_row_is_found(
    matrices: tuple[np.ndarray[Any, Any], ...], order: simt.Order
) -> None:
    text = change(MATMUL, "k0 + t0 < 39 &&", "k0 + t0 <= 39 &&")
    f = only(multiply(text, matrices, orders=[order]))
    assert (f.kind, f.array, f.line) == (Kind.OUT_OF_BOUNDS, "B", line(text, "// copy B"))
    assert f.offset is not None and 39 * 50 * 4 <= f.offset < 40 * 50 * 4
    assert f.first and f.first.thread // 16 == 7 and f.first.what == "read"


def test_a_read_before_an_array_is_found() -> None:
    text = "__global__ void k(float *a, float *b) {\n  b[threadIdx.x] = a[(int)threadIdx.x - 1];\n}"
    f = only(simt.run(text, "k", 1, 32, [np.zeros(32, np.float32), np.zeros(32, np.float32)]))
    assert (f.kind, f.array, f.offset, f.line) == (Kind.OUT_OF_BOUNDS, "a", -4, 2)
    assert f.first and (f.first.block, f.first.thread) == (0, 0)


@pytest.mark.parametrize(
    ("old", "new", "at", "note"),
    [
        ("B[k0 + t0][16 * b1 + t1] :", "B[k0 + t0][16 * b1 + t1 + 1] :", "// copy B", "50 in 'float [50]'"),
        ("s_A[t0][k] //", "s_A[t0][k + 2] //", "// read A", "17 in 'float [17]'"),
        ("* s_B[k][t1]", "* s_B[k + 1][t1]", "// read B", "16 in 'float [16][17]'"),
        ("r[u][0] = 0.0f;", "r[u + t % 2][0] = 0.0f;", "r[u + t % 2]", "1 in 'float [1][1]'"),
    ],
)
def test_an_index_beyond_its_dimension_is_found(
    matrices: tuple[np.ndarray[Any, Any], ...], old: str, new: str, at: str, note: str
) -> None:
    text = change(MATMUL, old, new)
    f = next(f for f in multiply(text, matrices) if f.kind is Kind.INDEX)
    assert (f.line, f.note) == (line(text, at), note)


def test_null_and_wild_pointers_are_found() -> None:
    text = "__global__ void k(float *a, long long n) {\n  a[n] = 1.0f;\n}"
    assert "a null pointer" in only(simt.run(text, "k", 1, 1, [None, 0])).note
    a = np.zeros(4, np.float32)
    assert only(simt.run(text, "k", 1, 1, [a, 1 << 40])).kind is Kind.OUT_OF_BOUNDS
    assert only(simt.run(text, "k", 1, 1, [a, 4])).offset == 16
    assert not simt.run(text, "k", 1, 1, [a, 3])


def test_reads_of_unwritten_outputs_are_found(matrices: tuple[np.ndarray[Any, Any], ...]) -> None:
    text = change(MATMUL, "= r[0][0]; // result", "+= r[0][0]; // result")
    f = only(multiply(text, matrices))
    assert (f.kind, f.array, f.line) == (Kind.UNINITIALISED, "C", line(text, "// result"))
    a, b, c = matrices
    c[:] = 1
    assert not simt.check(text, [("mm", 12, 256, [a, b, c, SHAPE[0]])])
    np.testing.assert_array_equal(c, a @ b + 1)


# ---- Barriers.


def test_a_divergent_barrier_is_found(matrices: tuple[np.ndarray[Any, Any], ...]) -> None:
    text = change(MATMUL, "__syncthreads(); // first", "if (t % 2 == 0) __syncthreads(); // first")
    (f,) = (f for f in multiply(text, matrices, orders=["ascending"]) if f.kind is Kind.BARRIER)
    assert f.lines == {line(text, "// first"), line(text, "// second")}


def test_a_return_before_a_barrier_is_found() -> None:
    text = """\
__global__ void k(float *a, int n) {
  if (threadIdx.x >= n) return;
  a[threadIdx.x] += 1.0f;
  __syncthreads(); // here
}
"""
    a = np.zeros(64, np.float32)
    f = only(simt.check(text, [("k", 1, 64, [a, 40])]))
    assert (f.kind, f.line) == (Kind.BARRIER, 4)
    assert f.second and (f.second.what, f.second.line) == ("has ended", None)
    assert not simt.check(text, [("k", 1, 64, [a, 64])])


def test_divergent_trip_counts_around_a_barrier_are_found() -> None:
    text = """\
__global__ void k(int n) {
  for (int i = 0; i < n + (threadIdx.x > 9); i++)
    __syncthreads();
}
"""
    f = only(simt.check(text, [("k", 1, 64, [3])]))
    assert (f.kind, f.line) == (Kind.BARRIER, 3)


def test_barriers_with_a_count_are_modelled() -> None:
    text = """\
__global__ void k(int *out) {
  const int t = threadIdx.x;
  out[t] = __syncthreads_count(t < 5) + 100 * __syncthreads_or(t == 63) + 200 * __syncthreads_and(t < 63);
}
"""
    out = np.zeros(64, np.int32)
    assert not simt.check(text, [("k", 1, 64, [out])])
    assert (out == 105).all()


def test_a_thread_that_spins_forever_is_found() -> None:
    text = """\
__global__ void k(int *flag) {
  if (threadIdx.x == 0)
    while (atomicAdd(flag, 0) == 0); // spins
}
"""
    f = only(simt.run(text, "k", 1, 32, [np.zeros(1, np.int32)], steps=100_000))
    assert (f.kind, f.line) == (Kind.NO_PROGRESS, 3)


def test_an_endless_loop_is_found() -> None:
    """Neither a loop that waits forever nor one that the compiler proves endless hangs the tests."""
    for loop in ("while (*p != i);", "while (i != 3) i += 2;"):
        text = f"__global__ void k(volatile int *p, int n) {{\n  int i = 4;\n  {loop}\n  *p = i;\n}}"
        f = only(simt.run(text, "k", 1, 32, [np.zeros(1, np.int32), 1], steps=100_000))
        assert f.kind is Kind.NO_PROGRESS and f.line in (1, 2, 3)
    assert not simt.run("__global__ void k() {}", "k", 1, 32, [])


def test_a_launch_after_an_aborted_one_is_correct(matrices: tuple[np.ndarray[Any, Any], ...]) -> None:
    a, b, c = matrices
    assert multiply(change(MATMUL, "__syncthreads(); // first", "if (t) __syncthreads(); // first"), matrices)
    assert not multiply(MATMUL, matrices)
    np.testing.assert_array_equal(c, a @ b)
