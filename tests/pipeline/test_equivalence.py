"""The oracle of passes over programs: equal programs pass, others are told from them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest

import tc
from tc.ir.expr import (
    Add,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Min,
    Mul,
    UIntImm,
    Variable,
    imm,
    rebuild,
    substitute,
)
from tc.ir.program import Domain, Program
from tc.pipeline import equivalence
from tc.pipeline.equivalence import same_results

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
SOFTMAX = """def softmax(float(N,D) I) -> (O) {
  m(n) max=! I(n,d)
  O(n,d) = exp(I(n,d) - m(n))
  s(n) +=! O(n,d)
  O(n,d) = O(n,d) / s(n)
}"""


def program(source: str, **sizes: int) -> Program:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        return tc.compile(source, "reference").program(sizes)


def changed(p: Program, stage: int, **fields: Any) -> Program:
    stages = list(p.stages)
    stages[stage] = replace(stages[stage], **fields)
    return replace(p, stages=tuple(stages))


def test_unchanged_programs_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equivalence, "_kernel", lambda *_: pytest.fail("it is run"))
    p = program(MM, M=2, K=3, N=4)
    assert same_results(p, p) == "" == same_results(p, replace(p))


def test_reordered_loops_are_the_same() -> None:
    p = program("def f(float(N,M,K) A) -> (s) { s(n) +=! A(n,i,j) }", N=3, M=40, K=50)
    domain = p.stages[-1].domain
    first, *rest = domain.vars
    assert same_results(p, changed(p, -1, domain=Domain((first, *reversed(rest))))) == "reference"


@pytest.mark.parametrize("t", ["float", "double", "half", "bfloat16", "int8", "uint16", "int64"])
def test_a_factor_is_noticed_in_every_type(t: str) -> None:
    p = program(f"def f({t}(N) A) -> (B) {{ B(i) = A(i) * 3 }}", N=5)

    def doubled(e: Expr) -> Expr:
        if isinstance(e, IntImm | UIntImm | FloatImm):
            return imm(2 * e.value, e.dtype)
        return rebuild(e, doubled)

    with pytest.raises(tc.InternalError, match="5 of 5 elements of B differ") as caught:
        same_results(p, changed(p, -1, value=doubled(p.stages[-1].value)))
    assert caught.value.code == "TC0909"


def test_a_shifted_subscript_is_noticed() -> None:
    p = program("def f(float(N) A) -> (B) { B(i) = A(i+1) where i in 0:N-1 }", N=9)

    def shifted(e: Expr) -> Expr:
        if isinstance(e, Call):
            return replace(e, args=(Variable("i"),))
        return rebuild(e, shifted)

    with pytest.raises(tc.InternalError, match="elements of B differ"):
        same_results(p, changed(p, -1, value=shifted(p.stages[-1].value)))


@pytest.mark.parametrize("op", ["min", "max", "*", "+"])
def test_a_wrong_neutral_element_is_noticed(op: str) -> None:
    """Of extrema it shows in data of one sign alone."""
    p = program(f"def f(float(N,M) A) -> (s) {{ s(i) {op}=! A(i,j) }}", N=3, M=4)
    start = p.stages[0]
    assert start.init
    other = imm(1 if op == "+" else 0, start.value.dtype)
    with pytest.raises(tc.InternalError, match="elements of s differ"):
        same_results(p, changed(p, 0, value=other))


def test_a_lost_instance_is_noticed_at_dynamic_sizes() -> None:
    p = program(MM)
    assert p.sizes == ("M", "K", "N")
    update = p.stages[-1]
    i, j, k = update.domain.vars
    short = replace(k, range=replace(k.range, extent=Add(k.range.extent, IntImm(-1))))
    with pytest.raises(tc.InternalError, match=r"for M = 5, K = 7, N = 9"):
        same_results(p, changed(p, -1, domain=Domain((i, j, short))))
    assert same_results(p, changed(p, -1, domain=Domain((j, i, k)))) == "reference"


def test_an_instance_that_is_lost_at_large_sizes_alone_is_noticed() -> None:
    p = program("def f(float(N) A) -> (B) { B(i) = A(i) }")
    only = p.stages[-1].domain.vars[0]
    at_most = Min(only.range.extent, IntImm(30))
    with pytest.raises(tc.InternalError, match=r"for N = 37"):
        same_results(
            p, changed(p, -1, domain=Domain((replace(only, range=replace(only.range, extent=at_most)),)))
        )


def test_a_check_that_is_lost_is_noticed() -> None:
    p = program("def f(float(N) A, int(M) I) -> (B) { B(i) = A(I(i)) }", N=2, M=5)

    def unchecked(e: Expr) -> Expr:
        e = rebuild(e, unchecked)
        return replace(e, checked=()) if isinstance(e, Call) else e

    with pytest.raises(tc.InternalError, match="a checked subscript is out of range only before it"):
        same_results(p, changed(p, -1, value=unchecked(p.stages[-1].value)))


def test_rounding_of_reassociated_sums_is_no_difference() -> None:
    p = program(SOFTMAX, N=3, D=1000)
    total = next(k for k, s in enumerate(p.stages) if s.op == "+")
    stage = p.stages[total]
    n, d = stage.domain.vars
    back = {d.name: Add(Mul(IntImm(-1), Variable(d.name)), IntImm(999))}
    other = changed(p, total, value=substitute(stage.value, dict(back)))
    assert other != p and n != d
    assert same_results(p, other) == "reference"


def test_large_programs_are_left_alone() -> None:
    p = program(MM, M=4000, K=4000, N=4000)
    value = p.stages[-1].value
    told = same_results(p, changed(p, -1, value=Cast(value.dtype, Add(value, value))))
    assert told == "reference (too large to run)"
