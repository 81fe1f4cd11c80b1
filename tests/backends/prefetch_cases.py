"""A machine for tests of software prefetches, and what loops prefetch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import tc
from tc.ir.evaluate import evaluate
from tc.ir.expr import Expr, Load, walk
from tc.ir.loops import Block, Compute, For, If, LoopKind, LoopNest, Prefetch, Promote, Stmt
from tests.backends.cpu_cases import backend

ADD = "def add(float(M,N) A, float(M,N) B) -> (C) { C(i,j) = A(i,j) + B(i,j) }"

tc.compile(ADD, "cpu")
AVX512 = sys.modules["tc_backends.cpu.isa"].AVX512

MACHINE: dict[str, Any] = {
    "cores": 2,
    "l1": 32 << 10,
    "l1_ways": 8,
    "l3": 32 << 20,
    "fma_units": 1,
    "loads": 1,
    "l2_bandwidth": 26.0,
    "scattered_store_penalty": 0.0,
    "unprefetched_row_penalty": 0.0,
    "page_stride_penalty": 0.0,
    "conflict_miss_factor": 4.0,
    "prefetch_rereads": 1,
    "prefetch_blocks": 1,
    "stream_prefetch": 0,
}


def lowered(source: str, l2: int = 8 << 10, **sizes: int) -> Any:
    """A program lowered for this machine with other instructions, whose second cache holds `l2` bytes: a few
    rows."""
    program = tc.compile(source, "cpu").program(sizes)
    machine = replace(backend.host(), isa=AVX512, l2=l2, **MACHINE)
    return backend.code_of(program, machine, tc.Options())


def substatements(s: Stmt) -> Iterator[Stmt]:
    yield s
    for c in s.body if isinstance(s, Block) else [getattr(s, "body", None), getattr(s, "then", None)]:
        if c is not None:
            yield from substatements(c)


def prefetches(nest: LoopNest) -> list[Prefetch]:
    return [s for s in substatements(nest.body) if isinstance(s, Prefetch)]


def events(s: Stmt, env: dict[str, int]) -> Iterator[tuple[bool, str, tuple[int, ...]]]:
    """(is a prefetch, buffer, subscripts) of the elements that are prefetched and read, in order."""

    def at(subscripts: tuple[Expr, ...]) -> tuple[int, ...]:
        return tuple(evaluate(e, env) for e in subscripts)

    match s:
        case Block():
            for c in s.body:
                yield from events(c, env)
        case For():
            low, high = evaluate(s.lower, env), evaluate(s.upper, env)
            if s.kind is LoopKind.VECTOR:  # lanes run along the filters and read the same pixel
                high = low + 1
            for i in range(low, high, s.step):
                yield from events(s.body, {**env, s.var: i})
        case Promote():
            yield from events(s.body, env)
        case If():
            if evaluate(s.condition, env):
                yield from events(s.then, env)
        case Compute():
            for e in walk(s.value):
                if isinstance(e, Load):
                    yield False, e.buffer, at(e.subscripts)
        case Prefetch():
            yield True, s.buffer, at(s.subscripts)
        case _:
            raise AssertionError(s)
