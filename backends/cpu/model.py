"""Predicted cycles of a tiled nest: issue slots of the register tile, traffic through the caches.

All of it is arithmetic on access relations: strides of each reference along each loop, and extents.  The
model is that of a core that issues, each cycle, a fixed number of vector operations and of loads (the
"roofline" of issue slots), with the latency of dependent updates as a floor, plus the bytes that a cache
tile moves from each level of the memory hierarchy (Williams, Waterman and Patterson, 2009; the register-tile
reasoning is that of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.ir.evaluate import evaluate
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Load,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    Variable,
    children,
    inline_lets,
    variables,
    walk,
)
from tc.ir.simplify import linear_terms
from tc.poly.plan import Nest, Phase, PhaseTile, Tile
from tc.poly.scop import Access, Scop, Statement
from tc.poly.storage import inside

from .machine import Machine
from .memory import CLOSE

# Vector instructions of one built-in, about; the polynomials are in tc.codegen.vector_math.
_FUNCTIONS = {
    "exp": 14, "exp2": 12, "exp10": 16, "expm1": 20, "log": 20, "log2": 20, "log10": 22, "log1p": 24,
    "tanh": 24, "sigmoid": 22, "erf": 28, "erfc": 36, "sin": 24, "cos": 24, "pow": 60, "sqrt": 8,
    "rsqrt": 12, "fabs": 1, "abs": 1, "fmin": 2, "fmax": 2, "floor": 1, "ceil": 1, "trunc": 1, "round": 4,
    "fma": 1, "copysign": 2,
}  # fmt: skip
_LIBM = 30  # cycles a lane of a function that has no vector form


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference: elements between neighbours along each axis; `indirect` axes move it as data says.

    `read` is its number among the statement's reads (-1: the element written).  Of the axes in `dynamic` the
    stride depends on dynamic sizes; `strides` has the typical one.
    """

    statement: str
    read: int
    buffer: str
    written: bool
    itemsize: int
    elements: int  # of the buffer
    strides: Mapping[str, int] = field(hash=False)
    indirect: frozenset[str]
    windows: tuple[tuple[str, ...], ...]  # the axes that share a subscript, where several do
    plain: bool  # neither guarded nor checked, and known
    dynamic: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Work:
    """What one instance of a statement does, in vector instructions; `guards` are the axes that its
    conditions vary with."""

    name: str
    operations: float
    refs: tuple[Ref, ...]
    update: bool
    guards: frozenset[str] = frozenset()


def _cost(e: Expr, lanes: int) -> float:
    own = 0.0
    match e:
        case Add() | Sub() | Mul() | EQ() | NE() | LT() | LE() | GT() | GE():
            own = 1.0
        case Min() | Max():
            own = 3.0 if e.dtype.is_float else 1.0
        case Div():
            own = 10.0
        case FloorDiv() | FloorMod():
            own = 1.0 if e.dtype.bits == 64 and isinstance(e.b, IntImm) else 8.0 * lanes
        case Cast():
            own = 3.0 if e.dtype.is_half or e.value.dtype.is_half else 1.0
        case Call() if e.kind == "intrinsic":
            own = float(_FUNCTIONS.get(e.name, _LIBM * lanes))
        case IfThenElse() | Select() if not any(isinstance(x, Load) for x in walk(e.condition)):
            # Tested once for most tiles (tc.ir.unswitch).
            chosen = (children(e)[1], children(e)[2])
            return 0.25 + max(_cost(c, lanes) for c in chosen)
        case IfThenElse() | Select():
            own = 2.0 if isinstance(e, IfThenElse) else 1.0
        case Load():
            return 0.0
        case _:
            pass
    return own + sum(_cost(c, lanes) for c in children(e))


