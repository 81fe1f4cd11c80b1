"""Programs to tapes: which version each statement defines and reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from tc.autodiff.cut_ranges import cut
from tc.autodiff.fibres import in_box
from tc.autodiff.index_conditions import reduced
from tc.autodiff.loops import Loop, boxed, counters, facts, following, hull, ranges
from tc.autodiff.settled import settled
from tc.autodiff.tape import Definition, Tape, Version, mapped, reads
from tc.ir import program as ir
from tc.ir.expr import (
    ONE,
    ZERO,
    Add,
    Call,
    Expr,
    Max,
    Min,
    Mul,
    Variable,
    inline_lets,
    rebuild,
    substitute,
    walk,
)
from tc.ir.lower import neutral
from tc.ir.program import Box, Buffer, Domain, IterVar, Op, Program, Range, Stage
from tc.ir.simplify import simplify
from tc.poly.overwrites import Overwrites


def tape(program: Program) -> Tape:
    """The tape of a program."""
    return _Recorder(program).run()


@dataclass(slots=True)
class _State:
    """The version of a buffer that statements define or read in hand, at `iteration` of the loops that count
    in its first dimensions."""

    version: str
    iteration: tuple[Expr, ...] = ()
    read: bool = False
    updates: Op | None = None  # of the statements that add to it
    reduced: bool = False  # it is a reduction from its neutral element


class _Recorder:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.states: dict[str, _State] = {}
        self.versions: dict[str, Version] = {}
        self.definitions: list[Definition] = []
        self.count: dict[str, int] = {}
        self.around: tuple[Loop, ...] = ()
        self.overwrites = Overwrites.of(program) if program.loops else None
        self.held: dict[str, bool] = {}  # buffers that are written in place -> whether each element once

    def run(self) -> Tape:
        for b in self.program.buffers:
            if b.role == "input" or b.inout:
                self._begin(b, "input")
        self._block(self.program.stages)
        self._complete_values()
        outputs = tuple(map(self._returned, self.program.outputs))
        names = self._names(outputs)
        versions = {
            names[v.name]: replace(v, name=names[v.name], role="output" if v.name in outputs else v.role)
            for v in self.versions.values()
        }
        definitions = tuple(_renamed(d, names) for d in self.definitions)
        return Tape(versions, definitions, tuple(names[o] for o in outputs), self.program.sizes)

    def _returned(self, name: str) -> str:
        """The version that a program returns, which is no iteration of one."""
        state = self.states[name]
        if state.iteration:
            self._start(self.program.buffer(name), state)
        return self.states[name].version

    def _names(self, outputs: Sequence[str]) -> dict[str, str]:
        """The last version of a tensor has its name, others a number behind it."""
        taken = {b.name for b in self.program.buffers} | set(self.program.sizes)
        taken |= {s.name for s in self.program.scalars}
        last = {self.states[v.tensor].version for v in self.versions.values()} | set(outputs)
        names: dict[str, str] = {}
        for v in self.versions.values():
            name = v.tensor
            if v.name not in last:
                k = 1
                while (name := f"{v.tensor}_{k}") in taken:
                    k += 1
            taken.add(name)
            names[v.name] = name
        return names

    # ---- blocks and loops

    def _block(self, stages: Sequence[Stage]) -> None:
        """The stages of a program, or of an iteration of the loops around."""
        depth = len(self.around)
        looped = [s for s in stages if len(s.loops) > depth]
        held = [b for b in self._written(looped) if b not in self.held and self._hold(b, stages)]
        for loop, run in _runs(stages, depth):
            if loop is None:
                for s, following in zip(run, [*run[1:], None], strict=True):
                    self._stage(s, following)
            else:
                self._loop(Loop(loop.name, loop.trips), run)
        self._release(held)

    def _hold(self, buffer: str, stages: Sequence[Stage]) -> bool:
        """Write a buffer in place in these stages, if they keep what is read of it."""
        depth, names = len(self.around), [s.name for s in stages]
        own = [k for k, s in enumerate(stages) if self._buffer(s).name == buffer]
        combines = [k for k in own if stages[k].op not in (None, "+")]
        if any(not (k and stages[k - 1].init and stages[k - 1].func == stages[k].func) for k in combines):
            return False  # it reads the element that it combines with
        assert self.overwrites is not None
        if not self.overwrites.kept(buffer, names, depth):
            return False
        once = self.overwrites.once(buffer, names, depth)
        defines = any(stages[k].op is None for k in own)
        self.held[buffer] = once and not (buffer in self.states and defines)
        return True

    def _release(self, held: Collection[str]) -> None:
        for b in held:
            del self.held[b]
            if b in self.states:
                self.states[b].read = True  # what writes it now makes another version

    def _loop(self, loop: Loop, stages: Sequence[Stage]) -> None:
        outside = self.around
        held: list[str] = []
        carried: list[tuple[Buffer, Version]] = []
        for name in self._written(stages):
            b = self.program.buffer(name)
            if name not in self.held:
                if self._is_local(b, stages):
                    self.states.pop(name, None)
                    continue
                if not self._hold(name, stages):
                    carried.append((b, self._carry(b, loop)))
                    continue
                held.append(name)
            if not self._in_hand(name):
                self._start(b, self.states.get(name))
        self.around = (*outside, loop)
        for b, v in carried:
            self.states[b.name] = _State(v.name, counters(self.around), read=True)
        self._block(stages)
        for b, v in carried:
            state = self.states[b.name]
            if state.version != v.name:
                self._copy(v.name, (*counters(outside), following(loop.at)), b, state)
        self.around = outside
        for b, v in carried:
            self.states[b.name] = _State(v.name, (*counters(outside), loop.trips), read=True)
        self._release(held)

    def _carry(self, b: Buffer, loop: Loop) -> Version:
        """A version with what a buffer has at the start of each iteration of a loop, and after the last."""
        older = self.states.get(b.name)
        name = self._begin(b, "temporary")
        times = Range(ZERO, following(hull(loop.trips, self.around)))
        box = (*ranges(self.around), times, *b.box)
        v = self.versions[name] = replace(self.versions[name], box=box, carrier=loop)
        start = (*counters(self.around), ZERO)
        if older is not None:
            self._copy(name, start, b, older)
        else:  # nothing that is read, but the first iteration starts from it
            domain = _elements(b)
            self._add(Definition(name, (*start, *_names_of(domain)), None, neutral("+", b.dtype), domain))
        return v

    def _is_local(self, b: Buffer, stages: Sequence[Stage]) -> bool:
        """Whether each iteration of a loop defines a buffer anew before it reads it, and nothing after the
        loop reads it."""
        assert self.overwrites is not None
        if b.role == "output" or not self.overwrites.anew(
            b.name, [s.name for s in stages], len(self.around) + 1
        ):
            return False
        position = self.program.stages.index(stages[-1])
        for s in self.program.stages[position + 1 :]:
            if self._reads(s, b) or (self._buffer(s) == b and not _defines(s, b)):
                return False
            if self._touches(s, b):
                break
        start = self.program.stages.index(stages[0])
        return not self.around or not any(self._reads(s, b) for s in self.program.stages[:start])

    def _buffer(self, s: Stage) -> Buffer:
        return self.program.buffer(self.program.func(s.func).buffer)

    def _written(self, stages: Sequence[Stage]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._buffer(s).name for s in stages))

    def _reads(self, s: Stage, b: Buffer) -> bool:
        return any(self._read_buffer(e) == b.name for e in reads(s))

    def _read_buffer(self, e: Call) -> str:
        return e.name if e.kind == "image" else self.program.func(e.name).buffer

    def _touches(self, s: Stage, b: Buffer) -> bool:
        return self._buffer(s) == b or self._reads(s, b)

    # ---- versions

    def _begin(self, b: Buffer, role: Literal["input", "temporary"]) -> str:
        k = self.count[b.name] = self.count.get(b.name, -1) + 1
        box = (*ranges(self.around), *b.box)
        held = self.held.get(b.name)
        version = Version(
            f"{b.name}.{k}", b.name, b.dtype, box, role, self.around,
            in_place=held is not None and role != "input", once=held is not False,
        )  # fmt: skip
        self.versions[version.name] = version
        self.states[b.name] = _State(version.name, counters(self.around), read=role == "input")
        return version.name

    def _in_hand(self, buffer: str) -> bool:
        """Whether the version in hand of a buffer is the one that is written in place."""
        state = self.states.get(buffer)
        return state is not None and self.versions[state.version].in_place and not state.read

    def _start(self, b: Buffer, older: _State | None) -> str:
        """A version that starts from an older one."""
        name = self._begin(b, "temporary")
        if older is not None:
            self._copy(name, counters(self.around), b, older)
        return name

    def _copy(self, target: str, iteration: tuple[Expr, ...], b: Buffer, older: _State) -> None:
        """Define an iteration of a version by an older version."""
        self._complete(b, older.version)
        domain = _elements(b)
        args = _names_of(domain)
        value = Call(older.version, (*older.iteration, *args), b.dtype, "func")
        self._add(Definition(target, (*iteration, *args), None, value, domain))

    def _complete(self, b: Buffer, version: str) -> None:
        """Give all elements of a version a value, of which not all may have been defined."""
        v = self.versions[version]
        own = [k for k, d in enumerate(self.definitions) if d.target == version]
        if v.role == "input" or v.carrier or not own or any(_covers(self.definitions[k], v) for k in own):
            return
        domain = _elements(b)
        args = (*counters(v.loops), *_names_of(domain))
        zero = Definition(version, args, None, neutral("+", b.dtype), domain, loops=v.loops)
        self.definitions.insert(self._before_loop(own[0], v.loops), zero)

    def _complete_values(self) -> None:
        """Give all elements of what arg-reductions compute a value.  They define, and read, those where their
        conditions hold; a def may leave none undefined."""
        for v in list(self.versions.values()):
            own = [d for d in self.definitions if d.target == v.name]
            if v.role == "temporary" and len(own) == 1 and own[0].op is None and own[0].domain.conditions:
                self._complete(self.program.buffer(v.tensor), v.name)

    def _before_loop(self, k: int, around: tuple[Loop, ...]) -> int:
        """The place of a definition, or of the loop that it is in within those around."""
        inner = self.definitions[k].loops[: len(around) + 1]
        while inner != around and k and self.definitions[k - 1].loops[: len(inner)] == inner:
            k -= 1
        return k

    def _add(self, d: Definition) -> None:
        self.definitions.append(replace(d, loops=self.around))

    # ---- statements

    def _stage(self, s: Stage, following: Stage | None) -> None:
        if self.program.loops:
            s = _without_single(s)
        s = replace(s, value=settled(s.value, s.domain, self.program.sizes, self.around))
        buffer = self.program.buffer(self.program.func(s.func).buffer)
        value, args = self._read(s.value, buffer.name), tuple(self._read(a, buffer.name) for a in s.args)
        conditions = tuple(self._read(c, buffer.name) for c in s.domain.conditions)
        domain = replace(s.domain, conditions=conditions)
        if buffer.name in self.held and not self._in_hand(buffer.name):
            self._start(buffer, self.states.get(buffer.name))
        state = self.states.get(buffer.name)
        d = Definition("", args, s.op, value, domain, s.init, span=s.span)
        if state is not None and buffer.name in self.held:
            if s.op not in (None, "+"):
                self._reduced_into(buffer, state, d)
            elif not (s.init and _reduces_into(following, s.func)):  # that starts from its neutral element
                self._add(_onto(d, state))
            return
        own = state is not None and any(
            isinstance(e, Call) and e.name == state.version for r in (value, *args) for e in walk(r)
        )
        if s.op is None:
            covers = _defines(d, buffer) and not own
            if state is None or state.read or own or state.updates is not None:
                self._version(buffer, state if not covers or own else None, d)
            else:
                self._add(_onto(d, state))
            if s.init:
                self.states[buffer.name].reduced = True
            return
        if s.op == "+" and not own and state is not None and not state.read and state.updates in (None, "+"):
            state.updates = "+"
            self._add(_onto(d, state))
            return
        if state is not None and state.reduced and state.updates is None and not state.read and not own:
            state.updates = s.op
            self._add(_onto(d, state))
            return
        if s.op == "+":
            assert state is not None
            self._start(buffer, state)
            self._add(_onto(d, self.states[buffer.name]))
            self.states[buffer.name].updates = "+"
        else:
            self._combined(buffer, state, d)

    def _version(self, b: Buffer, older: _State | None, d: Definition) -> None:
        """A version that starts from `d`, and elsewhere from an older one."""
        if older is not None and not _defines(d, b):
            self._start(b, older)
            d = self._within(d, b.box)
        else:
            self._start(b, None)
        self._add(_onto(d, self.states[b.name]))

    def _within(self, d: Definition, box: Box) -> Definition:
        """A definition with ranges that are seen to be in a box.  Those of the program are, for the sizes
        that it takes, but behind the copy of an older version they could be parts of a larger tensor."""
        sizes = (*self.program.sizes, *(loop.name for loop in self.around))

        def left(conditions: Sequence[Expr], ranges: Sequence[IterVar]) -> tuple[Expr, ...] | None:
            return reduced(conditions, ranges, sizes, facts(self.around))

        outside = left(in_box(d.args, box), d.domain.vars)
        if not outside:
            return d
        domain = cut(Domain(d.domain.vars, outside), left, may_be_empty=True)
        return replace(d, domain=Domain(domain.vars, d.domain.conditions))

    def _combined(self, b: Buffer, state: _State | None, d: Definition) -> None:
        """`x op= value` onto elements that are not neutral, or that were read: the reduction by itself, then
        its combination with what was there."""
        assert state is not None
        assert d.op is not None
        reduced = any(v.kind == "reduction" for v in d.domain.vars)
        domain, at = _written(d, b)
        value = self._part(b, d) if reduced or d.scatters or d.domain.conditions else d.value
        before = Call(state.version, (*state.iteration, *at), b.dtype, "func")
        whole = replace(d, args=at, op=None, value=_combine(d.op, before, value), domain=domain)
        self._version(b, _State(state.version, state.iteration), whole)

    def _reduced_into(self, b: Buffer, state: _State, d: Definition) -> None:
        """A reduction from its neutral element into elements that are written in place: by itself, so that
        its value is known, whatever is added to them."""
        value = self._part(b, d)
        self.states[b.name] = state
        self._add(_onto(replace(d, op=None, value=value, domain=_pure(d)), state))

    def _part(self, b: Buffer, d: Definition) -> Expr:
        """A reduction as a version of its own; of one whose elements data choose all of them."""
        assert d.op is not None
        pure, _ = _written(d, b)
        part = self._begin(b, "temporary")
        box = (*ranges(self.around), *(v.range for v in boxed(pure, self.around).vars))
        self.versions[part] = replace(self.versions[part], box=box, in_place=False, once=True)
        at = (*counters(self.around), *_names_of(pure))
        args = (*counters(self.around), *d.args) if d.scatters else at
        self._add(Definition(part, at, None, neutral(d.op, b.dtype), pure, True, span=d.span))
        self._add(replace(d, target=part, args=args))
        return Call(part, at, b.dtype, "func")

    def _read(self, e: Expr, target: str) -> Expr:
        """An expression with versions for names; other tensors than the target count as read."""
        e = inline_lets(e)

        def visit(e: Expr) -> Expr:
            e = rebuild(e, visit)
            if isinstance(e, Call) and e.kind != "intrinsic":
                buffer = self._read_buffer(e)
                state = self.states[buffer]
                if buffer != target and buffer not in self.held:
                    state.read = True
                args = (*state.iteration, *e.args)
                return replace(e, name=state.version, args=args, kind="func", checked=(), site=-1)
            return e

        return visit(e)


def _combine(op: Op, a: Expr, b: Expr) -> Expr:
    match op:
        case "+":
            return Add(a, b)
        case "*":
            return Mul(a, b)
        case "min":
            return Min(a, b)
        case "max":
            return Max(a, b)


def _reduces_into(s: Stage | None, func: str) -> bool:
    """Whether a stage is an extreme or a product into a version."""
    return s is not None and s.func == func and s.op not in (None, "+")


def _elements(b: Buffer) -> Domain:
    """All elements of a buffer."""
    return Domain(tuple(IterVar(f"{b.name}_{k}", r, "pure") for k, r in enumerate(b.box)))


def _pure(d: Definition) -> Domain:
    return Domain(tuple(v for v in d.domain.vars if v.kind == "pure"))


def _written(d: Definition, b: Buffer) -> tuple[Domain, tuple[Expr, ...]]:
    """The elements that a definition writes, of a scatter all of a buffer, and their subscripts."""
    domain = _elements(b) if d.scatters else _pure(d)
    return domain, _names_of(domain) if d.scatters else d.args


def _names_of(domain: Domain) -> tuple[Expr, ...]:
    return tuple(Variable(v.name) for v in domain.vars)


def _without_single(s: Stage) -> Stage:
    """A stage without the variables that have one value: `h(0,i) = …`, not `h(j,i) = … where j in 0:1`."""
    at = {v.name: v.range.min for v in s.domain.vars if simplify(v.range.extent, exact=True) == ONE}
    if not at:
        return s
    domain = Domain(
        tuple(v for v in s.domain.vars if v.name not in at),
        tuple(substitute(c, at) for c in s.domain.conditions),
    )
    args = tuple(simplify(substitute(a, at), exact=True) for a in s.args)
    return replace(s, args=args, value=substitute(s.value, at), domain=domain)


def _onto(d: Definition, state: _State) -> Definition:
    return replace(d, target=state.version, args=(*state.iteration, *d.args))


def _runs(stages: Sequence[Stage], depth: int) -> Iterator[tuple[ir.Loop | None, list[Stage]]]:
    """Runs of stages in the same loop of this depth, or in none."""
    for loop, run in groupby(stages, lambda s: s.loops[depth] if len(s.loops) > depth else None):
        yield loop, list(run)


def _defines(d: Definition | Stage, b: Buffer) -> bool:
    """Whether a definition without counters, or a stage, defines each element of a buffer."""
    return d.op is None and _is_whole(d.args, d.domain, b.box)


def _covers(d: Definition, v: Version) -> bool:
    """Whether a definition is of every element of a version, in its iteration."""
    return d.op is None and d.loops == v.loops and _is_whole(d.args[v.lead :], d.domain, v.own)


def _is_whole(args: Sequence[Expr], domain: Domain, box: Box) -> bool:
    found = {v.name: v.range for v in domain.vars}
    if domain.conditions or len({a.name for a in args if isinstance(a, Variable)}) < len(args):
        return False
    for a, r in zip(args, box, strict=True):
        if not isinstance(a, Variable) or a.name not in found:
            return False
        own = found[a.name]
        for x, y in ((own.min, r.min), (own.extent, r.extent)):
            if simplify(x, exact=True) != simplify(y, exact=True):
                return False
    return True


def _renamed(d: Definition, names: Mapping[str, str]) -> Definition:
    def visit(e: Expr) -> Expr:
        e = rebuild(e, visit)
        return replace(e, name=names[e.name]) if isinstance(e, Call) and e.name in names else e

    return replace(mapped(d, visit), target=names[d.target])
