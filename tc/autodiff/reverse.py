"""Reverse-mode differentiation: the definitions of the adjoints of a tape.

Each version of a tensor that matters has an adjoint, which is the sum of what its readers contribute.  They
are visited last to first; when the first definition of a version is reached all of its readers have been.  A
contribution is a reduction over the fibre of an access (`tc.autodiff.fibres`).  Those without reduction
variables are summed in one statement, the others follow as sums.  What data subscript is scattered.

A sequential loop is gone through backwards by a loop.  What it contributes to a version that it only reads is
summed after that loop, over its iterations too: the gradient of a matrix of weights is one product.  The
adjoint of a carried version is defined iteration by iteration.  That of a version which is written in place
is updated in place: a definition takes the adjoint of its elements, and its reads add to theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from tc.autodiff import extremes
from tc.autodiff.arithmetic import conj, number, times
from tc.autodiff.contributions import Contributions, Term, added_up, masked
from tc.autodiff.derivatives import Part, parts
from tc.autodiff.fibres import cases, in_box
from tc.autodiff.index_conditions import conjunction, conjuncts, index_formula, reduced, unguarded
from tc.autodiff.loops import Loop, as_variables, boxed, counters, facts, ranges, reverse
from tc.autodiff.names import Names
from tc.autodiff.pieces import pieces
from tc.autodiff.shift_invariance import without_effect
from tc.autodiff.tape import Definition, Tape, Version, depends_on, reads
from tc.errors import InternalError
from tc.ir.expr import (
    EQ,
    Add,
    Call,
    Cast,
    Expr,
    IfThenElse,
    IntImm,
    Not,
    Sub,
    Variable,
    imm,
    substitute,
    variables,
)
from tc.ir.program import Domain, IterVar
from tc.ir.simplify import linear_terms, simplify


@dataclass(frozen=True, slots=True)
class Adjoints:
    """The tape that computes adjoints.  `versions` are those of the program and of the adjoints; `of` has the
    adjoint of each input that was asked for."""

    versions: Mapping[str, Version]
    definitions: tuple[Definition, ...]
    of: Mapping[str, str]
    seeds: Mapping[str, str]  # output -> the parameter that has its adjoint


def active(tape: Tape, wrt: Collection[str], results: Collection[str]) -> frozenset[str]:
    """The floating and complex versions that depend on those in `wrt`, without those to whose values the
    results are indifferent."""
    found = reached(tape, wrt)
    dropped = without_effect(tape, found, results)
    return reached(tape, wrt, dropped) if dropped else found


def reached(tape: Tape, wrt: Collection[str], dropped: Collection[str] = ()) -> frozenset[str]:
    """The floating and complex versions that depend on those in `wrt` by way of others than those dropped."""
    found, before = set(wrt), 0
    while len(found) != before:  # once, but for loops
        before = len(found)
        for d in tape.definitions:
            inexact = tape.versions[d.target].dtype.is_inexact and d.target not in dropped
            if inexact and any(c.name in found for c in reads(d)):
                found.add(d.target)
    return frozenset(found)


def adjoints(
    tape: Tape, wrt: Sequence[str], results: Collection[str], names: Names, ties: str = "first"
) -> Adjoints:
    """The adjoints of the versions `wrt` of a tape, from those of the outputs in `results`.

    `ties`: which of several equal elements gets the adjoint of an extreme, the `"first"`, or all in equal
    parts (`"split"`).
    """
    return _Reverse(tape, wrt, results, names, ties).run()


class _Reverse:
    def __init__(
        self, tape: Tape, wrt: Sequence[str], results: Collection[str], names: Names, ties: str
    ) -> None:
        self.tape = tape
        self.wrt = wrt
        self.results = results
        self.taken = names
        self.ties = ties
        self.active = active(tape, wrt, results) & depends_on(tape.definitions, results)
        self.versions = dict(tape.versions)
        self.make = Contributions(tape, names, self.versions)
        # By version, and whether it is the value in an iteration of what is carried.
        self.terms: dict[tuple[str, bool], list[Term]] = {}
        self.out: list[Definition] = []
        self.names: dict[str, str] = {}  # version -> its adjoint
        self.seeds: dict[str, str] = {}
        self.around: tuple[Loop, ...] = ()  # the loops of the definition in hand
        last = {d.target: k for k, d in enumerate(tape.definitions)}
        self.updated = frozenset(n for n in self.active if self._is_updated(n, last))

    def run(self) -> Adjoints:
        for o in self.tape.outputs:
            v = self.tape.versions[o]
            if o in self.results:
                seed = self.taken.fresh(f"d_{v.tensor}")
                self.seeds[o] = seed
                self.versions[seed] = Version(seed, seed, v.dtype, v.box, "input")
        for k in reversed(range(len(self.tape.definitions))):
            d = self.tape.definitions[k]
            self._go_to(d.loops)
            if d.target not in self.active:
                continue
            if d.target not in self.names and self.tape.versions[d.target].carrier is None:
                self._finish(d.target)
            if d.target in self.names:
                self._definition(d, k)
        self._go_to(())
        of: dict[str, str] = {}
        for name in self.wrt:
            self._finish(name, wanted=True)
            of[name] = self.names[name]
        return Adjoints(self.versions, tuple(self.out), of, self.seeds)

    # ---- loops

    def _go_to(self, loops: tuple[Loop, ...]) -> None:
        """Leave and enter loops, so that what is defined next is in these."""
        while self.around != loops[: len(self.around)]:
            for v in self._carried(self.around[-1]):
                at = (*counters(v.loops), self.around[-1].at)
                self._emit(self.names[v.name], v, at, self.around, self.terms.pop((v.name, True), []))
            self.around = self.around[:-1]
        for loop in loops[len(self.around) :]:
            inner = (*self.around, loop)
            for name in dict.fromkeys(
                d.target for d in self.tape.definitions if d.loops[: len(inner)] == inner
            ):
                v = self.tape.versions[name]
                if (
                    name in self.active
                    and name not in self.names
                    and v.loops == self.around
                    and not v.carrier
                ):
                    self._finish(name)
            for v in self._carried(loop):
                self._named(v)
                at = (*counters(v.loops), loop.trips)
                self._emit(self.names[v.name], v, at, v.loops, self.terms.pop((v.name, False), []))
            self.around = inner

    def _carried(self, loop: Loop) -> list[Version]:
        return [v for n, v in self.tape.versions.items() if n in self.active and v.carrier == loop]

    def _is_updated(self, name: str, last: Mapping[str, int]) -> bool:
        """Whether an adjoint is updated in place, because of a version that is."""
        v = self.tape.versions[name]
        if not v.in_place:
            return False
        definitions = self.tape.definitions
        end = last[name] + 1
        loop = definitions[last[name]].loops[: len(v.loops) + 1]
        while loop != v.loops and end < len(definitions) and definitions[end].loops[: len(loop)] == loop:
            end += 1  # readers in the same loop are before it, in the next iteration
        readers = (
            d.target in self.active and any(c.name == name for c in reads(d)) for d in definitions[:end]
        )
        return not v.once or any(readers)

    # ---- an adjoint

    def _named(self, v: Version, wanted: bool = False) -> str:
        adjoint = self.names[v.name] = self.taken.fresh(f"d_{v.name}")
        role = "output" if wanted else "temporary"
        self.versions[adjoint] = replace(v, name=adjoint, tensor=adjoint, role=role)
        return adjoint

    def _finish(self, name: str, wanted: bool = False) -> None:
        """Emit the definitions of the adjoint of a version, all of whose readers have been visited."""
        v = self.tape.versions[name]
        terms = self.terms.get((name, False), [])
        seed = self.seeds.get(name)
        updated = name in self.updated
        if seed is not None and not terms and not wanted and not updated:
            self.names[name] = seed
            return
        if not terms and seed is None and not wanted and not updated:
            return
        adjoint = self._named(v, wanted)
        if seed is not None:
            own = self._element(v)
            at = tuple(Variable(x.name) for x in own)
            terms = [Term(at, Call(seed, at, v.dtype, "func"), Domain(own)), *terms]
        self._emit(adjoint, v, counters(v.loops), v.loops, terms)

    def _element(self, v: Version) -> tuple[IterVar, ...]:
        fresh = self.taken.local()
        return tuple(IterVar(fresh(f"i{k}"), r, "pure") for k, r in enumerate(v.own))

    def _define(self, d: Definition, loops: Sequence[Loop]) -> None:
        self.out.append(replace(d, loops=reverse(loops)))

    def _emit(
        self,
        adjoint: str,
        v: Version,
        iteration: tuple[Expr, ...],
        loops: Sequence[Loop],
        terms: Sequence[Term],
    ) -> None:
        """The definitions of an adjoint in an iteration: one of what is no reduction, then the sums."""
        for d in (d for t in terms for d in t.made):
            self._define(d, loops)
        sizes = (*self.tape.sizes, *(loop.name for loop in loops))
        found = pieces(terms, v.own, sizes, (*self.tape.facts, *facts(loops)))
        together = [t for t in terms if not t.reduces and self._whole(t)]
        others = [t for t in terms if t not in together]
        if found is not None:
            parts, covers = found
            others = []
        elif together:
            parts, covers = [added_up([replace(t, value=masked(t)) for t in together])], True
        else:
            parts, covers = [], False
        if not covers and not parts and others and self._whole(others[0]):
            t = others[0]
            pure = Domain(tuple(x for x in t.domain.vars if x.kind == "pure"))
            zero = Definition(adjoint, (*iteration, *t.args), None, imm(0, v.dtype), pure, neutral=True)
            self._define(zero, loops)
        elif not covers:
            own = self._element(v)
            at = (*iteration, *(Variable(x.name) for x in own))
            self._define(Definition(adjoint, at, None, imm(0, v.dtype), Domain(own)), loops)
        for t in parts:
            domain = replace(t.domain, conditions=())
            self._define(Definition(adjoint, (*iteration, *t.args), None, t.value, domain), loops)
        for t in others:
            self._define(Definition(adjoint, (*iteration, *t.args), "+", t.value, t.domain), loops)

    def _whole(self, t: Term) -> bool:
        """Whether the elements of a term are all of its tensor, apart from conditions."""
        names = {v.name for v in t.domain.vars if v.kind == "pure"}
        return not t.scatters and all(isinstance(a, Variable) and a.name in names for a in t.args)

    # ---- a definition

    def _definition(self, d: Definition, position: int) -> None:
        v = self.tape.versions[d.target]
        if d.neutral or not any(c.name in self.active for c in reads(d)):
            if d.op is None and d.target in self.updated and not v.once:
                self._clear(d)
            return
        seed = self._seed(d)
        if d.op in ("min", "max", "*"):
            self._reduction(d, seed)
            return
        own = Call(d.target, d.args, v.dtype, "func")
        several = v.in_place or v.carrier is not None
        masks = self._overwritten(d, position) if d.op is None and not several else ()
        self._parts(d, seed, own if self.tape.is_final(d) else d.value, masks)

    def _seed(self, d: Definition) -> Expr:
        """The adjoint of the element that an instance defines.  One that is updated in place is taken, before
        what the instance reads is added, and is 0 then for what had been there."""
        name = self.names[d.target]
        v = self.tape.versions[d.target]
        element = Call(name, d.args, v.dtype, "func")
        if d.target not in self.updated:
            return element
        domain = _pure(d)
        loops = d.loops
        box = (*ranges(loops), *(x.range for x in boxed(domain, loops).vars))
        taken = self.taken.fresh(f"{name}_at")
        self.versions[taken] = Version(taken, taken, v.dtype, box, "temporary", loops)
        at = (*counters(loops), *(Variable(x.name) for x in domain.vars))
        self._define(Definition(taken, at, None, element, domain), loops)
        if d.op is None and not v.once:
            self._clear(d)
        return Call(taken, at, v.dtype, "func")

    def _clear(self, d: Definition) -> None:
        """The adjoint of what was there before a definition is 0."""
        zero = imm(0, self.tape.versions[d.target].dtype)
        self._define(Definition(self.names[d.target], d.args, None, zero, _pure(d)), d.loops)

    def _overwritten(self, d: Definition, position: int) -> tuple[Expr, ...]:
        """Conditions under which later definitions of the same version leave what `d` defines."""
        out: list[Expr] = []
        for e in self.tape.definitions[position + 1 :]:
            if e.target != d.target or e.op is not None:
                continue
            inside = _inside(d, e, self.tape)
            if inside is not None:
                out.append(Not(inside))
        return tuple(out)

    def _parts(self, d: Definition, seed: Expr, own: Expr, masks: Sequence[Expr] = ()) -> None:
        merged: dict[tuple[Call, tuple[Expr, ...]], Counter[Expr]] = {}
        for p in parts(d.value, seed, own, lambda c: c.name in self.active, d.span):
            key = (p.access, (*masks, *p.conditions))
            merged.setdefault(key, Counter())[p.factor] += 1
        for (access, conditions), factors in merged.items():
            each = [f if n == 1 else times(number(n, f), f) for f, n in factors.items()]
            self._contribute(d, Part(access, reduce(Add, each), conditions))

    def _contribute(self, d: Definition, p: Part) -> None:
        version = self.tape.versions[p.access.name]
        index, data = list(d.domain.conditions), list[Expr]()
        for c in (part for whole in p.conditions for part in conjuncts(whole)):
            exact = index_formula(c)
            (data if exact is None else index).append(c if exact is None else exact)
        value, guards = unguarded(p.factor)
        index += guards
        if value.dtype != version.dtype:
            value = Cast(version.dtype, value)
        for c in reversed(data):
            value = IfThenElse(c, value, number(0, value))
        own = p.access.args[version.lead :]
        for args, conditions in cases(own, self.make.divisors(d.domain, own, version, d.loops)):
            exact = [(c, index_formula(c)) for c in conditions]
            own, tested = value, [c for c, e in exact if e is None]
            for c in reversed(tested):
                own = IfThenElse(c, own, number(0, own))
            known = [*index, *(e for _, e in exact if e is not None)]
            self._add_term(d, p.access, args, own, known, (*data, *tested))

    def _add_term(
        self,
        d: Definition,
        access: Call,
        args: tuple[Expr, ...],
        value: Expr,
        index: Sequence[Expr],
        tested: tuple[Expr, ...],
    ) -> None:
        """What all instances of a definition contribute to the elements `args` of a version; where not all
        of `tested` hold that is 0, and the subscripts may be anything."""
        v = self.tape.versions[access.name]
        iteration = access.args[: v.lead]
        if access.name in self.updated and access.name in self.names:
            domain = Domain(d.domain.vars, tuple(index))
            term = self.make.term(domain, args, value, v, d.loops, tested)
            if term is not None:
                for made in term.made:
                    self._define(made, d.loops)
                at = (*iteration, *term.args)
                name = self.names[access.name]
                self._define(Definition(name, at, "+", term.value, term.domain), d.loops)
            return
        inside = v.carrier is not None and v.carrier in d.loops
        if access.name in self.names and not inside:
            raise InternalError(f"the adjoint of '{access.name}' was finished before all of its readers")
        level = d.loops[: len(v.loops) + inside]
        further = d.loops[len(level) :]
        counted, iterations = as_variables(further, level)
        own = boxed(Domain(d.domain.vars, tuple(index)), further)
        domain = Domain((*counted, *own.vars), (*iterations, *own.conditions))
        term = self.make.term(domain, args, value, v, level, tested)
        if term is not None:
            self.terms.setdefault((access.name, inside), []).append(term)

    # ---- reductions that are no sums

    def _reduction(self, d: Definition, seed: Expr) -> None:
        reduced = [v for v in d.domain.vars if v.kind == "reduction"]
        v = self.tape.versions[d.target]
        own = Call(d.target, d.args, v.dtype, "func")
        if not reduced and d.op != "*" and not d.scatters:
            self._parts(d, seed, own)
            return
        found = extremes.of_reduction(d, own, self.taken, self.ties, self.tape)
        self._add(found)
        self._parts(d, times(seed, conj(found.factor)), d.value, found.chosen)

    def _add(self, made: extremes.Made) -> None:
        self.versions |= {v.name: v for v in made.versions}
        for d in made.definitions:
            self._define(d, d.loops)


def _pure(d: Definition) -> Domain:
    """The elements that a definition is of, without what it reduces over; of a scatter the instances that
    say which these are."""
    placed = {n for a in d.args for n in variables(a)}
    own = [v for v in d.domain.vars if v.kind == "pure" or v.name in placed]
    pure = tuple(replace(v, kind="pure") for v in own)
    reduced = {v.name for v in d.domain.vars if v not in own}
    return Domain(pure, tuple(c for c in d.domain.conditions if not variables(c) & reduced))


def _inside(d: Definition, later: Definition, tape: Tape) -> Expr | None:
    """Where the elements of `d` are elements of a later definition too; None: nowhere."""
    conditions: list[Expr] = []
    fixed: list[tuple[Expr, Expr]] = []
    own = {v.name: v for v in later.domain.vars}
    at: dict[str, Expr] = {}
    for a, b in zip(d.args, later.args, strict=True):
        terms, _ = linear_terms(b)
        found = [t for t, c in terms.items() if isinstance(t, Variable) and t.name in own and abs(c) == 1]
        if found and found[0].name not in at:
            v = found[0]
            rest = substitute(b, {v.name: IntImm(0)})
            at[v.name] = Sub(a, rest) if terms[v] == 1 else Sub(rest, a)
            conditions += in_box([at[v.name]], (own[v.name].range,))
        else:
            fixed.append((a, b))
    conditions += [EQ(a, substitute(b, at)) for a, b in fixed]
    conditions += [substitute(c, at) for c in later.domain.conditions]
    exact = [simplify(c, exact=True) for c in conditions]
    left = reduced(exact, d.domain.vars, tape.sizes, tape.facts)
    return None if left is None else conjunction(left)