def work_of(
    scop: Scop, nest: Nest, bodies: Mapping[str, Expr], machine: Machine, typical: Mapping[str, int]
) -> dict[str, Work]:
    """The work of each statement of a nest, its loops named by axes; `typical` are values of the program's
    dynamic sizes."""
    boxes = {b.name: b for b in scop.program.buffers}
    out: dict[str, Work] = {}
    for name in nest.statements:
        s = scop.statement(name)
        axes = {a.vars[name]: a.name for a in nest.axes if name in a.vars}
        axes |= {a.vars[name]: a.name for p in nest.phases for a in p.axes if name in a.vars}
        refs: list[Ref] = []
        number = 0
        for a in s.accesses:
            if a.kind == "update":
                continue
            steps: list[tuple[int, bool]] = []
            step, dynamic = 1, False
            for r in reversed(boxes[a.buffer].box):
                steps.append((step, dynamic))
                step *= max(1, evaluate(r.extent, typical))
                dynamic = dynamic or not isinstance(r.extent, IntImm)
            refs.append(
                _ref(
                    scop,
                    s,
                    a,
                    number if a.kind == "read" else -1,
                    axes,
                    steps[::-1],
                    boxes[a.buffer].dtype.itemsize,
                    step,
                )
            )
            number += a.kind == "read"
        lanes = machine.isa.lanes(4)
        cost = _cost(bodies[name], lanes)
        update = s.stage.op is not None
        if update and not (s.stage.op == "+" and isinstance(bodies[name], Mul)):
            cost += 3.0 if s.stage.op in ("min", "max") and s.stage.value.dtype.is_float else 1.0
        conditions = [e.condition for e in walk(bodies[name]) if isinstance(e, IfThenElse | Select)]
        tested = {v for c in (*s.stage.domain.conditions, *conditions) for v in variables(inline_lets(c))}
        guards = frozenset(axes[v] for v in tested if v in axes)
        out[name] = Work(name, max(cost, 0.25), tuple(refs), update, guards)
    return out


def _ref(
    scop: Scop,
    s: Statement, a: Access, number: int, axes: Mapping[str, str], steps: list[tuple[int, bool]],
    itemsize: int, elements: int,
) -> Ref:  # fmt: skip
    dynamic: set[str] = set()
    strides: dict[str, int] = {}
    indirect: set[str] = set()
    windows: list[tuple[str, ...]] = []
    for e, (step, varies) in zip(a.subscripts, steps, strict=True):
        e = inline_lets(e)
        terms, _ = linear_terms(e)
        found: list[str] = []
        for term, factor in terms.items():
            if isinstance(term, Variable):
                if term.name in axes:
                    strides[axes[term.name]] = strides.get(axes[term.name], 0) + factor * step
                    found.append(axes[term.name])
            else:
                indirect |= {axes[v] for v in variables(term) if v in axes}
                indirect |= {
                    axes[v]
                    for x in walk(term)
                    if isinstance(x, Call)
                    for y in x.args
                    for v in variables(y)
                    if v in axes
                }
        if varies:
            dynamic |= set(found)
        if len(found) > 1:
            windows.append(tuple(found))
    checked = a.read is not None and (bool(a.read.call.checked) or bool(a.read.guards))
    plain = not (checked or a.unknown or indirect)
    plain = plain and (not s.stage.domain.conditions or inside(scop, s, a))
    return Ref(
        s.name,
        number,
        a.buffer,
        number < 0,
        itemsize,
        elements,
        strides,
        frozenset(indirect),
        tuple(windows),
        plain,
        frozenset(dynamic),
    )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A register tile: points of each nest axis, the vector axis or the phases' own vector axes."""

    tiles: Mapping[str, Tile] = field(hash=False)
    phases: tuple[PhaseTile, ...]
    packs: frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of one core for the whole nest: `compute` while everything is in the first cache, `pack` to fill
    packed copies, `memory` for what moves from farther away."""

    compute: float
    pack: float
    memory: float

    @property
    def total(self) -> float:
        return max(self.compute, self.memory) + 0.25 * min(self.compute, self.memory) + self.pack


def tile_cycles(
    nest: Nest,
    work: Mapping[str, Work],
    c: Candidate,
    extents: Mapping[str, int],
    held: Mapping[str, Ref],
    machine: Machine,
) -> float:
    """Cycles of one register tile with these extents of the nest's axes; `held` as of `held_buffers`."""
    total = 4.0 + 2.0 * len(nest.phases)  # loop control, addresses
    rows = math.prod(e for n, e in extents.items() if c.tiles[n].lanes == 1)
    for phase, tile in zip(nest.phases, c.phases, strict=True):
        total += _phase_cycles(nest, phase, tile, work, c, extents, held, machine)
    total += sum(flush_cycles(r, c, extents) for r in held.values())
    total *= 1 + _mixed(nest, work, extents)
    return total * (1 + 0.002 * rows)  # of what is equal, the longer runs of neighbours


