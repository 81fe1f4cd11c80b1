"""Loop fusion: the trees of known programs under each strategy, and their legality by isl."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tc
from tc.errors import InternalError
from tc.poly import legality, schedule, scop
from tc.poly.context import isl_context
from tc.poly.dependences import dependences
from tc.poly.fusion import fusion
from tc.poly.fusion.fusion import Group, Member, Proposal
from tests.poly import fused, programs
from tests.poly.fused import program, shown


@pytest.fixture(autouse=True)
def _inside_isl() -> Iterator[None]:
    with isl_context():
        yield


PROGRAMS = {k: v for k, v in vars(fused).items() if isinstance(v, str) and v in fused.SIZES}
STRATEGIES = ("max", "preserve3coincident", "min")

TREES = [
    ("GEMM", "i j[S0 k+[S1]]", "i j[S0 k+[S1]]", "i j[S0] i j[k+[S1]]"),
    ("BIAS", "i j[S0 k+[S1] S2]", "i j[S0 k+[S1] S2]", "i j[S0] i j[k+[S1]] i j[S2]"),
    (
        "SOFTMAX",
        "n[S0 d+[S1] d[S2] S3 d+[S4] d[S5]]",
        "n[S0 d+[S1]] n d[S2] n[S3 d+[S4]] n d[S5]",
        "n[S0] n[d+[S1]] n d[S2] n[S3] n[d+[S4]] n d[S5]",
    ),
    (
        "MOMENTS",  # both sums in one loop
        "n[S0 S2 k+[S1 S3] S4 S5]",
        "n[S0 S2 k+[S1 S3] S4 S5]",
        "n[S0] n[k+[S1]] n[S2] n[k+[S3]] n[S4] n[S5]",
    ),
    (
        "MLP3",
        "b[o[S0 n+[S1] S2] p[S3 o+[S4] S5] q[S6 p+[S7] S8]]",
        "b o[S0 n+[S1] S2] b p[S3 o+[S4] S5] b q[S6 p+[S7] S8]",
        "b o[S0] b o[n+[S1]] b o[S2] b p[S3] b p[o+[S4]] b p[S5] b q[S6] b q[p+[S7]] b q[S8]",
    ),
    (
        "BATCH_NORM",
        "c[S0 nn+ hh+ ww+[S1] S2 S3 nn+ hh+ ww+[S4] S5 n h w[S6]]",
        "c[S0 nn+ hh+ ww+[S1] S2 S3 nn+ hh+ ww+[S4] S5] n c h w[S6]",
        "c[S0] c[nn+ hh+ ww+[S1]] c[S2] c[S3] c[nn+ hh+ ww+[S4]] c[S5] n c h w[S6]",
    ),
    (
        "KRONECKER",
        "m d1[n0[S0 r1+[S1]] d0[S2 r0+[S3]]]",
        "m n0 d1[S0 r1+[S1]] m d0 d1[S2 r0+[S3]]",
        "m n0 d1[S0] m n0 d1[r1+[S1]] m d0 d1[S2] m d0 d1[r0+[S3]]",
    ),
    (
        "LUT2",  # no data flow between the two, and different tables
        "i j[S0 k+[S1]] i j[S2 k+[S3]]",
        "i j[S0 k+[S1]] i j[S2 k+[S3]]",
        "i j[S0] i j[k+[S1]] i j[S2] i j[k+[S3]]",
    ),
]


@pytest.mark.parametrize(
    ("name", "strategy", "tree"),
    [(name, s, t) for name, *trees in TREES for s, t in zip(STRATEGIES, trees)],
    ids=lambda x: x if isinstance(x, str) and "[" not in x else "",
)
def test_strategies_give_the_expected_trees(name: str, strategy: fusion.Strategy, tree: str) -> None:
    assert shown(fusion.fuse(scop.build(program(PROGRAMS[name])), strategy)) == tree


@pytest.mark.parametrize(
    ("name", "tree"),
    [
        ("STENCIL", "i[S0] i[S1]"),  # the distance is 0 and 1
        ("TRANSPOSED", "i j[S0 S1]"),  # the i of one is the j of the other
        ("ANTI", "i[S0 S1 S2 S3]"),  # a temporary of one element an iteration
        ("UPDATE", "i[S0] i[S1]"),
        ("CHAIN", "i j[S0 S1 S2]"),  # D(j,i) shares its loops transposed
        ("WIDE", "i[S0 j+[S1] j[S2]]"),
        ("SCALARS", "S0 i+[S1] i[S2]"),
    ],
)
def test_legality_decides_which_loops_are_fused(name: str, tree: str) -> None:
    assert shown(fusion.fuse(scop.build(program(PROGRAMS[name])), "max")) == tree


def test_loops_with_different_names_are_fused() -> None:
    source = "def f(float(N,M) A) -> (B, C) { B(i,j) = A(i,j)\nC(x,y) = B(y,x) }"
    (group,) = fusion.fuse(scop.build(program(source, N=4, M=4)), "max")
    assert isinstance(group, Group)
    assert [dict(m.vars) for m in group.members] == [{"S0": "i", "S1": "y"}, {"S0": "j", "S1": "x"}]


def test_statements_without_instances_are_not_in_the_tree() -> None:
    s = scop.build(program(fused.GEMM, M=3, N=2, K=0))
    assert shown(fusion.fuse(s, "max")) == "i j[S0]"
    s = scop.build(program(fused.GEMM, M=0, N=2, K=3))
    assert fusion.fuse(s, "max") == ()
    legality.verify(s, schedule.fused(s, ()), dependences(s), "nothing")


def test_a_reduction_joins_another_only_with_all_of_its_loops() -> None:
    """The second sum runs over one more loop: the shared one would not be innermost."""
    source = "def f(float(N,K) A, float(N,K,L) B) -> (S, T) { S(n) +=! A(n,k)\nT(n) +=! A(n,k) * B(n,k,l) }"
    tree = fusion.fuse(scop.build(program(source, N=3, K=4, L=2)), "max")
    assert shown(tree) == "n[S0 k+[S1] S2 k+ l+[S3]]"


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        ("b(i) +=! A(i,k) where k <= i c(i) +=! A(i,k) * b(i) where k <= i", "i[S0 k+[S1] S2 k+[S3]]"),
    ],
)
def test_a_reduction_of_one_instance_is_complete_behind_its_loop(source: str, tree: str) -> None:
    """No dependence crosses iterations, but lanes and accumulators are combined behind the loop."""
    found = fusion.fuse(scop.build(program(f"def f(float(N,M) A) -> (b, c) {{ {source} }}", N=1, M=9)), "max")
    assert shown(found) == tree


def test_a_predicate_decides_about_fusion() -> None:
    s = scop.build(program(fused.MLP3))
    asked: list[Proposal] = []

    def layers(p: Proposal) -> bool:
        asked.append(p)
        return len(p.after) == len(p.before) == len(p.own)

    tree = fusion.fuse(s, layers)
    assert shown(tree) == "b o[S0 n+[S1] S2] b p[S3 o+[S4] S5] b q[S6 p+[S7] S8]"
    assert {p.level for p in asked} >= {0}
    first = asked[0]
    assert (first.first, first.second, first.level) == (("S0",), ("S1",), 0)
    assert [m.name for m in first.after] == ["b", "o"]
    assert all(m.coincident for m in first.before)
    between = [p for p in asked if len(p.after) == 1]
    assert between and all([m.name for m in p.after] == ["b"] for p in between)


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("answer", "message"), [(1 / 3, "returned 0.3333333333333333"), (None, "raised ValueError: mine")]
)
def test_errors_of_a_predicate_are_reported_to_its_caller(backend: str, answer: object, message: str) -> None:
    """The error names the caller's predicate, not a bug of tc."""

    def mine(_: Proposal) -> object:
        if answer is None:
            raise ValueError("mine")
        return answer

    kernel = tc.compile(fused.SOFTMAX, backend, options={"fusion": mine})
    with pytest.raises(tc.errors.ArgumentError) as caught:
        kernel.inspect("code", N=5, D=7)
    assert caught.value.code == "TC0511"
    assert caught.value.message == f"the function that option fusion is {message}"
    assert answer is not None or isinstance(caught.value.__cause__, ValueError)


