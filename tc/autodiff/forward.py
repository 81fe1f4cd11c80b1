"""Forward-mode differentiation: the definitions of the tangents of a tape.

Each version that depends on the inputs in hand has a tangent of its shape.  A definition has one for its
tangent: the sum over its reads of the partial derivative times the tangent of what is read.  The derivatives
are those of the reverse mode; nothing is inverted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.autodiff import extremes
from tc.autodiff.arithmetic import number, times
from tc.autodiff.derivatives import Part, parts
from tc.autodiff.existing_reads import Exist, choice, reads_exist
from tc.autodiff.index_conditions import conjunction, within
from tc.autodiff.loops import facts
from tc.autodiff.names import Names
from tc.autodiff.reverse import active
from tc.autodiff.tape import Definition, Tape, Version
from tc.ir.expr import Add, Call, Cast, Expr, IfThenElse, Variable
from tc.ir.program import Domain, IterVar


@dataclass(frozen=True, slots=True)
class Tangents:
    """The tape that computes a program and its tangents.  `of` has the tangent of each result that was asked
    for, `seeds` the parameter that has the tangent of each input."""

    versions: Mapping[str, Version]
    definitions: tuple[Definition, ...]
    of: Mapping[str, str]
    seeds: Mapping[str, str]


def tangents(tape: Tape, wrt: Sequence[str], results: Collection[str], names: Names, ties: str) -> Tangents:
    """The tangents of the outputs in `results`, from those of the inputs `wrt`."""
    return _Forward(tape, wrt, results, names, ties).run()


class _Forward:
    def __init__(
        self, tape: Tape, wrt: Sequence[str], results: Collection[str], names: Names, ties: str
    ) -> None:
        self.tape = tape
        self.taken = names
        self.ties = ties
        self.results = results
        self.active = active(tape, wrt, results)
        self.versions = dict(tape.versions)
        self.out: list[Definition] = []
        self.names: dict[str, str] = {}  # version -> its tangent
        self.wrt = wrt
        self.start = 0  # of the definitions of the tangent in hand

    def run(self) -> Tangents:
        for n in self.wrt:
            self._name(n, "input")
        last = {d.target: k for k, d in enumerate(self.tape.definitions)}
        for name in self.active:
            v = self.tape.versions[name]
            if name not in self.names and (v.in_place or v.carrier):
                self._name(name, "temporary")
        for k, d in enumerate(self.tape.definitions):
            self.out.append(d)
            if d.target not in self.active:
                continue
            v = self.tape.versions[d.target]
            if v.in_place or v.carrier:  # its definitions are in several iterations
                self.start = len(self.out)
                self._definition(d, self.names[d.target])
            elif last[d.target] == k:
                self._version(d.target)
        of: dict[str, str] = {}
        for n in self.tape.outputs:
            if n not in self.results:
                continue
            if n not in self.names:
                self._name(n, "output")
                self._zero(n)
            name = of[n] = self.names[n]
            self.versions[name] = replace(self.versions[name], role="output")
        return Tangents(self.versions, tuple(self.out), of, {n: self.names[n] for n in self.wrt})

    def _name(self, version: str, role: str) -> str:
        v = self.tape.versions[version]
        name = self.names[version] = self.taken.fresh(f"t_{v.tensor if role == 'input' else v.name}")
        self.versions[name] = replace(v, name=name, tensor=name, role=role)  # type: ignore[arg-type]
        return name

    def _zero(self, version: str) -> None:
        v = self.tape.versions[version]
        fresh = self.taken.local()
        own = tuple(IterVar(fresh(f"i{k}"), r, "pure") for k, r in enumerate(v.box))
        at = tuple(Variable(x.name) for x in own)
        zero = number(0, Call(version, at, v.dtype, "func"))
        self.out.append(Definition(self.names[version], at, None, zero, Domain(own)))

    def _version(self, version: str) -> None:
        """The tangent of a version, all of whose definitions have been seen."""
        own = self.tape.of(version)
        name = self._name(version, "temporary")
        self.start = len(self.out)
        for d in own:
            self._definition(d, name)

    def _definition(self, d: Definition, name: str) -> None:
        v = self.tape.versions[d.target]
        own = Call(d.target, d.args, v.dtype, "func")
        zero = number(0, own)
        if d.neutral:
            self.out.append(replace(d, target=name, value=zero))
            return
        chosen: tuple[Expr, ...] = ()
        factor = number(1, own)
        reduced = any(x.kind == "reduction" for x in d.domain.vars) or d.scatters
        if d.op == "*" or (d.op in ("min", "max") and reduced):
            made = extremes.of_reduction(d, own, self.taken, self.ties, self.tape)
            self._add(made)
            factor, chosen = made.factor, made.chosen
        stored = own if self.tape.is_final(d) else d.value
        one = number(1, d.value)
        total: Expr | None = None
        exist = self._exist(d)
        for p in parts(d.value, one, stored, lambda c: c.name in self.active, d.span, tangents=True):
            moved = self._moved(p, v, exist)
            total = moved if total is None else Add(total, moved)
        if total is None:
            if d.op is None:
                self.out.append(replace(d, target=name, value=zero))
            return
        total = times(factor, total)
        if chosen:
            total = IfThenElse(conjunction(chosen), total, zero)
        op = None if d.op is None else "+"
        self.out.append(replace(d, target=name, op=op, value=total))

    def _exist(self, d: Definition) -> Exist:
        """What tells whether all that expressions read exists at all points of a definition."""
        sizes = (*self.tape.sizes, *(loop.name for loop in d.loops))
        known = (*within(d.domain.vars), *d.domain.conditions, *self.tape.facts, *facts(d.loops))
        return lambda es: all(reads_exist(e, self.tape.versions, known, sizes) for e in es)

    def _moved(self, p: Part, v: Version, exist: Exist) -> Expr:
        """What a read adds to the tangent, in the type of the target."""
        tangent = Call(self.names[p.access.name], p.access.args, p.access.dtype, "func")
        value = times(p.factor, tangent)
        if p.through is not None:
            value = p.through(value)
        if value.dtype != v.dtype:
            value = Cast(v.dtype, value)
        return choice(p.conditions, value, number(0, value), exist) if p.conditions else value

    def _add(self, made: extremes.Made) -> None:
        """What a reduction needs goes in front of the tangent, whose definitions stay together."""
        self.versions |= {v.name: v for v in made.versions}
        self.out[self.start : self.start] = made.definitions
        self.start += len(made.definitions)
