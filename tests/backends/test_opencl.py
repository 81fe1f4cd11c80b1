"""The opencl backend on PoCL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tc
from tc import registry
from tc.errors import BackendError
from tc.kernel import CACHE
from tc.poly.fusion.fusion import Proposal
from tests.poly.fused import MLP3

GATHER = "def gather(float(N) A, int(M) I) -> (O) { O(i) = A(I(i)) }"
OUTER = "def outer(float(N) A, float(M) B) -> (O) { O(i,j) = A(i) * B(j) }"
SOFTMAX = """
def softmax(float(N,D) I) -> (O) {
  tmp(n) max=! I(n,d)
  O(n,d) = exp(I(n,d) - tmp(n))
  tmp(n) +=! O(n,d)
  O(n,d) = O(n,d) / tmp(n)
}"""


def test_every_stage_can_be_inspected() -> None:
    one = tc.compile(SOFTMAX, "opencl").specialize(N=3, D=4)
    assert "sequence:" in one.schedule
    assert "launch softmax: blocks b0 < 1, threads t0 < 4 x t1 < 4" in one.artifact("loops")
    sentences = ["softmax runs S0,", "  Taken: ", "  Why: the model predicts ", "  Next best: "]
    assert all(x.startswith(y) for x, y in zip(one.artifact("choice").splitlines(), sentences, strict=False))
    assert "\nmachine: name generic OpenCL device, units 16, " in one.artifact("choice")
    assert "\nsoftmax: blocks b0 < 1, threads t0 < 4 x t1 < 4\n  nest n_0 [3]" in one.artifact("choice")
    assert "context:" in one.artifact("mapped")
    assert "/* max of " in one.source
    with pytest.raises(BackendError, match="no stage 'llvm'") as caught:
        one.artifact("llvm")
    assert caught.value.help == "it has schedule, mapped, choice, loops and code"


def test_one_thread_runs_the_identity_mapping() -> None:
    kernel = tc.compile(SOFTMAX, "opencl", options={"mapping": "identity"})
    assert "launch softmax: blocks 1, threads 1\n" in kernel.inspect("loops", N=3, D=4)
    given = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(kernel(given), tc.interpret(SOFTMAX, given), rtol=1e-6)
    assert "one thread runs it in the order of the source" in kernel.inspect("choice", N=3, D=4)


@pytest.mark.parametrize(
    ("tile", "blocks", "threads"),
    [((12, 40), (9, 5), (8, 4)), ((10, 35), (9, 5), (8, 4)), ((3, 5), (34, 40), (5, 3))],
)
def test_tiles_have_the_requested_sizes(
    tile: tuple[int, int], blocks: tuple[int, int], threads: tuple[int, int]
) -> None:
    """Or the next multiple of the number of threads, which is at most that of the points."""
    kernel = tc.compile(OUTER, "opencl", options={"tile": tile, "threads": (8, 4)})
    head = f"blocks b1 < {blocks[1]} x b0 < {blocks[0]}, threads t0 < {threads[0]} x t1 < {threads[1]}\n"
    assert head in kernel.inspect("loops", N=100, M=200)


def test_pocl_crashes_on_barriers_under_conditions() -> None:
    """Also under uniform conditions, which dynamic sizes may need."""
    source = "def f(float(N,D) A) -> (S) { S(n) +=! A(n,d) where n in 1:N, d in 0:D-1 }"
    kernel = tc.compile(source, "opencl", dynamic=("N", "D"))
    for shape in ((9, 300), (1, 1), (70, 2)):
        given = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7
        np.testing.assert_array_equal(kernel(given), given[1:, :-1].sum(1))


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_a_failed_check_raises_the_error_of_other_backends() -> None:
    a, i = np.arange(5, dtype=np.float32), np.array([0, 4, 5, -1], np.int32)
    told: list[str] = []
    for backend in ("reference", "opencl"):
        kernel = tc.compile(GATHER, backend)
        out = np.full(4, 7, np.float32)
        with pytest.raises(tc.BoundsError) as caught:
            kernel(a, i, out=out)
        told.append(str(caught.value))
        np.testing.assert_array_equal(kernel(a, i % 5, out=out), a[i % 5])
    assert told[0] == told[1] and "index 5 is out of range" in told[0]


@pytest.mark.share(18)
@pytest.mark.parametrize("t", ["bool", "int8", "half", "bfloat16", "float", "double", "uint64"])
def test_scalars_of_every_width_are_passed(t: str) -> None:
    source = f"def f({t}(N) A, {t} s) -> (O, P) {{ O(i) = select(A(i) == s, A(i), s)  P(i) = A(i) != s }}"
    numpy_type = {"half": np.float16, "bfloat16": ml_dtypes.bfloat16, "float": np.float32, "double": float}
    dtype = np.dtype(numpy_type.get(t, t))
    a = np.array([0, 1, 1, 0]).astype(dtype)
    o, p = tc.compile(source, "opencl")(a, dtype.type(1))
    np.testing.assert_array_equal(o.astype(float), [1, 1, 1, 1])
    np.testing.assert_array_equal(p, [True, False, False, True])


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_inout_results_start_from_the_callers_values() -> None:
    kernel = tc.compile("def f(float(N) A) -> (O) { O(i) += A(i) }", "opencl")
    a, out = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    kernel(a, out=out)
    np.testing.assert_array_equal(out, a + 1)
    kernel(a, out=a)  # one array for both
    np.testing.assert_array_equal(a, [0, 2, 4, 6])


def test_empty_arrays_are_accepted() -> None:
    kernel = tc.compile("def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }", "opencl")
    for m, k, n in ((0, 3, 4), (2, 0, 3), (2, 3, 0)):
        c = kernel(np.ones((m, k), np.float32), np.ones((k, n), np.float32))
        assert c.shape == (m, n) and not c.any()


def test_kernels_of_dynamic_sizes_are_exact() -> None:
    kernel = tc.compile(SOFTMAX, "opencl", dynamic=("N", "D"))
    rng = np.random.default_rng(0)
    for shape in ((3, 4), (1, 70), (65, 2), (0, 5)):
        x = rng.standard_normal(shape).astype(np.float32)
        e = np.exp(x - x.max(1, keepdims=True)) if x.size else x
        np.testing.assert_allclose(kernel(x), e / e.sum(1, keepdims=True), rtol=1e-5)
    assert "const long N" in kernel.specialize(N=1, D=1).source


def test_one_kernel_serves_every_batch() -> None:
    """The layers of MLP3 in one launch, which is compiled once; small integers are exact in any order."""
    kernel = tc.compile(MLP3, "opencl", dynamic=("B",))
    widths = {"N": 40, "O": 24, "P": 33, "Q": 10}
    rng = np.random.default_rng(0)

    def small(*shape: int) -> np.ndarray[Any, Any]:
        return rng.integers(-2, 3, shape).astype(np.float32)

    n, o, p, q = widths.values()
    layers = [(small(o, n), small(o)), (small(p, o), small(p)), (small(q, p), small(q))]
    before = CACHE.misses
    for batch in (5, 0, 1, 65, 5):
        x = small(batch, n)
        found = kernel(x, *(a for layer in layers for a in layer))
        for got, (weights, bias) in zip(found, layers, strict=True):
            x = np.maximum(x @ weights.T + bias, 0)
            np.testing.assert_array_equal(got, x, f"a batch of {batch}")
    assert CACHE.misses == before + 1
    made = [kernel.specialize(B=batch, **widths).compiled for batch in (0, 1, 5, 65)]
    assert all(m is made[0] for m in made) and len(made[0].module.kernels) == 1


def test_a_fusion_predicate_is_called() -> None:
    """For softmax, whose four statements are one kernel unless the predicate refuses."""
    x = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
    wanted = tc.interpret(SOFTMAX, x)
    for pays in (True, False):
        asked: list[Proposal] = []

        def fusion(p: Proposal, asked: list[Proposal] = asked, pays: bool = pays) -> bool:
            asked.append(p)
            return pays

        kernel = tc.compile(SOFTMAX, "opencl", options={"fusion": fusion})
        np.testing.assert_allclose(kernel(x), wanted, rtol=1e-5)
        assert asked and (kernel.inspect("loops", N=5, D=6).count("launch ") == 1) == pays


def test_concurrent_calls_are_correct() -> None:
    kernel = tc.compile(SOFTMAX, "opencl")
    other = tc.compile("def f(float(N) A) -> (B) { B(i) = 2 * A(i) }", "opencl")

    def one(seed: int) -> None:
        x = np.random.default_rng(seed).standard_normal((5, 6)).astype(np.float32)
        e = np.exp(x - x.max(1, keepdims=True))
        for _ in range(5):
            np.testing.assert_allclose(kernel(x), e / e.sum(1, keepdims=True), rtol=1e-5)
            np.testing.assert_array_equal(other(x[0]), 2 * x[0])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(8)))


def test_exhausted_device_memory_is_reported() -> None:
    where = "where j in 0:1000000000, k in 0:1000000"
    source = f"def f(float(N) A) -> (B) {{ T(i,j,k) = A(i) {where}  B(i) +=! T(i,j,k) {where} }}"
    with pytest.raises(BackendError, match="f on 'opencl': out of memory") as caught:
        tc.compile(source, "opencl")(np.ones(9, np.float32))
    assert caught.value.code == "TC0810"


def test_the_device_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = registry.load("opencl")
    assert backend.available().ok
    monkeypatch.setenv("TC_OPENCL_DEVICE", "PORTABLE")  # computing language
    assert backend.available().ok
    monkeypatch.setenv("TC_OPENCL_DEVICE", "abacus")
    state = backend.available()
    assert (state.ok, state.compiles) == (False, False)
    assert state.reason == "no OpenCL device is called TC_OPENCL_DEVICE='abacus'"
    assert state.remedy.startswith("there are ")


def test_without_pyopencl_the_error_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util
    import sys

    registry.load("opencl")
    device: Any = sys.modules["tc_backends.opencl.device"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    device._find.cache_clear()
    state = registry.availability("opencl")
    assert (state.ok, state.reason) == (False, "pyopencl is not installed")
    assert "tensor-comprehensions[opencl]" in state.remedy
    device._find.cache_clear()


@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        ("def f(float(N) A) -> (B) { B(i) = A(i) * 2 where i in 5:261 }", {"N": 300}),
        (
            "def f(float(N,K) A, float(K,N) B) -> (C) "
            "{ C(i,j) +=! A(i,k) * B(k,j) where i in 3:67, j in 7:71, k in 1:33 }",
            {"N": 80, "K": 40},
        ),
        (
            "def f(float(N,N) A) -> (C) "
            "{ C(i,j) = A(i-1,j) + A(i+1,j) + A(i,j-1) + A(i,j+1) where i in 1:65, j in 1:65 }",
            {"N": 66},
        ),
        ("def f(float(N,N) A) -> (C) { C(i,j) = A(j,i) where i in 4:68, j in 9:73 }", {"N": 80}),
    ],
)
def test_tiles_of_ranges_with_other_lower_bounds_are_exact(source: str, sizes: dict[str, int]) -> None:
    """There are whole tiles from the first point on, without guards."""
    kernel = tc.compile(source, "opencl")
    rng = np.random.default_rng(0)
    shapes = [tuple(sizes[d.name] for d in p.dims) for p in kernel.front.checked.params]
    arrays = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
    np.testing.assert_array_equal(kernel(*arrays), tc.interpret(source, *arrays))
    assert "if " not in kernel.inspect("loops", **sizes)


@pytest.mark.parametrize("name", ["INT_MAX", "UINT_MAX", "tc_min_i32", "_1", "M_PI_F", "get_local_id"])
def test_names_that_are_reserved_in_opencl_are_renamed(name: str) -> None:
    """Macros, functions, and names with the prefix of our helpers."""
    source = f"def f(int32(N) {name}) -> (O) {{ O(i) = min({name}(i), 2) }}"
    a = np.arange(5, dtype=np.int32)
    for backend in ("opencl", "reference"):
        np.testing.assert_array_equal(tc.compile(source, backend)(a), np.minimum(a, 2))


@pytest.mark.parametrize("m", [5, 7])
def test_a_vector_copy_that_reads_nothing(m: int) -> None:
    """The condition of one of the vectors of a copy never holds."""
    source = """def f(complex64(N,M) A, complex64(M,N) B, complex64 s) -> (T) {
      T(i) +=! B[wrap](j+1,i+1) * s + A[clamp](i+1,j+1) * s + B(j,i) where i in 0:N, j in 0:M
    }"""
    rng = np.random.default_rng(0)
    a, b = ((rng.integers(-3, 4, s) + 1j * rng.integers(-3, 4, s)).astype("c8") for s in ((1, m), (m, 1)))
    kernel = tc.compile(source, "opencl", options={"use_shared_memory": True, "threads": (4,)})
    lines = [line.strip() for line in kernel.inspect("code", N=1, M=m).splitlines()]
    assert sum(x.startswith("B_") and x.endswith(" = 0.0f;") for x in lines) == 2
    np.testing.assert_array_equal(kernel(a, b, 2 - 1j), tc.interpret(source, a, b, 2 - 1j))
