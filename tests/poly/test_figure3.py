# pyright: reportUnknownMemberType=false
"""The schedule trees of the report's Figure 3 for sgemm: (a) as written, (b) fused, (c) tiled with the points
of both statements in one band, (d) these points sunk, (e) mapped to blocks and threads.

The compiler goes from (b) to (d) at once.  isl makes (c) of (b) here, and of that what (d) must be.  All of
them run, on PoCL and on the shim: (a) to (d) as launches of one thread.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import islpy as isl
import numpy as np
import pytest

import tc
from tc.codegen import gpu_source
from tc.codegen.dialect import CUDA
from tc.ir.expr import IntImm
from tc.poly import ast, gpu, legality, loop_nest, schedule, trace
from tc.poly.context import isl_context
from tc.poly.dependences import dependences
from tc.poly.fusion import fusion
from tc.poly.gpu.mapping import AxisMap, NestMap, RegionMap
from tc.poly.scop import Scop
from tc.poly.tree_text import dump
from tests.codegen import launches
from tests.poly.test_mapping import launched, polyhedra
from tests.simt import shim
from tests.simt.mapped import Array, Call

compile_text: Any = importlib.import_module("tc_backends.cuda.nvrtc").compile_text

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
# As in the report, where a grid may be smaller than the number of tiles: blocks loop over a band of tiles.
CYCLING = RegionMap(
    (("b0", IntImm(2)), ("b1", IntImm(2))),
    MAPPED.threads,
    tuple(
        NestMap({n: replace(m, blocks=2) for n, m in nest.axes.items()}, nest.phases) for nest in MAPPED.nests
    ),
)


# With bytes of shared memory.
MAPS = {"d": (TILED, 0), "e": (MAPPED, 0), "e_cycling": (CYCLING, 0), "e_promoted": (MAPPED, 48 << 10)}


def unmapped(name: str, s: Scop) -> isl.Schedule:
    """(a), (b) or (c)."""
    fused = schedule.fused(s, fusion.fuse(s, "min" if name == "a" else "max"))
    return tiled(fused.get_root().child(0), ROWS).get_schedule() if name == "c" else fused


def tiled(band: isl.ScheduleNode, size: int) -> isl.ScheduleNode:
    """A band of tiles of so many points along each of its members, with one of points below."""
    sizes = isl.MultiVal.zero(band.band_get_space())
    for i in range(band.band_n_member()):
        sizes = sizes.set_val(i, isl.Val.int_from_si(sizes.get_ctx(), size))
    return band.band_tile(sizes)


@pytest.mark.parametrize("name", "abc")
def test_schedules_of_figures_3a_to_3c_match(name: str, golden: Callable[[str, str], None]) -> None:
    _, s, _ = polyhedra(SGEMM, **SIZES)
    with isl_context():
        tree = unmapped(name, s)
        legality.verify(s, tree, dependences(s), "Figure 3")
        golden(f"figure3/{name}.txt", dump(tree))


def test_point_loops_of_figure_3c_are_sunk_in_3d() -> None:
    _, s, regions = polyhedra(SGEMM, "max", N=6, M=5, K=7)
    axes, reduced = {"i_0": AxisMap(4), "j_1": AxisMap(4)}, {"k_2": AxisMap(4)}
    region_map = RegionMap((), (), (NestMap(axes, ({}, reduced)),))
    with isl_context():
        ours = gpu.mapped(gpu.promote(s, regions[0], region_map, "{}.0".format, 0, False)).schedule
        c = tiled(schedule.fused(s, fusion.fuse(s, "max")).get_root().child(0), 4)
        legality.verify(s, c.get_schedule(), dependences(s), "tiling")
        points = c.child(0).band_sink()
        # The second statement has tiles of its own loop, then the points (i, j), then those of its own loop.
        summands = tiled(points.child(1).child(0), 4)
        sunk = summands.child(0).band_sink().get_schedule()
        legality.verify(s, sunk, dependences(s), "sinking")
        assert before(sunk).is_equal(before(ours))
        assert not before(c.get_schedule()).is_equal(before(ours))


def before(tree: isl.Schedule) -> isl.UnionMap:
    """The relation from instances to those that run after them."""
    times = tree.get_map()
    return times.lex_lt_union_map(times)


@pytest.mark.parametrize("name", MAPS)
def test_the_mapped_schedule_of_figure_3e_matches(name: str, golden: Callable[[str, str], None]) -> None:
    region_map, shared = MAPS[name]
    _, s, regions = polyhedra(SGEMM, **SIZES)
    with isl_context():
        made = gpu.mapped(gpu.promote(s, regions[0], region_map, "{}.0".format, shared, bool(shared)))
        golden(f"figure3/{name}.txt", dump(made.schedule))


@pytest.mark.parametrize("region_map", [TILED, MAPPED, CYCLING])
def test_schedules_run_each_point_once(region_map: RegionMap) -> None:
    """At small sizes, with partial tiles in all dimensions."""
    p, s, regions = polyhedra(SGEMM, "max", N=9, M=5, K=7)
    (nest,) = region_map.nests
    small = {
        n: AxisMap(m.tile // 8, m.block, m.blocks, m.thread, max(1, m.threads // 8))
        for n, m in nest.axes.items()
    }
    reduced = {n: AxisMap(m.tile // 8) for n, m in nest.phases[1].items()}
    threads = tuple((v, n // 8) for v, n in region_map.threads)
    region_map = RegionMap(region_map.blocks, threads, (NestMap(small, ({}, reduced)),))
    trace.verify(p, launched(p, s, regions, [region_map], 4096), {})


@functools.cache
def called(name: str, ahead: bool = True) -> Call:
    """The launch of a tree with small integers.  `ahead`: copies to shared memory are double-buffered."""
    p, s, regions = polyhedra(SGEMM, **SIZES)
    if name in MAPS:
        region_map, shared = MAPS[name]
        loops = launched(p, s, regions, [region_map], shared, ahead and bool(shared))
    else:
        with isl_context():
            loops = launches.launched(loop_nest.assemble(p, ast.loops(s, unmapped(name, s))))
    rng, (n, m, k) = np.random.default_rng(0), SIZES.values()
    given = {x: rng.integers(-3, 4, e).astype(np.float32) for x, e in {"A": (n, m), "B": (m, k)}.items()}
    return Call(loops, gpu_source.emit(loops, CUDA), {}, {"C": (n, k)}, {"a": 2.0, "b": 3.0, **given}, {})


@functools.cache
def wanted() -> Array:
    return np.asarray(tc.interpret(SGEMM, **called("a").given))


TREES = ["a", "b", "c", *MAPS]


@pytest.mark.share(18)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("name", TREES)
def test_schedules_give_exact_results_on_pocl(name: str, backwards: bool) -> None:
    """With threads in both orders, and with loops around barriers unrolled.  There is no double buffering."""
    call = called(name, ahead=False)
    whole, loops = launches.unrolled(call.nest.body)
    assert bool(loops) == (name == "e_promoted")
    for body in (call.nest.body, whole) if loops else (call.nest.body,):
        found = launches.on_device(replace(call.nest, body=body), call.given, backwards=backwards)
        np.testing.assert_array_equal(found.outputs["C"], wanted())


@pytest.mark.share(18)
@pytest.mark.parametrize("name", TREES)
def test_schedules_have_no_findings_on_the_shim(name: str) -> None:
    """In all orders of threads; a single thread has one order."""
    call = called(name)
    several = call.module.kernels[0].threads > 1
    result = call.run(orders=shim.ORDERS if several else ("ascending",))
    assert not result.found, shim.report(result.found)
    np.testing.assert_array_equal(result.values["C"], wanted())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", TREES)
def test_nvrtc_compiles_the_schedules(name: str, arch: str) -> None:
    """Without spills."""
    (made,) = compile_text(called(name).module.text, arch, contract=True).resources.values()
    assert (made.stack, made.spill_stores, made.spill_loads) == (0, 0, 0)
