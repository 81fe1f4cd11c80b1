"""What launches do: requests, sectors, bank conflicts, instructions, counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tc.dtypes import FLOAT32, FLOAT64, INT8, INT16, INT32, UINT8, DType
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
)
from tc.ir.loops import (
    Block,
    Combine,
    If,
    LoopNest,
    Stmt,
    Sync,
)
from tests.backends.gpu_launches import (
    GENERIC,
    H100,
    LANE,
    B,
    T,
    U,
    V,
    X,
    Y,
    accesses,
    array,
    copied,
    instructions,
    lanes,
    launch,
    load,
    loop,
    model,
    nest,
    plus,
    predicted,
    put,
    times,
    tmm,
    unrolling,
    warps,
)

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
    moved, least = lanes.sectors(place[None, :], np.ones((1, 32), bool), itemsize)
    assert (int(moved[0]), int(least[0])) == expected


def test_lanes_that_do_not_ask_move_nothing() -> None:
    mask = (LANE >= 8)[None, :] & (LANE < 16)[None, :]
    for place, expected in ((4 * LANE, 1), (128 * LANE, 8)):
        moved, least = lanes.sectors(place[None, :], mask, 4)
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
        (2, 1, [(0, 2)]),
        (0, 3, [(0, 0)]),
    ],
)
def test_blocks_that_stand_for_others(n: int, most: int, expected: list[tuple[int, int]]) -> None:
    assert warps._some(n, most) == expected


def test_a_short_part_does_not_stand_for_all() -> None:
    """Of many block variables that conditions ask for, each has its last value looked at beside another."""
    part, k = Variable("b2"), Variable("l")
    sums = If(LT(plus(times(128, part), k), IntImm(129)), put("O", [B, V, T], FloatImm(1.0, FLOAT32), "+"))
    inside = If(LT(B, IntImm(49)), If(LT(V, IntImm(39)), loop("l", 0, 128, sums)))
    p = predicted(nest([array("O", "output", 50, 40, 256)], launch(inside, (256,), (50, 40, 2))))
    assert p.work.arithmetic["float32"] == 49 * 39 * 129 * 8


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
    """Shuffles within a warp, and over warps a barrier; without shuffles one, too, for few threads, and for
    more a tree in shared memory, with a barrier before each step."""
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
    assert (p.work.barriers, p.shared, p.work.arithmetic["shuffle"]) == (1, 32, 5 * 8)
    p = predicted(summed((96,)))
    assert (p.work.barriers, p.shared, p.work.arithmetic["shuffle"]) == (1, 12, 5 * 3)
    p = predicted(summed((72,)))  # no whole number of warps
    assert (p.work.barriers, p.shared, p.work.arithmetic["shuffle"]) == (7, 288, 0)
    p = predicted(summed((32, 8)), GENERIC)  # OpenCL C has no shuffles
    assert (p.work.barriers, p.shared) == (1, 1024)
    p = predicted(summed((64, 4)), GENERIC)
    assert (p.work.barriers, p.shared) == (6, 1024)


def test_combinations_that_follow_each_other() -> None:
    """They share a barrier, and each has places of its own."""
    arrays = [
        array("A", "input", 256),
        array("O", "output", 1),
        array("R", "register"),
        array("Q", "register"),
    ]

    def combined(*between: Stmt) -> Any:
        body = Block(
            (
                put("R", [], load("A", T)),
                put("Q", [], load("A", T)),
                Combine("R", "+", "t0"),
                *between,
                Combine("Q", "max", "t0"),
                If(LT(T, IntImm(1)), put("O", [IntImm(0)], Add(load("R"), load("Q")))),
            )
        )
        return predicted(nest(arrays, launch(body, (256,))))

    together, apart = combined(), combined(put("R", [], load("R")))
    assert (together.work.barriers, together.shared) == (1, 64)
    assert (apart.work.barriers, apart.shared) == (2, 64)
    assert together.work.arithmetic["shuffle"] == apart.work.arithmetic["shuffle"]


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
        (Call("cos", (load("A", X),), FLOAT32, "intrinsic"), None, {"float32": 26}),
        (Call("tan", (load("A", X),), FLOAT32, "intrinsic"), None, {"float64": 43, "special": 1}),
        (Cast(FLOAT64, load("A", X)), None, {"integer": 1}),
        (Max(load("A", X), FloatImm(0.0, FLOAT32)), None, {"float32": 4}),
    ],
)
def test_arithmetic(value: Expr, op: Any, expected: dict[str, int]) -> None:
    assert dict(+instructions.arithmetic(value, op, FLOAT32)) == expected


def test_products_that_are_summed_as_four_bytes() -> None:
    def read(name: str, t: DType) -> Expr:
        return Cast(INT32, Load(name, (X,), t))

    assert instructions.of_bytes(Mul(read("A", INT8), read("B", UINT8)), "+", INT32)
    assert not instructions.of_bytes(Mul(read("A", INT8), read("B", INT16)), "+", INT32)
    assert not instructions.of_bytes(Mul(read("A", INT8), read("B", INT8)), "max", INT32)
    assert not instructions.of_bytes(read("A", INT8), "+", INT32)
    whole = Mul(Load("A", (X,), INT32), Load("B", (X,), INT32))
    assert dict(+instructions.arithmetic(whole, "+", INT32)) == {"integer": 1}


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
