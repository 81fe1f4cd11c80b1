# pyright: reportUnknownMemberType=false
"""The schedule trees of the report's Figure 3 for sgemm: (a) as written, (b) fused, (c) tiled with the points
of both statements in one band, (d) these points sunk, (e) mapped to blocks and threads.

The compiler goes from (b) to (d) at once.  isl makes (c) of (b) here, and of that what (d) must be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import islpy as isl
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
# As in the report, where a grid may be smaller than there are tiles: blocks take turns, over a band of tiles.
CYCLING = RegionMap(
    (("b0", IntImm(2)), ("b1", IntImm(2))),
    MAPPED.threads,
    tuple(
        NestMap({n: replace(m, blocks=2) for n, m in nest.axes.items()}, nest.phases) for nest in MAPPED.nests
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


def tiled(band: isl.ScheduleNode, size: int) -> isl.ScheduleNode:
    """A band of tiles of so many points along each of its members, with one of points below."""
    sizes = isl.MultiVal.zero(band.band_get_space())
    for i in range(band.band_n_member()):
        sizes = sizes.set_val(i, isl.Val.int_from_si(sizes.get_ctx(), size))
    return band.band_tile(sizes)


def test_c_tiled_whose_points_sink_into_d(golden: Callable[[str, str], None]) -> None:
    _, s, _ = polyhedra(SGEMM, "max", **SIZES)
    with isl_context():
        fused = schedule.fused(s, fusion.fuse(s, "max"))
        golden("figure3/c.txt", dump(tiled(fused.get_root().child(0), ROWS).get_schedule()))
    _, s, regions = polyhedra(SGEMM, "max", N=6, M=5, K=7)
    axes, reduced = {"i_0": AxisMap(4), "j_1": AxisMap(4)}, {"k_2": AxisMap(4)}
    how = RegionMap((), (), (NestMap(axes, ({}, reduced)),))
    with isl_context():
        ours = mapping.mapped(mapping.placed(s, regions[0], how, "{}.0".format, 0, False)).schedule
        c = tiled(schedule.fused(s, fusion.fuse(s, "max")).get_root().child(0), 4)
        legality.verify(s, c.get_schedule(), dependences(s), "tiling")
        points = c.child(0).band_sink()
        # Of the second statement: tiles of its own loop, then the points (i, j), then those of its own loop.
        summands = tiled(points.child(1).child(0), 4)
        sunk = summands.child(0).band_sink().get_schedule()
        legality.verify(s, sunk, dependences(s), "sinking")
        assert before(sunk).is_equal(before(ours))
        assert not before(c.get_schedule()).is_equal(before(ours))


def before(tree: isl.Schedule) -> isl.UnionMap:
    """Which instances run before which."""
    times = tree.get_map()
    return times.lex_lt_union_map(times)


@pytest.mark.parametrize(
    ("name", "how", "shared"),
    [
        ("d", TILED, 0),
        ("e", MAPPED, 0),
        ("e_cycling", CYCLING, 0),
        ("e_promoted", MAPPED, 48 << 10),
    ],
)
def test_tiled_and_mapped(name: str, how: RegionMap, shared: int, golden: Callable[[str, str], None]) -> None:
    _, s, regions = polyhedra(SGEMM, "max", **SIZES)
    with isl_context():
        made = mapping.mapped(mapping.placed(s, regions[0], how, "{}.0".format, shared, bool(shared)))
        golden(f"figure3/{name}.txt", dump(made.schedule))


@pytest.mark.parametrize("how", [TILED, MAPPED, CYCLING])
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
