"""Sequential loops whose iterations do not depend on each other become dimensions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tc
from tc.errors import Source
from tc.ir.program import Program
from tc.ir.specialize import specialize
from tc.pipeline import front as pipeline
from tc.poly.independent_loops import into_dimensions

SIZES = {"B": 3, "T": 4, "D": 5, "N": 6, "M": 7}
ZERO = "y(b,d) = 0 where b in 0:B, d in 0:D  "
INDEPENDENT = {  # or not of a form that tells
    "a batch": ("double(B,D) x", "y(b,0) = x(b,0)"
        " for b in 0:B { for t in 1:D { y(b,t) = y(b,t-1) + x(b,t) } }"),
    "an inner loop": ("double(T,D) x", "y(0,d) = x(0,d)"
        " for t in 1:T { for d in 0:D { y(t,d) = y(t-1,d) + x(t,d) } }"),
    "downwards": ("double(B,D) x", "y(b,d) = x(b,d)  for b in B-1:0:-1 { y(b,d) = 2*x(b-1,d) }"),
    "an offset": ("double(B,D) x", "y(b,d) = 0 where b in 0:B+2, d in 0:D"
        " for b in 0:B { y(b+2,d) = x(b,d) }"),
    "a temporary": ("double(B,T,D) x, double(D,D) W", """
       y(b,0,d) = x(b,0,d)
       for b in 0:B { for t in 1:T {
         g(d) +=! W(d,e) * y(b,t-1,e)
         y(b,t,d) = g(d) + x(b,t,d)
       } }"""),
    "a temporary of a loop outside": ("double(B,T,D) x", """
       for b in 0:B {
         s(d) = x(b,0,d)
         for t in 1:T { s(d) = 2*s(d) + x(b,t,d) }
         y(b,d) = s(d)
       }"""),
    "a temporary in parts": ("int(B,N) X, int(B,M) Y", """
       for b in 0:B {
         d(i,0) = i where i in 0:N+1
         d(0,j) = j where j in 0:M+1
         for i in 1:N+1 { for j in 1:M+1 {
           d(i,j) = min(min(d(i-1,j), d(i,j-1)) + 1, d(i-1,j-1) + (X(b,i-1) == Y(b,j-1) ? 0 : 1))
         } }
         y(b) = d(N,M)
       }"""),
    "a scalar": ("double(B,D) x", "for b in 0:B { m max=! x(b,d)  y(b,d) = x(b,d) - m }"),
    "a condition": ("double(B,D) x", ZERO + "for b in 0:B { y(b,d) = x(b,d) where d <= b, d in 0:D }"),
    "the counter as a value": ("double(B,D) x", ZERO + "for b in 0:B { y(b,d) = x(b,d) * b }"),
    "another row of what is read": (
        "double(B,D) x", "for b in 1:B { y(b-1,d) = x(b,d) - x(b-1,d) where d in 0:D }"
    ),
}  # fmt: skip
DEPENDENT = {  # or not of a form that tells
    "a recurrence": ("double(T,D) x", "y(0,d) = x(0,d)  for t in 1:T { y(t,d) = y(t-1,d) + x(t,d) }"),
    "a state": ("double(T,D) x", "y(d) = 0 where d in 0:D  for t in 0:T { y(d) = y(d) + x(t,d) }"),
    "the last one counts": ("double(T,D) x", "y(d) = 0 where d in 0:D  for t in 0:T { y(d) = x(t,d) }"),
    "a temporary of the iteration before": ("double(B,D) x", """
       s(d) = 0 where d in 0:D
       for b in 0:B { y(b,d) = s(d) + x(b,d)  s(d) = x(b,d) }"""),
    "a range with the counter": ("double(B,D) x", """
       for b in 0:B { s +=! x(b,k) where k in 0:min(b+1, D)  y(b) = s }"""),
    "a part of a temporary": ("double(B,D) x", """
       s(d) = 0 where d in 0:D
       for b in 0:B { s(d) = x(b,d) where d in 1:D  y(b,d) = s(d) }"""),
    "a triangle": ("double(D,D) x", """
       y(i,j) = x(i,j)
       for i in 1:D { for j in 0:i { y(i,j) = y(i,j) + y(j,j) } }"""),
    "checked reads": ("double(B,D) x, int(B) I", ZERO + "for b in 0:B { y(b,d) = x(I(b),d) }"),
    "the diagonal": ("double(D,D) x", "y(i,j) = x(i,j)  for i in 0:D { y(i,i) = 2*y(i,i) }"),
    "a scatter": ("double(B,D) x, int(B) I", "y(b,d) = x(b,d)  for b in 0:B { y(I(b),d) += x(b,d) }"),
}  # fmt: skip
ALL = INDEPENDENT | DEPENDENT


def source(name: str) -> str:
    parameters, body = ALL[name]
    return f"def f({parameters}) -> (y) {{ {body} }}"


def program(name: str, sizes: dict[str, int] = SIZES) -> Program:
    built = pipeline.build(pipeline.front(Source(source(name))), pipeline.Variant()).program
    return specialize(built, {s: sizes[s] for s in built.sizes})


def left(name: str) -> int:
    """How many of the loops of a program are no dimensions."""
    before = program(name)
    after, names = into_dimensions(before, lambda _: True)
    assert len(after.loops) == len(before.loops) - len(names)
    return len(after.loops)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent_iterations(name: str) -> None:
    one = ("a batch", "an inner loop", "a temporary", "a temporary of a loop outside")
    assert left(name) == (2 if name == "a temporary in parts" else int(name in one))


@pytest.mark.parametrize("name", DEPENDENT)
def test_dependent_iterations(name: str) -> None:
    assert left(name) == len(program(name).loops)


def test_a_large_temporary_keeps_its_loop() -> None:
    """Of 2048 x 2048 elements, where the caller's tensors have a row for each iteration."""
    body = "for b in 0:B { g(i,j) = x(b,i) * x(b,j)  y(b) max=! g(i,j) }"
    built = pipeline.build(
        pipeline.front(Source(f"def f(float(B,D) x) -> (y) {{ {body} }}")), pipeline.Variant()
    ).program
    small, large = (
        into_dimensions(specialize(built, {"B": 4, "D": d}), lambda _: True)[1] for d in (100, 2048)
    )
    assert (len(small), len(large)) == (1, 0)


