"""The structural verifier: every program and nest of the compiler passes, each kind of damage is named."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import tc
from tc.dtypes import FLOAT32, FLOAT64, INT32
from tc.ir import verify
from tc.ir.expr import INDEX, Add, Call, Cast, Div, Expr, IntImm, Load, Mul, Select, Variable, imm, rebuild
from tc.ir.loops import Block, Compute, For, LoopKind, LoopNest, Sync, statements
from tc.ir.program import Domain, IterVar, Program, Range
from tests.conformance.cases import SEEDS

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
GATHER = "def f(float(N) A, int(M) I) -> (B) { B(i) = A(I(i)) }"


def kernel(source: str, entry: str | None = None) -> tc.Kernel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        return tc.compile(source, "reference", entry)


@pytest.mark.parametrize("case", SEEDS, ids=lambda c: c.name)
def test_programs_of_the_descriptions_are_well_formed(case: Any) -> None:
    """So are their loop nests: every pass of the tests is verified."""
    k = kernel(case.source.replace("{T}", "float32"), case.entry)
    values = {**case.sizes, **{n: int(v) for n, v in case.scalars.items()}}
    known = {*k.front.checked.sizes, *k.front.specialized}
    program = k.program({n: v for n, v in values.items() if n in known})
    assert verify.program(program) == "structure"


def mm() -> Program:
    return kernel(MM).program({"M": 2, "K": 3, "N": 4})


def update(p: Program, **fields: Any) -> Program:
    *before, last = p.stages
    return replace(p, stages=(*before, replace(last, **fields)))


def read(p: Program, change: Callable[[Call], Expr]) -> Program:
    """With another read of A."""

    def visit(e: Expr) -> Expr:
        if isinstance(e, Call) and e.name == "A":
            return change(e)
        return rebuild(e, visit)

    return update(p, value=visit(p.stages[-1].value))


def _variables(p: Program) -> tuple[IterVar, ...]:
    return p.stages[-1].domain.vars


PROGRAMS: dict[str, tuple[Callable[[Program], Program], str]] = {
    "variable": (lambda p: update(p, domain=Domain(_variables(p)[:2])), "the variable k is not defined"),
    "twice": (
        lambda p: update(p, domain=Domain((*_variables(p), _variables(p)[0]))),
        "two variables are named i",
    ),
    "stage twice": (lambda p: replace(p, stages=(*p.stages, p.stages[-1])), "two stages are named S1"),
    "name of a stage": (lambda p: update(p, name="S1.1"), "the name of the stage S1.1 is no identifier"),
    "func": (lambda p: update(p, func="D"), "it defines D, which is no Func"),
    "rank": (
        lambda p: update(p, args=(Variable("i"),)),
        "C has 2 dimensions and is written with 1",
    ),
    "reduction on the left": (
        lambda p: update(p, args=(Variable("i"), Variable("k"))),
        "the variable k is not defined",
    ),
    "read rank": (
        lambda p: read(p, lambda e: replace(e, args=e.args[:1])),
        "A has 2 dimensions and is read",
    ),
    "read type": (
        lambda p: read(p, lambda e: replace(e, dtype=FLOAT64)),
        "A is float32 and is read as float64",
    ),
    "image": (lambda p: read(p, lambda e: replace(e, name="Z")), "Z is read, which is no buffer"),
    "site": (
        lambda p: read(p, lambda e: replace(e, checked=(0,), site=99)),
        "an access of A has the site 99, and there are",
    ),
    "dimension": (
        lambda p: read(p, lambda e: replace(e, checked=(2,), site=0)),
        "a dimension that A does not have is checked",
    ),
    "load": (
        lambda p: read(p, lambda e: Load("A", e.args, e.dtype)),
        "it has a load of A",
    ),
    "operands": (
        lambda p: update(p, value=Add(p.stages[-1].value, imm(1, FLOAT64))),
        "Add of float32 and float64",
    ),
    "condition": (
        lambda p: update(p, value=Select(imm(1, INT32), p.stages[-1].value, p.stages[-1].value)),
        "a condition is int32",
    ),
    "division": (
        lambda p: update(p, value=Cast(FLOAT32, Div(IntImm(1), IntImm(2)))),
        "Div of int64",
    ),
    "subscript": (
        lambda p: read(p, lambda e: replace(e, args=(e.args[0], Cast(FLOAT32, e.args[1])))),
        "a subscript of A is float32",
    ),
    "domain condition": (
        lambda p: update(p, domain=Domain(_variables(p), (Variable("i"),))),
        "a condition of its domain is int64",
    ),
    "value": (lambda p: update(p, op=None, value=imm(1, INT32)), "C is float32, and its value int32"),
    "parameter": (lambda p: replace(p, params=(*p.params, "C")), "the parameter C is no input"),
    "results": (lambda p: replace(p, outputs=()), "its results are , and its output buffers C"),
    "buffer": (
        lambda p: replace(p, funcs=tuple(replace(f, buffer="D") for f in p.funcs)),
        "lives in D, which is no buffer",
    ),
    "box": (
        lambda p: replace(
            p, buffers=tuple(replace(b, box=(Range(Variable("Q"), IntImm(1)),)) for b in p.buffers)
        ),
        "the variable Q is not defined",
    ),
}


@pytest.mark.parametrize("damage", PROGRAMS)
def test_damage_of_a_program_is_named(damage: str) -> None:
    change, message = PROGRAMS[damage]
    verify.program(mm())
    with pytest.raises(tc.InternalError) as caught:
        verify.program(change(mm()))
    assert caught.value.code == "TC0908"
    assert "is malformed: " in caught.value.message and message in caught.value.message


def test_what_the_caller_passes_is_defined() -> None:
    """Also beside a loop, with which a tensor has one version."""
    source = """def f(float(N) x) -> (float(N) y, z) {
      t(i) = y(i)
      y(i) = t(i) * x(i)
      z(0) = 1
      for k in 1:N { z(k) = z(k-1) * 2 }
    }"""
    assert verify.program(kernel(source).program({})) == "structure"


def test_a_func_is_defined_before_it_is_read() -> None:
    p = kernel("def f(float(N) A) -> (B) { t(i) = 2 * A(i)\nB(i) = t(i) }").program({"N": 3})
    verify.program(p)
    with pytest.raises(tc.InternalError, match="S1 reads t before any stage defines it"):
        verify.program(replace(p, stages=tuple(reversed(p.stages))))


# ---- loop nests


def nest() -> LoopNest:
    found: Any = kernel(MM).specialize(M=2, K=3, N=4).compiled
    return found.nest


def within(n: LoopNest, change: Callable[[Any], Any]) -> LoopNest:
    """With every loop and statement changed."""

    def visit(s: Any) -> Any:
        if isinstance(s, Block):
            return Block(tuple(map(visit, s.body)))
        if isinstance(s, For):
            return change(replace(s, body=visit(s.body)))
        return change(s)

    return replace(n, body=visit(n.body))


def of_loops(**fields: Any) -> Callable[[LoopNest], LoopNest]:
    return lambda n: within(n, lambda s: replace(s, **fields) if isinstance(s, For) else s)


def of_statements(**fields: Any) -> Callable[[LoopNest], LoopNest]:
    return lambda n: within(n, lambda s: replace(s, **fields) if isinstance(s, Compute) else s)


NESTS: dict[str, tuple[Callable[[LoopNest], LoopNest], str]] = {
    "kind": (of_loops(kind=LoopKind.VECTOR), "is vector, which the target has not"),
    "hidden": (of_loops(var="i"), "hides another variable of that name"),
    "step": (of_loops(step=0), "has the step 0"),
    "array": (of_statements(buffer="D"), "D is no array"),
    "rank": (of_statements(subscripts=(IntImm(0),)), "C has 2 dimensions and is read with 1 subscripts"),
    "scope": (of_statements(subscripts=(Variable("q"), IntImm(0))), "the variable q is not defined"),
    "value": (of_statements(value=Mul(imm(1, FLOAT32), imm(1, FLOAT64))), "Mul of float32 and float64"),
    "call": (
        of_statements(value=Call("A", (IntImm(0), IntImm(0)), FLOAT32, "image")),
        "reads the Func or image A",
    ),
    "barrier": (lambda n: replace(n, body=Block((n.body, Sync()))), "a barrier is outside of launches"),
    "result": (lambda n: replace(n, outputs=("A",)), "the result A is no output array"),
    "role": (
        lambda n: replace(
            n, arrays=tuple(replace(a, role="elsewhere" if a.name == "A" else a.role) for a in n.arrays)
        ),
        "has the role elsewhere",
    ),
    "workspace": (lambda n: replace(n, workspace=Variable("W", INDEX)), "the variable W is not defined"),
}


@pytest.mark.parametrize("damage", NESTS)
def test_damage_of_a_loop_nest_is_named(damage: str) -> None:
    change, message = NESTS[damage]
    assert any(isinstance(s, For) for s in statements(nest().body))
    verify.loop_nest(nest(), [LoopKind.SERIAL], launches=False)
    with pytest.raises(tc.InternalError) as caught:
        verify.loop_nest(change(nest()), [LoopKind.SERIAL], launches=False)
    assert caught.value.code == "TC0908" and message in caught.value.message, caught.value.message
