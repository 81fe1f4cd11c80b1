"""Dependences, the identity schedule, and the two oracles of schedules."""

from __future__ import annotations

import islpy as isl
import pytest

from tc.dtypes import FLOAT32
from tc.errors import InternalError, Source
from tc.ir.expr import Add, IntImm, Sub
from tc.ir.program import Program
from tc.ir.specialize import specialize
from tc.pipeline import front as pipeline
from tc.poly import checks, legality, schedule, tree_text
from tc.poly.context import Callbacks, isl_context, set_list
from tc.poly.dependences import dependences
from tc.poly.scop import build
from tests.poly import programs
from tests.poly.programs import Build, axis, box, v


@pytest.fixture(autouse=True)
def _inside_isl():  # type: ignore[no-untyped-def]
    with isl_context():
        yield


def equal(a: isl.UnionMap, text: str) -> bool:
    with isl_context() as ctx:
        return bool(a.is_equal(isl.UnionMap.read_from_str(ctx, text)))


def test_a_reduction_is_ordered_as_a_whole_with_what_comes_before_and_after() -> None:
    d = dependences(build(programs.softmax()))
    n, nd = "0<=n<N", "0<=n<N and 0<=d<D"
    assert equal(
        d.raw,
        f"[N,D] -> {{ S0[n]->S1[n,d] : {nd}; S0[n]->S2[n,d] : {nd}; S1[n,d]->S2[n,e] : {nd} and 0<=e<D;"
        f" S2[n,d]->S4[n,d] : {nd}; S2[n,d]->S5[n,d] : {nd}; S3[n]->S4[n,d] : {nd}; S3[n]->S5[n,d] : {nd};"
        f" S4[n,d]->S5[n,e] : {nd} and 0<=e<D }}",
    )
    assert equal(
        d.reductions,
        f"[N,D] -> {{ S1[n,d]->S1[n,e] : {nd} and d<e<D; S4[n,d]->S4[n,e] : {nd} and d<e<D }}",
    )
    assert not any(
        m.get_tuple_name(isl.dim_type.in_) == m.get_tuple_name(isl.dim_type.out)
        for u in (d.raw, d.war, d.waw)
        for m in (u.get_map_list().get_at(i) for i in range(u.n_map()))
    )
    assert n


def test_an_update_in_place_orders_its_reads_and_writes() -> None:
    """S0 writes a(i); S1 overwrites a(i) = a(i + 2) for the first two elements."""
    b = Build("inplace", "")
    b.tensor("a", FLOAT32, *box(4))
    b.stage("a", ("i",), None, programs.FloatImm(1.0, FLOAT32), axis("i", 0, 4))
    b.stage("a", ("i",), None, b.read("a", Add(v("i"), IntImm(2))), axis("i", 0, 2))
    s = build(b.done())
    d = dependences(s)
    assert equal(d.raw, "{ S0[i] -> S1[i-2] : 2<=i<4 }")
    assert equal(d.waw, "{ S0[i] -> S1[i] : 0<=i<2 }")
    assert equal(d.war, "{ }")
    checks.in_place(s)


def test_a_write_hides_what_was_written_before() -> None:
    b = Build("twice", "N")
    b.tensor("t", FLOAT32, *box("N"), role="temporary")
    b.tensor("o", FLOAT32, *box("N"))
    for k in range(2):
        b.stage("t", ("i",), None, programs.FloatImm(float(k), FLOAT32), axis("i", 0, "N"))
    b.stage("o", ("i",), None, b.read("t", "i"), axis("i", 0, "N"))
    d = dependences(build(b.done()))
    assert equal(d.raw, "[N] -> { S1[i] -> S2[i] : 0<=i<N }")


