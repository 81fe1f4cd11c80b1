"""The work of launches: requests, sectors, bank conflicts and instructions, compared with counts by hand."""

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
    sampling,
    times,
    tmm,
    unrolling,
    warps,
)

# Requests of a warp.


@pytest.mark.parametrize(
    ("place", "itemsize", "expected"),
    [
        (4 * LANE, 4, (4, 4)),  # contiguous
        (4 * LANE[::-1], 4, (4, 4)),
        (4 * LANE + 4, 4, (5, 4)),  # unaligned
        (8 * LANE, 4, (8, 4)),  # every other one
        (128 * LANE, 4, (32, 4)),  # a column
        (0 * LANE, 4, (1, 1)),  # the same for all
        (8 * LANE, 8, (8, 8)),
        (2 * LANE, 2, (2, 2)),
        (LANE, 1, (1, 1)),
    ],
)
def test_sectors_of_a_request_are_counted(place: Any, itemsize: int, expected: tuple[int, int]) -> None:
    moved, least = lanes.sectors(place[None, :], np.ones((1, 32), bool), itemsize)
    assert (int(moved[0]), int(least[0])) == expected


def test_inactive_lanes_touch_no_sectors() -> None:
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
        (144 * (LANE % 16), 16, (4, 2)),  # both halves load the same, but one after the other
        (144 * (LANE // 2), 16, (2, 2)),  # pairs of lanes load the same: half a warp at a time
    ],
)
def test_bank_conflicts_are_counted_in_cycles(place: Any, itemsize: int, expected: tuple[int, int]) -> None:
    moved, least = warps.cycles(place[None, :], np.ones((1, 32), bool), itemsize)
    assert (int(moved[0]), int(least[0])) == expected


