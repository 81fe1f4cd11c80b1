"""Regions, nests and phases of fused programs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tc.errors import InternalError
from tc.ir.evaluate import evaluate
from tc.ir.expr import IntImm
from tc.poly import scop, tile_plan
from tc.poly.context import isl_context
from tc.poly.fusion import fusion
from tests.poly import fused, programs
from tests.poly.fused import program

CUBES = """def cubes(float(N,M,K,D) A) -> (s, O) {
  s(n,m,k) +=! A(n,m,k,d)
  O(n,m,k,d) = A(n,m,k,d) / s(n,m,k)
}"""


def text(source: str, strategy: fusion.Strategy = "max", **sizes: int) -> str:
    """`b | o: S0; S1 in n; S2 | p: …`: a region's shared axes, then its nests; `,` in one phase."""
    p = program(source, **sizes)
    with isl_context():
        tree = fusion.fuse(scop.build(p), strategy)
    return shown(tile_plan.regions(p, tree))


def shown(regions: Sequence[tile_plan.Region]) -> str:
    lines: list[str] = []
    for r in regions:
        nests: list[str] = []
        for n in r.nests:
            phases = [
                ", ".join(x.statements) + (" in " + " ".join(a.name for a in x.axes) if x.axes else "")
                for x in n.phases
            ]
            nests.append(" ".join(a.name for a in n.axes) + ": " + "; ".join(phases))
        lines.append(" | ".join([" ".join(a.name for a in r.axes), *nests]))
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (fused.GEMM, " | i_0 j_1: S0; S1 in k_2"),
        (fused.BIAS, " | i_0 j_1: S0; S1 in k_2; S2"),
        (fused.SOFTMAX, " | n_0: S0; S1 in d_1; S2 in d_1; S3; S4 in d_1; S5 in d_1"),
        (fused.MOMENTS, " | n_0: S0; S2; S1, S3 in k_1; S4; S5"),
        (
            fused.MLP3,
            "b_0 | b_0 o_1: S0; S1 in n_2; S2 | b_0 p_1: S3; S4 in o_2; S5 | b_0 q_1: S6; S7 in p_2; S8",
        ),
        (
            fused.BATCH_NORM,
            " | c_0: S0; S1 in nn_1 hh_2 ww_3; S2; S3; S4 in nn_1 hh_2 ww_3; S5; S6 in n_1 h_2 w_3",
        ),
        (fused.KRONECKER, "m_0 d1_1 | m_0 d1_1 n0_2: S0; S1 in r1_3 | m_0 d1_1 d0_2: S2; S3 in r0_3"),
        (fused.LUT2, " | i_0 j_1: S0; S1 in k_2\n | i_0 j_1: S2; S3 in k_2"),
        (fused.STENCIL, " | i_0: S0\n | i_0: S1"),
        (fused.CONV, " | n_0 f_1 h_2 w_3: S0; S1 in c_4 kh_5 kw_6; S2"),
        # A result that is one element: its initialisation and its loop are phases of a nest without axes.
        (fused.SCALARS, " | : S0; S1 in i_0\n | i_0: S2"),
    ],
    ids=[
        "gemm",
        "bias",
        "softmax",
        "moments",
        "mlp3",
        "batch norm",
        "kronecker",
        "lookups",
        "stencil",
        "conv",
        "scalar",
    ],
)
def test_regions_of_a_fused_program(source: str, expected: str) -> None:
    assert text(source) == expected


def test_strategy_min_makes_a_nest_for_each_statement() -> None:
    assert text(fused.BIAS, "min") == " | i_0 j_1: S0\n | i_0 j_1: S1 in k_2\n | i_0 j_1: S2"


def test_statements_beside_nests_in_a_region_are_nests_too() -> None:
    """t(b) is used between two nests that share b."""
    source = """def f(float(B,N) A, float(B,N) C) -> (P, Q) {
      P(b,i) = A(b,i) + C(b,i)
      t(b) max=! P(b,i)
      u(b,j) = P(b,j) * t(b)
      Q(b,j) +=! u(b,k) * P(b,j)
    }"""
    found = text(source, B=3, N=5)
    for name in ("S0", "S1", "S2", "S3", "S4", "S5"):
        assert name in found