def test_the_identity_tree_of_sgemm_is_figure_3a() -> None:
    shown = tree_text.dump(schedule.identity(build(specialize(programs.sgemm(), {"N": 2, "M": 3, "K": 4}))))
    assert shown == (
        'domain: "{ S0[i, j] : 0 <= i <= 1 and 0 <= j <= 3;'
        ' S1[i, j, k] : 0 <= i <= 1 and 0 <= j <= 3 and 0 <= k <= 2 }"\n'
        "child:\n"
        "  sequence:\n"
        '  - filter: "{ S0[i, j] }"\n'
        "    child:\n"
        '      schedule: "[{ S0[i, j] -> [(i)] }, { S0[i, j] -> [(j)] }]"\n'
        "      permutable: 1\n"
        '  - filter: "{ S1[i, j, k] }"\n'
        "    child:\n"
        '      schedule: "[{ S1[i, j, k] -> [(i)] }, { S1[i, j, k] -> [(j)] }, { S1[i, j, k] -> [(k)] }]"\n'
        "      permutable: 1\n"
    )


@pytest.mark.parametrize("name", programs.ALL)
def test_the_identity_schedule_is_legal_and_complete(name: str) -> None:
    s = build(programs.ALL[name]())
    plan = schedule.identity(s)
    legality.verify(s, plan, dependences(s), "identity")
    again = tree_text.load(tree_text.dump(plan))
    assert again.plain_is_equal(plan)
    assert tree_text.dump(again) == tree_text.dump(plan)


def test_a_text_that_is_no_tree_is_refused() -> None:
    with pytest.raises(InternalError) as caught:
        tree_text.load("domain: nonsense")
    assert caught.value.code == "TC0902"


def matmul_scop():  # type: ignore[no-untyped-def]
    s = build(programs.matmul())
    return s, dependences(s)


def test_running_the_reduction_before_its_initialisation_is_a_violation() -> None:
    s, d = matmul_scop()
    node = isl.Schedule.from_domain(s.domain).get_root().child(0)
    node = node.insert_sequence(
        set_list(s.ctx, (isl.UnionSet.from_set(t.domain) for t in reversed(s.statements)))
    )
    plan = node.get_schedule()
    found = legality.respects(s, plan, d)
    assert found is not None
    assert found.kind == "raw"
    assert (
        found.text
        == "S1 at i = 0, j = 0, k = 0 does not run after S0 at i = 0, j = 0 for M = 1, N = 1, K = 1"
    )
    with pytest.raises(InternalError, match="reversal made an illegal schedule"):
        legality.verify(s, plan, d, "reversal")


@pytest.mark.parametrize(
    ("order", "legal"),
    [
        ("S0[i,j] -> [i,j,0,0]; S1[i,j,k] -> [i,j,1,k]", True),  # fused
        ("S0[i,j] -> [0,i,j,0]; S1[i,j,k] -> [1,k,j,i]", True),  # permuted
        ("S0[i,j] -> [0,i,j,0]; S1[i,j,k] -> [1,-k,i,j]", True),  # a reduction may run backwards
        ("S0[i,j] -> [i,j,1,0]; S1[i,j,k] -> [i,j,0,k]", False),
        ("S0[i,j] -> [i,j,0,0]; S1[i,j,k] -> [i,j,0,k]", False),  # the first update at the same time
        ("S0[i,j] -> [i,0,0,0]; S1[i,j,k] -> [-i,1,j,k]", False),
    ],
)
def test_legality_of_other_orders_of_matmul_is_decided(order: str, legal: bool) -> None:
    s, d = matmul_scop()
    time = isl.UnionMap.read_from_str(s.ctx, f"[M,N,K] -> {{ {order} }}").intersect_domain(s.domain)
    assert (legality.respects(s, time, d) is None) == legal


def stencil() -> Program:
    b = Build("stencil", "N")
    b.input("x", FLOAT32, "N")
    b.tensor("t", FLOAT32, *box("N"), role="temporary")
    b.tensor("o", FLOAT32, *box(Sub(v("N"), IntImm(1))))
    b.stage("t", ("i",), None, b.read("x", "i"), axis("i", 0, "N"))
    value = Add(b.read("t", "i"), b.read("t", Add(v("i"), IntImm(1))))
    b.stage("o", ("i",), None, value, axis("i", 0, Sub(v("N"), IntImm(1))))
    return b.done()


