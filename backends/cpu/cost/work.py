"""The work of a nest's statements: vector instructions, and references as strides along the nest's axes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tc.codegen.llvm_expr import power_of_two
from tc.dtypes import DType
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
    Let,
    Load,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    Variable,
    children,
    constant,
    inline_lets,
    variables,
    walk,
)
from tc.ir.program import Stage
from tc.ir.simplify import linear_terms
from tc.poly.register_promotion import inside
from tc.poly.scop import Access, Scop, Statement
from tc.poly.tile_plan import Nest
from tc.poly.tiles.builder import loads
from tc.poly.tiles.packs import packed_types

from ..emit.padded_access import padding
from ..target import Machine
from .dot import Product, product_of

# Vector instructions of a built-in function, approximately; the polynomials are in tc.codegen.vector_math.
_FUNCTIONS = {
    "exp": 14, "exp_nonpositive": 12, "exp2": 12, "exp10": 16, "expm1": 20, "log": 20, "log2": 20,
    "log10": 22, "log1p": 24,
    "tanh": 24, "sigmoid": 22, "erf": 28, "erfc": 36, "sin": 24, "cos": 24, "pow": 60, "sqrt": 8,
    "rsqrt": 12, "fabs": 1, "abs": 1, "fmin": 2, "fmax": 2, "floor": 1, "ceil": 1, "trunc": 1, "round": 4,
    "fma": 1, "copysign": 2, "fraction_over": 10,
}  # fmt: skip
_LARGE_MODULUS = 32  # remainders by more leave most vectors contiguous
# Single elements that a vector is assembled from at most, and its lanes.
_FEW_ELEMENTS, _TYPICAL_LANES = 4, 16
_QUOTIENT = 8.0  # instructions for a quotient of integers by a literal
_LIBM = 30  # cycles a lane of a function that has no vector form


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to a buffer, as an access relation of constant strides.

    `strides` has the elements from one point to the next along each axis; `offset` is the element at the
    first point of all axes, counted from the buffer's first.  Axes in `indirect` move the reference as data
    say (a gather).

    Along an axis of `periods`, quotients or remainders move the reference, and after so many points it moves
    as from the first: the period is 1 where the elements are neighbours but for single breaks
    (`emit.load_by_shuffle`).

    `gathered_rows` is among how many places data choose where a gather reads; 0 for what is no gather.

    `read` is the number of the reference among the statement's reads; -1 is the element that the statement
    writes.  The strides along axes in `dynamic` depend on dynamic sizes; `strides` has the typical ones.
    """

    statement: str
    read: int
    buffer: str
    written: bool
    itemsize: int
    elements: int  # of the whole buffer
    strides: Mapping[str, int] = field(hash=False)
    indirect: frozenset[str]
    # The axes that share a subscript and reach the same elements (sliding windows).
    windows: tuple[tuple[str, ...], ...]
    plain: bool  # neither guarded nor checked, and its access relation is exact
    pack_itemsize: int  # bytes of an element in a pack
    checks: int = 0  # dimensions whose subscripts are checked at run time
    dynamic: frozenset[str] = frozenset()
    offset: int = 0
    periods: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)
    gathered_rows: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """Vector instructions of a statement that depend on some axes only: points that differ along other axes
    share them.  A pack of `read`, if there is one, holds their result."""

    axes: frozenset[str]
    operations: float
    read: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What one instance of a statement does, in vector instructions.

    The statement's conditions vary with the axes in `guards`; whether an element or a padding constant is
    read varies with those in `padded`.  `product` is the product of narrow integers that the statement sums,
    if it does. `update`: it is a reduction.
    """

    name: str
    parts: tuple[Part, ...]
    refs: tuple[Ref, ...]
    update: bool
    guards: frozenset[str] = frozenset()
    padded: frozenset[str] = frozenset()
    product: Product | None = None

    @property
    def operations(self) -> float:
        """Vector instructions of an instance, without its loads."""
        return sum(p.operations for p in self.parts)


def instruction_count(e: Expr, lanes: int) -> float:
    """Vector instructions that compute a value, without its loads."""
    own, parts = _own_instructions(e, lanes)
    return own + sum(instruction_count(c, lanes) for c in parts)


def _own_instructions(e: Expr, lanes: int) -> tuple[float, Sequence[Expr]]:
    """Vector instructions of the outermost operation of a value, and the operands that are
    computed for it."""
    own = 0.0
    match e:
        case Add() | Sub() | Mul() | EQ() | NE() | LT() | LE() | GT() | GE():
            own = 1.0
        case Min() | Max():
            own = 3.0 if e.dtype.is_float else 1.0
        case Div():
            divisor = constant(e.b)  # LLVM multiplies where the reciprocal is a number of the type
            own = 1.0 if divisor is not None and abs(math.frexp(divisor)[0]) == 0.5 else 10.0
        case FloorDiv() | FloorMod() if (divisor := constant(e.b)) is not None:
            # A shift or a mask; else products with a reciprocal.
            own = 1.0 if power_of_two(divisor) is not None else _QUOTIENT
        case FloorDiv() | FloorMod():
            own = 8.0 * lanes
        case Cast():
            own = 3.0 if e.dtype.is_half or e.value.dtype.is_half else 1.0
        case Call() if e.kind == "intrinsic":
            own = float(_FUNCTIONS.get(e.name, _LIBM * lanes))
        case IfThenElse() | Select() if not any(isinstance(x, Load) for x in walk(e.condition)):
            # The condition is tested once for most tiles (tc.transforms.loops.unswitch).
            chosen = max(children(e)[1:3], key=lambda c: instruction_count(c, lanes))
            return 0.0 if padding(e) else 0.25, (chosen,)
        case IfThenElse() | Select():
            own = 2.0 if isinstance(e, IfThenElse) else 1.0
        case Load() | Call():
            return 0.0, ()
        case _:
            pass
    return own, children(e)


def _parts(
    body: Expr, types: Sequence[DType], lanes: int, stage: Stage, axes: Mapping[str, str]
) -> tuple[Part, ...]:
    """The instructions of a statement, grouped by the axes that they depend on.  `types` are those of its
    reads in packs."""
    found: dict[tuple[frozenset[str], int | None], float] = {}
    numbers = {e: i for i, e in enumerate(loads(body))}

    def add(key: tuple[frozenset[str], int | None], operations: float) -> None:
        found[key] = found.get(key, 0.0) + operations

    def moved(e: Expr, lets: Mapping[str, frozenset[str]]) -> frozenset[str]:
        named = {**{v: frozenset([a]) for v, a in axes.items()}, **lets}
        return frozenset(a for v in variables(e) for a in named.get(v, ()))

    def visit(e: Expr, lets: Mapping[str, frozenset[str]]) -> None:
        if isinstance(e, Let):  # computed once, however often it is named
            visit(e.value, lets)
            visit(e.body, {**lets, e.name: moved(e.value, lets)})
            return
        own, parts = _own_instructions(e, lanes)
        if own:
            read = numbers.get(e.value) if isinstance(e, Cast) and isinstance(e.value, Load) else None
            if read is not None and types[read] != e.dtype:
                read = None
            add((moved(e, lets), read), own)
        for c in parts:
            visit(c, lets)

    visit(body, {})
    every = frozenset(axes.values())
    if stage.op == "+" and isinstance(body, Mul):
        # A multiply-add is one instruction, counted with the sum.
        add((moved(body, {}), None), -1.0)
        add((every, None), 1.0)
    elif stage.op is not None:
        add((every, None), 3.0 if stage.op in ("min", "max") and stage.value.dtype.is_float else 1.0)
    found[every, None] = max(found.get((every, None), 0.0), 0.25)
    return tuple(Part(along, n, read) for (along, read), n in found.items() if n)


def work_of(
    scop: Scop, nest: Nest, bodies: Mapping[str, Expr], machine: Machine, typical: Mapping[str, int]
) -> dict[str, Work]:
    """The work of each statement of a nest, with its loops named by axes.  `typical` are values of the
    program's dynamic sizes."""
    boxes = {b.name: b for b in scop.program.buffers}
    out: dict[str, Work] = {}
    for name in nest.statements:
        s = scop.statement(name)
        axes = {a.vars[name]: a.name for a in nest.axes if name in a.vars}
        axes |= {a.vars[name]: a.name for p in nest.phases for a in p.axes if name in a.vars}
        refs: list[Ref] = []
        types = packed_types(bodies[name])
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
                    _Layout(steps[::-1], boxes[a.buffer].dtype.itemsize, step),
                    types[number].itemsize if a.kind == "read" else 0,
                )
            )
            number += a.kind == "read"
        lanes = machine.isa.lanes(4)
        parts = _parts(bodies[name], types, lanes, s.stage, axes)
        update = s.stage.op is not None
        choices = [e for e in walk(bodies[name]) if isinstance(e, IfThenElse | Select)]
        conditions = [e.condition for e in choices if not padding(e)]
        guards = _axes_of((*s.stage.domain.conditions, *conditions), axes)
        padded = _axes_of([e.condition for e in choices if padding(e)], axes)
        product = product_of(s.stage, bodies[name], boxes[scop.program.func_buffers[s.stage.func]].dtype)
        out[name] = Work(name, parts, tuple(refs), update, guards, padded, product)
    return out