def _mixed(nest: Nest, work: Mapping[str, Work], extents: Mapping[str, int]) -> float:
    """About the share of tiles of which some points meet a condition and others do not, at both its ends."""
    guards = {n for w in work.values() for n in w.guards}
    same = 1.0
    for a in nest.axes:
        if a.name in guards:
            same *= max(0.0, 1 - 2 * (extents[a.name] - 1) / max(1, a.extent))
    return 1 - same


def held_buffers(nest: Nest, work: Mapping[str, Work]) -> dict[str, Ref]:
    """The buffers whose elements stay in registers for a register tile, with a reference that writes them."""
    inner = {a.name for p in nest.phases for a in p.axes}
    out: dict[str, Ref] = {}
    moving: set[str] = set()
    for w in work.values():
        for r in w.refs:
            if set(r.strides) & inner or r.indirect or not r.plain:
                moving.add(r.buffer)
            elif r.written:
                out[r.buffer] = r
    return {b: r for b, r in out.items() if b not in moving}


def flush_cycles(r: Ref, c: Candidate, extents: Mapping[str, int]) -> float:
    """Storing what a register tile computed: rows, or columns turned in registers, or single elements."""
    vectors, lanes, stride = 1.0, 1, 0
    for n, e in extents.items():
        if not r.strides.get(n, 0):
            continue
        t = c.tiles[n]
        vectors *= math.ceil(e / t.lanes)
        if t.lanes > 1:
            lanes, stride = t.lanes, r.strides[n]
    if stride in (0, 1):
        return vectors
    along = max((e for n, e in extents.items() if r.strides.get(n, 0) == 1), default=1)
    return vectors * (1.0 + math.log2(lanes) if along >= 4 else 2.0 * lanes)


_WAYS = 8


def _rows_a_set(stride: int, itemsize: int, rows: int, machine: Machine) -> float:
    """Of rows this far apart, how many fall into each set of the first cache that some fall into."""
    apart, part = divmod(abs(stride) * itemsize, 64)
    if rows < 2 or part or not apart:
        return 1.0
    sets = machine.l1 // (64 * _WAYS)
    return max(1.0, rows * math.gcd(apart, sets) / sets)


def _aliased(stride: int, itemsize: int, rows: int, machine: Machine) -> bool:
    """Whether rows this far apart fall into too few sets of the first cache to stay there together."""
    return _rows_a_set(stride, itemsize, rows, machine) > _WAYS


def _collides(
    r: Ref, tile: Mapping[str, int], inner: Mapping[str, int], machine: Machine
) -> bool:
    """Whether the rows that a reduction (`inner`) reads for one point of the tile leave no room for those
    that it reads for others."""
    own = math.prod(_rows_a_set(r.strides.get(n, 0), r.itemsize, e, machine) for n, e in tile.items())
    each = math.prod(_rows_a_set(r.strides.get(n, 0), r.itemsize, e, machine) for n, e in inner.items())
    return own > 1 and own * each > 2 * _WAYS


def _picked(stride: int, r: Ref) -> bool:
    """Whether lanes so far apart are picked out of neighbours (backends.cpu.memory)."""
    return 1 < stride <= CLOSE and not r.indirect and r.plain


