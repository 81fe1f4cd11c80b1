"""Index arithmetic of GPU code: quotients without what does not matter, whatever the loops run over."""

from __future__ import annotations

import itertools

import pytest

from tc.dtypes import BOOL, INT32, INT64, DType
from tc.ir.evaluate import evaluate
from tc.ir.expr import Add, Call, Cast, Expr, FloorDiv, FloorMod, IntImm, Load, Mul, Sub, Variable, walk
from tc.ir.loops import Array, Block, Compute, For, Launch, LoopKind, LoopNest, Stmt, statements
from tc.transforms.loops.narrow import narrow

X, Y, Z = Variable("x"), Variable("y"), Variable("z")


def narrowed(e: Expr, **loops: tuple[int, int]) -> Expr:
    """A subscript in loops over these values."""
    body: Stmt = Compute("S", "A", (e,), None, IntImm(0), (), "")
    for v, (low, high) in loops.items():
        body = For(v, IntImm(low), IntImm(high), 1, LoopKind.SERIAL, body)
    a = Array("A", INT64, (IntImm(1 << 20),), "output")
    nest = LoopNest("f", ("A",), ("A",), (), (a,), (), Block((body,)), IntImm(0), ())
    (s,) = (s for s in statements(narrow(nest).body) if isinstance(s, Compute))
    return s.subscripts[0]


@pytest.mark.parametrize("kind", ["threads", "blocks"])
@pytest.mark.parametrize(("count", "dtype"), [(2, INT32), (3, INT64)])
def test_numbers_of_threads_and_blocks_end_one_before_their_count(
    kind: str, count: int, dtype: DType
) -> None:
    """2^30 times 1 has 31 bits, times 2 it has 32."""
    a = Array("A", INT64, (IntImm(1 << 40),), "output")
    body = Compute("S", "A", (Mul(X, IntImm(1 << 30)),), None, IntImm(0), (), "")
    threads, blocks = ((("x", count),), ()) if kind == "threads" else ((), (("x", IntImm(count)),))
    nest = LoopNest("f", ("A",), ("A",), (), (a,), (), Launch("f", blocks, threads, body), IntImm(0), ())
    (s,) = (s for s in statements(narrow(nest).body) if isinstance(s, Compute))
    assert s.subscripts[0].dtype == dtype


def quotient(e: Expr, n: int) -> FloorDiv:
    return FloorDiv(e, IntImm(n))


def parts(e: Expr) -> int:
    return sum(1 for _ in walk(e))


TILE = Add(Mul(X, IntImm(32)), Y)


@pytest.mark.parametrize(
    ("e", "loops", "short"),
    [
        (quotient(TILE, 64), {"x": (0, 9), "y": (0, 32)}, True),
        (quotient(TILE, 64), {"x": (0, 9), "y": (0, 33)}, False),
        (quotient(TILE, 64), {"x": (0, 9), "y": (-1, 32)}, False),
        (quotient(TILE, 64), {"x": (-9, 9), "y": (0, 32)}, True),
        (quotient(TILE, 32), {"x": (-9, 9), "y": (3, 32)}, True),
        (quotient(Add(TILE, IntImm(32)), 64), {"x": (0, 9), "y": (0, 32)}, True),
        (quotient(Add(TILE, IntImm(-1)), 64), {"x": (0, 9), "y": (1, 32)}, True),
        (quotient(Sub(Mul(X, IntImm(32)), Y), 64), {"x": (0, 9), "y": (0, 32)}, False),
        (quotient(Add(TILE, Mul(Z, IntImm(8))), 64), {"x": (0, 5), "y": (0, 8), "z": (0, 4)}, True),
        (Sub(X, Mul(IntImm(2), quotient(TILE, 64))), {"x": (0, 9), "y": (0, 32)}, True),
        (Sub(X, Mul(IntImm(2), quotient(TILE, 64))), {"x": (-9, 9), "y": (0, 32)}, True),
        (Sub(X, Mul(IntImm(2), quotient(TILE, 96))), {"x": (0, 9), "y": (0, 32)}, True),
    ],
)
def test_quotients(e: Expr, loops: dict[str, tuple[int, int]], short: bool) -> None:
    found = narrowed(e, **loops)
    assert (parts(found) < parts(e)) == short
    for point in itertools.product(*(range(low, high) for low, high in loops.values())):
        at = dict(zip(loops, point, strict=True))
        assert value(found, at) == evaluate(e, at)


def value(e: Expr, at: dict[str, int]) -> int:
    """With the quotients and remainders of C, which are of what is not negative."""
    match e:
        case Call():
            a, b = (value(x, at) for x in e.args)
            assert a >= 0
            return a // b if e.name == "/" else a % b
        case Add() | Sub() | Mul() | FloorDiv() | FloorMod():
            a, b = value(e.a, at), value(e.b, at)
            return evaluate(type(e)(IntImm(a), IntImm(b)), {})
        case Variable():
            return at[e.name]
        case Cast():
            return value(e.value, at)
        case IntImm():
            return e.value
        case _:
            raise AssertionError(e)


INTERVALS = [(0, 5), (3, 7), (-7, -2), (-4, 3), (1, 1)]


@pytest.mark.parametrize("division", [FloorDiv, FloorMod])
@pytest.mark.parametrize("divisors", [(1, 4), (2, 3), (-3, -1), (-2, 5)])
def test_values_that_may_not_fit_int32_stay_int64(division: type[Expr], divisors: tuple[int, int]) -> None:
    """Of dividends and divisors of either sign: no value is beyond what is taken for the largest."""
    for low, high in INTERVALS:
        pairs = itertools.product(range(low, high + 1), range(divisors[0], divisors[1] + 1))
        e = division(X, Y)  # type: ignore[call-arg]
        most = max(abs(evaluate(e, {"x": a, "y": b})) for a, b in pairs if b)
        if most:
            large = Mul(e, IntImm(int(INT32.max) // most + 2))
            found = narrowed(large, x=(low, high + 1), y=(divisors[0], divisors[1] + 1))
            assert found.dtype == INT64, (low, high)


def test_a_truth_value_is_either() -> None:
    other = Sub(IntImm(1), Cast(INT64, Load("B", (X,), BOOL)))
    found = narrowed(Mul(Mul(other, IntImm(1 << 30)), IntImm(4)), x=(0, 5))
    assert found.dtype == INT64
