"""Long reductions with few results: one kernel computes partial results, a second one combines them.  They
run on PoCL at sizes for which this pays, and on the shim at small ones."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest

import tc
from tc import kernel as kernels
from tc import registry
from tc.cache.memory import CompileCache
from tc.ir.expr import IntImm, Load, Variable, walk
from tc.ir.loops import Compute, Launch, statements
from tc.ir.simplify import linear_terms
from tests.conformance.test_programs import results
from tests.simt import shim as simt
from tests.simt.mapped import prepared

registry.load("opencl")
policy: Any = importlib.import_module("tc_backends.gpu.policy")

Array = np.ndarray[Any, Any]
LONG = 1 << 18
EPS = float(np.finfo(np.float32).eps)
OPERATORS = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum}
ONE = "def f(float(N) A) -> (S) {{ S {}=! A(i) }}"
ROWS = "def f(float(N,M) A) -> (S) {{ S(i) {}=! A(i,k) }}"
MOMENTS = "def f(float(N) A) -> (S, Q) { S +=! A(i)  Q +=! A(i) * A(i) }"
EXTREMES = """def f(float(N) A) -> (L, H, R) {
  L min=! A(i)
  H max=! A(i)
  R = H - L
}"""


def whole(op: str, *shape: int) -> Array:
    """Numbers that give exact results in any order; most factors of a product are -1 and 1."""
    rng = np.random.default_rng(sum(shape))
    if op != "*":
        return rng.integers(-3, 4, shape).astype(np.float32)
    a = rng.choice(np.array([-1, 1], np.float32), shape)
    a[..., :: max(1, shape[-1] // 9)] *= 2
    return a


def parts(nest: Any) -> list[str]:
    """The arrays of partial results."""
    return [a.name for a in nest.arrays if a.role == "temporary" and "_part" in a.name]


def in_two_stages(kernel: tc.Kernel, count: int, **sizes: int) -> bool:
    """Whether there are `count` arrays of partial results, which a kernel of several blocks writes before the
    last kernel."""
    nest = kernel.specialize(**sizes).compiled.nest
    launches = [s for s in statements(nest.body) if isinstance(s, Launch)]
    written = [{c.buffer for c in statements(k.body) if isinstance(c, Compute)} for k in launches]
    first = [k for k, w in zip(launches, written, strict=True) if w.intersection(parts(nest))]
    return len(parts(nest)) == count and 0 < len(first) < len(launches) and all(k.blocks for k in first)


@pytest.mark.parametrize("op", OPERATORS)
def test_one_long_reduction_is_split(op: str) -> None:
    kernel = tc.compile(ONE.format(op), "opencl")
    a = whole(op, LONG)
    np.testing.assert_array_equal(kernel(a), OPERATORS[op].reduce(a))
    assert in_two_stages(kernel, 1, N=LONG)


@pytest.mark.share(12)
@pytest.mark.parametrize("op", OPERATORS)
def test_reductions_of_few_long_rows_are_split(op: str) -> None:
    kernel = tc.compile(ROWS.format(op), "opencl")
    a = whole(op, 3, LONG // 2 + 77)
    np.testing.assert_array_equal(kernel(a), OPERATORS[op].reduce(a, 1))
    assert in_two_stages(kernel, 1, N=3, M=LONG // 2 + 77)


def test_two_reductions_of_an_array_are_split_together() -> None:
    kernel = tc.compile(MOMENTS, "opencl")
    a = whole("+", LONG)
    s, q = kernel(a)
    assert (s, q) == (a.sum(dtype=float), (a * a).sum(dtype=float))
    assert in_two_stages(kernel, 2, N=LONG)


def test_different_reductions_and_a_use_of_both_results() -> None:
    a = np.random.default_rng(1).standard_normal(LONG).astype(np.float32)
    kernel = tc.compile(EXTREMES, "opencl")
    assert [float(x) for x in kernel(a)] == [a.min(), a.max(), a.max() - a.min()]
    assert in_two_stages(kernel, 2, N=LONG)


@pytest.mark.parametrize("source", [ONE.format("+"), ONE.format("*"), MOMENTS])
def test_split_reductions_are_deterministic(source: str) -> None:
    """Sums are rounded in an order that the program fixes, not the device."""
    rng = np.random.default_rng(2)
    a = rng.standard_normal(LONG).astype(np.float32)
    if "*=" in source:
        a = np.exp2(a / 64)
    kernel = tc.compile(source, "opencl")
    first, again = (results(kernel(a)) for _ in range(2))
    assert [x.tobytes() for x in first] == [x.tobytes() for x in again]
    wide = a.astype(np.float64)
    if "*=" in source:
        np.testing.assert_allclose(first[0], wide.prod(), rtol=16 * EPS * LONG**0.5)
        return
    for got, terms in zip(first, (wide, wide * wide), strict=False):
        assert abs(float(got) - terms.sum()) <= 16 * EPS * np.abs(terms).sum()


@pytest.mark.parametrize("source", [ONE.format("+"), ONE.format("max"), MOMENTS])
def test_one_kernel_splits_all_values_of_a_dynamic_size(source: str) -> None:
    """A kernel for a long size serves shorter and longer ones."""
    kernel = tc.compile(source, "opencl", dynamic=("N",))
    before = kernels.CACHE.misses
    for n in (LONG, LONG + 77, 1, 64, 300_000):
        a = whole("+", n)
        wanted = (a.max(),) if "max" in source else (a.sum(dtype=float), (a * a).sum(dtype=float))
        for got, want in zip(results(kernel(a)), wanted, strict=False):
            np.testing.assert_array_equal(got, want, str(n))
    assert kernels.CACHE.misses == before + 1
    assert parts(kernel.specialize(N=LONG).compiled.nest)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Split reductions from 64 instances on, in kernels of this test."""
    monkeypatch.setattr(policy, "_LONG", 64)
    monkeypatch.setattr(policy, "_VERY_LONG", 64)
    monkeypatch.setattr(policy, "_UNITS_A_RESULT", 1e-6)  # whole reductions are not tried
    monkeypatch.setattr(kernels, "CACHE", CompileCache())


