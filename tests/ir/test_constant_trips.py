"""Loops of constant trip count run the iterations of the loops that they replace, in their order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.dtypes import FLOAT32
from tc.ir.evaluate import evaluate
from tc.ir.expr import LT, Add, Expr, FloorDiv, IntImm, Load, Min, Mul, Sub, Variable
from tc.ir.loops import Block, Compute, For, If, Launch, LoopKind, Stmt, Sync, statements
from tc.transforms.loops.constant_trips import constant_trips

AT, T, B = Variable("i"), Variable("t0"), Variable("b0")


def body(at: Expr = AT) -> Compute:
    return Compute("S0", "O", (at,), None, Load("A", (at,), FLOAT32), (at,), "O(i) = A(i)")


def loop(low: Expr, high: Expr, step: int = 1, inner: Stmt | None = None) -> For:
    return For("i", low, high, step, LoopKind.SERIAL, inner or body())


def launch(s: Stmt, threads: int = 32, blocks: int = 3) -> Launch:
    return Launch("k", (("b0", IntImm(blocks)),), (("t0", threads),), s)


def points(s: Stmt, env: dict[str, int]) -> Iterator[tuple[int, ...]]:
    match s:
        case Block():
            for c in s.body:
                yield from points(c, env)
        case For():
            for i in range(evaluate(s.lower, env), evaluate(s.upper, env), s.step):
                yield from points(s.body, {**env, s.var: i})
        case If():
            taken = s.then if evaluate(s.condition, env) else s.otherwise
            yield from points(taken, env) if taken is not None else ()
        case Compute():
            at = tuple(evaluate(e, env) for e in s.subscripts)
            assert at == tuple(evaluate(e, env) for e in s.point)
            assert isinstance(s.value, Load)
            assert at == tuple(evaluate(e, env) for e in s.value.subscripts)
            yield at
        case _:
            raise AssertionError(s)


def same(before: Launch) -> Launch:
    after = constant_trips(before)
    counts = [n.value for _, n in before.blocks if isinstance(n, IntImm)]
    for b, t in itertools.product(range(counts[0]), range(before.threads[0][1])):
        env = {"b0": b, "t0": t}
        assert list(points(after.body, env)) == list(points(before.body, env))
    return after


def constant_loops(s: Stmt) -> list[int]:
    """The trip counts of loops that start at a number and end at one."""
    return [
        -(-(c.upper.value - c.lower.value) // c.step)
        for c in statements(s)
        if isinstance(c, For) and isinstance(c.lower, IntImm) and isinstance(c.upper, IntImm)
    ]


def test_threads_with_one_iteration_more() -> None:
    after = same(launch(loop(IntImm(0), Sub(IntImm(5), FloorDiv(Add(T, IntImm(11)), IntImm(32))))))
    assert constant_loops(after.body) == [4]
    assert sum(isinstance(s, If) for s in statements(after.body)) == 1


def test_threads_that_start_at_their_number() -> None:
    after = same(launch(loop(T, IntImm(113), 32)))
    (found,) = (s for s in statements(after.body) if isinstance(s, For))
    assert found.upper == Add(T, IntImm(96))


def test_a_partial_tile() -> None:
    after = same(launch(loop(IntImm(0), Min(IntImm(4), Sub(IntImm(10), Mul(B, IntImm(4)))))))
    assert constant_loops(after.body) == [4]
    assert sum(isinstance(s, For) for s in statements(after.body)) == 2


def test_the_same_trip_count_everywhere() -> None:
    after = same(launch(loop(T, Add(T, IntImm(40)), 8)))
    assert after.body == loop(T, Add(T, IntImm(40)), 8)
    after = same(launch(loop(IntImm(0), Min(IntImm(4), Sub(IntImm(12), Mul(B, IntImm(4)))))))
    assert after.body == loop(IntImm(0), IntImm(4))


@pytest.mark.parametrize(
    "s",
    [
        loop(IntImm(0), IntImm(9)),
        loop(IntImm(0), T),
        loop(IntImm(0), Sub(IntImm(3), FloorDiv(T, IntImm(8)))),  # trip counts of 0 to 3
        loop(IntImm(0), Sub(IntImm(2), FloorDiv(T, IntImm(16)))),  # one, and for some threads a second
        loop(IntImm(0), Sub(IntImm(5), FloorDiv(T, IntImm(16))), inner=Block((body(), Sync()))),
    ],
    ids=["constant", "any", "several", "one", "barrier"],
)
def test_other_loops_stay(s: For) -> None:
    assert constant_trips(launch(s)).body == s


def test_an_unknown_number_of_blocks() -> None:
    s = loop(IntImm(0), Min(IntImm(4), Sub(Variable("N"), Mul(B, IntImm(4)))))
    before = Launch("k", (("b0", Variable("G")),), (("t0", 8),), s)
    after = constant_trips(before)
    assert isinstance(after.body, If)
    for n, b in itertools.product(range(1, 20), range(5)):
        env = {"N": n, "b0": b, "t0": 0}
        assert list(points(after.body, env)) == list(points(s, env))


numbers = st.integers(-6, 12)


@st.composite
def bounds(draw: st.DrawFn, variables: tuple[Variable, ...] = (T, B, Variable("o"))) -> Expr:
    e: Expr = IntImm(draw(st.integers(0, 40)))
    for v in draw(st.lists(st.sampled_from(variables), max_size=2)):
        term = Mul(v, IntImm(draw(st.integers(1, 4))))
        if draw(st.booleans()):
            term = FloorDiv(Add(term, IntImm(draw(numbers))), IntImm(draw(st.integers(1, 40))))
        e = draw(st.sampled_from([Add, Sub]))(e, term)
    if draw(st.booleans()):
        e = draw(st.sampled_from([Min(IntImm(draw(numbers)), e), Min(e, IntImm(draw(numbers)))]))
    return e


@given(
    low=bounds() | st.just(IntImm(0)) | st.just(T),
    high=bounds(),
    step=st.integers(1, 8),
    outer=bounds((T, B)),
)
def test_random_loops_run_the_same_iterations(low: Expr, high: Expr, step: int, outer: Expr) -> None:
    guarded = If(LT(Variable("o"), Add(T, IntImm(9))), loop(low, high, step))
    for inner in (loop(low, high, step), guarded):
        same(launch(For("o", IntImm(0), Min(IntImm(3), outer), 1, LoopKind.SERIAL, inner), 5, 3))
