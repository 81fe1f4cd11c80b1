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


def line(text: str, part: str) -> int:
    """The number of the only line that has `part`."""
    assert text.count(part) == 1
    return text[: text.index(part)].count("\n") + 1


def change(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def ints(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    return rng.integers(-4, 5, shape).astype(np.float32)


@pytest.fixture
def matrices() -> tuple[np.ndarray[Any, Any], ...]:
    rng = np.random.default_rng(0)
    n, k, m = SHAPE
    return ints(rng, n, k), ints(rng, k, m), np.full((n, m), 7, np.float32)


def multiply(text: str, matrices: tuple[np.ndarray[Any, Any], ...], **options: Any) -> tuple[Finding, ...]:
    a, b, c = matrices
    return simt.check(text, [("mm", 12, 256, [a, b, c, SHAPE[0]])], undefined=[c], **options)


def kinds(findings: tuple[Finding, ...]) -> set[Kind]:
    return {f.kind for f in findings}


def only(findings: tuple[Finding, ...]) -> Finding:
    assert len(findings) == 1, simt.report(findings)
    return findings[0]


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


# ---- Warps.

REDUCE = """\
extern "C" __global__ void __launch_bounds__(128) sums(const float (*A)[100], float *O) {
  __shared__ float s[4];
  const int t = threadIdx.x;
  float r = 0.0f;
  for (int j = t; j < 100; j += 128) r += A[blockIdx.x][j];
  #pragma unroll
  for (int o = 16; o > 0; o >>= 1)
    r += __shfl_down_sync(0xffffffffu, r, o); // shuffle
  if (t % 32 == 0) s[t / 32] = r;
  __syncthreads();
  if (t < 4) {
    r = s[t];
    r += __shfl_xor_sync(0xfu, r, 2);
    r += __shfl_xor_sync(0xfu, r, 1); // last
    if (t == 0) O[blockIdx.x] = r;
  }
}
"""


def sums(text: str) -> tuple[tuple[Finding, ...], bool]:
    a = ints(np.random.default_rng(1), 6, 100)
    o = np.zeros(6, np.float32)
    found = simt.check(text, [("sums", 6, 128, [a, o])], undefined=[o])
    return found, np.array_equal(o, a.sum(1))


def test_a_reduction_by_shuffles_is_correct() -> None:
    assert sums(REDUCE) == ((), True)


def test_a_mask_without_a_calling_lane_is_found() -> None:
    text = change(
        REDUCE, "__shfl_down_sync(0xffffffffu, r, o); // s", "__shfl_down_sync(0xffffu, r, o); // s"
    )
    f = only(tuple(f for f in sums(text)[0] if f.order == "ascending"))
    assert (f.kind, f.line) == (Kind.WARP, line(text, "// shuffle"))
    assert "0x0000ffff" in f.note and f.first and f.first.thread == 16


def test_a_mask_with_an_absent_lane_is_found() -> None:
    text = REDUCE.replace("0xfu", "0xffu")
    assert sums(text) == ((), True)  # the lanes that have ended do not count
    text = change(text, "\n  }\n}", "\n  }\n  __syncthreads(); // end\n}")
    f = only(sums(text)[0])
    assert (f.kind, f.lines) == (Kind.WARP, {line(text, "r, 2)"), line(text, "// end")})
    assert f.first and f.second and f.first.thread < 4 <= f.second.thread < 8


def test_a_shuffle_in_a_branch_is_found() -> None:
    text = change(REDUCE, "    r += __shfl_down_sync", "    if (t % 2) r += __shfl_down_sync")
    f = only(sums(text)[0])
    assert f.kind is Kind.WARP and line(text, "// shuffle") in f.lines


def test_a_shuffle_from_an_inactive_lane_is_found() -> None:
    text = """\
__global__ void k(int *out) {
  if (threadIdx.x < 8)
    out[threadIdx.x] = __shfl_sync(0xffu, (int)threadIdx.x, 9); // here
}
"""
    f = only(simt.check(text, [("k", 1, 32, [np.zeros(8, np.int32)])]))
    assert (f.kind, f.line) == (Kind.SHUFFLE, 3) and "lane 9" in f.note


@pytest.mark.share(3)
@pytest.mark.parametrize("width", [32, 16, 4])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "float32", "float64"])
def test_shuffles_move_values_of_every_type(width: int, dtype: str) -> None:
    c = {"int32": "int", "uint32": "unsigned", "int64": "long long", "float32": "float", "float64": "double"}[
        dtype
    ]
    text = f"""\
__global__ void k(const {c} *in, {c} (*out)[4]) {{
  const int t = threadIdx.x;
  const {c} x = in[t];
  out[t][0] = __shfl_sync(~0u, x, 3, {width});
  out[t][1] = __shfl_up_sync(~0u, x, 2, {width});
  out[t][2] = __shfl_down_sync(~0u, x, 2, {width});
  out[t][3] = __shfl_xor_sync(~0u, x, 3, {width});
}}
"""
    x = (np.arange(32) * (1 << 40 if dtype == "int64" else 3)).astype(dtype)
    out = np.zeros((32, 4), dtype)
    assert not simt.check(text, [("k", 1, 32, [x, out])])
    lane = np.arange(32)
    low, inner = lane - lane % width, lane % width
    np.testing.assert_array_equal(out[:, 0], x[low + 3])
    np.testing.assert_array_equal(out[:, 1], x[np.where(inner < 2, lane, lane - 2)])
    np.testing.assert_array_equal(out[:, 2], x[np.where(inner + 2 >= width, lane, (lane + 2) % 32)])
    np.testing.assert_array_equal(out[:, 3], x[lane ^ 3])


