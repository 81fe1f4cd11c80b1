"""Copies that run ahead of their use, and copies of vectors."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tc
from tc.errors import InternalError
from tc.ir.expr import Add, IfThenElse, IntImm
from tc.ir.loops import (
    Block,
    Compute,
    LoopNest,
    Stmt,
    Sync,
    statements,
)
from tc.ir.program import Program
from tc.poly import trace
from tc.poly.gpu.mapping import AxisMap, NestMap, RegionMap
from tests.poly import fused
from tests.poly.promoted import GEMM
from tests.poly.test_mapping import changed, launched, polyhedra


def double_buffered(blocks: int = 2, k: int = 13) -> tuple[Program, LoopNest]:
    """A matrix product with double-buffered tiles, of 2 x 2 tiles on so many blocks in each dimension."""
    p, s, regions = polyhedra(fused.GEMM, M=5, N=9, K=k)
    axes = {"i_0": AxisMap(4, "b0", blocks, "t1", 2), "j_1": AxisMap(8, "b1", blocks, "t0", 4)}
    mapping = RegionMap(
        (("b0", IntImm(blocks)), ("b1", IntImm(blocks))),
        (("t0", 4), ("t1", 2)),
        (NestMap(axes, ({}, {"k_2": AxisMap(4)})),),
    )
    return p, launched(p, s, regions, [mapping], 4096, ahead=True)


def test_double_buffered_copies_are_asynchronous() -> None:
    """There is one barrier in a tile, which waits for the copies."""
    p, n = double_buffered()
    trace.verify(p, n, {})
    found = [x for x in statements(n.body) if isinstance(x, Sync)]
    assert [x.copies for x in found] == [True]
    copies = [x for x in statements(n.body) if isinstance(x, Compute) and x.asynchronous]
    assert len(copies) == 4 and all(x.op is None and not x.stage for x in copies)
    buffers = {a.name: a for a in n.arrays if a.role == "shared"}
    assert {x.buffer for x in copies} == set(buffers)
    assert all(a.shape[0] == IntImm(2) for a in buffers.values())


def test_double_buffered_copies_of_several_tiles_wait() -> None:
    p, n = double_buffered(1, 11)  # the first and the last of three tiles have the same buffer
    trace.verify(p, n, {})
    assert [x.copies for x in statements(n.body) if isinstance(x, Sync)] == [True, False]
    (broken,) = changed(n.body, lambda x: Block(()) if isinstance(x, Sync) and not x.copies else None)
    with pytest.raises(InternalError, match="while it is being copied"):
        trace.verify(p, replace(n, body=broken), {})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda x: Sync() if isinstance(x, Sync) and x.copies else None, "while it is being copied"),
        (lambda x: Block(()) if isinstance(x, Sync) and x.copies else None, "being copied|another thread"),
        (
            lambda x: replace(x, subscripts=(IntImm(0), *x.subscripts[1:])) if moving(x) else None,
            "being copied|another thread|reads",
        ),
        (lambda x: Block(()) if moving(x) else None, "reads|does not read"),
    ],
)
def test_faults_of_double_buffering_are_found(change: object, problem: str) -> None:
    p, n = double_buffered()
    broken = list(changed(n.body, change))
    assert broken
    for body in broken:
        with pytest.raises(InternalError, match=problem):
            trace.verify(p, replace(n, body=body), {})


def moving(x: Stmt) -> bool:
    """A copy of the next tile."""
    return isinstance(x, Compute) and x.asynchronous and not isinstance(x.subscripts[0], IntImm)


def vectors(ahead: bool) -> tuple[Program, LoopNest]:
    """A matrix product whose operands are copied as vectors, one of them in partial tiles."""
    p, s, regions = polyhedra(fused.GEMM, M=5, N=12, K=16)
    axes = {"i_0": AxisMap(4, "b0", 2, "t1", 2), "j_1": AxisMap(8, "b1", 2, "t0", 4)}
    mapping = RegionMap(
        (("b0", IntImm(2)), ("b1", IntImm(2))),
        (("t0", 4), ("t1", 2)),
        (NestMap(axes, ({}, {"k_2": AxisMap(8)})),),
    )
    return p, launched(p, s, regions, [mapping], 4096, ahead=ahead)


def vector(x: Stmt) -> bool:
    return isinstance(x, Compute) and x.width > 1


def next_element(x: Compute, n: int) -> Compute:
    """A copy whose target is so many elements further on."""
    *before, last = x.subscripts
    return replace(x, subscripts=(*before, Add(last, IntImm(n))))


@pytest.mark.parametrize("ahead", [False, True])
def test_vector_copies_are_correct(ahead: bool) -> None:
    p, n = vectors(ahead)
    trace.verify(p, n, {})
    assert {x.width for x in statements(n.body) if isinstance(x, Compute) and vector(x)} == {4}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda x: next_element(x, 1) if vector(x) else None, "not aligned"),
        (lambda x: next_element(x, 4) if vector(x) else None, "accesses|reads"),
        (lambda x: replace(x, width=8) if vector(x) else None, "accesses|not aligned|another thread"),
        (lambda x: replace(x, width=2) if vector(x) else None, "reads|does not read"),
        (
            lambda x: (
                replace(x, value=x.value.then_value)
                if vector(x) and isinstance(x.value, IfThenElse)
                else None
            ),
            "accesses",
        ),
    ],
)
def test_faults_of_vector_copies_are_found(change: object, problem: str) -> None:
    p, n = vectors(False)
    broken = list(changed(n.body, change))
    assert broken
    for body in broken:
        with pytest.raises(InternalError, match=problem):
            trace.verify(p, replace(n, body=body), {})


@pytest.mark.share(18)
@pytest.mark.parametrize("dtype", ["float", "double", "int32", "half", "int8"])
@pytest.mark.parametrize("k", [1024, 1023])
def test_only_supported_sizes_are_copied_asynchronously(dtype: str, k: int) -> None:
    """Double buffering is among the candidates; small elements need vector copies."""
    source = GEMM.replace("float", dtype)
    options = {"tile": (16, 16), "threads": (16, 16)}
    sizes = {"M": 64, "N": 64, "K": k}  # with few blocks latency binds
    looked_at = tc.compile(source, "cuda", options=options).inspect("choice", **sizes)
    assert ("copies ahead" in looked_at) == (k == 1024 or dtype in ("float", "double", "int32"))
    assert "copies ahead" not in tc.compile(source, "opencl", options=options).inspect("choice", **sizes)
