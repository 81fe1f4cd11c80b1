"""Polyphase decomposition: `y(h) += e where (h - i) % s == 0` becomes one reduction for each residue.

Transposed convolutions with stride s have this form, and gradients of convolutions with stride s to their
inputs.  With i = s*q + p, and h = s*g + p, each of the s phases

    t(p,g) op= e    over q, without a remainder
    y(h)    = t(h % s, h / s)

is an ordinary reduction over a part of the window, and does an s-th of the work (Bellanger, Bonnerot and
Coudreuse, "Digital filtering by polyphase network", 1976).  Phases whose windows have the same length share a
statement.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tc.dtypes import accumulator
from tc.ir.expr import (
    EQ,
    GE,
    LT,
    ZERO,
    Add,
    Call,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Sub,
    Variable,
    constant,
    substitute,
)
from tc.ir.lower import neutral
from tc.ir.program import Buffer, Domain, Func, IterVar, Op, Program, Range, Stage, fresh
from tc.ir.simplify import linear_terms, simplify
from tc.transforms.program import guards
from tc.transforms.program.reductions import covers, neutral_start, reads_others
from tc.transforms.program.stages import tensor_names

_MOST = 8  # statements for one reduction, at most; more would only make the code longer


def split_phases(program: Program, constant: bool = False) -> tuple[Program, tuple[str, ...]]:
    """`program` with such reductions split into phases, and the tensors that these define.  Windows and
    strides must be constants, and with `constant` all ranges."""
    names: list[str] = []
    for stage in program.stages:
        found = _phases(program, stage)
        if found and (stage.domain.constant or not constant):
            names.append(program.func_buffers[stage.func])
            program = _Splitter(program, stage, found).program()
    return program, tuple(names)


@dataclass(frozen=True, slots=True)
class Group:
    """`count` phases from the `first` one on, with windows of `length` points."""

    first: int
    count: int
    length: int


@dataclass(frozen=True, slots=True)
class Phase:
    """A residue that ties a variable of a reduction (`window`) to one of the results (`result`):
    `window % step == p` for `result = origin + step * g + slope * p`."""

    window: IterVar
    result: IterVar
    step: int
    slope: int
    origin: int
    condition: Expr

    @property
    def groups(self) -> tuple[Group, ...]:
        """The phases, grouped by the lengths of their windows."""
        extent = constant(self.window.range.extent)
        assert isinstance(extent, int)
        length, more = divmod(extent, self.step)
        found = (Group(0, more, length + 1), Group(more, self.step - more, length))
        return tuple(g for g in found if g.count)

    @property
    def spread(self) -> tuple[int, int]:
        """The least and the greatest offset that a phase adds to a result."""
        last = self.slope * (self.step - 1)
        return min(0, last), max(0, last)

    def places(self) -> Range:
        """The range of places of results in a phase, for all phases together."""
        first = self.result.range.min
        last = Sub(self.result.range.end, IntImm(1))
        low = Sub(first, IntImm(self.origin + self.spread[1] - self.step + 1))
        least = simplify(FloorDiv(low, IntImm(self.step)), exact=True)
        most = FloorDiv(Sub(last, IntImm(self.origin + self.spread[0])), IntImm(self.step))
        return Range(least, simplify(Sub(Add(most, IntImm(1)), least), exact=True))

    def at(self, number: str) -> Expr:
        """The result at a place of a phase."""
        moved = Mul(IntImm(self.step), Variable(self.result.name))
        moved = Add(moved, Mul(IntImm(self.slope), Variable(number)))
        return simplify(Add(moved, IntImm(self.origin)), exact=True)

    def limits(self, at: Expr, places: Range) -> Iterator[Expr]:
        """The conditions under which a place of a phase is one of the results, if some are not."""
        low, high = (IntImm(self.origin + x) for x in self.spread)
        first, last = (Mul(IntImm(self.step), e) for e in (places.min, Sub(places.end, IntImm(1))))
        room = constant(simplify(Sub(Add(low, first), self.result.range.min), exact=True))
        if room is None or room < 0:
            yield simplify(GE(at, self.result.range.min), exact=True)
        room = constant(simplify(Sub(self.result.range.end, Add(high, last)), exact=True))
        if room is None or room <= 0:
            yield simplify(LT(at, self.result.range.end), exact=True)

    def back(self, number: str) -> Iterator[tuple[str, Expr]]:
        """The number of the phase of a result, and its place there."""
        step, local = IntImm(self.step), Sub(Variable(self.result.name), IntImm(self.origin))
        inverse = IntImm(_centred(pow(self.slope % self.step, -1, self.step), self.step))
        phase = simplify(FloorMod(Mul(inverse, local), step), exact=True)
        yield number, phase
        if self.slope == 1:
            place: Expr = FloorDiv(local, step)
        elif self.slope == -1:
            place = FloorDiv(Add(local, IntImm(self.step - 1)), step)
        else:
            place = FloorDiv(Sub(local, Mul(IntImm(self.slope), phase)), step)
        yield self.result.name, simplify(place, exact=True)


def _centred(residue: int, step: int) -> int:
    """The number nearest to 0 with a residue."""
    return residue - step if 2 * residue > step else residue


def _phases(program: Program, stage: Stage) -> list[Phase]:
    """The residues of a stage, one for each of its conditions; none if one of them has another form."""
    if stage.op is None or stage.scatters or stage.loops or not stage.domain.conditions:
        return []
    func = program.func(stage.func)
    t = accumulator(func.dtype, stage.value.dtype)
    if func.dtype != t or not reads_others(program, stage, stage.value):
        return []
    if stage.op == "+" and t.is_float and not _replaces(program, stage):
        return []  # adding 0 to -0 would change it
    residues = [c for c in stage.domain.conditions if isinstance(c, EQ) and isinstance(c.a, FloorMod)]
    found = [_phase(stage, c) for c in residues]
    taken = [p for p in found if p is not None]
    tied = [v for p in taken for v in (p.window.name, p.result.name)]
    if len(set(tied)) != len(tied) or math.prod(len(p.groups) for p in taken) > _MOST:
        return []
    return taken


def _replaces(program: Program, stage: Stage) -> bool:
    """Whether the phases define all elements of a tensor, so that its initial values are not needed."""
    start = neutral_start(program, stage)
    return start is not None and covers(start, stage)


def _phase(stage: Stage, condition: EQ) -> Phase | None:
    """A condition that ties one variable of the reduction to one of the results, whose step is 1."""
    assert isinstance(condition.a, FloorMod)
    step, rest = constant(condition.a.b), constant(condition.b)
    if not isinstance(step, int) or step < 2 or not isinstance(rest, int):
        return None
    terms, offset = linear_terms(condition.a.a)
    ranges = {v.name: v for v in stage.domain.vars}
    mine = {ranges[t.name]: c for t, c in terms.items() if isinstance(t, Variable) and t.name in ranges}
    if len(mine) != len(terms):
        return None
    windows = [v for v in mine if v.kind == "reduction"]
    results = [v for v in mine if v.kind == "pure"]
    if len(windows) != 1 or len(results) != 1:
        return None
    window, result = windows[0], results[0]
    a, b = mine[window] % step, mine[result] % step
    first = constant(result.range.min)
    if math.gcd(a, step) != 1 or math.gcd(b, step) != 1 or not isinstance(first, int):
        return None
    if constant(window.range.min) != 0 or not isinstance(window.range.extent, IntImm):
        return None
    # b * result = rest - offset - a * p  (mod step), so result = origin + slope * p.
    inverse = pow(b, -1, step)
    slope = _centred(-a * inverse % step, step)
    origin = (rest - offset) * inverse % step
    return Phase(window, result, step, slope, origin - step * -(-(origin - first) // step), condition)


class _Splitter:
    """One stage in phases."""

    def __init__(self, program: Program, stage: Stage, phases: Sequence[Phase]) -> None:
        self.source, self.stage, self.phases = program, stage, phases
        self.func = program.func(stage.func)
        taken = tensor_names(program)
        self.name = fresh(f"{self.func.buffer}_phases", taken)
        self.stage_names = {s.name for s in program.stages}
        names = set(stage.domain.names) | set(program.sizes)
        self.numbers: list[str] = []
        for p in phases:
            self.numbers.append(fresh(f"{p.window.name}_phase", names))
            names.add(self.numbers[-1])
        # The stage's variables in terms of those of a phase; the places of results there.
        self.at: dict[str, Expr] = {}
        self.places: dict[str, IterVar] = {}
        for number, p in zip(self.numbers, phases, strict=True):
            place = p.places()
            self.places[p.result.name] = replace(p.result, range=place)
            self.at[p.result.name] = p.at(number)
            inside = Add(Mul(IntImm(p.step), Variable(p.window.name)), Variable(number))
            self.at[p.window.name] = simplify(inside, exact=True)
        self.pure = tuple(self.places.get(v.name, v) for v in stage.domain.vars if v.kind == "pure")
        self.args = (*map(Variable, self.numbers), *(Variable(v.name) for v in self.pure))

    def program(self) -> Program:
        stage, func = self.stage, self.func
        lengths = itertools.product(*(p.groups for p in self.phases))
        stages = [s for group in lengths for s in self.group(group)]
        replaces = _replaces(self.source, stage)
        back = {v: e for p, n in zip(self.phases, self.numbers, strict=True) for v, e in p.back(n)}
        read = Call(self.name, tuple(substitute(a, back) for a in self.args), func.dtype, "func")
        results = Domain(tuple(v for v in stage.domain.vars if v.kind == "pure"))
        result = replace(stage, op=None if replaces else stage.op, value=read, domain=results)
        position = self.source.stages.index(stage)
        before, after = self.source.stages[:position], self.source.stages[position + 1 :]
        before = before[:-1] if replaces else before
        where = self.source.funcs.index(func)
        box = (*(Range(ZERO, IntImm(p.step)) for p in self.phases), *(v.range for v in self.pure))
        new = Func(self.name, self.name, func.dtype, box, None)
        return replace(
            self.source,
            buffers=(*self.source.buffers, Buffer(self.name, func.dtype, box, "temporary", filled=True)),
            funcs=(*self.source.funcs[:where], new, *self.source.funcs[where:]),
            stages=(*before, *stages, result, *after),
        )

    def group(self, group: Sequence[Group]) -> Iterator[Stage]:
        """The statements of the phases whose windows have these lengths."""
        stage = self.stage
        assert stage.op is not None
        numbers = (
            IterVar(n, Range(IntImm(g.first), IntImm(g.count)), "pure")
            for n, g in zip(self.numbers, group, strict=True)
        )
        lengths = {p.window.name: g.length for p, g in zip(self.phases, group, strict=True)}
        inner = (
            replace(v, range=Range(ZERO, IntImm(lengths[v.name]))) if v.name in lengths else v
            for v in stage.domain.vars
            if v.kind == "reduction"
        )
        pure = (*numbers, *self.pure)
        domain = Domain((*pure, *inner))
        rest = [c for c in stage.domain.conditions if all(c is not p.condition for p in self.phases)]
        conditions = [simplify(substitute(c, self.at), exact=True) for c in rest]
        for p in self.phases:
            conditions += p.limits(self.at[p.result.name], self.places[p.result.name].range)
        domain = replace(domain, conditions=guards.needed(conditions, domain))
        value = guards.in_exact_integers(substitute(stage.value, self.at), domain)
        yield self.named(None, neutral(stage.op, self.func.dtype), Domain(pure))
        yield self.named(stage.op, value, domain)

    def named(self, op: Op | None, value: Expr, domain: Domain) -> Stage:
        name = fresh(f"{self.stage.name}_phases{'i' if op is None else ''}", self.stage_names)
        self.stage_names.add(name)
        new = replace(self.stage, name=name, func=self.name, args=self.args, init=op is None)
        return replace(new, op=op, value=value, domain=domain)
