"""The events of a loop nest, in the order in which it runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tc.errors import InternalError, unreachable
from tc.ir.expr import Expr, IntImm, Load
from tc.ir.loops import (
    Array,
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
    copied,
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
    known_all,
    reads_made,
    shown,
    written_buffers,
)
from tc.poly.trace.launch import Arrival, launch
from tc.poly.trace.program_events import box_of
from tc.poly.trace.replicas import Replicas
from tc.poly.trace.shared_memory import Memory
from tc.poly.trace.vector_copies import elements, misplaced

_UNORDERED = (LoopKind.PARALLEL, LoopKind.VECTOR)


@dataclass(slots=True)
class Runner:
    """`packed`: the elements whose values those of copies (packs, arrays of threads and blocks) are made of;
    `newest`: of elements, the one of such an array that alone has their value; `memory`, inside a launch: who
    touched what."""

    program: Program
    nest: LoopNest
    sizes: dict[str, int]
    loops: int = 0
    vectors: set[int] = field(default_factory=set[int])
    stages: dict[str, Stage] = field(default_factory=dict[str, Stage])
    copies: set[str] = field(default_factory=set[str])
    packed: dict[Cell, frozenset[Cell]] = field(default_factory=dict[Cell, frozenset[Cell]])
    partial: dict[str, str] = field(default_factory=dict[str, str])
    sources: dict[Cell, set[Cell]] = field(default_factory=dict[Cell, set[Cell]])  # the packed cells of each
    pending: dict[Cell, list[Instance]] = field(default_factory=dict[Cell, list[Instance]])
    owed: dict[Cell, int] = field(default_factory=dict[Cell, int])  # how many instances are still in parts
    promoted: list[tuple[int, frozenset[str]]] = field(default_factory=list[tuple[int, frozenset[str]]])
    promotions: int = 0
    dying: dict[Cell, int] = field(default_factory=dict[Cell, int])  # which promotion alone has the value
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    boxes: dict[str, tuple[range, ...]] = field(default_factory=dict[str, tuple[range, ...]])
    newest: dict[Cell, Cell] = field(default_factory=dict[Cell, Cell])
    replicas: Replicas = field(default_factory=Replicas)
    memory: Memory | None = None
    arrays: dict[str, Array] = field(default_factory=dict[str, Array])
    shifts: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    def events(self) -> Iterator[Event]:
        self.stages = {s.name: s for s in self.program.stages}
        self.partial = {a.name: a.partial_of for a in self.nest.arrays if a.partial_of is not None}
        self.copies = {
            a.name
            for a in self.nest.arrays
            if a.role in ("private", "register", "shared") and a.partial_of is None and not a.shift
        }
        self.arrays = {a.name: a for a in self.nest.arrays}
        self.shifts = frozenset(a.name for a in self.nest.arrays if a.shift)
        self.written = written_buffers(self.program) | self.copies | self.partial.keys()
        self.shapes = {a.name: tuple(integer(n, self.sizes) for n in a.shape) for a in self.nest.arrays}
        for e in self.run(self.nest.body, self.sizes, ()):
            if isinstance(e, Arrival):
                raise InternalError("a barrier outside of a launch")
            yield e
        for cell, place in self.newest.items():
            if self.arrays[cell[0]].role == "output":
                raise OutOfBoundsError(f"only {place} has the value of {cell}, which is not stored")
        for cell, instances in self.pending.items():
            self.lost(cell, instances)

    def run(
        self, s: Stmt, env: dict[str, int], iterations: tuple[tuple[int, int], ...]
    ) -> Iterator[Event | Arrival]:
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
                for place in self.moved(s, env):
                    misplaced(place, s.width, self.arrays, self.shapes)
                if self.arrays[s.buffer].replicas:
                    yield Arrival(s)
                for one in elements(s):
                    event = self.compute(one, env, iterations)
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
            case Launch():
                self.memory = Memory()
                body = s.body
                yield from launch(
                    s, env, self.memory, lambda at: self.run(body, at, iterations), self.combine
                )
                self.memory = None
            case Combine() | Sync():
                yield Arrival(s)
            case _:
                unreachable(s)

    def compute(
        self, s: Compute, env: dict[str, int], iterations: tuple[tuple[int, int], ...]
    ) -> Event | None:
        """The event of an instance; None for what fills a pack or a partial result, or combines these, or
        makes up for the shift of a pack."""
        point = known_all(s.point, env)
        if point is None:
            point = tuple(integer(p, env) for p in s.point)
        instance = (s.stage, point)
        inside = self.memory is None or s.stage not in self.stages
        if not inside and self.beyond(self.stages[s.stage], point):
            self.padding(s, env, instance)
            return None
        touched: set[Cell] = set()
        shift = s.buffer in self.shifts
        for load, inner in reads_made(s.value, env):
            assert isinstance(load, Load)
            found = self.cells(load.buffer, load.subscripts, inner, load.checked, instance)
            shift = shift or load.buffer in self.shifts
            for c in found:
                self.touch(c, instance, write=False)
                touched |= self.packed.get(c, {c}) if load.buffer in self.copies else {c}
        (write,) = self.cells(s.buffer, s.subscripts, env, (), instance)
        self.touch(write, instance, write=True, atomic=s.atomic)
        self.kept(s, touched, write, instance)
        if shift:  # a matter of values, which nobody looks at here
            return None
        if self.arrays[s.buffer].replicas and self.again(s, instance, touched, write):
            return None
        if s.buffer in self.copies:
            if s.stage in self.stages:  # the result lives in a register or in the memory of a block
                result = self.place(s, point)
                if s.op is not None and self.packed.get(write) != frozenset([result]):
                    raise OutOfBoundsError(f"{shown(instance)} updates {write}, which does not hold {result}")
                self.stale(result)
                self.holds(write, frozenset([result]))
                self.newest[result] = write
                return Event(instance, frozenset(touched), result, s.op is not None, iterations)
            if not s.stage and any(c[0] in self.partial for c in touched):  # combined there
                touched = {self.combined_into(touched, write)}
            self.holds(write, frozenset(touched))  # what it was filled with
            if s.asynchronous and self.memory is not None:
                self.memory.flying.add(write)
            return None
        partial = self.partial.get(s.buffer)
        if s.stage not in self.stages:
            if partial is not None and s.op is None:
                self.lost(write, self.pending.get(write, []))
                self.pending[write] = []
                self.replicas.heads.pop(write, None)
            elif partial is not None:
                for c in touched:
                    self.parts(write, instance).extend(self.parts(c, instance))
                    del self.pending[c]
            elif touched == {write}:  # back to where it came from, changed or not
                self.newest.pop(write, None)
            else:
                self.combined(s, touched, write)
                self.stale(write)
            return None
        if partial is not None:  # each lane has an element of its own
            self.parts(write, instance).append(instance)
            write = self.place(s, point)
            self.owed[write] = self.owed.get(write, 0) + 1
            iterations = tuple(i for i in iterations if i[0] not in self.vectors)
        else:  # of a result in parts, copies are stale once these are combined
            self.stale(write)
        return Event(instance, frozenset(touched), write, s.op is not None, iterations)

    def again(self, s: Compute, instance: Instance, touched: set[Cell], write: Cell) -> bool:
        """Whether a write of what several threads hold is one that another of them has made for itself; all
        must have held the value before, if that matters, and, of parts, all must have got the combination."""
        staged = s.stage in self.stages
        before = self.replicas.behind.get(write)
        held = self.packed.get(write) or frozenset(x for x in [before] if x is not None)
        if not staged and len(held) != 1:
            raise OutOfBoundsError(f"parts go into {write}, which holds {sorted(held)}")
        result = self.place(s, instance[1]) if staged else next(iter(held))
        parts = frozenset(self.replicas.head(c) for c in touched if c[0] in self.partial)
        alike = {c for c in self.sources.get(result, ()) if self.arrays[c[0]].replicas} - {write}
        others = (c for c in alike if result in self.packed.get(c, ()))
        if self.replicas.begins(result, (id(s), instance, parts), others):
            return False
        if s.op is not None and before != result:
            raise OutOfBoundsError(f"{shown(instance)} updates {write}, which does not hold {result}")
        self.replicas.behind.pop(write, None)
        self.holds(write, frozenset([result]))
        return True

    def beyond(self, stage: Stage, point: tuple[int, ...]) -> bool:
        """Whether the program does not run a stage at a point."""
        box = self.boxes.get(stage.name)
        if box is None:
            box = self.boxes[stage.name] = box_of(stage, self.sizes)
        if any(p not in along for p, along in zip(point, box, strict=True)):
            return True
        env = {**self.sizes, **dict(zip(stage.domain.names, point, strict=True))}
        return any(known(c, env) == 0 for c in stage.domain.conditions)

    def padding(self, s: Compute, env: dict[str, int], instance: Instance) -> None:
        """An instance that the program does not have may run on copies and registers, of whatever value; what
        it writes is no copy of anything, and a partial result that it goes into no part of anything."""
        what = f"{shown(instance)}, which the program does not have,"
        for load, inner in reads_made(s.value, env):
            assert isinstance(load, Load)
            if load.buffer not in self.copies or load.checked:
                raise OutOfBoundsError(f"{what} reads {load.buffer}")
            for c in self.cells(load.buffer, load.subscripts, inner, (), instance):
                self.touch(c, instance, write=False)
        (write,) = self.cells(s.buffer, s.subscripts, env, (), instance)
        if s.buffer in self.partial and s.op is not None:
            self.parts(write, instance).append(instance)
            return
        if s.buffer not in self.copies:
            raise OutOfBoundsError(f"{what} writes {write}")
        self.touch(write, instance, write=True)
        self.holds(write, frozenset())

    def touch(self, cell: Cell, instance: Instance, *, write: bool, atomic: bool = False) -> None:
        """An access to memory, in turn with those of other threads."""
        role = self.arrays[cell[0]].role
        if self.memory is not None and role != "register":
            self.memory.touch(cell, instance, write=write, atomic=atomic)
        if write:
            return
        if self.owed and any(self.owed.get(c, 0) for c in (cell, *self.packed.get(cell, ()))):
            raise OutOfBoundsError(f"{shown(instance)} reads {cell}, of which parts are still to be combined")
        if cell in self.newest:
            raise OutOfBoundsError(f"{shown(instance)} reads {cell}, whose value is in {self.newest[cell]}")

    def holds(self, cell: Cell, values: frozenset[Cell]) -> None:
        """`cell` is a copy of what these elements hold now; of none: of nothing that anybody may use."""
        self.packed.pop(cell, None)
        if values:
            self.packed[cell] = values
        for v in values:
            self.sources.setdefault(v, set()).add(cell)

    def combine(self, s: Combine, threads: Sequence[tuple[int, int]]) -> None:
        """Partial results in registers of several threads are combined into those of one."""
        assert self.memory is not None
        block = self.memory.block
        shape = self.shapes[s.buffer]
        for position in itertools.product(*map(range, shape)):
            for thread, head in threads:
                if thread != head:
                    mine, first = ((s.buffer, (block, t, *position)) for t in (thread, head))
                    if (mine in self.pending) != (first in self.pending):
                        raise OutOfBoundsError(f"{s.buffer} is combined, which has no first value")
                    if mine in self.pending:
                        self.pending[first].extend(self.pending.pop(mine))
                    if s.everywhere:
                        self.replicas.heads[mine] = first

    def parts(self, cell: Cell, at: Instance) -> list[Instance]:
        """What went into a partial result so far."""
        if cell not in self.pending:
            raise OutOfBoundsError(f"{shown(at)} uses the partial result {cell}, which has no first value")
        return self.pending[cell]

    def lost(self, cell: Cell, instances: list[Instance]) -> None:
        for stage, point in instances:
            if not self.beyond(self.stages[stage], point):
                raise OutOfBoundsError(
                    f"{shown((stage, point))} went into the partial result {cell}, which is lost"
                )

    def stale(self, written: Cell) -> None:
        """The copies of an element in packs become stale."""
        for c in self.sources.pop(written, ()):
            if written in self.packed.get(c, ()):
                del self.packed[c]
        self.newest.pop(written, None)

    def kept(self, s: Compute, touched: set[Cell], write: Cell, at: Instance) -> None:
        """Values that only registers have must not be asked for when these are gone."""
        if self.dying:
            here = {number for number, _ in self.promoted}
            for c in touched | ({write} if s.op is not None else set[Cell]()):
                if c in self.dying and self.dying[c] not in here:
                    raise OutOfBoundsError(f"{shown(at)} reads {c}, which was in registers and not stored")
            self.dying.pop(write, None)
        for number, dead in reversed(self.promoted):
            if write[0] in dead:
                self.dying[write] = number
                break

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

    def results(self, parts: Sequence[Instance]) -> set[Cell]:
        """The elements that parts of results belong to."""
        for stage, point in parts:
            if self.beyond(self.stages[stage], point):
                raise OutOfBoundsError(
                    f"{shown((stage, point))}, which the program does not have, is in a result"
                )
        return {self.place(Compute(n, "", (), None, IntImm(0), (), ""), point) for n, point in parts}

    def combined_into(self, touched: set[Cell], write: Cell) -> Cell:
        """The element that parts of results belong to, which a copy of it takes up."""
        (cell,) = touched
        parts = self.parts(cell, ("", ()))
        results = self.results(parts)
        held = self.packed.get(write, frozenset())
        if len(held) != 1 or not results <= held:
            raise OutOfBoundsError(f"parts of {sorted(results)} go into {write}, which holds {sorted(held)}")
        del self.pending[cell]
        (result,) = held
        self.owed[result] = self.owed.get(result, 0) - len(parts)
        self.stale(result)
        self.newest[result] = write
        return result

    def combined(self, s: Compute, touched: set[Cell], write: Cell) -> None:
        """All that went into a partial result must belong to the element it is combined into."""
        for c in touched:
            parts = self.parts(c, (s.stage, ()))
            del self.pending[c]
            if others := self.results(parts) - {write}:
                raise OutOfBoundsError(f"parts of {sorted(others)} go into {write}")
            self.owed[write] = self.owed.get(write, 0) - len(parts)

    def cells(
        self,
        buffer: str,
        subscripts: Sequence[Expr],
        env: dict[str, int],
        checked: tuple[int, ...],
        at: Instance,
    ) -> list[Cell]:
        shape = self.shapes[buffer]
        place = known_all(subscripts, env)
        if place is not None and all(0 <= v < size for v, size in zip(place, shape, strict=True)):
            return [(buffer, (*self.owner(buffer), *place))]
        if any(shape[d] == 0 for d in checked):  # no subscript passes
            return []
        choices: list[Sequence[int]] = []
        for d, (e, size) in enumerate(zip(subscripts, shape, strict=True)):
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
        return [(buffer, (*self.owner(buffer), *position)) for position in itertools.product(*choices)]

    def moved(self, s: Compute, env: dict[str, int]) -> list[Cell]:
        """The first elements of what is copied at once."""
        if s.width == 1:
            return []
        load, condition = copied(s)
        if condition is not None and not known(condition, env):
            load = None
        places = [(x.buffer, x.subscripts) for x in (s, load) if x is not None]
        return [c for name, at in places for c in self.cells(name, at, env, (), ("a copy", ()))]

    def owner(self, buffer: str) -> tuple[int, ...]:
        """Which of the arrays of this name: each block or each thread has its own."""
        role = self.arrays[buffer].role
        if self.memory is None or role not in ("register", "shared"):
            return ()
        m = self.memory
        return (m.block,) if role == "shared" else (m.block, m.thread)