def _axes_of(conditions: Iterable[Expr], axes: Mapping[str, str]) -> frozenset[str]:
    """The axes that conditions vary with."""
    tested = {v for c in conditions for v in variables(inline_lets(c))}
    return frozenset(axes[v] for v in tested if v in axes)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of a buffer: for each dimension its stride in elements and whether that depends on dynamic
    sizes; the bytes of an element; the number of elements."""

    strides: Sequence[tuple[int, bool]]
    itemsize: int
    elements: int


def _ref(
    scop: Scop,
    s: Statement,
    a: Access,
    number: int,
    axes: Mapping[str, str],
    layout: _Layout,
    pack_itemsize: int,
) -> Ref:
    dynamic: set[str] = set()
    strides: dict[str, int] = {}
    indirect: set[str] = set()
    windows: list[tuple[str, ...]] = []
    periods: dict[str, int] = {}
    offset = 0
    gathered_rows, outer = 0, layout.elements
    for e, (step, varies) in zip(a.subscripts, layout.strides, strict=True):
        extent, outer = outer // step, step
        e = inline_lets(e)
        if any(isinstance(x, Call) and x.kind != "intrinsic" for x in walk(e)):
            gathered_rows = extent * max(1, gathered_rows)
        terms, constant = linear_terms(e)
        offset += constant * step
        found: list[str] = []
        moves: list[tuple[int, str]] = []
        for term, factor in terms.items():
            if isinstance(term, Variable):
                if term.name in axes:
                    strides[axes[term.name]] = strides.get(axes[term.name], 0) + factor * step
                    found.append(axes[term.name])
                    moves.append((abs(factor), term.name))
            else:
                for n, period in _periods(term, axes, abs(factor * step)).items():
                    periods[n] = math.lcm(period, periods.get(n, 1)) if period else 0
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
        if len(found) > 1 and _may_overlap(moves, s.stage):
            windows.append(tuple(found))
    checked = a.read is not None and (bool(a.read.call.checked) or bool(a.read.guards))
    plain = not (checked or a.unknown or indirect)
    plain = plain and (not s.stage.domain.conditions or inside(scop, s, a))
    return Ref(
        s.name,
        number,
        a.buffer,
        number < 0,
        layout.itemsize,
        layout.elements,
        strides,
        frozenset(indirect),
        tuple(windows),
        plain,
        pack_itemsize,
        len(a.read.call.checked) if a.read is not None else 0,
        frozenset(dynamic),
        offset,
        {n: period for n, period in periods.items() if period},
        gathered_rows,
    )


def _periods(term: Expr, axes: Mapping[str, str], step: int) -> dict[str, int]:
    """The period of a term along each axis (see `Ref`): the points after which its quotient or remainder
    begins anew.  One step of the term is `step` elements.  1 for a single break; 0 where lanes are neither
    neighbours nor a few single elements."""
    moving = {axes[v]: v for v in variables(term) if v in axes}
    breaks = dict.fromkeys(moving, int(step == 1))
    match term:
        case FloorDiv() | FloorMod() if isinstance(term.b, IntImm) and term.b.value > 0:
            inner, b = linear_terms(term.a)[0], term.b.value
            if not all(isinstance(x, Variable) for x in inner):
                return dict.fromkeys(moving, 0)
            if isinstance(term, FloorMod) and b > _LARGE_MODULUS:
                return breaks
            loadable = step == 1 or (
                b <= _FEW_ELEMENTS if isinstance(term, FloorMod) else b * _FEW_ELEMENTS >= _TYPICAL_LANES
            )
            factors = {x.name: f for x, f in inner.items() if isinstance(x, Variable)}
            return {n: b // math.gcd(b, factors[v]) if loadable else 0 for n, v in moving.items()}
        case Min() | Max() | Cast() | Call(name="abs"):
            parts = list(walk(term))
            data = any(isinstance(x, Call) and x.name != "abs" for x in parts)
            piecewise = not any(isinstance(x, Let | IfThenElse | Select | FloorDiv) for x in parts)
            return breaks if piecewise and not data else dict.fromkeys(moving, 0)
        case _:
            return dict.fromkeys(moving, 0)


def _may_overlap(moves: Sequence[tuple[int, str]], stage: Stage) -> bool:
    """Whether loops that move one subscript, each by its factor, reach the same elements, unlike those over
    chunks and inside a chunk."""
    extents = {v.name: v.range.extent for v in stage.domain.vars}
    reach = 1
    for i, (factor, name) in enumerate(sorted(moves)):
        extent = extents[name]
        if factor < reach:
            return True
        if isinstance(extent, IntImm):
            reach += factor * (extent.value - 1)
        elif i < len(moves) - 1:
            return True
    return False


@dataclass(frozen=True, slots=True)
class NestContext:
    """A nest with the work of its statements, on a machine: what all of the cost model needs.  `accumulators`
    are the buffers whose elements stay in registers (see the function `accumulators`).  `moving` are the axes
    of which each iteration of a sequential loop around the nest has other points."""

    nest: Nest
    work: Mapping[str, Work]
    machine: Machine
    accumulators: Mapping[str, Ref]
    moving: frozenset[str] = frozenset()

    @staticmethod
    def of(
        nest: Nest, work: Mapping[str, Work], machine: Machine, counters: Collection[str] = ()
    ) -> NestContext:
        """`counters` are those of the sequential loops around."""
        moving = {a.name for a in nest.axes if (variables(a.low) | variables(a.points)) & set(counters)}
        return NestContext(nest, work, machine, accumulators(nest, work), frozenset(moving))

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The references of all statements, in order."""
        return tuple(r for w in self.work.values() for r in w.refs)