@pytest.mark.share(24)
@pytest.mark.filterwarnings("ignore::tc.errors.DataDependentAccess")
@pytest.mark.parametrize(("name", "backend"), list(product(ALL, ("cpu", "opencl"))))
def test_the_results_are_the_same(name: str, backend: str) -> None:
    parameters = ALL[name][0]
    sizes = {"B": 11, "T": 6, "D": 37, "N": 9, "M": 20}
    rng = np.random.default_rng(0)
    shapes = [p.split(")")[0].split("(")[1].split(",") for p in parameters.split(", ")]
    args = [
        rng.integers(0, 11, [sizes[n] for n in shape]).astype("i4" if "int" in p else "f8")
        for p, shape in zip(parameters.split(", "), shapes, strict=True)
    ]
    want = tc.compile(source(name), "reference")(*args)
    for dynamic in (False, True):
        found = tc.compile(source(name), backend, dynamic=dynamic)(*args)
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(("name", "size"), [("a batch", 3 * 8), ("a temporary", 3 * 5 * 8), ("downwards", 0)])
def test_what_all_iterations_write_in_an_iteration_inside(name: str, size: int) -> None:
    seen: list[int | None] = []
    into_dimensions(program(name), lambda n: seen.append(n) is not None)
    assert seen[0] == size


@pytest.mark.parametrize("size", [0, 1, 2, 18])
def test_a_dynamic_loop_without_iterations(size: int) -> None:
    """Of `B - 1` iterations; none, where `B` is 0: the memory around the result stays as it is."""
    kernel = tc.compile(source("downwards"), "cpu", dynamic=True)
    x = np.random.default_rng(0).random((size, 40))
    around = np.full((size + 20, 40), np.nan)
    found = around[10 : 10 + size]
    kernel(x, out=found)
    np.testing.assert_array_equal(found[:1], x[:1])
    np.testing.assert_array_equal(found[1:], 2 * x[:-1] if size else x)
    assert np.isnan(around[:10]).all() and np.isnan(around[10 + size :]).all()


@pytest.mark.slow
def test_a_batch_of_large_factorisations_stays_a_loop() -> None:
    """Each matrix is in a second cache while it is factorised, and not all of them."""
    source = """def f(double(B,N,N) A) -> (F) {
      F(b,i,j) = A(b,i,j)
      for b in 0:B { for k in 0:N {
        F(b,i,k) = F(b,i,k) / F(b,k,k) where i in k+1:N
        F(b,i,j) += -F(b,i,k) * F(b,k,j) where i in k+1:N, j in k+1:N
      } }
    }"""
    kernel = tc.compile(source, "cpu")
    found = [str(kernel.inspect("choice", B=b, N=n)) for b, n in ((4, 8), (64, 200))]
    assert ["became dimensions: b" in text for text in found] == [True, False]


def test_a_batch_runs_in_threads() -> None:
    text = str(tc.compile(source("a batch"), "cpu").inspect("loops", B=256, D=500))
    assert "parallel for" in text


def test_a_batch_is_one_kernel_of_a_gpu() -> None:
    """Not a launch for each of its iterations."""
    parameters, _ = ALL["a scalar"]
    kernel = tc.compile(f"def f({parameters}) -> (y) {{ {ALL['a scalar'][1]} }}", "cuda")
    assert "for b in" not in str(kernel.inspect("loops", B=256, D=500))


def test_the_summary_names_the_loops() -> None:
    kernel = tc.compile(source("a scalar"), "cpu")
    assert "sequential loops that became dimensions: b" in str(kernel.inspect("choice", B=256, D=500))