def test_axes_have_the_ranges_of_their_loops() -> None:
    source = "def f(float(N) A) -> (O, P) { O(i) = A(i-3)\nP(i) = O(i) * 2 }"
    p = program(source, N=7)
    with isl_context():
        (region,) = tile_plan.regions(p, fusion.fuse(scop.build(p), "max"))
    (nest,) = region.nests
    (axis,) = nest.axes
    assert (axis.typical_min, axis.typical_extent, dict(axis.vars)) == (3, 7, {"S0": "i", "S1": "i"})
    assert nest.statements == ("S0", "S1")


def test_axes_of_a_nest_have_its_own_statements_only() -> None:
    p = program(fused.MLP3)
    with isl_context():
        (region,) = tile_plan.regions(p, fusion.fuse(scop.build(p), "max"))
    assert [sorted(n.axes[0].vars) for n in region.nests] == [
        ["S0", "S1", "S2"],
        ["S3", "S4", "S5"],
        ["S6", "S7", "S8"],
    ]
    reduction = region.nests[0].phases[1].axes[0]
    assert (reduction.reductions, reduction.typical_extent) == (frozenset({"S1"}), 4)
    assert all(not a.reductions for n in region.nests for a in n.axes)


def test_an_unknown_size_is_an_internal_error() -> None:
    p = programs.matmul()
    with isl_context():
        tree = fusion.fuse(scop.build(p), "max")
    with pytest.raises(InternalError, match="not a constant"):
        tile_plan.regions(p, tree)


def test_axes_of_dynamic_sizes_have_typical_and_symbolic_extents() -> None:
    p = program("def f(float(N,M) A) -> (O) { O(i,j) = A(i,j) where i in 2:N }", M=5)
    with isl_context():
        tree = fusion.fuse(scop.build(p), "max")
    ((region,),) = (tile_plan.regions(p, tree, {"N": 10}),)
    i, j = region.nests[0].axes
    assert (i.typical_extent, evaluate(i.points, {"N": 33}), i.low) == (8, 31, IntImm(2))
    assert (j.typical_extent, j.points, j.size) == (5, IntImm(5), None)
    with pytest.raises(InternalError, match="not a constant"):
        tile_plan.regions(p, tree)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (fused.BIAS, "i_0 j_1 | i_0 j_1: S0 | i_0 j_1: S1 in k_2 | i_0 j_1: S2"),
        (
            fused.KRONECKER,
            "m_0 d1_1 | m_0 d1_1 n0_2: S0 | m_0 d1_1 n0_2: S1 in r1_3"
            " | m_0 d1_1 d0_2: S2 | m_0 d1_1 d0_2: S3 in r0_3",
        ),
        (fused.STENCIL, " | i_0: S0\n | i_0: S1"),
    ],
    ids=["one nest becomes three", "more nests of the axes that they share", "nothing is shared"],
)
def test_strategy_min_distributes_phases(source: str, expected: str) -> None:
    p = program(source)
    with isl_context():
        tree = fusion.fuse(scop.build(p), "max")
    regions = [tile_plan.distributed(r, "min") for r in tile_plan.regions(p, tree)]
    assert shown(regions) == expected
    for r in regions:
        for n in r.nests:
            assert {s for a in n.axes for s in a.vars} == set(n.statements)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # The update has no loop but that of its reduction.
        (fused.BIAS, " | i_0 j_1: S0; S1 in k_2; S2"),
        # Rows share one loop and the normalisation has another.
        (
            fused.SOFTMAX,
            "n_0 | n_0: S0; S1 in d_1 | n_0: S2 in d_1 | n_0: S3; S4 in d_1 | n_0: S5 in d_1",
        ),
        # Three loops are enough.
        (CUBES, " | n_0 m_1 k_2: S0; S1 in d_3; S2 in d_3"),
    ],
    ids=["a reduction", "fewer than three", "three"],
)
def test_strategy_preserve3coincident_distributes_the_other_phases(source: str, expected: str) -> None:
    p = program(source, **({} if source in fused.SIZES else {"N": 3, "M": 4, "K": 5, "D": 6}))
    with isl_context():
        tree = fusion.fuse(scop.build(p), "max")
    assert (
        shown([tile_plan.distributed(r, "preserve3coincident") for r in tile_plan.regions(p, tree)])
        == expected
    )
