"""Products in the order of loops."""

from __future__ import annotations

from tc.dtypes import FLOAT32, INT32
from tc.ir.expr import Add, Expr, FloatImm, IntImm, Load, Mul, Variable
from tc.ir.loops import Compute, For, LoopKind, Stmt
from tc.transforms.loops.reassociate import reassociate


def read(name: str, *names: str) -> Load:
    return Load(name, tuple(map(Variable, names)), FLOAT32)


X, B, C = read("X", "i", "j", "k"), read("B", "j", "r"), read("C", "k", "r")


def nest(value: Expr, vector: str = "r") -> Stmt:
    s: Stmt = Compute("S", "O", (), "+", value, (), "")
    for v in ("r", "i", "k", "j"):
        kind = LoopKind.VECTOR if v == vector else LoopKind.SERIAL
        s = For(v, IntImm(0), IntImm(4), 1, kind, s)
    return s


def value(s: Stmt) -> Expr:
    while isinstance(s, For):
        s = s.body
    assert isinstance(s, Compute)
    return s.value


def test_factors_of_outer_loops_first() -> None:
    assert value(reassociate(nest(Mul(Mul(X, B), C)))) == Mul(Mul(B, C), X)
    assert value(reassociate(nest(Mul(X, Mul(C, B))))) == Mul(Mul(B, C), X)


def test_equal_depths_keep_their_order() -> None:
    assert value(reassociate(nest(Mul(Mul(B, X), read("Y", "i"))))) == Mul(Mul(B, X), read("Y", "i"))


def test_products_inside_of_sums() -> None:
    one = FloatImm(1.0, FLOAT32)
    assert value(reassociate(nest(Add(Mul(Mul(X, C), one), B)))) == Add(Mul(Mul(one, C), X), B)


def test_integers_are_left_alone() -> None:
    i, j = (Load(n, (Variable(n),), INT32) for n in ("i", "j"))
    assert value(reassociate(nest(Mul(i, j)))) == Mul(i, j)