@pytest.mark.share(36)
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("source", "count", "shape"),
    [
        *((ONE.format(op), 1, (1500,)) for op in OPERATORS),
        *((ROWS.format(op), 1, (3, 700)) for op in OPERATORS),
        (MOMENTS, 2, (1500,)),
        (EXTREMES, 2, (1500,)),
    ],
)
def test_split_reductions_have_no_races(
    source: str, count: int, shape: tuple[int, ...], dynamic: bool
) -> None:
    kernel = tc.compile(source, "cuda", dynamic=("N", "M")[: len(shape)] if dynamic else ())
    given = {"A": whole("*" if "*=" in source else "+", *shape)}
    call = prepared(kernel, given)
    result = call.run()
    assert not result.found, simt.report(result.found)
    for got, want in zip(result.values.values(), results(tc.interpret(source, **given)), strict=True):
        np.testing.assert_array_equal(got, want)
    assert len(parts(call.nest)) == count


@pytest.mark.parametrize(("rows", "columns"), [(1_000_000, 64), (200_000, 300), (16384, 4096)])
def test_sums_of_columns_have_coalesced_reads(rows: int, columns: int) -> None:
    """Lanes lie along the contiguous axis, and there are blocks for a whole GPU."""
    kernel = tc.compile("def f(float(M,N) A) -> (S) { S(n) +=! A(m,n) }", "cuda", options={"isa": "sm_90"})
    one = kernel.specialize(M=rows, N=columns).compiled
    first = next(s for s in statements(one.nest.body) if isinstance(s, Launch))
    (read,) = (
        e
        for s in statements(first)
        if isinstance(s, Compute)
        for e in walk(s.value)
        if isinstance(e, Load) and e.buffer == "A"
    )
    assert linear_terms(read.subscripts[-1])[0][Variable("t0")] == 1
    assert math.prod(n.value for _, n in first.blocks if isinstance(n, IntImm)) >= 128


@pytest.mark.share(12)
@pytest.mark.parametrize(
    ("backend", "m", "n", "k", "parts"),
    [
        *((b, 64, 64, 1 << 15, True) for b in ("cuda", "opencl")),
        ("cuda", 128, 1024, 1024, True),
        *((b, 64, 64, 64, False) for b in ("cuda", "opencl")),
    ],
)
def test_matrix_products_with_few_results_are_split(
    backend: str, m: int, n: int, k: int, parts: bool
) -> None:
    kernel = tc.compile("def f(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }", backend)
    loops = kernel.inspect("loops", M=m, N=n, K=k)
    assert ("temporary float32 C_part[" in loops) == parts
    tiled = tc.compile(
        "def f(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }",
        backend,
        options={"tile": (32, 32)},
    )
    assert "C_part" not in tiled.inspect("loops", M=m, N=n, K=k)
    if backend == "opencl" and parts:
        rng = np.random.default_rng(5)
        a, b = (rng.integers(-3, 4, (x, k)).astype(np.float32) for x in (m, n))
        np.testing.assert_array_equal(kernel(a, b), a @ b.T)


FOUR = "def f({t}(N,C,H,W) X, {t}(C) y) -> (S) {{ S {op}=! X(n,c,h,w) * y(c){where} }}"
SHAPES = [(6, 5, 90, 90), (1, 7, 131, 33), (3, 1, 1, 43_691), (40, 40, 9, 11), (129, 1025, 1, 1)]


