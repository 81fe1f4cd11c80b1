"""Which candidate mappings are taken, for programs for which the search was not tuned."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import tc
from tc import registry
from tc.ir.loops import Launch, statements
from tests.backends.cpu_cases import SOFTMAX, Array
from tests.poly.promoted import shared

registry.load("cuda")
counts = importlib.import_module("tc_backends.gpu.search.counts")

TRANSPOSE = "def transpose(float(M,N) A) -> (B) { B(j,i) = A(i,j) }"
PERMUTED = "def permuted(half(K,M,N) A) -> (B) { B(j,k,i) = A(k,i,j) }"
BLUR = """def blur(float(H,W) A) -> (B) {
  T(y,x) = A(y,x) + A(y,x+1) + A(y,x+2) where x in 0:W-2
  B(y,x) = T(y,x) + T(y+1,x) + T(y+2,x) where y in 0:H-2
}"""
LAYERS = """def layers(float(B,M) X, float(H,M) V, float(N,H) W) -> (O) {
  U(b,h) +=! X(b,m) * V(h,m)
  U(b,h) = fmax(U(b,h), 0)
  O(b,n) +=! U(b,h) * W(n,h)
}"""
NORM = """def norm(float(N,C,H,W) X) -> (O, mean, var) {
  mean(c) +=! X(n,c,h,w)
  mean(c) = mean(c) / (N * H * W)
  var(c) +=! (X(n,c,h,w) - mean(c)) * (X(n,c,h,w) - mean(c))
  var(c) = var(c) / (N * H * W)
  O(n,c,h,w) = (X(n,c,h,w) - mean(c)) * rsqrt(var(c) + 1e-5)
}"""


def compiled(source: str, **options: object) -> tc.Kernel:
    return tc.compile(source, "cuda", options={"isa": "sm_90", **options})


def small(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        (TRANSPOSE, {"M": 4096, "N": 4096}),
        (TRANSPOSE, {"M": 1023, "N": 4099}),
        (PERMUTED, {"K": 16, "M": 500, "N": 600}),
    ],
)
def test_a_transpose_is_staged_in_shared_memory(source: str, sizes: dict[str, int]) -> None:
    """Consecutive threads load contiguous elements, and store contiguous elements."""
    kernel = compiled(source)
    (copy,) = shared(kernel, **sizes)
    assert copy.padding % 2 == 1 or copy.dtype.itemsize < 4
    assert "staged" in next(x for x in kernel.inspect("choice", **sizes).splitlines() if "  * " in x)


@pytest.mark.share(18)
@pytest.mark.parametrize("source", [TRANSPOSE, PERMUTED])
@pytest.mark.parametrize("threads", [None, (32, 8), (16, 3)])
def test_transposes_give_exact_results(source: str, threads: tuple[int, ...] | None) -> None:
    a = small(37, 70) if source is TRANSPOSE else small(5, 37, 40).astype(np.float16)
    kernel = tc.compile(source, "opencl", options={"use_shared_memory": True, "threads": threads})
    np.testing.assert_array_equal(kernel(a), tc.interpret(source, a))
    assert shared(kernel, **kernel.sizes_of(a)) or threads == (16, 3)


def test_two_stencils_become_one_kernel() -> None:
    kernel = compiled(BLUR)
    sizes = {"H": 1000, "W": 2000}
    assert kernel.inspect("choice", **sizes).splitlines()[0] == "computed where they are read: T"
    assert kernel.inspect("code", **sizes).count("__global__") == 1
    assert compiled(BLUR, fusion="min").inspect("code", **sizes).count("__global__") == 2
    a = small(11, 43)
    np.testing.assert_array_equal(tc.compile(BLUR, "opencl")(a), tc.interpret(BLUR, a))


def test_a_temporary_is_kept_where_recomputing_costs_more() -> None:
    """Many columns use the same exponentials."""
    source = """def f(float(M,K) A, float(K,N) B) -> (C) {
      T(i,k) = exp(A(i,k) * 2)
      C(i,j) +=! T(i,k) * B(k,j)
    }"""
    assert "computed where" not in compiled(source).inspect("choice", M=2000, K=2000, N=2000)


@pytest.mark.slow
@pytest.mark.share(12)
@pytest.mark.parametrize(
    ("source", "sizes", "kernels"),
    [
        # In one kernel, blocks of a few rows each would reload both matrices.
        (LAYERS, {"B": 2048, "M": 512, "H": 1024, "N": 512}, 2),
        (LAYERS, {"B": 128, "M": 32, "H": 16, "N": 8}, 1),
        # 40 channels give too few blocks for all points.
        (NORM, {"N": 51, "C": 40, "H": 56, "W": 56}, 5),
        (NORM, {"N": 32, "C": 2000, "H": 6, "W": 10}, 1),
    ],
)
def test_kernels_are_split_where_that_is_faster(source: str, sizes: dict[str, int], kernels: int) -> None:
    kernel = compiled(source)
    launches = [s for s in statements(kernel.specialize(**sizes).compiled.nest.body) if isinstance(s, Launch)]
    assert len(launches) == kernels
    assert ("kernels of their own: " in kernel.inspect("choice", **sizes)) == (kernels > 1)
    assert len({x.name for x in launches}) == kernels
    one = compiled(source, fusion="max")
    assert one.inspect("code", **sizes).count("__global__") <= kernels


@pytest.mark.slow
@pytest.mark.share(12)
@pytest.mark.parametrize(
    ("rows", "columns", "kernels"),
    [(64, 4096, 1), (133, 4096, 1), (200, 32768, 1), (700, 3000, 1), (8, 1_000_000, 6)],
)
def test_softmax_rows_are_split_only_if_they_are_few(rows: int, columns: int, kernels: int) -> None:
    """Split rows keep all multiprocessors busy, but are read twice."""
    kernel = compiled(SOFTMAX)
    nest = kernel.specialize(N=rows, D=columns).compiled.nest
    assert sum(isinstance(s, Launch) for s in statements(nest.body)) == kernels


@pytest.mark.slow
def test_split_kernels_give_exact_results() -> None:
    x, v, w = small(40, 70), small(90, 70), small(33, 90)
    kernel = tc.compile(LAYERS, "opencl")
    np.testing.assert_array_equal(kernel(x, v, w), tc.interpret(LAYERS, x, v, w))


@pytest.mark.parametrize(
    ("extent", "limit", "threads"),
    [(12, 16, 12), (54, 16, 14), (26, 16, 13), (64, 16, 16), (1013, 32, 32), (28, 32, 28), (33, 32, 17)],
)
def test_balanced_threads_leave_few_idle(extent: int, limit: int, threads: int) -> None:
    assert counts.balanced_threads(extent, limit) == threads


@pytest.mark.parametrize(
    ("extent", "most", "points"),
    [(16, 3, 4), (64, 3, 4), (7, 3, 3), (5, 32, 5), (62, 32, 32), (96, 32, 32), (1000, 32, 40), (9, 4, 3)],
)
def test_even_tile_sizes_divide_the_extent(extent: int, most: int, points: int) -> None:
    assert counts.even_tile_size(extent, most) == points


def test_thread_counts_divide_extents_other_than_powers_of_two() -> None:
    """16 by 16 threads would leave nearly half of the lanes without a point of 12 by 12."""
    source = """def conv(float(N,C,18,18) I, float(F,C,7,7) W) -> (O) {
      O(n,f,h,w) +=! I(n,c,h+i,w+j) * W(f,c,i,j)
    }"""
    body = compiled(source).specialize(N=32, C=16, F=64).compiled.nest.body
    launch = next(s for s in statements(body) if isinstance(s, Launch))
    assert all(n > 1 and 12 % n == 0 for _, n in launch.threads[:2])
