"""Scatters in parts: each part of the instances updates a copy of the tensor, and the copies are combined.

    for n: y[ids[n], d] += x[n, d]   →   parallel for part:
                                           copy[part, s, d] = 0
                                           for n of the part: copy[part, ids[n], d] += x[n, d]
                                         for part: y[s, d] += copy[part, s, d]

The number of parts depends on sizes alone, so that results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tc.ir.expr import ZERO, Add, Expr, IntImm, Load, Max, Min, Mul, Variable, rebuild, variables
from tc.ir.loops import Array, Block, Compute, For, LoopKind, Stmt
from tc.ir.lower import neutral
from tc.ir.program import Op
from tc.ir.simplify import simplify

_MOST = 8  # parts, at most
_WORTH = 8  # updates of an element in each part, on average, that make a copy of the tensor negligible
LINE = 64  # bytes
_OPERATIONS: tuple[tuple[type, Op], ...] = ((Add, "+"), (Mul, "*"), (Min, "min"), (Max, "max"))

# Makes a loop along a row, by the name of its variable, around a statement for so many columns.
Vectors = Callable[[str, int, Compute], Stmt]


@dataclass(frozen=True, slots=True)
class Scatter:
    """`loops` around `body`, which updates `columns` elements by the statement `update`; `row` makes a loop
    along the last dimension."""

    loops: tuple[For, ...]
    body: Stmt
    update: Compute
    columns: int
    row: Vectors


def in_copies(s: Scatter, array: Array, offset: Expr) -> tuple[Stmt, Array, Expr] | None:
    """A scatter in parts, the array of copies, which begins at `offset` of the workspace, and the end of that
    array; None where it does not pay, or the statement is no reduction."""
    loops, c, row = s.loops, s.update, s.row
    op, shape = _operation(c), [e.value for e in array.shape if isinstance(e, IntImm)]
    trips = [_trips(x) for x in loops]
    if op is None or not shape or len(shape) < len(array.shape) or not loops or None in trips:
        return None
    outer, size = loops[0], math.prod(shape)
    count = math.prod(t or 0 for t in trips) * s.columns
    parts = min(_MOST, count // max(1, _WORTH * size), trips[0] or 0)
    if (
        parts < 2
        or outer.lower != ZERO
        or any(outer.var in variables(x.lower) | variables(x.upper) for x in loops)
    ):
        return None
    part, name = f"{outer.var}_part", f"{array.name}.copies"
    copies = replace(
        array,
        name=name,
        shape=(IntImm(parts), *array.shape),
        role="temporary",
        offset=offset,
        lower=(ZERO, *array.lower) if array.lower else (),
        copies=True,
        nontemporal=False,
        line_aligned=False,
    )
    elements = tuple(Variable(f"{part}_{i}") for i in range(len(shape)))
    start = Compute(
        f"{c.stage}.copies", name, (Variable(part), *elements), None, neutral(op, array.dtype), (), c.text
    )
    chunk = -(-(trips[0] or 0) // parts)
    low = Mul(IntImm(chunk), Variable(part))
    update = _in_copy(s.body, c, name, Variable(part))
    for x in reversed(loops[1:]):
        update = replace(x, body=update)
    update = replace(outer, lower=low, upper=Min(Add(low, IntImm(chunk)), outer.upper), body=update)
    whole = Block((_over(shape, elements, start, row), update))
    own, other = Load(array.name, elements, array.dtype), Load(name, (Variable(part), *elements), array.dtype)
    combined = {o: t for t, o in _OPERATIONS}[op](own, other)
    end = Compute(f"{c.stage}.copies", array.name, elements, None, combined, (), c.text)
    both = Block(
        (
            For(part, ZERO, IntImm(parts), 1, LoopKind.PARALLEL, whole),
            For(part, ZERO, IntImm(parts), 1, LoopKind.SERIAL, _over(shape, elements, end, row)),
        )
    )
    bytes_ = -(-parts * size * array.dtype.itemsize // LINE) * LINE
    return both, copies, simplify(Add(offset, IntImm(bytes_)), exact=True)


def _operation(c: Compute) -> Op | None:
    """The operation by which a statement updates its element; None if it is no update."""
    for kind, op in _OPERATIONS:
        if c.op is None and type(c.value) is kind and _is_own(c.value.a, c):  # type: ignore[union-attr]
            return op
    return None


def _is_own(e: Expr, c: Compute) -> bool:
    return isinstance(e, Load) and e.buffer == c.buffer and e.subscripts == c.subscripts


def _trips(s: For) -> int | None:
    if not isinstance(s.lower, IntImm) or not isinstance(s.upper, IntImm) or s.step != 1:
        return None
    return max(0, s.upper.value - s.lower.value)


def _over(shape: list[int], elements: tuple[Variable, ...], c: Compute, row: Vectors) -> Stmt:
    """A statement for each element of a copy."""
    out = row(elements[-1].name, shape[-1], c)
    for v, n in zip(reversed(elements[:-1]), reversed(shape[:-1]), strict=True):
        out = For(v.name, ZERO, IntImm(n), 1, LoopKind.SERIAL, out)
    return out


def _in_copy(s: Stmt, c: Compute, name: str, part: Variable) -> Stmt:
    """The update of an element as that of a copy."""

    def of(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == c.buffer:
            checked = tuple(d + 1 for d in e.checked)
            return replace(e, buffer=name, subscripts=(part, *map(of, e.subscripts)), checked=checked)
        return rebuild(e, of)

    match s:
        case Block():
            return replace(s, body=tuple(_in_copy(x, c, name, part) for x in s.body))
        case For():
            return replace(s, body=_in_copy(s.body, c, name, part))
        case Compute():
            return replace(s, buffer=name, subscripts=(part, *s.subscripts), value=of(s.value))
        case _:
            raise AssertionError(s)
