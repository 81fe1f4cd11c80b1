"""The trace oracle accepts correct loop nests and finds each kind of error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tc.dtypes import FLOAT32, INT8, INT32, UINT8, UINT64, DType
from tc.errors import InternalError
from tc.ir.evaluate import evaluate
from tc.ir.expr import (
    INDEX,
    LT,
    Add,
    And,
    Cast,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Load,
    Sub,
    Variable,
    imm,
    rebuild,
    walk,
)
from tc.ir.loops import Array, Block, Compute, For, If, Launch, LoopKind, LoopNest, Promote, Stmt
from tc.ir.program import Program
from tc.ir.specialize import specialize
from tc.poly import ast, loop_nest, schedule, scop, trace
from tc.poly.context import isl_context
from tc.poly.gpu.mapping import AxisMap, NestMap, RegionMap
from tc.poly.trace.events import ANY_INDEX, known_value, python
from tc.poly.trace.program_events import program_events
from tests.ir import expressions
from tests.poly import fused, programs
from tests.poly.programs import Build, axis, box, v
from tests.poly.test_mapping import launched, polyhedra
from tests.share import examples


def nest_of(p: Program) -> LoopNest:
    with isl_context():
        s = scop.build(p)
        return loop_nest.assemble(p, ast.loops(s, schedule.identity(s)))


def edit(s: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """A nest with `change` applied to each statement, innermost first."""
    match s:
        case Block():
            s = Block(tuple(edit(c, change) for c in s.body))
        case For():
            s = replace(s, body=edit(s.body, change))
        case Launch():
            s = replace(s, body=edit(s.body, change))
        case If():
            s = replace(s, then=edit(s.then, change))
        case _:
            pass
    return change(s)


MATMUL = specialize(programs.matmul(), {"M": 2, "N": 3, "K": 2})


def broken(change: Callable[[Stmt], Stmt], program: Program = MATMUL) -> str | None:
    n = nest_of(program)
    assert trace.compare(program, n, {}) is None
    return trace.compare(program, replace(n, body=edit(n.body, change)), {})


def loop(name: str, **changes: object) -> Callable[[Stmt], Stmt]:
    return lambda s: replace(s, **changes) if isinstance(s, For) and s.var == name else s  # type: ignore[arg-type]


def compute(stage: str, change: Callable[[Compute], Compute]) -> Callable[[Stmt], Stmt]:
    return lambda s: change(s) if isinstance(s, Compute) and s.stage == stage else s


def subscripts(e: Expr, change: Callable[[Expr], Expr], buffer: str) -> Expr:
    e = rebuild(e, lambda c: subscripts(c, change, buffer))
    if isinstance(e, Load) and e.buffer == buffer:
        return replace(e, subscripts=tuple(change(s) for s in e.subscripts))
    return e


def test_a_lost_iteration_is_found() -> None:
    assert broken(loop("k", upper=IntImm(1))) == "S1(0, 0, 1) does not run"


def test_an_extra_iteration_is_found() -> None:
    found = broken(loop("k", upper=IntImm(3)))
    assert found == "S1(0, 0, 2) accesses A at 2 in dimension 1, whose extent is 2"
    assert broken(loop("k", lower=IntImm(-1))) is not None


def test_an_instance_that_runs_twice_is_found() -> None:
    def twice(s: Stmt) -> Stmt:
        return Block((s, s)) if isinstance(s, Compute) and s.stage == "S0" else s

    assert broken(twice) == "S0(0, 0) runs twice"


def test_an_instance_with_a_wrong_name_is_found() -> None:
    change = compute("S1", lambda c: replace(c, point=(c.point[0], c.point[1], Add(c.point[2], IntImm(7)))))
    assert broken(change) == "S1(0, 0, 7) runs, which the program does not have"


def test_statements_in_the_wrong_order_are_found() -> None:
    n = nest_of(MATMUL)
    assert isinstance(n.body, Block)
    swapped = replace(n, body=Block(tuple(reversed(n.body.body))))
    assert (
        trace.compare(MATMUL, swapped, {})
        == "S1(0, 0, 0) runs before S0(0, 0), which comes first and shares ('C', (0, 0))"
    )
    with pytest.raises(InternalError, match="the loop nest of mm is wrong") as caught:
        trace.verify(MATMUL, swapped, {})
    assert caught.value.code == "TC0905"


def renamed(e: Expr, name: str, to: Expr) -> Expr:
    return to if e == Variable(name) else rebuild(e, lambda c: renamed(c, name, to))


def test_a_reduction_may_run_in_any_order() -> None:
    last = Sub(IntImm(1), Variable("k"))

    def backwards(c: Compute) -> Compute:
        return replace(c, point=(*c.point[:2], last), value=renamed(c.value, "k", last))

    assert broken(compute("S1", backwards)) is None


def test_a_read_of_another_element_is_found() -> None:
    def other(c: Compute) -> Compute:
        return replace(c, value=subscripts(c.value, lambda s: IntImm(0), "B"))

    assert broken(compute("S1", other)) in (
        "S1(0, 0, 1) reads ('B', (0, 0))",
        "S1(0, 1, 0) reads ('B', (0, 0))",
        "S1(0, 1, 0) does not read ('B', (0, 1))",
    )


def test_a_write_of_another_element_is_found() -> None:
    change = compute("S0", lambda c: replace(c, subscripts=(c.subscripts[0], IntImm(0))))
    assert broken(change) == "S0(0, 1) writes ('C', (0, 0)) and should write ('C', (0, 1))"
    change = compute("S1", lambda c: replace(c, op=None))
    assert "should write" in (broken(change) or "")


def test_an_access_out_of_bounds_is_found() -> None:
    change = compute("S0", lambda c: replace(c, subscripts=(c.subscripts[0], IntImm(-1))))
    assert broken(change) == "S0(0, 0) accesses C at -1 in dimension 1, whose extent is 3"


def test_races_of_parallel_loops_are_found() -> None:
    assert broken(loop("i", kind=LoopKind.PARALLEL)) is None
    assert broken(loop("j", kind=LoopKind.VECTOR)) is None
    found = broken(loop("k", kind=LoopKind.PARALLEL))
    assert found == "S1(0, 0, 0) and S1(0, 0, 1) write ('C', (0, 0)) in parallel"


def test_an_in_place_stencil_in_parallel_is_a_race() -> None:
    b = Build("shift", "N")
    b.tensor("a", FLOAT32, *box(Add(v("N"), IntImm(1))), inout=True)
    b.tensor("o", FLOAT32, *box("N"))
    old = b.read("a", Add(v("i"), IntImm(1)))
    b.stage("o", ("i",), None, old, axis("i", 0, "N"))
    b.version("a")
    b.stage("a", ("i",), None, FloatImm(0.0, FLOAT32), axis("i", 0, "N"))
    p = specialize(b.done(), {"N": 3})
    n = nest_of(p)
    assert isinstance(n.body, Block)
    first, second = (s.body for s in n.body.body if isinstance(s, For))
    loops = For("i", IntImm(0), IntImm(3), 1, LoopKind.SERIAL, Block((first, second)))
    assert trace.compare(p, replace(n, body=loops), {}) is None  # reads a(i + 1), then sets a(i)
    found = trace.compare(p, replace(n, body=replace(loops, kind=LoopKind.PARALLEL)), {})
    assert found == "S1(1) writes ('a', (1,)) in parallel with S0(0), which reads it"


def test_data_dependent_guards_have_both_outcomes() -> None:
    """Under a guard on data t(i) may be read; a data-dependent subscript may have any value, which one
    element represents in an array that is not written."""
    b = Build("data", "N")
    b.input("p", INT32, "N")
    b.input("t", FLOAT32, "N")
    b.tensor("o", FLOAT32, *box("N"))
    at = Cast(INDEX, b.read("p", "i"))
    guard = LT(b.read("p", "i"), b.read("p", 0))
    value = IfThenElse(guard, b.read("t", at, checked=(0,)), b.read("t", "i"))
    b.stage("o", ("i",), None, value, axis("i", 0, "N"))
    p = specialize(b.done(), {"N": 3})
    events = list(program_events(p, {}))
    somewhere = ANY_INDEX
    assert {c for c in events[1].reads if c[0] == "t"} == {("t", (k,)) for k in (1, somewhere)}
    assert trace.compare(p, nest_of(p), {}) is None


def test_data_dependent_subscripts_of_written_arrays_access_all_elements() -> None:
    b = Build("data", "N")
    b.input("p", INT32, "N")
    b.tensor("t", FLOAT32, *box("N"))
    b.tensor("o", FLOAT32, *box("N"))
    b.stage("t", ("i",), None, FloatImm(0.0, FLOAT32), axis("i", 0, "N"))
    value = b.read("t", Cast(INDEX, b.read("p", "i")), checked=(0,))
    b.stage("o", ("i",), None, value, axis("i", 0, "N"))
    p = specialize(b.done(), {"N": 3})
    events = list(program_events(p, {}))
    assert {c for c in events[4].reads if c[0] == "t"} == {("t", (k,)) for k in range(3)}
    n = nest_of(p)
    assert trace.compare(p, n, {}) is None
    assert isinstance(n.body, Block)
    found = trace.compare(p, replace(n, body=Block(n.body.body[::-1])), {})
    assert found is not None and "runs before" in found


def test_guards_on_indices_are_evaluated() -> None:
    p = specialize(programs.padded(), {"N": 2})
    events = list(program_events(p, {}))
    assert [sorted(e.reads) for e in events] == [[], [("X", (0,))], [("X", (1,))], []]
    n = nest_of(p)

    def unguarded(c: Compute) -> Compute:
        assert isinstance(c.value, IfThenElse)
        return replace(c, value=c.value.then_value)

    found = trace.compare(p, replace(n, body=edit(n.body, compute("S0", unguarded))), {})
    assert found == "S0(0) accesses X at -1 in dimension 0, whose extent is 2"


@given(expressions.affine("ij") | expressions.conditions("ij"), st.integers(-9, 9), st.integers(-9, 9))
def test_expressions_of_indices_are_evaluated(e: Expr, i: int, j: int) -> None:
    at = {"i": i, "j": j}
    assert known_value(e, at) == evaluate(e, at)
    shown = python(e)
    assert shown is not None
    assert known_value(e, {"i": i}) in (None, evaluate(e, at))


_TYPED = {t: expressions.typed(t, "ij") for t in (INT8, UINT8, INT32, UINT64)}


@pytest.mark.parametrize("dtype", _TYPED, ids=str)
@given(st.data())
@settings(max_examples=examples(100, 6))
def test_integers_wrap(dtype: DType, data: st.DataObject) -> None:
    """Arithmetic of narrow and of unsigned types, without and with text of Python."""
    e = data.draw(_TYPED[dtype])
    at = {n: data.draw(st.integers(max(-9, int(dtype.min)), 9)) for n in "ij"}
    value = expressions.value(e, at)
    possible = [None, value] if any(x.dtype.is_float for x in walk(e)) else [value]
    assert known_value(e, at) in possible
    assert known_value(Cast(INDEX, e), at) in possible


def test_partly_data_dependent_expressions_are_evaluated() -> None:
    data, never = LT(Variable("x"), IntImm(3)), LT(IntImm(1), IntImm(0))
    assert known_value(And(data, never), {}) == 0
    assert known_value(data, {}) is None
    wrapping = Add(Cast(INT32, Variable("i")), imm(2**31 - 1, INT32))
    assert known_value(wrapping, {"i": 1}) == -(2**31)
    assert known_value(Sub(Cast(UINT8, Variable("i")), imm(9, UINT8)), {"i": 8}) == 255
    assert known_value(FloorDiv(Variable("i"), Variable("j")), {"i": 7, "j": 0}) == 0
    assert known_value(Sub(Variable("x"), Variable("x")), {}) == 0
    element = Load("A", (Variable("i"),), INT32)
    assert known_value(Cast(INDEX, element), {"i": 1}) is None


def total() -> Program:
    b = Build("total", "N")
    b.input("x", FLOAT32, "N")
    b.tensor("s", FLOAT32)
    b.reduce("s", (), "+", b.read("x", "k"), axis("k", 0, "N", True))
    return specialize(b.done(), {"N": 4})


def test_errors_of_partial_results_are_found() -> None:
    """`s` in two lanes: S0, lanes set to 0, S1 into the lanes, the lanes into `s`."""
    p = total()
    n = nest_of(p)
    assert isinstance(n.body, Block)
    first, update = n.body.body
    lane, part = Variable("lane"), Array("part", FLOAT32, (IntImm(2),), "register", partial_of="s")

    def in_lanes(s: Stmt) -> Stmt:
        return For("lane", IntImm(0), IntImm(2), 1, LoopKind.VECTOR, s)

    def into_lanes(c: Compute) -> Compute:
        return replace(c, buffer="part", subscripts=(FloorMod(Variable("k"), IntImm(2)),))

    zero = in_lanes(Compute("S1.partial", "part", (lane,), None, FloatImm(0.0, FLOAT32), (), ""))
    added = edit(update, compute("S1", into_lanes))
    out = in_lanes(Compute("S1.partial", "s", (), "+", Load("part", (lane,), FLOAT32), (), ""))
    n = replace(n, arrays=(*n.arrays, part))

    def found(*parts: Stmt) -> str | None:
        return trace.compare(p, replace(n, body=Block(parts)), {})

    assert found(first, zero, added, out) is None
    assert (
        found(first, added, out) == "S1(0) uses the partial result ('part', (0,)), which has no first value"
    )
    assert found(first, zero, added) == "S1(0) went into the partial result ('part', (0,)), which is lost"
    assert found(first, zero, added, zero, out) == found(first, zero, added)
    assert "has no first value" in (found(first, zero, added, out, out) or "")


def test_padding_may_contribute_only_to_unused_sums() -> None:
    """Threads accumulate separate sums at all points of a square, and use those of the triangle."""
    p, s, regions = polyhedra(fused.SYRK, N=2, K=2)
    axes = {a.name: AxisMap(0, None, 1, f"t{i}", 2) for i, a in enumerate(regions[0].nests[0].axes)}
    how = RegionMap((), (("t0", 2), ("t1", 2)), (NestMap(axes, ({}, {"k_2": AxisMap()})),))
    n = launched(p, s, regions, [how], 1 << 12)
    assert trace.compare(p, n, {}) is None

    def unmasked(c: Stmt) -> Stmt:
        return c.then if isinstance(c, If) and isinstance(c.then, Compute) and not c.then.stage else c

    wrong = replace(n, body=edit(n.body, unmasked))
    assert trace.compare(p, wrong, {}) == "S1(0, 1, 0), which the program does not have, is in a result"


def passed_on() -> Program:
    b = Build("passed_on", "N")
    b.input("x", FLOAT32, "N")
    b.tensor("t", FLOAT32, *box("N"), role="temporary")
    b.tensor("o", FLOAT32, *box("N"))
    b.stage("t", ("i",), None, b.read("x", "i"), axis("i", 0, "N"))
    b.stage("o", ("i",), None, b.read("t", "i"), axis("i", 0, "N"))
    return specialize(b.done(), {"N": 3})


def test_a_stale_pack_is_found() -> None:
    p = passed_on()
    n = nest_of(p)
    assert isinstance(n.body, Block)
    first, second = n.body.body
    i = Variable("i")
    copy: Stmt = Compute("S1.pack", "pack", (i,), None, Load("t", (i,), FLOAT32), (i,), "")
    copy = For("i", IntImm(0), IntImm(3), 1, LoopKind.SERIAL, copy)

    def from_pack(e: Expr) -> Expr:
        return replace(e, buffer="pack") if isinstance(e, Load) else rebuild(e, from_pack)

    second = edit(second, compute("S1", lambda c: replace(c, value=from_pack(c.value))))
    n = replace(n, arrays=(*n.arrays, Array("pack", FLOAT32, (IntImm(3),), "private", IntImm(64))))
    assert trace.compare(p, replace(n, body=Block((first, copy, second))), {}) is None
    found = trace.compare(p, replace(n, body=Block((copy, first, second))), {})
    assert found == "S1(0) reads ('pack', (0,))"


def test_a_value_lost_with_registers_is_found() -> None:
    p = passed_on()
    n = nest_of(p)
    assert isinstance(n.body, Block)
    first, second = n.body.body
    both = frozenset(["t"])

    def found(body: Stmt) -> str | None:
        return trace.compare(p, replace(n, body=body), {})

    assert found(Promote(both, both, n.body)) is None
    assert found(Block((Promote(both, frozenset(), first), second))) is None
    problem = "S1(0) reads ('t', (0,)), which was in registers and not stored"
    assert found(Block((Promote(both, both, first), second))) == problem
    assert found(Block((Promote(both, both, first), Promote(both, both, second)))) == problem


def test_placement_is_checked_at_all_sizes() -> None:
    p = specialize(programs.matmul(), {"M": 200, "N": 3, "K": 2})
    n = nest_of(p)
    trace.verify_small(p, n, 10)
    far = Array("far", FLOAT32, (IntImm(3),), "temporary", IntImm(64))
    body = Block((n.body, Compute("S0", "far", (IntImm(0),), None, FloatImm(0.0, FLOAT32), (), "")))
    with pytest.raises(InternalError, match="'far' ends at 76, the workspace at 0") as caught:
        trace.verify_small(p, replace(n, body=body, arrays=(*n.arrays, far)), 10)
    assert caught.value.code == "TC0905"