def accumulators(nest: Nest, work: Mapping[str, Work]) -> dict[str, Ref]:
    """The buffers whose elements stay in registers for a whole register tile, each with a reference that
    writes it."""
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


def reread_arrays(nest: Nest, work: Mapping[str, Work]) -> frozenset[str]:
    """The arrays that more than one phase reads."""
    read = [{r.buffer for s in p.statements for r in work[s].refs if not r.written} for p in nest.phases]
    return frozenset(b for i, buffers in enumerate(read) for b in buffers if any(b in x for x in read[:i]))


def footprint(r: Ref, extents: Mapping[str, int]) -> int:
    """Bytes of the elements that a reference touches while its axes run over `extents`: an upper bound."""
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


def row_bytes(r: Ref, extents: Mapping[str, int]) -> int:
    """Bytes of each row of neighbours that loops of these extents read or write."""
    return rows(r, extents)[1]


def rows(r: Ref, extents: Mapping[str, int]) -> tuple[int, int]:
    """The number of rows of neighbours that loops of these extents read or write (an upper bound), and the
    bytes of each."""
    points, count = 1, 1
    for n, stride in sorted(r.strides.items(), key=lambda x: abs(x[1])):
        if n in extents and stride:
            if abs(stride) <= points:
                points += (extents[n] - 1) * abs(stride)
            else:
                count *= extents[n]
    return count, points * r.itemsize
