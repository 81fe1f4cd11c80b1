"""The schedule trees of the report's Figure 3 for sgemm, as far as they are stages here: (a) as written, (b)
fused, (d) tiled, the statements of the imperfect nest sunk below the tiles, (e) mapped to blocks and threads.
The one between, (c), tiled with the points of both statements in one band, is not made on the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tc.ir.expr import IntImm
from tc.poly import fusion, legality, mapping, schedule, trace
from tc.poly.context import isl_context
from tc.poly.dependences import dependences
from tc.poly.mapping.plan import AxisMap, NestMap, RegionMap
from tc.poly.tree import dump
from tests.poly.test_mapping import launched, polyhedra

SGEMM = """def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {
  C(i,j) = b
  C(i,j) += a * A(i,k) * B(k,j)
}"""
SIZES = {"N": 100, "M": 70, "K": 90}
ROWS, COLUMNS, SUMMANDS = 32, 32, 32

TILED = RegionMap(
    (), (), (NestMap({"i_0": AxisMap(ROWS), "j_1": AxisMap(COLUMNS)}, ({}, {"k_2": AxisMap(SUMMANDS)})),)
)
MAPPED = RegionMap(
    (("b0", IntImm(4)), ("b1", IntImm(3))),
    (("t0", 32), ("t1", 8)),
    (
        NestMap(
            {"i_0": AxisMap(ROWS, "b0", 4, "t1", 8), "j_1": AxisMap(COLUMNS, "b1", 3, "t0", 32)},
            ({}, {"k_2": AxisMap(SUMMANDS)}),
        ),
    ),
)


def test_a_as_written_and_b_fused(golden: Callable[[str, str], None]) -> None:
    _, s, _ = polyhedra(SGEMM, "min", **SIZES)
    with isl_context():
        apart = schedule.fused(s, fusion.fuse(s, "min"))
        together = schedule.fused(s, fusion.fuse(s, "max"))
        for tree in (apart, together):
            legality.verify(s, tree, dependences(s), "Figure 3")
        golden("figure3/a.txt", dump(apart))
        golden("figure3/b.txt", dump(together))


@pytest.mark.parametrize(
    ("name", "how", "shared"), [("d", TILED, 0), ("e", MAPPED, 0), ("e_promoted", MAPPED, 48 << 10)]
)
def test_tiled_and_mapped(name: str, how: RegionMap, shared: int, golden: Callable[[str, str], None]) -> None:
    _, s, regions = polyhedra(SGEMM, "max", **SIZES)
    with isl_context():
        made = mapping.mapped(mapping.placed(s, regions[0], how, "{}.0".format, shared, bool(shared)))
        golden(f"figure3/{name}.txt", dump(made.schedule))


@pytest.mark.parametrize("how", [TILED, MAPPED])
def test_they_run_each_point_once(how: RegionMap) -> None:
    """At sizes that are small enough to look at each, with rests in all dimensions."""
    p, s, regions = polyhedra(SGEMM, "max", N=9, M=5, K=7)
    (nest,) = how.nests
    small = {
        n: AxisMap(m.tile // 8, m.block, m.blocks, m.thread, max(1, m.threads // 8))
        for n, m in nest.axes.items()
    }
    reduced = {n: AxisMap(m.tile // 8) for n, m in nest.phases[1].items()}
    threads = tuple((v, n // 8) for v, n in how.threads)
    how = RegionMap(how.blocks, threads, (NestMap(small, ({}, reduced)),))
    trace.verify(p, launched(p, s, regions, [how], 4096), {})
