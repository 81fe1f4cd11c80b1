"""What a text may hold, and what its arguments must be."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simt import shim as simt
from tests.simt.shim import Kind
from tests.simt.shim_checks import change, line, only


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
