"""Domains and accesses: exact where possible, supersets elsewhere, and names that isl cannot parse."""

from __future__ import annotations

import islpy as isl
import pytest

from tc.dtypes import FLOAT32, INT32
from tc.ir.expr import (
    GE,
    GT,
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
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Sub,
    Variable,
    imm,
)  # fmt: skip
from tc.ir.program import Program
from tc.ir.specialize import specialize
from tc.poly.context import Names, isl_context
from tc.poly.scop import Access, Scop, build
from tests.poly import programs
from tests.poly.programs import Build, axis, box, v


@pytest.fixture(autouse=True)
def _inside_isl():  # type: ignore[no-untyped-def]
    with isl_context():
        yield


def same(a: isl.Map | isl.Set, text: str) -> bool:
    with isl_context() as ctx:
        kind = isl.Map if isinstance(a, isl.Map) else isl.Set
        return bool(a.is_equal(kind.read_from_str(ctx, text)))


def access(s: Scop, ref: str) -> Access:
    return next(a for st in s.statements for a in st.accesses if a.ref == ref)


def elementwise(
    value: Expr, *reads_size: str, sizes: str = "N", conditions: tuple[Expr, ...] = ()
) -> Program:
    b = Build("e", sizes)
    b.input("A", FLOAT32, *(reads_size or ("N",)))
    b.tensor("O", FLOAT32, *box("N"))
    b.stage("O", ("i",), None, value, axis("i", 0, "N"), conditions=conditions)
    return b.done()


def read_a(subscript: Expr) -> Expr:
    b = Build("e", "N")
    b.input("A", FLOAT32, "N")
    return b.read("A", subscript)


def test_domains_and_accesses_of_matmul_are_exact() -> None:
    s = build(programs.matmul())
    assert same(s.statements[0].domain, "[M,N,K] -> { S0[i,j] : 0<=i<M and 0<=j<N and K>=0 }")
    assert same(access(s, "S1_r1").map, "[M,N,K] -> { S1[i,j,k] -> B[k,j] : 0<=i<M and 0<=j<N and 0<=k<K }")
    assert [a.kind for a in s.statements[1].accesses] == ["read", "read", "update", "write"]
    assert (s.statements[0].reduction, s.statements[1].reduction) == (False, True)
    assert all(a.must for st in s.statements for a in st.accesses)


def test_a_division_in_a_subscript_is_a_floor() -> None:
    s = build(elementwise(read_a(FloorDiv(Sub(v("i"), IntImm(3)), IntImm(2)))))
    assert same(access(s, "S0_r0").map, "[N] -> { S0[i] -> A[floor((i-3)/2)] : 0<=i<N }")
    s = build(elementwise(read_a(FloorMod(Sub(v("i"), IntImm(3)), IntImm(4)))))
    assert same(access(s, "S0_r0").map, "[N] -> { S0[i] -> A[(i-3) mod 4] : 0<=i<N }")


def test_a_minimum_in_a_subscript_is_exact() -> None:
    s = build(elementwise(read_a(Max(Min(Add(v("i"), IntImm(1)), Sub(v("N"), IntImm(1))), IntImm(0)))))
    assert same(access(s, "S0_r0").map, "[N] -> { S0[i] -> A[max(min(i+1,N-1),0)] : 0<=i<N }")


def test_a_guard_cuts_the_domain_of_a_read() -> None:
    s = build(programs.padded())
    assert same(access(s, "S0_r0").map, "[N] -> { S0[i] -> X[i-1] : 1<=i<=N and i<=N+1 }")
    assert access(s, "S0_r0").must
    i32 = Cast(INT32, v("i"))
    guard = Not(Or(LT(i32, imm(2, INT32)), GT(read_a(v("i")), FloatImm(0.0, FLOAT32))))
    s = build(elementwise(IfThenElse(guard, read_a(v("i")), FloatImm(0.0, FLOAT32))))
    # The guard's own read is not guarded; its affine part restricts the other read, which is a may access.
    assert same(access(s, "S0_r0").map, "[N] -> { S0[i] -> A[i] : 0<=i<N }")
    assert access(s, "S0_r0").must
    assert same(access(s, "S0_r1").map, "[N] -> { S0[i] -> A[i] : 2<=i<N }")
    assert not access(s, "S0_r1").must