EXCHANGE = """\
__global__ void k(float *out) {
  __shared__ float s[64];
  const int t = threadIdx.x;
  s[t] = (float)t; // write
  __syncwarp();
  out[t] = s[t ^ 1]; // read
}
"""


def test_lanes_of_a_warp_are_ordered_by_its_barrier_only() -> None:
    out = np.zeros(64, np.float32)
    assert not simt.check(EXCHANGE, [("k", 1, 64, [out])])
    np.testing.assert_array_equal(out, np.arange(64) ^ 1)

    text = change(EXCHANGE, "__syncwarp();", "")
    found = [f for f in simt.check(text, [("k", 1, 64, [out])]) if f.kind is Kind.RACE]
    assert found and all(f.lines == {4, line(text, "// read")} for f in found)

    # Lanes 0 and 1 are not in one mask.
    text = change(EXCHANGE, "__syncwarp();", "__syncwarp(t % 2 ? 0xaaaaaaaau : 0x55555555u);")
    assert Kind.RACE in kinds(simt.check(text, [("k", 1, 64, [out])]))

    # A vote synchronizes lanes but orders no memory accesses.
    text = change(EXCHANGE, "__syncwarp();", "if (!__all_sync(~0u, 1)) return;")
    assert Kind.RACE in kinds(simt.check(text, [("k", 1, 64, [out])]))

    # A warp's barrier does not order two warps.
    text = change(EXCHANGE, "s[t ^ 1]", "s[t ^ 32]")
    assert Kind.RACE in kinds(simt.check(text, [("k", 1, 64, [out])]))


def test_every_reader_may_race() -> None:
    """All lanes read, then warp 0 synchronizes and one of its lanes writes: this races with reads of warp
    1."""
    text = """\
__global__ void k(float *out) {
  __shared__ float s[1];
  if (threadIdx.x == 0) s[0] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = s[0]; // read
  __syncwarp();
  if (threadIdx.x == 5) s[0] = 2.0f; // write
}
"""
    out = np.zeros(64, np.float32)
    assert not simt.check(text, [("k", 1, 32, [out[:32]])])
    for order in simt.ORDERS:
        f = only(simt.check(text, [("k", 1, 64, [out])], orders=[order]))
        assert (f.kind, f.array, f.lines) == (Kind.RACE, "s", {5, 7})


# ---- Blocks and atomics.


def test_two_blocks_that_write_one_element_race() -> None:
    text = "__global__ void k(float *out) {\n  out[(blockIdx.x * blockDim.x + threadIdx.x) % 60] = 1.0f;\n}"
    out = np.zeros(60, np.float32)
    f = only(simt.check(text, [("k", 2, 32, [out])]))
    assert (f.kind, f.array, f.lines) == (Kind.RACE, "out", {2})
    assert f.first and f.second and {f.first.block, f.second.block} == {0, 1}
    assert f.index is not None and f.index[0] < 4