def four(t: str, op: str, shape: tuple[int, ...]) -> dict[str, Array]:
    """Small integers; all but a few factors of a product are -1 and 1."""
    kind = {"float": "float32", "double": "float64", "half": "float16"}.get(t, t)
    rng = np.random.default_rng(sum(shape))
    y = rng.choice([-1, 1], shape[1])
    x = rng.integers(-3, 4, shape) if op != "*" else rng.choice([-1, 1], shape)
    x.reshape(-1)[:: x.size // 9] = 2
    return {"X": x.astype(kind), "y": y.astype(kind)}


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.share(54)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("backend", ["opencl", "cpu"])
def test_a_reduction_over_several_variables_is_split(backend: str, op: str, shape: tuple[int, ...]) -> None:
    source = FOUR.format(t="float", op=op, where="")
    given = four("float", op, shape)
    wanted = tc.compile(source, "reference")(**given)
    np.testing.assert_array_equal(tc.compile(source, backend)(**given), wanted)
    if backend == "opencl":
        kernel = tc.compile(source, backend, options={"atomics": True})
        np.testing.assert_array_equal(kernel(**given), wanted)


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.share(12)
@pytest.mark.parametrize("t", ["double", "half", "int32", "int8"])
@pytest.mark.parametrize("backend", ["opencl", "cpu"])
def test_a_reduction_over_several_variables_is_split_in_other_types(backend: str, t: str) -> None:
    for op in ("+", "max"):
        source = FOUR.format(t=t, op=op, where="")
        given = four(t, op, (6, 5, 90, 90))
        if t == "half":
            given["X"][1:] = 0  # sums are to be exact
        wanted = tc.compile(source, "reference")(**given)
        np.testing.assert_array_equal(tc.compile(source, backend)(**given), wanted)


@pytest.mark.share(18)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize(
    "where", [" where h <= w", " where n + c <= 5, h < 70", " where n in 2:5, w in 3:80"]
)
@pytest.mark.parametrize("backend", ["opencl", "cpu"])
def test_a_reduction_over_several_variables_with_conditions_is_split(backend: str, where: str) -> None:
    """Some parts are empty."""
    for op in ("+", "min"):
        source = FOUR.format(t="float", op=op, where=where)
        given = four("float", op, (6, 5, 90, 90))
        wanted = tc.compile(source, "reference")(**given)
        np.testing.assert_array_equal(tc.compile(source, backend)(**given), wanted)


@pytest.mark.share(18)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("backend", ["opencl", "cpu"])
@pytest.mark.parametrize("dynamic", [("N",), ("N", "H"), ("N", "C", "H", "W")])
def test_a_reduction_over_several_dynamic_sizes_is_split(backend: str, dynamic: tuple[str, ...]) -> None:
    source = FOUR.format(t="float", op="+", where="")
    kernel = tc.compile(source, backend, dynamic=dynamic)
    for shape in ((6, 5, 90, 90), (1, 5, 90, 90), (37, 5, 90, 90), (6, 5, 131, 90)):
        given = four("float", "+", shape)
        np.testing.assert_array_equal(kernel(**given), tc.compile(source, "reference")(**given), str(shape))


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.share(12)
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("atomics", [False, True])
@pytest.mark.parametrize("op", OPERATORS)
def test_a_split_over_several_variables_has_no_races(op: str, atomics: bool) -> None:
    source = FOUR.format(t="float", op=op, where="")
    kernel = tc.compile(source, "cuda", options={"atomics": atomics})
    given = four("float", op, (5, 3, 7, 30))
    call = prepared(kernel, given)
    result = call.run()
    assert not result.found, simt.report(result.found)
    for got, want in zip(result.values.values(), results(tc.interpret(source, **given)), strict=True):
        np.testing.assert_array_equal(got, want)
    blocks = [
        math.prod(n.value for _, n in s.blocks) for s in statements(call.nest.body) if isinstance(s, Launch)
    ]
    assert max(blocks) >= 5


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_a_split_over_several_loops_gives_enough_blocks() -> None:
    """No single thread combines all partial results."""
    kernel = tc.compile(FOUR.format(t="float", op="+", where=""), "cuda", options={"isa": "sm_90"})
    nest = kernel.specialize(N=32, C=64, H=28, W=28).compiled.nest
    first, second = (s for s in statements(nest.body) if isinstance(s, Launch))
    assert math.prod(n.value for _, n in first.blocks if isinstance(n, IntImm)) >= 128
    assert math.prod(n for _, n in second.threads) >= 32


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize("backend", ["opencl", "cpu"])
def test_an_index_error_in_a_split_reduction_names_variables_of_the_source(backend: str) -> None:
    """Also variables that are split, and those with a part for each point."""
    source = "def f(float(N,C,K) X, int32(C,K) I, float(K) t) -> (S) { S +=! X(n,c,k) * t(I(c,k)) }"
    given = {
        "X": np.ones((6, 70, 400), np.float32),
        "I": np.zeros((70, 400), np.int32),
        "t": np.ones(400, np.float32),
    }
    kernel = tc.compile(source, backend)
    assert kernel(**given) == 6 * 70 * 400
    given["I"][67, 311] = 400
    with pytest.raises(tc.BoundsError, match="c = 67, k = 311"):
        kernel(**given)