def test_a_predicate_that_fuses_nothing_is_min() -> None:
    for source in (fused.SOFTMAX, fused.MLP3, fused.BATCH_NORM):
        s = scop.build(program(source))
        assert fusion.fuse(s, lambda _: False) == fusion.fuse(s, "min")


def test_a_predicate_may_separate_only_an_inner_level() -> None:
    tree = fusion.fuse(scop.build(program(fused.SOFTMAX)), lambda p: p.level == 0)
    assert shown(tree) == "n[S0 d+[S1] d[S2] S3 d+[S4] d[S5]]"
    tree = fusion.fuse(scop.build(program(fused.MOMENTS)), lambda p: p.level == 0)
    assert shown(tree) == "n[S0 k+[S1] S2 k+[S3] S4 S5]"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_tree_is_legal(name: str, strategy: fusion.Strategy) -> None:
    s = scop.build(program(PROGRAMS[name]))
    tree = fusion.fuse(s, strategy)
    legality.verify(s, schedule.fused(s, tree), dependences(s), strategy)
    live = [n for b in tree for n in ((b,) if isinstance(b, str) else b.statements)]
    assert sorted(live) == sorted(x.name for x in s.statements if not x.domain.is_empty())


@pytest.mark.parametrize("name", sorted(programs.ALL))
def test_trees_of_symbolic_programs_are_legal(name: str) -> None:
    s = scop.build(programs.ALL[name]())
    for strategy in STRATEGIES:
        tree = fusion.fuse(s, strategy)  # type: ignore[arg-type]
        legality.verify(s, schedule.fused(s, tree), dependences(s), strategy)


