"""Fusion diagnostics: why consecutive groups of loops are not fused."""

from __future__ import annotations

import pytest

import tc
from tc.poly import scop
from tc.poly.context import isl_context
from tc.poly.fusion import fusion
from tc.poly.fusion.distances import Distances
from tc.poly.fusion.fusion import FusionPolicy, Proposal, Strategy
from tc.poly.fusion.fusion_diagnostics import fusion_diagnostics
from tests.poly.fused import MLP3, SIZES, program

ALIKE = "(i,j) = B(i,j) + 1"
CASES: list[tuple[str, Strategy, list[str]]] = [
    (ALIKE, "max", []),
    (ALIKE, "min", ["S1 apart from S0: they could share i, j: the strategy 'min' keeps them apart"]),
    (
        "(i,j) = B(N-1-i,N-1-j)",
        "max",
        ["S1 apart from S0: S1 reads elements of B that S0 writes at other points of their loops"],
    ),
    (
        "(i,j) = B(i,j) + B(j,i)",
        "max",
        ["S1 apart from S0: no loop runs alike through all that they pass on"],
    ),
    ("(k) = V(k)", "max", ["S1 apart from S0: they pass nothing on, and read nothing alike"]),
    (
        "(k) = V(k) where k in 1:N",
        "max",
        ["S1 apart from S0: no loop of the one has the range of a loop of the other"],
    ),
    (
        "(i,j) = B(N-1-i,N-1-j)\n B(i,j) = A(j,i)",
        "max",
        [
            "S1 apart from S0: S1 reads elements of B that S0 writes at other points of their loops",
            "S2 apart from S1: S2 writes elements of B that S1 reads at other points of their loops",
        ],
    ),
    (
        " +=! A(i,j)\n B(k,l) = A(l,k) + C",
        "max",
        ["S3 apart from S0, S2: S3 reads elements of C that S2 writes at other points of their loops"],
    ),
]


@pytest.mark.parametrize(("second", "strategy", "told"), CASES)
def test_the_reason_why_statements_are_not_fused(second: str, strategy: Strategy, told: list[str]) -> None:
    source = f"def f(float(N,N) A, float(N) V) -> (B, C) {{ B(i,j) = A(i,j) * 2\n C{second} }}"
    assert _reasons(source, strategy, N=50) == told


def test_strategies_are_named_as_reasons() -> None:
    why = "they could share b: the strategy 'preserve3coincident' keeps them apart"
    assert _reasons(MLP3, "max", **SIZES[MLP3]) == []
    assert _reasons(MLP3, "preserve3coincident", **SIZES[MLP3]) == [
        f"S3, S4, S5 apart from S0, S1, S2: {why}",
        f"S6, S7, S8 apart from S3, S4, S5: {why}",
    ]


def _reasons(source: str, strategy: Strategy, **sizes: int) -> list[str]:
    polyhedra = scop.build(program(source, **sizes))
    with isl_context():
        distances = Distances()
        groups = fusion.fuse(polyhedra, strategy, distances)
        return list(fusion_diagnostics(polyhedra, groups, distances, fusion.policy_of(strategy)))


def test_a_predicate_and_a_policy_are_named_as_reasons() -> None:
    source = "def f(float(N,N) A, float(N) V) -> (B, C) { B(i,j) = A(i,j) * 2\n C(i,j) = B(i,j) + 1 }"

    def never(_: Proposal) -> bool:
        return False

    told = "S1 apart from S0: they could share i, j: the function that option fusion is keeps them apart"
    for backend in ("cpu", "cuda"):
        kernel = tc.compile(source, backend, options={"fusion": never})
        assert told in kernel.inspect("choice", N=50).replace("i_j", "i, j").splitlines()
    mine = "S1 apart from S0: they could share i, j: it is Monday"
    polyhedra = scop.build(program(source, N=50))
    with isl_context():
        policy, distances = FusionPolicy(lambda _: "it is Monday"), Distances()
        groups = fusion.fuse(polyhedra, policy, distances)
        assert fusion_diagnostics(polyhedra, groups, distances, policy) == (mine,)


@pytest.mark.slow
def test_policies_of_backends_give_their_reasons() -> None:
    """Each sum alone has enough rows for all blocks; together they have 3 images."""
    sums = (
        "def f(float(B,N,K) A, float(B,M,K) C) -> (S, T) {"
        " S(b,n) +=! A(b,n,k)\n T(b,m) +=! C(b,m,k) * A(b,0,k) + S(b,0) }"
    )
    gpu = tc.compile(sums, "cuda", options={"isa": "sm_90"}).inspect("choice", B=3, N=4096, M=2048, K=512)
    assert "they could share b: 3 iterations would be too few for 132 units\n" in gpu
    cpu = tc.compile(sums, "cpu", options={"machine": {"cores": 2}})
    assert "they could share b: 3 iterations would be too few for 2 cores\n" in cpu.inspect(
        "choice", B=3, N=4096, M=2048, K=512
    )
    parts = tc.compile(
        "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
        "cuda",
        options={"isa": "sm_90"},
    ).inspect("choice", M=1024, N=1024, K=1024)
    told = "blocks make parts of results, which are whole when all of them have ended"
    assert f"S0, S1 apart from S1i, S1p: they could share i, j: {told}\n" in parts