def _phase_cycles(
    nest: Nest,
    phase: Phase,
    tile: PhaseTile,
    work: Mapping[str, Work],
    c: Candidate,
    extents: Mapping[str, int],
    held: Mapping[str, Ref],
    machine: Machine,
) -> float:
    inner = {a.name: a.extent for a in phase.axes}
    iterations = float(math.prod(inner.values())) if inner else 1.0
    vector = tile.vector
    lanes = 1
    if vector is not None:
        lanes = tile.lanes
        iterations = iterations / inner[vector] * math.ceil(inner[vector] / lanes)
    operations = loads = singles = stores = 0.0
    updates = False
    horizontal = 0.0
    for name in phase.statements:
        w = work[name]
        own = {a.name: extents[a.name] for a in nest.axes if name in a.vars}
        vectors = 1.0
        for n, e in own.items():
            t = c.tiles[n]
            vectors *= math.ceil(e / t.lanes)
        operations += w.operations * vectors
        if w.update and inner:
            updates = True
        for r in w.refs:
            moving = any(n in inner for n in r.strides) or bool(r.indirect & set(inner))
            if r.buffer in held or (inner and not moving and r.plain):
                continue  # in registers
            count = 1.0
            scattered = wide = False
            for n, e in own.items():
                t = c.tiles[n]
                stride = r.strides.get(n, 0)
                if t.lanes > 1:
                    apart = stride not in (0, 1) and (name, r.read) not in c.packs
                    if n in r.indirect or (apart and (r.written or not _picked(stride, r))):
                        scattered = True
                        count *= e
                    elif apart:
                        count *= math.ceil(e / t.lanes) * stride
                        operations += count
                        wide = True
                    elif stride:
                        count *= math.ceil(e / t.lanes)
                        wide = True
                elif stride or n in r.indirect:
                    count *= e
            if vector is not None:
                stride = r.strides.get(vector, 0)
                if vector in r.indirect or stride not in (0, 1):
                    scattered = stride != 0 or vector in r.indirect
                    if scattered and not r.written and _picked(stride, r):
                        scattered = False
                        count *= stride
                        operations += count
                        wide = True
                    count *= lanes if scattered else 1
                wide = wide or stride == 1
            if r.written:
                if not (w.update and inner and not moving):
                    stores += count * (2.0 if scattered else 1.0)
            elif scattered or not wide:
                rows = max(
                    (e for n, e in own.items() if _aliased(r.strides.get(n, 0), r.itemsize, e, machine)),
                    default=0,
                )
                # A single load and an insertion; an address out of a vector where data say which.
                each = 2.5 if r.indirect else 1.5
                singles += count * (each if scattered else 3.0 if rows else 1.0)
            else:
                apart = any(
                    _aliased(r.strides.get(n, 0), r.itemsize, e, machine)
                    for n, e in own.items()
                    if c.tiles[n].lanes == 1
                )
                # A vector that lies across two cache lines is loaded as two.
                along = next((n for n in own if c.tiles[n].lanes > 1), vector)
                width = r.itemsize * (c.tiles[along].lanes if along in own else lanes)
                aligned = (name, r.read) in c.packs or not any(
                    s * r.itemsize % width for n, s in r.strides.items() if n != along
                )
                rows = {n: e for n, e in own.items() if c.tiles[n].lanes == 1}
                far = 4.0 if _collides(r, rows, inner, machine) else 2.0 if apart else 1.0
                loads += count * far * (1.0 if aligned else 1.0 + 0.9 * width / 64)
        if vector is not None and w.update:
            horizontal += vectors * (2 * math.log2(max(lanes, 2)) + tile.accumulators)
    widest = max([lanes, *(t.lanes for t in c.tiles.values())])
    multiply_adds, wide_loads = machine.issue(4 * widest)
    moved = loads / wide_loads + singles / machine.broadcasts
    far = _far_cycles(nest, phase, work, c, extents, held, machine, iterations)
    # What is not the bottleneck is not free either.
    slots = (operations / multiply_adds, moved, stores)
    cycles = max(max(slots) + 0.1 * (sum(slots) - max(slots)), far)
    if updates:  # an accumulator is ready for its next update only after the latency of the last
        cycles = max(cycles, machine.latency / (tile.accumulators if vector is not None else 1))
    # Loop control of the innermost loop, once an unrolled iteration.
    unroll = tile.accumulators if vector is not None else max(1, tile.unroll)
    return (cycles + (1.0 / unroll if inner else 0.0)) * iterations + horizontal


