"""The oracle below isl: a loop nest is run in Python at tiny sizes, without data, and what it does is
compared with what the program says, statement by statement.

Nothing here is shared with the passes it checks: domains are enumerated, dependences found by brute force.

1. Each instance of each stage runs exactly once.
2. It touches the elements that the program says it touches, and none outside its array.
3. Instances that touch one element, at least one of them writing, run in program order; only the updates
   of one element by one reduction may run in any order.
4. Iterations of a parallel loop do not touch what another of them writes.
5. A pack holds what its source still holds; partial results start neutral and go into their element; what is
   in registers and not stored is read by nobody later.

Where data decides (a guard on values, a data-dependent subscript) both outcomes, and every element of the
dimension, count as touched.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tc.dtypes import BOOL
from tc.errors import InternalError, unreachable
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
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
    Not,
    Or,
    Sub,
    UIntImm,
    Variable,
    children,
    constant,
    variables,
    walk,
)
from tc.ir.loops import (
    Block,
    Combine,
    Compute,
    For,
    If,
    Launch,
    LoopKind,
    LoopNest,
    Prefetch,
    Promote,
    Stmt,
    Sync,
)
from tc.ir.program import Box, Program, Stage
from tc.ir.simplify import simplify, substitute_typed
from tc.poly.placement import misplaced

Cell = tuple[str, tuple[int, ...]]
Instance = tuple[str, tuple[int, ...]]

# Of dynamic sizes: nothing, one point, less than a vector, one and a rest, several and a rest, many.
_SIZES = (0, 1, 5, 11, 37, 1000)
_SOMEWHERE = -(1 << 62)
_UNORDERED = (LoopKind.PARALLEL, LoopKind.VECTOR)


@dataclass(frozen=True, slots=True)
class Event:
    """One executed instance: the cells it reads (by its value), the cell it writes, whether it combines with
    that cell's old value, and the iterations of the unordered loops around it."""

    instance: Instance
    reads: frozenset[Cell]
    write: Cell
    update: bool
    iterations: tuple[tuple[int, int], ...] = ()
    needs: frozenset[Cell] = frozenset()  # of `reads`, those that its value still makes when it is folded


def verify(program: Program, nest: LoopNest, sizes: Mapping[str, int]) -> None:
    """Raises InternalError (TC0905) if the nest does not do what the program says at these sizes."""
    problem = compare(program, nest, sizes)
    if problem is not None:
        raise _wrong(program, problem)


def _wrong(program: Program, problem: str) -> InternalError:
    return InternalError(f"the loop nest of {program.name} is wrong: {problem}", code="TC0905")


def verify_small(program: Program, nest: LoopNest, most: int) -> None:
    """`verify` where that is at most `most` instances: at the sizes of a specialised program, or with its
    dynamic sizes at a few values that its preconditions allow.  Where arrays lie is looked at however many
    there are."""
    for value in _SIZES if program.sizes else (0,):
        sizes = dict.fromkeys(program.sizes, value)
        if not all(_int(p.condition, sizes) for p in program.preconditions):
            continue
        problem = misplaced(nest, sizes)
        if problem is not None:
            raise _wrong(program, problem)
        if sum(_instances(s, sizes) for s in program.stages) <= most:
            verify(program, nest, sizes)


def _instances(stage: Stage, sizes: dict[str, int]) -> int:
    return math.prod(max(0, _int(v.range.extent, sizes)) for v in stage.domain.vars)


def compare(program: Program, nest: LoopNest, sizes: Mapping[str, int]) -> str | None:
    """What is wrong with a nest at these sizes, or None."""
    try:
        run = list(_Runner(program, nest, dict(sizes)).events())
    except OutOfBoundsError as error:
        return str(error)
    wanted = list(_program_events(program, dict(sizes)))
    return _same_instances(wanted, run) or _same_order(program, wanted, run) or _races(program, run)


class OutOfBoundsError(Exception):
    """An access of the nest leaves its array."""


# --- What the program says.


