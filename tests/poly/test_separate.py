"""Why loops that follow each other are not one."""

from __future__ import annotations

import pytest

from tc.poly import fusion, scop
from tc.poly.context import isl_context
from tc.poly.distances import Distances
from tc.poly.fusion import Strategy
from tc.poly.separate import separations
from tests.poly.fused import MLP3, SIZES, program

ALIKE = "(i,j) = B(i,j) + 1"
CASES: list[tuple[str, Strategy, list[str]]] = [
    (ALIKE, "max", []),
    (ALIKE, "min", ["S1 apart from S0: they could share i, j: the strategy keeps them apart"]),
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
def test_of_two(second: str, strategy: Strategy, told: list[str]) -> None:
    source = f"def f(float(N,N) A, float(N) V) -> (B, C) {{ B(i,j) = A(i,j) * 2\n C{second} }}"
    assert _told(source, strategy, N=50) == told


def test_a_strategy() -> None:
    assert _told(MLP3, "max", **SIZES[MLP3]) == []
    assert _told(MLP3, "preserve3coincident", **SIZES[MLP3]) == [
        "S3, S4, S5 apart from S0, S1, S2: they could share b: the strategy keeps them apart",
        "S6, S7, S8 apart from S3, S4, S5: they could share b: the strategy keeps them apart",
    ]


def _told(source: str, strategy: Strategy, **sizes: int) -> list[str]:
    polyhedra = scop.build(program(source, **sizes))
    with isl_context():
        distances = Distances()
        groups = fusion.fuse(polyhedra, strategy, distances)
        return list(separations(polyhedra, groups, distances))
