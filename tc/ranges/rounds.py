"""The rounds of one statement: accesses become constraints, constraints become intervals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tc.halide import solve
from tc.halide.solve import Term
from tc.halide.terms import free, show
from tc.lang import resolved as r
from tc.ranges.facts import Facts, Interval, Unknown
from tc.ranges.model import Derivation, Narrowing, Step

# Whether a condition holds wherever all of the others do, for sizes (the names) that are not negative.
Implies = Callable[[Sequence[Term], Term, Collection[str]], bool]


@dataclass(slots=True)
class Constraint:
    """`subscript <= limit` (upper) or `>= limit` of one access dimension.

    `guards` are the conditions under which the access is made.  `implied`: they keep the dimension in bounds
    by themselves, whatever the variables are.
    """

    access: r.Access
    dim: int
    subscript: Term
    upper: bool
    limit: Term
    guards: tuple[Term, ...]
    implied: bool = False
    used: bool = False
    settled: bool = False  # in range whatever the variables are (sizes >= 1): constrains nothing

    @property
    def guarded(self) -> bool:
        return bool(self.guards)

    @property
    def key(self) -> tuple[int, int, Term, bool, Term]:
        """What tells one constraint of a statement from another."""
        return (self.access.site, self.dim, self.subscript, self.upper, self.limit)

    @property
    def condition(self) -> Term:
        return ("<=" if self.upper else ">=", self.subscript, self.limit)


class Rounds:
    """Solves statements with what `facts` knows; `implies` proves what follows from guards."""

    def __init__(self, facts: Facts, implies: Implies) -> None:
        self.facts = facts
        self.implies = implies
        self._implied: dict[tuple[tuple[Term, ...], Term], bool] = {}  # statements are solved several times

    def run(
        self,
        k: int,
        constraints: list[Constraint],
        unknown: list[str],
        sol: dict[str, Interval],
        derivation: Derivation,
        number: int,
    ) -> int:
        if not unknown:
            return number
        opaque = self.facts.opaque.keys()
        solvable = [(c, free(c.subscript)) for c in constraints if opaque.isdisjoint(free(c.condition))]
        while unknown:
            fresh: dict[str, Interval] = {}
            used: list[Constraint] = []
            open_now = set(unknown)
            for v in unknown:
                mine: list[tuple[Constraint, solve.Bounds]] = []
                for c, names in solvable:
                    if c.used or v not in names or len(names & open_now) > 1:
                        continue
                    bounds = self._solve(c, v, sol)
                    if bounds is not None:
                        mine.append((c, bounds))
                allowed = self._intersection(b for _, b in mine)
                if allowed is not None:
                    fresh[v] = allowed
                    used += [c for c, _ in mine]
                    derivation.steps += [_step(k, number, v, c, b) for c, b in mine]
                    derivation.narrowings += self._narrowings(v, allowed, mine)
            if not fresh:
                break
            sol.update(fresh)
            for c in used:
                c.used = True
            unknown[:] = [v for v in unknown if v not in fresh]
            number += 1
        return number

    def _intersection(self, bounds: Iterable[solve.Bounds]) -> Interval | None:
        """What all bounds allow; None where they leave a side open."""
        lows: list[Term] = []
        highs: list[Term] = []
        for lo, hi in bounds:
            if lo is not None:
                lows.append(lo)
            if hi is not None:
                highs.append(hi)
        return Interval(self._fold("max", lows), self._fold("min", highs)) if lows and highs else None

    def _narrowings(
        self, v: str, allowed: Interval, found: Sequence[tuple[Constraint, solve.Bounds]]
    ) -> Iterator[Narrowing]:
        """The guarded accesses without which the range of a variable would be wider, and yet known."""
        for access in dict.fromkeys(c.access for c, _ in found if c.guarded):
            wide = self._intersection(b for c, b in found if c.access != access)
            if wide is None or (self._same(wide.lo, allowed.lo) and self._same(wide.hi, allowed.hi)):
                continue
            text = access.text
            yield Narrowing(v, text, self._shown(allowed), self._shown(wide), access.span)

    def _same(self, a: Term, b: Term) -> bool:
        same: Term = ("==", a, b)
        return a == b or self.facts.proves(same) or self.follows((), same)

    def _shown(self, i: Interval) -> str:
        return f"{show(i.lo)}:{show(self.facts.simplify(('+', i.hi, 1)))}"

    def _solve(self, c: Constraint, v: str, sol: Mapping[str, Interval]) -> solve.Bounds | None:
        condition = self.facts.quantify(c.condition, sol)
        if condition is False:
            return None
        if condition is True:
            return (None, None)
        return solve.solve_for_inner_interval(condition, v, self.facts.sizes)

    def _fold(self, op: str, terms: Sequence[Term]) -> Term:
        out = terms[0]
        for t in terms[1:]:
            if t != out:
                out = (op, out, t)
        return self.facts.simplify(out)

    def constraints(
        self, st: r.Statement, sol: Mapping[str, Interval], variables: set[str]
    ) -> Iterator[Constraint]:
        for root in (*st.exists, st.value, *st.scattered):
            for access, under in _guarded_accesses(r.expand_lets(root, st), ()):
                guards = self._guards(under)
                for d, e in enumerate(access.subscripts):
                    if not access.constrained(d):
                        continue
                    box = self.facts.interval(access.tensor, d)
                    if box is None:
                        continue
                    term = self.facts.term(e)
                    inside: Term = ("and", (">=", term, box.lo), ("<=", term, box.hi))
                    implied = bool(guards) and self.follows(guards, inside)
                    for upper, limit in ((False, box.lo), (True, box.hi)):
                        for part, bound in _split(term, upper, limit):
                            subscript, bound = self.facts.simplify(part), self.facts.simplify(bound)
                            c = Constraint(access, d, subscript, upper, bound, guards, implied)
                            c.settled = self._always(c, sol, variables)
                            yield c

    def follows(self, guards: tuple[Term, ...], condition: Term) -> bool:
        """Whether a condition holds wherever all of some others do."""
        key = guards, condition
        if key not in self._implied:
            self._implied[key] = self.implies(guards, condition, self.facts.sizes)
        return self._implied[key]

    def _guards(self, under: Sequence[tuple[r.Exp, bool]]) -> tuple[Term, ...]:
        """The conditions of branches as terms.  One that needs a dimension which is not known yet says
        nothing."""
        out: list[Term] = []
        for e, value in under:
            try:
                condition = self.facts.condition(e)
                out.append(condition if value else ("not", condition))
            except Unknown:
                out.append(True)
        return tuple(out)

    def _always(self, c: Constraint, sol: Mapping[str, Interval], variables: set[str]) -> bool:
        """Whether the subscript is in range for all values of the variables, given sizes >= 1."""
        if isinstance(c.subscript, str):
            return False
        bound = self.extreme(c, sol, variables - sol.keys())
        if bound is None:
            return False
        return solve.can_prove(("<=" if c.upper else ">=", bound, c.limit), self.facts.ones)

    def extreme(
        self, c: Constraint, sol: Mapping[str, Interval], everything: set[str], *, types: bool = True
    ) -> Term | None:
        """The greatest (upper) or least value of a subscript over its variables, as a term over sizes.

        `types`: whether data may be taken to be within the bounds of a small type.
        """
        domain: dict[str, solve.Bounds] = {}
        for n in free(c.subscript):
            if n in sol:
                domain[n] = (sol[n].lo, sol[n].hi)
            elif n in self.facts.opaque:
                domain[n] = self.facts.opaque[n] if types else (None, None)
            elif n in everything:
                domain[n] = (None, None)
        term = self._with_middles(c.subscript, domain)
        lo, hi = solve.bounds_of_expr_in_scope(term, domain, self.facts.sizes)
        return self.facts.extreme(hi if c.upper else lo, c.upper)

    def _with_middles(self, t: Term, domain: Mapping[str, solve.Bounds]) -> Term:
        """An equal term, whose bounds as intervals are closer: of two values with a sum s that is the same
        for all values of the variables one is not above s / 2, and one not below.

        `reflect` and `symmetric` map to `min(m, s - m)`.
        """
        if isinstance(t, (bool, int, str)):
            return t
        op, *parts = t
        found: Term = (op, *(self._with_middles(p, domain) for p in parts))
        if op not in ("min", "max") or not free(parts[0]) & free(parts[1]) & domain.keys():
            return found
        total = self.facts.simplify(("+", parts[0], parts[1]))
        if free(total) & domain.keys():
            return found
        return (op, found, ("//", total if op == "min" else ("+", total, 1), 2))


def _split(e: Term, upper: bool, limit: Term) -> Iterator[tuple[Term, Term]]:
    """`max(a, b) <= h` as `a <= h` and `b <= h`, dually for `min`, also below + and -."""
    match e:
        case (op, a, b) if op == ("max" if upper else "min"):
            yield from _split(a, upper, limit)
            yield from _split(b, upper, limit)
        case ("+", a, b) if _extremal(a):
            yield from _split(a, upper, ("-", limit, b))
        case ("+", a, b) if _extremal(b):
            yield from _split(b, upper, ("-", limit, a))
        case ("-", a, b) if _extremal(a):
            yield from _split(a, upper, ("+", limit, b))
        case _:
            yield e, limit


def _extremal(t: Term) -> bool:
    return isinstance(t, tuple) and (
        t[0] in ("min", "max") or (t[0] in ("+", "-") and any(map(_extremal, t[1:])))
    )


def _step(k: int, number: int, v: str, c: Constraint, bounds: solve.Bounds) -> Step:
    low, high = bounds
    return Step(
        k,
        number,
        v,
        c.access.text,
        show(c.condition),
        "-inf" if low is None else show(low),
        "+inf" if high is None else show(high),
    )


def _guarded_accesses(
    e: r.Exp, guards: tuple[tuple[r.Exp, bool], ...]
) -> Iterator[tuple[r.Access, tuple[tuple[r.Exp, bool], ...]]]:
    """The accesses of an expression, each with the conditions of the branches of ternaries that it is in, and
    the value that each condition has there.  What both branches read is read under no condition."""
    if isinstance(e, r.Access):
        yield e, guards
    if isinstance(e, r.If):
        yield from _guarded_accesses(e.condition, guards)
        then = list(_guarded_accesses(e.then, (*guards, (e.condition, True))))
        otherwise = list(_guarded_accesses(e.otherwise, (*guards, (e.condition, False))))
        always = {a for a, under in then if len(under) <= len(guards) + 1}
        always &= {a for a, under in otherwise if len(under) <= len(guards) + 1}
        for a, under in (*then, *otherwise):
            yield a, guards if a in always else under
        return
    for c in r.children(e):
        yield from _guarded_accesses(c, guards)