def test_ideal_time_uses_the_whole_device() -> None:
    """Also for launches of few blocks."""
    work = loop("i", 0, 1000, put("O", [0], Mul(load("A", 0), load("A", 0)), "+"))
    arrays = [array("A", "input", 1), array("O", "output", 1)]
    for blocks in (1, H100.units, H100.units + 1):
        p = predicted(nest(arrays, launch(work, (32,), (blocks,))))
        rounds = -(-blocks // H100.units)
        share = blocks / (rounds * H100.units)
        assert p.ideal_seconds(H100) - model.LAUNCH_SECONDS == pytest.approx(
            p.bounds["fma"] * share, rel=1e-6
        )


def test_reads_of_a_kernel_are_coalesced_along_the_last_dimension() -> None:
    assert (copied([0, T], (32, 32)).transactions_per_request, copied([0, T], (32, 32)).coalesced) == (
        4,
        True,
    )
    assert (copied([T, 0], (32, 32)).transactions_per_request, copied([T, 0], (32, 32)).coalesced) == (
        32,
        False,
    )
    assert (copied([3, 4], (32, 32)).transactions_per_request, copied([3, 4], (32, 32)).coalesced) == (
        1,
        True,
    )
    assert copied([T, 0], (32, 32), FLOAT64).transactions_per_request == 32
    assert copied([0, T], (32, 32), FLOAT64).transactions_per_request == 8
    assert copied([FloorDiv(T, IntImm(8)), FloorMod(T, IntImm(8))], (4, 32)).transactions_per_request == 4
    # An unaligned row takes one more sector, and is coalesced; a stride of two is not.
    assert copied([plus(T, 1)], (64,)).coalesced and copied([plus(T, 1)], (64,)).transactions_per_request == 5
    assert not copied([times(2, T)], (64,)).coalesced


@pytest.mark.parametrize(("padding", "cycles"), [(0, 32), (1, 1), (2, 2), (4, 4)])
def test_padding_avoids_bank_conflicts_of_columns(padding: int, cycles: int) -> None:
    arrays = [
        array("A", "input", 32, 32),
        array("O", "output", 32, 32),
        array("S", "shared", 32, 32, padding=padding),
    ]
    body = Block((put("S", [U, T], load("A", U, T)), Sync(), put("O", [U, T], load("S", T, U))))
    n = nest(arrays, launch(body, (32, 8)))
    (read,), (written,) = accesses(n, "S"), accesses(n, "S", store=True)
    assert (read.transactions_per_request, read.requests, written.transactions_per_request) == (cycles, 8, 1)
    assert predicted(n).conflict_factor == pytest.approx((8 + 8 * cycles) / 16)


def test_warps_of_small_blocks_are_counted() -> None:
    """16 threads are half a warp; 8 x 8 threads are two warps of four rows."""
    arrays = [array("A", "input", 8, 64), array("O", "output", 8, 8)]
    (a,) = accesses(nest(arrays, launch(put("O", [U, T], load("A", U, T)), (8, 8))), "A")
    assert (a.requests, a.elements, a.transactions) == (2, 64, 8)
    (a,) = accesses(nest(arrays, launch(put("O", [0, 0], load("A", 0, T)), (16,))), "A")
    assert (a.requests, a.elements, a.transactions) == (1, 16, 2)


def test_loaded_indices_are_random_but_equal_for_equal_elements() -> None:
    """Rows that are gathered are contiguous; single elements are scattered."""
    arrays = [
        array("A", "input", 4096, 32), array("X", "input", 32, dtype=INT32), array("O", "output", 32, 32),
    ]  # fmt: skip
    row = put("O", [U, T], load("A", load("X", U, dtype=INT32), T))
    (a,) = accesses(nest(arrays, launch(row, (32, 8))), "A")
    assert (a.requests, a.transactions) == (8, 32)
    (a,) = accesses(nest(arrays, launch(put("O", [0, T], load("A", load("X", T, dtype=INT32), 0)))), "A")
    assert 24 <= a.transactions <= 32


def test_indices_computed_from_values_are_random() -> None:
    """They are as scattered as the values: each lane has its own, or all have the same."""

    def read(*place: Expr | int) -> Any:
        scaled = Mul(load("Z", *place), FloatImm(2.5, FLOAT32))
        e = Cast(INT32, Call("floor", (scaled,), FLOAT32, "intrinsic"))
        arrays = [array("A", "input", 4096), array("Z", "input", 32), array("O", "output", 32)]
        (a,) = accesses(nest(arrays, launch(put("O", [T], load("A", e)))), "A")
        return a

    assert read(T).transactions > 16
    assert read(3).transactions == 1


# Counts of a launch.


@pytest.mark.parametrize(("m", "n", "k"), [(64, 128, 96), (128, 1024, 1024)])
@pytest.mark.parametrize("columns", [1, 2, 4])
def test_counts_of_a_matrix_product_are_exact(m: int, n: int, k: int, columns: int) -> None:
    p = predicted(tmm(m, n, k, 32, columns))
    width = 32 * columns
    assert p.work.multiply_adds == m * n * k
    assert p.work.arithmetic["float32"] == p.work.arithmetic["multiply-add"] == m * n * k / 32
    # A tile of A is loaded for each tile of columns, a tile of B for every 8 rows.
    assert p.count(shared=False, store=False) == m * k * (n // width) + n * k * (m // 8)
    assert p.count(shared=True, store=True) == p.count(shared=False, store=False)
    assert p.count(shared=False, store=True) == m * n
    # All columns of a thread share an element of A.
    assert p.count(shared=True, store=False) == m * n * k * (1 + 1 / columns)
    assert (p.work.barriers, p.work.barriers_per_iteration) == (2 * k // 32, 2)
    assert (p.coalesced, p.conflict_factor) == (1.0, 1.0)
    assert (p.elements_read, p.elements_written) == (m * k + n * k, m * n)
    assert (p.compulsory_read, p.compulsory_written) == (4 * (m * k + n * k), 4 * m * n)
    assert p.shared == 4 * (8 * 33 + width * 33)
    assert (p.blocks, p.threads) == (m // 8 * n // width, 256)


def test_guarded_loads_are_not_shared_by_iterations() -> None:
    """nvcc repeats loads under a condition in each unrolled iteration, and the comparison, too."""
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
    assert p.work.guards == 0  # it is in no loop


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
def test_representatives_cover_all_blocks(n: int, most: int, expected: list[tuple[int, int]]) -> None:
    assert sampling.representatives(n, most) == expected


def test_the_last_block_is_sampled_along_each_dimension() -> None:
    """Where conditions depend on several block variables, the sample has the last value of each and
    another."""
    part, k = Variable("b2"), Variable("l")
    sums = If(LT(plus(times(128, part), k), IntImm(129)), put("O", [B, V, T], FloatImm(1.0, FLOAT32), "+"))
    inside = If(LT(B, IntImm(49)), If(LT(V, IntImm(39)), loop("l", 0, 128, sums)))
    p = predicted(nest([array("O", "output", 50, 40, 256)], launch(inside, (256,), (50, 40, 2))))
    assert p.work.arithmetic["float32"] == 49 * 39 * 129 * 8


def test_a_triangle_of_blocks_is_estimated_from_samples() -> None:
    """About half of the blocks have nothing to do; a sample gives the share roughly."""
    arrays = [array("A", "input", 32, 32), array("O", "output", 32, 32, 32)]
    body = If(LT(B, V), put("O", [B, V, T], load("A", B, T)))
    p = predicted(nest(arrays, launch(body, (32,), (32, 32))))
    assert 0.2 < p.count(shared=False, store=True) / 32**3 < 0.8


@pytest.mark.parametrize("n", [1, 31, 255, 256, 1013, 1024, 5000])
def test_lanes_with_different_trip_counts_are_counted(n: int) -> None:
    arrays = [array("A", "input", n), array("O", "output", n)]
    body = loop("i", T, n, put("O", [X], load("A", X)), 256)
    p = predicted(nest(arrays, launch(body, (256,))))
    assert p.count(shared=False, store=False) == n
    assert sum(a.requests for a in p.work.accesses if not a.store) == -(-n // 32)


def test_short_loops_with_conditions_are_counted_exactly() -> None:
    """If bounds depend on the variable of an outer loop, all of its few iterations are sampled."""
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


def test_conditional_values_load_only_in_active_lanes() -> None:
    arrays = [array("A", "input", 32), array("O", "output", 32)]
    value = IfThenElse(LT(T, IntImm(5)), load("A", T), FloatImm(0.0, FLOAT32))
    (a,) = accesses(nest(arrays, launch(put("O", [T], value))), "A")
    assert (a.requests, a.elements) == (1, 5)


def test_values_in_registers_are_not_reloaded() -> None:
    """Values that a block of statements has just stored, accumulators of a loop, and its invariants."""
    arrays = [array("A", "input", 64, 32), array("O", "output", 32), array("P", "output", 32)]
    again = Block((put("O", [T], load("A", 0, T)), put("P", [T], load("O", T))))
    assert not accesses(nest(arrays, launch(again)), "O")
    updated = nest(arrays, launch(loop("i", 0, 64, put("O", [T], load("A", X, T), "+"))))
    assert [a.requests for a in accesses(updated, "O", store=True)] == [1]
    assert [a.requests for a in accesses(updated, "A")] == [64]
    fixed = nest(arrays, launch(loop("i", 0, 640, put("O", [T], load("A", 0, T), "+"))))
    assert [a.requests for a in accesses(fixed, "A")] == [1]
    # With a barrier, or another read of the accumulator in the loop, it stays in memory.
    waits = loop("i", 0, 64, Block((put("O", [T], load("A", 0, T), "+"), Sync())))
    n = nest(arrays, launch(waits))
    assert [a.requests for a in (*accesses(n, "A"), *accesses(n, "O", store=True))] == [64, 64]
    reads = loop("i", 0, 64, put("O", [T], load("O", FloorMod(plus(T, X), IntImm(32))), "+"))
    assert [a.requests for a in accesses(nest(arrays, launch(reads)), "O", store=True)] == [64]


def test_temporaries_are_assumed_to_alias() -> None:
    """They share a workspace, so a store to one prevents nvcc from keeping another in a register."""
    temporary = [array("V", "temporary", 32), array("W", "temporary", 32)]
    arrays = [array("O", "output", 32), *temporary]
    body = loop("i", 0, 64, put("V", [X], load("W", T)))
    assert [a.requests for a in accesses(nest(arrays, launch(body)), "W")] == [64]
    body = loop("i", 0, 64, put("O", [X], load("W", T)))
    assert [a.requests for a in accesses(nest(arrays, launch(body)), "W")] == [1]


def test_reductions_across_threads_are_counted() -> None:
    """Shuffles within a warp, and a barrier between warps.  Without shuffles few threads need one barrier,
    more threads a tree in shared memory with a barrier before each step."""
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


def test_consecutive_reductions_share_a_barrier() -> None:
    """They share a barrier, and each has its own scratch."""
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

    consecutive, separated = combined(), combined(put("R", [], load("R")))
    assert (consecutive.work.barriers, consecutive.shared) == (1, 64)
    assert (separated.work.barriers, separated.shared) == (2, 64)
    assert consecutive.work.arithmetic["shuffle"] == separated.work.arithmetic["shuffle"]


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
        (Max(load("A", X), FloatImm(0.0, FLOAT32)), None, {"float32": 1}),
        (Max(Cast(FLOAT64, load("A", X)), FloatImm(0.0, FLOAT64)), None, {"float64": 4, "integer": 1}),
    ],
)
def test_arithmetic_is_counted_by_pipe(value: Expr, op: Any, expected: dict[str, int]) -> None:
    assert dict(+instructions.arithmetic(value, op, FLOAT32)) == expected


def test_products_of_bytes_are_recognised_as_dot_products() -> None:
    def read(name: str, t: DType) -> Expr:
        return Cast(INT32, Load(name, (X,), t))

    assert instructions.is_dot_product(Mul(read("A", INT8), read("B", UINT8)), "+", INT32)
    assert not instructions.is_dot_product(Mul(read("A", INT8), read("B", INT16)), "+", INT32)
    assert not instructions.is_dot_product(Mul(read("A", INT8), read("B", INT8)), "max", INT32)
    assert not instructions.is_dot_product(read("A", INT8), "+", INT32)
    whole = Mul(Load("A", (X,), INT32), Load("B", (X,), INT32))
    assert dict(+instructions.arithmetic(whole, "+", INT32)) == {"integer": 1}


def test_common_quotients_of_subscripts_are_counted_once() -> None:
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
def test_unroll_factors_match_nvcc(trips: int, columns: int, factor: int) -> None:
    """The factors in the PTX of NVRTC 12.9, for products of one value in shared memory with `columns`
    others."""
    c = Variable("c")
    update = put("R", [c], Mul(load("A", X), load("S", times(8, c), X)), "+")
    body = loop("i", 0, trips, loop("c", 0, columns, update, unrolled=True))
    arrays = [array("A", "shared", trips), array("S", "shared", 64, trips), array("R", "register", columns)]
    found = unrolling.unrollings(body, {a.name: a for a in arrays})[id(body)]
    assert (found.factor, found.full) == (factor, factor == trips)


def test_loops_with_barriers_or_unknown_trip_counts_are_not_fully_unrolled() -> None:
    arrays = {a.name: a for a in (array("A", "input", 64), array("R", "register"))}
    update = put("R", [], load("A", X), "+")
    for body, factor in (
        (loop("i", T, 64, update, 8), 4),  # unknown trip count
        (loop("i", 0, 8, Block((update, Sync()))), 1),
        (loop("i", T, plus(T, 8), update), 8),  # constant trip count
    ):
        assert unrolling.unrollings(body, arrays)[id(body)].factor == factor