def _program_events(program: Program, sizes: dict[str, int]) -> Iterator[Event]:
    boxes = {b.name: _ranges(b.box, sizes) for b in program.buffers}
    func_buffers = program.func_buffers
    written = _written(program)

    def cells(name: str, args: Sequence[Expr], env: dict[str, int]) -> Iterator[Cell]:
        """Zero-based; a subscript that data decides may be any in the array."""
        buffer = func_buffers.get(name, name)
        choices = [
            [v - low] if (v := _known(a, env)) is not None else _any(size, buffer in written)
            for a, (low, size) in zip(args, boxes[buffer], strict=True)
        ]
        return ((buffer, position) for position in itertools.product(*choices))

    def touched(value: Expr, env: dict[str, int]) -> frozenset[Cell]:
        out: set[Cell] = set()
        for call, inner in _reads(value, env):
            assert isinstance(call, Call)
            found = list(cells(call.name, call.args, inner))
            buffer = func_buffers.get(call.name, call.name)
            extents = [n for _, n in boxes[buffer]]
            inside = [
                c
                for c in found
                if all(x == _SOMEWHERE or 0 <= x < n for x, n in zip(c[1], extents, strict=True))
            ]
            out |= set(inside if call.checked else found)
        return frozenset(out)

    for stage in program.stages:
        folds = _folds(stage.value)
        for env in _points(stage, sizes):
            point = tuple(env[v.name] for v in stage.domain.vars)
            (write,) = cells(stage.func, stage.args, env)
            reads = needs = touched(stage.value, env)
            if folds:
                needs = touched(simplify(substitute_typed(stage.value, dict(env))), env)
            yield Event((stage.name, point), reads, write, stage.op is not None, needs=needs)


def _folds(value: Expr) -> bool:
    """Whether indices, where they are known, may decide which of a value's reads are left."""
    match value:
        case Variable():
            return True
        case Call() if value.kind != "intrinsic":
            return any(isinstance(x, Call) for a in value.args for x in walk(a))
        case _:
            return any(map(_folds, children(value)))


def _written(program: Program) -> frozenset[str]:
    return frozenset(program.func_buffers[s.func] for s in program.stages)


def _any(size: int, written: bool) -> Sequence[int]:
    """Where data decide about a subscript: of what nobody writes, one place stands for all."""
    return range(size) if written else (_SOMEWHERE,) if size else ()


def _ranges(box: Box, sizes: dict[str, int]) -> list[tuple[int, int]]:
    return [(_int(r.min, sizes), _int(r.extent, sizes)) for r in box]


