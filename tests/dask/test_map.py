"""`tc.dask.map` against NumPy, for odd chunks; and which programs split where."""

from __future__ import annotations

import sys
from typing import Any

import dask.array as da
import numpy as np
import pytest

import tc
import tc.dask
from tc.split import Split, splits

pytestmark = pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
F = np.float32
RNG = np.random.default_rng(0)


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape, dtype=F)


def compiled(source: str) -> tc.Kernel:
    return tc.compile(source, "cpu")


SOFTMAX = """def softmax(float(N,D) X) -> (O) {
    m(n) max=! X(n,d)
    s(n) +=! exp(X(n,d) - m(n))
    O(n,d) = exp(X(n,d) - m(n)) / s(n) }"""
MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
STENCIL = (
    "def st(float(H,W) a) -> (b) { b(i,j) = a(i,j+1) + a(i+1,j) + a(i+1,j+1) + a(i+1,j+2) + a(i+2,j+1) }"
)
MOMENTS = "def moments(float(N,M) x) -> (s, q, m) { s +=! x(i,j)  q +=! x(i,j) * x(i,j)  m max=! x(i,j) }"
LOOKUP = "def lut(float(E,D) T, int32(N,L) I) -> (O) { O(n,d) +=! T(I(n,l), d) }"
CHAIN = "def chain(float(N) a) -> (c) { b(i) = a(i) + a(i+1)  c(i) = b(i) * b(i+3) }"
TWO = "def two(float(N,K) x, float(K) w) -> (y, z) { y(n) +=! x(n,k) * w(k)  z(n,k) = x(n,k) * y(n) }"


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def stencil(a: Any) -> Any:
    return a[:-2, 1:-1] + a[1:-1, :-2] + a[1:-1, 1:-1] + a[1:-1, 2:] + a[2:, 1:-1]


def chain(a: Any) -> Any:
    b = a[:-1] + a[1:]
    return b[:-3] * b[3:]


CASES: dict[str, tuple[str, list[tuple[Any, Any]], Any, int]] = {
    # source, inputs with their chunks, what NumPy says, blocks of the first result
    "soft-max": (SOFTMAX, [(rand(37, 19), ((5, 1, 20, 11), (7, 12)))], softmax, 4),
    "product": (MM, [(rand(23, 31), (7, 10)), (rand(31, 17), (4, 6))], lambda a, b: a @ b, 12),
    "product by NumPy": (MM, [(rand(23, 31), (7, 31)), (rand(31, 17), None)], lambda a, b: a @ b, 4),
    "stencil": (STENCIL, [(rand(29, 41), ((1, 9, 2, 17), (13, 28)))], stencil, 8),
    "small chunks": (STENCIL, [(rand(7, 6), (1, 2))], stencil, 10),
    "moments": (MOMENTS, [(rand(30, 11), (7, 4))], lambda x: (x.sum(), (x * x).sum(), x.max()), 1),
    "look-up": (
        LOOKUP,
        [(rand(50, 12), (13, 5)), (RNG.integers(0, 50, (21, 6)).astype(np.int32), (4, 4))],
        lambda t, i: t[i].sum(1),
        18,
    ),
    "chain": (CHAIN, [(rand(40), (9,))], chain, 4),
    "two results": (
        TWO,
        [(rand(20, 6), (3, 4)), (rand(6), (2,))],
        lambda x, w: (x @ w, x * (x @ w)[:, None]),
        7,
    ),
}


@pytest.mark.share(6)
@pytest.mark.parametrize(("source", "inputs", "wanted", "blocks"), CASES.values(), ids=CASES.keys())
def test_results(source: str, inputs: list[tuple[Any, Any]], wanted: Any, blocks: int) -> None:
    arrays = [a if c is None else da.from_array(a, chunks=c) for a, c in inputs]
    found = tc.dask.map(compiled(source), *arrays)
    expected = wanted(*(a for a, _ in inputs))
    several = expected if isinstance(expected, tuple) else (expected,)
    results = found if isinstance(found, tuple) else (found,)
    assert len(several) == len(results)
    assert int(np.prod(results[0].numblocks)) == blocks
    for f, e in zip(results, several):
        assert isinstance(f, da.Array) and f.shape == np.shape(e) and f.dtype == F
        made = f.compute(scheduler="synchronous")
        assert made.shape == f.shape
        np.testing.assert_allclose(made, e, rtol=2e-5, atol=2e-4)


def test_nothing_is_computed_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, ...]] = []
    run = tc.dask._run

    def counted(kernel: Any, names: Any, *arguments: Any) -> Any:
        calls.append(arguments[0].shape)
        return run(kernel, names, *arguments)

    monkeypatch.setattr(tc.dask, "_run", counted)
    y = tc.dask.map(compiled(SOFTMAX), da.from_array(rand(40, 5), chunks=(10, 5)))
    assert not calls
    y[:7].compute(scheduler="synchronous")
    assert calls == [(10, 5)], "one part is enough for the first rows"


def test_halos_are_read_and_no_more() -> None:
    a = rand(100)
    x = da.from_array(a, chunks=25)
    kernel = compiled("def f(float(N) x) -> (y) { y(i) = x(i) + x(i+4) }")
    plan = tc.dask._plan(kernel, {"x": x}, da)
    (piece,) = plan.pieces
    assert piece.parts == ((0, 25), (25, 50), (50, 75), (75, 96))
    seen = [piece.slice(("x", 0), n) for n in range(4)]
    assert seen == [slice(0, 29), slice(25, 54), slice(50, 79), slice(75, 100)]