def test_equal_reads_below_equal_guards_share_a_relation() -> None:
    inner = GE(v("i"), IntImm(2))

    def guarded(condition: Expr) -> Expr:
        return IfThenElse(condition, read_a(v("i")), FloatImm(0.0, FLOAT32))

    s = build(elementwise(Add(Add(read_a(v("i")), guarded(inner)), Add(guarded(inner), guarded(Not(inner))))))
    free, first, again, otherwise = (access(s, f"S0_r{i}") for i in range(4))
    assert first.map is again.map and first.read is not again.read
    assert same(free.map, "[N] -> { S0[i] -> A[i] : 0<=i<N }")
    assert same(first.map, "[N] -> { S0[i] -> A[i] : 2<=i<N }")
    assert same(otherwise.map, "[N] -> { S0[i] -> A[i] : 0<=i<2 and i<N }")


def test_lets_are_substituted_and_their_values_read_unguarded() -> None:
    body = IfThenElse(GE(v("i"), IntImm(1)), read_a(Variable("l")), FloatImm(0.0, FLOAT32))
    s = build(elementwise(Let("l", Sub(v("i"), IntImm(1)), body)))
    assert same(access(s, "S0_r0").map, "[N] -> { S0[i] -> A[i-1] : 1<=i<N }")
    eager = Let(
        "x", read_a(v("i")), IfThenElse(GE(v("i"), IntImm(1)), Variable("x", FLOAT32), FloatImm(0.0, FLOAT32))
    )
    s = build(elementwise(eager))
    assert same(access(s, "S0_r0").map, "[N] -> { S0[i] -> A[i] : 0<=i<N }")


def test_a_data_dependent_subscript_reads_the_whole_dimension() -> None:
    s = build(programs.lut2())
    a = access(s, "S1_r1")
    assert (a.must, a.unknown) == (False, (0,))
    assert same(
        a.map,
        "[B,D,L1,E1,L2,E2] -> { S1[i,j,k] -> LUT1[o,j] : 0<=i<B and 0<=j<D and 0<=k<L1 and 0<=o<E1"
        " and L2>=0 and E2>=0}",
    )


def test_products_of_sizes_become_parameters() -> None:
    b = Build("flat", "M N")
    total = Mul(v("M"), v("N"))
    b.input("A", FLOAT32, total)
    b.tensor("O", FLOAT32, *box(total))
    b.stage("O", ("i",), None, b.read("A", Sub(Sub(total, IntImm(1)), v("i"))), axis("i", 0, total))
    s = build(b.done())
    assert list(s.parameters.values.values()) == [v("M"), v("N"), total]
    assert same(access(s, "S0_r0").map, "[M,N,e2] -> { S0[i] -> A[e2-1-i] : 0<=i<e2 and M>=0 and N>=0 }")


def test_a_size_times_an_index_is_affine_once_specialised() -> None:
    b = Build("flat", "M N")
    b.input("A", FLOAT32, Mul(v("M"), v("N")))
    b.tensor("O", FLOAT32, *box("M", "N"))
    b.stage(
        "O",
        ("i", "j"),
        None,
        b.read("A", Add(Mul(v("i"), v("N")), v("j"))),
        axis("i", 0, "M"),
        axis("j", 0, "N"),
    )
    p = b.done()
    assert access(build(p), "S0_r0").unknown == (0,)
    s = build(specialize(p, {"M": 3, "N": 4}))
    assert same(access(s, "S0_r0").map, "{ S0[i,j] -> A[4i+j] : 0<=i<3 and 0<=j<4 }")


def test_affine_conditions_restrict_the_domain_and_others_remain() -> None:
    affine, other = GE(v("i"), IntImm(2)), LT(Mul(v("i"), v("i")), v("N"))
    s = build(elementwise(FloatImm(0.0, FLOAT32), conditions=(affine, And(other, affine))))
    (st,) = s.statements
    assert same(st.domain, "[N] -> { S0[i] : 2<=i<N }")
    assert st.residual == (And(other, affine),)
    assert not st.write.must