_CROWDED = 4.0  # times as long, at most, takes a line that finds no room in its set of the first cache


def _far_cycles(
    nest: Nest,
    phase: Phase,
    work: Mapping[str, Work],
    c: Candidate,
    extents: Mapping[str, int],
    held: Mapping[str, Ref],
    machine: Machine,
    iterations: float,
) -> float:
    """Cycles an iteration of a phase for the lines that come from the second cache, because all that the
    register tile reads does not stay in the first."""
    if iterations < 2:
        return 0.0
    inner = {a.name: a.extent for a in phase.axes}
    bring = 64 / machine.l2_bandwidth
    lines, cycles = 0.0, 0.0
    for name in phase.statements:
        own = {a.name: extents[a.name] for a in nest.axes if name in a.vars}
        points = {**own, **inner}
        for r in work[name].refs:
            if r.written or r.buffer in held or r.indirect or not any(r.strides.get(n, 0) for n in inner):
                continue
            if (name, r.read) in c.packs:
                lines += footprint(r, points) / 64
                cycles += bring * footprint(r, points) / 64
                continue
            apart = {n: abs(r.strides.get(n, 0)) * r.itemsize for n in points}
            run = max((e * apart[n] for n, e in points.items() if 0 < apart[n] < 64), default=r.itemsize)
            own_lines = max(1.0, run / 64) * math.prod(e for n, e in points.items() if apart[n] >= 64)
            own_lines = min(own_lines, float(r.elements))
            sets = (_rows_a_set(r.strides.get(n, 0), r.itemsize, e, machine) for n, e in points.items())
            crowd = math.prod(sets) / _WAYS
            lines += math.inf if crowd > 1 else own_lines
            cycles += bring * own_lines * min(max(1.0, crowd), _CROWDED)
    return cycles / iterations if lines * 64 > 0.75 * machine.l1 else 0.0


def nest_cycles(
    nest: Nest, work: Mapping[str, Work], c: Candidate, extents: Mapping[str, int], machine: Machine
) -> float:
    """Cycles of all register tiles of a nest whose axes have these extents."""
    axes = list(nest.axes)
    held = held_buffers(nest, work)
    total = 0.0

    def level(i: int, at: dict[str, int], count: int) -> None:
        nonlocal total
        if i == len(axes):
            total += count * tile_cycles(nest, work, c, at, held, machine)
            return
        a = axes[i]
        size = min(c.tiles[a.name].register, extents[a.name])
        whole, rest = divmod(extents[a.name], size)
        if whole:
            level(i + 1, {**at, a.name: size}, count * whole)
        if rest:
            level(i + 1, {**at, a.name: rest}, count)

    level(0, {}, 1)
    return total


def footprint(r: Ref, extents: Mapping[str, int]) -> int:
    """Bytes of the elements a reference touches while its axes run over these extents (a bound)."""
    n = 1
    counted: set[str] = set()
    for window in r.windows:  # axes that share a subscript overlap
        steps = {a: abs(r.strides.get(a, 0)) for a in window if a in extents and a not in counted}
        unit = min((s for s in steps.values() if s), default=0)
        if unit:
            reach = 1 + sum((extents[a] - 1) * (s // unit) for a, s in steps.items())
            n *= min(math.prod(extents[a] for a, s in steps.items() if s), reach)
            counted |= set(steps)
    for axis, e in extents.items():
        if axis not in counted and (r.strides.get(axis, 0) or axis in r.indirect):
            n *= e
    return min(n, r.elements) * r.itemsize
