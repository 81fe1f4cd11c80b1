"""Launches written by hand, for tests of the cost model of GPUs."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tc import registry
from tc.dtypes import FLOAT32, DType
from tc.ir.expr import (
    LT,
    Add,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Load,
    Mul,
    Variable,
)
from tc.ir.loops import (
    Array,
    Block,
    Compute,
    For,
    If,
    Launch,
    LoopKind,
    LoopNest,
    Stmt,
    Sync,
)

registry.load("cuda")
model = importlib.import_module("tc_backends.gpu.cost.model")
warps = importlib.import_module("tc_backends.gpu.cost.warps")
sampling = importlib.import_module("tc_backends.gpu.cost.sampling")
lanes = importlib.import_module("tc_backends.gpu.cost.lanes")
traffic = importlib.import_module("tc_backends.gpu.cost.traffic")
unrolling = importlib.import_module("tc_backends.gpu.cost.unrolling")
instructions = importlib.import_module("tc_backends.gpu.cost.instructions")
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
    return model.predict(n, n.body, on, **given)


def accesses(n: LoopNest, name: str, *, store: bool = False) -> list[Any]:
    return [a for a in predicted(n).work.accesses if (a.buffer, a.store) == (name, store)]


def copied(subscripts: Sequence[Expr | int], shape: Sequence[int], dtype: DType = FLOAT32) -> Any:
    """The read of a warp that copies A[subscripts] to contiguous elements."""
    arrays = [array("A", "input", *shape, dtype=dtype), array("O", "output", 32, dtype=dtype)]
    (a,) = accesses(nest(arrays, launch(put("O", [T], load("A", *subscripts, dtype=dtype)))), "A")
    return a


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
