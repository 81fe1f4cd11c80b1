"""In-place updates, undefined elements, accesses out of bounds."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import tc
from tc.dtypes import FLOAT32, INT32
from tc.errors import SemanticError, Source
from tc.ir.expr import (
    GE,
    INDEX,
    LE,
    LT,
    Add,
    Cast,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
)  # fmt: skip
from tc.ir.printer import compile_python, text
from tc.ir.program import Program
from tc.pipeline import front
from tc.poly.checks import Bounds, in_place, out_of_bounds, undefined
from tc.poly.context import isl_context
from tc.poly.scop import build
from tests.poly import programs
from tests.poly.programs import Build, axis, box, v

ONE = FloatImm(1.0, FLOAT32)


def update(
    args: tuple[str, ...],
    subscripts: tuple[Expr, ...],
    *axes: object,
    op: str | None = None,
    init: bool = False,
) -> Program:
    """A square in/out tensor `a` updated from itself."""
    b = Build("update", "N")
    b.input("p", INT32, "N")
    b.tensor("a", FLOAT32, *box(*("N" for _ in args)), inout=True)
    old = b.read("a", *subscripts)
    b.version("a")
    if init:
        b.stage("a", args, None, FloatImm(0.0, FLOAT32), *axes, init=True)  # type: ignore[arg-type]
    b.stage("a", args, op, Mul(old, ONE), *axes)  # type: ignore[arg-type]
    return b.done()


ROW, COLUMN, SUM = axis("i", 0, "N"), axis("j", 0, "N"), axis("k", 0, "N", True)


@pytest.mark.parametrize(
    "p",
    [
        update(("i",), (v("i"),), ROW),
        update(("i", "j"), (v("i"), v("j")), ROW, COLUMN),
        update(("i",), (Add(v("i"), IntImm(10)),), axis("i", 0, 10)),
        update(("i",), (v("i"),), ROW, op="+"),
        update(("i",), (Add(v("i"), v("N")),), ROW),
    ],
    ids=["itself", "itself 2-D", "a(i+10), i < 10", "a(i) += a(i)", "a(i+N)"],
)
def test_in_place_updates_of_own_elements_are_accepted(p: Program) -> None:
    with isl_context():
        in_place(build(p))


@pytest.mark.parametrize(
    ("p", "example"),
    [
        (
            update(("i", "j"), (v("j"), v("i")), ROW, COLUMN),
            "at i = 0, j = 1 reads an element, which the one at i = 1, j = 0 writes for N = 2",
        ),
        (
            update(("i",), (Add(v("i"), IntImm(10)),), axis("i", 0, 11)),
            "at i = 0 reads an element, which the one at i = 10",
        ),
        (
            update(("i",), (v("i"),), ROW, SUM, op="+"),
            "i = 0, k = 0 reads an element, which the one at i = 0, k = 1 writes",
        ),
        (
            update(("i",), (v("i"),), ROW, op="+", init=True),
            "at i = 0 reads an element, which the initialisation overwrites",
        ),
        (
            update(("i",), (FloorDiv(v("i"), IntImm(2)),), ROW),
            "at i = 1 reads an element, which the one at i = 0 writes",
        ),
    ],
    ids=["transpose", "overlap", "C(i) += C(i)*A(i,k)", "+=! of itself", "a(i/2)"],
)
def test_in_place_updates_that_read_overwritten_elements_are_rejected(p: Program, example: str) -> None:
    with isl_context(), pytest.raises(SemanticError) as caught:
        in_place(build(p))
    assert caught.value.code == "TC0227"
    assert example in (caught.value.help or "")


@pytest.mark.parametrize(
    ("source", "loop"),
    [
        ("y(i) = x(i) y(i) = y(i-1) + x(i) where i in 1:N", "for i in 1:N { y(i) = … }"),
        ("y(i) = x(i) y(i) += y(i-k-1) * x(k) where i in 3:N, k in 0:3", "for i in 3:N { y(i) += … }"),
        (
            "y(i,j) = x(i) y(i,j) = y(i-1,j+1) * y(i-1,j-1) where i in 1:N, j in 1:N-1",
            "for i in 1:N { y(i, j) = … }",
        ),
        (
            "y(i,j) = x(i) y(i,j) = y(i-1,j) * y(i,j-1) where i in 1:N, j in 2:N",
            "for i in 1:N { for j in 2:N { y(i, j) = … } }",
        ),
        ("y(i) = x(i) y(i) = y(i+1) + x(i) where i in 0:N-1", ""),
        ("y(i) = x(i) y(i) = y(i-1) + y(i+1) where i in 1:N-1", ""),
        ("y(i,j) = x(i) where j in 0:N y(i,j) = y(j,i)", ""),
    ],
)
def test_a_recurrence_is_told_to_be_a_loop(source: str, loop: str) -> None:
    with pytest.raises(SemanticError) as caught:
        tc.compile(f"def f(float(N) x) -> (y) {{ {source} }}")
    help = caught.value.help or ""
    assert caught.value.code == "TC0227" and "write to another tensor, and copy it to 'y'" in help
    assert (f"write a loop: {loop}; else" in help) if loop else "loop" not in help


def test_a_data_dependent_read_of_the_written_tensor_is_rejected() -> None:
    b = Build("scatter", "N")
    b.input("p", INT32, "N")
    b.tensor("a", FLOAT32, *box("N"), inout=True)
    old = b.read("a", Cast(INDEX, b.read("p", "i")))
    b.version("a")
    b.stage("a", ("i",), None, old, ROW)
    with isl_context(), pytest.raises(SemanticError, match="depends on data") as caught:
        in_place(build(b.done()))
    assert caught.value.code == "TC0226"


@pytest.mark.parametrize(
    ("statement", "legal"),
    [
        ("y(t+1,i) = y(t,p(i)) + x(t) where i in 0:N", True),
        ("y(t+1,i) = t > 0 ? y(t-1,p(i)) + y(t,i) : x(t) where i in 0:N", True),
        ("y(t+1,i) = y(t+1,p(i)) + x(t) where i in 0:N", False),
        ("y(t+1,i) = y(x(t),i) where i in 0:N", False),
        ("y(t+1,i) = y(t+i/2,p(i)) + x(t) where i in 0:N", False),
    ],
)
def test_data_decide_which_element_of_another_row_is_read(statement: str, legal: bool) -> None:
    source = f"def f(int(N) p, int(T) x) -> (y) {{ y(0,i) = p(i) for t in 0:T {{ {statement} }} }}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        if legal:
            tc.compile(source)
            return
        with pytest.raises(SemanticError, match="depends on data") as caught:
            tc.compile(source)
    assert caught.value.code == "TC0226"


def pieces(*stages: tuple[tuple[Expr, ...], str | None], inout: bool = False, read: bool = False) -> Program:
    """Stages of a tensor `a` of N elements, each under conditions on i, then perhaps a read of all of it."""
    b = Build("pieces", "N")
    b.tensor("a", FLOAT32, *box("N"), inout=inout)
    for conditions, op in stages:
        b.stage("a", ("i",), op, ONE, ROW, conditions=conditions)
    if read:
        b.tensor("o", FLOAT32, *box("N"))
        b.stage("o", ("i",), None, b.read("a", "i"), ROW)
    return b.done()


LOW, HIGH = LT(v("i"), IntImm(3)), GE(v("i"), IntImm(3))


@pytest.mark.parametrize(
    "p",
    [
        pieces(((), None)),
        pieces(((LOW,), None), ((HIGH,), None), read=True),
        pieces(((LOW,), None), inout=True, read=True),
        pieces(((), None), ((LOW,), "+"), read=True),
        programs.triangle(),
        programs.shifted(),
    ],
    ids=["whole", "two halves", "inout", "updated", "triangle", "shifted"],
)
def test_fully_defined_tensors_are_accepted(p: Program) -> None:
    with isl_context():
        undefined(build(p))


@pytest.mark.parametrize(
    ("p", "message"),
    [
        (pieces(((LOW,), None)), "no statement defines a(3)"),
        (pieces(((LE(v("i"), IntImm(1)),), None), ((HIGH,), None)), "no statement defines a(2)"),
        (pieces(((LOW,), None), ((), "+")), "the statement uses a(3), which nothing has defined before"),
        (pieces(((LOW,), None), read=True), "the statement uses a(3), which nothing has defined before"),
        (pieces(((), "+")), "the statement uses a(0), which nothing has defined before"),
    ],
    ids=["half", "hole", "updated too early", "read too early", "never"],
)
def test_undefined_elements_are_reported(p: Program, message: str) -> None:
    with isl_context(), pytest.raises(SemanticError) as caught:
        undefined(build(p))
    assert (caught.value.code, caught.value.message) == ("TC0228", message)


def test_a_read_between_two_partial_definitions_is_reported() -> None:
    b = Build("between", "N")
    b.tensor("a", FLOAT32, *box("N"), role="temporary")
    b.tensor("o", FLOAT32, *box("N"))
    b.stage("a", ("i",), None, ONE, ROW, conditions=(LOW,))
    b.stage("o", ("i",), None, b.read("a", "i"), ROW)
    b.stage("a", ("i",), None, ONE, ROW, conditions=(HIGH,))
    with isl_context(), pytest.raises(SemanticError, match=r"uses a\(3\)"):
        undefined(build(b.done()))


def reading(subscript: Expr, extent: Expr | str = "M", conditions: tuple[Expr, ...] = ()) -> Bounds:
    b = Build("reading", "N M")
    b.input("A", FLOAT32, extent)
    b.tensor("o", FLOAT32, *box("N"))
    b.stage("o", ("i",), None, b.read("A", subscript), ROW, conditions=conditions)
    with isl_context():
        return out_of_bounds(build(b.done()))[0]


@pytest.mark.parametrize(
    ("subscript", "ok"),
    [
        (v("i"), lambda n, m: n <= m or n == 0),
        (Add(v("i"), IntImm(2)), lambda n, m: n + 2 <= m or n == 0),
        (Sub(Sub(v("M"), IntImm(1)), v("i")), lambda n, m: n <= m or n == 0),
        (Sub(v("i"), IntImm(1)), lambda n, m: n == 0),
        (FloorDiv(v("i"), IntImm(3)), lambda n, m: (n + 2) // 3 <= m),
        (Max(Min(v("i"), Sub(v("M"), IntImm(1))), IntImm(0)), lambda n, m: m >= 1 or n == 0),
        (FloorMod(v("i"), IntImm(4)), lambda n, m: min(n, 4) <= m),
    ],
    ids=["i", "i+2", "reversed", "i-1", "i/3", "clamped", "i%4"],
)
def test_the_precondition_holds_exactly_for_sizes_in_bounds(subscript: Expr, ok: object) -> None:
    found = reading(subscript)
    assert found.status == "precondition"
    assert found.condition is not None
    holds = compile_python(found.condition, ("N", "M"))
    for n in range(14):
        for m in range(14):
            assert bool(holds(n, m)) == ok(n, m), (n, m, text(found.condition))  # type: ignore[operator]
    assert found.counterexample


def test_accesses_in_bounds_are_proven_where_possible() -> None:
    assert reading(v("i"), "N").status == "proven"
    assert reading(FloorDiv(v("i"), IntImm(2)), "N").status == "proven"
    assert (
        reading(
            v("i"), FloorDiv(Add(v("N"), IntImm(1)), IntImm(2)), (LT(Mul(IntImm(2), v("i")), v("N")),)
        ).status
        == "proven"
    )
    assert reading(Mul(v("i"), v("i"))).status == "unprovable"
    with isl_context():
        assert {b.status for b in out_of_bounds(build(programs.lut2()))} == {"proven"}


def test_equal_reads_have_each_their_verdict() -> None:
    b = Build("twice", "N M")
    b.input("A", FLOAT32, "M")
    b.tensor("o", FLOAT32, *box("N"))
    b.stage("o", ("i",), None, Mul(b.read("A", v("i")), b.read("A", v("i"))), ROW)
    with isl_context():
        scop = build(b.done())
        first, second, _ = out_of_bounds(scop)
    own = [a.read for a in scop.statements[0].accesses if a.kind == "read"]
    assert first.read is own[0] and second.read is own[1]
    assert (first.status, first.condition) == (second.status, second.condition) != ("proven", None)


def test_a_precondition_is_printed_for_nonempty_sizes() -> None:
    from tc.errors import PreconditionError
    from tc.kernel import Kernel
    from tc.pipeline.front import front

    source = "def f(float(I) B, float(L) C, float(J) D) -> (A) { A(i,j) = B(i) * C(i+j) * D(j) }"
    kernel = Kernel(front(Source(source)), "reference", None, "safe")
    (left,) = kernel.preconditions
    assert left.condition == "L + 1 >= I + J"
    with pytest.raises(PreconditionError, match=r"must satisfy L \+ 1 >= I \+ J, but I = 5, L = 8, J = 5"):
        kernel.specialize(I=5, L=8, J=5)
    kernel.specialize(I=5, L=9, J=5)
    kernel.specialize(I=0, L=0, J=5)  # an empty range reads nothing


@pytest.mark.parametrize("body", ["{}", "for s in 0:2 {{ {} }}"])
def test_elements_that_no_part_defines_name_all_parts(body: str) -> None:
    parts = body.format("t(i) = x(i) where i in 0:2 t(i) = -x(i) where i in 3:D")
    with pytest.raises(SemanticError, match=r"no statement defines t\(2\)") as caught:
        tc.compile(f"def f(float(D) x) -> (t) {{ {parts} }}")
    e = caught.value
    assert e.code == "TC0228" and e.span is not None and e.span.text == "t(i) = x(i) where i in 0:2"
    assert [n.span.text for n in e.notes if n.span] == ["t(i) = -x(i) where i in 3:D"]


@pytest.mark.parametrize(
    ("body", "sets"),
    [
        ("y(n) +=! x(n,k) z(n,k) = x(n,k) / y(n)", False),  # each statement defines a whole tensor
        ("y(n,k) = x(n,k) y(n,k) = y(n,k) + x(n,k) z(n) +=! y(n,k)", True),  # a statement reads its own
        ("y(n) = x(n,0) where n in 0:2 y(n) = x(n,1) where n in 2:N z(n) = y(n)", True),  # in two parts
        ("for t in 0:N { y(t,k) = x(t,k) } z(n,k) = y(n,k)", True),  # by the iterations of a loop
        ("y(n) +=! x(n,k) for t in 0:N { z(n) = y(n) }", True),  # by a loop that may have no iterations
    ],
)
def test_iteration_domains_are_made_where_there_is_something_to_prove(
    monkeypatch: pytest.MonkeyPatch, body: str, sets: bool
) -> None:
    made: list[Program] = []

    def counted(program: Program, *more: float) -> Any:
        made.append(program)
        return build(program, *more)

    monkeypatch.setattr("tc.poly.scop.build", counted)
    source = f"def f(float(N,K) x) -> (y, z) {{ {body} }}"
    front.build(front.front(Source(source, "<string>")), front.Variant())
    assert bool(made) == sets
