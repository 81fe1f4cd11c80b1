"""Time skewing: tiles over several iterations of a sequential loop and a dimension of space.

    for t in 0:T                          for b in 0:T/B
      B(i) = A(i-1) + A(i+1)                for w in 0:W
      A(i) = B(i-1) + B(i+1)       →          for t in 0:B
                                                B(i) = …   where i in S*w - 2*t     : S*w - 2*t + S
                                                A(i) = …   where i in S*w - 2*t - 1 : S*w - 2*t + S - 1

The first form reads and writes all rows in each iteration.  The second form runs B iterations on S rows, then
on the next S: the rows that an iteration writes are still cached when the following iterations read them.
Each iteration is `skew` rows behind the one before it, and each statement `shift` rows behind the first
(Wonnacott, "Achieving scalable locality with time skewing", 2002; Lamport, "The parallel execution of DO
loops", 1974).

The order is legal if no dependence leads from an instance to one in an earlier tile.  An instance has the
coordinate `i + skew * t + shift`, so it suffices that no dependence leads to a smaller coordinate.  isl
computes the least distance along i of the dependences between two statements, in one iteration and over
several.  The pass takes the smallest skew for which these difference constraints have a solution (Bellman and
Ford).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from tc.ir.expr import (
    Add,
    Expr,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    Variable,
    variables,
)
from tc.ir.program import Domain, IterVar, Loop, Program, Stage, fresh
from tc.ir.simplify import simplify
from tc.poly.affine import SET
from tc.poly.context import GaveUp, given_up_after, isl_context
from tc.poly.dependences import conflicts
from tc.poly.scop import Scop, build
from tc.transforms.program.segments import in_domains
from tc.transforms.program.stages import (
    in_place_of,
    iterations_of_block,
    names_of,
    range_between,
    stage_at,
)

_OPERATIONS = 2_000_000  # operations of isl for one loop; a loop that needs more stays as it is
_MOST_SKEW = 32


@dataclass(frozen=True, slots=True)
class RowStage:
    """A statement of a loop that is tiled along its variable `row`, over the points from `low` up to, but not
    including, `end`."""

    stage: Stage
    row: IterVar
    low: int
    end: int


@dataclass(frozen=True, slots=True)
class Skewed:
    """An innermost sequential loop of `trips` iterations that can be tiled along a dimension of the tensors
    that its statements write.

    `skew`: the rows by which each iteration lags behind the one before it; `shifts`: those by which each
    statement lags behind the first.
    """

    loop: Loop
    stages: tuple[RowStage, ...]
    skew: int
    shifts: tuple[int, ...]
    trips: int

    @property
    def low(self) -> int:
        """The first coordinate of an instance of the first iteration."""
        return min(s.low + k for s, k in zip(self.stages, self.shifts, strict=True))

    @property
    def end(self) -> int:
        """The coordinate after those of the first iteration."""
        return max(s.end + k for s, k in zip(self.stages, self.shifts, strict=True))


@dataclass(frozen=True, slots=True)
class TimeTile:
    """The number of iterations and of rows of a tile."""

    iterations: int
    rows: int


Choice = Callable[[Program, Skewed], TimeTile | None]
Worth = Callable[[Program, Loop, Sequence[RowStage]], bool]


def tile_time(
    program: Program, choose: Choice, worth: Worth = lambda program, loop, rows: True
) -> tuple[Program, tuple[str, ...]]:
    """`program` with the loops tiled for which `choose` returns a tile, and the names of these loops.

    A loop is tiled along the first dimension for which it does.  For a loop that is not `worth` it no
    dependences are computed.
    """
    tiled: list[str] = []
    for loop in program.loops:
        stages = [s for s in program.stages if loop in s.loops]
        if any(s.loops[-1] != loop for s in stages) or not isinstance(loop.trips, IntImm):
            continue
        for dimension in range(min(len(s.args) for s in stages)):
            rows = _rows(stages, loop, dimension)
            if rows is None or not worth(program, loop, rows):
                continue
            shifts = _shifts(program, rows, loop)
            if shifts is None:
                continue
            found = Skewed(loop, tuple(rows), *shifts, loop.trips.value)
            tile = choose(program, found)
            if tile is not None and tile.iterations > 1 and tile.rows > 0:
                program = _tiled(program, stages, found, tile)
                tiled.append(loop.name)
                break
    return program, tuple(tiled)


# ---- the dimension


def moves(a: Expr, s: Stage, loop: Loop) -> bool:
    """Whether a subscript contains the counter of the loop, or a variable whose range does."""
    own = {v.name for v in s.domain.vars if loop.name in variables(v.range.min) | variables(v.range.extent)}
    return bool(variables(a) & {loop.name, *own})


def _rows(stages: Sequence[Stage], loop: Loop, dimension: int) -> list[RowStage] | None:
    """The stages along a dimension of the tensors that they write, if their subscripts there do not move with
    the loop; None if a stage has no variable of constant range there."""
    out: list[RowStage] = []
    for s in stages:
        if s.checked or s.scatters or any(c.checked for c in s.calls):
            return None
        subscripts = [a for a in s.args if not moves(a, s, loop)]
        at = subscripts[dimension] if dimension < len(subscripts) else None
        row = next((v for v in s.domain.vars if at == Variable(v.name) and v.kind == "pure"), None)
        if row is None:
            return None
        low, end = (simplify(e, exact=True) for e in (row.range.min, row.range.end))
        if not (isinstance(low, IntImm) and isinstance(end, IntImm)):
            return None
        out.append(RowStage(s, row, low.value, end.value))
    return out


# ---- dependences


def _shifts(program: Program, rows: Sequence[RowStage], loop: Loop) -> tuple[int, tuple[int, ...]] | None:
    """The smallest skew that dependences allow, and the shift of each statement; None if there is none."""
    part = in_domains(replace(program, stages=tuple(r.stage for r in rows), sites=()))
    with isl_context():
        try:
            with given_up_after(_OPERATIONS):
                least = dict(_distances(build(part), rows, len(rows[0].stage.loops) - 1))
        except (GaveUp, _Refused):
            return None
    for skew in range(_MOST_SKEW + 1):
        by = _solved(len(rows), least, skew)
        if by is not None:
            return skew, by
    return None


class _Refused(Exception):
    """Distances are unbounded, or an instance reads a row that another instance of the same statement and
    iteration writes."""


def _distances(
    scop: Scop, rows: Sequence[RowStage], depth: int
) -> Iterator[tuple[tuple[int, int, int], int]]:
    """For two statements, and 0 for one iteration or 1 for several, the least distance along rows of the
    dependences from the first to the second."""
    rows_at = [s.stage.domain.names.index(r.row.name) for s, r in zip(scop.statements, rows, strict=True)]
    # The counters of the loops, and the row.
    places = [s.coordinates([*range(depth + 1), k]) for s, k in zip(scop.statements, rows_at, strict=True)]
    for s in scop.statements:
        for other in scop.statements:
            to_place, from_place = places[other.index], places[s.index].reverse()
            relations = (relation for _, _, relation in conflicts(s, other))
            found = [from_place.apply_range(r).apply_range(to_place).deltas() for r in relations]
            for several in (0, 1):
                if not several and s.index > other.index:
                    continue
                ends = [d for delta in found if (d := _least(delta, depth, several)) is not None]
                if not several and s is other:
                    # A statement reads everything before it writes; rows in different tiles would break that.
                    ends += [-d for delta in found if (d := _least(delta.neg(), depth, 0)) is not None]
                    if any(ends):
                        raise _Refused
                elif ends:
                    yield (s.index, other.index, several), min(ends)


def _least(delta: isl.Set, depth: int, several: int) -> int | None:
    """The least distance along rows within an iteration of the loops around, and one or several iterations of
    the loop; None if there are no dependences."""
    for d in range(depth):
        delta = delta.fix_val(SET, d, isl.Val.zero(delta.get_ctx()))
    if several:
        delta = delta.lower_bound_val(SET, depth, isl.Val.one(delta.get_ctx()))
    else:
        delta = delta.fix_val(SET, depth, isl.Val.zero(delta.get_ctx()))
    if delta.is_empty():
        return None
    least = delta.dim_min_val(depth + 1)
    if not least.is_int():
        raise _Refused
    return int(least.to_python())


def _solved(count: int, least: Mapping[tuple[int, int, int], int], skew: int) -> tuple[int, ...] | None:
    """Shifts for which no dependence leads to a smaller coordinate."""
    by = [0] * count
    for _ in range(count + 1):
        changed = False
        for (a, b, several), distance in least.items():
            needed = by[a] - distance - skew * several
            if by[b] < needed:
                by[b], changed = needed, True
        if not changed:
            return tuple(by)
    return None


# ---- the program in tiles


def _tiled(program: Program, stages: Sequence[Stage], found: Skewed, tile: TimeTile) -> Program:
    loop = found.loop
    taken = names_of(program)
    iterations = min(tile.iterations, found.trips)
    block = Loop(fresh(f"{loop.name}_block", taken), IntImm(-(-found.trips // iterations)))
    length = found.end - found.low + found.skew * (iterations - 1)
    step = Loop(fresh(f"{loop.name}_tile", taken), IntImm(-(-length // tile.rows)))
    inner, _, counter = iterations_of_block(loop, block.name, iterations)
    made: list[Stage] = []
    for r, shift in zip(found.stages, found.shifts, strict=True):
        first = Add(Mul(Variable(step.name), IntImm(tile.rows)), IntImm(found.low - shift))
        first = Sub(first, Mul(Variable(loop.name), IntImm(found.skew)))
        low, end = IntImm(r.low), IntImm(r.end)
        begin, stop = Min(Max(first, low), end), Max(Min(Add(first, IntImm(tile.rows)), end), low)
        s = stage_at(r.stage, counter)
        cut = replace(r.row, range=range_between(begin, stop))
        ranged = tuple(cut if v.name == cut.name else v for v in s.domain.vars)
        domain = Domain(ranged, s.domain.conditions)
        made.append(replace(s, domain=domain, loops=(*s.loops[:-1], block, step, inner)))
    return in_place_of(program, stages, made)
