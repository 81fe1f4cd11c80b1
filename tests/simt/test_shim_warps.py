"""The shim finds errors in what threads exchange: shuffles, atomics, accesses that race."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.simt import shim as simt
from tests.simt.shim import Finding, Kind
from tests.simt.shim_checks import change, ints, kinds, line, only

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


@pytest.mark.share(18)
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
