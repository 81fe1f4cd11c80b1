"""The original's mapper tests (§7.4) at its own sizes: float32, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc

Array = np.ndarray[Any, Any]
BACKENDS = ("reference", "halide", "cpu", "opencl")
EPS = float(np.finfo(np.float32).eps)
ROWS = "def f(float(M,N) A) -> (C) { C(m) +=! A(m,r_n) }"

CASES: dict[str, tuple[str, list[tuple[int, ...]], Callable[..., Array]]] = {
    "matmul": (
        "def f(float(M,N) A, float(N,K) B) -> (C) { C(m,k) +=! A(m,r_n) * B(r_n,k) }",
        [(165, 197), (197, 227)],
        lambda a, b: a @ b,
    ),
    "batch matmul": (
        "def f(float(B,N,M) X, float(B,M,K) Y) -> (Z) { Z(b,n,k) +=! X(b,n,r_m) * Y(b,r_m,k) }",
        [(50, 26, 72), (50, 72, 26)],
        lambda x, y: x @ y,
    ),
    "2-D reduction": (ROWS, [(165, 197)], lambda a: a.sum(1)),
    "triple Hadamard": (
        "def f(float(B,D) U, float(B,D) V, float(B,D) W) -> (Z) { Z(b,d) = U(b,d) * V(b,d) * W(b,d) }",
        [(100, 1000)] * 3,
        lambda u, v, w: u * v * w,
    ),
    "tensor dot": (
        "def f(float(N,A,B,H,W) I, float(N,B,C,H,W) J) -> (O) {\n"
        "  O(n,a,c,h,w) +=! I(n,a,b,h,w) * J(n,b,c,h,w) }",
        [(4, 64, 8, 28, 28), (4, 8, 2, 28, 28)],  # an eighth of the batch and of the channels: 13 M products
        lambda i, j: np.einsum("nabhw,nbchw->nachw", i, j),
    ),
}


AWKWARD = [
    *((1, n) for n in (1, 2, 4, 7, 8, 11, 15, 17, 24, 32, 35, 42, 64, 128, 130)),
    *((7, 4), (5, 11), (9, 16), (11, 8), (8, 11), (7, 111), (7, 128), (128, 7)),
]


def check(
    source: str,
    arguments: list[Array],
    formula: Callable[..., Array],
    backends: tuple[str, ...] = BACKENDS,
) -> None:
    want = formula(*(a.astype(np.float64) for a in arguments))
    terms = formula(*(np.abs(a).astype(np.float64) for a in arguments))
    for backend in backends:
        got = tc.compile(source, backend)(*arguments)
        assert got.shape == want.shape and np.all(np.abs(got - want) <= 16 * EPS * terms + 1e-30), backend


@pytest.mark.share(12)
@pytest.mark.parametrize("name", CASES)
def test_at_the_original_sizes(name: str) -> None:
    source, shapes, formula = CASES[name]
    rng = np.random.default_rng(0)
    check(source, [rng.standard_normal(s).astype(np.float32) for s in shapes], formula)


def rows_of(m: int, n: int) -> Array:
    return np.random.default_rng(m * 1000 + n).standard_normal((m, n)).astype(np.float32)


@pytest.mark.share(18)
@pytest.mark.parametrize(("rows", "columns"), AWKWARD)
def test_reductions_of_awkward_extents(rows: int, columns: int) -> None:
    check(ROWS, [rows_of(rows, columns)], lambda a: a.sum(1), BACKENDS[:-1])


@pytest.mark.share(24)  # a third of a second each
@pytest.mark.parametrize(("rows", "columns"), AWKWARD)
def test_reductions_of_awkward_extents_on_opencl(rows: int, columns: int) -> None:
    check(ROWS, [rows_of(rows, columns)], lambda a: a.sum(1), BACKENDS[-1:])


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_the_look_up_table_at_its_size() -> None:
    rng = np.random.default_rng(1)
    table, index = rng.integers(-3, 4, (200, 22)).astype(np.float32), rng.integers(0, 200, (17, 82))
    source = "def f(float(E,R) LUT, int(B,N) I) -> (O) { O(b,n) +=! LUT(I(b,n),r_r) }"
    for backend in BACKENDS:
        np.testing.assert_array_equal(tc.compile(source, backend)(table, index), table.sum(1)[index])