def test_a_block_that_reads_what_another_writes_races() -> None:
    text = """\
__global__ void k(float *x, float *out) {
  if (blockIdx.x == 0) x[threadIdx.x] = 1.0f; // write
  else out[threadIdx.x] = x[threadIdx.x]; // read
}
"""
    x, out = np.zeros(32, np.float32), np.zeros(32, np.float32)
    for order in simt.ORDERS:
        f = only(simt.check(text, [("k", 2, 32, [x, out])], orders=[order]))
        assert (f.kind, f.array, f.lines) == (Kind.RACE, "x", {2, 3})
    # In two launches there is no race.
    two = text.replace("blockIdx.x == 0", "gridDim.x == 1")
    assert not simt.check(two, [("k", 1, 32, [x, out]), ("k", 2, 16, [x, np.zeros(16, np.float32)])][:1])
    assert not simt.check(
        "__global__ void w(float *x) { x[threadIdx.x] = 2.0f; }\n"
        "__global__ void r(const float *x, float *out) { out[threadIdx.x] = x[31 - threadIdx.x]; }",
        [("w", 1, 32, [x]), ("r", 1, 32, [x, out])],
        undefined=[x, out],
    )
    assert (out == 2).all()


ATOMICS = """\
__global__ void k(int *sum, unsigned *most, float *first, const int *in) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(sum, in[i]);
  atomicMax(most, (unsigned)in[i]);
  if (atomicCAS((unsigned *)first, 0u, __float_as_uint(1.0f)) == 0u) atomicAdd(first, 1.0f);
}
"""


def test_atomics_do_not_race_with_one_another() -> None:
    x = np.random.default_rng(2).integers(0, 99, 128).astype(np.int32)
    total, most, first = np.zeros(1, np.int32), np.zeros(1, np.uint32), np.zeros(1, np.float32)
    assert not simt.check(ATOMICS, [("k", 2, 64, [total, most, first, x])])
    assert (total[0], most[0], first[0]) == (x.sum(), x.max(), 2)


@pytest.mark.parametrize("blocks", [1, 2])
def test_atomics_race_with_plain_accesses(blocks: int) -> None:
    text = change(ATOMICS, "atomicMax(most, (unsigned)in[i]);", "most[1 + i] = (unsigned)*sum;")
    total, most, first = np.zeros(1, np.int32), np.zeros(129, np.uint32), np.zeros(1, np.float32)
    found = simt.check(text, [("k", blocks, 64, [total, most, first, np.ones(128, np.int32)])])
    assert {(f.kind, f.array) for f in found} == {(Kind.RACE, "sum")}
    assert any(f.lines == {3, 4} for f in found)


def test_a_result_that_depends_on_the_order_is_found_without_a_race() -> None:
    text = "__global__ void k(int *next, int *out) { out[threadIdx.x] = atomicAdd(next, 1); }"
    f = only(simt.check(text, [("k", 1, 64, [np.zeros(1, np.int32), np.zeros(64, np.int32)])]))
    assert (f.kind, f.array, f.index) == (Kind.ORDER, "out", (0,))


# ---- Asynchronous copies and wide ones.

PIPELINE = """\
extern "C" __global__ void __launch_bounds__(64) pipe(const float (*A)[64], float (*O)[64], int n) {
  __shared__ __align__(16) float s[2][64];
  const int t = threadIdx.x;
  if (t < 16)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" // issue 0
                 :: "r"((unsigned)__cvta_generic_to_shared(&s[0][4 * t])), "l"(&A[0][4 * t]) : "memory");
  asm volatile("cp.async.commit_group;");
  for (int k = 0; k < n; k++) {
    if (k + 1 < n && t < 16)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\\n" :: "r"((unsigned)__cvta_generic_to_shared(
          &s[(k + 1) % 2][4 * t])), "l"(&A[k + 1][4 * t])); // issue
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group %0;" :: "n"(1)); // wait
    __syncthreads(); // arrived
    O[k][t] = s[k % 2][63 - t]; // read
    __syncthreads(); // done
  }
}
"""


def pipe(text: str, rows: int = 5) -> tuple[tuple[Finding, ...], bool]:
    a = ints(np.random.default_rng(3), rows, 64)
    o = np.zeros((rows, 64), np.float32)
    found = simt.check(text, [("pipe", 1, 64, [a, o, rows])], undefined=[o])
    return found, np.array_equal(o, a[:, ::-1])


