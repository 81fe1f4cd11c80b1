"""What the instances of a definition contribute to the adjoint of what they read.

A contribution is a reduction over the fibre of an access (`tc.autodiff.fibres`), or a scatter where data, or
subscripts beyond that solver, choose the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.autodiff.arithmetic import number
from tc.autodiff.cut_ranges import cut
from tc.autodiff.existing_reads import choice, holds, reads_exist
from tc.autodiff.fibres import Fibre, divisors_of, fibre, in_box
from tc.autodiff.index_conditions import conjunction, reduced, within
from tc.autodiff.loops import Loop, boxed, facts
from tc.autodiff.names import Names
from tc.autodiff.remainders import quotients
from tc.autodiff.tape import Definition, Tape, Version
from tc.dtypes import INT32
from tc.ir.expr import (
    EQ,
    GE,
    ONE,
    TRUE,
    Add,
    Call,
    Cast,
    Expr,
    IfThenElse,
    Min,
    Variable,
    rebuild,
    substitute,
    variables,
    walk,
)
from tc.ir.lower import neutral
from tc.ir.program import Box, Domain, IterVar, Range
from tc.ir.simplify import linear_terms, simplify


@dataclass(frozen=True, slots=True)
class Term:
    """A contribution to an adjoint: `value` summed over `domain`, at the elements `args`."""

    args: tuple[Expr, ...]
    value: Expr
    domain: Domain
    scatters: bool = False
    made: tuple[Definition, ...] = ()  # what it reads, besides

    @property
    def reduces(self) -> bool:
        return any(v.kind == "reduction" for v in self.domain.vars)


class Contributions:
    """Makes contributions to adjoints of a tape; adds to `versions` what they need besides."""

    def __init__(self, tape: Tape, names: Names, versions: dict[str, Version]) -> None:
        self.tape = tape
        self.taken = names
        self.versions = versions

    def term(
        self,
        d: Domain,
        args: tuple[Expr, ...],
        value: Expr,
        version: Version,
        loops: Sequence[Loop],
        tested: tuple[Expr, ...] = (),
    ) -> Term | None:
        """What the instances of a domain contribute to elements of a version; None: nothing.  Subscripts that
        only an iteration of `loops` decides stay as they are.  Where not all of `tested` hold the value is 0,
        and subscripts that data decide may be anything."""
        local = self.taken.local(x.name for x in d.vars)
        sizes, given = self._known(loops)
        known = _known_of(args, d, loops)
        solved = self._solved(args, known, d, version, local)
        if solved is None:
            left = reduced(d.conditions, d.vars, sizes, given)
            if left is None:
                return None
            # A statement's left side has the range of its variables, whatever its conditions are.
            domain = cut(Domain(d.vars, left), lambda c, v: reduced(c, v, sizes, given), may_be_empty=True)
            return self._scattered(domain, args, value, loops, version.own, tested)
        at = dict(solved.values)
        conditions = [*solved.conditions, *(solved.resolved(substitute(c, at)) for c in d.conditions)]
        ranges = (*solved.element, *solved.rest)
        left = reduced(conditions, ranges, sizes, given)
        if left is None:
            return None
        rest = tuple(replace(x, kind="reduction") for x in solved.rest)
        domain, moved = quotients(Domain((*solved.element, *rest), left), local, sizes, given)
        if moved:
            at = {n: substitute(e, moved) for n, e in at.items()} | moved
            left = reduced(domain.conditions, domain.vars, sizes, given)
            if left is None:
                return None
        found = iter(solved.args)
        placed = tuple(a if k else next(found) for a, k in zip(args, known, strict=True))
        return Term(placed, _substituted(value, at), replace(domain, conditions=left))

    def divisors(
        self, d: Domain, args: tuple[Expr, ...], version: Version, loops: Sequence[Loop]
    ) -> tuple[Expr, ...]:
        """The divisors of subscripts of which the instances that read an element are found."""
        found = divisors_of(args, self.tape.sizes)
        local = self.taken.local(x.name for x in d.vars)
        if not found or self._solved(args, _known_of(args, d, loops), d, version, local) is None:
            return ()
        return found

    def _solved(
        self,
        args: tuple[Expr, ...],
        known: Sequence[bool],
        d: Domain,
        version: Version,
        local: Callable[[str], str],
    ) -> Fibre | None:
        """The fibre of the subscripts that are not known in an iteration."""
        moving = tuple(a for a, k in zip(args, known, strict=True) if not k)
        box = tuple(r for r, k in zip(version.own, known, strict=True) if not k)
        return fibre(moving, d.vars, box, local, self.tape.sizes)

    def _scattered(
        self,
        d: Domain,
        args: tuple[Expr, ...],
        value: Expr,
        loops: Sequence[Loop],
        box: Box,
        tested: tuple[Expr, ...],
    ) -> Term:
        """A contribution at elements that data, or subscripts beyond the solver, decide."""
        named = {a.name for a in args if isinstance(a, Variable)}
        kinds = tuple(replace(x, kind="pure" if x.name in named else "reduction") for x in d.vars)
        pure = tuple(x for x in kinds if x.kind == "pure")
        rest = tuple(x for x in kinds if x.kind != "pure")
        domain = Domain((*pure, *rest), d.conditions)
        local = self.taken.local(x.name for x in kinds)
        known = {loop.name for loop in loops}
        sizes, given = self._known(loops)
        placed: list[Expr] = []
        fixed: tuple[Expr, ...] = ()
        made: list[Definition] = []

        def exist(es: Sequence[Expr]) -> bool:
            return self._exist(es, domain.vars, loops)

        stands: set[str] = set()  # a variable subscripts once on the left
        for a, r in zip(args, box, strict=True):
            own = variables(a) & {v.name for v in domain.vars}
            if tested and (_reads_data(a) or not self._is_subscript(a, domain)):
                a = choice(tested, a, Cast(a.dtype, r.min), exist)
                own |= variables(a) & {v.name for v in domain.vars}
                a = self._tabled(a, domain, loops, made)
            elif not self._is_subscript(a, domain) or (own & stands and not _reads_data(a)):
                a = self._tabled(a, domain, loops, made)
            if not _reads_data(a):
                stands |= own
                if not own and not variables(a) & known:
                    # A subscript without a variable would give its tensor the range of all that write it.
                    u = Variable(local("u"))
                    # It is in the box where there are instances, and its range has to be without them, too.
                    inside = all(holds(c, given, sizes) for c in in_box([a], (r,)))
                    pure = (*pure, IterVar(u.name, Range(a, ONE) if inside else r, "pure"))
                    fixed += () if inside else (EQ(u, a),)
                    a = u
            placed.append(a)
        domain = Domain((*pure, *rest), (*fixed, *domain.conditions))
        domain = self._within(placed, domain, box, loops)
        return Term(tuple(placed), value, domain, True, tuple(made))

    def _within(self, args: Sequence[Expr], domain: Domain, box: Box, loops: Sequence[Loop]) -> Domain:
        """A domain whose ranges are seen to keep in a box those subscripts that they decide.  The instances
        are all in it, but without instances ranges may be parts of a larger tensor."""
        sizes, given = self._known(loops)
        known = [*within(domain.vars), *domain.conditions, *given]
        decided = [(a, r) for a, r in zip(args, box, strict=True) if not _reads_data(a)]
        bounds = in_box([a for a, _ in decided], tuple(r for _, r in decided))
        outside = tuple(c for c in bounds if not holds(c, known, sizes))
        left = {n for a, _ in decided for n in variables(a)}
        own = tuple(v for v in domain.vars if v.name in left)
        if not outside or not (domain.conditions or self._others(own, domain, loops)):
            return domain  # each value of the subscripts is one of an instance
        cuts = Domain(domain.vars, outside)
        found = cut(cuts, lambda c, v: reduced(c, v, sizes, given), may_be_empty=True)
        return Domain(found.vars, (*domain.conditions, *found.conditions))

    def _is_subscript(self, a: Expr, domain: Domain) -> bool:
        """Whether an expression may stand on the left: it reads data, or is a variable plus what is known."""
        terms, _ = linear_terms(a)
        own = {v.name for v in domain.vars}
        found = [(t, c) for t, c in terms.items() if variables(t) & own]
        plain = len(found) == 1 and isinstance(found[0][0], Variable) and found[0][1] == 1
        return plain or not found or _reads_data(a)

    def _tabled(self, a: Expr, domain: Domain, loops: Sequence[Loop], made: list[Definition]) -> Expr:
        """A subscript that no statement may have on its left, as an element of a tensor of such subscripts,
        whose definitions `made` gets.

        The tensor has an element for all values of the variables of `a`.  Where some of these may be part of
        no instance, and `a` reads what exists for instances alone, an element is the maximum over the
        instances, all of which have the same subscript."""
        own = tuple(replace(v, kind="pure") for v in domain.vars if v.name in variables(a))
        name = self.taken.fresh("place")
        box = tuple(v.range for v in boxed(Domain(own), loops).vars)
        at = tuple(Variable(v.name) for v in own)
        self.versions[name] = Version(name, name, INT32, box, "temporary")
        others = self._others(own, domain, loops)
        if (others or domain.conditions) and not self._exist((a,), own, loops):
            instances = Domain((*own, *others), domain.conditions)
            made.append(Definition(name, at, None, neutral("max", INT32), Domain(own), neutral=True))
            made.append(Definition(name, at, "max", a, instances))
        else:
            made.append(Definition(name, at, None, a, Domain(own)))
        return Call(name, at, INT32, "func")

    def _others(self, own: Sequence[IterVar], domain: Domain, loops: Sequence[Loop]) -> tuple[IterVar, ...]:
        """The variables besides `own` that decide whether there is an instance: one without conditions only
        by whether it has a value."""
        sizes, given = self._known(loops)
        named = {n for c in domain.conditions for n in variables(c)}
        found: list[IterVar] = []
        for v in domain.vars:
            if v.name in {x.name for x in own}:
                continue
            if v.name in named:
                found.append(replace(v, kind="reduction"))
            elif not holds(GE(v.range.extent, ONE), given, sizes):
                some = simplify(Min(v.range.extent, ONE), exact=True)
                found.append(IterVar(v.name, Range(v.range.min, some), "reduction"))
        return tuple(found)

    def _exist(self, es: Sequence[Expr], ranges: Sequence[IterVar], loops: Sequence[Loop]) -> bool:
        """Whether all that expressions read of the program exists for all values of some variables."""
        sizes, given = self._known(loops)
        known = [*within(ranges), *given]
        return all(reads_exist(e, self.tape.versions, known, sizes) for e in es)

    def _known(self, loops: Sequence[Loop]) -> tuple[tuple[str, ...], tuple[Expr, ...]]:
        """The names of sizes and counters, and what is known of them."""
        return (*self.tape.sizes, *(loop.name for loop in loops)), (*self.tape.facts, *facts(loops))


def added_up(terms: Sequence[Term]) -> Term:
    """The sum of terms of the same elements, without the reductions of any."""
    first, *others = terms
    total = first.value
    for t in others:
        moved = {a.name: Variable(b.name) for a, b in zip(t.domain.vars, first.domain.vars, strict=True)}
        total = Add(total, substitute(t.value, dict(moved)))
    return replace(first, value=total)


def masked(t: Term) -> Expr:
    """The value of a term without reduction variables, and 0 where its conditions do not hold."""
    conditions = [c for c in t.domain.conditions if c != TRUE]
    if not conditions:
        return t.value
    total = conjunction(conditions)
    return IfThenElse(total, t.value, number(0, t.value))


def _known_of(args: Sequence[Expr], d: Domain, loops: Sequence[Loop]) -> list[bool]:
    """Which subscripts only an iteration of loops decides."""
    names = {x.name for x in d.vars}
    return [bool(loops) and not variables(a) & names and not _reads_data(a) for a in args]


def _reads_data(e: Expr) -> bool:
    return any(isinstance(x, Call) for x in walk(e))


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
