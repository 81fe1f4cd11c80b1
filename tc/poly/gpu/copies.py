"""Cooperative copies to shared memory by all threads of a block, coalesced: consecutive threads copy
contiguous elements, or vectors of them where alignment is proved (vectors.py).

Elements of a footprint outside of its array are set to 0; no instance uses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from tc.ir.expr import (
    GE,
    LT,
    Add,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Load,
    Mul,
    Sub,
    Variable,
    imm,
    rebuild,
)
from tc.ir.loops import Compute, For, If, LoopKind, Stmt
from tc.ir.program import Box, Range
from tc.ir.simplify import conjunction, simplify
from tc.poly.gpu.local import Local
from tc.poly.gpu.shared import Dimension, Shared

_MIN_LANES = 8  # consecutive threads that copy single elements: whole sectors of memory
_MAX_EXTRA_ITERATIONS = 4  # over a row, beyond the minimum
_COPY_INSTRUCTIONS, _DIVISION_INSTRUCTIONS = 6, 8  # a division and a remainder by constants
_UNROLLED = 8  # copies of a thread, at most, that are unrolled by default
_MAX_UNROLLED = 64  # if options ask for unrolling: for 128, NVRTC takes 20 s and uses 255 registers


def copy(
    x: Shared,
    starts: Mapping[str, Expr],
    threads: Sequence[tuple[str, int]],
    name: str,
    slot: Expr | None = None,
    unroll: bool | None = None,
) -> Stmt:
    """The copy of a footprint by all threads of a block; `starts` are the first points of tiles, by axis;
    `slot` is the tile's buffer in double buffering, to which copies are asynchronous;
    `name` names the loop over rows, and with `_` that over a row;
    `unroll`: whether these are unrolled (None: if they are short)."""
    width = x.rows.width
    element, over = _distributed_elements([d.size for d in x.dimensions], width, threads, name, unroll)
    box = list(x.buffer.box)
    point: tuple[Expr, ...] = ()
    if x.indirect is None:
        source, tests = _source(x.dimensions, element, box, starts)
        value: Expr = Load(x.buffer.name, tuple(source), x.buffer.dtype)
    else:
        how, i = x.indirect, x.indirect.position
        n = len(how.index.dimensions)
        box[i : i + 1] = how.index.buffer.box
        source, tests = _source(x.dimensions, element, box, starts)
        index = Load(how.index.array.name, tuple(element[i : i + n]), how.index.array.dtype)
        at = Sub(_with_index(how.subscript, index), x.buffer.box[i].min)
        source[i : i + n] = [simplify(at, exact=True)]
        value = Load(x.buffer.name, tuple(source), x.buffer.dtype, how.call.checked, how.call.site)
        point = tuple(_position(x, axis, first, element, starts) for axis, first in how.point)
    if x.array.dtype != x.buffer.dtype:
        value = Cast(x.array.dtype, value)
    if tests:
        value = IfThenElse(conjunction(tests), value, imm(0, x.array.dtype))
    place = element if slot is None else [slot, *element]
    text = f"{x.buffer.name} to shared memory"
    return over(Compute("", x.array.name, tuple(place), None, value, point, text, slot is not None, width))


def store(
    x: Local, box: Box, starts: Mapping[str, Expr], threads: Sequence[tuple[str, int]], name: str
) -> Stmt:
    """The store of a tile's part of a result to global memory by all threads of a block."""
    element, over = _distributed_elements([d.size for d in x.stored], 1, threads, name, None)
    place, tests = _source(x.stored, element, box, starts)
    value = Load(x.array.name, tuple(element), x.array.dtype)
    stored = Compute("", x.buffer, tuple(place), None, value, (), f"{x.buffer} from shared memory")
    return over(If(conjunction(tests), stored) if tests else stored)


def movers(x: Local, threads: Sequence[tuple[str, int]]) -> str:
    """The thread that moves each element of an array in `store`, as text for isl: a map from the element
    `place[d0, d1, ...]` to the values of the thread variables."""
    shape = [d.size for d in x.stored]
    names = [f"d{i}" for i in range(len(shape))]
    count = math.prod(n for _, n in threads)
    dist = _distribute(shape, 1, threads)
    number = f"{dist.lanes} * (({_line(names, shape, dist.line, dist.row)}) mod {count // dist.lanes})"
    number += f" + (({_line(names, shape, dist.row, len(shape))}) mod {dist.lanes})"
    values: list[str] = []
    before = 1
    for _, n in threads:
        values.append(f"(floor(({number})/{before})) mod {n}")
        before *= n
    return f"{{ place[{', '.join(names)}] -> [{', '.join(values)}] }}"


