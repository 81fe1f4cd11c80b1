"""Predictions for launches: traffic, occupancy, the bounds; and for every program of the benchmark."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tc
from benchmarks.workloads import CASES
from benchmarks.workloads.model import Case
from tc.dtypes import FLOAT32, FLOAT64, INT32, DType
from tc.ir.expr import (
    LT,
    Add,
    Expr,
    FloatImm,
    FloorDiv,
    IntImm,
    Load,
    Mul,
    Variable,
    walk,
)
from tc.ir.loops import (
    Block,
    Compute,
    If,
    Launch,
    LoopNest,
    Stmt,
    Sync,
    statements,
)
from tc.ir.simplify import simplify
from tests.backends.gpu_launches import (
    A100,
    H100,
    H200,
    B,
    T,
    U,
    V,
    X,
    Y,
    array,
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
    warps,
)

# Traffic.


def test_compulsory_traffic_counts_each_element_once() -> None:
    """A stencil reads its halo, too; a temporary that is written first has only stores, an update both, and a
    gather no more than the requested elements."""
    arrays = [array("A", "input", 66), array("O", "output", 64), array("T", "temporary", 64)]
    value = Add(Add(load("A", T), load("A", plus(T, 1))), load("A", plus(T, 2)))
    p = predicted(nest(arrays, launch(put("O", [T], value), (64,))))
    assert (p.elements_read, p.elements_written) == (66, 64)
    body = Block((put("T", [T], load("A", T)), Sync(), put("O", [T], load("T", T))))
    p = predicted(nest(arrays, launch(body, (64,))))
    assert (p.elements_read, p.elements_written) == (64, 128)
    p = predicted(nest(arrays, launch(put("O", [T], load("A", T), "+"), (64,))))
    assert (p.elements_read, p.elements_written) == (128, 64)
    gather = [array("A", "input", 100000), array("X", "input", 64, dtype=INT32), array("O", "output", 64)]
    p = predicted(nest(gather, launch(put("O", [T], load("A", load("X", T, dtype=INT32))), (64,))))
    assert (p.elements_read, p.elements_written) == (128, 64)


def test_footprints_distinguish_loops_of_the_same_name() -> None:
    """Each statement has the interval of its own loop."""
    arrays = [array("A", "input", 64, 32), array("O", "output", 64, 32)]
    copy = put("O", [X, T], load("A", X, T))
    body = Block((loop("i", 0, 64, copy), loop("i", 0, 2, copy)))
    assert predicted(nest(arrays, launch(body))).elements_read == 64 * 32


def repeated(kib: int) -> LoopNest:
    """A launch of one block that reads so many KiB ten times."""
    n = kib * 1024 // 4 // 256
    arrays = [array("A", "input", n, 256), array("O", "output", 10, 256)]
    value = load("A", X, T)
    return nest(arrays, launch(loop("j", 0, 10, loop("i", 0, n, put("O", [Y, T], value, "+"))), (256,)))


@pytest.mark.parametrize(("kib", "l2", "dram"), [(64, 1, 1), (1024, 10, 1), (65536, 10, 10)])
def test_footprints_that_fit_a_cache_are_loaded_once(kib: int, l2: int, dram: int) -> None:
    """64 KiB fit into the L1 cache of an H100, 1 MiB into its L2 cache, 64 MiB into neither."""
    p = predicted(repeated(kib))
    updates = 20 * 1024  # of the results, which are read and written
    assert kib * 1024 * l2 <= p.l2 <= kib * 1024 * l2 + updates
    assert kib * 1024 * dram <= p.dram <= kib * 1024 * dram + updates


def test_shared_memory_reduces_the_l1_cache() -> None:
    n = repeated(160)
    big = array("S", "shared", 12000)
    body = Block((put("S", [T], FloatImm(0.0, FLOAT32)), n.body.body))  # type: ignore[union-attr]
    with_tile = nest([*n.arrays, big], launch(body, (256,)))
    plain = replace(H100, blocks=1)  # one resident block has the whole cache
    assert predicted(n, plain).l2 < 2 * 160 * 1024
    assert predicted(with_tile, replace(plain, l1=200 << 10)).l2 > 9 * 160 * 1024


def test_resident_blocks_share_reads_in_the_l2_cache() -> None:
    """All blocks read the rows of B: from memory once for each wave of blocks, unless B fits the L2 cache."""
    arrays = [
        array("A", "input", 4096, 256),
        array("B", "input", 1 << 17, 256),
        array("O", "output", 4096, 256),
    ]
    body = loop("i", 0, 1 << 17, put("O", [B, T], Mul(load("A", B, T), load("B", X, T)), "+"))
    n = nest(arrays, launch(body, (256,), (4096,)))
    bytes_of_b = 4 * 256 << 17
    p = predicted(n, registers=32)  # 8 blocks on each of 132 multiprocessors: four waves
    assert p.occupancy.blocks == 8
    assert p.dram == pytest.approx(4 * bytes_of_b, rel=0.1)
    assert predicted(n, replace(H100, units=528), registers=32).dram == pytest.approx(bytes_of_b, rel=0.1)
    assert predicted(n, replace(H100, l2=1 << 30), registers=32).dram == pytest.approx(bytes_of_b, rel=0.1)


def test_traffic_is_between_compulsory_and_requested_bytes() -> None:
    for n in (tmm(64, 128, 96), tmm(128, 1024, 1024, 32, 4), repeated(1024)):
        p = predicted(n)
        asked = sum(32 * a.transactions for a in p.work.accesses if not a.shared)
        assert p.compulsory_read + p.compulsory_written <= p.dram <= p.l2 <= asked


# Occupancy.


@pytest.mark.parametrize(
    ("on", "threads", "registers", "shared", "blocks", "share", "limit"),
    [
        (H100, 256, 32, 0, 8, 1.0, "threads"),
        (H100, 256, 33, 0, 6, 0.75, "registers"),  # 40 a thread, by units of 256 a warp
        (H100, 256, 64, 0, 4, 0.5, "registers"),
        (H100, 1024, 64, 0, 1, 0.5, "registers"),
        (H100, 1024, 65, 0, 0, 0.0, "registers"),  # cannot be launched
        (H100, 32, 16, 0, 32, 0.5, "blocks"),
        (H100, 256, 32, 48 << 10, 4, 0.5, "shared"),  # with a KiB of the system for each block
        (A100, 256, 32, 48 << 10, 3, 0.375, "shared"),
        (H100, 1, 16, 0, 32, 0.5, "blocks"),
        (H100, 96, 168, 0, 4, 0.1875, "registers"),  # 12 warps: registers are allocated to four at a time
    ],
)
def test_occupancy_is_limited_by_the_scarcest_resource(
    on: Any, threads: int, registers: int, shared: int, blocks: int, share: float, limit: str
) -> None:
    found = model.occupancy(on, threads, registers, shared)
    assert (found.blocks, found.share, found.limit) == (blocks, share, limit)


# Bounds.


def elementwise(n: int) -> LoopNest:
    point = plus(times(256, B), T)
    arrays = [array("A", "input", n), array("O", "output", n)]
    return nest(arrays, launch(put("O", [point], load("A", point)), (256,), (n // 256,)))


def test_a_large_copy_is_bound_by_dram() -> None:
    n = 1 << 26
    p = predicted(elementwise(n))
    assert p.bottleneck == "dram"
    assert p.dram == p.l2 == 8 * n
    least = 8 * n / 2880e9 + model.LAUNCH_SECONDS
    assert least < p.seconds < 1.03 * least  # latency is 0.6 times as long
    assert predicted(elementwise(n), H200).seconds < p.seconds < predicted(elementwise(n), A100).seconds


def looked_up(checked: bool, changes: bool = False) -> Any:
    """The prediction for sums of eight rows; `changes`: the loop writes the indices as well."""
    arrays = [array("A", "input", 1000, 32), array("I", "output", 64, dtype=INT32), array("O", "output", 32)]
    row = Load("A", (load("I", X, dtype=INT32), T), FLOAT32, checked=(0,) if checked else (), site=0)
    body: tuple[Stmt, ...] = (put("O", [T], row, "+"),)
    if changes:
        body = (*body, put("I", [X], IntImm(1, INT32)))
    return predicted(nest(arrays, launch(loop("i", 0, 8, Block(body)))))


def test_checks_of_subscripts_cost_instructions() -> None:
    free, checked = looked_up(False), looked_up(True)
    assert checked.work.arithmetic["integer"] == free.work.arithmetic["integer"] + 3 * 8
    assert checked.bounds["latency"] < 1.1 * free.bounds["latency"]


def test_loads_wait_for_checks_that_branch() -> None:
    """In a loop that changes the subscripts (tc/codegen/late_checks.py)."""
    assert looked_up(True, True).bounds["latency"] > 4 * looked_up(False, True).bounds["latency"]


def test_a_small_kernel_is_bound_by_latency() -> None:
    assert predicted(elementwise(256)).bottleneck == "latency"
    one = nest(
        [array("A", "input", 4096), array("O", "output", 1)],
        launch(loop("i", 0, 4096, put("O", [0], load("A", X), "+")), ()),
    )
    p = predicted(one)
    assert p.bottleneck == "latency"
    assert p.bounds["latency"] > 100 * p.bounds["dram"]


def test_wider_register_tiles_are_less_bound_by_shared_memory() -> None:
    """A cycle has 128 multiply-adds and 32 words of shared memory; one result of a thread takes two words,
    four take five."""
    narrow, wide = (predicted(tmm(2048, 2048, 2048, 32, c), registers=32) for c in (1, 4))
    assert narrow.bottleneck == "shared"
    reads = 2 * 2048**3 / 32
    writes = 2048**3 / 32 * (1 / 8 + 1 / 32)
    blocks = 2048 * 2048 // 256
    assert narrow.bounds["shared"] == pytest.approx(
        (reads + writes) * -(-blocks // 132) / blocks / 1.98e9, rel=1e-6
    )
    assert wide.bounds["shared"] < 0.75 * narrow.bounds["shared"]
    assert wide.bounds["fma"] == pytest.approx(narrow.bounds["fma"], rel=0.03)
    assert narrow.bounds["fma"] == pytest.approx(2048**3 / (128 * 132 * 1.98e9), rel=0.02)


def test_a_tail_wave_takes_as_long_as_a_full_wave() -> None:
    """133 blocks on 132 multiprocessors take as long as 264."""

    def spun(blocks: int) -> Any:
        arrays = [array("O", "output", blocks, 256), array("R", "register")]
        spin = loop("i", 0, 100000, put("R", [], FloatImm(1.0, FLOAT32), "+"))
        body = Block((spin, put("O", [B, T], load("R"))))
        return predicted(nest(arrays, launch(body, (256,), (blocks,)))).bounds["issue"]

    assert spun(132) == pytest.approx(spun(1))
    assert spun(133) == pytest.approx(spun(264)) == pytest.approx(2 * spun(132))


def test_an_uncoalesced_store_increases_l2_traffic() -> None:
    arrays = [array("A", "input", 1024, 1024), array("O", "output", 1024, 1024)]
    row, column = plus(times(8, V), U), plus(times(32, B), T)

    def moved(*to: Expr) -> Any:
        return predicted(nest(arrays, launch(put("O", to, load("A", row, column)), (32, 8), (32, 128))))

    copy, transpose = moved(row, column), moved(column, row)
    assert (copy.coalesced, transpose.coalesced) == (1.0, 0.5)
    assert copy.l2 == 2 * 4 << 20
    assert transpose.l2 == (1 + 8) * 4 << 20
    assert transpose.dram == copy.dram == 2 * 4 << 20
    assert transpose.worst_access.buffer == "O"
    assert transpose.worst_access.transactions_per_request == 32


def test_float64_takes_longer_in_its_pipe() -> None:
    def spun(dtype: DType, on: Any) -> float:
        arrays = [array("O", "output", 1024, 256, dtype=dtype), array("R", "register", dtype=dtype)]
        update = put("R", [], Mul(load("R", dtype=dtype), load("R", dtype=dtype)), "+")
        body = Block((loop("i", 0, 1000, update), put("O", [B, T], load("R", dtype=dtype))))
        return predicted(nest(arrays, launch(body, (256,), (1024,))), on).bounds["fma"]

    assert spun(FLOAT64, H100) == pytest.approx(2 * spun(FLOAT32, H100))
    assert spun(FLOAT32, A100) == pytest.approx(spun(FLOAT32, H100) * 128 / 64 * 1.98 / 1.41 * 10 / 8)


def test_a_prediction_prints_as_one_line() -> None:
    text = str(predicted(tmm(128, 1024, 1024)))
    assert text.startswith("f: ")
    assert "binds (dram " in text
    assert "\n" not in text


def test_registers_are_estimated_unless_given() -> None:
    one, many = (predicted(tmm(128, 1024, 1024, 32, c)) for c in (1, 32))
    assert one.estimated
    assert many.registers > one.registers + 16
    p = predicted(tmm(128, 1024, 1024), registers=100)
    assert (p.registers, p.estimated, p.occupancy.blocks) == (100, False, 2)


def test_a_launch_that_does_not_fit_takes_infinite_time() -> None:
    n = nest([array("O", "output", 1024)], launch(put("O", [T], FloatImm(0.0, FLOAT32)), (1024,)))
    assert math.isfinite(predicted(n, registers=64).seconds)
    assert predicted(n, registers=128).seconds == math.inf


def test_symbolic_sizes_are_predicted_as_their_values() -> None:
    def copy(n: Expr) -> LoopNest:
        point = plus(times(256, B), T)
        blocks = simplify(FloorDiv(Add(n, IntImm(255)), IntImm(256)))
        body = If(LT(point, n), put("O", [point, 0], load("A", point, 0)))
        arrays = [array("A", "input", n, 4), array("O", "output", n, 4)]
        return nest(arrays, launch(body, (256,), (blocks,)), ("N",) if isinstance(n, Variable) else ())

    known, given = predicted(copy(IntImm(1000))), predicted(copy(Variable("N")), sizes={"N": 1000})
    assert (given.bounds, given.dram, given.elements_written) == (
        known.bounds,
        known.dram,
        known.elements_written,
    )
    assert predicted(copy(Variable("N")), sizes={"N": 2000}).elements_written == 2000
    nothing = predicted(copy(Variable("N")), sizes={"N": 0})
    assert (nothing.blocks, nothing.dram, max(nothing.bounds.values())) == (0, 0, 0)


# The benchmark's programs.


def visited(monkeypatch: pytest.MonkeyPatch, n: LoopNest, one: Launch) -> tuple[Any, int, int]:
    """A prediction, the number of accesses that were counted, and the largest sample of warps."""
    seen: list[int] = []
    access = warps._WorkCounter.add_access

    def counted(self: Any, buffer: str, subscripts: Any, g: Any, *rest: Any, **more: Any) -> None:
        seen.append(len(g.weight))
        access(self, buffer, subscripts, g, *rest, **more)

    with monkeypatch.context() as m:
        m.setattr(warps._WorkCounter, "add_access", counted)
        p = model.predict(n, one, H100)
    return p, len(seen), max(seen, default=0)


def test_compile_time_of_a_prediction_does_not_depend_on_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = tmm(64, 128, 96), tmm(1 << 16, 1 << 16, 1 << 16)
    (p, few, rows), (q, many, most) = (visited(monkeypatch, n, n.body) for n in (small, large))  # type: ignore[arg-type]
    assert q.work.multiply_adds == p.work.multiply_adds / (64 * 128 * 96) * 2.0**48
    assert (few, rows) == (many, most)


@pytest.mark.share(18)
@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=() if k % 8 == 0 else pytest.mark.slow) for k, c in enumerate(CASES)],
    ids=lambda c: c.name,
)  # fmt: skip
def test_every_program_has_a_finite_prediction(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each access of the text is counted once, with a bounded sample of warps."""
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
        assert rows <= sampling.MAX_ROWS
        assert all(math.isfinite(s) and s >= 0 for s in p.bounds.values())
        assert p.compulsory_written > 0 and p.dram <= p.l2 * (1 + 1e-9)
        assert 0 <= p.coalesced <= 1 and p.conflict_factor >= 1
        assert "\n" not in str(p)