def test_a_stencil_fuses_only_with_a_shift() -> None:
    s = build(stencil())
    d = dependences(s)

    def violation(order: str) -> object:
        time = isl.UnionMap.read_from_str(s.ctx, f"[N] -> {{ {order} }}").intersect_domain(s.domain)
        return legality.respects(s, time, d)

    assert violation("S0[i] -> [i,0]; S1[i] -> [i+1,1]") is None
    assert str(violation("S0[i] -> [i,0]; S1[i] -> [i,1]")) == (
        "raw: S1 at i = 0 does not run after S0 at i = 1 for N = 2"
    )


def test_a_schedule_that_loses_or_repeats_instances_is_caught() -> None:
    s, _ = matmul_scop()
    with isl_context() as ctx:
        less = s.domain.subtract(isl.UnionSet.read_from_str(ctx, "[M,N,K] -> { S1[i,j,2] }"))
    found = legality.covers(s, isl.Schedule.from_domain(less))
    assert found is not None
    assert str(found) == "missing: S1 at i = 0, j = 0, k = 2 for M = 1, N = 1, K = 3"
    more = s.domain.union(
        isl.UnionSet.read_from_str(s.ctx, "[M,N,K] -> { S1[-1,0,0] : M>=0 and N>=0 and K>=0 }")
    )
    found = legality.covers(s, isl.Schedule.from_domain(more))
    assert found is not None
    assert found.kind == "outside the domain"


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ("i mod 4 = t", True),  # each thread its rows
        ("t <= i mod 4", False),  # several threads run one instance
        ("i mod 4 = t and i <= 6", False),  # rows that no thread runs
    ],
)
def test_a_mapping_to_threads_runs_each_instance_once(text: str, legal: bool) -> None:
    s = build(specialize(programs.triangle(), {"N": 9}))
    node = schedule.identity(s).get_root().child(0)
    f = isl.UnionSet.read_from_str(s.ctx, f"[t] -> {{ S0[i] : {text}; S1[i,j] : {text} }}")
    context = isl.Set.read_from_str(s.ctx, "[t] -> { [] : 0 <= t < 4 }")
    plan = node.insert_filter(f).insert_context(context).get_schedule()
    assert (legality.covers(s, plan) is None) == legal


@pytest.mark.parametrize("pieces", [4, 0])
def test_dependences_of_domains_with_several_pieces_are_found(
    pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """isl's dataflow analysis takes minutes where there are many: then all conflicts in order will do."""
    monkeypatch.setattr("tc.poly.dependences._MOST_PIECES", pieces)
    value = "A(k + j, k + j) + A(i, j) + A(2 * j, 3 * j - 2) + A(l, l)"
    front = pipeline.front(Source(f"def f(uint32(K,P) A) -> (T) {{ T(i,j,k,l) min= {value} }}"))
    with isl_context():
        s = build(pipeline.build(front, pipeline.Variant()).program)
        d = dependences(s)
        assert d.exact == (pieces > 0) == (not d.dump().startswith("all conflicts"))
        legality.verify(s, schedule.identity(s), d, "nothing")


def test_an_exception_in_a_callback_is_raised_and_nothing_is_printed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    s, _ = matmul_scop()
    calls = Callbacks()

    def fail(node: isl.AstNode, build: isl.AstBuild) -> isl.AstNode:
        raise ValueError("from the callback")

    builder = isl.AstBuild.from_context(s.context)
    builder = calls.keep(builder.set_at_each_domain(calls.wrap(fail, lambda node, build: node)))
    builder.node_from_schedule(schedule.identity(s))
    with pytest.raises(ValueError, match="from the callback"):
        calls.check()
    assert capfd.readouterr() == ("", "")