def _line(names: Sequence[str], shape: Sequence[int], first: int, end: int) -> str:
    """The linearised index of an element in some dimensions."""
    terms = [f"{math.prod(shape[i + 1 : end])} * {names[i]}" for i in range(first, end)]
    return " + ".join(terms) or "0"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of a box over threads: groups of `lanes` threads move a row each, which is the
    dimensions from `row` on.  The dimensions from `line` to `row` are distributed over groups; those before
    are loops, in which addresses only advance."""

    line: int
    row: int
    lanes: int


def _distributed_elements(
    sizes: Sequence[int], width: int, threads: Sequence[tuple[str, int]], name: str, unroll: bool | None
) -> tuple[list[Expr], Callable[[Stmt], Stmt]]:
    """The element of a box, of `width` elements in a vector, that a thread copies, and a function that puts
    the loops around the copy."""
    shape = [*sizes[:-1], sizes[-1] // width]
    count = math.prod(n for _, n in threads)
    dist = _distribute(shape, width, threads)
    groups = count // dist.lanes
    lane, line = _lanes_and_lines(threads, dist.lanes)
    lines, row = math.prod(shape[dist.line : dist.row]), math.prod(shape[dist.row :])
    number, over_lines = _rounds(name, line, lines, groups, unroll)
    inside, over_row = _rounds(f"{name}_", lane, row, dist.lanes, unroll)
    outer = [_rounds(f"{name}_{i}", IntImm(0), n, 1, unroll) for i, n in enumerate(shape[: dist.line])]
    element = [e for e, _ in outer]
    element += [*_decoded(number, shape[dist.line : dist.row]), *_decoded(inside, shape[dist.row :])]
    element[-1] = Mul(element[-1], IntImm(width))

    def over(s: Stmt) -> Stmt:
        for _, loop in reversed(outer):
            s = loop(s)
        return over_lines(over_row(s))

    return [simplify(e, exact=True) for e in element], over


def _distribute(shape: Sequence[int], width: int, threads: Sequence[tuple[str, int]]) -> Distribution:
    """The cheapest distribution of a box of vectors."""
    count = math.prod(n for _, n in threads)
    return min(_distributions(shape, count, width), key=lambda d: _instructions(d, shape, count))


def _distributions(shape: Sequence[int], threads: int, width: int) -> Iterator[Distribution]:
    """Candidate distributions of a box of vectors in which consecutive threads copy contiguous vectors."""
    least = _MIN_LANES if width == 1 else 2
    for row in range(len(shape)):
        size = math.prod(shape[row:])
        fewest = -(-size // threads)
        for rounds in range(fewest, fewest + _MAX_EXTRA_ITERATIONS):
            lanes = -(-size // rounds)
            if rounds > fewest and lanes < min(size, least):
                break
            whole = next(n for n in range(lanes, threads + 1) if threads % n == 0)
            yield from (Distribution(line, row, whole) for line in range(row + 1))


def _instructions(dist: Distribution, shape: Sequence[int], threads: int) -> tuple[float, int]:
    """Approximate instructions of a thread, and the number of idle lanes.

    Subscripts of the dimensions that are distributed over groups are computed for each element, others once.
    """
    line, row = shape[dist.line : dist.row], shape[dist.row :]
    groups = threads // dist.lanes
    lines, rounds = -(-math.prod(line) // groups), -(-math.prod(row) // dist.lanes)
    outer = math.prod(shape[: dist.line])
    divided = [_DIVISION_INSTRUCTIONS * max(0, sum(n > 1 for n in x) - 1) for x in (line, row)]
    each = lines * divided[0] + (lines * rounds if rounds > 1 else 1) * divided[1]
    loops = sum(n > _UNROLLED for n in (lines, rounds, *shape[: dist.line]))
    idle = threads - groups * min(dist.lanes, math.prod(row))
    return lines * rounds * outer * (_COPY_INSTRUCTIONS + loops) + each, idle


def _rounds(
    name: str, first: Expr, count: int, threads: int, unroll: bool | None
) -> tuple[Expr, Callable[[Stmt], Stmt]]:
    """The item of `count` that a thread processes, `first` and then each `threads` further, and the loop over
    them with the variable `name`.

    The loop is unrolled if `unroll` (by the compiler where trip counts differ between threads); with None if
    trip counts are equal and small.
    """
    rounds, rest = -(-count // threads), count % threads
    if rounds == 1 and not rest:
        return first, lambda s: s
    few = rounds <= _UNROLLED if unroll is None else unroll and rounds <= _MAX_UNROLLED
    if rest or not few:
        factor = 1 if unroll is False else rounds if unroll and few else 0
        return Variable(name), lambda s: For(
            name, first, IntImm(count), threads, LoopKind.SERIAL, s, unroll=factor
        )
    each = Add(first, Mul(IntImm(threads), Variable(name)))
    return each, lambda s: For(name, IntImm(0), IntImm(rounds), 1, LoopKind.UNROLLED, s)


def _source(
    dimensions: Sequence[Dimension], element: Sequence[Expr], box: Sequence[Range], starts: Mapping[str, Expr]
) -> tuple[list[Expr], list[Expr]]:
    """The source subscripts of an element of a footprint, and the conditions for it to be in the array."""
    source: list[Expr] = []
    tests: list[Expr] = []
    for d, e, r in zip(dimensions, element, box, strict=True):
        terms = (Mul(IntImm(t.factor), starts[t.axis]) for t in d.terms if t.moves)
        lower = simplify(reduce(Add, terms, Sub(IntImm(d.constant), r.min)), exact=True)
        at = simplify(Add(lower, Mul(e, IntImm(d.stride))), exact=True)
        source.append(at)
        first = r.min.value if isinstance(r.min, IntImm) else None
        if d.least is None or first is None or d.least < first:
            tests.append(GE(at, IntImm(0)))
        extent = r.extent.value if isinstance(r.extent, IntImm) else None
        if d.below is not None and simplify(Sub(Add(r.min, r.extent), d.below), exact=True) == IntImm(0):
            continue
        if d.most is None or first is None or extent is None or d.most + d.span > first + extent:
            tests.append(LT(at, r.extent))
    return source, tests


def _with_index(e: Expr, index: Load) -> Expr:
    """A subscript with its only read replaced by one from a copy."""
    if isinstance(e, Call) and e.kind != "intrinsic":
        return index
    return rebuild(e, lambda c: _with_index(c, index))


def _position(x: Shared, axis: str, first: int, element: Sequence[Expr], starts: Mapping[str, Expr]) -> Expr:
    """The value of an index of the first instance that reads an element, for error reports."""
    start = Add(starts.get(axis, IntImm(0)), IntImm(first))
    for d, e in zip(x.dimensions, element, strict=True):
        if len(d.terms) == 1 and d.terms[0].axis == axis and d.terms[0].factor == 1:
            return simplify(Add(start, e), exact=True)
    return simplify(start, exact=True)


def _lanes_and_lines(threads: Sequence[tuple[str, int]], lanes: int) -> tuple[Expr, Expr]:
    """The lane of a thread in its group of `lanes` threads, and the number of the group."""
    if not threads:
        return IntImm(0), IntImm(0)
    (first, width), rest = threads[0], threads[1:]
    if lanes <= width and width % lanes == 0:
        lane: Expr = FloorMod(Variable(first), IntImm(lanes)) if lanes < width else Variable(first)
        line: Expr = FloorDiv(Variable(first), IntImm(lanes)) if lanes < width else IntImm(0)
        line = Add(line, _number(rest, width // lanes))
    else:
        thread = _number(threads, 1)
        lane, line = FloorMod(thread, IntImm(lanes)), FloorDiv(thread, IntImm(lanes))
        if math.prod(n for _, n in threads) == lanes:
            lane, line = thread, IntImm(0)
    return simplify(lane, exact=True), simplify(line, exact=True)


def _number(threads: Sequence[tuple[str, int]], stride: int) -> Expr:
    """`stride` times the linear number of a thread; the first variable varies fastest."""
    out: Expr = IntImm(0)
    for v, n in threads:
        out = Add(out, Mul(Variable(v), IntImm(stride)) if stride > 1 else Variable(v))
        stride *= n
    return out


def _decoded(number: Expr, shape: Sequence[int]) -> list[Expr]:
    """The subscripts of the element with this linear index."""
    out: list[Expr] = []
    rest = number
    wide = [i for i, n in enumerate(shape) if n > 1]
    for i, n in reversed(list(enumerate(shape))):
        if n == 1:
            out.insert(0, IntImm(0))
            continue
        out.insert(0, FloorMod(rest, IntImm(n)) if i != wide[0] else rest)
        rest = FloorDiv(rest, IntImm(n))
    return out