def test_a_double_buffer_with_asynchronous_copies_is_correct() -> None:
    assert sum(simt.check("__global__ void none() {}", [("none", 1, 1, [])]), start=()) == ()
    assert pipe(PIPELINE) == ((), True)


@pytest.mark.parametrize("wait", ["", 'asm volatile("cp.async.wait_group 2;");'])
def test_a_missing_wait_for_a_copy_is_found(wait: str) -> None:
    text = change(PIPELINE, 'asm volatile("cp.async.wait_group %0;" :: "n"(1));', wait)
    found, right = pipe(text)
    unfinished = [f for f in found if f.kind is Kind.UNFINISHED_COPY]
    assert any(f.array == "s" and f.line == line(text, "// read") for f in unfinished) and not right


def test_a_wait_completes_only_its_groups() -> None:
    text = change(PIPELINE, "O[k][t] = s[k % 2][63 - t];", "O[k][t] = s[(k + 1) % 2][63 - t];")
    found = [f for f in pipe(text, rows=2)[0] if f.kind is Kind.UNFINISHED_COPY]
    issue = line(text, 'asm volatile("cp.async.cg')
    assert {f.lines for f in found} == {frozenset({line(text, "// read"), issue})}


def test_a_wait_without_a_barrier_races() -> None:
    text = change(PIPELINE, "__syncthreads(); // arrived", "// arrived")
    found = [f for f in pipe(text)[0] if line(text, "// read") in f.lines]
    assert found and kinds(tuple(found)) <= {Kind.RACE, Kind.UNFINISHED_COPY, Kind.UNINITIALISED}
    assert Kind.RACE in kinds(tuple(found)) or Kind.UNFINISHED_COPY in kinds(tuple(found))


@pytest.mark.parametrize("array", ["s", "A"])
def test_an_unaligned_asynchronous_copy_is_found(array: str) -> None:
    f = only(pipe(change(PIPELINE, f"&{array}[0][4 * t]", f"&{array}[0][4 * t + 2]"))[0])
    assert (f.kind, f.array, f.line) == (Kind.MISALIGNED, array, 5)


def test_a_copy_over_elements_that_are_still_read_races() -> None:
    text = change(change(PIPELINE, "__syncthreads(); // done", "// done"), "s[2][64]", "s[3][64]")
    assert pipe(text.replace("% 2", "% 3")) == ((), True)  # three buffers need only one barrier
    text = change(PIPELINE, "__syncthreads(); // done", "// done")
    assert any(f.kind is Kind.RACE and f.array == "s" for f in pipe(text)[0])


def test_a_partial_copy_fills_with_zeros() -> None:
    text = """\
__global__ void k(const float *a, float *out, int n) {
  extern __shared__ __align__(16) float s[];
  const int t = threadIdx.x, left = n - 4 * t;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;\\n"
               "cp.async.wait_all;" :: "r"((unsigned)__cvta_generic_to_shared(s + 4 * t)),
               "l"(left > 0 ? a + 4 * t : a), "r"(left <= 0 ? 0 : left > 4 ? 16 : 4 * left));
  for (int i = 0; i < 4; i++) out[4 * t + i] = s[4 * t + i];
}
"""
    a, out = np.ones(9, np.float32), np.full(32, 5, np.float32)
    assert not simt.check(text, [("k", 1, 8, [a, out, 9], 128)])
    np.testing.assert_array_equal(out, np.arange(32) < 9)
    # With less dynamic shared memory an access is out of bounds.
    f = only(simt.check(text, [("k", 1, 8, [a, out, 9], 64)]))
    assert (f.kind, f.array, f.offset) == (Kind.OUT_OF_BOUNDS, "s", 64)
    f = only(simt.check(text, [("k", 1, 8, [a, out, 9], 127)]))
    assert (f.kind, f.array, f.line) == (Kind.OUT_OF_BOUNDS, "s", 4)
    f = only(simt.check(text, [("k", 1, 8, [a, out, 10], 128)]))
    assert (f.kind, f.array, f.offset) == (Kind.OUT_OF_BOUNDS, "a", 32)


