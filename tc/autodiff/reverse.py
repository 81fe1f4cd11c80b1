"""Reverse-mode differentiation: the definitions of the adjoints of a tape.

Each version of a tensor that matters has an adjoint, which is the sum of what its readers contribute.  They
are visited last to first; when the first definition of a version is reached all of its readers have been.  A
contribution is a reduction over the fibre of an access (`tc.autodiff.fibres`).  Those without reduction
variables are summed in one statement, the others follow as sums.  What data subscript is scattered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from tc.autodiff import extremes
from tc.autodiff.derivatives import Part, number, parts, times
from tc.autodiff.fibres import cases, fibre, in_box
from tc.autodiff.index_conditions import conjunction, conjuncts, index_formula, reduced, unguarded
from tc.autodiff.names import Names
from tc.autodiff.tape import Definition, Tape, Version, reads
from tc.dtypes import INT32
from tc.ir.expr import (
    EQ,
    TRUE,
    Add,
    Call,
    Cast,
    Expr,
    IfThenElse,
    Not,
    Variable,
    rebuild,
    substitute,
    variables,
    walk,
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


@dataclass(frozen=True, slots=True)
class _Term:
    """A contribution to an adjoint: `value` summed over `domain`, at the elements `args`."""

    args: tuple[Expr, ...]
    value: Expr
    domain: Domain
    scatters: bool = False

    @property
    def reduces(self) -> bool:
        return any(v.kind == "reduction" for v in self.domain.vars)


def active(tape: Tape, wrt: Collection[str]) -> frozenset[str]:
    """The floating versions whose values depend on those in `wrt`."""
    found = set(wrt)
    for d in tape.definitions:
        if tape.versions[d.target].dtype.is_float and any(c.name in found for c in reads(d)):
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
        self.active = active(tape, wrt)
        self.versions = dict(tape.versions)
        self.terms: dict[str, list[_Term]] = {}
        self.out: list[Definition] = []
        self.names: dict[str, str] = {}  # version -> its adjoint
        self.seeds: dict[str, str] = {}

    def run(self) -> Adjoints:
        for o in self.tape.outputs:
            v = self.tape.versions[o]
            if o in self.results:
                seed = self.taken.fresh(f"d_{v.tensor}")
                self.seeds[o] = seed
                self.versions[seed] = Version(seed, seed, v.dtype, v.box, "input")
        seen: set[str] = set()
        for k in reversed(range(len(self.tape.definitions))):
            d = self.tape.definitions[k]
            if d.target not in self.active:
                continue
            if d.target not in seen:
                seen.add(d.target)
                self._finish(d.target)
            if d.target in self.names:
                self._definition(d, k)
        of: dict[str, str] = {}
        for name in self.wrt:
            self._finish(name, wanted=True)
            of[name] = self.names[name]
        return Adjoints(self.versions, tuple(self.out), of, self.seeds)

    # ---- an adjoint

    def _finish(self, name: str, wanted: bool = False) -> None:
        """Emit the definitions of the adjoint of a version, all of whose readers have been visited."""
        v = self.tape.versions[name]
        terms = self.terms.get(name, [])
        seed = self.seeds.get(name)
        if seed is not None and not terms and not wanted:
            self.names[name] = seed
            return
        if not terms and seed is None and not wanted:
            return
        adjoint = self.taken.fresh(f"d_{v.name}")
        self.names[name] = adjoint
        self.versions[adjoint] = Version(
            adjoint, adjoint, v.dtype, v.box, "output" if wanted else "temporary"
        )
        if seed is not None:
            own = self._element(v)
            at = tuple(Variable(x.name) for x in own)
            terms = [_Term(at, Call(seed, at, v.dtype, "func"), Domain(own)), *terms]
        self._emit(adjoint, v, terms)

    def _element(self, v: Version) -> tuple[IterVar, ...]:
        fresh = self.taken.local()
        return tuple(IterVar(fresh(f"i{k}"), r, "pure") for k, r in enumerate(v.box))

    def _emit(self, adjoint: str, v: Version, terms: Sequence[_Term]) -> None:
        """The definitions of an adjoint: what has no reduction variables in one, then sums."""
        together = [t for t in terms if not t.reduces and self._whole(t)]
        others = [t for t in terms if t not in together]
        if together:
            first = together[0]
            total: Expr | None = None
            for t in together:
                moved = {
                    a.name: Variable(b.name) for a, b in zip(t.domain.vars, first.domain.vars, strict=True)
                }
                value = substitute(_masked(t), dict(moved))
                total = value if total is None else Add(total, value)
            assert total is not None
            self.out.append(
                Definition(adjoint, first.args, None, total, replace(first.domain, conditions=()))
            )
        elif not (others and self._whole(others[0])):
            own = self._element(v)
            at = tuple(Variable(x.name) for x in own)
            zero = number(0, Call(adjoint, at, v.dtype, "func"))
            self.out.append(Definition(adjoint, at, None, zero, Domain(own)))
        else:
            t = others[0]
            pure = Domain(tuple(x for x in t.domain.vars if x.kind == "pure"))
            zero = number(0, Call(adjoint, t.args, v.dtype, "func"))
            self.out.append(Definition(adjoint, t.args, None, zero, pure, neutral=True))
        self.out += [Definition(adjoint, t.args, "+", t.value, t.domain) for t in others]

    def _whole(self, t: _Term) -> bool:
        """Whether the elements of a term are all of its tensor, apart from conditions."""
        names = {v.name for v in t.domain.vars if v.kind == "pure"}
        return not t.scatters and all(isinstance(a, Variable) and a.name in names for a in t.args)

    # ---- a definition

    def _definition(self, d: Definition, position: int) -> None:
        v = self.tape.versions[d.target]
        if d.neutral or not any(c.name in self.active for c in reads(d)):
            return
        if d.op in ("min", "max", "*"):
            self._reduction(d)
            return
        own = Call(d.target, d.args, v.dtype, "func")
        masks = self._overwritten(d, position) if d.op is None else ()
        # What other statements define as well, or add to, is not the value of this one.
        alone = d.op is None and len(self.tape.of(d.target)) == 1 and own.dtype == d.value.dtype
        self._parts(d, self._seed(d), own if alone else d.value, masks)

    def _seed(self, d: Definition) -> Expr:
        """The adjoint of the element that an instance defines."""
        name = self.names[d.target]
        return Call(name, d.args, self.versions[name].dtype, "func")

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
        terms = self.terms.setdefault(p.access.name, [])
        for args, conditions in cases(p.access.args):
            exact = [(c, index_formula(c)) for c in conditions]
            own = value
            for c in reversed([c for c, e in exact if e is None]):
                own = IfThenElse(c, own, number(0, own))
            found = self._term(d, args, own, [*index, *(e for _, e in exact if e is not None)], version)
            if found is not None:
                terms.append(found)

    def _term(
        self, d: Definition, args: tuple[Expr, ...], value: Expr, index: Sequence[Expr], version: Version
    ) -> _Term | None:
        """What all instances of a definition contribute to elements of a version; None: nothing."""
        local = self.taken.local(x.name for x in d.domain.vars)
        solved = fibre(args, d.domain.vars, version.box, local)
        if solved is None:
            left = reduced(index, d.domain.vars, self.tape.sizes, self.tape.facts)
            return None if left is None else self._scattered(d, args, value, left)
        at = dict(solved.values)
        conditions = [*solved.conditions, *(solved.resolved(substitute(c, at)) for c in index)]
        ranges = (*solved.element, *solved.rest)
        left = reduced(conditions, ranges, self.tape.sizes, self.tape.facts)
        if left is None:
            return None
        rest = tuple(replace(x, kind="reduction") for x in solved.rest)
        return _Term(solved.args, _substituted(value, at), Domain((*solved.element, *rest), left))

    def _scattered(self, d: Definition, args: tuple[Expr, ...], value: Expr, index: Sequence[Expr]) -> _Term:
        """A contribution at elements that data, or subscripts beyond the solver, decide."""
        named = {a.name for a in args if isinstance(a, Variable)}
        kinds = tuple(replace(x, kind="pure" if x.name in named else "reduction") for x in d.domain.vars)
        pure = tuple(x for x in kinds if x.kind == "pure")
        rest = tuple(x for x in kinds if x.kind != "pure")
        domain = Domain((*pure, *rest), tuple(index))
        placed: list[Expr] = []
        stands: set[str] = set()  # a variable subscripts once on the left
        for a in args:
            own = variables(a) & {v.name for v in domain.vars}
            if not self._is_subscript(a, domain) or (own & stands and not _reads_data(a)):
                a = self._tabled(a, domain)
            if not _reads_data(a):
                stands |= own
            placed.append(a)
        return _Term(tuple(placed), value, domain, scatters=True)

    def _is_subscript(self, a: Expr, domain: Domain) -> bool:
        """Whether an expression may stand on the left: it reads data, or is a variable plus what is known."""
        terms, _ = linear_terms(a)
        own = {v.name for v in domain.vars}
        found = [(t, c) for t, c in terms.items() if variables(t) & own]
        plain = len(found) == 1 and isinstance(found[0][0], Variable) and found[0][1] == 1
        return plain or not found or _reads_data(a)

    def _tabled(self, a: Expr, domain: Domain) -> Expr:
        """A subscript that no statement may have on its left, as a tensor of such subscripts."""
        own = tuple(replace(v, kind="pure") for v in domain.vars if v.name in variables(a))
        name = self.taken.fresh("place")
        box = tuple(v.range for v in own)
        at = tuple(Variable(v.name) for v in own)
        self.versions[name] = Version(name, name, INT32, box, "temporary")
        self.out.append(Definition(name, at, None, a, Domain(own)))
        return Call(name, at, INT32, "func")

    # ---- reductions that are no sums

    def _reduction(self, d: Definition) -> None:
        reduced = [v for v in d.domain.vars if v.kind == "reduction"]
        seed = self._seed(d)
        v = self.tape.versions[d.target]
        own = Call(d.target, d.args, v.dtype, "func")
        if d.op == "*":
            made, factor = extremes.product(d, own, self.taken.fresh)
            self._add(made)
            self._parts(d, times(seed, factor), d.value)
            return
        if not reduced:
            self._parts(d, seed, own)
            return
        if self.ties == "split":
            made, share, chosen = extremes.shared(d, own, self.taken.fresh)
            seed = times(seed, share)
        else:
            made, chosen = extremes.first(d, own, self.taken.fresh)
        self._add(made)
        self._parts(d, seed, d.value, chosen)

    def _add(self, made: extremes.Made) -> None:
        self.versions |= {v.name: v for v in made.versions}
        self.out += made.definitions


def _reads_data(e: Expr) -> bool:
    return any(isinstance(x, Call) for x in walk(e))


def _masked(t: _Term) -> Expr:
    """The value of a term without reduction variables, and 0 where its conditions do not hold."""
    conditions = [c for c in t.domain.conditions if c != TRUE]
    if not conditions:
        return t.value
    total = conjunction(conditions)
    return IfThenElse(total, t.value, number(0, t.value))


def _inside(d: Definition, later: Definition, tape: Tape) -> Expr | None:
    """Where the elements of `d` are elements of a later definition too; None: nowhere."""
    conditions: list[Expr] = []
    own = {v.name: v for v in later.domain.vars}
    at: dict[str, Expr] = {}
    for a, b in zip(d.args, later.args, strict=True):
        if isinstance(b, Variable) and b.name in own:
            at[b.name] = a
            conditions += in_box([a], (own[b.name].range,))
        else:
            conditions.append(EQ(a, b))
    conditions += [substitute(c, at) for c in later.domain.conditions]
    exact = [simplify(c, exact=True) for c in conditions]
    left = reduced(exact, d.domain.vars, tape.sizes, tape.facts)
    return None if left is None else conjunction(left)


def _substituted(e: Expr, at: Mapping[str, Expr]) -> Expr:
    """A value with other variables; subscripts and conditions are simplified as exact integers."""

    def visit(e: Expr) -> Expr:
        if isinstance(e, Call) and e.kind != "intrinsic":
            args = tuple(simplify(substitute(a, dict(at)), exact=True) for a in e.args)
            return replace(e, args=args)
        if isinstance(e, Variable):
            return at.get(e.name, e)
        return rebuild(e, visit)

    return visit(e)
