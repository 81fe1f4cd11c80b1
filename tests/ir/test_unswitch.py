"""Conditions tested once for whole tiles: the same instances with the same values, and fewer tests."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from tc.dtypes import INT8, INT32, DType
from tc.ir.evaluate import evaluate
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LT,
    Add,
    And,
    Cast,
    Expr,
    IfThenElse,
    IntImm,
    Load,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Sub,
    Variable,
    imm,
    variables,
    walk,
)
from tc.ir.loops import Block, Compute, For, If, LoopKind, Promote, Stmt, statements
from tc.transforms.loops.unswitch import unswitch

S, V, U = LoopKind.SERIAL, LoopKind.VECTOR, LoopKind.UNROLLED
x, y, k = Variable("x"), Variable("y"), Variable("k")
ONE, OTHER = imm(1, INT32), imm(2, INT32)


def loop(var: Variable, low: Expr | int, high: Expr | int, kind: LoopKind, body: Stmt) -> For:
    low, high = (IntImm(e) if isinstance(e, int) else e for e in (low, high))
    return For(var.name, low, high, 1, kind, body)


def compute(value: Expr, *point: Expr) -> Compute:
    return Compute("S", "O", point, None, value, point, "")


def promoted(s: Stmt) -> Promote:
    return Promote(frozenset("O"), frozenset(), s)


def run(s: Stmt, env: dict[str, int]) -> Iterator[tuple[tuple[int, ...], int]]:
    """What a nest computes, in order."""
    match s:
        case Block():
            for c in s.body:
                yield from run(c, env)
        case For():
            for i in range(evaluate(s.lower, env), evaluate(s.upper, env), s.step):
                yield from run(s.body, {**env, s.var: i})
        case Promote():
            yield from run(s.body, env)
        case If():
            chosen = s.then if evaluate(s.condition, env) else s.otherwise
            if chosen is not None:
                yield from run(chosen, env)
        case Compute():
            yield tuple(evaluate(p, env) for p in s.point), evaluate(s.value, env)
        case _:
            raise AssertionError(s)


def conditions_met(s: Stmt) -> int:
    """How often a nest tests a condition."""

    def count(s: Stmt, env: dict[str, int]) -> int:
        match s:
            case Block():
                return sum(count(c, env) for c in s.body)
            case For():
                points = range(evaluate(s.lower, env), evaluate(s.upper, env), s.step)
                return sum(count(s.body, {**env, s.var: i}) for i in points)
            case Promote():
                return count(s.body, env)
            case If():
                chosen = s.then if evaluate(s.condition, env) else s.otherwise
                return 1 + (0 if chosen is None else count(chosen, env))
            case Compute():
                return sum(isinstance(e, IfThenElse) for e in walk(s.value))
            case _:
                return 0

    return count(s, {})


def triangle(n: int, tile: int) -> Stmt:
    """`for y, x by tile: for k: for lanes: if x <= y: O(y, x) = …`."""
    at = Add(Mul(IntImm(tile), x), Variable("lane"))
    lanes = loop(Variable("lane"), 0, tile, V, If(GE(y, at), compute(ONE, y, at, k)))
    return loop(y, 0, n, S, loop(x, 0, n // tile, S, promoted(loop(k, 0, 50, S, lanes))))


def test_a_triangle_tests_its_tiles() -> None:
    s = triangle(16, 4)
    made = unswitch(s)
    assert list(run(made, {})) == list(run(s, {}))
    diagonal = 16 * 50 * 4 * 3 // 4  # tiles with points on both sides, three rows of each four
    assert conditions_met(s) == 16 * 50 * 16
    assert conditions_met(made) <= diagonal + 2 * 16 * 4
    empty = [x for x in statements(made) if isinstance(x, For) and x.body == Block(())]
    assert not empty


def test_edges_are_split_below_the_loops_that_they_move_with() -> None:
    position = Sub(Add(x, Variable("u")), k)
    inside = And(GE(position, IntImm(0)), LT(position, IntImm(8)))
    point = compute(IfThenElse(inside, ONE, OTHER), x, k, Variable("u"), Variable("f"))
    tile = loop(Variable("f"), 0, 20, S, loop(Variable("u"), 0, 2, U, point))
    s = loop(x, 0, 9, S, promoted(loop(k, 0, 3, S, tile)))
    made = unswitch(s)
    assert list(run(made, {})) == list(run(s, {}))
    (at_x,) = [p for p in statements(made) if isinstance(p, For) and p.var == "k"]
    assert isinstance(at_x.body, If), "tested once for all f and u"
    assert conditions_met(made) < conditions_met(s) // 2


def test_conditions_that_are_alike_on_two_loops_are_tested_once() -> None:
    """Whole vectors and what is left of them run under the same bounds."""

    def lanes(var: str) -> Stmt:
        v = Variable(var)
        return loop(v, 0, 4, V, compute(IfThenElse(GE(Add(x, v), IntImm(3)), ONE, OTHER), x, v))

    s = loop(x, 0, 8, S, promoted(Block((lanes("u"), lanes("w")))))
    made = unswitch(s)
    assert list(run(made, {})) == list(run(s, {}))
    assert sum(isinstance(p, If) for p in statements(made)) == 1


def test_a_condition_that_always_holds_is_removed() -> None:
    s = loop(x, 0, 8, S, loop(y, 0, 4, V, If(LT(Add(x, y), IntImm(11)), compute(ONE, x, y))))
    assert not [p for p in statements(unswitch(s)) if isinstance(p, If)]
    never = loop(x, 0, 8, S, loop(y, 0, 4, V, If(LT(IntImm(20), Add(x, y)), compute(ONE, x, y))))
    assert list(run(unswitch(never), {})) == []


def test_the_bounds_of_a_loop_need_not_be_affine() -> None:
    """Tasks of a chunk: one more of each of the first chunks than of the others."""
    first, last = (Add(c, Min(c, IntImm(2))) for c in (x, Add(x, IntImm(1))))
    inner = loop(k, 0, 4, V, If(LT(Add(y, k), IntImm(8)), compute(ONE, y, k)))
    s = loop(x, 0, 8, S, loop(y, first, last, S, inner))
    made = unswitch(s)
    assert list(run(made, {})) == list(run(s, {}))
    assert conditions_met(made) < conditions_met(s)


def test_conditions_that_may_wrap_around_are_not_moved() -> None:
    """In int8, 100 + 40 is -116: bounds of the sum say nothing about it."""

    def condition(t: DType) -> Expr:
        return LT(Add(Cast(t, Add(x, y)), imm(40, t)), imm(90, t))

    for t, split in ((INT8, False), (INT32, True)):
        s = loop(x, 0, 101, S, loop(y, 0, 4, V, compute(IfThenElse(condition(t), ONE, OTHER), x, y)))
        assert (unswitch(s) != s) == split


def test_data_dependent_conditions_are_not_moved() -> None:
    c = LT(Add(x, Variable("from_data")), IntImm(3))
    s = loop(x, 0, 8, S, loop(y, 0, 4, V, compute(IfThenElse(c, ONE, OTHER), x, y)))
    assert unswitch(s) == s


def test_a_condition_on_data_stays_after_the_statement_that_computes_them() -> None:
    data = LT(Load("t", (x,), INDEX), IntImm(3))
    lanes = loop(y, 0, 4, V, compute(IfThenElse(data, ONE, OTHER), x, y))
    s = loop(x, 0, 8, S, promoted(Block((Compute("T", "t", (x,), None, x, (x,), ""), lanes))))
    assert unswitch(s) == s


def test_a_name_for_the_greater_of_two() -> None:
    """`let n = max(x, 3)`: it is 7 where x is, so the condition does not hold at all points."""
    n, greater = Variable("n"), Max(x, IntImm(3))
    inner = loop(y, 0, 5, V, If(GT(Add(y, IntImm(5)), n), compute(ONE, x, y)))
    s = loop(x, 0, 10, S, loop(n, greater, Add(greater, IntImm(1)), S, loop(k, 0, 2, S, inner)))
    assert list(run(unswitch(s), {})) == list(run(s, {}))


def test_loops_of_the_same_name() -> None:
    """Whole vectors and the rest of them are loops over one variable."""
    u = Variable("u")
    at = Add(y, IntImm(16))
    point = compute(IfThenElse(LT(at, IntImm(22)), ONE, OTHER), at)
    whole = loop(u, 0, 2, U, loop(y, Mul(IntImm(4), u), Add(Mul(IntImm(4), u), IntImm(4)), V, point))
    s = promoted(Block((whole, loop(y, 8, 9, V, point))))
    assert list(run(unswitch(s), {})) == list(run(s, {}))


FORMS = st.builds(
    lambda a, b, c, d: Add(Add(Mul(IntImm(a), x), Mul(IntImm(b), y)), Add(Mul(IntImm(c), k), IntImm(d))),
    *[st.integers(-2, 2)] * 3,
    st.integers(-6, 6),
)
CONDITIONS = st.recursive(
    st.builds(lambda op, a, b: op(a, b), st.sampled_from([LT, GE, EQ]), FORMS, FORMS),
    lambda inner: st.one_of(st.builds(Not, inner), st.builds(And, inner, inner), st.builds(Or, inner, inner)),
    max_leaves=4,
)


@given(first=CONDITIONS, second=CONDITIONS, kinds=st.permutations([S, U, V]), start=st.integers(-2, 2))
def test_random_conditions(first: Expr, second: Expr, kinds: list[LoopKind], start: int) -> None:
    body = Block(
        (
            If(first, compute(IfThenElse(second, ONE, OTHER), x, y, k, IntImm(0))),
            compute(IfThenElse(first, ONE, OTHER), x, y, k, IntImm(1)),
        )
    )
    inner = loop(
        y, Mul(IntImm(2), x), Add(Mul(IntImm(2), x), IntImm(3)), kinds[1], loop(k, 0, 4, kinds[2], body)
    )
    s = loop(x, start, start + 4, kinds[0], Promote(frozenset("O"), frozenset(), inner))
    assert list(run(unswitch(s), {})) == list(run(s, {}))


def test_tiles_of_an_unknown_length() -> None:
    """Products of a tile's number and its length are one term, alike on both sides or not."""
    i, j, tile, other = (Variable(n) for n in ("i", "j", "tile", "other"))
    below = LT(Add(Mul(j, other), y), Add(Mul(i, tile), x))
    columns = loop(y, 0, 4, V, If(below, compute(ONE, x, y)))
    rows = loop(i, 0, 3, S, loop(j, 0, 3, S, loop(x, 0, 2, S, columns)))
    s = loop(tile, Variable("n"), Add(Variable("n"), ONE), S, loop(other, 4, 5, S, rows))
    t = unswitch(s, ("n",))
    tests = [z.condition for z in statements(t) if isinstance(z, If)]
    assert len(tests) == 3 and sum(y.name in variables(c) for c in tests) == 1
    for n in range(6):
        assert list(run(t, {"n": n})) == list(run(s, {"n": n}))
    names = loop(other, Mul(y, y), Add(Mul(y, y), ONE), S, If(LT(other, x), compute(ONE, x, y)))
    varying = loop(x, 0, 3, S, loop(y, 0, 3, V, names))
    assert list(run(unswitch(varying), {})) == list(run(varying, {}))
