"""Dependence distances: equal dimensions and zero distances of two statements."""

from __future__ import annotations

import islpy as isl
import pytest

from tc.poly import scop
from tc.poly.context import isl_context
from tc.poly.fusion.distances import Distances, equal_dimensions
from tests.poly.fused import program

TWO = "def f(float(N,N) A) -> (B, C) {{ B(i,j) = A(i,j)\n C(k,l) = {} }}"
ALL = {("i", "k"), ("j", "l")}


@pytest.mark.parametrize(
    ("constraints", "pairs"),
    [
        ("k = i and l = j", ALL),
        ("k = j and l = i", {("i", "l"), ("j", "k")}),
        ("k = i", {("i", "k")}),
        ("k = i + 1", set()),
        ("k + l = i + j and l = j", ALL),
        ("i = 3 and k = 3", {("i", "k")}),
        ("2 k = i + j and i = j", {("i", "k"), ("j", "k")}),
        ("i mod 2 = 0 and k mod 2 = 0", set()),  # both are even, but independent
        ("i mod 2 = 0 and k = 2 * floor(i / 2)", {("i", "k")}),
        ("k = 2 * floor(i / 2)", set()),
    ],
)
def test_equal_dimensions_of_two_statements_are_found(constraints: str, pairs: set[tuple[str, str]]) -> None:
    s, t = scop.build(program(TWO.format("A(k,l)"), N=9)).statements
    with isl_context() as context:
        relation = isl.Map.read_from_str(context, f"{{ S0[i,j] -> S1[k,l] : {constraints} }}")
        assert equal_dimensions(relation, s, t) == pairs


@pytest.mark.parametrize(
    ("value", "pairs"),
    [
        ("B(k,l)", ALL),
        ("B(l,k)", {("i", "l"), ("j", "k")}),
        ("B(k,l) + B(l,k)", set()),
        ("B(N-1-k,l)", {("j", "l")}),
        ("A(k,l)", None),
    ],
)
def test_zero_distances_of_two_statements_are_found(value: str, pairs: set[tuple[str, str]] | None) -> None:
    s, t = scop.build(program(TWO.format(value), N=9)).statements
    with isl_context():
        distances = Distances()
        found = distances.zero_distance(s, t)
        assert (None if found is None else set(found)) == pairs
        assert distances.related(s, t) == found
        turned = distances.related(t, s)
        assert turned == (None if found is None else {(b, a) for a, b in found})
        assert set(distances.shared_reads(s, t)) == (ALL if pairs is None else set())
