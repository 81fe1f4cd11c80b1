"""Loops of tiled boxes: for any tiling each point runs once, in a legal order, inside its arrays.

The trace oracle runs the nests in Python; nothing of the chooser is involved.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tc.errors import InternalError
from tc.ir.expr import IntImm, Load, Variable
from tc.ir.loops import For, LoopKind, LoopNest, Promote, statements
from tc.ir.program import Program
from tc.poly import scop, tile_plan, trace
from tc.poly.accesses import Read
from tc.poly.context import isl_context
from tc.poly.fusion import fusion
from tc.poly.tile_plan import Nest, Pack, PhaseTile, Region, RegionTiling, Tile, Tiling
from tests.poly import fused
from tests.poly.fused import loops, plain, program
from tests.share import examples

_COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck))
Polyhedra = tuple[Program, scop.Scop, tuple[Region, ...]]


@functools.cache
def polyhedra(source: str, strategy: str = "max", **sizes: int) -> Polyhedra:
    p = program(source, **sizes)
    with isl_context():
        s = scop.build(p)
        return p, s, tile_plan.regions(p, fusion.fuse(s, strategy))  # type: ignore[arg-type]


def packable(s: scop.Scop, n: Nest, vector: str) -> list[Pack]:
    """Reads of inputs by plain indices, of statements with loops of their own, along the lanes."""
    inputs = {b.name for b in s.program.buffers if b.role == "input"}
    axis = next(a for a in n.axes if a.name == vector)
    out: list[Pack] = []
    for phase in n.phases:
        for name in phase.statements if phase.axes else ():
            reads = [a.read for a in s.statement(name).accesses if a.read is not None]
            for number, a in enumerate(x for x in s.statement(name).accesses if x.kind == "read"):
                names = [e.name for e in a.subscripts if isinstance(e, Variable)]
                plainly = len(names) == len(a.subscripts) == len(set(names))
                guarded = any(isinstance(r, Read) and r.guards for r in reads)
                if a.buffer in inputs and plainly and not guarded and axis.vars.get(name) in names:
                    out.append(Pack(name, number))
    return out


@st.composite
def tilings(draw: st.DrawFn, s: scop.Scop, n: Nest, given_: dict[str, int]) -> Tiling:
    """Any tiling of a nest inside region tiles `given_`."""
    extents = {a.name: given_.get(a.name, a.typical_extent) for a in n.axes}
    inner_lanes = draw(st.booleans()) and any(p.axes for p in n.phases)
    choices = [a.name for a in n.axes if extents[a.name] > 1]
    vector = draw(st.sampled_from([None, *choices])) if not inner_lanes else None
    tiles: dict[str, Tile] = {}
    for a in n.axes:
        lanes = draw(st.sampled_from([2, 4, 8])) if a.name == vector else 1
        if a.name in given_:
            size = given_[a.name]
            fits = [r for r in range(1, size + 1) if size % r == 0 or size == a.typical_extent]
            register = draw(st.sampled_from([r for r in fits if r % lanes == 0] or [0]))
            if not register:
                register, lanes = draw(st.sampled_from(fits)), 1
            tiles[a.name] = Tile(size, register, lanes)
            continue
        register = lanes * draw(st.integers(1, max(1, min(9, a.typical_extent) // lanes) + (lanes > 1)))
        register = min(register, -(-a.typical_extent // lanes) * lanes)
        cache = draw(st.one_of(st.just(a.typical_extent), st.integers(1, 4).map(lambda k, r=register: k * r)))
        tiles[a.name] = Tile(cache, register, lanes)
    vector = next((k for k, t in tiles.items() if t.lanes > 1), None)
    own = [a.name for a in n.axes if a.name not in given_]
    order = tuple(draw(st.permutations(own)))
    packs: tuple[Pack, ...] = ()
    blocked = False
    if vector is not None:
        candidates = packable(s, n, vector)
        packs = tuple(draw(st.lists(st.sampled_from(candidates), unique=True)) if candidates else ())
    phases: list[PhaseTile] = []
    for p in n.phases:
        block = None
        if p.axes and len(p.axes) == 1 and not blocked and draw(st.integers(0, 3)) == 0:
            block, blocked = draw(st.integers(1, p.axes[0].typical_extent)), True
        if not p.axes:
            phases.append(PhaseTile())
        elif inner_lanes and draw(st.booleans()):
            along = draw(st.sampled_from(p.axes)).name
            phases.append(
                PhaseTile(along, draw(st.sampled_from([2, 4, 8])), draw(st.integers(1, 3)), block=block)
            )
        else:
            phases.append(PhaseTile(unroll=draw(st.integers(1, 5)), block=block))
    parallel = 0 if given_ else draw(st.integers(0, len(order)))
    inner = tuple(draw(st.permutations([a.name for a in n.axes])))
    return Tiling(tiles, order, inner, tuple(phases), packs, parallel)


@st.composite
def region_tilings(draw: st.DrawFn, s: scop.Scop, r: Region) -> tuple[Region, RegionTiling]:
    """Some of the shared axes, tiled, and a tiling of each nest in them."""
    keep = draw(st.lists(st.booleans(), min_size=len(r.axes), max_size=len(r.axes)))
    shared = tuple(a for a, k in zip(r.axes, keep) if k) or r.axes[:1]
    sizes = tuple(draw(st.integers(1, a.typical_extent)) for a in shared)
    given_ = {a.name: n for a, n in zip(shared, sizes)}
    nests = tuple(draw(tilings(s, n, given_)) for n in r.nests)
    return Region(shared, r.nests), RegionTiling(sizes, nests, draw(st.booleans()))


CASES = {
    "gemm": (fused.GEMM, {"M": 5, "N": 11, "K": 4}),
    "gemm, other shape": (fused.GEMM, {"M": 9, "N": 3, "K": 7}),
    "bias": (fused.BIAS, {"M": 4, "N": 9, "K": 5}),
    "softmax": (fused.SOFTMAX, {"N": 7, "D": 9}),
    "moments": (fused.MOMENTS, {"N": 9, "K": 7}),
    "mlp3": (fused.MLP3, {"B": 5, "N": 3, "O": 4, "P": 5, "Q": 2}),
    "batch norm": (fused.BATCH_NORM, {"N": 2, "C": 5, "H": 3, "W": 4}),
    "kronecker": (fused.KRONECKER, {"M": 3, "N0": 2, "N1": 3, "D0": 4, "D1": 5}),
    "lookups": (fused.LUT2, {"E1": 4, "E2": 3, "D": 5, "B": 3, "L1": 2, "L2": 3}),
    "convolution": (fused.CONV, {"N": 1, "C": 2, "H": 4, "W": 6, "F": 3, "KH": 2, "KW": 2}),
    "triangle": (fused.TRIANGLE, {"N": 7}),
    "scalar": (fused.SCALARS, {"N": 13}),
    "chain": (fused.CHAIN, {"N": 6, "M": 5}),
    "wide": (fused.WIDE, {"N": 5, "M": 7}),
    "lower bounds": ("def f(float(N) A) -> (O, P) { O(i) = A(i-3)\nP(i) = O(i) * 2 }", {"N": 17}),
}


@pytest.mark.share(18)
@pytest.mark.parametrize("strategy", ["max", "min"])
@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(_COMMON, max_examples=examples(12))
def test_every_tiling_runs_each_point_once_in_order(name: str, strategy: str, data: st.DataObject) -> None:
    source, sizes = CASES[name]
    p, s, regions = polyhedra(source, strategy, **sizes)
    made = [data.draw(region_tilings(s, r)) for r in regions]
    with isl_context():
        nest = loops(p, s, [r for r, _ in made], [t for _, t in made], data.draw(st.integers(1, 5)))
    assert trace.compare(p, nest, {}) is None


# Single features of the loops.


def gemm(tiling: Tiling, chunks: int = 4, **sizes: int) -> tuple[Program, LoopNest]:
    p, s, (region,) = polyhedra(fused.GEMM, **(sizes or {"M": 10, "N": 12, "K": 6}))
    with isl_context():
        nest = loops(p, s, [region], [RegionTiling((), (tiling,))], chunks)
    assert trace.compare(p, nest, {}) is None
    return p, nest


TILES = {"i_0": Tile(4, 2), "j_1": Tile(8, 4, 4)}
ONE = Tiling(TILES, ("i_0", "j_1"), ("i_0", "j_1"), (PhaseTile(), PhaseTile(unroll=3)))


def kinds(n: LoopNest, kind: LoopKind) -> list[For]:
    return [x for x in statements(n.body) if isinstance(x, For) and x.kind is kind]


def test_a_plain_tiling_is_the_loops_of_the_program() -> None:
    _, _, (region,) = polyhedra(fused.GEMM, M=10, N=12, K=6)
    _, n = gemm(plain(region.nests[0]))
    assert not kinds(n, LoopKind.VECTOR) and not kinds(n, LoopKind.PARALLEL)


def test_a_register_tile_has_lanes_and_unrolled_points() -> None:
    _, n = gemm(ONE)
    assert {(f.upper, f.lower) for f in kinds(n, LoopKind.VECTOR)} == {(IntImm(4), IntImm(0))}
    assert kinds(n, LoopKind.UNROLLED)
    assert any(isinstance(x, Promote) and x.buffers == {"C"} for x in statements(n.body))


@pytest.mark.parametrize(
    ("parallel", "chunks", "expected"), [(1, 4, [3]), (2, 4, [4]), (2, 99, [6]), (0, 4, [])]
)
def test_parallel_axes_become_one_loop(parallel: int, chunks: int, expected: list[int]) -> None:
    """3 × 2 cache tiles; as many chunks as there may be, each of several tasks."""
    _, n = gemm(replace(ONE, parallel=parallel), chunks)
    assert [f.upper for f in kinds(n, LoopKind.PARALLEL)] == [IntImm(k) for k in expected]


@pytest.mark.parametrize("parallel", [True, False])
def test_tiles_that_nests_share_become_one_parallel_loop(parallel: bool) -> None:
    p, s, (region,) = polyhedra(fused.MLP3, B=6, N=3, O=4, P=5, Q=2)
    nests = tuple(plain(n, [a.name for a in region.axes]) for n in region.nests)
    assert len(nests) > 1
    with isl_context():
        n = loops(p, s, [region], [RegionTiling((2,), nests, parallel)])
    assert trace.compare(p, n, {}) is None
    assert [f.upper for f in kinds(n, LoopKind.PARALLEL)] == ([IntImm(3)] if parallel else [])


def test_packs_are_private_to_chunks() -> None:
    packs = (Pack("S1", 1),)
    _, n = gemm(replace(ONE, packs=packs))
    (array,) = [a for a in n.arrays if a.role == "private"]
    assert array.owner is None
    assert array.stride == 192  # 2 blocks × 6 × 4 float32
    loads = [x for x in statements(n.body) if isinstance(x, For)]
    assert loads and n.workspace == IntImm(192)
    _, n = gemm(replace(ONE, packs=packs, parallel=2), 3)
    (array,) = [a for a in n.arrays if a.role == "private"]
    assert array.owner == kinds(n, LoopKind.PARALLEL)[0].var
    assert n.workspace == IntImm(3 * 192)


def test_a_pack_of_rows_is_transposed() -> None:
    """B(j,k): lanes along j have a stride of a row, k is contiguous."""
    source = "def f(float(M,K) A, float(N,K) B) -> (C) { C(i,j) +=! A(i,k) * B(j,k) }"
    p, s, (region,) = polyhedra(source, M=3, N=9, K=18)
    tiling = replace(ONE, packs=(Pack("S1", 1),), tiles={"i_0": Tile(3, 1), "j_1": Tile(12, 4, 4)})
    with isl_context():
        n = loops(p, s, [region], [RegionTiling((), (tiling,))])
    assert kinds(n, LoopKind.TRANSPOSED)
    assert trace.compare(p, n, {}) is None


@pytest.mark.parametrize("read", ["B(b,j,k)", "B(j,k,b)"])
def test_a_pack_of_a_shorter_last_tile_is_correct(read: str) -> None:
    """3 batches in tiles of 2: the last tile has one, and the pack holds no more of them either."""
    shape = {"B(b,j,k)": "B,N,K", "B(j,k,b)": "N,K,B"}[read]
    source = f"def f(float(B,M,K) A, float({shape}) B) -> (C) {{ C(b,i,j) +=! A(b,i,k) * {read} }}"
    p, s, (region,) = polyhedra(source, B=3, M=3, N=9, K=18)
    names = [a.name for a in region.nests[0].axes]
    tiles = dict(zip(names, (Tile(2, 1), Tile(3, 1), Tile(12, 4, 4)), strict=True))
    tiling = Tiling(tiles, tuple(names), tuple(names), ONE.phases, (Pack("S1", 1),))
    with isl_context():
        n = loops(p, s, [region], [RegionTiling((), (tiling,))])
    assert trace.compare(p, n, {}) is None


@pytest.mark.parametrize("block", [1, 2, 4, 5, 6])
@pytest.mark.parametrize("packs", [(), (Pack("S1", 1),)])
def test_reductions_in_blocks_run_each_point_once(block: int, packs: tuple[Pack, ...]) -> None:
    gemm(replace(ONE, phases=(PhaseTile(), PhaseTile(unroll=2, block=block)), packs=packs))


@pytest.mark.parametrize("accumulators", [1, 2, 3])
@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_reductions_in_lanes_have_partial_results(lanes: int, accumulators: int) -> None:
    tiles = {"i_0": Tile(10, 2), "j_1": Tile(12, 1)}
    tiling = Tiling(
        tiles, ("i_0", "j_1"), ("j_1", "i_0"), (PhaseTile(), PhaseTile("k_2", lanes, accumulators))
    )
    _, n = gemm(tiling, M=5, N=3, K=19)
    partial = {a.shape for a in n.arrays if a.role == "register"}
    assert (IntImm(2), IntImm(accumulators), IntImm(lanes)) in partial
    assert all(a.partial_of == "C" for a in n.arrays if a.role == "register")


def test_a_cache_tile_that_is_no_multiple_of_register_tiles_is_refused() -> None:
    with pytest.raises(InternalError, match="not a multiple"):
        gemm(replace(ONE, tiles={"i_0": Tile(3, 2), "j_1": Tile(8, 4, 4)}))


def test_the_oracle_finds_a_race_of_a_wrong_plan() -> None:
    """Two layers of a perceptron, parallel over the intermediate result."""
    p, s, (region,) = polyhedra(fused.MLP3, B=2, N=2, O=3, P=3, Q=2)
    nests = tuple(plain(n) for n in region.nests)
    apart = [Region((), (n,)) for n in region.nests]
    with isl_context():
        good = loops(p, s, apart, [RegionTiling((), (t,)) for t in nests])
        bad = loops(p, s, apart[::-1], [RegionTiling((), (t,)) for t in nests[::-1]])
    assert trace.compare(p, good, {}) is None
    assert "runs before" in (trace.compare(p, bad, {}) or "")


def test_the_oracle_finds_a_wrong_copy() -> None:
    _, n = gemm(replace(ONE, packs=(Pack("S1", 1),)))
    p, *_ = polyhedra(fused.GEMM, M=10, N=12, K=6)
    from tc.ir.expr import Expr, rebuild
    from tc.ir.loops import Block, Compute, Stmt

    def other(e: Expr) -> Expr:
        e = rebuild(e, other)
        return replace(e, subscripts=(IntImm(0), *e.subscripts[1:])) if isinstance(e, Load) else e

    def visit(x: Stmt) -> Stmt:
        match x:
            case Block():
                return Block(tuple(map(visit, x.body)))
            case For() | Promote():
                return replace(x, body=visit(x.body))
            case Compute() if x.stage.endswith(".pack"):
                return replace(x, value=other(x.value))
            case _:
                return x

    assert trace.compare(p, replace(n, body=visit(n.body)), {}) is not None
