"""The shim finds errors of asynchronous copies and of wide ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simt import shim as simt
from tests.simt.shim import Finding, Kind
from tests.simt.shim_checks import change, ints, kinds, line, only

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
