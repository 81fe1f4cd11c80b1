"""Programs with fixed mappings, for tests of mapped code that do not depend on the search."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tc
from tc.codegen import gpu_source
from tc.codegen.dialect import CUDA
from tc.ir.expr import IntImm
from tc.lang import resolved as r
from tc.poly.gpu.mapping import AxisMap, NestMap, RegionMap
from tc.runtime.arrays import numpy_dtype
from tests.poly import fused
from tests.poly.test_mapping import launched, polyhedra
from tests.simt.mapped import Array, Call

SUM = "def f(float(N,K) A) -> (S) { S(n) +=! A(n,k) }"
EDGES = "def f(float(K,M) A, float(K,N) B) -> (C) { C(i,j) +=! A(k,i) * B(k,j) }"
GATHER = "def f(float(N) A, int(M) I) -> (O) { O(i) = A(I(i)) }"


@dataclass(frozen=True)
class Program:
    """Statements of one nest: `axes` are the maps of its axes, `own` those of the axes that a phase has.
    `blocks` and `threads`: how many values the variables b0 ... and t0 ... have; `private`: whether threads
    keep what they work on in registers."""

    source: str
    sizes: Mapping[str, int]
    blocks: Sequence[int]
    threads: Sequence[int]
    axes: Sequence[AxisMap]
    own: Sequence[AxisMap] = ()
    shared: int = 0  # bytes of shared memory
    private: bool = True

    def call(self) -> Call:
        """The kernel and its arguments, small integers other than 0, which would hide errors of factors."""
        program, scop, (region,) = polyhedra(self.source, "max", **self.sizes)
        (nest,) = region.nests
        phases = [{a.name: m for a, m in zip(p.axes, self.own, strict=False)} for p in nest.phases]
        axes = {a.name: m for a, m in zip(nest.axes, self.axes, strict=True)}
        how = RegionMap(
            tuple((f"b{i}", IntImm(n)) for i, n in enumerate(self.blocks)),
            tuple((f"t{i}", n) for i, n in enumerate(self.threads)),
            (NestMap(axes, tuple(phases)),),
        )
        loops = launched(program, scop, (region,), [how], self.shared, private=self.private)
        shapes = {a.name: tuple(n.value for n in a.shape if isinstance(n, IntImm)) for a in loops.arrays}
        return Call(loops, gpu_source.emit(loops, CUDA), {}, shapes, self.arguments(), {})

    def arguments(self) -> dict[str, Any]:
        front = tc.compile(self.source, "reference").front
        rng = np.random.default_rng(0)
        given: dict[str, Any] = {}
        for x in front.checked.params:
            assert isinstance(x, r.Tensor) and x.dims is not None
            shape = [self.sizes[d.name] for d in x.dims if isinstance(d, r.Size)]
            given[x.name] = rng.integers(1, 5, shape).astype(numpy_dtype(front.typed.dtype(x)))
        return given

    def wanted(self) -> tuple[Array, ...]:
        found = tc.interpret(self.source, entry=None, **self.arguments())
        return tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))


def row(threads: int, more: int = 1, tile: int = 0, blocks: int = 1) -> dict[str, Any]:
    """Rows with so many threads each; `more`: the rows that a block reduces at a time, of `tile` rows."""
    return {
        "blocks": (blocks,),
        "threads": (threads, more),
        "axes": (AxisMap(tile or more, "b0", blocks, "t1", more),),
        "own": (AxisMap(0, None, 1, "t0", threads),),
    }


def product(
    tile: tuple[int, int], threads: tuple[int, int], blocks: tuple[int, int], shared: int = 1 << 15
) -> dict[str, Any]:
    """A matrix product with tiles of so many columns and rows, and 32 steps of the reduction, in shared
    memory."""
    return {
        "blocks": blocks,
        "threads": threads,
        "axes": tuple(AxisMap(tile[i], f"b{i}", blocks[i], f"t{i}", threads[i]) for i in (1, 0)),
        "own": (AxisMap(32),),
        "shared": shared,
    }


# No size is a multiple of its tile, and the reductions of `gemm` and `syrk` have two tiles.  Of `vectors` all
# rows are copied as vectors, of `edges` those of one array, which end within a tile; the result of `rows` is
# in shared memory until its tile is done.
PROGRAMS = {
    "vectors": Program(fused.GEMM, {"M": 21, "N": 24, "K": 64}, **product((8, 8), (4, 4), (3, 3))),
    "rows": Program(fused.SOFTMAX, {"N": 6, "D": 70}, **row(4, 4, 4, 2), shared=1 << 14),
    "edges": Program(EDGES, {"M": 21, "N": 20, "K": 40}, **product((8, 8), (4, 4), (3, 3))),
    "gemm": Program(fused.GEMM, {"M": 21, "N": 19, "K": 40}, **product((8, 8), (4, 4), (3, 3))),
    "syrk": Program(fused.SYRK, {"N": 21, "K": 40}, **product((8, 8), (4, 4), (3, 3))),
    "softmax": Program(fused.SOFTMAX, {"N": 3, "D": 70}, **row(16, 4)),
    "in memory": Program(fused.SOFTMAX, {"N": 3, "D": 70}, **row(16, 4), private=False),
    "tree": Program(SUM, {"N": 3, "K": 55}, **row(36, 2)),
    "in a row": Program(SUM, {"N": 3, "K": 55}, **row(12, 4)),
    "shuffles": Program(SUM, {"N": 3, "K": 55}, **row(8, 4)),
    "strays": Program(GATHER, {"N": 3, "M": 40}, (2,), (32,), (AxisMap(32, "b0", 2, "t0", 32),)),
}


@functools.cache
def right(name: str) -> tuple[Call, tuple[Array, ...] | None]:
    """The results of a mapped program; None if one of its checks fails."""
    call = PROGRAMS[name].call()
    try:
        return call, PROGRAMS[name].wanted()
    except tc.BoundsError:
        return call, None


def same(got: Mapping[str, Array], wanted: Sequence[Array]) -> bool:
    return all(np.allclose(g, w, rtol=1e-5) for g, w in zip(got.values(), wanted, strict=True))
