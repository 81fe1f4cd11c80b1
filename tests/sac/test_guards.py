"""Selections below conditions: what keeps them in bounds, and which of them bound an index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc

V = np.arange(5.0)
W = np.ones(3)
M = np.arange(12.0).reshape(3, 4)
NEAR = [1, 3, 6, 9, 7]  # sums of neighbours of V
WINDOW = [
    [M[max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2].sum() for j in range(M.shape[1])]
    for i in range(M.shape[0])
]
INSIDE = """
bool inside(int i, int n) { return 0 <= i && i < n; }
double[.] main(double[.] A, double[.] w) {
  return { [i] -> sum({ [j] -> inside(i+j-1, shape(A)[0]) ? A[i+j-1] * w[j] : 0.0 }) | [i] < shape(A) };
}
"""
NAMED = """
double at(double[.] A, int i) { outside = i < 0 || i >= shape(A)[0]; return outside ? 0.0 : A[i]; }
double[.] main(double[.] A, double[.] w) {
  return { [i] -> sum({ [j] -> at(A, i+j-1) * w[j] }) | [i] < shape(A) };
}
"""
LIFE = """
int at(int[.,.] A, int i, int j) {
  return i < 0 || j < 0 || i >= shape(A)[0] || j >= shape(A)[1] ? 0 : A[i,j];
}
int[.,.] main(int[.,.] A) {
  n = { [i,j] -> sum({ [p,q] -> at(A, i+p-1, j+q-1) | [p,q] < [3,3] }) - A[i,j] | [i,j] < shape(A) };
  return { [i,j] -> n[i,j] == 3 || (n[i,j] == 2 && A[i,j] == 1) ? 1 : 0 };
}
"""
FOUND: list[tuple[str, tuple[Any, ...], Any]] = [
    ("{ iv -> all(iv > 0) ? A[iv - 1] : 0.0 | iv < shape(A) }", (M,), np.pad(M, ((1, 0), (1, 0)))[:-1, :-1]),
    ("{ iv -> all(iv < shape(A)) ? A[iv] : 0.0 | iv < shape(A) + 1 }", (M,), np.pad(M, ((0, 1), (0, 1)))),
    ("{ iv -> any(iv >= shape(A)) ? 0.0 : A[iv] | iv < shape(A) + 1 }", (M,), np.pad(M, ((0, 1), (0, 1)))),
    (
        "{ iv -> !all(0 <= iv - 1) ? 0.0 : A[iv - 1] | iv < shape(A) }",
        (M,),
        np.pad(M, ((1, 0), (1, 0)))[:-1, :-1],
    ),
    (INSIDE, (V, W), NEAR),
    (NAMED, (V, W), NEAR),
    (
        "{ iv -> sum({ jv -> all(0 <= iv + jv - 1) && all(iv + jv - 1 < shape(A)) ? A[iv + jv - 1] * w[jv] "
        ": 0.0 }) | iv < shape(A) }",
        (M, np.ones((3, 3))),
        WINDOW,
    ),
    # What the condition alone does not keep in bounds bounds its index.
    ("{ [i] -> i > 0 ? A[i] : 7.0 }", (V,), [7, 1, 2, 3, 4]),
    ("{ [i] -> i > 0 ? A[i] : B[i+1] }", (V, V), [1, 1, 2, 3]),
    ("{ [i] -> i > 2 && i < shape(A)[0] ? A[i] : B[i] }", (V, V[:4]), [0, 1, 2, 3]),
    # Only where an index would else stay open.
    ("{ [i] -> i >= 1 && i <= shape(A)[0] ? A[i-1] : 7.0 }", (V,), [0, 0, 1, 2, 3, 4]),
    # An index around bounds another one for all of its values.
    ("{ [i] -> sum({ [j] -> A[i+j-1] }) | [i] < [3] }", (V,), [3, 6, 9]),
    ("{ [i] -> sum({ [j] -> A[i+j] * B[j] }) }", (V, V[:2] + 1), [2, 5, 8, 11]),
    (LIFE, (np.array([[0, 1, 0], [0, 1, 0], [0, 1, 0]], np.int32),), [[0, 0, 0], [1, 1, 1], [0, 0, 0]]),
]


@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu"])
@pytest.mark.parametrize(
    ("source", "args", "wanted"), FOUND, ids=[" ".join(x[0].split())[:60] for x in FOUND]
)
def test_found(source: str, args: tuple[Any, ...], wanted: Any, backend: str) -> None:
    if backend == "interpret":
        found = tc.interpret(source, *args, lang="sac")
    else:
        found = tc.compile(source, lang="sac", backend=backend)(*args)
    np.testing.assert_array_equal(found, wanted)
