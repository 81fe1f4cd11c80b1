"""A program as a tape: versions of tensors, each defined by statements that are never revised.

Reverse-mode differentiation goes over the tape from its end.  In a program a statement may redefine elements
that others have read; on the tape it defines another version.  A version is defined by `=` statements, of
which the later ones win, and then by sums onto them.  A product or an extreme is one reduction from its
neutral element, and what combines it with older elements is a statement of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tc.dtypes import DType
from tc.errors import SemanticError, Span
from tc.ir.expr import Add, Call, Expr, Max, Min, Mul, Variable, inline_lets, rebuild, walk
from tc.ir.lower import neutral
from tc.ir.program import Box, Buffer, Domain, IterVar, Op, Program, Stage
from tc.ir.simplify import simplify


@dataclass(frozen=True, slots=True)
class Version:
    """A state of a tensor.  `role`: `input` what the caller passes, `output` what a program returns,
    `temporary` all others."""

    name: str
    tensor: str
    dtype: DType
    box: Box
    role: Literal["input", "output", "temporary"]


@dataclass(frozen=True, slots=True)
class Definition:
    """`target(args) op= value` for all points of the domain, whose pure variables are those of `args`."""

    target: str
    args: tuple[Expr, ...]
    op: Op | None
    value: Expr
    domain: Domain
    neutral: bool = False  # the neutral element, from which the next definition reduces
    arg: Literal["argmin", "argmax"] | None = None  # in place of `op`: where the extreme is
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Tape:
    """Versions by name, and their definitions in order.  `facts` are known of the sizes."""

    versions: Mapping[str, Version]
    definitions: tuple[Definition, ...]
    outputs: tuple[str, ...]  # of the program, in order
    sizes: tuple[str, ...]
    facts: tuple[Expr, ...] = ()

    def of(self, version: str) -> tuple[Definition, ...]:
        return tuple(d for d in self.definitions if d.target == version)


def reads(d: Definition) -> Iterator[Call]:
    """The reads of tensors in a definition."""
    for root in (*d.args, d.value, *d.domain.conditions):
        for e in walk(root):
            if isinstance(e, Call) and e.kind != "intrinsic":
                yield e


def tape(program: Program) -> Tape:
    """The tape of a program without sequential loops."""
    return _Recorder(program).run()


@dataclass(slots=True)
class _State:
    """The version of a buffer that statements define or read in hand."""

    version: str
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

    def run(self) -> Tape:
        for b in self.program.buffers:
            if b.role == "input" or b.inout:
                self._begin(b, "input")
        for s in self.program.stages:
            self._stage(s)
        outputs = tuple(self.states[name].version for name in self.program.outputs)
        names = self._names(outputs)
        versions = {
            names[v.name]: replace(v, name=names[v.name], role="output" if v.name in outputs else v.role)
            for v in self.versions.values()
        }
        definitions = tuple(_renamed(d, names) for d in self.definitions)
        return Tape(versions, definitions, tuple(names[o] for o in outputs), self.program.sizes)

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

    def _begin(self, b: Buffer, role: Literal["input", "temporary"]) -> str:
        k = self.count[b.name] = self.count.get(b.name, -1) + 1
        version = Version(f"{b.name}.{k}", b.name, b.dtype, b.box, role)
        self.versions[version.name] = version
        self.states[b.name] = _State(version.name, read=role == "input")
        return version.name

    def _stage(self, s: Stage) -> None:
        buffer = self.program.buffer(self.program.func(s.func).buffer)
        value, args = self._read(s.value, buffer.name), tuple(self._read(a, buffer.name) for a in s.args)
        conditions = tuple(self._read(c, buffer.name) for c in s.domain.conditions)
        domain = replace(s.domain, conditions=conditions)
        state = self.states.get(buffer.name)
        own = state is not None and any(
            isinstance(e, Call) and e.name == state.version for r in (value, *args) for e in walk(r)
        )
        d = Definition("", args, s.op, value, domain, s.init, span=s.span)
        if s.op is None:
            covers = _covers(d, buffer.box) and not own
            if state is None or state.read or own or state.updates is not None:
                self._version(buffer, state if not covers or own else None, d)
            else:
                self.definitions.append(replace(d, target=state.version))
            if s.init:
                self.states[buffer.name].reduced = True
            return
        if s.op == "+" and not own and state is not None and not state.read and state.updates in (None, "+"):
            state.updates = "+"
            self.definitions.append(replace(d, target=state.version))
            return
        if state is not None and state.reduced and state.updates is None and not state.read and not own:
            state.updates = s.op
            self.definitions.append(replace(d, target=state.version))
            return
        if s.op == "+":
            assert state is not None
            name = self._begin(buffer, "temporary")
            self.definitions += [_copy(name, state.version, buffer), replace(d, target=name)]
            self.states[buffer.name].updates = "+"
        else:
            self._combined(buffer, state, d)

    def _version(self, b: Buffer, older: _State | None, d: Definition) -> None:
        """A version that starts from `d`, and elsewhere from an older one."""
        name = self._begin(b, "temporary")
        if older is not None and not _covers(d, b.box):
            self.definitions.append(_copy(name, older.version, b))
        self.definitions.append(replace(d, target=name))

    def _combined(self, b: Buffer, state: _State | None, d: Definition) -> None:
        """`x op= value` onto elements that are not neutral, or that were read: the reduction by itself, then
        its combination with what was there."""
        assert state is not None
        assert d.op is not None
        if any(isinstance(e, Call) and e.kind != "intrinsic" for a in d.args for e in walk(a)):
            raise SemanticError(
                f"'{d.op}=' into elements that data choose has no derivative here",
                d.span,
                code="TC0241",
                help="write the gradient yourself; of '+=' there is one",
            )
        old = state.version
        reduced = [v for v in d.domain.vars if v.kind == "reduction"]
        value = d.value
        pure = Domain(tuple(v for v in d.domain.vars if v.kind == "pure"), ())
        if reduced or d.domain.conditions:
            part = self._begin(b, "temporary")
            box = tuple(v.range for v in pure.vars)
            self.versions[part] = replace(self.versions[part], box=box)
            zero = Definition(part, _names_of(pure), None, neutral(d.op, b.dtype), pure, True, span=d.span)
            self.definitions += [zero, replace(d, target=part, args=_names_of(pure))]
            value = Call(part, _names_of(pure), b.dtype, "func")
        before = Call(old, d.args, b.dtype, "func")
        whole = replace(d, op=None, value=_combine(d.op, before, value), domain=pure)
        self._version(b, _State(old), whole)

    def _read(self, e: Expr, target: str) -> Expr:
        """An expression with versions for names; other tensors than the target count as read."""
        e = inline_lets(e)

        def visit(e: Expr) -> Expr:
            e = rebuild(e, visit)
            if isinstance(e, Call) and e.kind != "intrinsic":
                buffer = e.name if e.kind == "image" else self.program.func(e.name).buffer
                state = self.states[buffer]
                if buffer != target:
                    state.read = True
                return replace(e, name=state.version, kind="func", checked=(), site=-1)
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


def _names_of(domain: Domain) -> tuple[Expr, ...]:
    return tuple(Variable(v.name) for v in domain.vars)


def _copy(target: str, source: str, b: Buffer) -> Definition:
    variables = tuple(IterVar(f"{b.name}_{k}", r, "pure") for k, r in enumerate(b.box))
    domain = Domain(variables)
    args = _names_of(domain)
    return Definition(target, args, None, Call(source, args, b.dtype, "func"), domain)


def _covers(d: Definition, box: Box) -> bool:
    """Whether a definition is of every element of a box."""
    ranges = {v.name: v.range for v in d.domain.vars}
    if d.domain.conditions:
        return False
    for a, r in zip(d.args, box, strict=True):
        if not isinstance(a, Variable) or a.name not in ranges:
            return False
        own = ranges[a.name]
        for x, y in ((own.min, r.min), (own.extent, r.extent)):
            if simplify(x, exact=True) != simplify(y, exact=True):
                return False
    return True


def _renamed(d: Definition, names: Mapping[str, str]) -> Definition:
    def visit(e: Expr) -> Expr:
        e = rebuild(e, visit)
        return replace(e, name=names[e.name]) if isinstance(e, Call) and e.name in names else e

    return replace(
        d,
        target=names[d.target],
        args=tuple(map(visit, d.args)),
        value=visit(d.value),
        domain=replace(d.domain, conditions=tuple(map(visit, d.domain.conditions))),
    )
