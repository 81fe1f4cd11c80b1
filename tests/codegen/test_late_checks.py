"""Checks that a thread notes and reports behind its loops: which are, and that reports are those of checks
that are reported at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tc.codegen import gpu_source
from tc.codegen.dialect import CUDA, OPENCL
from tc.codegen.late_checks import checks_alone, grouped, is_reported_late, reported_at_once
from tc.dtypes import FLOAT32, INT32
from tc.ir.expr import GE, Add, Cast, Expr, FloatImm, IfThenElse, IntImm, Let, Load, Mul, Variable
from tc.ir.loops import Block, Compute, For, If, Launch, LoopKind, LoopNest, Stmt, Sync
from tc.ir.program import Site
from tests.codegen.launches import on_device
from tests.codegen.test_gpu import array, load, loop, nest, ptxas, put
from tests.poly.programs import v

TABLE, OTHER = array("T", FLOAT32, "input", 8), array("U", FLOAT32, "input", 6)
PLACES = array("P", INT32, "input", 4, 5)
RESULT = array("O", FLOAT32, "output", 4)
SUM, KEPT = array("s", FLOAT32, "register", 1), array("p", INT32, "register", 5)
SITES = (Site("T", "T(P(i,k))", ()), Site("U", "U(P(i,k))", ()))
PLACE = load(PLACES, "i", "k")
READ = Load("T", (PLACE,), FLOAT32, checked=(0,), site=0)
ANOTHER = Load("U", (PLACE,), FLOAT32, checked=(0,), site=1)


def added(value: Expr) -> Compute:
    return replace(put(SUM, (0,), value, "+"), point=(v("i"), v("k")))


def assigned(buffer: Any, *subscripts: str | int, value: Expr) -> Compute:
    return put(buffer, subscripts, value)


def over(value: Expr, kind: LoopKind = LoopKind.SERIAL) -> For:
    return loop("k", 5, added(value), kind=kind)


def kernel(*body: Stmt) -> LoopNest:
    """The sums of four threads."""
    whole = Block((put(SUM, (0,), FloatImm(0.0, FLOAT32)), *body, put(RESULT, ("i",), load(SUM, 0))))
    arrays = [TABLE, OTHER, PLACES, RESULT, SUM, KEPT]
    return nest(arrays, Launch("k", (), (("i", 4),), whole), sites=SITES)


# ---- which checks


def test_checks_in_loops_and_several_of_one_statement_are_reported_late() -> None:
    assert is_reported_late(over(READ))
    assert is_reported_late(added(Add(READ, ANOTHER)))
    assert is_reported_late(Block((added(READ), added(ANOTHER))))
    assert is_reported_late(If(GE(v("i"), IntImm(2)), added(READ), added(ANOTHER)))


def test_neighbours_with_checks_are_reported_together() -> None:
    c, other = added(READ), put(SUM, (0,), FloatImm(1.0, FLOAT32))
    assert grouped(Block((other, c, other, c, other))) == (other, Block((c, other, c)), other)
    assert grouped(Block((c, c, Sync(), c, other))) == (Block((c, c)), Sync(), c, other)
    assert grouped(Block((other, Sync(), c, other, Sync()))) == (other, Sync(), c, other, Sync())
    change = put(PLACES, ("i", 0), IntImm(1))
    assert grouped(Block((c, c, change, c, c))) == (Block((c, c)), change, Block((c, c)))
    assert grouped(Block((change, c, c, change))) == (change, Block((c, c)), change)
    assert list(reported_at_once(Block((c, c, Sync(), c, other)))) == [c]


def test_a_single_check_and_none_are_not() -> None:
    assert not is_reported_late(added(READ))
    assert not is_reported_late(Block((put(SUM, (0,), FloatImm(0.0, FLOAT32)), added(READ))))
    assert not is_reported_late(over(load(TABLE, "k")))
    assert list(reported_at_once(Block((added(READ), over(READ))))) == []
    assert list(reported_at_once(Block((over(load(TABLE, "k")), added(READ))))) == [added(READ)]


def test_barriers_are_not_between_a_check_and_its_report() -> None:
    s = loop("j", 2, over(READ), Sync())
    assert not is_reported_late(s)
    assert list(reported_at_once(s)) == []
    s = loop("k", 5, added(READ), Sync())
    assert list(reported_at_once(s)) == [added(READ)]


SCALED = Cast(INT32, Mul(load(TABLE, "k"), FloatImm(2.0, FLOAT32)))


@pytest.mark.parametrize(
    ("before", "value"),
    [
        (put(PLACES, ("i", "k"), IntImm(1)), READ),
        (put(KEPT, ("k",), IntImm(1)), Load("T", (load(KEPT, "k"),), FLOAT32, checked=(0,), site=0)),
        (put(KEPT, (0,), IntImm(1)), IfThenElse(GE(load(KEPT, 0), IntImm(1)), READ, FloatImm(0.0, FLOAT32))),
        (
            put(KEPT, (0,), IntImm(1)),
            Let("x", load(KEPT, 0), Load("T", (Variable("x", INT32),), FLOAT32, checked=(0,), site=0)),
        ),
    ],
    ids=["memory", "registers", "condition", "let"],
)
def test_what_checks_depend_on_is_not_written_before_their_report(before: Stmt, value: Expr) -> None:
    assert is_reported_late(over(value))
    assert not is_reported_late(loop("k", 5, before, added(value)))
    # Where it is written outside, the loop around the checks alone is large enough.
    assert is_reported_late(over(value)) and not is_reported_late(Block((before, over(value), over(value))))


def test_conditions_and_bounds_around_checks_are_not_written_before_their_report() -> None:
    change = put(KEPT, (0,), IntImm(1))
    guarded = If(GE(load(KEPT, 0), IntImm(1)), added(READ))
    assert is_reported_late(loop("k", 5, guarded))
    assert not is_reported_late(loop("k", 5, guarded, change))
    bounded = replace(over(READ), upper=load(KEPT, 0))
    assert is_reported_late(loop("j", 5, bounded))
    assert not is_reported_late(loop("j", 5, bounded, change))
    # No check depends on the bounds of loops without checks.
    unchecked = replace(over(load(TABLE, "k")), upper=load(KEPT, 0))
    assert is_reported_late(Block((over(READ), unchecked, change, over(READ))))


def test_what_is_rounded_again_is_not_checked_again() -> None:
    assert not is_reported_late(over(Load("T", (SCALED,), FLOAT32, checked=(0,), site=0)))
    exact = Cast(INT32, load(OTHER, "k"))
    assert is_reported_late(over(Load("T", (exact,), FLOAT32, checked=(0,), site=0)))


def test_a_check_of_a_value_that_is_not_used_is_reported_at_once() -> None:
    assert not is_reported_late(over(Let("x", READ, load(TABLE, "k"))))


# ---- checks alone


def test_checks_alone_are_loops_that_are_not_unrolled() -> None:
    body = Block((put(KEPT, ("k",), IntImm(1)), added(READ)))
    found = checks_alone(loop("k", 5, body, kind=LoopKind.UNROLLED), frozenset({"s", "p"}))
    assert isinstance(found, For)
    assert (found.kind, found.unroll) == (LoopKind.SERIAL, 1)
    assert found.body == Block((Block((added(READ),)),))


def test_subscripts_of_registers_stay_constants() -> None:
    kept = Load("T", (load(KEPT, "k"),), FLOAT32, checked=(0,), site=0)
    found = checks_alone(over(kept, LoopKind.UNROLLED), frozenset({"s", "p"}))
    assert isinstance(found, For)
    assert (found.kind, found.unroll) == (LoopKind.UNROLLED, 0)
    inner = replace(over(kept, LoopKind.UNROLLED), upper=v("j"))
    found = checks_alone(loop("j", 5, inner, kind=LoopKind.UNROLLED), frozenset({"s", "p"}))
    assert isinstance(found, For)
    assert found.kind is LoopKind.UNROLLED


def test_sides_of_conditions_without_checks_are_left_out() -> None:
    c, other = GE(v("i"), IntImm(2)), put(SUM, (0,), FloatImm(1.0, FLOAT32))
    assert checks_alone(If(c, added(READ), other), frozenset()) == If(c, added(READ))
    assert checks_alone(If(c, other, added(READ)), frozenset()) == If(c, Block(()), added(READ))


# ---- what runs

INSIDE: Any = np.arange(20).reshape(4, 5) % 6
KERNELS: dict[str, LoopNest] = {
    "a loop": kernel(over(READ)),
    "an unrolled loop": kernel(over(READ, LoopKind.UNROLLED)),
    "two in a statement": kernel(over(Add(READ, ANOTHER))),
    "two loops": kernel(over(READ), over(ANOTHER)),
    "through registers": kernel(
        loop("k", 5, put(KEPT, ("k",), PLACE), kind=LoopKind.UNROLLED),
        over(Load("T", (load(KEPT, "k"),), FLOAT32, checked=(0,), site=0), LoopKind.UNROLLED),
    ),
    "made in the same loop": kernel(
        loop(
            "k", 5, put(KEPT, (0,), PLACE), added(Load("T", (load(KEPT, 0),), FLOAT32, checked=(0,), site=0))
        )
    ),
    "where a condition holds": kernel(over(IfThenElse(GE(PLACE, IntImm(0)), READ, FloatImm(0.0, FLOAT32)))),
    "a place of a place": kernel(
        over(
            Load(
                "T",
                (Load("P", (IntImm(0), PLACE), INT32, checked=(1,), site=0),),
                FLOAT32,
                checked=(0,),
                site=0,
            )
        )
    ),
}


@pytest.mark.share(8)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_a_failed_check_is_recorded_as_it_was_made(name: str, backwards: bool) -> None:
    n = KERNELS[name]
    most = 5 if name == "a place of a place" else 6
    values = {"T": np.arange(8) + 1, "U": np.arange(6) + 2, "P": INSIDE % most}
    good = on_device(n, values, backwards=backwards)
    assert good.code == 0
    # The first row has the places of places, which all threads read.
    for at in ((1, 0), (2, 3), (3, 4)):
        for bad in (-1, 8, 1000):
            places = INSIDE % most
            places[at] = bad
            found = on_device(n, {**values, "P": places}, backwards=backwards)
            if name == "where a condition holds" and bad < 0:
                assert found.code == 0
                continue
            assert found.code == 1
            assert found.error[:6].tolist() == [1, bad, 2, *at, 1 if name == "a place of a place" else 0]


def test_of_several_failed_checks_of_a_thread_the_first_is_recorded() -> None:
    places = INSIDE.copy()
    places[1, 2:] = (6, -5, 9)
    values = {"T": np.arange(8), "U": np.arange(6), "P": places}
    found = on_device(KERNELS["two in a statement"], values)
    assert found.error[:6].tolist() == [2, 6, 2, 1, 2, 0]  # 6 is inside T, and outside U


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_keep_their_values_in_registers(name: str) -> None:
    ptxas(KERNELS[name])


@pytest.mark.parametrize("dialect", [CUDA, OPENCL])
def test_loads_of_arrays_that_may_be_empty_depend_on_their_check(dialect: Any) -> None:
    n = KERNELS["a loop"]
    assert "T[inside ? at : 0]" in gpu_source.emit(n, dialect).text
    empty = replace(n, arrays=(replace(TABLE, shape=(IntImm(0),)), *n.arrays[1:]))
    assert "(inside ? T[at] : 0)" in gpu_source.emit(empty, dialect).text