WIDE = """\
__global__ void k(const float *a, float *out, int shift) {
  __shared__ __align__(16) float s[136];
  const int t = threadIdx.x;
  *(float4 *)&s[4 * t] = *reinterpret_cast<const float4 *>(a + 4 * t + shift); // copy
  __syncthreads();
  float4 v = *(const float4 *)(s + (124 - 4 * t)); // read
  out[t] = v.x + v.y + v.z + v.w;
}
"""


def test_misaligned_wide_copies_are_found() -> None:
    a = np.arange(132, dtype=np.float32)
    out = np.zeros(32, np.float32)
    assert not simt.check(WIDE, [("k", 1, 32, [a, out, 4])])
    np.testing.assert_array_equal(out, a[4:].reshape(32, 4).sum(1)[::-1])

    f = only(simt.check(WIDE, [("k", 1, 32, [a, out, 1])]))
    assert (f.kind, f.array, f.line) == (Kind.MISALIGNED, "a", line(WIDE, "// copy"))
    # The array itself may be unaligned.
    f = only(simt.check(WIDE, [("k", 1, 32, [a[1:], out, 0])]))
    assert (f.kind, f.array, f.line) == (Kind.MISALIGNED, "a", line(WIDE, "// copy"))

    text = change(WIDE, "s + (124 - 4 * t)", "s + (125 - 4 * t)")
    f = only(simt.check(text, [("k", 1, 32, [a, out, 0])]))
    assert (f.kind, f.array, f.line) == (Kind.MISALIGNED, "s", line(text, "// read"))

    # Aligned by chance: CUDA guarantees 4 bytes for arrays of float.
    text = change(WIDE, "__align__(16)", "")
    f = only(simt.check(text, [("k", 1, 32, [a, out, 0])]))
    assert (f.kind, f.array, f.line) == (Kind.MISALIGNED, "s", line(text, "// copy"))
    assert "alignment of 4 only" in f.note

    f = only(simt.check(WIDE, [("k", 1, 32, [a[:130], out, 4])]))
    assert (f.kind, f.array, f.line) == (Kind.OUT_OF_BOUNDS, "a", line(WIDE, "// copy"))


def test_bytes_of_a_word_do_not_race() -> None:
    """Threads that write adjacent bytes do not race."""
    text = """\
__global__ void k(const unsigned char *in, unsigned char *out) {
  __shared__ unsigned char s[64];
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[63 - threadIdx.x];
}
"""
    x, out = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
    assert not simt.check(text, [("k", 1, 64, [x, out])], undefined=[out])
    np.testing.assert_array_equal(out, x[::-1])


# ---- Races, against an oracle.

# What each thread does comes from memory: one text for all cases.
PROGRAM = """\
__global__ void k(const unsigned char (*program)[64], int steps, int *x, int global) {
  __shared__ int s[1];
  const int t = threadIdx.x;
  if (t == 0) s[0] = 0;
  __syncthreads();
  int *p = global ? x : s, sum = 0;
  for (int i = 0; i < steps; i++) {
    const int what = program[blockIdx.x * steps + i][t];
    if (what == 1) sum += *p;
    if (what == 2) *p = i;
    if (what == 3) atomicAdd(p, 1);
    if (what == 4) __syncwarp();
    if (what == 5) __syncthreads();
  }
  if (sum == 12345) __trap();
}
"""


