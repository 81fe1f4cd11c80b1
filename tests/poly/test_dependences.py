"""Dependences between statements, and conflicts where these take too long."""

from __future__ import annotations

import islpy as isl
import pytest

import tc
from tc.poly import scop
from tc.poly.context import GaveUp, exhausted, given_up_after, isl_context
from tc.poly.dependences import conflicts, dependences


def test_only_pairs_with_a_write_conflict() -> None:
    source = "def f(float(N) A) -> (B, C) { B(i) = A(i) C(i) = A(i) + B(i) }"
    program = tc.compile(source, "reference").program({"N": 4})
    with isl_context():
        first, second = scop.build(program).statements
        found = [(a.buffer, a.kind, b.kind) for a, b, _ in conflicts(first, second)]
    assert found == [("B", "write", "read")]


def test_conflicts_replace_an_expensive_last_write_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conflicts include pairs of accesses with another write between them."""
    source = """def f(float(N) A) -> (B) {
      B(i) = A(i)
      B(i) = B(i) + A(i) where i in 2:N
      B(i) = B(i) * B(i)
    }"""
    program = tc.compile(source, "reference").program({"N": 9})
    with isl_context():
        polyhedra = scop.build(program)
        exact = dependences(polyhedra)
        monkeypatch.setattr("tc.poly.dependences._OPERATIONS", 10)
        more = dependences(polyhedra)
        assert exact.exact and not more.exact
        for found, all_of_them in ((exact.raw, more.raw), (exact.war, more.war), (exact.waw, more.waw)):
            assert found.is_subset(all_of_them) and not found.is_empty()
        assert not more.raw.is_equal(exact.raw)
        # The next computation has its own limit of operations.
        monkeypatch.undo()
        assert dependences(polyhedra).raw.is_equal(exact.raw)


def test_isl_gives_up_after_too_many_operations() -> None:
    with isl_context() as ctx:
        with pytest.raises(GaveUp), given_up_after(5):
            isl.Set.read_from_str(ctx, "{ [i,j] : 0 <= i < j < 9 and (i + j) mod 3 = 1 }").lexmin()
        assert not exhausted()
        with pytest.raises(isl.Error, match=r"syntax|expected"), given_up_after(10**6):
            isl.Set.read_from_str(ctx, "{ [i : }")
