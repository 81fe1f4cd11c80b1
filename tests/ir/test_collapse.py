"""Dimensions that always go together become one, others stay, and results do not change."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.ir.program import Program
from tc.ir.specialize import specialize
from tc.transforms.program.collapse import collapse
from tests.backends.cpu_cases import compiled, interpreted, results, same


def ranks(source: str, **sizes: int) -> dict[str, int]:
    """The dimensions of each array after the pass."""
    return {b.name: len(b.box) for b in collapsed(source, **sizes).buffers}


def collapsed(source: str, **sizes: int) -> Program:
    return collapse(compiled(source).program(sizes))


S = {"N": 3, "C": 4, "H": 5, "W": 6}
CASES = [
    # All of them: one loop.
    ("def f(float(N,C,H,W) X) -> (Y) { Y(n,c,h,w) = fmax(X(n,c,h,w), 0) }", {"X": 1, "Y": 1}),
    # What another array has alone stays apart.
    (
        "def f(float(N,C,H,W) X, float(C) b) -> (Y) { Y(n,c,h,w) = X(n,c,h,w) + b(c) }",
        {"X": 3, "b": 1, "Y": 3},
    ),
    (
        "def f(float(N,C,H,W) X, float(N,C) s) -> (Y) { Y(n,c,h,w) = X(n,c,h,w) * s(n,c) }",
        {"X": 2, "s": 1, "Y": 2},
    ),
    # Reductions of neighbours, and results that are neighbours.
    ("def f(float(N,C,H,W) X) -> (Y) { Y(n,c) +=! X(n,c,h,w) }", {"X": 2, "Y": 1}),
    ("def f(float(N,C,H,W) X) -> (Y) { Y +=! X(n,c,h,w) }", {"X": 1, "Y": 0}),
    # A result and a reduction do not become one; nor do turned ones, windows, values and conditions.
    ("def f(float(N,C) X) -> (Y) { Y(n) +=! X(n,c) }", {"X": 2, "Y": 1}),
    ("def f(float(N,C) X) -> (Y) { Y(c,n) = X(n,c) }", {"X": 2, "Y": 2}),
    ("def f(float(H,W) X) -> (Y) { Y(h,w) = X(h,w) + X(h,w+1) where w in 0:W-1 }", {"X": 2, "Y": 2}),
    ("def f(float(H,W) X) -> (Y) { Y(h,w) = X(h,w) * float(w) }", {"X": 2, "Y": 2}),
    (
        "def f(float(H,W) X) -> (Y) { Y(h,w) = 0 where h in 0:H, w in 0:W  Y(h,w) = X(h,w) where h > w }",
        {"X": 2, "Y": 2},
    ),
    # A read of one column is one of every so many elements, where rows are short; a write of it is none.
    (
        "def f(float(H,3) X) -> (Y, z) { Y(h,w) = X(h,w) * 2 z(h) = X(h,1) * Y(h,2) }",
        {"X": 1, "Y": 1, "z": 1},
    ),
    (
        "def f(float(H,W) X) -> (Y, z) { Y(h,w) = X(h,w) * 2 z(h) = X(h,1) * Y(h,2) }",
        {"X": 2, "Y": 2, "z": 1},
    ),
    (
        "def f(float(H,W) X) -> (Y) { Y(h,w) = X(h,w) Y(h,w) = X(h,w) + 1 where w in 1:2 }",
        {"X": 2, "Y": 2},
    ),
    # A part of a dimension is not all of it; all versions of a tensor must agree.
    ("def f(float(H,W) X) -> (Y) { Y(h,w) = X(h,w) where w in 0:W-1, h in 0:H }", {"X": 2, "Y": 2}),
    ("def f(float(H,W) X) -> (Y) { Y(h,w) = X(h,w)  Y(h,w) = Y(h,w) + X(h,0) }", {"X": 2, "Y": 2}),
    # A temporary in between; two uses of one array.
    (
        "def f(float(H,W) X) -> (Y) { T(h,w) = 2 * X(h,w)  Y(h,w) = T(h,w) * T(h,w) }",
        {"X": 1, "T": 1, "Y": 1},
    ),
    ("def f(float(N,H,W) X) -> (Y) { Y(n,m) +=! X(n,h,w) * X(m,h,w) }", {"X": 2, "Y": 2}),
    # A matrix product over two reduced indices, and a batch of two dimensions.
    (
        "def f(float(N,H,W) X, float(C,H,W) K) -> (Y) { Y(n,c) +=! X(n,h,w) * K(c,h,w) }",
        {"X": 2, "K": 2, "Y": 2},
    ),
    (
        "def f(float(N,C,H) X, float(N,C,W) K) -> (Y) { Y(n,c,h,w) = X(n,c,h) * K(n,c,w) }",
        {"X": 2, "K": 2, "Y": 3},
    ),
    # Short rows, for the statement with the most points; another one uses both of their variables apart.
    (
        """def f(float(N,C,W) X, float(H,C,4,3) K, float(4,4) T) -> (Y) {
          V(n,c,a,b) +=! T(a,p) * X(n,c,p+b)
          Y(n,h,a,b) +=! V(n,c,a,b) * K(h,c,a,b) }""",
        {"X": 3, "K": 3, "T": 2, "V": 3, "Y": 3},
    ),
    # Rows of up to 32 elements: another statement reads them with quotients.
    (
        """def f(float(N,C,H,W) X, float(5,C) K) -> (Y) {
          V(n,k,h,w) +=! X(n,c,h,w) * K(k,c)
          Y(n,k,h,w) = V(n,k,h/2,W-1-w) where h in 0:2*H }""",
        {"X": 3, "K": 2, "V": 3, "Y": 4},
    ),
    # Not with a boundary mode.
    (
        """def f(float(N,C,H,W) X, float(5,C) K) -> (Y) {
          V(n,k,h,w) +=! X(n,c,h,w) * K(k,c)
          Y(n,k,h,w) = V[none,none,clamp,clamp](n,k,h-1,w+1)
            where h in 0:H, w in 0:W, n in 0:N, k in 0:5 }""",
        {"X": 4, "K": 2, "V": 4, "Y": 4},
    ),
    # Not if that has fewer points, or no loop of its own.
    (
        """def f(float(N,C,H,W) X, float(H,W) K) -> (Y) {
          V(n,a,b) +=! X(n,c,h,w) * K(h,w) * a * b where a in 0:2, b in 0:3
          Y(a,b) +=! V(n,a,b) }""",
        {"X": 3, "K": 1, "V": 3, "Y": 2},
    ),
    (
        """def f(float(N,2,3) X) -> (Y, z) {
          Y(n,a,b) = X(n,a,b) * X(n,a,b)
          z(n,a) +=! Y(n,a,b) }""",
        {"X": 2, "Y": 2, "z": 1},
    ),
]


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_which_dimensions_are_merged(source: str, expected: dict[str, int]) -> None:
    sizes = {n: v for n, v in S.items() if f"{n}," in source or f"{n})" in source}
    assert ranks(source, **sizes) == expected
    rng = np.random.default_rng(0)
    program = compiled(source).program(sizes)
    inputs = [
        rng.integers(-4, 5, [r.extent.value for r in b.box]).astype(np.float32)  # type: ignore[union-attr]
        for b in program.buffers
        if b.role == "input"
    ]
    got = results(compiled(source)(*inputs))
    for a, b in zip(got, interpreted(source, *inputs), strict=True):
        same(a, b)


def test_a_lower_bound_that_is_not_zero() -> None:
    source = "def f(float(H,W) X) -> (Y) { T(h,w) = X(h-2,w-3)  Y(h,w) = T(h,w) + 1 }"
    p = collapsed(source, H=4, W=5)
    assert {b.name: len(b.box) for b in p.buffers} == {"X": 2, "T": 2, "Y": 2}
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    np.testing.assert_array_equal(compiled(source)(x), x + 1)


def test_messages_keep_the_names_of_variables() -> None:
    source = "def f(float(N,C) X, int(N,C) I, float(H) T) -> (Y) { Y(n,c) = X(n,c) * T(I(n,c)) }"
    x, i = np.ones((2, 3), np.float32), np.zeros((2, 3), np.int32)
    i[1, 2] = 9
    with pytest.raises(tc.BoundsError, match=r"n = 1, c = 2"):
        compiled(source)(x, i, np.zeros(5, np.float32))


def test_dimensions_of_symbolic_size_are_not_merged() -> None:
    source = "def f(float(N,H,W) X) -> (Y) { Y(n,h,w) = X(n,h,w) }"
    k = tc.compile(source, "cpu", dynamic=("N",))
    p = collapse(specialize(k.program({}), {"H": 4, "W": 5}))
    assert {b.name: len(b.box) for b in p.buffers} == {"X": 2, "Y": 2}


@pytest.mark.filterwarnings("ignore::tc.errors.DataDependentAccess")
def test_a_checked_read_of_a_row_stays() -> None:
    """Its checks count the dimensions that it had."""
    source = "def f(int(N,3,1) A, int(M) X) -> (B) { B(i,j) = A(i,2,X(j)) }"
    a, x = np.arange(9, dtype=np.int32).reshape(3, 3, 1), np.zeros(4, np.int32)
    for backend in ("cpu", "reference"):
        found = tc.compile(source, backend=backend)(a, x)
        np.testing.assert_array_equal(found, np.tile([[2], [5], [8]], 4))