def races(program: np.ndarray[Any, Any]) -> bool:
    """By definition: two unordered accesses by two threads, not both reads, not both atomic."""
    accesses = []
    for block, steps in enumerate(program):
        epoch, clocks = 0, [0, 0]
        for step in steps:
            active = np.flatnonzero((step >= 1) & (step <= 3)).tolist()
            accesses += [(block, t, int(step[t]), epoch, clocks[t // 32]) for t in active]
            for w in (0, 1):
                clocks[w] += int(step[32 * w] == 4)
            epoch += int(step[0] == 5)
    for i, (b0, t0, w0, e0, c0) in enumerate(accesses):
        for b1, t1, w1, e1, c1 in accesses[:i]:
            if (b0, t0) == (b1, t1) or w0 == w1 == 1 or w0 == w1 == 3:
                continue
            ordered = b0 == b1 and (e0 != e1 or (t0 // 32 == t1 // 32 and c0 != c1))
            if not ordered:
                return True
    return False


@pytest.mark.parametrize("blocks", [1, 2])
def test_races_are_found_exactly_where_they_are(blocks: int) -> None:
    rng = np.random.default_rng(blocks)
    module, seen = simt.build(PROGRAM), []
    x = np.zeros(1, np.int32)
    for _ in range(250):
        steps = int(rng.integers(2, 9))
        program = np.zeros((blocks, steps, 64), np.uint8)
        kinds_of_access = [[1, 2], [1, 3], [1, 2, 3], [1], [3]][int(rng.integers(0, 3 if blocks == 1 else 5))]
        for i in range(steps):
            kind = rng.integers(0, 4)
            if kind == 0:
                program[:, i] = 5
            elif kind == 1:
                program[:, i, 32 * int(rng.integers(0, 2)) :][:, :32] = 4
            for _ in range(int(rng.integers(1, 3)) if kind > 1 else 0):
                at = int(rng.integers(0, blocks)), i, int(rng.choice([0, 1, 2, 31, 32, 33, 63]))
                program[at] = rng.choice(kinds_of_access)
        expected = races(program)
        seen.append(expected)
        for order in (*simt.ORDERS, 2):
            args = [program.reshape(-1, 64), steps, x, int(blocks > 1)]
            found = simt.run(module, "k", blocks, 64, args, order=order)
            assert kinds(found) == ({Kind.RACE} if expected else set()), (order, program.tolist())
    assert 50 < sum(seen) < 200


# ---- The rest of what a text may hold.


def test_device_functions_and_tables_are_supported() -> None:
    text = """\
typedef long long int64_t;
__device__ const float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__device__ static float scaled(const float *p, int64_t i) { return p[i] * table[i % 4]; }
__device__ __forceinline__ float twice(const float *p, int i) {
  return 2.0f * __ldg(p + i); // load
}
extern "C" __global__ void k(const float *a, float *out, float by, bool on, int64_t n) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t < n) out[t] = scaled(a, t) + twice(a, t) + (on ? by : 0.0f); // call
}
"""
    a, out = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
    assert not simt.check(text, [("k", 2, 32, [a, out, np.float32(1.5), True, np.int64(40)])])
    np.testing.assert_array_equal(out, a * (1 + np.arange(40) % 4) + 2 * a + 1.5)

    f = only(simt.check(text, [("k", 2, 32, [a[:39], out, 1.5, False, 40])], orders=["ascending"]))
    assert (f.kind, f.array, f.offset) == (Kind.OUT_OF_BOUNDS, "a", 156)
    text = change(text, "scaled(a, t) +", "")
    f = only(simt.check(text, [("k", 2, 32, [a[:39], out, 1.5, False, 40])], orders=["ascending"]))
    assert f.first and f.line == line(text, "// load") and f.first.callers == (line(text, "// call"),)


def test_mathematical_functions_are_supported() -> None:
    text = """\
__global__ void k(const float *a, float (*out)[8]) {
  const float x = a[threadIdx.x];
  float *o = out[threadIdx.x];
  o[0] = tanhf(x); o[1] = exp(x); o[2] = erff(x); o[3] = fmaxf(x, 0.5f); o[4] = rsqrtf(x);
  o[5] = max(x, 1.0f);
  o[6] = __uint_as_float(__float_as_uint(x) ^ 0x80000000u); o[7] = isnan(x) ? 1.0f : normcdff(0.0f);
}
"""
    a = np.linspace(0.25, 2, 32).astype(np.float32)
    out = np.zeros((32, 8), np.float32)
    assert not simt.check(text, [("k", 1, 32, [a, out])])
    np.testing.assert_allclose(out[:, 0], np.tanh(a), rtol=1e-6)
    np.testing.assert_allclose(out[:, 1], np.exp(a), rtol=1e-6)
    np.testing.assert_allclose(out[:, 4], 1 / np.sqrt(a), rtol=1e-6)
    np.testing.assert_array_equal(out[:, [3, 5, 6]], np.stack([np.maximum(a, 0.5), np.maximum(a, 1), -a], 1))
    assert (out[:, 7] == 0.5).all()


def test_grids_of_several_dimensions_are_supported() -> None:
    text = """\
__global__ void k(int (*out)[12]) {
  const dim3 b = {blockIdx.x, blockIdx.y};
  out[b.y * blockDim.y + threadIdx.y][b.x * blockDim.x + threadIdx.x] = gridDim.x * 100 + gridDim.y;
}
"""
    out = np.zeros((6, 12), np.int32)
    assert not simt.check(text, [("k", (3, 2), (4, 3), [out])], undefined=[out])
    assert (out == 302).all()


def test_access_to_local_memory_of_another_thread_is_found() -> None:
    text = """\
__global__ void k(int *out) {
  __shared__ int *p;
  int mine[4] = {(int)threadIdx.x, 0, 0, 0};
  if (threadIdx.x == 0) p = mine;
  __syncthreads();
  if (threadIdx.x == 1) out[0] = p[out[1]]; // read
  __syncthreads();
}
"""
    f = only(simt.check(text, [("k", 1, 32, [np.zeros(2, np.int32)])]))
    assert (f.kind, f.line) == (Kind.FOREIGN_STACK, 6)


def test_static_variables_are_not_modelled() -> None:
    text = """\
__device__ int calls;
__constant__ int table[32] = {5};
__global__ void k(int *out, bool count) {
  out[threadIdx.x] = table[threadIdx.x / 2];
  if (count) calls += 1; // here
}
"""
    out = np.zeros(32, np.int32)
    f = only(simt.check(text, [("k", 1, 32, [out, True])]))
    assert (f.kind, f.line) == (Kind.STATIC, 5)
    assert not simt.check(text, [("k", 1, 32, [out, False])])
    assert out.tolist() == [5, 5] + [0] * 30


def test_an_exchange_initializes_its_element() -> None:
    text = """\
__global__ void k(int *x, int *out) {
  out[threadIdx.x] = atomicExch(x + threadIdx.x, 7) == 7; // exchange
  atomicAdd(x + threadIdx.x, 1);
}
"""
    x, out = np.zeros(32, np.int32), np.zeros(32, np.int32)
    assert not simt.check(text, [("k", 1, 32, [x, out])], undefined=[x, out])
    assert (x == 8).all()
    text = change(text, "atomicExch(x + threadIdx.x, 7) == 7", "atomicMax(x + threadIdx.x, 7) == 7")
    f = only(simt.check(text, [("k", 1, 32, [x, out])], undefined=[x, out]))
    assert (f.kind, f.line, f.array) == (Kind.UNINITIALISED, line(text, "// exchange"), "x")


def test_a_trap_is_found() -> None:
    text = "__global__ void k(int n) {\n  if (n < 0)\n    __trap();\n}"
    assert not simt.check(text, [("k", 1, 1, [1])])
    f = only(simt.check(text, [("k", 1, 1, [-1])]))
    assert (f.kind, f.line) == (Kind.TRAP, 3)


def test_arguments_must_have_the_types_of_parameters() -> None:
    text = "__global__ void k(float *a, int n, float x) {}"
    a = np.zeros(1, np.float32)
    for wrong in (
        [a, np.int64(1), 1.0],
        [a, 1, 1],
        [1, 1, 1.0],
        [a, 1.0, 1.0],
        [a, 1],
        [a, 1, np.float64(1)],
    ):
        with pytest.raises(TypeError):
            simt.run(text, "k", 1, 1, wrong)
    with pytest.raises(OverflowError):
        simt.run(text, "k", 1, 1, [a, 1 << 31, 1.0])
    with pytest.raises(KeyError):
        simt.run(text, "l", 1, 1, [])
    with pytest.raises(ValueError, match="257 threads"):
        simt.run("__global__ void __launch_bounds__(256) k() {}", "k", 1, 257, [])


def test_empty_arrays_are_passed() -> None:
    text = "__global__ void k(float *a, float *b) { b[threadIdx.x] = 1; }"
    a, b = np.zeros((0, 3), np.float32), np.zeros(2, np.float32)
    assert not simt.check(text, [("k", 1, 2, [a, b])], undefined=[a, b])
    assert b.tolist() == [1, 1]


def test_texts_that_do_not_compile_are_reported() -> None:
    with pytest.raises(simt.BuildError, match=r"kernel\.cu:2"):
        simt.build("__global__ void k() {\n  nonsense();\n}")
    with pytest.raises(simt.BuildError, match=r"not modelled: mma\.sync"):
        simt.build(
            '__global__ void k() { asm volatile("mma.sync.aligned.m16n8k16 {%0}, {%1};" :: "r"(1), "r"(2)); }'
        )
