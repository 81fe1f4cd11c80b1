"""Uniform control flow around collective statements: barriers, combinations and cooperative copies.

isl hoists the conditions that the parts of a sequence have in common.  Where only some blocks reach a
barrier, that may be a condition on threads: it holds for all threads of these blocks, but the code does not
show it, and compilers for GPUs must not have to prove it.  Such conditions are sunk to statements of single
threads.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace

from tc.ir.expr import Expr, Not, variables
from tc.ir.loops import Block, Combine, Compute, For, If, Stmt, Sync, statements
from tc.ir.simplify import conjunction, simplify
from tc.poly.ast import block


def sunk(body: Stmt, threads: AbstractSet[str], common: AbstractSet[str]) -> Stmt:
    """The body of a launch with its conditions on `threads` sunk past collective statements: barriers,
    combinations and writes to the arrays `common`, which are copies in shared memory and partial results."""

    def collective(s: Stmt) -> bool:
        return isinstance(s, Sync | Combine) or (
            isinstance(s, Compute) and not s.stage and s.op is None and s.buffer in common
        )

    return _sunk(body, (), threads, lambda s: any(map(collective, statements(s))))


def _sunk(
    s: Stmt, conditions: tuple[Expr, ...], threads: AbstractSet[str], is_collective: Callable[[Stmt], bool]
) -> Stmt:
    """`s` under these conditions, each of which differs between threads."""
    if not is_collective(s):
        return If(simplify(conjunction(list(conditions)), exact=True), s) if conditions else s
    match s:
        case Block():
            parts: list[Stmt] = []
            separate: list[Stmt] = []
            for c in s.body:
                if is_collective(c):
                    parts += [_sunk(block(separate), conditions, threads, is_collective)] if separate else []
                    separate = []
                    parts.append(_sunk(c, conditions, threads, is_collective))
                else:
                    separate.append(c)
            parts += [_sunk(block(separate), conditions, threads, is_collective)] if separate else []
            return block(parts)
        case For():
            differs = not threads.isdisjoint(variables(s.lower) | variables(s.upper))
            inner = threads | frozenset([s.var]) if differs else threads
            return replace(s, body=_sunk(s.body, conditions, inner, is_collective))
        case If() if variables(s.condition) & threads:
            parts = [_sunk(s.then, (*conditions, s.condition), threads, is_collective)]
            if s.otherwise is not None:
                parts.append(_sunk(s.otherwise, (*conditions, Not(s.condition)), threads, is_collective))
            return block(parts)
        case If():
            then = _sunk(s.then, conditions, threads, is_collective)
            other = s.otherwise and _sunk(s.otherwise, conditions, threads, is_collective)
            return If(s.condition, then, other)
        case _:
            return s
