"""The events of a loop nest, in the order of execution."""

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
    executed_reads,
    instance_text,
    integer,
    known_value,
    known_values,
    possible_indices,
    written_buffers,
)
from tc.poly.trace.launch import Arrival, launch
from tc.poly.trace.program_events import domain_box
from tc.poly.trace.replicas import Replicas
from tc.poly.trace.shared_memory import Memory
from tc.poly.trace.vector_copies import check_alignment, scalar_copies

_UNORDERED = (LoopKind.PARALLEL, LoopKind.VECTOR)


@dataclass(slots=True)
class Runner:
    """Runs a loop nest without data, and checks its copies, partial results and promoted elements.

    `copy_arrays` are arrays that have copies of elements: packs, registers, shared memory.  `partial_arrays`
    are arrays of partial results, with the buffers that these belong to, and `shift_arrays` those of the
    corrections for shifted packs.  Serial numbers of loops in order of execution are counted in `loop_count`.

    For a cell of a copy, `contents` are the elements from whose values its own is made, and `copies_of` is
    the inverse.  For a partial result, `contributions` are the instances in it.  For a result, `uncombined`
    is the number of instances that are only in partial results yet, `latest_copy` the copy that alone has its
    value, and `register_only` the promotion whose registers alone have it.  `memory` are the accesses in a
    launch.
    """

    program: Program
    nest: LoopNest
    sizes: dict[str, int]
    loop_count: int = 0
    vector_loops: set[int] = field(default_factory=set[int])
    stages: dict[str, Stage] = field(default_factory=dict[str, Stage])
    copy_arrays: set[str] = field(default_factory=set[str])
    contents: dict[Cell, frozenset[Cell]] = field(default_factory=dict[Cell, frozenset[Cell]])
    partial_arrays: dict[str, str] = field(default_factory=dict[str, str])
    copies_of: dict[Cell, set[Cell]] = field(default_factory=dict[Cell, set[Cell]])
    contributions: dict[Cell, list[Instance]] = field(default_factory=dict[Cell, list[Instance]])
    uncombined: dict[Cell, int] = field(default_factory=dict[Cell, int])
    active_promotions: list[tuple[int, frozenset[str]]] = field(
        default_factory=list[tuple[int, frozenset[str]]]
    )
    promotion_count: int = 0
    register_only: dict[Cell, int] = field(default_factory=dict[Cell, int])
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    boxes: dict[str, tuple[range, ...]] = field(default_factory=dict[str, tuple[range, ...]])
    latest_copy: dict[Cell, Cell] = field(default_factory=dict[Cell, Cell])
    replicas: Replicas = field(default_factory=Replicas)
    memory: Memory | None = None
    arrays: dict[str, Array] = field(default_factory=dict[str, Array])
    shift_arrays: frozenset[str] = frozenset()
    written_arrays: frozenset[str] = frozenset()

    def events(self) -> Iterator[Event]:
        self.stages = {s.name: s for s in self.program.stages}
        self.partial_arrays = {a.name: a.partial_of for a in self.nest.arrays if a.partial_of is not None}
        self.copy_arrays = {
            a.name
            for a in self.nest.arrays
            if a.role in ("private", "register", "shared") and a.partial_of is None and not a.shift
        }
        self.arrays = {a.name: a for a in self.nest.arrays}
        self.shift_arrays = frozenset(a.name for a in self.nest.arrays if a.shift)
        self.written_arrays = written_buffers(self.program) | self.copy_arrays | self.partial_arrays.keys()
        self.shapes = {a.name: tuple(integer(n, self.sizes) for n in a.shape) for a in self.nest.arrays}
        for e in self.run(self.nest.body, self.sizes, ()):
            if isinstance(e, Arrival):
                raise InternalError("a barrier outside of a launch")
            yield e
        for cell, place in self.latest_copy.items():
            if self.arrays[cell[0]].role == "output":
                raise OutOfBoundsError(f"only {place} has the value of {cell}, which is not stored")
        for cell, instances in self.contributions.items():
            self.check_not_lost(cell, instances)

    def run(
        self, s: Stmt, env: dict[str, int], iterations: tuple[tuple[int, int], ...]
    ) -> Iterator[Event | Arrival]:
        match s:
            case Block():
                for c in s.body:
                    yield from self.run(c, env, iterations)
            case For():
                self.loop_count += 1
                number = self.loop_count
                if s.kind is LoopKind.VECTOR:
                    self.vector_loops.add(number)
                for i in range(integer(s.lower, env), integer(s.upper, env), s.step):
                    inner = (*iterations, (number, i)) if s.kind in _UNORDERED else iterations
                    yield from self.run(s.body, {**env, s.var: i}, inner)
            case If():
                chosen = known_value(s.condition, env)
                if chosen is None:
                    raise OutOfBoundsError(
                        "data decide which statements run, not only which values they have"
                    )
                if chosen:
                    yield from self.run(s.then, env, iterations)
                elif s.otherwise is not None:
                    yield from self.run(s.otherwise, env, iterations)
            case Compute():
                for place in self.vector_starts(s, env):
                    check_alignment(place, s.width, self.arrays, self.shapes)
                if self.arrays[s.buffer].replicas:
                    yield Arrival(s)
                for element in scalar_copies(s):
                    event = self.execute(element, env, iterations)
                    if event is not None:
                        yield event
            case Promote():
                self.promotion_count += 1
                self.active_promotions.append((self.promotion_count, s.dead))
                yield from self.run(s.body, env, iterations)
                self.active_promotions.pop()
            case Prefetch():
                for read, inner in (x for e in s.subscripts for x in executed_reads(e, env)):
                    assert isinstance(read, Load)
                    self.cells(read.buffer, read.subscripts, inner, (), ("a hint", ()))
            case Launch():
                self.memory = Memory()
                body = s.body
                yield from launch(
                    s, env, self.memory, lambda at: self.run(body, at, iterations), self.combine_threads
                )
                self.memory = None
            case Combine() | Sync():
                yield Arrival(s)
            case _:
                unreachable(s)

    def execute(
        self, s: Compute, env: dict[str, int], iterations: tuple[tuple[int, int], ...]
    ) -> Event | None:
        """The event of an instance; None for statements that fill packs or partial results, combine these, or
        correct for the shift of a pack."""
        point = known_values(s.point, env)
        if point is None:
            point = tuple(integer(p, env) for p in s.point)
        instance = (s.stage, point)
        inside = self.memory is None or s.stage not in self.stages
        if not inside and self.is_outside_domain(self.stages[s.stage], point):
            self.execute_padding(s, env, instance)
            return None
        touched: set[Cell] = set()
        shift = s.buffer in self.shift_arrays
        for load, inner in executed_reads(s.value, env):
            assert isinstance(load, Load)
            found = self.cells(load.buffer, load.subscripts, inner, load.checked, instance)
            shift = shift or load.buffer in self.shift_arrays
            for c in found:
                self.access(c, instance, write=False)
                touched |= self.contents.get(c, {c}) if load.buffer in self.copy_arrays else {c}
        (write,) = self.cells(s.buffer, s.subscripts, env, (), instance)
        self.access(write, instance, write=True, atomic=s.atomic)
        self.check_register_values(s, touched, write, instance)
        if shift:  # concerns only values, which are not simulated
            return None
        if self.arrays[s.buffer].replicas and self.is_replicated_write(s, instance, touched, write):
            return None
        if s.buffer in self.copy_arrays:
            if s.stage in self.stages:  # the result is in a register or in shared memory
                result = self.result_cell(s, point)
                if s.op is not None and self.contents.get(write) != frozenset([result]):
                    raise OutOfBoundsError(
                        f"{instance_text(instance)} updates {write}, which does not hold {result}"
                    )
                self.invalidate_copies(result)
                self.set_contents(write, frozenset([result]))
                self.latest_copy[result] = write
                return Event(instance, frozenset(touched), result, s.op is not None, iterations)
            if not s.stage and any(c[0] in self.partial_arrays for c in touched):  # combined into the copy
                touched = {self.combine_into_copy(touched, write)}
            self.set_contents(write, frozenset(touched))
            if s.asynchronous and self.memory is not None:
                self.memory.in_flight.add(write)
            return None
        partial = self.partial_arrays.get(s.buffer)
        if s.stage not in self.stages:
            if partial is not None and s.op is None:
                self.check_not_lost(write, self.contributions.get(write, []))
                self.contributions[write] = []
                self.replicas.combined_into.pop(write, None)
            elif partial is not None:
                for c in touched:
                    self.contributions_to(write, instance).extend(self.contributions_to(c, instance))
                    del self.contributions[c]
            elif touched == {write}:  # a copy is written back
                self.latest_copy.pop(write, None)
            else:
                self.combine_into_result(s, touched, write)
                self.invalidate_copies(write)
            return None
        if partial is not None:  # each lane has its own element
            self.contributions_to(write, instance).append(instance)
            write = self.result_cell(s, point)
            self.uncombined[write] = self.uncombined.get(write, 0) + 1
            iterations = tuple(i for i in iterations if i[0] not in self.vector_loops)
        else:  # copies of a result with partial results become stale only when these are combined
            self.invalidate_copies(write)
        return Event(instance, frozenset(touched), write, s.op is not None, iterations)

    def is_replicated_write(self, s: Compute, instance: Instance, touched: set[Cell], write: Cell) -> bool:
        """Whether a write to a replicated element is one that another thread has already made to its replica.

        Before an update each replica must have the previous value; a partial result must have been combined
        for all threads.
        """
        is_stage = s.stage in self.stages
        outdated = self.replicas.outdated.get(write)
        contents_before = self.contents.get(write) or frozenset(x for x in [outdated] if x is not None)
        if not is_stage and len(contents_before) != 1:
            raise OutOfBoundsError(f"parts go into {write}, which holds {sorted(contents_before)}")
        result = self.result_cell(s, instance[1]) if is_stage else next(iter(contents_before))
        parts = frozenset(self.replicas.final_part(c) for c in touched if c[0] in self.partial_arrays)
        replicas_of_result = {c for c in self.copies_of.get(result, ()) if self.arrays[c[0]].replicas} - {
            write
        }
        others = (c for c in replicas_of_result if result in self.contents.get(c, ()))
        if self.replicas.is_first(result, (id(s), instance, parts), others):
            return False
        if s.op is not None and outdated != result:
            raise OutOfBoundsError(f"{instance_text(instance)} updates {write}, which does not hold {result}")
        self.replicas.outdated.pop(write, None)
        self.set_contents(write, frozenset([result]))
        return True

    def is_outside_domain(self, stage: Stage, point: tuple[int, ...]) -> bool:
        """Whether a point is not in the iteration domain of a stage."""
        box = self.boxes.get(stage.name)
        if box is None:
            box = self.boxes[stage.name] = domain_box(stage, self.sizes)
        if any(p not in along for p, along in zip(point, box, strict=True)):
            return True
        env = {**self.sizes, **dict(zip(stage.domain.names, point, strict=True))}
        return any(known_value(c, env) == 0 for c in stage.domain.conditions)

    def execute_padding(self, s: Compute, env: dict[str, int], instance: Instance) -> None:
        """Execute an instance outside of the iteration domain, as partial tiles do.

        It may read only copies and registers, of any value.  What it writes is a copy of nothing, and a
        partial result that it contributes to must not be used.
        """
        what = f"{instance_text(instance)}, which the program does not have,"
        for load, inner in executed_reads(s.value, env):
            assert isinstance(load, Load)
            if load.buffer not in self.copy_arrays or load.checked:
                raise OutOfBoundsError(f"{what} reads {load.buffer}")
            for c in self.cells(load.buffer, load.subscripts, inner, (), instance):
                self.access(c, instance, write=False)
        (write,) = self.cells(s.buffer, s.subscripts, env, (), instance)
        if s.buffer in self.partial_arrays and s.op is not None:
            self.contributions_to(write, instance).append(instance)
            return
        if s.buffer not in self.copy_arrays:
            raise OutOfBoundsError(f"{what} writes {write}")
        self.access(write, instance, write=True)
        self.set_contents(write, frozenset())

    def access(self, cell: Cell, instance: Instance, *, write: bool, atomic: bool = False) -> None:
        """An access to memory, checked for races with other threads; a read must not be of a stale
        element."""
        role = self.arrays[cell[0]].role
        if self.memory is not None and role != "register":
            self.memory.access(cell, instance, write=write, atomic=atomic)
        if write:
            return
        if self.uncombined and any(self.uncombined.get(c, 0) for c in (cell, *self.contents.get(cell, ()))):
            raise OutOfBoundsError(
                f"{instance_text(instance)} reads {cell}, of which parts are still to be combined"
            )
        if cell in self.latest_copy:
            raise OutOfBoundsError(
                f"{instance_text(instance)} reads {cell}, whose value is in {self.latest_copy[cell]}"
            )

    def set_contents(self, cell: Cell, values: frozenset[Cell]) -> None:
        """`cell` becomes a copy of the present values of these elements; without any it must not be used."""
        self.contents.pop(cell, None)
        if values:
            self.contents[cell] = values
        for v in values:
            self.copies_of.setdefault(v, set()).add(cell)

    def combine_threads(self, s: Combine, threads: Sequence[tuple[int, int]]) -> None:
        """Combine the partial results in registers of several threads into those of one.  `threads` are pairs
        of a thread and the thread that gets its group's result."""
        assert self.memory is not None
        block = self.memory.block
        shape = self.shapes[s.buffer]
        for position in itertools.product(*map(range, shape)):
            for thread, head in threads:
                if thread != head:
                    own, first = ((s.buffer, (block, t, *position)) for t in (thread, head))
                    if (own in self.contributions) != (first in self.contributions):
                        raise OutOfBoundsError(f"{s.buffer} is combined, which has no first value")
                    if own in self.contributions:
                        self.contributions[first].extend(self.contributions.pop(own))
                    if s.everywhere:
                        self.replicas.combined_into[own] = first

    def contributions_to(self, cell: Cell, at: Instance) -> list[Instance]:
        """The instances in a partial result."""
        if cell not in self.contributions:
            raise OutOfBoundsError(
                f"{instance_text(at)} uses the partial result {cell}, which has no first value"
            )
        return self.contributions[cell]

    def check_not_lost(self, cell: Cell, instances: list[Instance]) -> None:
        """Raises OutOfBoundsError if instances of the program are in a partial result that is discarded."""
        for stage, point in instances:
            if not self.is_outside_domain(self.stages[stage], point):
                raise OutOfBoundsError(
                    f"{instance_text((stage, point))} went into the partial result {cell}, which is lost"
                )

    def invalidate_copies(self, written: Cell) -> None:
        """The copies of an element become stale."""
        for c in self.copies_of.pop(written, ()):
            if written in self.contents.get(c, ()):
                del self.contents[c]
        self.latest_copy.pop(written, None)

    def check_register_values(self, s: Compute, touched: set[Cell], write: Cell, at: Instance) -> None:
        """Check that an instance reads no element whose value was only in registers of a promotion that has
        ended, and record what is written only to registers."""
        if self.register_only:
            active = {number for number, _ in self.active_promotions}
            for c in touched | ({write} if s.op is not None else set[Cell]()):
                if c in self.register_only and self.register_only[c] not in active:
                    raise OutOfBoundsError(
                        f"{instance_text(at)} reads {c}, which was in registers and not stored"
                    )
            self.register_only.pop(write, None)
        for number, dead in reversed(self.active_promotions):
            if write[0] in dead:
                self.register_only[write] = number
                break

    def result_cell(self, s: Compute, point: tuple[int, ...]) -> Cell:
        """The element that an instance updates, directly or through a partial result."""
        stage = self.stages[s.stage]
        at = dict(zip(stage.domain.names, point, strict=True))
        buffer = self.program.func_buffers[stage.func]
        box = self.program.buffer(buffer).box
        return buffer, tuple(
            integer(a, {**self.sizes, **at}) - integer(r.min, self.sizes)
            for a, r in zip(stage.args, box, strict=True)
        )

    def result_cells(self, parts: Sequence[Instance]) -> set[Cell]:
        """The elements to which the results of these instances belong."""
        for stage, point in parts:
            if self.is_outside_domain(self.stages[stage], point):
                raise OutOfBoundsError(
                    f"{instance_text((stage, point))}, which the program does not have, is in a result"
                )
        return {self.result_cell(Compute(n, "", (), None, IntImm(0), (), ""), point) for n, point in parts}

    def combine_into_copy(self, touched: set[Cell], write: Cell) -> Cell:
        """Combine a partial result into a copy of the element that it belongs to, and return that element."""
        (cell,) = touched
        parts = self.contributions_to(cell, ("", ()))
        results = self.result_cells(parts)
        contents_before = self.contents.get(write, frozenset())
        if len(contents_before) != 1 or not results <= contents_before:
            raise OutOfBoundsError(
                f"parts of {sorted(results)} go into {write}, which holds {sorted(contents_before)}"
            )
        del self.contributions[cell]
        (result,) = contents_before
        self.uncombined[result] = self.uncombined.get(result, 0) - len(parts)
        self.invalidate_copies(result)
        self.latest_copy[result] = write
        return result

    def combine_into_result(self, s: Compute, touched: set[Cell], write: Cell) -> None:
        """Combine partial results into an element, to which all their contributions must belong."""
        for c in touched:
            parts = self.contributions_to(c, (s.stage, ()))
            del self.contributions[c]
            if others := self.result_cells(parts) - {write}:
                raise OutOfBoundsError(f"parts of {sorted(others)} go into {write}")
            self.uncombined[write] = self.uncombined.get(write, 0) - len(parts)

    def cells(
        self,
        buffer: str,
        subscripts: Sequence[Expr],
        env: dict[str, int],
        checked: tuple[int, ...],
        at: Instance,
    ) -> list[Cell]:
        shape = self.shapes[buffer]
        place = known_values(subscripts, env)
        if place is not None and all(0 <= v < size for v, size in zip(place, shape, strict=True)):
            return [(buffer, (*self.owner_indices(buffer), *place))]
        if any(shape[d] == 0 for d in checked):  # no subscript passes
            return []
        choices: list[Sequence[int]] = []
        for d, (e, size) in enumerate(zip(subscripts, shape, strict=True)):
            v = known_value(e, env)
            if v is None:
                choices.append(possible_indices(size, buffer in self.written_arrays))
            elif 0 <= v < size:
                choices.append([v])
            elif d in checked:
                return []
            else:
                raise OutOfBoundsError(
                    f"{instance_text(at)} accesses {buffer} at {v} in dimension {d}, whose extent is {size}"
                )
        return [
            (buffer, (*self.owner_indices(buffer), *position)) for position in itertools.product(*choices)
        ]

    def vector_starts(self, s: Compute, env: dict[str, int]) -> list[Cell]:
        """The first elements that a vector copy reads and writes."""
        if s.width == 1:
            return []
        load, condition = copied(s)
        if condition is not None and not known_value(condition, env):
            load = None
        places = [(x.buffer, x.subscripts) for x in (s, load) if x is not None]
        return [c for name, at in places for c in self.cells(name, at, env, (), ("a copy", ()))]

    def owner_indices(self, buffer: str) -> tuple[int, ...]:
        """The block, and the thread, whose own array of this name is accessed."""
        role = self.arrays[buffer].role
        if self.memory is None or role not in ("register", "shared"):
            return ()
        m = self.memory
        return (m.block,) if role == "shared" else (m.block, m.thread)
