"""Bounds with minima and maxima: exact at every point, with the smallest number of pieces."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from itertools import product

import islpy as isl
import pytest

from tc.errors import Source
from tc.ir.evaluate import evaluate
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
)  # fmt: skip
from tc.ir.simplify import from_terms
from tc.pipeline import front as pipeline
from tc.poly.affine import PARAM, SET, Affine, Parameters, declare
from tc.poly.context import Names, given_up_after, isl_context
from tc.poly.extrema import operands, unified
from tc.poly.scop import build
from tests.poly.programs import Build, v

SIZES = ("N", "M", "K")


@pytest.fixture(autouse=True)
def _inside_isl():  # type: ignore[no-untyped-def]
    with isl_context():
        yield


def bound(rng: random.Random, depth: int) -> Expr:
    if not depth or not rng.randrange(6):
        return v(rng.choice(SIZES)) if rng.randrange(4) else IntImm(rng.randint(-2, 4))
    a = bound(rng, depth - 1)
    match rng.randrange(9):
        case 0:
            return FloorDiv(a, IntImm(rng.choice((2, 3, -2))))
        case 1:
            return FloorMod(a, IntImm(2))
        case 2:
            return Mul(IntImm(rng.choice((-2, -1, 2))), a)
        case 3:
            return Mul(a, v(rng.choice(SIZES)))
        case k:
            kinds = (Add, Sub, Min, Max, Min)
            return kinds[k - 4](a, bound(rng, depth - 1))


def shuffled(rng: random.Random, e: Expr) -> Expr:
    """An equal expression in another form."""
    if not isinstance(e, Min | Max):
        return e
    a, b = shuffled(rng, e.a), shuffled(rng, e.b)
    a, b = (b, a) if rng.randrange(2) else (a, b)
    if rng.randrange(2):
        return type(e)(a, type(e)(b, a))
    return Sub(type(e)(Add(a, IntImm(3)), Add(b, IntImm(3))), IntImm(3))


def affine(e: Expr) -> tuple[Affine, isl.Set]:
    parameters = Parameters(Names(), base=frozenset(SIZES))
    for n in SIZES:
        parameters._add(v(n), n)  # pyright: ignore[reportPrivateUsage]
    declare(parameters, [e])
    with isl_context() as ctx:
        space = parameters.space("stage", "S", ("i",), ctx)
    return Affine(parameters, space, ("i",)), isl.Set.universe(space)


POINTS: list[dict[str, int | float]] = [
    dict(zip(SIZES, at, strict=True)) for at in product(range(4), repeat=len(SIZES))
]


@pytest.mark.parametrize("seed", range(60))
def test_a_bound_holds_exactly_where_its_value_allows(seed: int) -> None:
    rng = random.Random(seed)
    e = bound(rng, 4)
    e = Sub(e, Sub(shuffled(rng, e), bound(rng, 3))) if seed % 2 else e
    a, s = affine(e)
    found, exact = a.where_nonneg(s, {("d", 0): -1}, e)
    assert exact
    for at in POINTS:
        values = [isl.Val.int_from_si(s.get_ctx(), evaluate(x, at)) for x in a.parameters.values.values()]
        last = isl.Val.int_from_si(s.get_ctx(), evaluate(e, at))
        here, wanted = found, s.upper_bound_val(SET, 0, last)
        for i, value in enumerate(values):
            here, wanted = here.fix_val(PARAM, i, value), wanted.fix_val(PARAM, i, value)
        assert here.is_equal(wanted), (at, e)


def test_operands_that_differ_in_variables_stay_distinct() -> None:
    nested = Min(Sub(Min(v("N"), Add(v("M"), IntImm(4))), IntImm(1)), Min(v("M"), Add(v("N"), IntImm(7))))
    assert [from_terms(*x) for x in operands(nested)] == [Sub(v("N"), IntImm(1)), v("M")]
    # -max(-a, -b) is a minimum.
    of_max = Min(v("K"), Sub(IntImm(5), Max(v("N"), v("M"))))
    assert list(operands(of_max)) == [({v("K"): 1}, 0), ({v("N"): -1}, 5), ({v("M"): -1}, 5)]
    assert len(operands(Min(Add(Min(v("N"), v("M")), Min(v("K"), v("M"))), v("K")))) == 2


def test_equal_minima_in_different_forms_cancel() -> None:
    a = Min(Min(v("N"), v("M")), FloorDiv(Sub(v("K"), IntImm(1)), IntImm(2)))
    b = Min(Add(FloorDiv(Sub(v("K"), IntImm(1)), IntImm(2)), IntImm(1)), Add(Min(v("M"), v("N")), IntImm(1)))
    assert unified(Sub(b, a)) == ({}, 1)
    terms, offset = unified(Sub(Min(v("N"), v("M")), Min(v("N"), v("K"))))
    assert sorted(terms.values()) == [-1, 1] and not offset
    # Products of sizes are compared by their form.
    product = Mul(Min(v("M"), v("N")), v("K"))
    terms, _ = unified(Add(Min(v("N"), v("M")), product))
    assert product in terms


def test_wrapping_data_is_not_distributed_over_minima() -> None:
    """Data may overflow, so min(x, n) + 1 is not min(x + 1, n + 1)."""
    read = Build("e", "N")
    read.input("A", v("N").dtype, "N")
    x = Cast(v("N").dtype, read.read("A", v("N")))
    e = Min(Add(Min(x, v("N")), IntImm(1)), v("M"))
    assert [len(terms) for terms, _ in operands(e)] == [1, 1]
    assert len(operands(Min(Min(x, v("N")), v("M")))) == 3
    terms, offset = unified(
        Sub(Add(Min(x, v("N")), IntImm(1)), Min(Add(x, IntImm(1)), Add(v("N"), IntImm(1))))
    )
    assert (len(terms), offset) == (2, 1)


def test_an_implied_range_adds_no_piece() -> None:
    """The lower bound of `i` in T is 4 less a minimum of eight operands, which the extent has in another
    order."""
    front = pipeline.front(
        Source(
            """def f(int8(K,K,M) A, int8(N,N) B, int8(N,N,N) C, int(Q) X) -> (R, S, T) {
  R(i,j) +=! A(k, k, k) + A(i, i, i) + B(j, i * 4) + X(i)
  S(i) = C(i, i, i % 2) * A(i * 2, i, i) * R(i, i / 2)
  T(i,j) = B(j, i) + S(4 - i) + A(i, j, j)
}"""
        )
    )
    scop = build(pipeline.build(front, pipeline.Variant()).program)
    assert [s.domain.n_basic_set() for s in scop.statements] == [1, 1, 1, 1]


def test_constraints_do_not_multiply_pieces() -> None:
    """`i` is below one of four sums, each of them with minima."""
    e: Expr = Max(Max(v("N"), v("M")), Max(v("K"), IntImm(3)))
    for low in (Min(v("N"), Mul(IntImm(2), v("K"))), Min(v("M"), FloorDiv(v("K"), IntImm(3)))):
        e = Add(e, low)
    a, s = affine(e)
    found, exact = a.where_nonneg(s, {("d", 0): -1}, e)
    assert exact and found.n_basic_set() <= 4


@pytest.mark.parametrize("c", [1 << 63, -(1 << 63) - 1, 1 << 100])
def test_constants_of_more_than_64_bits_are_exact(c: int) -> None:
    """Differences of the lowest and highest index need more than 64 bits; isl computes exactly."""
    a, s = affine(IntImm(0))
    form = {("d", 0): 1, ("c", 0): c}
    at = isl.Val.read_from_str(s.get_ctx(), str(-c))
    assert a.nonneg(s, form).is_equal(s.lower_bound_val(SET, 0, at))


RELATIONS = {
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
    EQ: operator.eq,
    NE: operator.ne,
}


@pytest.mark.parametrize("seed", range(60))
def test_relations_to_minima_and_maxima_hold_exactly_where_they_are_true(seed: int) -> None:
    rng = random.Random(seed)

    def extremum(depth: int) -> Expr:
        if not depth or not rng.randrange(5):
            return Add(v(rng.choice(SIZES)), IntImm(rng.randint(-2, 2)))
        return rng.choice((Min, Max))(extremum(depth - 1), extremum(depth - 1))

    left, right = extremum(3), extremum(rng.randrange(3))
    if rng.randrange(2):
        left, right = right, left
    kind, value = rng.choice(list(RELATIONS)), bool(rng.randrange(2))
    a, s = affine(Add(left, right))
    found, exact = a.holds(kind(left, right), value)
    assert exact
    for at in POINTS:
        here = found
        for i, x in enumerate(a.parameters.values.values()):
            here = here.fix_val(PARAM, i, isl.Val.int_from_si(s.get_ctx(), evaluate(x, at)))
        true = RELATIONS[kind](evaluate(left, at), evaluate(right, at))
        assert here.is_empty() == (true != value), (at, left, kind, right)


@pytest.mark.parametrize("kind", list(RELATIONS))
def test_a_relation_to_a_minimum_of_many_is_cheap(kind: Callable[[Expr, Expr], Expr]) -> None:
    """As a piecewise affine function this minimum has more pieces than isl can compare."""
    sizes = [v(f"N{i}") for i in range(12)]
    half = FloorDiv(Sub(v("N0"), IntImm(1)), IntImm(2))
    least: Expr = Min(Sub(Min(Add(half, IntImm(3)), Min(v("N1"), IntImm(3))), IntImm(2)), v("N2"))
    for x in sizes[3:]:
        least = Min(least, x)
    parameters = Parameters(Names(), base=frozenset(x.name for x in sizes))
    for x in sizes:
        parameters._add(x, x.name)  # pyright: ignore[reportPrivateUsage]
    declare(parameters, [kind(IntImm(1), Max(least, IntImm(0)))])
    with isl_context() as ctx, given_up_after(1_000_000):
        a = Affine(parameters, parameters.space("stage", "S", ("i",), ctx), ("i",))
        for value in (True, False):
            _, exact = a.holds(kind(IntImm(1), Max(least, IntImm(0))), value)
            assert exact
