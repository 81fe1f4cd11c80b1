"""Intervals of subscripts, by brute force."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tc.ir.evaluate import evaluate
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    Variable,
)
from tc.ir.intervals import compared, interval
from tests.share import examples

LEAVES = st.builds(IntImm, st.integers(-5, 5)) | st.sampled_from([Variable("i"), Variable("j")])
DIVISORS = st.builds(IntImm, st.integers(-4, 4).filter(bool))


def _larger(e: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    binary = st.one_of(*(st.builds(kind, e, e) for kind in (Add, Sub, Mul, Min, Max)))
    divided = st.one_of(*(st.builds(kind, e, DIVISORS) for kind in (FloorDiv, FloorMod)))
    return binary | divided | st.builds(Select, st.builds(LT, e, e), e, e)


@settings(max_examples=examples(300), deadline=None)
@given(
    e=st.recursive(LEAVES, _larger, max_leaves=8),
    i=st.tuples(st.integers(-4, 4), st.integers(0, 3)),
    j=st.tuples(st.integers(-4, 4), st.integers(0, 3)),
)
def test_all_values_are_within(e: Expr, i: tuple[int, int], j: tuple[int, int]) -> None:
    """And the ends are values where every variable occurs once and nothing is divided."""
    names = {"i": (i[0], i[0] + i[1]), "j": (j[0], j[0] + j[1])}
    found = interval(e, names)
    assert found is not None
    points = itertools.product(*(range(lo, hi + 1) for lo, hi in names.values()))
    values = [evaluate(e, dict(zip(names, p, strict=True))) for p in points]
    assert found[0] <= min(values) and max(values) <= found[1]


@pytest.mark.parametrize("kind", [LT, LE, GT, GE, EQ, NE])
def test_comparisons(kind: type[LT | LE | GT | GE | EQ | NE]) -> None:
    """What holds for all numbers of two intervals, or for none; None if for some."""
    i, j = Variable("i"), Variable("j")
    ends = [(lo, hi) for lo in range(4) for hi in range(lo, 4)]
    for a, b in itertools.product(ends, ends):
        points = itertools.product(range(a[0], a[1] + 1), range(b[0], b[1] + 1))
        held = {bool(evaluate(kind(i, j), {"i": p, "j": q})) for p, q in points}
        assert compared(kind(i, j), a, b) == (held.pop() if len(held) == 1 else None), (a, b)


def test_ends() -> None:
    """As near as each operand alone allows."""
    names = {"i": (-3, 5), "j": (2, 4)}
    i, j = Variable("i"), Variable("j")
    assert interval(Select(LT(i, j), i, Mul(j, IntImm(3))), names) == (-3, 12)
    assert interval(FloorMod(i, j), names) == (0, 3)
    assert interval(FloorMod(i, IntImm(-4)), names) == (-3, 0)
    assert interval(FloorDiv(i, IntImm(2)), names) == (-2, 2)
    assert interval(Max(Min(i, j), IntImm(1)), names) == (1, 4)
    assert interval(Add(i, Variable("N")), {**names, "N": None}) is None
    assert interval(Select(LT(i, j), Variable("N"), i), {**names, "N": None}) is None
    assert interval(Select(LT(i, j), i, Variable("N")), {**names, "N": None}) is None
