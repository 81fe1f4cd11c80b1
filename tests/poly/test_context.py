"""Preconditions in the context of a scop: what would cut each domain into hundreds of pieces is left out."""

from __future__ import annotations

import numpy as np

import tc
from tc.dtypes import FLOAT64
from tc.errors import Source
from tc.pipeline import front as pipeline
from tc.poly import scop
from tc.poly.context import isl_context

# Of each of the first two tensors every extent has to be large enough, or the partition empty.
SOURCE = """
{ iv -> A[[iv[0], iv[0]]] - B[iv - 2];
  [i] -> C[i - 1, i, i] + D[i - 1, i - 1, i] | take([1], shape(E)) <= [i] < [4];
  [i] -> 1 | [0] <= [i] < [shape(F)[0]];
  [i] -> G[i] }
"""
RANKS = {"A": 2, "B": 1, "C": 3, "D": 3, "E": 2, "F": 1, "G": 1}


def test_a_context_has_few_pieces() -> None:
    known = tuple((n, rank, FLOAT64) for n, rank in RANKS.items())
    front = pipeline.front(Source(SOURCE), lang="sac", known=known)
    program = pipeline.build(front, pipeline.Variant()).program
    assert len(program.preconditions) >= 8
    with isl_context():
        built = scop.build(program)
        assert 1 <= built.context.n_basic_set() <= 24
        assert not built.context.is_empty()


def test_constraints_that_are_left_out_hold_all_the_same() -> None:
    kernel = tc.compile(SOURCE, lang="sac", backend="reference")
    a, b, g = np.arange(9.0).reshape(3, 3), np.array([2.0]), np.array([-1.0, -2.0, -3.0])
    c, d = np.arange(36.0).reshape(3, 4, 3), np.arange(36.0).reshape(3, 4, 3) * 2
    e, f = np.zeros((2, 3)), np.zeros(4)
    np.testing.assert_array_equal(kernel(a, b, c, d, e, f, g), [1, 1, a[2, 2] - 2])
    e = np.zeros((1, 3))
    np.testing.assert_array_equal(
        kernel(a, np.zeros(0), c, d, e, f, g), [1, *(c[i - 1, i, i] + d[i - 1, i - 1, i] for i in (1, 2))]
    )
    with np.testing.assert_raises(tc.PreconditionError):
        kernel(a, np.zeros(0), c[:, :2].copy(), d, e, f, g)