def test_narrow_integers_are_not_treated_as_exact() -> None:
    from tc.dtypes import INT8

    s = build(elementwise(read_a(Cast(INDEX, Cast(INT8, v("i"))))))
    assert access(s, "S0_r0").unknown == (0,)
    wide = Mul(imm(1 << 20, INT32), Cast(INT32, v("i")))
    s = build(elementwise(read_a(Cast(INDEX, wide))))
    assert access(s, "S0_r0").unknown == (0,)


def test_unspecialised_scalars_are_parameters_of_any_sign() -> None:
    s = build(programs.convolution())
    assert "sh" in s.parameters.values
    assert same(s.context.lower_bound_val(isl.dim_type.param, 0, 0), str(s.context))
    with_negative = s.context.fix_val(isl.dim_type.param, list(s.parameters.values).index("sh"), -2)
    assert not with_negative.is_empty()


def test_names_that_isl_cannot_parse_are_mangled() -> None:
    b = Build("mod", "and min")
    b.input("2LUT", FLOAT32, "and", "min")
    b.tensor("exists", FLOAT32, *box("and"))
    b.stage("exists", ("mod",), None, b.read("2LUT", "mod", 0), axis("mod", 0, "and"))
    s = build(b.done())
    with isl_context() as ctx:
        for m in (st.domain for st in s.statements):
            assert isl.Set.read_from_str(ctx, str(m)).is_equal(m)
        for _, a in s.accesses("read", "write"):
            assert isl.Map.read_from_str(ctx, str(a.map)).is_equal(a.map)
    tuples = [a.map.get_tuple_name(isl.dim_type.out) for _, a in s.accesses("read", "write")]
    assert [s.names.original(n) for n in tuples] == [
        "2LUT", "exists",
    ]  # fmt: skip


def test_mangled_names_are_unique_and_come_back() -> None:
    names = Names()
    wanted = [
        ("size", "W"),
        ("buffer", "W"),
        ("buffer", "1W"),
        ("buffer", "b_1W"),
        ("index", "b_1W"),
        ("index", "é"),
    ]
    safe = [names.safe(*w) for w in wanted]
    assert len(set(safe)) == len(safe)
    assert [names.original(n) for n in safe] == [n for _, n in wanted]
    assert [names.safe(*w) for w in wanted] == safe


def test_accesses_are_tagged_by_reference() -> None:
    s = build(programs.triangle())
    tagged = s.tagged("read")
    with isl_context() as ctx:
        want = isl.UnionMap.read_from_str(ctx, "[N] -> { [S1[i,j] -> S1_r0[]] -> A[i,j] : 0<=j<=i<N }")
    assert tagged.is_equal(want)


def test_the_dump_names_every_access() -> None:
    text = build(programs.sgemm()).dump()
    for line in ("context: [N, M, K]", "S0: C(i, j) = b * C(i, j)", "S1_u update:", "S1_w write:"):
        assert line in text


def test_preconditions_are_assumed() -> None:
    from dataclasses import replace

    from tc.ir.program import Precondition

    p = programs.triangle()
    p = replace(p, preconditions=(Precondition(GE(v("N"), IntImm(4)), "at least four"),))
    s = build(p)
    assert same(s.context, "[N] -> { : N >= 4 }".replace("{ :", "{ [] :")) or s.context.is_equal(
        isl.Set.read_from_str(s.ctx, "[N] -> { : N >= 4 }")
    )


def test_options_are_set_before_every_use_and_restored() -> None:
    with isl_context(tile_scale_tile_loops=1) as ctx:
        assert ctx.get_tile_scale_tile_loops() == 1
        with isl_context() as inner:
            assert inner.get_tile_scale_tile_loops() == 0
        assert ctx.get_tile_scale_tile_loops() == 1
    with isl_context() as ctx:
        assert ctx.get_tile_scale_tile_loops() == 0
        assert ctx.get_schedule_serialize_sccs() == 1


def test_isl_prints_nothing_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with isl_context() as ctx, pytest.raises(isl.Error):
        isl.Set.read_from_str(ctx, "{ [i : }")
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
