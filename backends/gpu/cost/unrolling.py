"""Which loops nvcc unrolls, and by which factors.

The limits are those that the PTX of NVRTC 12.9 shows for loops of constant and of unknown trip count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tc.ir.expr import Expr, Load, inline_lets, variables, walk
from tc.ir.loops import Array, Block, Combine, Compute, For, If, LoopKind, Promote, Stmt, Sync, statements
from tc.ir.simplify import linear_terms

from .instructions import CHECK, MULTIPLY_ADD, arithmetic

_FULL_UNROLL_SIZE = 256  # instructions of all iterations, up to which no loop is left
_PARTIAL_UNROLL_SIZE = 80  # instructions of an unrolled body
_RUNTIME_UNROLL_FACTOR = 4  # where the trip count is not constant
LOOP_INSTRUCTIONS = 3  # an increment, a comparison, a branch


@dataclass(frozen=True, slots=True)
class Unrolling:
    """The unroll factor of a loop; `full`: it is the trip count, and no loop is left."""

    factor: int
    full: bool


def unrollings(s: Stmt, arrays: Mapping[str, Array]) -> dict[int, Unrolling]:
    """The unrolling of each loop of a statement, by the loop's `id`."""
    out: dict[int, Unrolling] = {}

    def size(s: Stmt, enclosing: Mapping[str, int], guarded: bool) -> float:
        """Instructions of a statement in unrolled loops, `enclosing` by variable and factor; a load that is
        the same in some of their iterations counts once, unless it is `guarded` by a condition."""
        copies = math.prod(enclosing.values())
        match s:
            case Block():
                return sum(size(c, enclosing, guarded) for c in s.body)
            case Promote():
                return size(s.body, enclosing, guarded)
            case If():
                parts = (s.then, s.otherwise) if s.otherwise is not None else (s.then,)
                return 2 * copies + sum(size(c, enclosing, True) for c in parts)
            case For():
                found = out.get(id(s)) or choose(s)
                if found.full:
                    return size(s.body, {**enclosing, s.var: found.factor}, guarded)
                return copies * (LOOP_INSTRUCTIONS + found.factor * size(s.body, {}, guarded))
            case Compute():
                steps = arithmetic(s.value, s.op, arrays[s.buffer].dtype)
                total = float(copies * sum(n for p, n in steps.items() if p != MULTIPLY_ADD))
                for name, subscripts in _accesses(s):
                    if arrays[name].role != "register":
                        used = {v for e in subscripts for v in variables(e)}
                        times = math.prod(n for v, n in enclosing.items() if guarded or v in used)
                        total += times * (1 if arrays[name].role == "shared" else 2)
                for i in {e.subscripts[d] for e in _loads(s) for d in e.checked}:
                    used = variables(i)
                    total += CHECK * math.prod(n for v, n in enclosing.items() if guarded or v in used)
                return total
            case _:
                return copies

    def choose(s: For) -> Unrolling:
        n = _trip_count(s)
        if s.kind is LoopKind.UNROLLED and n is not None:
            found = Unrolling(n, True)
        elif s.unroll:
            found = Unrolling(s.unroll if n is None else min(n, s.unroll), n is not None and n <= s.unroll)
        elif any(isinstance(c, (Sync, Combine)) for c in statements(s.body)):
            found = Unrolling(1, False)
        else:
            one = size(s.body, {}, False)
            partial = 1 << max(0, int(_PARTIAL_UNROLL_SIZE / max(1.0, one)).bit_length() - 1)
            if n is None:
                found = Unrolling(min(_RUNTIME_UNROLL_FACTOR, partial), False)
            elif n * one <= _FULL_UNROLL_SIZE:
                found = Unrolling(n, True)
            else:
                found = Unrolling(min(n, partial), False)
        out[id(s)] = found
        return found

    for c in statements(s):
        if isinstance(c, For) and id(c) not in out:
            choose(c)
    return out


def loads_in_flight(s: For, arrays: Mapping[str, Array], unrolled: Mapping[int, Unrolling]) -> int:
    """Loads in an unrolled body of a loop, which are all in flight before one of them is used."""

    def loads(s: Stmt, enclosing: Mapping[str, int]) -> int:
        match s:
            case Block():
                return sum(loads(c, enclosing) for c in s.body)
            case Promote():
                return loads(s.body, enclosing)
            case If():
                return loads(s.then, enclosing)
            case For():
                return loads(s.body, {**enclosing, s.var: unrolled[id(s)].factor})
            case Compute():
                total = 0
                for name, subscripts in _accesses(s):
                    if arrays[name].role != "register":
                        used = {v for e in subscripts for v in variables(e)}
                        total += math.prod(n for v, n in enclosing.items() if v in used)
                return total
            case _:
                return 0

    return loads(s, {})


def _trip_count(s: For) -> int | None:
    """The trip count of a loop, if it is constant."""
    low, first = linear_terms(s.lower)
    high, last = linear_terms(s.upper)
    rest = {e: high.get(e, 0) - low.get(e, 0) for e in (*high, *low)}
    return None if any(rest.values()) else max(0, -((first - last) // s.step))


def _accesses(s: Compute) -> Iterable[tuple[str, tuple[Expr, ...]]]:
    return dict.fromkeys([*((e.buffer, e.subscripts) for e in _loads(s)), (s.buffer, s.subscripts)])


def _loads(s: Compute) -> Iterator[Load]:
    return (e for v in (s.value, *s.subscripts) for e in walk(inline_lets(v)) if isinstance(e, Load))
