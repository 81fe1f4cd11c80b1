"""The static model of mapped kernels: counts that can be made by hand, closed formulas, every program."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tc
from benchmarks.workloads import CASES
from benchmarks.workloads.model import Case
from tc import registry
from tc.dtypes import FLOAT32, FLOAT64, INT32, DType
from tc.ir.expr import (
    LT,
    Add,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Load,
    Max,
    Min,
    Mul,
    Sub,
    Variable,
    walk,
)
from tc.ir.loops import (
    Array,
    Block,
    Combine,
    Compute,
    For,
    If,
    Launch,
    LoopKind,
    LoopNest,
    Stmt,
    Sync,
    statements,
)
from tc.ir.simplify import simplify

registry.load("cuda")
model = importlib.import_module("tc_backends.gpu.model")
warps = importlib.import_module("tc_backends.gpu.warps")
traffic = importlib.import_module("tc_backends.gpu.traffic")
unrolling = importlib.import_module("tc_backends.gpu.unrolling")
instructions = importlib.import_module("tc_backends.gpu.instructions")
target = importlib.import_module("tc_backends.gpu.target")
A100, H100, H200, GENERIC = target.A100, target.H100, target.H200, target.GENERIC

T, U, B, V, X, Y, K = (Variable(n) for n in ("t0", "t1", "b0", "b1", "i", "j", "k"))
LANE = np.arange(32)


def at(e: Expr | int) -> Expr:
    return IntImm(e) if isinstance(e, int) else e


def times(a: Expr | int, b: Expr | int) -> Expr:
    return Mul(at(a), at(b))


def plus(*terms: Expr | int) -> Expr:
    total = at(terms[0])
    for t in terms[1:]:
        total = Add(total, at(t))
    return total


def load(name: str, *subscripts: Expr | int, dtype: DType = FLOAT32) -> Load:
    return Load(name, tuple(map(at, subscripts)), dtype)


def put(name: str, subscripts: Sequence[Expr | int], value: Expr, op: Any = None) -> Compute:
    return Compute("S", name, tuple(map(at, subscripts)), op, value, (), "")


def loop(
    v: str, low: Expr | int, high: Expr | int, body: Stmt, step: int = 1, *, unrolled: bool = False
) -> For:
    kind = LoopKind.UNROLLED if unrolled else LoopKind.SERIAL
    return For(v, at(low), at(high), step, kind, body)


def array(name: str, role: str, *shape: Expr | int, dtype: DType = FLOAT32, padding: int = 0) -> Array:
    offset = IntImm(0) if role == "temporary" else None
    return Array(name, dtype, tuple(map(at, shape)), role, offset, padding=padding)


def nest(arrays: Sequence[Array], launch: Launch, sizes: tuple[str, ...] = ()) -> LoopNest:
    params = tuple(a.name for a in arrays if a.role in ("input", "output"))
    outputs = tuple(a.name for a in arrays if a.role == "output")
    return LoopNest("f", params, outputs, sizes, tuple(arrays), (), launch, IntImm(0), ())


def launch(body: Stmt, threads: Sequence[int] = (32,), blocks: Sequence[Expr | int] = ()) -> Launch:
    return Launch(
        "f",
        tuple((f"b{i}", at(n)) for i, n in enumerate(blocks)),
        tuple((f"t{i}", n) for i, n in enumerate(threads)),
        body,
    )


def predicted(n: LoopNest, on: Any = H100, **given: Any) -> Any:
    assert isinstance(n.body, Launch)
    return model.predicted(n, n.body, on, **given)


def accesses(n: LoopNest, name: str, *, store: bool = False) -> list[Any]:
    return [a for a in predicted(n).work.accesses if (a.buffer, a.store) == (name, store)]


def copied(subscripts: Sequence[Expr | int], shape: Sequence[int], dtype: DType = FLOAT32) -> Any:
    """The read of a warp that copies A[subscripts] to neighbouring elements."""
    arrays = [array("A", "input", *shape, dtype=dtype), array("O", "output", 32, dtype=dtype)]
    (a,) = accesses(nest(arrays, launch(put("O", [T], load("A", *subscripts, dtype=dtype)))), "A")
    return a


# Requests of a warp.


@pytest.mark.parametrize(
    ("place", "itemsize", "expected"),
    [
        (4 * LANE, 4, (4, 4)),  # neighbours
        (4 * LANE[::-1], 4, (4, 4)),
        (4 * LANE + 4, 4, (5, 4)),  # not from the start of a sector
        (8 * LANE, 4, (8, 4)),  # every other one
        (128 * LANE, 4, (32, 4)),  # a column
        (0 * LANE, 4, (1, 1)),  # the same for all
        (8 * LANE, 8, (8, 8)),
        (2 * LANE, 2, (2, 2)),
        (LANE, 1, (1, 1)),
    ],
)
def test_sectors_of_a_request(place: Any, itemsize: int, expected: tuple[int, int]) -> None:
    moved, least = warps.sectors(place[None, :], np.ones((1, 32), bool), itemsize)
    assert (int(moved[0]), int(least[0])) == expected


def test_lanes_that_do_not_ask_move_nothing() -> None:
    mask = (LANE >= 8)[None, :] & (LANE < 16)[None, :]
    for place, expected in ((4 * LANE, 1), (128 * LANE, 8)):
        moved, least = warps.sectors(place[None, :], mask, 4)
        assert (int(moved[0]), int(least[0])) == (expected, 1)


@pytest.mark.parametrize(
    ("place", "itemsize", "expected"),
    [
        (4 * LANE, 4, (1, 1)),
        (0 * LANE, 4, (1, 1)),  # one word for all
        (8 * LANE, 4, (2, 1)),
        (128 * LANE, 4, (32, 1)),  # a column of rows of 32 words: all in one bank
        (132 * LANE, 4, (1, 1)),  # with a word between the rows
        (128 * (LANE // 16), 4, (2, 1)),
        (8 * LANE, 8, (2, 2)),
        (LANE, 1, (1, 1)),  # four lanes share a word
        (4 * (LANE % 4) + 128 * (LANE // 4), 4, (8, 1)),
        (16 * LANE, 16, (4, 4)),  # vectors: a quarter of a warp at a time
        (144 * LANE, 16, (4, 4)),  # a column of vectors in rows of 36 words
        (128 * LANE, 16, (32, 4)),  # and of 32 words
        (136 * LANE, 8, (2, 2)),  # of pairs, in rows of 34 words
        (144 * LANE, 8, (4, 2)),
        (0 * LANE, 16, (2, 1)),  # one for all, to each half
        (144 * (LANE // 16), 16, (2, 1)),
        (144 * (LANE % 16), 16, (4, 2)),  # what the halves want is the same, but they do not get it at once
        (144 * (LANE // 2), 16, (2, 2)),  # neighbours want the same: half a warp at a time
    ],
)
def test_bank_conflicts(place: Any, itemsize: int, expected: tuple[int, int]) -> None:
    moved, least = warps.cycles(place[None, :], np.ones((1, 32), bool), itemsize)
    assert (int(moved[0]), int(least[0])) == expected


def test_an_ideal_kernel_keeps_the_whole_device_busy() -> None:
    """However few blocks the one that is looked at has."""
    work = loop("i", 0, 1000, put("O", [0], Mul(load("A", 0), load("A", 0)), "+"))
    arrays = [array("A", "input", 1), array("O", "output", 1)]
    for blocks in (1, H100.units, H100.units + 1):
        p = predicted(nest(arrays, launch(work, (32,), (blocks,))))
        rounds = -(-blocks // H100.units)
        share = blocks / (rounds * H100.units)
        assert p.ideal(H100) - model.LAUNCH == pytest.approx(p.bounds["fma"] * share, rel=1e-6)


def test_reads_of_a_kernel() -> None:
    assert (copied([0, T], (32, 32)).each, copied([0, T], (32, 32)).coalesced) == (4, True)
    assert (copied([T, 0], (32, 32)).each, copied([T, 0], (32, 32)).coalesced) == (32, False)
    assert (copied([3, 4], (32, 32)).each, copied([3, 4], (32, 32)).coalesced) == (1, True)
    assert copied([T, 0], (32, 32), FLOAT64).each == 32
    assert copied([0, T], (32, 32), FLOAT64).each == 8
    assert copied([FloorDiv(T, IntImm(8)), FloorMod(T, IntImm(8))], (4, 32)).each == 4
    # A row that starts within a sector takes one more, which is no fault; every other element is.
    assert copied([plus(T, 1)], (64,)).coalesced and copied([plus(T, 1)], (64,)).each == 5
    assert not copied([times(2, T)], (64,)).coalesced


@pytest.mark.parametrize(("padding", "cycles"), [(0, 32), (1, 1), (2, 2), (4, 4)])
def test_a_column_of_a_shared_tile(padding: int, cycles: int) -> None:
    arrays = [
        array("A", "input", 32, 32),
        array("O", "output", 32, 32),
        array("S", "shared", 32, 32, padding=padding),
    ]
    body = Block((put("S", [U, T], load("A", U, T)), Sync(), put("O", [U, T], load("S", T, U))))
    n = nest(arrays, launch(body, (32, 8)))
    (read,), (written,) = accesses(n, "S"), accesses(n, "S", store=True)
    assert (read.each, read.requests, written.each) == (cycles, 8, 1)
    assert predicted(n).conflicts == pytest.approx((8 + 8 * cycles) / 16)


def test_the_lines_of_a_small_block() -> None:
    """16 threads are half a warp; 8 x 8 two warps of four rows."""
    arrays = [array("A", "input", 8, 64), array("O", "output", 8, 8)]
    (a,) = accesses(nest(arrays, launch(put("O", [U, T], load("A", U, T)), (8, 8))), "A")
    assert (a.requests, a.elements, a.moved) == (2, 64, 8)
    (a,) = accesses(nest(arrays, launch(put("O", [0, 0], load("A", 0, T)), (16,))), "A")
    assert (a.requests, a.elements, a.moved) == (1, 16, 2)


def test_indices_from_memory_are_random_but_the_same_for_the_same_element() -> None:
    """Rows that an index names are read along; single elements are wherever."""
    arrays = [
        array("A", "input", 4096, 32), array("X", "input", 32, dtype=INT32), array("O", "output", 32, 32),
    ]  # fmt: skip
    row = put("O", [U, T], load("A", load("X", U, dtype=INT32), T))
    (a,) = accesses(nest(arrays, launch(row, (32, 8))), "A")
    assert (a.requests, a.moved) == (8, 32)
    (a,) = accesses(nest(arrays, launch(put("O", [0, T], load("A", load("X", T, dtype=INT32), 0)))), "A")
    assert 24 <= a.moved <= 32


def test_indices_that_are_computed_from_values() -> None:
    """As scattered as what they are computed from: each lane has its own, or all have the same."""

    def read(*place: Expr | int) -> Any:
        scaled = Mul(load("Z", *place), FloatImm(2.5, FLOAT32))
        e = Cast(INT32, Call("floor", (scaled,), FLOAT32, "intrinsic"))
        arrays = [array("A", "input", 4096), array("Z", "input", 32), array("O", "output", 32)]
        (a,) = accesses(nest(arrays, launch(put("O", [T], load("A", e)))), "A")
        return a

    assert read(T).moved > 16
    assert read(3).moved == 1


# Counts of a launch.


def tmm(m: int, n: int, k: int, tile: int = 32, columns: int = 1, *, guarded: bool = False) -> LoopNest:
    """C(m,n) += A(m,k) * B(n,k): tiles of 8 x 32*columns x `tile` in shared memory, `columns` results a
    thread."""
    c = Variable("c")

    def copy(name: str, source: str, rows: int, first: Expr) -> For:
        v = Variable("l")
        start = plus(T, times(32, U))
        place = [FloorDiv(v, IntImm(tile)), FloorMod(v, IntImm(tile))]
        value = load(source, plus(first, place[0]), plus(times(tile, K), place[1]))
        return loop("l", start, rows * tile, put(name, place, value), 256)

    update: Stmt = put("R", [c], Mul(load("SA", U, X), load("SB", plus(T, times(32, c)), X)), "+")
    if guarded:
        update = If(LT(plus(times(32 * columns, V), times(32, c), T), IntImm(n)), update)
    body = Block(
        (
            loop("c", 0, columns, put("R", [c], FloatImm(0.0, FLOAT32)), unrolled=True),
            loop(
                "k", 0, k // tile,
                Block(
                    (
                        copy("SA", "A", 8, times(8, B)),
                        copy("SB", "B", 32 * columns, times(32 * columns, V)),
                        Sync(),
                        loop("i", 0, tile, loop("c", 0, columns, update, unrolled=True)),
                        Sync(),
                    )
                ),
            ),
            loop(
                "c", 0, columns,
                put("C", [plus(times(8, B), U), plus(times(32 * columns, V), T, times(32, c))], load("R", c)),
                unrolled=True,
            ),
        )
    )  # fmt: skip
    arrays = [
        array("A", "input", m, k), array("B", "input", n, k), array("C", "output", m, n),
        array("SA", "shared", 8, tile, padding=1), array("SB", "shared", 32 * columns, tile, padding=1),
        array("R", "register", columns),
    ]  # fmt: skip
    return nest(arrays, launch(body, (32, 8), (m // 8, n // (32 * columns))))


@pytest.mark.parametrize(("m", "n", "k"), [(64, 128, 96), (128, 1024, 1024)])
@pytest.mark.parametrize("columns", [1, 2, 4])
def test_counts_of_tmm(m: int, n: int, k: int, columns: int) -> None:
    p = predicted(tmm(m, n, k, 32, columns))
    width = 32 * columns
    assert p.work.multiply_adds == m * n * k
    assert p.work.arithmetic["float32"] == p.work.arithmetic["multiply-add"] == m * n * k / 32
    # Each tile of A is read for each tile of columns, each of B for each 8 rows.
    assert p.count(shared=False, store=False) == m * k * (n // width) + n * k * (m // 8)
    assert p.count(shared=True, store=True) == p.count(shared=False, store=False)
    assert p.count(shared=False, store=True) == m * n
    # An element of A serves all columns of a thread.
    assert p.count(shared=True, store=False) == m * n * k * (1 + 1 / columns)
    assert (p.work.barriers, p.work.barriers_each) == (2 * k // 32, 2)
    assert (p.coalesced, p.conflicts) == (1.0, 1.0)
    assert (p.operands, p.results) == (m * k + n * k, m * n)
    assert (p.least_read, p.least_written) == (4 * (m * k + n * k), 4 * m * n)
    assert p.shared == 4 * (8 * 33 + width * 33)
    assert (p.blocks, p.threads) == (m // 8 * n // width, 256)


def test_a_guard_keeps_loads_apart() -> None:
    """nvcc loads again what a condition might have left out, and asks each time."""
    free, guarded = (predicted(tmm(64, 128, 96, 32, 2, guarded=g)) for g in (False, True))
    assert guarded.count(shared=True, store=False) == 2 * 64 * 128 * 96
    assert free.count(shared=True, store=False) == 1.5 * 64 * 128 * 96
    assert free.work.guards == 0
    assert guarded.work.guards >= 64 * 128 * 96 / 32
    assert guarded.work.multiply_adds == free.work.multiply_adds


def test_guards_of_partial_tiles_are_counted_exactly() -> None:
    arrays = [array("A", "input", 1000), array("O", "output", 1000)]
    point = plus(times(256, B), T)
    body = If(LT(point, IntImm(1000)), put("O", [point], load("A", point)))
    p = predicted(nest(arrays, launch(body, (256,), (4,))))
    assert p.count(shared=False, store=False) == p.count(shared=False, store=True) == 1000
    assert sum(a.requests for a in p.work.accesses) == 2 * 32
    assert p.work.guards == 0  # it stands in no loop


@pytest.mark.parametrize(
    ("n", "most", "expected"),
    [
        (1, 3, [(0, 1)]),
        (2, 3, [(0, 1), (1, 1)]),
        (3, 3, [(0, 1), (1, 1), (2, 1)]),
        (4, 2, [(1, 3), (3, 1)]),
        (101, 3, [(25, 50), (75, 50), (100, 1)]),
        (101, 1, [(50, 101)]),
        (0, 3, [(0, 0)]),
    ],
)
def test_blocks_that_stand_for_others(n: int, most: int, expected: list[tuple[int, int]]) -> None:
    assert warps._some(n, most) == expected


def test_a_triangle_of_blocks() -> None:
    """About half of the blocks have nothing to do; a few of them tell roughly."""
    arrays = [array("A", "input", 32, 32), array("O", "output", 32, 32, 32)]
    body = If(LT(B, V), put("O", [B, V, T], load("A", B, T)))
    p = predicted(nest(arrays, launch(body, (32,), (32, 32))))
    assert 0.2 < p.count(shared=False, store=True) / 32**3 < 0.8


@pytest.mark.parametrize("n", [1, 31, 255, 256, 1013, 1024, 5000])
def test_threads_that_run_less_often_than_others(n: int) -> None:
    arrays = [array("A", "input", n), array("O", "output", n)]
    body = loop("i", T, n, put("O", [X], load("A", X)), 256)
    p = predicted(nest(arrays, launch(body, (256,))))
    assert p.count(shared=False, store=False) == n
    assert sum(a.requests for a in p.work.accesses if not a.store) == -(-n // 32)


def test_triangles_and_tiles_at_the_end() -> None:
    """Bounds that ask for the variable of a loop around: all of its few iterations are looked at."""
    arrays = [array("A", "input", 8, 64), array("O", "output", 32)]
    body = loop("i", 0, 8, loop("j", 0, X, put("O", [T], load("A", X, Y), "+")))
    p = predicted(nest(arrays, launch(body)))
    assert sum(a.requests for a in p.work.accesses if a.buffer == "A") == 28
    tiles = loop(
        "i",
        0,
        3,
        loop("j", 0, Min(IntImm(32), Sub(IntImm(72), times(32, X))), put("O", [T], load("A", 0, Y), "+")),
    )
    p = predicted(nest(arrays, launch(tiles)))
    assert sum(a.requests for a in p.work.accesses if a.buffer == "A") == 72


def test_the_else_of_a_value_reads_nothing() -> None:
    arrays = [array("A", "input", 32), array("O", "output", 32)]
    value = IfThenElse(LT(T, IntImm(5)), load("A", T), FloatImm(0.0, FLOAT32))
    (a,) = accesses(nest(arrays, launch(put("O", [T], value))), "A")
    assert (a.requests, a.elements) == (1, 5)


def test_what_is_in_registers_is_not_loaded_again() -> None:
    """What a block of statements has just stored; what a loop updates; what it leaves alone."""
    arrays = [array("A", "input", 64, 32), array("O", "output", 32), array("P", "output", 32)]
    again = Block((put("O", [T], load("A", 0, T)), put("P", [T], load("O", T))))
    assert not accesses(nest(arrays, launch(again)), "O")
    updated = nest(arrays, launch(loop("i", 0, 64, put("O", [T], load("A", X, T), "+"))))
    assert [a.requests for a in accesses(updated, "O", store=True)] == [1]
    assert [a.requests for a in accesses(updated, "A")] == [64]
    fixed = nest(arrays, launch(loop("i", 0, 640, put("O", [T], load("A", 0, T), "+"))))
    assert [a.requests for a in accesses(fixed, "A")] == [1]
    # A barrier, and an update that something else in the loop reads, stay in memory.
    waits = loop("i", 0, 64, Block((put("O", [T], load("A", 0, T), "+"), Sync())))
    n = nest(arrays, launch(waits))
    assert [a.requests for a in (*accesses(n, "A"), *accesses(n, "O", store=True))] == [64, 64]
    reads = loop("i", 0, 64, put("O", [T], load("O", FloorMod(plus(T, X), IntImm(32))), "+"))
    assert [a.requests for a in accesses(nest(arrays, launch(reads)), "O", store=True)] == [64]


def test_temporaries_might_be_the_same() -> None:
    """They are parts of one workspace: a store to one keeps nvcc from keeping another in a register."""
    temporary = [array("V", "temporary", 32), array("W", "temporary", 32)]
    arrays = [array("O", "output", 32), *temporary]
    body = loop("i", 0, 64, put("V", [X], load("W", T)))
    assert [a.requests for a in accesses(nest(arrays, launch(body)), "W")] == [64]
    body = loop("i", 0, 64, put("O", [X], load("W", T)))
    assert [a.requests for a in accesses(nest(arrays, launch(body)), "W")] == [1]


def test_combinations() -> None:
    """Shuffles within a warp; over more a tree in shared memory, with barriers around each step."""
    arrays = [array("A", "input", 256, 32), array("O", "output", 256), array("R", "register")]

    def summed(threads: tuple[int, ...]) -> LoopNest:
        row = U if len(threads) > 1 else IntImm(0)
        body = Block(
            (
                put("R", [], load("A", row, FloorMod(T, IntImm(32)))),
                Combine("R", "+", "t0"),
                If(LT(T, IntImm(1)), put("O", [row], load("R"))),
            )
        )
        return nest(arrays, launch(body, threads))

    p = predicted(summed((32, 8)))
    assert (p.work.barriers, p.shared, p.work.arithmetic["shuffle"]) == (0, 0, 5 * 8)
    p = predicted(summed((256,)))
    assert (p.work.barriers, p.shared) == (1 + 8, 1024)
    assert "shuffle" not in p.work.arithmetic
    p = predicted(summed((32, 8)), GENERIC)  # OpenCL C has no shuffles
    assert (p.work.barriers, p.shared) == (1 + 5, 1024)


# Instructions.


@pytest.mark.parametrize(
    ("value", "op", "expected"),
    [
        (Mul(load("A", X), load("B", X)), "+", {"float32": 1, "multiply-add": 1}),
        (Add(Mul(load("A", X), load("B", X)), load("A", Y)), None, {"float32": 1, "multiply-add": 1}),
        (Mul(load("A", X), load("B", X)), None, {"float32": 1}),
        (Add(load("A", X), load("B", X)), "+", {"float32": 2}),
        (Mul(load("A", X), load("B", X)), "*", {"float32": 2}),
        (load("A", X), None, {}),
        (Add(FloatImm(1.0, FLOAT32), FloatImm(2.0, FLOAT32)), None, {}),
        (load("A", plus(X, Y)), "+", {"float32": 1}),
        (Div(load("A", X), load("B", X)), None, {"float32": 10, "special": 1}),
        (Call("exp", (load("A", X),), FLOAT32, "intrinsic"), None, {"float32": 10, "special": 1}),
        (Cast(FLOAT64, load("A", X)), None, {"integer": 1}),
        (Max(load("A", X), FloatImm(0.0, FLOAT32)), None, {"float32": 4}),
    ],
)
def test_arithmetic(value: Expr, op: Any, expected: dict[str, int]) -> None:
    assert dict(+instructions.arithmetic(value, op, FLOAT32)) == expected


def test_divisions_of_subscripts_are_made_once() -> None:
    a, b = FloorDiv(X, IntImm(7)), FloorMod(X, IntImm(7))
    assert sum(instructions.divisions([a]).values()) == 4
    assert sum(instructions.divisions([a, b]).values()) == 6
    assert sum(instructions.divisions([b, b, plus(a, 1)]).values()) == 6
    assert sum(instructions.divisions([plus(X, Y)]).values()) == 0


@pytest.mark.parametrize(
    ("trips", "columns", "factor"),
    [
        (16, 1, 16), (32, 1, 32), (64, 1, 64), (96, 1, 16), (32, 2, 32), (96, 2, 16), (16, 4, 16),
        (64, 4, 8), (32, 8, 4),
    ],
)  # fmt: skip
def test_loops_that_nvcc_unrolls(trips: int, columns: int, factor: int) -> None:
    """As the PTX of NVRTC 12.9 shows for products of one value in shared memory with `columns` others."""
    c = Variable("c")
    update = put("R", [c], Mul(load("A", X), load("S", times(8, c), X)), "+")
    body = loop("i", 0, trips, loop("c", 0, columns, update, unrolled=True))
    arrays = [array("A", "shared", trips), array("S", "shared", 64, trips), array("R", "register", columns)]
    found = unrolling.unrolled(body, {a.name: a for a in arrays})[id(body)]
    assert (found.factor, found.whole) == (factor, factor == trips)


def test_loops_that_nvcc_does_not_unroll() -> None:
    arrays = {a.name: a for a in (array("A", "input", 64), array("R", "register"))}
    update = put("R", [], load("A", X), "+")
    for body, factor in (
        (loop("i", T, 64, update, 8), 4),  # of unknown length
        (loop("i", 0, 8, Block((update, Sync()))), 1),
        (loop("i", T, plus(T, 8), update), 8),  # always as long
    ):
        assert unrolling.unrolled(body, arrays)[id(body)].factor == factor


# Bytes.


def test_least_bytes() -> None:
    """Each element once: of a stencil with its rim, of what is written before it is read only the store, of
    an update both, of a gather no more than what is asked for."""
    arrays = [array("A", "input", 66), array("O", "output", 64), array("T", "temporary", 64)]
    value = Add(Add(load("A", T), load("A", plus(T, 1))), load("A", plus(T, 2)))
    p = predicted(nest(arrays, launch(put("O", [T], value), (64,))))
    assert (p.operands, p.results) == (66, 64)
    body = Block((put("T", [T], load("A", T)), Sync(), put("O", [T], load("T", T))))
    p = predicted(nest(arrays, launch(body, (64,))))
    assert (p.operands, p.results) == (64, 128)
    p = predicted(nest(arrays, launch(put("O", [T], load("A", T), "+"), (64,))))
    assert (p.operands, p.results) == (128, 64)
    gather = [array("A", "input", 100000), array("X", "input", 64, dtype=INT32), array("O", "output", 64)]
    p = predicted(nest(gather, launch(put("O", [T], load("A", load("X", T, dtype=INT32))), (64,))))
    assert (p.operands, p.results) == (128, 64)


def test_boxes_of_loops_of_the_same_name() -> None:
    """Each statement sees the loop that it is in."""
    arrays = [array("A", "input", 64, 32), array("O", "output", 64, 32)]
    copy = put("O", [X, T], load("A", X, T))
    body = Block((loop("i", 0, 64, copy), loop("i", 0, 2, copy)))
    assert predicted(nest(arrays, launch(body))).operands == 64 * 32


def repeated(kib: int) -> LoopNest:
    """A block reads so many KiB ten times."""
    n = kib * 1024 // 4 // 256
    arrays = [array("A", "input", n, 256), array("O", "output", 10, 256)]
    value = load("A", X, T)
    return nest(arrays, launch(loop("j", 0, 10, loop("i", 0, n, put("O", [Y, T], value, "+"))), (256,)))


@pytest.mark.parametrize(("kib", "l2", "dram"), [(64, 1, 1), (1024, 10, 1), (65536, 10, 10)])
def test_what_caches_keep(kib: int, l2: int, dram: int) -> None:
    """64 KiB fit into the first cache of an H100, 1 MiB into its second one, 64 MiB into neither."""
    p = predicted(repeated(kib))
    rest = 20 * 1024  # of what is written and read before
    assert kib * 1024 * l2 <= p.l2 <= kib * 1024 * l2 + rest
    assert kib * 1024 * dram <= p.dram <= kib * 1024 * dram + rest


def test_shared_memory_takes_from_the_first_cache() -> None:
    n = repeated(160)
    big = array("S", "shared", 12000)
    body = Block((put("S", [T], FloatImm(0.0, FLOAT32)), n.body.body))  # type: ignore[union-attr]
    with_tile = nest([*n.arrays, big], launch(body, (256,)))
    plain = replace(H100, blocks=1)  # one block has it all
    assert predicted(n, plain).l2 < 2 * 160 * 1024
    assert predicted(with_tile, replace(plain, l1=200 << 10)).l2 > 9 * 160 * 1024


def test_blocks_of_one_round_share_what_they_read() -> None:
    """The rows of B are read by all blocks: from memory once for each round of blocks, unless they stay."""
    arrays = [
        array("A", "input", 4096, 256),
        array("B", "input", 1 << 17, 256),
        array("O", "output", 4096, 256),
    ]
    body = loop("i", 0, 1 << 17, put("O", [B, T], Mul(load("A", B, T), load("B", X, T)), "+"))
    n = nest(arrays, launch(body, (256,), (4096,)))
    bytes_of_b = 4 * 256 << 17
    p = predicted(n, registers=32)  # 8 blocks on each of 132 units: four rounds
    assert p.occupancy.blocks == 8
    assert p.dram == pytest.approx(4 * bytes_of_b, rel=0.1)
    assert predicted(n, replace(H100, units=528), registers=32).dram == pytest.approx(bytes_of_b, rel=0.1)
    assert predicted(n, replace(H100, l2=1 << 30), registers=32).dram == pytest.approx(bytes_of_b, rel=0.1)


def test_traffic_is_no_less_than_the_least_and_no_more_than_is_asked_for() -> None:
    for n in (tmm(64, 128, 96), tmm(128, 1024, 1024, 32, 4), repeated(1024)):
        p = predicted(n)
        asked = sum(32 * a.moved for a in p.work.accesses if not a.shared)
        assert p.least_read + p.least_written <= p.dram <= p.l2 <= asked


# Occupancy.


@pytest.mark.parametrize(
    ("on", "threads", "registers", "shared", "blocks", "share", "limit"),
    [
        (H100, 256, 32, 0, 8, 1.0, "threads"),
        (H100, 256, 33, 0, 6, 0.75, "registers"),  # 40 of each thread, by units of 256 of each warp
        (H100, 256, 64, 0, 4, 0.5, "registers"),
        (H100, 1024, 64, 0, 1, 0.5, "registers"),
        (H100, 1024, 65, 0, 0, 0.0, "registers"),  # cannot be launched
        (H100, 32, 16, 0, 32, 0.5, "blocks"),
        (H100, 256, 32, 48 << 10, 4, 0.5, "shared"),  # and a KiB of the system for each
        (A100, 256, 32, 48 << 10, 3, 0.375, "shared"),
        (H100, 1, 16, 0, 32, 0.5, "blocks"),
        (H100, 96, 168, 0, 4, 0.1875, "registers"),  # 12 warps: registers go to four at a time
    ],
)
def test_occupancy(
    on: Any, threads: int, registers: int, shared: int, blocks: int, share: float, limit: str
) -> None:
    found = model.occupancy(on, threads, registers, shared)
    assert (found.blocks, found.share, found.limit) == (blocks, share, limit)


# What binds.


def elementwise(n: int) -> LoopNest:
    point = plus(times(256, B), T)
    arrays = [array("A", "input", n), array("O", "output", n)]
    return nest(arrays, launch(put("O", [point], load("A", point)), (256,), (n // 256,)))


def test_a_large_copy_takes_what_memory_takes() -> None:
    n = 1 << 26
    p = predicted(elementwise(n))
    assert p.binds == "dram"
    assert p.dram == p.l2 == 8 * n
    assert p.seconds == pytest.approx(8 * n / 3350e9 + model.LAUNCH)
    assert predicted(elementwise(n), H200).seconds < p.seconds < predicted(elementwise(n), A100).seconds


def test_a_small_kernel_waits() -> None:
    assert predicted(elementwise(256)).binds == "latency"
    one = nest(
        [array("A", "input", 4096), array("O", "output", 1)],
        launch(loop("i", 0, 4096, put("O", [0], load("A", X), "+")), ()),
    )
    p = predicted(one)
    assert p.binds == "latency"
    assert p.bounds["latency"] > 100 * p.bounds["dram"]


def test_a_tile_of_registers_is_bound_by_shared_memory_and_wider_ones_less() -> None:
    """A multiply-add a cycle for each of 128 lanes, a word for each of 32: one result of a thread takes two
    words, four take five."""
    few, many = (predicted(tmm(2048, 2048, 2048, 32, c), registers=32) for c in (1, 4))
    assert few.binds == "shared"
    reads = 2 * 2048**3 / 32
    writes = 2048**3 / 32 * (1 / 8 + 1 / 32)
    blocks = 2048 * 2048 // 256
    assert few.bounds["shared"] == pytest.approx(
        (reads + writes) * -(-blocks // 132) / blocks / 1.98e9, rel=1e-6
    )
    assert many.bounds["shared"] < 0.75 * few.bounds["shared"]
    assert many.bounds["fma"] == pytest.approx(few.bounds["fma"], rel=0.03)
    assert few.bounds["fma"] == pytest.approx(2048**3 / (128 * 132 * 1.98e9), rel=0.02)


def test_the_last_round_of_blocks_counts_whole() -> None:
    """133 blocks on 132 units take as long as 264."""

    def spun(blocks: int) -> Any:
        arrays = [array("O", "output", blocks, 256), array("R", "register")]
        spin = loop("i", 0, 100000, put("R", [], FloatImm(1.0, FLOAT32), "+"))
        body = Block((spin, put("O", [B, T], load("R"))))
        return predicted(nest(arrays, launch(body, (256,), (blocks,)))).bounds["issue"]

    assert spun(132) == pytest.approx(spun(1))
    assert spun(133) == pytest.approx(spun(264)) == pytest.approx(2 * spun(132))


def test_an_uncoalesced_store_is_more_bytes_for_the_second_cache() -> None:
    arrays = [array("A", "input", 1024, 1024), array("O", "output", 1024, 1024)]
    row, column = plus(times(8, V), U), plus(times(32, B), T)

    def moved(*to: Expr) -> Any:
        return predicted(nest(arrays, launch(put("O", to, load("A", row, column)), (32, 8), (32, 128))))

    straight, turned = moved(row, column), moved(column, row)
    assert (straight.coalesced, turned.coalesced) == (1.0, 0.5)
    assert straight.l2 == 2 * 4 << 20
    assert turned.l2 == (1 + 8) * 4 << 20
    assert turned.dram == straight.dram == 2 * 4 << 20
    assert turned.worst.buffer == "O"
    assert turned.worst.each == 32


def test_more_precision_takes_more_of_the_pipe() -> None:
    def spun(dtype: DType, on: Any) -> float:
        arrays = [array("O", "output", 1024, 256, dtype=dtype), array("R", "register", dtype=dtype)]
        update = put("R", [], Mul(load("R", dtype=dtype), load("R", dtype=dtype)), "+")
        body = Block((loop("i", 0, 1000, update), put("O", [B, T], load("R", dtype=dtype))))
        return predicted(nest(arrays, launch(body, (256,), (1024,))), on).bounds["fma"]

    assert spun(FLOAT64, H100) == pytest.approx(2 * spun(FLOAT32, H100))
    assert spun(FLOAT32, A100) == pytest.approx(spun(FLOAT32, H100) * 128 / 64 * 1.98 / 1.41 * 10 / 8)


def test_a_prediction_is_a_line() -> None:
    told = str(predicted(tmm(128, 1024, 1024)))
    assert told.startswith("f: ")
    assert "binds (dram " in told
    assert "\n" not in told


def test_registers_are_estimated_where_the_compiler_has_not_told_them() -> None:
    one, many = (predicted(tmm(128, 1024, 1024, 32, c)) for c in (1, 32))
    assert one.estimated
    assert many.registers > one.registers + 16
    p = predicted(tmm(128, 1024, 1024), registers=100)
    assert (p.registers, p.estimated, p.occupancy.blocks) == (100, False, 2)


def test_what_does_not_fit_takes_for_ever() -> None:
    n = nest([array("O", "output", 1024)], launch(put("O", [T], FloatImm(0.0, FLOAT32)), (1024,)))
    assert math.isfinite(predicted(n, registers=64).seconds)
    assert predicted(n, registers=128).seconds == math.inf


def test_sizes_may_be_symbols() -> None:
    def copy(n: Expr) -> LoopNest:
        point = plus(times(256, B), T)
        blocks = simplify(FloorDiv(Add(n, IntImm(255)), IntImm(256)))
        body = If(LT(point, n), put("O", [point, 0], load("A", point, 0)))
        arrays = [array("A", "input", n, 4), array("O", "output", n, 4)]
        return nest(arrays, launch(body, (256,), (blocks,)), ("N",) if isinstance(n, Variable) else ())

    known, given = predicted(copy(IntImm(1000))), predicted(copy(Variable("N")), sizes={"N": 1000})
    assert (given.bounds, given.dram, given.results) == (known.bounds, known.dram, known.results)
    assert predicted(copy(Variable("N")), sizes={"N": 2000}).results == 2000
    nothing = predicted(copy(Variable("N")), sizes={"N": 0})
    assert (nothing.blocks, nothing.dram, max(nothing.bounds.values())) == (0, 0, 0)


# The benchmark's programs.


def visited(monkeypatch: pytest.MonkeyPatch, n: LoopNest, one: Launch) -> tuple[Any, int, int]:
    """A prediction, how often an access was looked at, and how many warps at most at once."""
    seen: list[int] = []
    access = warps._Walk.access

    def counted(self: Any, buffer: str, subscripts: Any, g: Any, *rest: Any, **more: Any) -> None:
        seen.append(len(g.weight))
        access(self, buffer, subscripts, g, *rest, **more)

    with monkeypatch.context() as m:
        m.setattr(warps._Walk, "access", counted)
        p = model.predicted(n, one, H100)
    return p, len(seen), max(seen, default=0)


def test_the_work_does_not_depend_on_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = tmm(64, 128, 96), tmm(1 << 16, 1 << 16, 1 << 16)
    (p, few, rows), (q, many, most) = (visited(monkeypatch, n, n.body) for n in (small, large))  # type: ignore[arg-type]
    assert q.work.multiply_adds == p.work.multiply_adds / (64 * 128 * 96) * 2.0**48
    assert (few, rows) == (many, most)


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=() if k % 8 == 0 else pytest.mark.slow) for k, c in enumerate(CASES)],
    ids=lambda c: c.name,
)  # fmt: skip
def test_every_program_has_a_prediction(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each access of the text is looked at once, along a bounded number of warps."""
    w = case.workload()
    arrays = [np.broadcast_to(np.zeros(1, a.dtype)[0], a.shape) for a in w.inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        kernel = tc.compile(w.source, "opencl")
        known = {*kernel.front.checked.sizes, *kernel.front.specialized}
        sizes = dict(tc.compile(w.source, "reference").sizes_of(*arrays))
        n = kernel.specialize(**{k: v for k, v in sizes.items() if k in known}).compiled.nest
    for one in n.body.body if isinstance(n.body, Block) else (n.body,):
        assert isinstance(one, Launch)
        p, looked, rows = visited(monkeypatch, n, one)
        computes = [s for s in statements(one) if isinstance(s, Compute)]
        loads = sum(
            1 for s in computes for e in (s.value, *s.subscripts) for x in walk(e) if isinstance(x, Load)
        )
        assert looked <= loads + 2 * len(computes)
        assert rows <= warps._ROWS
        assert all(math.isfinite(s) and s >= 0 for s in p.bounds.values())
        assert p.least_written > 0 and p.dram <= p.l2 * (1 + 1e-9)
        assert 0 <= p.coalesced <= 1 and p.conflicts >= 1
        assert "\n" not in str(p)
