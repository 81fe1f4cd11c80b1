"""Reductions across the threads of several warps: the CUDA text for every shape of a block."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tc.codegen import gpu_kernel, gpu_source, scratch
from tc.codegen.dialect import CUDA
from tc.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT8, INT64, UINT16, DType
from tc.ir.expr import EQ, Cast, IntImm, Load, Variable
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
)
from tc.runtime.arrays import numpy_dtype
from tests.codegen.test_gpu import OPS, combination, wanted
from tests.simt import shim as simt
from tests.simt.mapped import Call

SHAPES = [
    ((("t0", 64),), "t0"),
    ((("t0", 96),), "t0"),
    ((("t0", 72),), "t0"),  # not a multiple of a warp: a tree
    ((("t0", 64), ("t1", 2)), "t0"),
    ((("t0", 4), ("t1", 16)), "t1"),
    ((("t0", 2), ("t1", 48), ("t2", 2)), "t1"),
    ((("t0", 32), ("t1", 3)), "t1"),
    ((("t0", 16), ("t1", 4), ("t2", 3)), "t0"),
    ((("t0", 12), ("t1", 4)), "t0"),  # few threads: a serial reduction; with the result everywhere a tree
    ((("t0", 32), ("t1", 8)), "t1"),
    ((("t0", 40), ("t1", 5), ("t2", 2)), "t1"),
    ((("t0", 3), ("t1", 33)), "t1"),
]


def combined(
    t: DType, threads: tuple[tuple[str, int], ...], over: str, everywhere: bool = False, elements: int = 2
) -> tuple[str, list[str]]:
    """The text, and the operations with wrong results on the shim, or its findings."""
    n = combination(t, threads, over, everywhere=everywhere, elements=elements)
    extents = (elements, *(k for _, k in threads))
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2 if t.is_bool else 3, extents).astype(numpy_dtype(t))
    if t.is_float:
        x.reshape(-1)[[5, 40]] = math.nan, -math.inf
    shapes = {a.name: extents for a in n.arrays if a.role in ("input", "output")}
    made = gpu_source.emit(n, CUDA)
    result = Call(n, made, {}, shapes, {"A": x}, {}).run()
    axis = 1 + int(over[1])
    problems = [str(f) for f in result.found]
    work = x.astype(object) if t.is_int else x
    for k, op in enumerate(OPS):
        want = wanted(work, t, axis)[op]
        if t.is_int:
            want = np.vectorize(lambda z: t.wrap(int(z)), otypes=[object])(want).astype(x.dtype)
        for place in range(extents[axis] if everywhere else 1):
            found = np.take(result.values[f"O{k}"], place, axis)
            same = np.array_equal(*(a.astype(np.float64) for a in (found, want)), equal_nan=t.is_float)
            problems += [] if same else [f"{op} at {place}"]
    return made.text, problems


@pytest.mark.share(18)
@pytest.mark.parametrize(("threads", "over"), SHAPES)
def test_reductions_over_every_shape_of_block_are_exact(
    threads: tuple[tuple[str, int], ...], over: str
) -> None:
    count = dict(threads)[over]
    stride = math.prod(n for v, n in threads if v < over)
    lanes = 32 // stride if 32 % stride == 0 else 1
    shuffled = lanes > 1 and count % min(lanes, count) == 0 and (count % lanes == 0 or count in (2, 4, 8, 16))
    over_warps = not shuffled or count > lanes
    # One for the partial results, which all threads read.  Without shuffles elements are reduced one after
    # the other, so another one follows the reads, and a tree has one more for each step but the last.
    for everywhere, few in ((False, 32), (True, 8)):
        text, problems = combined(FLOAT64, threads, over, everywhere)
        assert not problems
        assert ("__shfl_xor_sync" in text) == shuffled
        each = 1 if shuffled else 2 if count <= few else 3  # a loop has one more
        assert text.count("__syncthreads") == (each * len(OPS) if over_warps else 0)


@pytest.mark.share(18)
@pytest.mark.parametrize(
    ("threads", "over", "elements"),
    [
        ((("t0", 512),), "t0", 18),
        ((("t0", 4), ("t1", 128)), "t1", 16),
        ((("t0", 256), ("t1", 2)), "t0", 12),
        ((("t0", 4), ("t1", 128), ("t2", 2)), "t1", 7),
    ],
)
@pytest.mark.parametrize("t", [FLOAT64, BOOL], ids=str)
def test_threads_share_partial_results_of_many_warps(
    t: DType, threads: tuple[tuple[str, int], ...], over: str, elements: int
) -> None:
    """Otherwise a thread would load more partial results than it has registers."""
    for everywhere in (False, True):
        text, problems = combined(t, threads, over, everywhere, elements)
        assert not problems
        assert text.count("for (int sum") == len(OPS)


@pytest.mark.share(18)
@pytest.mark.parametrize("t", [BOOL, INT8, UINT16, INT64, FLOAT16, BFLOAT16, FLOAT32], ids=str)
def test_reductions_across_threads_have_every_type(t: DType) -> None:
    for threads, over in ((SHAPES[1]), (SHAPES[5])):
        assert not combined(t, threads, over)[1]


R, Q = (Array(n, t, (), "register") for n, t in (("r", FLOAT32), ("q", INT64)))
OUT = Array("o", FLOAT32, (IntImm(3),), "output")
FIRST, OTHER = Combine("r", "+", "t0"), Combine("q", "+", "t0")
RESET = Block(
    (
        Compute("", "r", (), None, Cast(FLOAT32, Variable("t0")), (), ""),
        Compute("", "q", (), None, Variable("t0"), (), ""),
    )
)


def done(k: int) -> Stmt:
    kept = Compute("", "o", (IntImm(k),), None, Load("r", (), FLOAT32), (), "")
    return If(EQ(Variable("t0"), IntImm(0)), kept)


def loop(*body: Stmt) -> Stmt:
    return For("i", IntImm(0), IntImm(3), 1, LoopKind.SERIAL, Block(body))


# Statements, and how many of their reductions wait until the scratch of earlier ones has been read.
ORDERS: dict[str, tuple[list[Stmt], int]] = {
    "one": ([FIRST, done(0)], 0),
    "two": ([FIRST, done(0), RESET, replace(FIRST), done(1)], 0),
    "three": ([FIRST, done(0), RESET, replace(FIRST), done(1), RESET, replace(FIRST)], 0),
    "a barrier between": ([FIRST, done(0), RESET, Sync(), replace(FIRST), done(1)], 0),
    "a barrier of warps": ([loop(FIRST, done(0), RESET, Sync(warp=True))], 1),
    "one of another type": ([FIRST, done(0), RESET, OTHER, replace(FIRST), done(1)], 0),
    "a loop": ([loop(RESET, FIRST, done(0))], 1),
    "a loop with a barrier": ([loop(RESET, FIRST, done(0), Sync())], 0),
    "a loop with a barrier before": ([loop(Sync(), RESET, FIRST, done(0))], 0),
    "after a loop": ([loop(Sync(), RESET, FIRST), done(0), RESET, replace(FIRST), done(1)], 0),
    "some blocks": ([If(EQ(Variable("b0"), IntImm(0)), Block((FIRST, done(0), RESET))), replace(FIRST)], 0),
    "two of a loop": ([loop(RESET, FIRST, done(0), RESET, replace(FIRST), done(1))], 0),
    "three of a loop": ([loop(RESET, FIRST, done(0), RESET, replace(FIRST), RESET, replace(FIRST))], 1),
    "two of a loop, between them another": (
        [loop(RESET, FIRST, done(0), OTHER, RESET, replace(FIRST), done(1))],
        1,
    ),
    "two at once": ([FIRST, OTHER, done(0), RESET, replace(FIRST), replace(OTHER), done(1)], 0),
    "two at once in a loop": ([loop(RESET, FIRST, OTHER, done(0))], 1),
    "one alone, one with another": (
        [FIRST, done(0), RESET, Block((replace(FIRST), Block((OTHER,)))), done(1), RESET, replace(FIRST)],
        0,
    ),
}


@pytest.mark.share(18)
@pytest.mark.parametrize("name", ORDERS)
def test_consecutive_reductions_wait_for_reads_of_scratch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shim finds a race if one does not wait, or if alternating ones use the same area."""
    parts, count = ORDERS[name]
    body = Block((RESET, *parts, done(2)))
    launch = Launch("c", (("b0", IntImm(1)),), (("t0", 96),), body)
    n = LoopNest("f", ("o",), ("o",), (), (OUT, R, Q), (), launch, IntImm(0), ())

    def found() -> tuple[str, int]:
        made = gpu_source.emit(n, CUDA)
        result = Call(n, made, {}, {"o": (3,)}, {}, {}).run(orders=(*simt.ORDERS, 2))
        return made.text, len([f for f in result.found if f.kind is simt.Kind.RACE])

    areas = scratch.scratch(launch, {a.name: a for a in n.arrays}, True)
    assert len(areas.waiting) == count
    text, races = found()
    assert not races
    monkeypatch.setattr(gpu_kernel, "scratch", lambda *_: replace(areas, waiting=frozenset[int]()))
    less, races = found()
    assert text.count("__syncthreads") - less.count("__syncthreads") == count
    assert bool(races) == bool(count)
    if any(areas.of.values()):
        monkeypatch.setattr(
            gpu_kernel,
            "scratch",
            lambda *_: replace(areas, of=dict.fromkeys(areas.of, 0), waiting=frozenset[int]()),
        )
        assert found()[1]


def test_a_reduction_in_two_places_shares_no_barrier() -> None:
    """In one of the places another reduction follows it."""
    body = Block((RESET, FIRST, OTHER, done(0), RESET, FIRST, done(1)))
    launch = Launch("c", (("b0", IntImm(1)),), (("t0", 96),), body)
    n = LoopNest("f", ("o",), ("o",), (), (OUT, R, Q), (), launch, IntImm(0), ())
    made = gpu_source.emit(n, CUDA)
    assert made.text.count("__syncthreads") == 3
    assert not Call(n, made, {}, {"o": (3,)}, {}, {}).run().found