@pytest.mark.parametrize("name", ["SOFTMAX", "MLP3", "BATCH_NORM", "KRONECKER", "CHAIN", "ANTI"])
def test_any_answers_of_a_predicate_give_a_legal_tree(name: str) -> None:
    import random

    s = scop.build(program(PROGRAMS[name]))
    d = dependences(s)
    for seed in range(6):
        rng = random.Random(seed)
        tree = fusion.fuse(s, lambda _, rng=rng: rng.random() < 0.5)
        legality.verify(s, schedule.fused(s, tree), d, f"seed {seed}")


def member(**names: str) -> Member:
    return Member({s.upper(): v for s, v in names.items()})


ILLEGAL = [
    ("the consumer's neighbour is not there yet", fused.STENCIL,
     (Group((member(s0="i", s1="i"),), ("S0", "S1")),)),
    ("statements in the wrong order", fused.ANTI, ("S0", "S1", "S2", "S3")[::-1]),
    ("updates before the initialisation", fused.GEMM,
     (Group((member(s0="i", s1="i"), member(s0="j", s1="j")), (Group((member(s1="k"),), ("S1",)), "S0")),)),
    ("loops that do not belong together", fused.TRANSPOSED,
     (Group((member(s0="i", s1="i"), member(s0="j", s1="j")), ("S0", "S1")),)),
    ("a sum read while it grows", fused.WIDE,
     (Group((member(s0="i", s1="i", s2="i"),), ("S0", Group((member(s1="j", s2="j"),), ("S1", "S2")))),)),
]  # fmt: skip


@pytest.mark.parametrize(("why", "source", "tree"), ILLEGAL, ids=[w for w, *_ in ILLEGAL])
def test_illegal_trees_are_refused(why: str, source: str, tree: tuple[Group | str, ...]) -> None:
    s = scop.build(program(source))
    tree = tuple(
        Group((member(**{b.lower(): "i"}),), (b,)) if source == fused.ANTI and isinstance(b, str) else b
        for b in tree
    )
    with pytest.raises(InternalError, match="loop fusion made an illegal schedule") as caught:
        legality.verify(s, schedule.fused(s, tree), dependences(s), "loop fusion")
    assert caught.value.code == "TC0904"


def test_a_tree_that_lacks_a_statement_is_refused() -> None:
    s = scop.build(program(fused.BIAS))
    (group,) = fusion.fuse(s, "max")
    assert isinstance(group, Group)
    torn = Group(
        tuple(Member({k: v for k, v in m.vars.items() if k != "S2"}) for m in group.members), group.body[:2]
    )
    with pytest.raises(InternalError, match="an illegal schedule"):
        legality.verify(s, schedule.fused(s, (torn,)), dependences(s), "loop fusion")
