"""What solved ranges leave to be proved: extents that are not negative, writes inside their tensor, reads in
bounds.  What sizes decide becomes a precondition; what values or exact arguments decide, an `Obligation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tc.errors import Note, RangeError, Span
from tc.halide import solve
from tc.halide.solve import Term
from tc.halide.terms import attained, expr_of, free, show
from tc.ir.program import Precondition
from tc.lang import resolved as r
from tc.ranges.facts import Facts, Interval, Solution
from tc.ranges.model import Obligation
from tc.ranges.rounds import Constraint, Rounds


def _guarded_accesses(constraints: Sequence[Constraint], v: str) -> Sequence[r.Access]:
    """The accesses under conditions that gave a variable its range, each once."""
    found = (c for c in constraints if c.used and c.guarded and v in free(c.subscript))
    return list(dict.fromkeys(c.access for c in found))


class Checks:
    """Collects what is left of statement after statement.

    `pieces`: per tensor and dimension the statements whose hull is its range; `givers`: where a range came
    from.
    """

    def __init__(
        self,
        facts: Facts,
        rounds: Rounds,
        pieces: Mapping[r.Tensor, Mapping[int, Sequence[int]]],
        givers: Mapping[tuple[r.Tensor, int], Span],
    ) -> None:
        self.facts = facts
        self.rounds = rounds
        self.pieces = pieces
        self.givers = givers
        self.preconditions: list[Precondition] = []
        self.obligations: list[Obligation] = []
        self.cut: set[tuple[int, int]] = set()  # statements, dimensions of their left-hand sides

    def finish(self, k: int, st: r.Statement, sol: Solution, constraints: list[Constraint]) -> None:
        self.facts.enter(st)
        for v in (*st.variables, *st.auxiliary):
            self._extent_not_negative(st, v, sol[v], _guarded_accesses(constraints, v))
        for v in st.needs:
            self._not_empty(st, v, sol)
        for d, sub in enumerate(st.subscripts):
            if sub.data is not None:
                continue
            self._inside_tensor(k, st, d, sub, sol)
        # Rebuilt, since dimensions that were open when the statement was solved are known by now.
        held = {c.key for c in constraints if c.used}
        for c in self.rounds.constraints(st, sol, set(sol)):
            if c.key not in held:
                self._oblige(k, st, c, sol)
        self._mapped_into_something(st, sol)

    def _extent_not_negative(self, st: r.Statement, v: str, i: Interval, guarded: Sequence[r.Access]) -> None:
        """Refuse a range of negative extent, and one that accesses under conditions make empty for all
        sizes; what sizes decide becomes a precondition."""
        extent = self.facts.simplify(("+", ("-", i.hi, i.lo), 1))
        if self.facts.waits(extent):
            return
        empty: Term = self.facts.always(("<=", extent, 0))
        low, end = show(i.lo), show(self.facts.simplify(("+", i.hi, 1)))
        negative = self.facts.proves(("<", extent, 0))
        if negative or (guarded and solve.can_prove(empty, self.facts.ones)):
            names = {a: a.text for a in guarded}
            how = f"has the negative extent {show(extent)}" if negative else "is empty for all sizes"
            raise RangeError(
                f"the range of '{v}' is {low}:{end}, which {how}",
                st.span_of(v),
                code="TC0304",
                notes=[
                    Note(f"{text} is read under a condition, and {v} must keep it in range there", a.span)
                    for a, text in names.items()
                ],
                help=f"give it: where {v} in …; or let the condition keep {' and '.join(names.values())} in "
                "range by itself"
                if guarded
                else "a range lo:hi is half-open, with lo <= hi",
            )
        if self.facts.proves((">=", extent, 0)):
            return
        what = f"the range {low}:{end} of '{v}' would have a negative extent"
        if guarded:
            accesses = " and ".join(a.text for a in guarded)
            what += f" (which {accesses} under a condition {'give' if len(guarded) > 1 else 'gives'} it)"
        condition = self.facts.simplify(self.facts.always((">=", extent, 0)))
        if condition is False:
            raise RangeError(
                f"the range of '{v}' is {low}:{end}, which has a negative extent in some iteration",
                st.span_of(v),
                code="TC0304",
                help="let the loop end sooner, or write the bound as a maximum: max(lo, hi)",
            )
        self.preconditions.append(Precondition(expr_of(condition), what, st.span_of(v)))

    def _not_empty(self, st: r.Statement, v: str, sol: Solution) -> None:
        """A variable needs a value, unless no element is computed."""
        condition = self.facts.simplify(self.facts.always((">=", ("-", sol[v].hi, sol[v].lo), 0)))
        if condition is True or self.facts.waits(condition) or self.facts.proves(condition):
            return
        unless = self._unless_empty(condition, {n: sol[n] for n in st.indices})
        text = f"an arg-reduction would look for the place of an extreme of nothing: '{v}' has no values"
        self.preconditions.append(Precondition(expr_of(unless), text, st.span_of(v), expr_of(condition)))

    def _mapped_into_something(self, st: r.Statement, sol: Solution) -> None:
        """Boundary modes that map subscripts need an element to map them to, unless nothing is read."""
        for a in (a for e in st.roots() for a in r.accesses(e)):
            for d, m in enumerate(a.modes):
                box = self.facts.interval(a.tensor, d)
                if m.name in ("none", "fill") or box is None:
                    continue
                condition = self.facts.simplify((">=", ("-", box.hi, box.lo), 0))
                if condition is True or self.facts.waits(condition) or self.facts.proves(condition):
                    continue
                text = f"{a.tensor.name}[{m.name}] reads dimension {d}, which has no elements"
                self.preconditions.append(
                    Precondition(
                        expr_of(self._unless_empty(condition, sol)), text, a.span, expr_of(condition)
                    )
                )

    def _inside_tensor(self, k: int, st: r.Statement, d: int, sub: r.Subscript, sol: Solution) -> None:
        box = self.facts.interval(st.target, d)
        if box is None or st.box is not None:  # the parts of a concat fill their box by construction
            return
        i = sol[sub.index]
        lo, hi = i.lo, i.hi
        if sub.offset is not None:
            offset = self.facts.term(r.expand_lets(sub.offset, st))
            lo, hi = self.facts.simplify(("+", lo, offset)), self.facts.simplify(("+", hi, offset))
        if (lo, hi) == (box.lo, box.hi) or k in self.pieces.get(st.target, {}).get(d, ()):
            return
        for op, mine, bound in ((">=", lo, box.lo), ("<=", hi, box.hi)):
            condition = self.facts.simplify(self.facts.always((op, mine, bound)))
            if condition is True or self.facts.waits(condition) or self.facts.proves(condition):
                continue
            if self._kept_by_conditions(st, sub, sol, op, bound):
                self.cut.add((k, d))
                continue
            giver = self.givers.get((st.target.storage, d))
            mine_text = f"{show(lo)}:{show(self.facts.simplify(('+', hi, 1)))}"
            box_text = f"{show(box.lo)}:{show(self.facts.simplify(('+', box.hi, 1)))}"
            message = (
                f"this statement writes '{st.target.name}' at {mine_text} in dimension {d}, outside its "
                f"range {box_text}"
            )
            if self.facts.refutes(condition):
                raise RangeError(
                    message,
                    sub.span,
                    code="TC0305",
                    notes=[Note("the range comes from here", giver)] if giver else (),
                    help="the first statement of a tensor fixes its range; use 'where' to make them agree",
                )
            # Only an empty left-hand side writes nothing: `op=!` initialises also what it does not reduce.
            written = {n: sol[n] for n in st.indices}
            self.preconditions.append(
                Precondition(
                    expr_of(self._unless_empty(condition, written)), message, sub.span, expr_of(condition)
                )
            )

    def _kept_by_conditions(
        self, st: r.Statement, sub: r.Subscript, sol: Solution, op: str, bound: Term
    ) -> bool:
        """Whether the conditions of a statement, on the box of its variables, keep a subscript of its
        left-hand side on one side of a bound."""
        if not st.conditions or st.initializes:  # the start values are for the whole box
            return False
        place: Term = sub.index
        if sub.offset is not None:
            place = ("+", place, self.facts.term(r.expand_lets(sub.offset, st)))
        intervals = (*sol.items(), *self.facts.counters.items())
        box: list[Term] = [t for v, i in intervals for t in ((">=", v, i.lo), ("<=", v, i.hi))]
        known = (*box, *(self.facts.condition(r.expand_lets(e, st)) for e in st.conditions))
        # Among too many facts the solver misses what follows from those of the subscript's own variables.
        others = (sol.keys() | self.facts.counters.keys()) - free(place)
        near = tuple(t for t in known if not free(t) & others)
        return any(self.rounds.follows(facts, (op, place, bound)) for facts in (near, known))

    def _oblige(self, k: int, st: r.Statement, c: Constraint, sol: Solution) -> None:
        data = bool(free(c.subscript) & self.facts.opaque.keys())
        # A clamp is a promise about sizes, whatever the data are.  Below a guard its bounds for all values of
        # the variables need not be reached.
        promised = data and not (c.guarded and free(c.subscript) & sol.keys())
        necessary = not st.conditions and (
            promised or (not c.guarded and attained(c.subscript, sol.keys() | self.facts.counters.keys()))
        )
        condition: Term = False
        if not data:
            condition = self.facts.quantify(c.condition, sol)
            if free(condition) & (sol.keys() | self.facts.opaque.keys()):
                condition = False
        if condition is False:
            typed = self._extreme_in_range(c, sol, types=True)
            if typed is not False and self.facts.proves(typed):
                return
            # Without the bounds of a type only a clamp gives a condition; other data is checked when read.
            condition = self._extreme_in_range(c, sol, types=False)
            data = data and condition is False
        if self.facts.waits(condition) or any(
            self.facts.waits(i.lo) | self.facts.waits(i.hi) for i in sol.values()
        ):
            return
        if condition is True or (condition is not False and self.facts.proves(condition)):
            return
        text = c.access.text
        self.obligations.append(
            Obligation(
                k,
                c.access.site,
                c.dim,
                c.access.tensor.name,
                None if condition is False else expr_of(self._unless_empty(condition, sol)),
                None if condition is False else expr_of(condition),
                c.guarded,
                data,
                necessary,
                f"{text} needs {show(condition)}"
                if condition is not False
                else f"{text} may leave its tensor",
                c.access.subscripts[c.dim].span,
            )
        )

    def _extreme_in_range(self, c: Constraint, sol: Solution, *, types: bool) -> Term:
        """That the extreme value of a subscript is in range; False where it has none over sizes."""
        bound = self.rounds.extreme(c, sol, set(), types=types)
        if bound is None or free(bound) & sol.keys():
            return False
        return self.facts.simplify(("<=" if c.upper else ">=", bound, c.limit))

    def _unless_empty(self, condition: Term, sol: Solution) -> Term:
        """No access happens where a range is empty, or a loop has no iterations."""
        if condition is True:
            return condition
        for i in (*sol.values(), *self.facts.around):
            empty = self.facts.simplify(("<", i.hi, i.lo))
            if free(empty) & self.facts.counters.keys():
                continue
            if empty is not False and not self.facts.waits(empty) and not self.facts.proves(("not", empty)):
                condition = ("or", condition, empty)
        return condition
