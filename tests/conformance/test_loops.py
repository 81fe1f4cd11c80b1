"""Sequential loops (docs/language.md, "Sequential loops"), on every backend that has them and the oracle,
against plain NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tc
from tests.conformance.running import run

Array = np.ndarray[Any, Any]
BACKENDS = ["interpret", "reference", "cpu", "opencl"]


@dataclass(frozen=True)
class Case:
    """A source, its arguments, and what it is in NumPy; `exact`: on small integers in every order."""

    source: str
    args: Callable[[np.random.Generator], tuple[Any, ...]]
    want: Callable[..., Any]
    exact: bool = True


def integers(g: np.random.Generator, *shape: int, low: int = -2, high: int = 3, dtype: Any = "f4") -> Array:
    return g.integers(low, high, shape).astype(dtype)


def regular(g: np.random.Generator, n: int) -> Array:
    return (g.random((n, n)) + n * np.eye(n)).astype("f4")


def recurrent(x: Array, u: Array, w: Array, h0: Array) -> Array:
    h = [h0]
    for t in range(len(x)):
        h.append(np.tanh(u @ x[t] + w @ h[-1]))
    return np.stack(h)


def scan(a: Array, x: Array) -> Array:
    h = np.array(x)
    for t in range(1, len(x)):
        h[t] = a[t] * h[t - 1] + x[t]
    return h


def factors(a: Array) -> Array:
    a = a.astype("f8")
    for k in range(len(a)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


def cholesky(a: Array) -> Array:
    return np.linalg.cholesky(a.astype("f8"))


def heat(u: Array, steps: int) -> Array:
    for _ in range(steps):
        u = np.concatenate([u[:1], u[1:-1] + (u[:-2] - 2 * u[1:-1] + u[2:]), u[-1:]])
    return u


def shortest(w: Array) -> Array:
    d = np.array(w)
    for k in range(len(w)):
        d = np.minimum(d, d[:, k, None] + d[None, k])
    return d


def counting_down(x: Array, c: Array) -> Array:
    n, m = len(x), np.arange(len(c))
    z = np.zeros((len(c), n))
    z[:, -1] = c
    for j in range(n - 2, -1, -1):
        at = 2 * j + m - 2
        z[:, j] = z[:, j + 1] + np.where((at >= 0) & (at < n), 2 * x[np.clip(at, 0, n - 1)], 0)
        z[:, j] += 2 * x[np.clip(3 * j - m, 0, n - 1)]
    return z


def knapsack(weight: Array, worth: Array, capacity: int) -> Array:
    best = np.zeros((len(weight) + 1, capacity + 1), "i4")
    for i, (w, v) in enumerate(zip(weight, worth, strict=True)):
        best[i + 1] = best[i]
        best[i + 1, w:] = np.maximum(best[i, w:], best[i, : capacity + 1 - w] + v)
    return best


def alignment(a: Array, b: Array) -> Array:
    h = np.zeros((len(a) + 1, len(b) + 1), "i4")
    h[:, 0], h[0] = -np.arange(len(a) + 1), -np.arange(len(b) + 1)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            same = 1 if a[i - 1] == b[j - 1] else -1
            h[i, j] = max(h[i - 1, j - 1] + same, h[i - 1, j] - 1, h[i, j - 1] - 1)
    return h


def seidel(x: Array, steps: int) -> Array:
    x = np.array(x)
    for _ in range(steps):
        for i in range(1, len(x) - 1):
            x[i] = x[i - 1] + x[i] - x[i + 1]
    return x


def started_by_each_other(x: Array) -> tuple[Array, Array]:
    h, g = np.array(x), np.array(x)
    for t in range(1, len(x)):
        h[t] = x[t] - g[t - 1]
        g[t] = h[t] + g[t - 1] - h[t - 1]
    return h, g


def orthogonal(a: Array) -> Array:
    q, r = np.linalg.qr(a)
    return q * np.sign(np.diag(r))


def around(x: Array) -> tuple[Array, Array, Array]:
    n, m = x.shape
    a, b, c, j = x.copy(), x.copy(), x.copy(), np.arange(m)
    for t in range(1, n):
        a[t] = a[t - 1, (j + 1) % m] - a[t - 1, (j - 2) % m]
    for t in range(n - 1, 0, -1):
        b[t - 1] += b[t, (j + 1) % m]
    for t in range(1, n):
        c[t] = np.pad(c[t - 1], (0, 1), "reflect")[1:] - np.pad(c[t - 1], (2, 0), "symmetric")[:m]
    return a, b, c


def both_ways(x: Array) -> Array:
    p, q = both_ways_apart(x)
    return p + q


def both_ways_apart(x: Array) -> tuple[Array, Array]:
    p, q = np.zeros_like(x), np.zeros_like(x)
    for j in range(x.shape[1]):
        p[:, j] = x[:, j] + (p[:, j - 1] if j else 0) + (p[:, j - 2] if j > 1 else 0)
        q[:, j] = x[:, j + 1 :].sum(1)
    return p, q


CASES = {
    "recurrent network": Case(
        """def f(float(T,D) x, float(H,D) U, float(H,H) W, float(H) h0) -> (h) {
          h(0,j) = h0(j)
          for t in 0:T {
            a(j) +=! U(j,d) * x(t,d)
            a(j) += W(j,k) * h(t,k)
            h(t+1,j) = tanh(a(j))
          }
        }""",
        lambda g: (integers(g, 7, 5), integers(g, 19, 5), integers(g, 19, 19) / 16, integers(g, 19)),
        recurrent,
        exact=False,
    ),
    "recurrent network of a batch": Case(
        """def f(float(L,B,H) x, float(B,H) h0, float(H,H) w) -> (y) {
          h(n,j) = h0(n,j)
          for t in 0:L {
            a(n,j) +=! h(n,k) * w(j,k)
            h(n,j) = a(n,j) + x(t,n,j)
            y(t,n,j) = h(n,j)
          }
        }""",
        lambda g: (integers(g, 2, 3, 3), integers(g, 3, 3), integers(g, 3, 3)),
        lambda x, h, w: np.stack([h @ w.T + x[0], (h @ w.T + x[0]) @ w.T + x[1]]),
    ),
    "scan of rows": Case(
        """def f(float(T,D) a, float(T,D) x) -> (h) {
          h(0,d) = x(0,d)
          for t in 1:T { h(t,d) = a(t,d)*h(t-1,d) + x(t,d) }
        }""",
        lambda g: (integers(g, 9, 37, low=-1, high=2), integers(g, 9, 37)),
        scan,
    ),
    "LU in place": Case(
        """def f(float(N,N) A) -> (float(N,N) L) {
          L(i,j) = A(i,j)
          for k in 0:N {
            L(i,k) = L(i,k) / L(k,k) where i in k+1:N
            L(i,j) += -L(i,k) * L(k,j) where i in k+1:N, j in k+1:N
          }
        }""",
        lambda g: (regular(g, 21),),
        factors,
        exact=False,
    ),
    "LU by conditions": Case(
        """def f(float(N,N) A) -> (float(N,N) L) {
          L(i,j) = A(i,j)
          for k in 0:N {
            L(i,k) = L(i,k) / L(k,k) where i in 0:N, i > k
            L(i,j) += -L(i,k) * L(k,j) where i in 0:N, j in 0:N, i > k, j > k
          }
        }""",
        lambda g: (regular(g, 18),),
        factors,
        exact=False,
    ),
    "Cholesky": Case(
        """def f(float(N,N) A) -> (L) {
          L(i,j) = 0 where i in 0:N, j in 0:N
          for j in 0:N {
            s +=! L(j,k) * L(j,k) where k in 0:j
            L(j,j) = sqrt(A(j,j) - s)
            c(i) +=! L(i,k) * L(j,k) where i in j+1:N, k in 0:j
            L(i,j) = (A(i,j) - c(i)) / L(j,j) where i in j+1:N
          }
        }""",
        lambda g: ((lambda a: a @ a.T + 20 * np.eye(13, dtype="f4"))(integers(g, 13, 13)),),
        cholesky,
        exact=False,
    ),
    "back substitution": Case(
        """def f(float(N,N) U, float(N) b) -> (float(N) x) {
          for k in N-1:-1:-1 {
            s +=! U(k,j) * x(j) where j in k+1:N
            x(k) = (b(k) - s) / U(k,k)
          }
        }""",
        lambda g: (np.triu(regular(g, 17)), integers(g, 17)),
        lambda u, b: np.linalg.solve(u.astype("f8"), b.astype("f8")),
        exact=False,
    ),
    "time steps": Case(
        """def f(float(N) u0, int S) -> (u) {
          u(i) = u0(i)
          for s in 0:S {
            v(i) = u(i-1) - 2*u(i) + u(i+1)
            u(i) = u(i) + v(i) where i in 1:N-1
          }
        }""",
        lambda g: (integers(g, 50), 5),
        heat,
    ),
    "Floyd and Warshall": Case(
        """def f(float(N,N) W) -> (D) {
          D(i,j) = W(i,j)
          for k in 0:N {
            r(j) = D(k,j)
            c(i) = D(i,k)
            D(i,j) = min(D(i,j), c(i) + r(j))
          }
        }""",
        lambda g: (integers(g, 20, 20, low=1, high=9),),
        shortest,
    ),
    "Needleman and Wunsch": Case(
        """def f(int(N) a, int(M) b) -> (H) {
          H(i,0) = -i where i in 0:N+1
          H(0,j) = -j where j in 0:M+1
          for i in 1:N+1 {
            for j in 1:M+1 {
              H(i,j) = max(H(i-1,j-1) + (a(i-1) == b(j-1) ? 1 : -1), H(i-1,j) - 1, H(i,j-1) - 1)
            }
          }
        }""",
        lambda g: (integers(g, 11, dtype="i4"), integers(g, 14, dtype="i4")),
        alignment,
    ),
    "borders in a loop that counts down": Case(
        """def f(float(N) x, float(M) c) -> (z) {
          t(i) = 2*x(i)
          z(m,N-1) = c(m)
          for j in N-2:-1:-1 { z(m,j) = z(m,j+1) + t[zero](2*j+m-2) + t[clamp](3*j-m) where m in 0:M }
        }""",
        lambda g: (integers(g, 9), integers(g, 4)),
        counting_down,
    ),
    "knapsack": Case(
        """def f(int(N) weight, int(N) worth, int C) -> (best) {
          best(0,c) = 0 where c in 0:C+1
          for i in 0:N {
            best(i+1,c) = c >= weight(i) ? max(best(i,c), best(i,c-weight(i)) + worth(i)) : best(i,c)
              where c in 0:C+1
          }
        }""",
        lambda g: (integers(g, 9, low=1, high=9, dtype="i4"), integers(g, 9, low=1, high=9, dtype="i4"), 21),
        knapsack,
    ),
    "Gauss and Seidel": Case(
        """def f(float(N) x0, int S) -> (x) {
          x(i) = x0(i)
          for s in 0:S { for i in 1:N-1 { x(i) = x(i-1) + x(i) - x(i+1) } }
        }""",
        lambda g: (integers(g, 12), 3),
        seidel,
    ),
    "an accumulator from before": Case(
        "def f(float(T,N) x) -> (s) { s(i) = 1 where i in 0:N for t in 0:T { s(i) = 2*s(i) + x(t,i) } }",
        lambda g: (integers(g, 6, 9),),
        lambda x: sum(2.0 ** (5 - t) * x[t] for t in range(6)) + 64.0,
    ),
    "the counter as a value": Case(
        "def f(float(N) x) -> (y) { for t in 3:N { y(t) = t * x(t) + (t % 2 == 0 ? 100 : 0) } }",
        lambda g: (integers(g, 12),),
        lambda x: np.asarray([t * x[t] + (100 if t % 2 == 0 else 0) for t in range(3, 12)]),
    ),
    "two loops of one name, one down": Case(
        """def f(float(N) x) -> (y, z) {
          y(0) = x(0)
          for t in 1:N { y(t) = y(t-1) + x(t) }
          z(N-1) = y(N-1)
          for t in N-2:-1:-1 { z(t) = z(t+1) + y(t) }
        }""",
        lambda g: (integers(g, 15),),
        lambda x: (np.cumsum(x), np.cumsum(np.cumsum(x)[::-1])[::-1]),
    ),
    "a triangle of loops": Case(
        """def f(int(N) x) -> (c) {
          c = 0
          for i in 0:N { for j in i+1:N { c = c + (x(i) > x(j) ? 1 : 0) } }
        }""",
        lambda g: (integers(g, 13, dtype="i4"),),
        lambda x: sum(int(x[i] > x[j]) for i in range(13) for j in range(i + 1, 13)),
    ),
    "a recurrence that a guard starts": Case(
        """def f(float(N,M) x) -> (y) {
          for j in 0:M { p(i,j) = x(i,j) + (j >= 1 ? p(i,j-1) : 0) + (j >= 2 ? p(i,j-2) : 0) }
          for j in M-1:-1:-1 { q(i,j) = (j < M-1 ? x(i,j+1) + q(i,j+1) : 0) }
          y(i,j) = p(i,j) + q(i,j)
        }""",
        lambda g: (integers(g, 7, 9),),
        both_ways,
    ),
    "a result that a guard starts": Case(
        """def f(float(N,M) x) -> (p, q) {
          for j in 0:M { p(i,j) = x(i,j) + (j >= 1 ? p(i,j-1) : 0) + (j >= 2 ? p(i,j-2) : 0) }
          for j in M-1:-1:-1 { q(i,j) = (j < M-1 ? x(i,j+1) + q(i,j+1) : 0) }
        }""",
        lambda g: (integers(g, 7, 9),),
        both_ways_apart,
    ),
    "a result that a mode starts": Case(
        """def f(float(T,B) x) -> (h) {
          for t in 0:T { h(t,b) = x(t,b) - h[zero](t-1,b) where b in 0:B }
        }""",
        lambda g: (integers(g, 9, 7),),
        lambda x: scan(-np.ones_like(x), x),
    ),
    "results that start each other": Case(
        """def f(float(T,B) x) -> (h, g) {
          for t in 0:T {
            h(t,b) = x(t,b) - (t > 0 ? g(t-1,b) : 0)
            g(t,b) = h(t,b) + (t > 0 ? g(t-1,b) - h(t-1,b) : 0)
          }
        }""",
        lambda g: (integers(g, 6, 5),),
        started_by_each_other,
    ),
    "a recurrence that a call in a loop starts": Case(
        """
        def sums(float(T,B) x) -> (h) { for t in 0:T { h(t,b) = x(t,b) + (t > 0 ? h(t-1,b) : 0) } }
        def f(float(T,B) x) -> (y) {
          y(t,b) = x(t,b)
          for s in 0:3 {
            z = sums(y)
            y(t,b) = z(t,b)
          }
        }""",
        lambda g: (integers(g, 6, 5),),
        lambda x: x.cumsum(0).cumsum(0).cumsum(0),
    ),
    "a number of each iteration": Case(
        """def f(double(N,M) A) -> (Q) {
          Q(i,j) = A(i,j)
          for k in 0:M {
            n +=! Q(i,k) * Q(i,k)
            Q(i,k) = Q(i,k) / sqrt(n)
            r(j) +=! Q(i,k) * Q(i,j) where j in k+1:M
            Q(i,j) += -r(j) * Q(i,k) where j in k+1:M
          }
        }""",
        lambda g: (g.standard_normal((33, 7)),),
        orthogonal,
        exact=False,
    ),
    "rows before, around the end": Case(
        """def f(float(N,M) x) -> (a, b, c) {
          a(i,j) = x(i,j)
          for t in 1:N { a(t,j) = a[wrap](t-1,j+1) - a[wrap](t-1,j-2) where j in 0:M }
          b(i,j) = x(i,j)
          for t in N-1:0:-1 { b(t-1,j) = b(t-1,j) + b[wrap](t,j+1) where j in 0:M }
          c(i,j) = x(i,j)
          for t in 1:N { c(t,j) = c[reflect](t-1,j+1) - c[symmetric](t-1,j-2) where j in 0:M }
        }""",
        lambda g: (integers(g, 6, 5),),
        around,
    ),
    "a call inside": Case(
        """
        def step(float(N) u) -> (v) { v(i) = u(i) + u((i+1) % N) where i in 0:N }
        def f(float(N) u0) -> (u) {
          u(i) = u0(i)
          for s in 0:4 {
            w = step(u)
            u(i) = w(i)
          }
        }""",
        lambda g: (integers(g, 10),),
        lambda u: (np.eye(10) + np.roll(np.eye(10), 1, 1)).dot(
            (np.eye(10) + np.roll(np.eye(10), 1, 1)).dot(
                (np.eye(10) + np.roll(np.eye(10), 1, 1)).dot((np.eye(10) + np.roll(np.eye(10), 1, 1)).dot(u))
            )
        ),
    ),
}


@pytest.mark.share(18)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_recurrences(name: str, backend: str) -> None:
    case = CASES[name]
    args = case.args(np.random.default_rng(3))
    found = _results(backend, case.source, args)
    wanted = case.want(*args)
    for got, want in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        if case.exact:
            np.testing.assert_array_equal(got, want)
        else:
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-4)


def _results(backend: str, source: str, args: tuple[Any, ...], **options: Any) -> list[Array]:
    if backend == "interpret":
        found = tc.interpret(source, *args)
    else:
        found = tc.compile(source, backend, **options)(*args)
    return [np.asarray(x) for x in found] if isinstance(found, tuple) else [np.asarray(found)]


STARTED = {
    "for t in 0:T { h(t,b) = x(t,b) + (t >= 1 ? h(t-1,b) : 0) }": "fresh",
    "for t in T-1:-1:-1 { h(t,b) = x(t,b) + (t < T-1 ? h(t+1,b) : 0) }": "fresh",
    "for t in 0:T { h(t,b) = x(t,b) + (t >= 1 && b >= 1 ? h(t-1,b-1) : 0) }": "fresh",
    "for t in 0:T { h(t,b) = x(t,b) + (t >= 1 || b >= 1 ? h[zero](t-1,b) : 0) }": "fresh",
    "for t in 0:T { h(t,b) = x(t,b) + (t >= 1 ? h(t,b) : 0) }": "inout",
    "for t in 0:T { h(t,b) = x(t,b) + (t >= 1 ? h(t-1,b) : h(0,b)) }": "inout",
    "for t in 0:T { h(t,b) += x(t,b) * (t >= 1 ? h(t-1,b) : 0) }": "inout",  # which it adds to
    "for t in 0:T { h(s,b) += -h(s,t) * h(t,b) where s in 0:T, b in 0:T, s > t, b > t }": "inout",
    "for t in 0:T { h(t,b) max=! (t >= 1 ? h(t-1,b) : 0) * x(t,k) where b in 0:B }": "fresh",
    "for t in 0:T-1 { h(t+1,b) = x(t,b) + (t >= 1 ? h(t,b) : 0) }": "fresh",
    "for t in 0:T { h(t,b) = x(t,b) + (t >= 2 ? h(t-1,b) : 0) where b < t }": "inout",  # a triangle
    "for s in 0:T { for t in 0:T { h(t,b) = x(t,b) + (t >= 1 ? h(t-1,b) : 0) } }": "fresh",
    "for s in 1:T { for t in 0:T { h(t,b) = x(t,b) + (t >= 1 ? h(t-1,b) : 0) } }": "inout",  # not at T = 1
    "for t in 0:T { h(b) = x(t,b) + (t >= 1 ? h(b) : 0) }": "inout",  # not at T = 0
    "for t in 0:T { for k in 0:B { h(t,k) = x(t,k) + (k > t ? h(t,k-1) : 0) } }": "fresh",
}


@pytest.mark.parametrize("body", STARTED)
def test_whether_a_result_that_its_definition_reads_comes_from_the_caller(body: str) -> None:
    """Where isl proves that no element of a result is read before the loop has defined it, it need not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        kernel = tc.compile(f"def f(float(T,B) x) -> (h) {{ {body} }}", "reference")
    assert [x.mode for x in kernel.front.checked.returns] == [STARTED[body]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_factorisation_of_the_callers_buffer(backend: str) -> None:
    """Every definition of `A` adds to what it was, so that it comes from the caller."""
    source = """def lu(float(N) x) -> (float(N,N) A) {
      for k in 0:N { A(i,j) += -A(i,k) * A(k,j) / A(k,k) where i in 0:N, j in 0:N, i > k, j > k }
    }"""
    a = regular(np.random.default_rng(7), 9)
    want = np.array(a, "f8")
    for k in range(9):
        want[k + 1 :, k + 1 :] -= np.outer(want[k + 1 :, k], want[k, k + 1 :]) / want[k, k]
    out, x = a.copy(), a[0]
    if backend == "interpret":
        out = np.asarray(tc.interpret(source, x, out=out))
    else:
        tc.compile(source, backend)(x, out=out)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
    with pytest.raises(tc.ArgumentError, match="read before it is defined"):
        tc.compile(source, "reference")(x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_update_of_the_callers_buffer(backend: str) -> None:
    """A tensor that only its own updates define comes from the caller."""
    source = """def f(float(N) x, int S) -> (float(N) A) {
      for k in 0:S { A(i) += k * x(i) }
    }"""
    x, start = np.arange(5, dtype="f4"), np.full(5, 7, "f4")
    if backend == "interpret":
        found = tc.interpret(source, x, 4, out=start)
    else:
        with pytest.warns(tc.UninitializedReduction):
            kernel = tc.compile(source, backend)
        found = kernel(x, 4, out=start.copy())
        np.testing.assert_array_equal(kernel(x, 4), 6 * x)
    np.testing.assert_array_equal(found, 7 + 6 * x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("loop", ["t in 0:T", "t in T-1:-1:-1"])
def test_an_index_of_the_name_of_an_earlier_loop(loop: str, backend: str) -> None:
    source = f"""
    def g(float(T) x, float(T) b) -> (y, z) {{
      for {loop} {{ a(t) = x(t) + 1 }}
      y(t) = a(t)
      z(t) = a(t) * b(t+1)
    }}
    def f(float(T) x, float(T) b) -> (y) {{ (u, v) = g(x, b) y(t) = v(t) + u(t) }}"""
    x, b = np.arange(5, dtype="f4"), np.arange(5, dtype="f4") + 3
    np.testing.assert_array_equal(run(backend, source, x, b), (x[:4] + 1) * b[1:] + x[:4] + 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loop_that_never_runs(backend: str) -> None:
    source = """def f(float(T,N) x, float(N) h0) -> (h) {
      h(0,i) = h0(i)
      for t in 0:T { h(t+1,i) = h(t,i) + x(t,i) }
    }"""
    h0 = np.arange(3, dtype="f4")
    np.testing.assert_array_equal(run(backend, source, np.zeros((0, 3), "f4"), h0), h0[None])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("mode", "edge", "needed"),
    [("zero", 0, False), ("clamp", 2, True), ("reflect", 1, True), ("symmetric", 2, True), ("wrap", 0, True)],
)
def test_a_row_of_the_last_iteration_across_the_border(
    backend: str, mode: str, edge: int, needed: bool
) -> None:
    """Whether there is such a row is checked as for any subscript; `needed`: also of a single column."""
    source = f"""def f(float(T,N) x) -> (o, y) {{
      for t in 0:T {{ o(t,i) = 2 * x(t,i) }}
      y(i) = x(0,i) > -1 ? o[none, {mode}](T-1, i+1) : 0 where i in 0:N
    }}"""
    x = np.arange(6, dtype="f4").reshape(2, 3)
    o, y = _results(backend, source, (x,))
    np.testing.assert_array_equal(o, 2 * x)
    np.testing.assert_array_equal(y, np.append(o[1, 1:], o[1, edge] if needed else 0))
    for columns in (1, 3):
        unrun = source.replace("x(0,i) > -1", "v(i) > -1").replace("x) ->", "x, float(N) v) ->")
        args = (np.zeros((0, columns), "f4"), np.zeros(columns, "f4"))
        if needed or columns > 1:
            with pytest.raises(tc.Error) as caught:
                _results(backend, unrun, args)
            assert caught.value.code in ("TC0601", "TC0701")
        else:
            o, y = _results(backend, unrun, args)
            assert o.shape == (0, 1)
            np.testing.assert_array_equal(y, [0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("read", ["x(T-1,i)", "x[wrap, none](t+1,i)", "x(0,i) + x(T-2,i)"])
def test_a_loop_without_iterations_reads_nothing(backend: str, read: str) -> None:
    source = f"""def f(float(T,N) x) -> (s) {{
      s(i) = 1.0 where i in 0:N
      for t in 0:T {{ for u in 0:t {{ s(i) += {read} where i in 0:N }} }}
    }}"""
    (found,) = _results(backend, source, (np.zeros((0, 3), "f4"),))
    np.testing.assert_array_equal(found, [1, 1, 1])
    if "T-2" in read:  # where there is an iteration of the inner loop, there are such rows
        (found,) = _results(backend, source, (np.ones((1, 3), "f4"),))
        np.testing.assert_array_equal(found, [1, 1, 1])
        (found,) = _results(backend, source, (np.ones((2, 3), "f4"),))
        np.testing.assert_array_equal(found, [3, 3, 3])


@pytest.mark.parametrize("backend", ["reference", "cpu", "opencl"])
def test_dynamic_sizes(backend: str) -> None:
    case = CASES["scan of rows"]
    kernel = tc.compile(case.source, backend, dynamic=("T", "D"))
    g = np.random.default_rng(4)
    for t, d in ((3, 5), (1, 40), (17, 64)):
        a, x = integers(g, t, d, low=-1, high=2), integers(g, t, d)
        np.testing.assert_array_equal(kernel(a, x), scan(a, x))


@pytest.mark.parametrize("dtype", ["double", "int64", "half"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_other_types(backend: str, dtype: str) -> None:
    kind = {"double": "f8", "half": "f2"}.get(dtype, dtype)
    x = np.random.default_rng(5).integers(-2, 3, (6, 10)).astype(kind)
    source = f"""def f({dtype}(T,N) x) -> ({dtype} h) {{
      h(0,i) = x(0,i)
      for t in 1:T {{ h(t,i) = h(t-1,i) + x(t,i) }}
    }}"""
    np.testing.assert_array_equal(run(backend, source, x), np.cumsum(x, 0, dtype=kind))


@pytest.mark.parametrize("mapping", [{}, {"mapping": "identity"}])
def test_one_thread_on_a_gpu(mapping: dict[str, Any]) -> None:
    case = CASES["time steps"]
    args = case.args(np.random.default_rng(3))
    (found,) = _results("opencl", case.source, args, options=mapping)
    np.testing.assert_array_equal(found, case.want(*args))


def test_code_for_cuda() -> None:
    case = CASES["recurrent network"]
    kernel = tc.compile(case.source, "cuda", options={"isa": "sm_90"})
    one: Any = kernel.specialize(T=7, D=5, H=19).compiled
    assert any(k.loops and k.loops[0].counter == "t" for k in one.module.kernels)
    assert "const long long t" in one.module.text


def test_halide_refuses_loops_by_name() -> None:
    kernel = tc.compile(CASES["scan of rows"].source, "halide")
    with pytest.raises(tc.BackendError, match="the sequential loop 't'") as caught:
        kernel(np.ones((2, 2), "f4"), np.ones((2, 2), "f4"))
    assert caught.value.code == "TC0805"


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            "h(0) = x(0) for t in 1:N { h(t+1) = h(t) + x(t) }",
            "TC0228",
            "h\\(1\\), which nothing has defined",
        ),
        (
            "h(N) = 0 for t in 0:N { a = h(t+1) + x(t) h(t) = a }",
            "TC0228",
            "which nothing has defined before",
        ),
        ("h(0) = x(0) for t in 2:N { h(t) = x(t) }", "TC0228", "no statement defines h\\(1\\)"),
        ("for t in 0:N { p(t) = x(t) + p(t) } h(i) = p(i) + 0", "TC0228", "which nothing has defined before"),
        (
            "for t in 0:N { p(t) = x(t) + (t < N-1 ? p(t+1) : 0) } h(i) = p(i) + 0",
            "TC0228",
            "which nothing has defined before",
        ),
        (
            "h(i) = x(i) for t in 0:N { h(t) += h(t) * x(k) where k in 0:N }",
            "TC0227",
            "the iteration at k = 0 reads an element, which the one at k = 1 writes for N = 2, t = 0",
        ),
        (
            "h(i) = x(i) for s in 0:2 { g(s,i) = x(i) g(s,i) = g(s,i) + (i > 0 ? g(s,i-1) : 0) }",
            "TC0227",
            r"for i in 0:N \{ g\(s, i\) = … \}",
        ),
        ("for N in 0:3 { h(N) = x(N) }", "TC0204", "'N' is a size"),
        ("for t in 0:N { for t in 0:2 { h(t) = x(t) } }", "TC0204", "a loop around this one"),
        ("for x in 0:N { h(x) = 1 }", "TC0204", "'x' is a tensor"),
        ("for t in 0:x(0) { h(t) = 1 }", "TC0212", "must be known before data is read"),
        ("for t in i:N { h(t) = x(i) }", "TC0201", "unknown name 'i'"),
        ("for t in 0:N { h(t) = x(t) where t in 0:2 }", "TC0203", "the variable of a loop"),
        ("for t in 0:N:2 { h(t) = x(t) }", "TC0102", "expected '-'"),
        ("for t in N:0:-2 { h(t) = x(t) }", "TC0102", "counts by 1 or by -1"),
        ("for t in 0:N { h(i) = x(i) where i in t+2:N }", "TC0304", "negative extent in some iteration"),
    ],
)
def test_loops_that_are_refused(body: str, code: str, message: str) -> None:
    with pytest.raises(tc.Error, match=message) as caught:
        tc.compile(f"def f(float(N) x) -> (h) {{ {body} }}", "reference")
    assert caught.value.code == code
    assert "at0_" not in str(caught.value)