def places(source: str) -> list[tuple[set[tuple[str, int]], dict[str, int]]]:
    return [(set(s.inputs), dict(s.outputs)) for s in splits(compiled(source).front)]


def test_which_dimensions_split() -> None:
    assert places(MM) == [
        ({("A", 0)}, {"C": 0}),
        ({("B", 1)}, {"C": 1}),
        ({("A", 1), ("B", 0)}, {}),
    ]
    assert places(SOFTMAX) == [({("X", 0)}, {"O": 0})]
    assert places(TWO) == [({("x", 0)}, {"y": 0, "z": 0})]
    assert places(LOOKUP) == [({("I", 0)}, {"O": 0}), ({("T", 1)}, {"O": 1}), ({("I", 1)}, {})]
    (chained,) = splits(compiled(CHAIN).front)
    assert chained == Split({("a", 0): 4}, 0, {"c": 0}, {})


WHOLE = {
    "the index is a value": "def f(float(N) x) -> (y) { y(i) = x(i) * i }",
    "a size is a value": "def f(float(N) x) -> (y) { y(i) = x(i) / N }",
    "a diagonal": "def f(float(N,N) x) -> (y) { y(i) = x(i,i) }",
    "a square": "def f(float(N,N) x) -> (y) { y(i,j) = x(i,j) }",
    "reversed": "def f(float(N) x) -> (y) { y(i) = x(N-1-i) }",
    "strided": "def f(float(N) x) -> (y) { y(i) = x(2*i) }",
    "a range": "def f(float(N) x) -> (y) { y(i) = x(i) where i in 1:N }",
    "a boundary": "def f(float(N) x) -> (y) { y(i) = x[zero](i-1) where i in 0:N }",
    "a scan": "def f(float(N) x) -> (y) { y(0) = x(0) for t in 1:N { y(t) = y(t-1) + x(t) } }",
    "normalised": "def f(float(N) x) -> (y) { s +=! x(i)  y(j) = x(j) / s }",
    "a condition": "def f(float(N) x) -> (y) { y(i) = x(i) > 0 ? x(i) : i * 1.0 }",
    "data chooses": "def f(int32(N) i) -> (h) { h(k) = 0 where k in 0:9  h(i(n)) += 1 }",
    "a mean": "def f(float(N) x) -> (m) { m +=! x(i) / N }",
}


@pytest.mark.parametrize("source", WHOLE.values(), ids=WHOLE.keys())
def test_what_does_not_split_is_computed_whole(source: str) -> None:
    kernel = compiled(source)
    assert splits(kernel.front) == ()
    data = {
        p.name: RNG.integers(0, 9, [12] * p.rank).astype(np.int32) if p.name == "i" else rand(*[12] * p.rank)
        for p in kernel.front.checked.params
    }
    found = tc.dask.map(kernel, **{n: da.from_array(a, chunks=5) for n, a in data.items()})
    np.testing.assert_array_equal(found.compute(scheduler="synchronous"), kernel(**data))


def test_scalars_and_other_types() -> None:
    source = "def f(double(N) x, float a, uint8(N) m) -> (y) { y(i) = m(i) > 3 ? a * x(i) : 0.0 }"
    x, m = RNG.standard_normal(33), RNG.integers(0, 9, 33).astype(np.uint8)
    kernel = tc.compile(source, "cpu")
    found = tc.dask.map(kernel, da.from_array(x, chunks=7), 1.5, m=da.from_array(m, chunks=10))
    assert found.dtype == np.float64 and found.numblocks == (5,)
    np.testing.assert_array_equal(found.compute(scheduler="synchronous"), kernel(x, 1.5, m))


def test_more_than_one_level_of_a_tree() -> None:
    x = RNG.integers(-4, 5, 1000).astype(F)
    kernel = compiled("def f(float(N) x) -> (s) { s +=! x(i) }")
    found = tc.dask.map(kernel, da.from_array(x, chunks=9))
    assert found.compute(scheduler="synchronous") == x.sum()


@pytest.mark.parametrize(
    ("arguments", "named", "code"),
    [
        ((rand(3, 4),), {}, "TC0501"),
        ((rand(3, 4), rand(4, 5), rand(2, 2)), {}, "TC0501"),
        ((rand(3, 4), rand(4, 5)), {"A": rand(3, 4)}, "TC0501"),
        ((rand(3, 4), rand(5, 5)), {}, "TC0504"),
        ((rand(3, 4), rand(4)), {}, "TC0503"),
    ],
)
def test_wrong_calls(arguments: Any, named: Any, code: str) -> None:
    with pytest.raises(tc.ArgumentError) as e:
        tc.dask.map(compiled(MM), *arguments, **named)
    assert e.value.code == code


def test_programs_that_start_from_the_callers_values() -> None:
    kernel = compiled("def f(float(N) x) -> (y) { y(i) = x(i) + y(i) }")
    with pytest.raises(tc.ArgumentError, match="starts from the caller's values"):
        tc.dask.map(kernel, da.from_array(rand(4), chunks=2))


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(tc.BackendError) as e:
        tc.dask.map(compiled(MM), rand(3, 4), rand(4, 5))
    assert e.value.code == "TC0822"
