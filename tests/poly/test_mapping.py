"""Blocks and threads: with any mapping each point of loops runs once, in a legal order, without a race.

The trace oracle runs the launches in Python, thread by thread; no chooser is involved.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tc.errors import InternalError
from tc.ir.expr import EQ, Add, IntImm, Mul, Variable
from tc.ir.loops import Block, Combine, Compute, For, If, Launch, LoopNest, Stmt, Sync, statements
from tc.ir.program import Program
from tc.poly import gpu, loop_nest, scop, tile_plan, trace
from tc.poly.context import isl_context
from tc.poly.fusion import fusion
from tc.poly.gpu.footprint import footprint
from tc.poly.gpu.mapping import AxisMap, NestMap, RegionMap, Unit, tiled_axes
from tc.poly.gpu.private_memory import shape
from tc.poly.gpu.shared import CopyPolicy
from tc.poly.tile_plan import Axis, Region
from tests.poly import fused
from tests.poly.fused import program
from tests.share import examples

_COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck))

CASES = {
    "gemm": (fused.GEMM, {"M": 5, "N": 11, "K": 4}),
    "bias": (fused.BIAS, {"M": 4, "N": 9, "K": 5}),
    "softmax": (fused.SOFTMAX, {"N": 5, "D": 9}),
    "moments": (fused.MOMENTS, {"N": 5, "K": 7}),
    "mlp3": (fused.MLP3, {"B": 3, "N": 4, "O": 5, "P": 6, "Q": 2}),
    "batch_norm": (fused.BATCH_NORM, {"N": 2, "C": 3, "H": 4, "W": 5}),
    "kronecker": (fused.KRONECKER, {"M": 2, "N0": 3, "N1": 4, "D0": 5, "D1": 6}),
    "lut2": (fused.LUT2, {"E1": 9, "E2": 8, "D": 4, "B": 3, "L1": 2, "L2": 5}),
    "conv": (fused.CONV, {"N": 2, "C": 2, "H": 5, "W": 6, "F": 3, "KH": 2, "KW": 2}),
    "stencil": (fused.STENCIL, {"N": 9}),
    "transposed": (fused.TRANSPOSED, {"N": 5}),
    "anti": (fused.ANTI, {"N": 6}),
    "triangle": (fused.TRIANGLE, {"N": 6}),
    "syrk": (fused.SYRK, {"N": 7, "K": 4}),
    "scalars": (fused.SCALARS, {"N": 6}),
    "wide": (fused.WIDE, {"N": 4, "M": 5}),
    "update": (fused.UPDATE, {"N": 20}),
    "chain": (fused.CHAIN, {"N": 4, "M": 5}),
    "late": (fused.LATE, {"B": 2, "I": 3, "K": 6, "J": 4}),
}


@functools.cache
def polyhedra(
    source: str, strategy: str = "max", **sizes: int
) -> tuple[Program, scop.Scop, tuple[Region, ...]]:
    p = program(source, **sizes)
    with isl_context():
        s = scop.build(p)
        return p, s, tile_plan.regions(p, fusion.fuse(s, strategy))  # type: ignore[arg-type]


def launched(
    p: Program,
    s: scop.Scop,
    regions: tuple[Region, ...],
    maps: list[RegionMap],
    shared: int = 0,
    ahead: bool = False,
    staged: bool = False,
    private: bool = True,
) -> LoopNest:
    counter = itertools.count()

    def name(stem: str) -> str:
        return f"{stem}_{next(counter)}"

    copies = CopyPolicy(double_buffered=ahead, staged=staged)
    with isl_context():
        promoted = (
            gpu.promote(s, r, m, name, shared, private, copies) for r, m in zip(regions, maps, strict=True)
        )
        made = [gpu.kernel(s, f"k{i}", p.mapping, gpu.mapped(p)) for i, p in enumerate(promoted)]
    found = loop_nest.assemble(p, Block(tuple(k.launch for k in made)))
    return replace(found, arrays=(*found.arrays, *(a for k in made for a in k.arrays)))


@st.composite
def region_maps(draw: st.DrawFn, region: Region) -> RegionMap:
    """Any legal mapping of a region."""
    counts = draw(st.lists(st.integers(1, 4), max_size=3))
    threads = tuple((f"t{i}", n) for i, n in enumerate(counts))
    blocks: list[tuple[str, IntImm]] = []
    tiled = {a.name for a in tiled_axes(region)}
    shared: dict[str, AxisMap] = {}

    def dealt(a: Axis, free: list[int], tile: int, block: str | None, count: int) -> AxisMap:
        chosen = draw(st.sampled_from([None, *free])) if free else None
        if chosen is None:
            return AxisMap(tile, block, count)
        free.remove(chosen)
        n = counts[chosen]
        return AxisMap(-(-tile // n) * n, block, count, f"t{chosen}", n)

    free_everywhere = list(range(len(counts)))
    first = region.nests[0].axes if len(region.nests) == 1 else region.axes
    for a in first:
        if a.name in tiled:
            tile = draw(st.sampled_from([0, 1, 2, 3, 5]))
            block, count = None, 1
            if tile and draw(st.booleans()):
                block, count = f"b{len(blocks)}", draw(st.integers(1, 4))
                blocks.append((block, IntImm(count)))
            shared[a.name] = dealt(a, free_everywhere, tile, block, count)
    nests: list[NestMap] = []
    for n in region.nests:
        free = list(free_everywhere)
        axes = {a.name: shared[a.name] if a.name in shared else dealt(a, free, 0, None, 1) for a in n.axes}
        phases = []
        for p in n.phases:
            left = list(free)
            few = shape([(a, axes[a.name]) for a in n.axes]) is not None
            own = {a.name: dealt(a, left if few or not a.reductions else [], 0, None, 1) for a in p.axes}
            if all(m.thread is None for m in own.values()):
                own = {k: AxisMap(draw(st.sampled_from([0, 1, 2, 3]))) for k in own}
            phases.append(own)
        nests.append(NestMap(axes, tuple(phases)))
    return RegionMap(tuple(blocks), threads, tuple(nests))


@pytest.mark.share(18)
@pytest.mark.parametrize("strategy", ["max", "min"])
@pytest.mark.parametrize("name", CASES)
@settings(_COMMON, max_examples=examples(12, 6))
@given(data=st.data())
def test_any_mapping_runs_each_point_once(name: str, strategy: str, data: st.DataObject) -> None:
    source, sizes = CASES[name]
    p, s, regions = polyhedra(source, strategy, **sizes)
    maps = [data.draw(region_maps(r)) for r in regions]
    shared = data.draw(st.sampled_from([0, 64, 4096]))
    ahead, staged = data.draw(st.booleans()), data.draw(st.booleans())
    trace.verify(p, launched(p, s, regions, maps, shared, ahead, staged), {})


def test_empty_tiles_are_not_prefetched_by_double_buffering() -> None:
    """Without a wait no copy may be in flight."""
    p, s, regions = polyhedra(fused.SYRK, N=7, K=4)
    nest_map = NestMap({"i_0": AxisMap(1), "j_1": AxisMap(2)}, ({}, {"k_2": AxisMap(2)}))
    trace.verify(p, launched(p, s, regions, [RegionMap((), (), (nest_map,))], 64, ahead=True), {})


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("first", "second"), [(3, 2), (3, -2), (-3, 2), (-1, -1)])
def test_the_footprint_of_a_tile_is_a_box(first: int, second: int, whole: bool) -> None:
    """4 tiles of 4 points from 5 on, and a loop of 6 points on 4 threads, which runs 8 with padding."""
    i, j = Axis("i_0", {"S": "i"}, 5, 16), Axis("j_1", {"S": "j"}, 0, 6)
    unit = Unit((), ((i, AxisMap(4)),), ((j, AxisMap(0, None, 1, "t0", 4)),))
    at = Add(Add(Mul(IntImm(first), Variable("i")), Mul(IntImm(second), Variable("j"))), IntImm(40))
    box = footprint(unit, "S", [at], whole=whole)
    assert box is not None
    inner = range(8 if whole else 6)
    tiles = [[first * (5 + 4 * q + p) + second * r + 40 for p in range(4) for r in inner] for q in range(4)]
    lowest = [min(t) for t in tiles]
    assert (box[0].constant, box[0].size) == (lowest[0], max(tiles[0]) - lowest[0] + 1)
    assert (box[0].least, box[0].most) == (min(lowest), max(lowest))


@pytest.mark.parametrize(
    ("points", "expected"),
    [((8, 8), (8, 8)), ((5, 13), None), ((1, 4), (4,)), ((), ()), ((None, 2), None), ((2, None), None)],
)
def test_points_of_a_thread_have_registers(
    points: tuple[int | None, ...], expected: tuple[int, ...] | None
) -> None:
    """If their number is known and within the limit."""
    axes = [Axis(f"i_{d}", {}, 0, n or 2, size=None if n else Variable("N")) for d, n in enumerate(points)]
    assert shape([(a, AxisMap()) for a in axes]) == expected


ROWS = RegionMap(
    (("b0", IntImm(3)),),
    (("t0", 4),),
    (
        NestMap(
            {"n_0": AxisMap(1, "b0", 3)},
            tuple({"d_1": AxisMap(0, None, 1, "t0", 4)} if d else {} for d in (0, 0, 1, 1, 1)),
        ),
    ),
)


def rows(private: bool = True) -> tuple[Program, LoopNest]:
    """Rows of softmax; reduction results go through memory unless they are replicated in registers."""
    p, s, regions = polyhedra(fused.SOFTMAX, N=5, D=9)
    phases = [ph.axes for ph in regions[0].nests[0].phases]
    ways = tuple({a.name: AxisMap(0, None, 1, "t0", 4) for a in axes} for axes in phases)
    mapping = replace(ROWS, nests=(replace(ROWS.nests[0], phases=ways),))
    return p, launched(p, s, regions, [mapping], private=private)


def test_a_softmax_row_is_reduced_by_a_block() -> None:
    """All threads have the maximum and the sum in registers, and there are no other barriers."""
    p, n = rows(private=False)
    trace.verify(p, n, {})
    found = [type(x).__name__ for x in statements(n.body) if isinstance(x, Sync | Combine)]
    assert found == ["Combine", "Sync", "Sync", "Combine", "Sync"]
    p, n = rows()
    trace.verify(p, n, {})
    found = [x for x in statements(n.body) if isinstance(x, Sync | Combine)]
    assert [x.everywhere for x in found if isinstance(x, Combine)] == [True, True] == [True for _ in found]
    assert [a.partial_of for a in n.arrays if a.role == "register"] == [None, "t", "t"]


def test_replicated_results_are_written_by_all_threads() -> None:
    p, n = rows()
    replicated = {a.name for a in n.arrays if a.replicas}
    written = [s for s in statements(n.body) if isinstance(s, Compute) and s.buffer in replicated]
    assert len(written) == 4
    first = EQ(Variable("t0"), IntImm(0))
    for s in written:
        (body,) = changed(n.body, lambda x, s=s: If(first, x) if x is s else None)
        with pytest.raises(InternalError, match=r"which holds \[\]|still to be combined"):
            trace.verify(p, replace(n, body=body), {})
    there = changed(n.body, lambda x: replace(x, everywhere=False) if isinstance(x, Combine) else None)
    for body in there:
        with pytest.raises(InternalError, match="no first value"):
            trace.verify(p, replace(n, body=body), {})


@pytest.mark.parametrize(("lanes", "rows_of", "warp"), [(4, 8, True), (32, 2, True), (64, 1, False)])
def test_threads_of_one_warp_need_only_warp_barriers(lanes: int, rows_of: int, warp: bool) -> None:
    p, s, regions = polyhedra(fused.SOFTMAX, N=5, D=70)
    phases = [ph.axes for ph in regions[0].nests[0].phases]
    ways = tuple({a.name: AxisMap(0, None, 1, "t0", lanes) for a in axes} for axes in phases)
    axes = {"n_0": AxisMap(rows_of, "b0", 2, "t1", rows_of)}
    mapping = RegionMap((("b0", IntImm(2)),), (("t0", lanes), ("t1", rows_of)), (NestMap(axes, ways),))
    n = launched(p, s, regions, [mapping], private=False)
    trace.verify(p, n, {})
    found = [x for x in statements(n.body) if isinstance(x, Sync)]
    assert found and all(x.warp == warp for x in found)
    weaker = list(changed(n.body, lambda x: Sync(warp=True) if isinstance(x, Sync) and not warp else None))
    assert bool(weaker) != warp
    for body in weaker:
        with pytest.raises(InternalError, match="another thread"):
            trace.verify(p, replace(n, body=body), {})


def changed(s: Stmt, change: object) -> Iterator[Stmt]:
    """All variants of a statement with one part replaced by the result of `change`, if that is not None."""
    made = change(s)  # type: ignore[operator]
    if made is not None:
        yield made
    match s:
        case Block():
            for i, c in enumerate(s.body):
                for x in changed(c, change):
                    yield replace(s, body=(*s.body[:i], x, *s.body[i + 1 :]))
        case For() | Launch():
            for x in changed(s.body, change):
                yield replace(s, body=x)
        case If():
            for x in changed(s.then, change):
                yield replace(s, then=x)
        case _:
            pass


# Barriers of all kinds: for other units, for partial results, for the next tile.
NEEDED = [
    ("softmax", {"N": 5, "D": 9}, 4, 0),
    ("softmax", {"N": 5, "D": 70}, 64, 0),
    ("softmax", {"N": 5, "D": 70}, 64, 4096),
    ("late", {"B": 2, "I": 3, "K": 70, "J": 4}, 4, 0),
    ("late", {"B": 2, "I": 3, "K": 70, "J": 4}, 64, 0),
    ("late", {"B": 2, "I": 3, "K": 70, "J": 4}, 64, 4096),
]


@pytest.mark.parametrize(("name", "sizes", "lanes", "shared"), NEEDED)
def test_a_missing_barrier_is_a_race(name: str, sizes: dict[str, int], lanes: int, shared: int) -> None:
    """All are needed."""
    p, s, regions = polyhedra(CASES[name][0], **sizes)
    (region,) = regions
    nests = tuple(
        NestMap(
            {a.name: AxisMap(1, "b0", 2) if a is n.axes[0] else AxisMap() for a in n.axes},
            tuple({a.name: AxisMap(0, None, 1, "t0", lanes) for a in ph.axes} for ph in n.phases),
        )
        for n in region.nests
    )
    mapping = RegionMap((("b0", IntImm(2)),), (("t0", lanes),), nests)
    n = launched(p, s, regions, [mapping], shared, private=name != "softmax")
    trace.verify(p, n, {})
    broken = list(changed(n.body, lambda x: Block(()) if isinstance(x, Sync) else None))
    assert len(broken) >= 2
    for body in broken:
        with pytest.raises(InternalError, match="while another thread may touch it"):
            trace.verify(p, replace(n, body=body), {})


def test_a_missing_combination_loses_partial_results() -> None:
    p, n = rows()
    broken = list(changed(n.body, lambda x: Block(()) if isinstance(x, Combine) else None))
    assert len(broken) == 2
    for body in broken:
        with pytest.raises(InternalError, match=r"lost|no first value|still to be combined"):
            trace.verify(p, replace(n, body=body), {})


def test_a_missing_guard_runs_points_twice() -> None:
    p, n = rows(private=False)
    broken = list(changed(n.body, lambda x: x.then if isinstance(x, If) else None))
    assert len(broken) == 8
    for body in broken:
        with pytest.raises(InternalError, match=r"runs twice|no first value|another thread|does not have"):
            trace.verify(p, replace(n, body=body), {})


def test_a_divergent_barrier_is_found() -> None:
    p, n = rows(private=False)
    guard = next(x.condition for x in statements(n.body) if isinstance(x, If))
    broken = next(changed(n.body, lambda x: If(guard, x) if isinstance(x, Sync) else None))
    with pytest.raises(InternalError, match=r"not all threads .* get to the same barrier|another thread"):
        trace.verify(p, replace(n, body=broken), {})


def test_a_result_that_is_not_stored_is_found() -> None:
    p, s, regions = polyhedra(fused.GEMM, M=5, N=11, K=4)
    axes = {"i_0": AxisMap(4, "b0", 2, "t0", 2), "j_1": AxisMap(0, None, 1, "t1", 4)}
    mapping = RegionMap(
        (("b0", IntImm(2)),), (("t0", 2), ("t1", 4)), (NestMap(axes, ({}, {"k_2": AxisMap()})),)
    )
    n = launched(p, s, regions, [mapping])
    assert [a.role for a in n.arrays][-1] == "register"
    trace.verify(p, n, {})
    last = list(changed(n.body, lambda x: Block(()) if getattr(x, "buffer", "") == "C" else None))
    assert len(last) == 1
    with pytest.raises(InternalError, match="which is not stored"):
        trace.verify(p, replace(n, body=last[0]), {})
