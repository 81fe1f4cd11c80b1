"""Gradients of programs: against finite differences, and what their sources say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tc
from tc.autodiff.gradient import gradient

Array = np.ndarray[Any, Any]

PROGRAMS: dict[str, tuple[str, Mapping[str, Sequence[int]]]] = {
    "layer": (
        """def f(double(B,I) x, double(O,I) w, double(O) b) -> (y) {
             y(n,o) +=! x(n,i) * w(o,i)
             y(n,o) = fmax(y(n,o) + b(o), 0)
           }""",
        {"x": (5, 7), "w": (4, 7), "b": (4,)},
    ),
    "soft-max": (
        """def f(double(N,M) x) -> (y) {
             m(i) max=! x(i,j)
             e(i,j) = exp(x(i,j) - m(i))
             s(i) +=! e(i,j)
             y(i,j) = e(i,j) / s(i)
           }""",
        {"x": (3, 9)},
    ),
    "convolution": (
        """def f(double(N,C,H) I, double(O,C,K) W) -> (y) { y(n,o,h) +=! I(n,c,h+k) * W(o,c,k) }""",
        {"I": (2, 3, 11), "W": (4, 3, 3)},
    ),
    "strided convolution": (
        """def f(double(N,C,H) I, double(O,C,K) W) -> (y) {
             y(n,o,h) +=! I(n,c,3*h+k) * W(o,c,k)
           }""",
        {"I": (2, 3, 17), "W": (4, 3, 5)},
    ),
    "padded convolution": (
        """def f(double(C,H,V) I, double(O,C,3,3) W) -> (y) {
             y(o,h,v) +=! I[zero](c,h+k-1,v+l-1) * W(o,c,k,l) where h in 0:H, v in 0:V
           }""",
        {"I": (2, 6, 5), "W": (3, 2, 3, 3)},
    ),
    "dilated convolution": (
        """def f(double(H) I, double(K) W) -> (y) { y(h) +=! I(h + 3*k) * W(k) }""",
        {"I": (20,), "W": (4,)},
    ),
    "reflected border": (
        """def f(double(H) I) -> (y) { y(h) +=! I[reflect](h+k-2) * (k + 1) where h in 0:H, k in 0:5 }""",
        {"I": (9,)},
    ),
    "clamped border": (
        """def f(double(H) I) -> (y) { y(h) +=! I[clamp](h+k-2) * (k + 1) where h in 0:H, k in 0:5 }""",
        {"I": (9,)},
    ),
    "pool": (
        """def f(double(C,H) x) -> (y) { y(c,h) max=! x(c,2*h+k) where k in 0:3 }""",
        {"x": (2, 12)},
    ),
    "averages": (
        """def f(double(C,H) x) -> (y) { y(c,h) +=! x(c,2*h+k) / 2 where k in 0:2 }""",
        {"x": (2, 12)},
    ),
    "upsampling": (
        """def f(double(C,H) x) -> (y) { y(c,h) = x(c,h/3) where h in 0:3*H }""",
        {"x": (2, 4)},
    ),
    "pixel shuffle": (
        """def f(double(C,H,W) x) -> (y) { y(h,w) = x(2*(h%2) + w%2,h/2,w/2) where h in 0:2*H, w in 0:2*W }""",
        {"x": (4, 3, 2)},
    ),
    "flips": ("def f(double(N) x) -> (y) { y(i) = x(N-1-i) * x(i) }", {"x": (6,)}),
    "diagonal": ("def f(double(N,N) A) -> (y) { y(i) = A(i,i) * A(0,i) }", {"A": (5, 5)}),
    "transposes": ("def f(double(N,M) A) -> (y) { y(i,j) +=! A(k,i) * A(k,j) }", {"A": (4, 3)}),
    "product": ("def f(double(N,M) x) -> (y) { y(i) *=! x(i,j) }", {"x": (3, 4)}),
    "minimum of all": ("def f(double(N,M,L) x) -> (y) { y min=! x(i,j,k) * x(i,j,k) }", {"x": (3, 4, 2)}),
    "moments": (
        """def f(double(N,M) x) -> (m, v) {
             m(i) +=! x(i,j)
             m(i) = m(i) / M
             v(i) +=! (x(i,j) - m(i)) * (x(i,j) - m(i))
           }""",
        {"x": (3, 8)},
    ),
    "layer norm": (
        """def f(double(N,M) x, double(M) g, double(M) b) -> (y) {
             m(i) +=! x(i,j) / M
             v(i) +=! (x(i,j) - m(i)) * (x(i,j) - m(i)) / M
             y(i,j) = (x(i,j) - m(i)) * rsqrt(v(i) + 0.001) * g(j) + b(j)
           }""",
        {"x": (3, 8), "g": (8,), "b": (8,)},
    ),
    "stencil in two steps": (
        """def f(double(N) x) -> (z) {
             y(i) = x(i-1) + x(i) * x(i+1)
             z(i) = y(i) * y(i+1)
           }""",
        {"x": (9,)},
    ),
    "parts": (
        """def f(double(N) x) -> (y) {
             y(i) = x(i) * x(i)
             y(i) = sin(x(i)) where i in 2:5
             y(i) += x(i) * x(0)
           }""",
        {"x": (8,)},
    ),
    "redefined": (
        """def f(double(N) x) -> (y, z) {
             t(i) = exp(x(i))
             y(i) = t(i) * x(i)
             t(i) = t(i) * t(i)
             z(i) = t(i) + y(i)
           }""",
        {"x": (5,)},
    ),
    "conditions": (
        """def f(double(N) x) -> (y) { y(i) = x(i) > 0 ? log(x(i)) : i > 2 ? x(i) * x(i) : sin(x(i)) }""",
        {"x": (9,)},
    ),
    "called": (
        """def g(double(N) a, double(N) b) -> (c) { c(i) = a(i) * sin(b(i)) }
           def f(double(N) x) -> (y) { (t) = g(x, x) y(i) = t(i) * x(0) }""",
        {"x": (6,)},
    ),
    "box of a result that starts later": (
        """def f(double(N) x) -> (y, s) {
             y(i) = x(i-2) * x(i+1)
             s(i) = y(i) * y(i) where i in 2:N-1
           }""",
        {"x": (9,)},
    ),
    "sum of all": ("def f(double(N,M) x) -> (s) { s +=! x(i,j) * x(i,j) }", {"x": (3, 4)}),
    "mixed types": (
        "def f(double(N) x, float(N) w) -> (y) { y(i) = sin(x(i)) * double(w(i)) * x(i) }",
        {"x": (5,), "w": (5,)},
    ),
}


def arrays(shapes: Mapping[str, Sequence[int]]) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {n: rng.uniform(0.4, 1.6, s) * rng.choice([-1.0, 1.0], s) for n, s in shapes.items()}


def results(found: Any) -> list[Array]:
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def differs(
    source: str, inputs: Mapping[str, Array], backend: str, ties: str = "first", rest: Sequence[Any] = ()
) -> float:
    """How far the gradient is from central differences, along a direction, relative to its size."""
    rng = np.random.default_rng(5)
    kernel = tc.compile(source, backend=backend)
    types = {p.name: p for p in kernel.signature.parameters} if hasattr(kernel, "signature") else {}
    del types
    g = gradient(source, ties=ties)
    primal = results(kernel(*inputs.values(), *rest))
    names = list(g.seeds)
    weights = [rng.uniform(-1, 1, x.shape) for x in primal][: len(names)]
    found = results(tc.compile(g.source, backend=backend)(*inputs.values(), *rest, *weights))
    along = {n: rng.uniform(-1, 1, inputs[n].shape) for n in g.wrt}

    def total(t: float) -> float:
        moved = [v + t * along[n] if n in along else v for n, v in inputs.items()]
        return sum(float(np.vdot(x, w)) for x, w in zip(results(kernel(*moved, *rest)), weights, strict=True))

    h = 2.0**-14
    slope = (8 * (total(h) - total(-h)) - (total(2 * h) - total(-2 * h))) / (12 * h)
    told = sum(float(np.vdot(a, along[n])) for n, a in zip(g.wrt, found, strict=True))
    size = sum(float(np.vdot(np.abs(a), np.abs(along[n]))) for n, a in zip(g.wrt, found, strict=True))
    return abs(told - slope) / size


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "mixed types"])
def test_gradients_are_derivatives(name: str, backend: str) -> None:
    source, shapes = PROGRAMS[name]
    assert differs(source, arrays(shapes), backend) < 1e-9
