"""Loops of dynamic length: for any tiling and any size each point runs once, in a legal order, in its arrays.

The trace oracle runs the nests in Python; nothing of the chooser is involved.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tc
from tc.errors import InternalError
from tc.ir.evaluate import evaluate
from tc.ir.expr import FloorDiv, IntImm, Max, Min, Variable
from tc.ir.loops import For, LoopKind, LoopNest, statements
from tc.ir.printer import nest_text
from tc.ir.program import Program
from tc.poly import scop, tile_plan, trace
from tc.poly.context import isl_context
from tc.poly.fusion import fusion
from tc.poly.tile_plan import CacheTile, Nest, Pack, PhaseTile, Region, RegionTiling, Tile, Tiling
from tests.poly import fused
from tests.poly.fused import loops
from tests.poly.test_tiles import packable
from tests.share import examples

_COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck))
Polyhedra = tuple[Program, scop.Scop, tuple[Region, ...]]
TYPICAL = 6


@functools.cache
def polyhedra(source: str, dynamic: tuple[str, ...], strategy: str, **sizes: int) -> Polyhedra:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        p = tc.compile(source, "reference").program(sizes)
    assert set(p.sizes) == set(dynamic)
    typical = dict.fromkeys(dynamic, TYPICAL)
    with isl_context():
        s = scop.build(p)
        return p, s, tile_plan.regions(p, fusion.fuse(s, strategy), typical)  # type: ignore[arg-type]


@st.composite
def tilings(draw: st.DrawFn, s: scop.Scop, n: Nest, given_: Mapping[str, int], size: str) -> Tiling:
    inner_lanes = draw(st.booleans()) and any(p.axes for p in n.phases)
    vector = draw(st.sampled_from([None, *(a.name for a in n.axes)])) if not inner_lanes else None
    tiles: dict[str, Tile] = {}
    for a in n.axes:
        lanes = draw(st.sampled_from([2, 4])) if a.name == vector else 1
        most = max(1, a.typical_extent // lanes)
        if a.size is None and a.name in given_:
            lanes, fits = 1, [r for r in range(1, a.typical_extent + 1) if given_[a.name] % r == 0]
            tiles[a.name] = Tile(given_[a.name], draw(st.sampled_from(fits)), lanes)
            continue
        register = lanes * draw(st.integers(1, most if a.size is None else 9 // lanes))
        cache = draw(st.sampled_from([register, 2 * register, CacheTile.SHARE, CacheTile.WHOLE]))
        tiles[a.name] = Tile(given_.get(a.name, cache), register, lanes)
    vector = next((k for k, t in tiles.items() if t.lanes > 1), None)
    order = tuple(draw(st.permutations([a.name for a in n.axes if a.name not in given_])))
    phases: list[PhaseTile] = []
    blocked = False
    for p in n.phases:
        block = None
        if len(p.axes) == 1 and not blocked and draw(st.booleans()):
            block, blocked = draw(st.integers(1, 5)), True
        if not p.axes:
            phases.append(PhaseTile())
        elif inner_lanes and draw(st.booleans()):
            along = draw(st.sampled_from(p.axes)).name
            phases.append(
                PhaseTile(along, draw(st.sampled_from([2, 4])), draw(st.integers(1, 3)), block=block)
            )
        else:
            phases.append(PhaseTile(unroll=draw(st.integers(1, 4)), block=block))
    packs: list[Pack] = []
    for pack in packable(s, n, vector) if vector is not None else ():
        phase = next(i for i, p in enumerate(n.phases) if pack.statement in p.statements)
        endless = any(a.size is not None for a in n.phases[phase].axes) and phases[phase].block is None
        unbounded = any(not t.is_bounded for t in tiles.values())
        if not endless and not unbounded and draw(st.booleans()):
            packs.append(pack)
    tasks = Max(Min(FloorDiv(Variable(size), IntImm(2)), IntImm(4)), IntImm(1))
    parallel = 0 if given_ else draw(st.integers(0, len(order)))
    inner = tuple(draw(st.permutations([a.name for a in n.axes])))
    return Tiling(tiles, order, inner, tuple(phases), tuple(packs), parallel, tasks)


@st.composite
def region_tilings(draw: st.DrawFn, s: scop.Scop, r: Region, size: str) -> tuple[Region, RegionTiling]:
    keep = draw(st.lists(st.booleans(), min_size=len(r.axes), max_size=len(r.axes)))
    shared = tuple(a for a, k in zip(r.axes, keep, strict=True) if k) or r.axes[:1]
    sizes = tuple(
        draw(st.integers(1, a.typical_extent))
        if a.size is None
        else draw(st.sampled_from([1, 3, CacheTile.SHARE]))
        for a in shared
    )
    nests = tuple(
        draw(tilings(s, n, {a.name: x for a, x in zip(shared, sizes, strict=True)}, size)) for n in r.nests
    )
    tasks = Max(Variable(size), IntImm(1))
    step = draw(st.integers(1, 3))
    most = draw(st.sampled_from([None, 2 * step]))
    return Region(shared, r.nests), RegionTiling(sizes, nests, draw(st.booleans()), tasks, step, most)


CASES: dict[str, tuple[str, tuple[str, ...], dict[str, int]]] = {
    "gemm, rows": (fused.GEMM, ("M",), {"N": 5, "K": 3}),
    "gemm, columns": (fused.GEMM, ("N",), {"M": 5, "K": 3}),
    "gemm, sums": (fused.GEMM, ("K",), {"M": 3, "N": 5}),
    "gemm, all": (fused.GEMM, ("M", "K", "N"), {}),
    "bias": (fused.BIAS, ("M",), {"N": 9, "K": 5}),
    "softmax, rows": (fused.SOFTMAX, ("N",), {"D": 5}),
    "softmax, columns": (fused.SOFTMAX, ("D",), {"N": 3}),
    "moments": (fused.MOMENTS, ("K",), {"N": 3}),
    "mlp3": (fused.MLP3, ("B",), {"N": 3, "O": 4, "P": 5, "Q": 2}),
    "batch norm": (fused.BATCH_NORM, ("N",), {"C": 3, "H": 2, "W": 3}),
    "lookups": (fused.LUT2, ("B",), {"E1": 4, "E2": 3, "D": 5, "L1": 2, "L2": 3}),
    "convolution, images": (fused.CONV, ("N",), {"C": 2, "H": 3, "W": 3, "F": 2, "KH": 2, "KW": 2}),
    "convolution, width": (fused.CONV, ("W",), {"N": 1, "C": 2, "H": 3, "F": 2, "KH": 2, "KW": 2}),
    "triangle": (fused.TRIANGLE, ("N",), {}),
    "chain": (fused.CHAIN, ("N", "M"), {}),
    "lower bounds": ("def f(float(N) A) -> (O, P) { O(i) = A(i-3)\nP(i) = O(i) * 2 }", ("N",), {}),
}


def check(p: Program, n: LoopNest, values: tuple[int, ...]) -> None:
    for value in values:
        sizes = dict.fromkeys(p.sizes, value)
        if all(evaluate(c.condition, sizes) for c in p.preconditions):
            found = trace.compare(p, n, sizes)
            assert found is None, f"{sizes}: {found}\n{nest_text(n)}"


@pytest.mark.share(18)
@pytest.mark.parametrize("strategy", ["max", "min"])
@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(_COMMON, max_examples=examples(6))
def test_every_tiling_runs_each_point_once_in_order(name: str, strategy: str, data: st.DataObject) -> None:
    source, dynamic, fixed = CASES[name]
    p, s, regions = polyhedra(source, dynamic, strategy, **fixed)
    made = [data.draw(region_tilings(s, r, dynamic[0])) for r in regions]
    with isl_context():
        n = loops(p, s, [r for r, _ in made], [t for _, t in made], data.draw(st.integers(1, 5)))
    check(p, n, (0, 1, 3, 6))


def rows(tile: Tile, parallel: int = 1) -> LoopNest:
    """Rows of a matrix product, of dynamic number, in these tiles."""
    p, s, (region,) = polyhedra(fused.GEMM, ("M",), "max", N=4, K=3)
    tiling = Tiling(
        {"i_0": tile, "j_1": Tile(4, 4, 4)}, ("i_0", "j_1"), ("i_0", "j_1"),
        (PhaseTile(), PhaseTile(unroll=3)), (Pack("S1", 1),), parallel, Variable("M"),
    )  # fmt: skip
    with isl_context():
        n = loops(p, s, [region], [RegionTiling((), (tiling,))])
    size = max(tile.cache, tile.register)
    check(p, n, (0, 1, 2, size - 1, size, size + 1, 2 * size, 30))
    return n


@pytest.mark.share(18)
@pytest.mark.parametrize("register", [1, 2, 3, 6, 8, 11])
@pytest.mark.parametrize("tiles", [1, 3, CacheTile.SHARE, CacheTile.WHOLE])
def test_remainders_of_rows_are_correct(register: int, tiles: int) -> None:
    rows(Tile(tiles * register if tiles > 0 else tiles, register))


def test_tiles_are_one_parallel_loop_of_symbolic_length_with_few_private_arrays() -> None:
    n = rows(Tile(6, 3))
    (loop,) = [x for x in statements(n.body) if isinstance(x, For) and x.kind is LoopKind.PARALLEL]
    assert isinstance(loop.upper, Variable)
    (array,) = [a for a in n.arrays if a.role == "private"]
    assert array.owner == loop.var
    assert n.workspace == IntImm(4 * array.stride)  # of the four chunks


def test_the_main_loop_has_no_conditions() -> None:
    n = rows(Tile(CacheTile.WHOLE, 3), parallel=0)
    main = next(x for x in statements(n.body) if isinstance(x, For) and x.var.startswith("i_0"))
    assert "if" not in nest_text(n)[: nest_text(n).index("if")]
    assert not any(type(x).__name__ == "If" for x in statements(main.body))


def test_a_pack_needs_a_bounded_tile() -> None:
    p, s, (region,) = polyhedra(fused.GEMM, ("N",), "max", M=4, K=3)
    tiling = Tiling(
        {"i_0": Tile(4), "j_1": Tile(CacheTile.WHOLE, 4, 4)}, ("i_0", "j_1"), ("i_0", "j_1"),
        (PhaseTile(), PhaseTile()), (Pack("S1", 1),),
    )  # fmt: skip
    with isl_context(), pytest.raises(InternalError, match="no constant extent"):
        loops(p, s, [region], [RegionTiling((), (tiling,))])