def _points(stage: Stage, sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    axes = [
        range(low := _int(v.range.min, sizes), low + max(0, _int(v.range.extent, sizes)))
        for v in stage.domain.vars
    ]
    for point in itertools.product(*axes):
        env = {**sizes, **dict(zip(stage.domain.names, point, strict=True))}
        if all(_known(c, env) for c in stage.domain.conditions):
            yield env


def _reads(e: Expr, env: dict[str, int]) -> Iterator[tuple[Expr, dict[str, int]]]:
    """The reads that evaluating `e` may make, each with what is known where it is made."""

    match e:
        case Let():
            yield from _reads(e.value, env)
            value = _known(e.value, env)
            inner = {k: v for k, v in env.items() if k != e.name}
            yield from _reads(e.body, inner if value is None else {**inner, e.name: value})
        case IfThenElse():
            yield from _reads(e.condition, env)
            chosen = _known(e.condition, env)
            if chosen is None or chosen:
                yield from _reads(e.then_value, env)
            if chosen is None or not chosen:
                yield from _reads(e.else_value, env)
        case _:
            for c in children(e):
                yield from _reads(c, env)
            if isinstance(e, Load) or (isinstance(e, Call) and e.kind != "intrinsic"):
                yield e, env


def _known(e: Expr, env: Mapping[str, int]) -> int | None:
    """The value of an expression of indices and sizes; None where data decides."""
    if isinstance(e, IntImm):
        return e.value
    found = _CODE.get(id(e))
    if found is None or found[0] is not e:
        if len(_CODE) > _REMEMBERED:
            _CODE.clear()
        text = _python(e)
        found = _CODE[id(e)] = e, None if text is None else eval(f"lambda v: {text}")
    if found[1] is not None:
        try:
            return int(found[1](env))
        except KeyError:  # of a name whose value data decides: the rest may do without it
            pass
    value = constant(simplify(substitute_typed(e, dict(env)), exact=True))
    return None if value is None else int(value)


# Expressions are evaluated often: as functions of Python, by the identity of the expression, which is kept.
_CODE: dict[int, tuple[Expr, Callable[[Mapping[str, int]], int] | None]] = {}
_REMEMBERED = 1 << 14
_OPERATORS: dict[type[Expr], str] = {
    Add: "+", Sub: "-", Mul: "*", EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">=",
    And: "and", Or: "or",
}  # fmt: skip


def _python(e: Expr) -> str | None:
    """An expression of indices, which do not wrap around, in Python; None of another."""
    if e.dtype not in (INDEX, BOOL):
        return None
    match e:
        case IntImm() | UIntImm():
            return str(e.value)
        case Variable():
            return f"v[{e.name!r}]"
        case Not():
            a = _python(e.a)
            return a and f"(not {a})"
        case FloorDiv() | FloorMod() if not isinstance(e.b, IntImm) or e.b.value <= 0:
            return None  # a division by 0 is 0
        case FloorDiv() | FloorMod() | Min() | Max():
            a, b = _python(e.a), _python(e.b)
            if a is None or b is None:
                return None
            if isinstance(e, Min | Max):
                return f"{'min' if isinstance(e, Min) else 'max'}({a}, {b})"
            return f"({a} {'//' if isinstance(e, FloorDiv) else '%'} {b})"
        case Add() | Sub() | Mul() | EQ() | NE() | LT() | LE() | GT() | GE() | And() | Or():
            a, b = _python(e.a), _python(e.b)
            return None if a is None or b is None else f"({a} {_OPERATORS[type(e)]} {b})"
        case _:
            return None


def _int(e: Expr, env: Mapping[str, int]) -> int:
    value = _known(e, env)
    if value is None:
        raise InternalError(f"no value for {sorted(variables(e) - env.keys())}")
    return value


# --- What the nest does.


@dataclass(slots=True)
class _Runner:
    program: Program
    nest: LoopNest
    sizes: dict[str, int]
    loops: int = 0
    vectors: set[int] = field(default_factory=set[int])
    stages: dict[str, Stage] = field(default_factory=dict[str, Stage])
    copies: set[str] = field(default_factory=set[str])
    packed: dict[Cell, Cell] = field(default_factory=dict[Cell, Cell])
    partial: dict[str, str] = field(default_factory=dict[str, str])
    sources: dict[Cell, set[Cell]] = field(default_factory=dict[Cell, set[Cell]])  # the packed cells of each
    pending: dict[Cell, list[Instance]] = field(default_factory=dict[Cell, list[Instance]])
    promoted: list[tuple[int, frozenset[str]]] = field(default_factory=list[tuple[int, frozenset[str]]])
    promotions: int = 0
    dying: dict[Cell, int] = field(default_factory=dict[Cell, int])  # which promotion alone has the value
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    shifts: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    def events(self) -> Iterator[Event]:
        self.stages = {s.name: s for s in self.program.stages}
        self.partial = {a.name: a.partial_of for a in self.nest.arrays if a.partial_of is not None}
        self.copies = {
            a.name for a in self.nest.arrays if a.role == "private" and a.partial_of is None and not a.shift
        }
        self.shifts = frozenset(a.name for a in self.nest.arrays if a.shift)
        self.written = _written(self.program) | self.copies | self.partial.keys()
        self.shapes = {a.name: tuple(_int(n, self.sizes) for n in a.shape) for a in self.nest.arrays}
        yield from self.run(self.nest.body, self.sizes, ())
        for cell, instances in self.pending.items():
            self.lost(cell, instances)

    def run(self, s: Stmt, env: dict[str, int], iterations: tuple[tuple[int, int], ...]) -> Iterator[Event]:
        match s:
            case Block():
                for c in s.body:
                    yield from self.run(c, env, iterations)
            case For():
                self.loops += 1
                serial = self.loops
                if s.kind is LoopKind.VECTOR:
                    self.vectors.add(serial)
                for i in range(_int(s.lower, env), _int(s.upper, env), s.step):
                    inner = (*iterations, (serial, i)) if s.kind in _UNORDERED else iterations
                    yield from self.run(s.body, {**env, s.var: i}, inner)
            case If():
                chosen = _known(s.condition, env)
                if chosen is None:
                    raise OutOfBoundsError(
                        "data decide which statements run, not only which values they have"
                    )
                if chosen:
                    yield from self.run(s.then, env, iterations)
                elif s.otherwise is not None:
                    yield from self.run(s.otherwise, env, iterations)
            case Compute():
                event = self.compute(s, env, iterations)
                if event is not None:
                    yield event
            case Promote():
                self.promotions += 1
                self.promoted.append((self.promotions, s.dead))
                yield from self.run(s.body, env, iterations)
                self.promoted.pop()
            case Prefetch():
                for read, inner in (x for e in s.subscripts for x in _reads(e, env)):
                    assert isinstance(read, Load)
                    self.cells(read.buffer, read.subscripts, inner, (), ("a hint", ()))
            case Launch() | Combine() | Sync():
                raise InternalError(f"the trace oracle has no model of {type(s).__name__}")
            case _:
                unreachable(s)

    def compute(
        self, s: Compute, env: dict[str, int], iterations: tuple[tuple[int, int], ...]
    ) -> Event | None:
        """The event of an instance; None for what fills a pack or a partial result, or combines these, or
        makes up for the shift of a pack."""
        point = tuple(_int(p, env) for p in s.point)
        instance = (s.stage, point)
        touched: set[Cell] = set()
        shift = s.buffer in self.shifts
        for load, inner in _reads(s.value, env):
            assert isinstance(load, Load)
            found = self.cells(load.buffer, load.subscripts, inner, load.checked, instance)
            shift = shift or load.buffer in self.shifts
            touched |= {self.packed.get(c, c) for c in found} if load.buffer in self.copies else set(found)
        (write,) = self.cells(s.buffer, s.subscripts, env, (), instance)
        self.kept(s, touched, write, instance)
        if shift:  # a matter of values, which nobody looks at here
            return None
        if s.buffer in self.copies:  # a pack holds what it was filled with
            (source,) = touched
            self.packed[write] = source
            self.sources.setdefault(source, set()).add(write)
            return None
        partial = self.partial.get(s.buffer)
        if s.stage not in self.stages:
            if partial is not None and s.op is None:
                self.lost(write, self.pending.get(write, []))
                self.pending[write] = []
            elif partial is not None:
                for c in touched:
                    self.parts(write, instance).extend(self.parts(c, instance))
                    del self.pending[c]
            else:
                self.combined(s, touched, write)
                self.stale(write)
            return None
        if partial is not None:  # each lane has an element of its own
            self.parts(write, instance).append(instance)
            write = self.place(s, point)
            iterations = tuple(i for i in iterations if i[0] not in self.vectors)
        self.stale(write)
        return Event(instance, frozenset(touched), write, s.op is not None, iterations)

    def parts(self, cell: Cell, at: Instance) -> list[Instance]:
        """What went into a partial result so far."""
        if cell not in self.pending:
            raise OutOfBoundsError(f"{shown(at)} uses the partial result {cell}, which has no first value")
        return self.pending[cell]

    def lost(self, cell: Cell, instances: list[Instance]) -> None:
        if instances:
            raise OutOfBoundsError(
                f"{shown(instances[0])} went into the partial result {cell}, which is lost"
            )

    def stale(self, written: Cell) -> None:
        """What packs hold of an element is no longer its value."""
        for c in self.sources.pop(written, ()):
            if self.packed.get(c) == written:
                del self.packed[c]

    def kept(self, s: Compute, touched: set[Cell], write: Cell, at: Instance) -> None:
        """Values that only registers have must not be asked for when these are gone."""
        here = {number for number, _ in self.promoted}
        for c in touched | ({write} if s.op is not None else set[Cell]()):
            if self.dying.get(c, 0) and self.dying[c] not in here:
                raise OutOfBoundsError(f"{shown(at)} reads {c}, which was in registers and not stored")
        self.dying[write] = next((n for n, dead in reversed(self.promoted) if write[0] in dead), 0)

    def place(self, s: Compute, point: tuple[int, ...]) -> Cell:
        """The element that an instance updates in the end."""
        stage = self.stages[s.stage]
        at = dict(zip(stage.domain.names, point, strict=True))
        buffer = self.program.func_buffers[stage.func]
        box = self.program.buffer(buffer).box
        return buffer, tuple(
            _int(a, {**self.sizes, **at}) - _int(r.min, self.sizes)
            for a, r in zip(stage.args, box, strict=True)
        )

    def combined(self, s: Compute, touched: set[Cell], write: Cell) -> None:
        """All that went into a partial result must belong to the element it is combined into."""
        for c in touched:
            parts = self.parts(c, (s.stage, ()))
            del self.pending[c]
            for stage, point in parts:
                found = self.place(Compute(stage, "", (), None, s.value, (), ""), point)
                if found != write:
                    raise OutOfBoundsError(f"{shown((stage, point))} went into {write}, not {found}")

    def cells(
        self,
        buffer: str,
        subscripts: Sequence[Expr],
        env: dict[str, int],
        checked: tuple[int, ...],
        at: Instance,
    ) -> list[Cell]:
        choices: list[Sequence[int]] = []
        for d, (e, size) in enumerate(zip(subscripts, self.shapes[buffer], strict=True)):
            v = _known(e, env)
            if v is None:
                choices.append(_any(size, buffer in self.written))
            elif 0 <= v < size:
                choices.append([v])
            elif d in checked:
                return []
            else:
                raise OutOfBoundsError(
                    f"{shown(at)} accesses {buffer} at {v} in dimension {d}, whose extent is {size}"
                )
        return [(buffer, position) for position in itertools.product(*choices)]


# --- The comparison.


def shown(i: Instance) -> str:
    return f"{i[0]}({', '.join(map(str, i[1]))})"


def _same_instances(wanted: list[Event], run: list[Event]) -> str | None:
    expected = {e.instance: e for e in wanted}
    seen: set[Instance] = set()
    for e in run:
        if e.instance in seen:
            return f"{shown(e.instance)} runs twice"
        seen.add(e.instance)
        model = expected.get(e.instance)
        if model is None:
            return f"{shown(e.instance)} runs, which the program does not have"
        if e.write != model.write or e.update != model.update:
            return f"{shown(e.instance)} writes {e.write} and should write {model.write}"
        if not model.needs <= e.reads <= model.reads:
            odd = sorted((e.reads - model.reads) | (model.needs - e.reads))[0]
            return f"{shown(e.instance)} {'reads' if odd in e.reads else 'does not read'} {odd}"
    for e in wanted:
        if e.instance not in seen:
            return f"{shown(e.instance)} does not run"
    return None


def _same_order(program: Program, wanted: list[Event], run: list[Event]) -> str | None:
    """Per cell, the accesses in program order fall into phases whose members commute: reads, and the updates
    of one reduction.  Neighbouring phases conflict, so each must end before the next begins."""
    when = {e.instance: t for t, e in enumerate(run)}
    reductions = {s.name for s in program.stages if s.op is not None}
    phases: dict[Cell, list[tuple[str, list[Instance]]]] = {}
    for e in wanted:
        touched = [(c, "read") for c in e.reads if c != e.write or not e.update]
        stage = e.instance[0]
        kind = f"update {stage}" if stage in reductions else f"write {shown(e.instance)}"
        for cell, what in [*touched, (e.write, kind)]:
            line = phases.setdefault(cell, [])
            if line and line[-1][0] == what:
                line[-1][1].append(e.instance)
            else:
                line.append((what, [e.instance]))
    for cell, line in phases.items():
        for (_, before), (_, after) in itertools.pairwise(line):
            last = max(before, key=when.__getitem__)
            first = min((i for i in after if i != last), key=when.__getitem__, default=None)
            if first is not None and when[first] < when[last]:
                return f"{shown(first)} runs before {shown(last)}, which comes first and shares {cell}"
    return None


def _races(program: Program, run: list[Event]) -> str | None:
    """Two iterations of one parallel loop that touch one cell, one of them writing it."""
    writers: dict[tuple[int, Cell], tuple[int, Instance]] = {}
    for e in run:
        for loop, i in e.iterations:
            first = writers.setdefault((loop, e.write), (i, e.instance))
            if first[0] != i:
                return f"{shown(first[1])} and {shown(e.instance)} write {e.write} in parallel"
    for e in run:
        for loop, i in e.iterations:
            for cell in e.reads:
                first = writers.get((loop, cell))
                if first is not None and first[0] != i:
                    writer, reader = shown(first[1]), shown(e.instance)
                    return f"{writer} writes {cell} in parallel with {reader}, which reads it"
    return None
