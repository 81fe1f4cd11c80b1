"""Shapes and indices that functions compute from shapes: on a backend and in the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc

M = np.arange(12.0).reshape(3, 4)
T = np.arange(24.0).reshape(2, 3, 4)
V = np.arange(8.0)
TWICE = """
int[*] f(int[.] s) { k = rotate(1, s); return genarray(k, 1); }
int[*] main(double[.,.] A) { return { [i] -> f(rotate(1, shape(A))) | [i] < [2] }; }
"""
FOUND: list[tuple[str, tuple[Any, ...], Any]] = [
    ("reshape([prod(shape(A))], A)", (T,), T.ravel()),
    ("reshape([1, prod(shape(A))], A)", (np.float64(3),), [[3.0]]),
    ("{ iv -> reshape([prod(shape(A))], A)[iv] + 1 }", (M,), M.ravel() + 1),
    ("iota(sum(shape(A)))", (M,), np.arange(7)),
    ("genarray([maxval(shape(A)), minval(shape(A))], 0)", (M,), np.zeros((4, 3))),
    ("sum([n, 2]) + maxval([])", (2**31 - 1,), 1 - 2**31 + (-(2**31) + 2**32)),
    ("{ iv -> v[sum(iv)] | iv < [3,4] }", (V,), np.add.outer(np.arange(3), np.arange(4))),
    ("{ iv -> prod(iv) * 10 + maxval(iv) | iv < [2,3] }", (), [[0, 1, 2], [1, 11, 22]]),
    ("{ iv -> 1 | iv < min(shape(A), shape(B)) }", (M, M.T.copy()), np.ones((3, 3))),
    ("{ iv -> 1 | iv < where(shape(A) > 3, shape(A), 1) }", (M,), np.ones((1, 4))),
    ("{ iv -> 1 | iv < abs(shape(A) - 7) }", (M,), np.ones((4, 3))),
    ("{ iv -> 1 | iv < { [i] -> shape(A)[i] + 1 | [i] < [dim(A)] } }", (M,), np.ones((4, 5))),
    ("{ iv -> 1 | iv < tile([1], [1], shape(A)) }", (M,), np.ones(4)),
    ("{ iv -> 1 | iv < shift(1, shape(A)) }", (M,), np.ones((0, 3))),
    ("{ iv -> 1 | iv < with { ([0] <= [i] < [1]) : 2; } : modarray(shape(A)) }", (M,), np.ones((2, 4))),
    ("{ iv -> 1 | iv < (n > 2 ? shape(A) : [1, 1]) }", (3, M), np.ones((3, 4))),
    ("{ iv -> A[rotate(1, iv)] | iv < rotate(-1, shape(A)) }", (T,), np.transpose(T, (1, 2, 0))),
    ("{ [i] -> sum({ iv -> 1 | iv < rotate(-1, [i, 2, i + 1]) }) | [i] < [4] }", (), [0, 4, 12, 24]),
    (TWICE, (M,), np.ones((2, 3, 4))),
]


@pytest.mark.parametrize("backend", ["interpret", "reference"])
@pytest.mark.parametrize(("source", "args", "wanted"), FOUND, ids=[x[0] for x in FOUND])
def test_found(source: str, args: tuple[Any, ...], wanted: Any, backend: str) -> None:
    if backend == "interpret":
        found = tc.interpret(source, *args, lang="sac")
    else:
        found = tc.compile(source, lang="sac", backend=backend)(*args)
    assert np.shape(found) == np.shape(wanted)
    assert np.array_equal(found, wanted)


def test_the_oracle_refuses_a_shape_that_it_cannot_compute() -> None:
    """It took such an extent for 0."""
    with pytest.raises(tc.SemanticError) as e:
        tc.interpret("{ [i] -> iota(v[i] / 2) | [i] < [2] }", v=np.array([1, 2], np.int32), lang="sac")
    assert e.value.code == "TC0257"
