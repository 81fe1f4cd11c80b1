"""What a loop nest does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tc.errors import InternalError, unreachable
from tc.ir.expr import (
    Expr,
    Load,
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
from tc.ir.program import Program, Stage
from tc.poly.trace.events import (
    Cell,
    Event,
    Instance,
    OutOfBoundsError,
    anywhere,
    integer,
    known,
    reads_made,
    shown,
    written_buffers,
)

_UNORDERED = (LoopKind.PARALLEL, LoopKind.VECTOR)


@dataclass(slots=True)
class Runner:
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
        self.written = written_buffers(self.program) | self.copies | self.partial.keys()
        self.shapes = {a.name: tuple(integer(n, self.sizes) for n in a.shape) for a in self.nest.arrays}
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
                for i in range(integer(s.lower, env), integer(s.upper, env), s.step):
                    inner = (*iterations, (serial, i)) if s.kind in _UNORDERED else iterations
                    yield from self.run(s.body, {**env, s.var: i}, inner)
            case If():
                chosen = known(s.condition, env)
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
                for read, inner in (x for e in s.subscripts for x in reads_made(e, env)):
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
        point = tuple(integer(p, env) for p in s.point)
        instance = (s.stage, point)
        touched: set[Cell] = set()
        shift = s.buffer in self.shifts
        for load, inner in reads_made(s.value, env):
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
            integer(a, {**self.sizes, **at}) - integer(r.min, self.sizes)
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
            v = known(e, env)
            if v is None:
                choices.append(anywhere(size, buffer in self.written))
            elif 0 <= v < size:
                choices.append([v])
            elif d in checked:
                return []
            else:
                raise OutOfBoundsError(
                    f"{shown(at)} accesses {buffer} at {v} in dimension {d}, whose extent is {size}"
                )
        return [(buffer, position) for position in itertools.product(*choices)]
