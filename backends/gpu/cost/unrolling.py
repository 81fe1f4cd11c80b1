"""What nvcc makes of loops: which it unrolls, by how much.

The limits are those that the PTX of NVRTC 12.9 shows for loops of known and of unknown length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tc.ir.expr import Expr, Load, inline_lets, variables, walk
from tc.ir.loops import Array, Block, Combine, Compute, For, If, LoopKind, Promote, Stmt, Sync, statements
from tc.ir.simplify import linear_terms

from .instructions import MULTIPLY_ADD, arithmetic

_WHOLE = 256  # instructions of all iterations together: then no loop is left
_PART = 80  # of as many iterations as are done at once
_UNKNOWN = 4  # iterations at once, if their number is not known
_COUNTER = 3  # instructions that count a loop


@dataclass(frozen=True, slots=True)
class Unrolling:
    """Iterations that are done at once; `whole`: all."""

    factor: int
    whole: bool


def unrolled(s: Stmt, arrays: Mapping[str, Array]) -> dict[int, Unrolling]:
    """For each loop of a statement, by its `id`."""
    out: dict[int, Unrolling] = {}

    def size(s: Stmt, around: Mapping[str, int], guarded: bool) -> float:
        """Instructions, in loops `around` that have been unrolled; a load that is the same in some of their
        iterations is one, unless it is `guarded`."""
        copies = math.prod(around.values())
        match s:
            case Block():
                return sum(size(c, around, guarded) for c in s.body)
            case Promote():
                return size(s.body, around, guarded)
            case If():
                parts = (s.then, s.otherwise) if s.otherwise is not None else (s.then,)
                return 2 * copies + sum(size(c, around, True) for c in parts)
            case For():
                found = out.get(id(s)) or decide(s)
                if found.whole:
                    return size(s.body, {**around, s.var: found.factor}, guarded)
                return copies * (_COUNTER + found.factor * size(s.body, {}, guarded))
            case Compute():
                steps = arithmetic(s.value, s.op, arrays[s.buffer].dtype)
                total = float(copies * sum(n for p, n in steps.items() if p != MULTIPLY_ADD))
                for name, subscripts in _accesses(s):
                    if arrays[name].role != "register":
                        used = {v for e in subscripts for v in variables(e)}
                        times = math.prod(n for v, n in around.items() if guarded or v in used)
                        total += times * (1 if arrays[name].role == "shared" else 2)
                return total
            case _:
                return copies

    def decide(s: For) -> Unrolling:
        n = _length(s)
        if s.kind is LoopKind.UNROLLED and n is not None:
            found = Unrolling(n, True)
        elif s.unroll:
            found = Unrolling(s.unroll if n is None else min(n, s.unroll), n is not None and n <= s.unroll)
        elif any(isinstance(c, (Sync, Combine)) for c in statements(s.body)):
            found = Unrolling(1, False)
        else:
            one = size(s.body, {}, False)
            part = 1 << max(0, int(_PART / max(1.0, one)).bit_length() - 1)
            if n is None:
                found = Unrolling(min(_UNKNOWN, part), False)
            elif n * one <= _WHOLE:
                found = Unrolling(n, True)
            else:
                found = Unrolling(min(n, part), False)
        out[id(s)] = found
        return found

    for c in statements(s):
        if isinstance(c, For) and id(c) not in out:
            decide(c)
    return out


def ahead(s: For, arrays: Mapping[str, Array], how: Mapping[int, Unrolling]) -> int:
    """Loads of the iterations of a loop that are done at once."""

    def loads(s: Stmt, around: Mapping[str, int]) -> int:
        match s:
            case Block():
                return sum(loads(c, around) for c in s.body)
            case Promote():
                return loads(s.body, around)
            case If():
                return loads(s.then, around)
            case For():
                return loads(s.body, {**around, s.var: how[id(s)].factor})
            case Compute():
                total = 0
                for name, subscripts in _accesses(s):
                    if arrays[name].role != "register":
                        used = {v for e in subscripts for v in variables(e)}
                        total += math.prod(n for v, n in around.items() if v in used)
                return total
            case _:
                return 0

    return loads(s, {})


def _length(s: For) -> int | None:
    """How often a loop runs, if that is always the same."""
    low, first = linear_terms(s.lower)
    high, last = linear_terms(s.upper)
    rest = {e: high.get(e, 0) - low.get(e, 0) for e in (*high, *low)}
    return None if any(rest.values()) else max(0, -((first - last) // s.step))


def _accesses(s: Compute) -> Iterable[tuple[str, tuple[Expr, ...]]]:
    loads = (e for v in (s.value, *s.subscripts) for e in walk(inline_lets(v)) if isinstance(e, Load))
    return dict.fromkeys([*((e.buffer, e.subscripts) for e in loads), (s.buffer, s.subscripts)])
