"""Temporaries of which an iteration of the outer loops uses a part that no other one uses."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tc
from tc.options import Options
from tc.support import settings

SMALL: Any = (("l1", 64), ("l2", 1024), ("l3", 64))
ROWS = """
def f(float(N,D) x, float(N,D) w) -> (y) {
  m(n) max=! x(n,d)
  e(n,d) = exp(x(n,d) - m(n))
  s(n) +=! e(n,d)
  y(n,d) = w(n,d) * e(n,d) / s(n)
}
"""


def private(source: str, dynamic: tuple[str, ...] = (), **sizes: int) -> dict[str, str]:
    """The extents of private arrays that are named as temporaries of the source, for small caches."""
    kernel = tc.compile(source, "cpu", options=Options(machine=SMALL), dynamic=dynamic)
    text = kernel.inspect("loops", **sizes)
    return dict(re.findall(r"^  private \w+ (\w+)\[(.*)\] at", text, re.MULTILINE))


def check(source: str, *shapes: tuple[int, ...], dynamic: tuple[str, ...] = ()) -> None:
    """The result for small caches is the interpreter's, and the oracles of the passes agree."""
    rng = np.random.default_rng(1)
    given = [rng.normal(size=s).astype(np.float32) for s in shapes]
    with settings.verifying():
        kernel = tc.compile(source, "cpu", options=Options(machine=SMALL), dynamic=dynamic)
        found = kernel(*given)
    np.testing.assert_allclose(found, np.asarray(tc.interpret(source, *given)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("n", "d"), [(8, 40), (64, 70), (3, 1000), (200, 300), (1, 64)])
def test_rows_that_an_iteration_has_for_itself(n: int, d: int) -> None:
    if n > 1:
        assert private(ROWS, N=n, D=d)["e"].endswith(f", {d}")
    check(ROWS, (n, d), (n, d))


def test_a_row_for_each_thread() -> None:
    kernel = tc.compile(ROWS, "cpu", options=Options(machine=(("cores", 4),)))
    text = kernel.inspect("loops", N=1024, D=1024)
    assert "private float32 e[1, 1024]" in text and "parallel for n" in text
    rng = np.random.default_rng(2)
    x, w = (rng.normal(size=(1024, 1024)).astype(np.float32) for _ in range(2))
    for _ in range(5):
        e = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(kernel(x, w), w * e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_rows_of_a_dynamic_number_of_rows() -> None:
    for n in (1, 2, 7, 64, 333):
        check(ROWS, (n, 96), (n, 96), dynamic=("N",))


def test_small_arrays_stay_in_the_first_cache() -> None:
    text = tc.compile(ROWS, "cpu").inspect("loops", N=8, D=40)
    assert "temporary float32 e[8, 40]" in text


def test_several_dimensions() -> None:
    source = """
    def f(float(B,H,N,D) q, float(B,M,D) k, float(B,M,D) v) -> (o) {
      p(b,h,n,m) +=! q(b,h,n,d) * k(b,m,d)
      t(b,h,n) max=! p(b,h,n,m)
      e(b,h,n,m) = exp(p(b,h,n,m) - t(b,h,n))
      s(b,h,n) +=! e(b,h,n,m)
      o(b,h,n,d) +=! e(b,h,n,m) * v(b,m,d)
      o(b,h,n,d) = o(b,h,n,d) / s(b,h,n)
    }
    """
    found = private(source, B=3, H=2, N=20, D=8, M=24)
    assert found["p"].startswith("1, ") and found["e"].startswith("1, ")
    check(source, (3, 2, 20, 8), (3, 24, 8), (3, 24, 8))


def test_what_another_loop_nest_reads_stays() -> None:
    source = """
    def f(float(N,D) x) -> (y, z) {
      e(n,d) = exp(x(n,d))
      s(n) +=! e(n,d)
      y(n,d) = e(n,d) / s(n)
      t(d) +=! e(n,d) * s(n)
      z(n,d) = e(N-1-n,d) * t(d)
    }
    """
    assert "e" not in private(source, N=40, D=72)


@pytest.mark.parametrize(
    "body",
    [
        "h(n,d) = n > 0 ? 0.5 * h(n-1,d) + x(n,d) : x(n,d) y(n,d) = h(n,d) * 2",  # the row before
        "h(n,d) = x(n,d) * 2 y(n,d) = h(n,d) + h(n/2,d)",  # any row before
        "h(n/2,d) = n % 2 == 0 ? x(n,d) : h(n/2,d) + x(n,d) y(n,d) = h(n/2,d)",  # one row in two iterations
    ],
)
def test_what_another_iteration_reads_stays(body: str) -> None:
    source = f"def f(float(N,D) x) -> (y) {{ for n in 0:N {{ {body} }} }}"
    assert "h" not in private(source, N=9, D=40)
    check(source, (9, 40))


def test_an_iteration_of_a_sequential_loop() -> None:
    source = """
    def f(float(T,N) x, float(N,N) w) -> (y) {
      for t in 0:T {
        h(t,i) +=! x(t,j) * w(i,j)
        g(t,i) = tanh(h(t,i))
        y(t,i) = g(t,i) + h(t,N-1-i)
      }
    }
    """
    check(source, (7, 33), (33, 33))


def test_columns_that_begin_at_an_odd_place() -> None:
    source = """
    def f(float(N,D) x) -> (y) {
      e(n,d) = exp(x(n,d)) where n in 1:N, d in 2:D
      s(n) +=! e(n,d) where n in 1:N, d in 2:D
      y(n) = s(n) * e(n,2) where n in 1:N
    }
    """
    check(source, (50, 67))


def test_sums_in_parts_beside_a_sequential_loop() -> None:
    """The arrays of parts have other names in the nest of the whole program, also where they are said to hold
    parts of another."""
    source = """
    def f(float(N,D) x, float(L,K) z) -> (y, c, s) {
      c(l) = z(l,0)
      for k in 1:K { c(l) = c(l) * 0.5 + z(l,k) }
      m(n) max=! x(n,d)
      e(n,d) = exp(x(n,d) - m(n))
      r(n) +=! e(n,d)
      y(n,d) = e(n,d) / r(n)
      s(i,l) +=! z(l,k) + c(l) where i in 0:N, k in 0:K, j in 0:L
    }
    """
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(8, 40)).astype(np.float32), rng.normal(size=(7, 50)).astype(np.float32)
    with settings.verifying():
        kernel = tc.compile(source, "cpu", options=Options(machine=SMALL))
        found = kernel(x, z)
    assert "private float32 e[" in kernel.inspect("loops", N=8, D=40, K=50, L=7)
    for a, b in zip(found, tc.interpret(source, x, z), strict=True):
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-4, atol=1e-5)


def test_what_only_a_loop_without_iterations_reads() -> None:
    """Its statement is the only one that uses the array: lanes write an element each."""
    source = """
    def f(float(T,N) x) -> (o) {
      a(i) = i where i in 0:N
      for t in 0:T { o(t,i) = a(i) + a(N-1-i) + x(t,i) }
    }"""
    check(source, (0, 64))
    check(source, (2, 64))
