"""Quotients of fewer terms are the same for all values that their terms may have."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.ir.divisions import remainder, shorter
from tc.ir.evaluate import evaluate
from tc.ir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, Variable

X, Y = Variable("x"), Variable("y")


def span(e: Expr) -> tuple[int, int] | None:
    return {X: (-3, 5), Y: (0, 31)}.get(e) if isinstance(e, Variable) else None


def test_the_range_of_a_point_in_a_tile_does_not_matter() -> None:
    point = Add(Mul(IntImm(32), X), Y)
    assert shorter(FloorDiv(point, IntImm(64)), span) == FloorDiv(X, IntImm(2))
    assert shorter(FloorDiv(Add(point, IntImm(1)), IntImm(64)), span) is None
    assert shorter(FloorDiv(Add(Mul(IntImm(32), X), Variable("z")), IntImm(64)), span) is None
    assert remainder(Sub(X, Mul(IntImm(2), FloorDiv(point, IntImm(64)))), span) == FloorMod(X, IntImm(2))
    assert remainder(Sub(Y, Mul(IntImm(2), FloorDiv(point, IntImm(64)))), span) is None


@pytest.mark.parametrize("kind", ["quotient", "remainder"])
@given(
    a=st.integers(-64, 64),
    b=st.integers(-4, 4),
    c=st.integers(-40, 40),
    d=st.sampled_from([2, 3, 4, 6, 16, 32, 64, 96]),
)
def test_values(kind: str, a: int, b: int, c: int, d: int) -> None:
    e = FloorDiv(Add(Add(Mul(IntImm(a), X), Mul(IntImm(b), Y)), IntImm(c)), IntImm(d))
    whole: FloorDiv | Sub = e if kind == "quotient" else Sub(X, Mul(IntImm(2), e))
    found = shorter(whole, span) if isinstance(whole, FloorDiv) else remainder(whole, span)
    if found is not None:
        for x, y in itertools.product(range(-3, 6), range(0, 32, 5)):
            at = {"x": x, "y": y}
            assert evaluate(found, at) == evaluate(whole, at)
