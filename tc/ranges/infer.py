"""Range inference: the rounds of docs/language.md ("Ranges") on Halide's interval solver.

Per statement: `where` ranges are given; in each round every access dimension with a single unresolved
variable bounds it, variables resolved in earlier rounds being quantified universally
(`and_condition_over_domain`), and what several accesses allow is intersected; a round's results become
visible together, so the order of variables does not matter.  Each inequality is solved on its own
and dropped once used, since it then holds by construction; `max(a, b) <= h` is two inequalities; a
subscript that stays in range whatever its variables are constrains nothing.

Across statements: in order; one whose left-hand side stays open waits until another statement of its
tensor has given the open dimensions.

What does not hold by construction is returned as an `Obligation`: the polyhedral layer decides the
affine ones exactly, the sizes-only condition found here serves for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tc.dtypes import DType
from tc.errors import Note, RangeError, Span
from tc.halide import solve
from tc.halide.solve import Term
from tc.halide.terms import attained, expr_of, free, show
from tc.ir.program import Precondition
from tc.lang import resolved as r
from tc.ranges.facts import Facts, Interval, Solution, Unknown
from tc.ranges.model import Derivation, Obligation, Ranges
from tc.ranges.rounds import Constraint, Implies, Rounds, access_text


def infer(
    checked: r.Checked,
    scalars: Mapping[str, int] | None = None,
    integers: Mapping[str, DType] | None = None,
    *,
    implies: Implies,
) -> Ranges:
    """The ranges of every variable and tensor of a checked def, symbolic in the sizes.

    `scalars` gives values of specialised scalars, and of sizes in bounds that the host computes; without
    it, dimensions that only they determine are `Depends`. `integers` gives the types of parameters that
    came in another integer type than declared (the bounds of a small type prove subscripts in range).
    `implies` proves that guards keep an access in bounds (`tc.poly.implication`). Raises `RangeError`.
    """
    try:
        inference = _Inference(checked, scalars or {}, integers or {}, implies)
    except OverflowError:
        wide = (p.span for p in checked.params if isinstance(p, r.Tensor) and any(map(_wide, p.dims or ())))
        raise _too_large("a declared extent", next(wide, checked.span)) from None
    try:
        return inference.run()
    except OverflowError:
        raise _too_large("a constant of this statement", inference.at) from None


def _wide(extent: r.Exp) -> bool:
    return isinstance(extent, r.Const) and int(extent.value) >> 31 > 0


def _too_large(what: str, span: Span) -> RangeError:
    return RangeError(
        f"{what} leaves 32 bits in range inference",
        span,
        code="TC0308",
        help="the solver computes in 32 bits: use smaller offsets, strides and bounds",
    )


def _guarded_accesses(constraints: Sequence[Constraint], v: str) -> Sequence[r.Access]:
    """The accesses under conditions that gave a variable its range, each once."""
    found = (c for c in constraints if c.used and c.guarded and v in free(c.subscript))
    return list(dict.fromkeys(c.access for c in found))


def pieces(statements: Sequence[r.Statement]) -> dict[r.Tensor, dict[int, Sequence[int]]]:
    """For each dimension of a tensor the statements whose hull is its range: the first that writes it and, if
    that is an assignment, those that follow, up to one that reads the tensor or reduces into it.  A dimension
    that some statement writes at a point is the hull of all statements that write it."""
    out: dict[r.Tensor, dict[int, Sequence[int]]] = {}
    for t in dict.fromkeys(st.target for st in statements if st.target.base is None):
        writers = [k for k, st in enumerate(statements) if st.target is t]
        first: list[int] = []
        for k, st in enumerate(statements[writers[0] :], writers[0]):
            reads = any(a.tensor.storage is t for e in (*st.roots(), *st.exists) for a in r.accesses(e))
            writes = st.target.storage is t
            if first and (reads or (writes and (st.reduces or st.target is not t))):
                break
            if st.target is t:
                first.append(k)
                if st.reduces or reads or st.box is not None:
                    break
        out[t] = {
            d: writers if any(statements[k].subscripts[d].point is not None for k in writers) else first
            for d in range(t.rank)
        }
    return out


class _Inference:
    def __init__(
        self,
        checked: r.Checked,
        scalars: Mapping[str, int],
        integers: Mapping[str, DType],
        implies: Implies,
    ) -> None:
        self.checked = checked
        self.facts = Facts(checked, scalars, integers)
        self.rounds = Rounds(self.facts, implies)
        self.at = checked.span  # what is being inferred
        self.givers: dict[tuple[r.Tensor, int], Span] = {}
        self.pieces = pieces(checked.statements)
        self.given: dict[tuple[r.Tensor, int], dict[int, Interval]] = {}  # by statement
        self.derivation = Derivation()
        self.preconditions: list[Precondition] = []
        self.obligations: list[Obligation] = []

    def run(self) -> Ranges:
        statements = self.checked.statements
        done: dict[int, tuple[dict[str, Interval], list[Constraint]]] = {}
        pending = list(range(len(statements)))
        while pending:
            progress = False
            for k in list(pending):
                solution, constraints, open_vars, derivation = self._attempt(k)
                if solution is None:
                    continue
                progress |= self._give(k, statements[k], solution)
                if not open_vars:
                    done[k] = (solution, constraints)
                    self.derivation.steps += derivation.steps
                    self.derivation.narrowings += derivation.narrowings
                    pending.remove(k)
                    progress = True
            if not progress and not self._give_in_part() and not self._last_resort(pending):
                self._fail(pending[0])
        for k, st in enumerate(statements):
            self._finish(k, st, *done[k])
        self._agreements()
        boxes = {
            t: tuple(self.facts.bound(i) for i in dims if i is not None)
            for t, dims in self.facts.dims.items()
        }
        variables = tuple(
            {v: self.facts.bound(done[k][0][v]) for v in (*st.variables, *st.auxiliary)}
            for k, st in enumerate(statements)
        )
        return Ranges(
            variables,
            boxes,
            tuple(self.obligations),
            tuple(dict.fromkeys(self.preconditions)),
            tuple(sorted(self.derivation.steps, key=lambda s: s.statement)),
            tuple(dict.fromkeys(self.derivation.narrowings)),
            {n: self.facts.bound(i) for n, i in self.facts.every_counter.items()},
        )

    def _attempt(self, k: int) -> tuple[dict[str, Interval] | None, list[Constraint], list[str], Derivation]:
        """Solve one statement with the tensor dimensions known so far."""
        st = self.checked.statements[k]
        self.at = st.span
        unknown = [*st.variables, *st.auxiliary]
        sol: dict[str, Interval] = {}
        try:
            self.facts.enter(st)
            for d, sub in enumerate(st.subscripts):
                if sub.data is not None and self.facts.interval(st.target, d) is None:
                    raise Unknown  # a scatter gives its tensor no range
            for g in st.ranges:
                lo, hi = (self.facts.bound_term(r.expand_lets(b, st)) for b in (g.lo, g.hi))
                sol[g.name] = Interval(self.facts.simplify(lo), self.facts.simplify(("-", hi, 1)))
            if st.box is not None and self.facts.dims.get(st.target) is None:
                self.facts.dims[st.target] = [
                    Interval(
                        self.facts.simplify(self.facts.term(a)),
                        self.facts.simplify(("-", self.facts.term(b), 1)),
                    )
                    for a, b in st.box
                ]
            constraints = list(self.rounds.constraints(st, sol, set(unknown)))
        except Unknown:
            return None, [], unknown, Derivation()
        unknown = [v for v in unknown if v not in sol]
        derivation = Derivation()
        unguarded = [c for c in constraints if not c.guarded and not c.settled]
        rounds = self.rounds.run(k, unguarded, unknown, sol, derivation, 1)
        # Guarded accesses join for what is still open, last those that their guards alone keep in bounds.
        joined = unguarded
        for implied in (False, True):
            open_now = set(unknown)
            late = [c for c in constraints if c.guarded and not c.settled and c.implied == implied]
            joined = joined + [c for c in late if free(c.subscript) & open_now]
            if unknown:
                rounds = self.rounds.run(k, joined, unknown, sol, derivation, rounds)
        for sub in st.subscripts:
            if sub.index in unknown:
                self._take_from_tensor(st, sub, sol, unknown)
        self._defer(st, constraints, sol, unknown)
        return sol, constraints, unknown, derivation

    def _take_from_tensor(
        self, st: r.Statement, sub: r.Subscript, sol: dict[str, Interval], unknown: list[str]
    ) -> None:
        """Complete an open left-hand-side variable by what other statements gave its dimension."""
        known = self.facts.interval(st.target, st.subscripts.index(sub))
        if known is None:
            return
        lo, hi = known.lo, known.hi
        if sub.offset is not None:
            offset = self.facts.term(r.expand_lets(sub.offset, st))
            lo, hi = self.facts.simplify(("-", lo, offset)), self.facts.simplify(("-", hi, offset))
        sol[sub.index] = Interval(lo, hi)
        unknown.remove(sub.index)

    def _defer(
        self, st: r.Statement, constraints: list[Constraint], sol: dict[str, Interval], unknown: list[str]
    ) -> None:
        """Variables that only run-time scalars keep from being solved get a placeholder."""
        for v in list(unknown):
            waits = frozenset[str]()
            for c in constraints:
                if v in free(c.subscript):
                    waits |= self.facts.waits(c.condition)
                    for n in free(c.subscript) & sol.keys():
                        waits |= self.facts.waits(sol[n].lo) | self.facts.waits(sol[n].hi)
            if waits:
                lo, hi = f"${v}.{len(self.facts.deferred)}.lo", f"${v}.{len(self.facts.deferred)}.hi"
                self.facts.deferred[lo] = self.facts.deferred[hi] = waits
                sol[v] = Interval(lo, hi)
                unknown.remove(v)

    def _give(self, k: int, st: r.Statement, sol: Solution) -> bool:
        """Let a statement give its tensor the dimensions that are still open.

        What the pieces of a tensor write is one range, their hull, known once all of them are.
        """
        if st.target.base is not None:
            return False
        dims = self.facts.dims.setdefault(st.target, [None] * st.target.rank)
        changed = False
        for d, sub in enumerate(st.subscripts):
            if dims[d] is not None or sub.index not in sol:
                continue
            lo: Term | None = sol[sub.index].lo
            hi: Term | None = sol[sub.index].hi
            if sub.offset is not None:
                offset = self.facts.term(r.expand_lets(sub.offset, st))
                lo, hi = self.facts.simplify(("+", lo, offset)), self.facts.simplify(("+", hi, offset))
            lo, hi = self.facts.extreme(lo, False), self.facts.extreme(hi, True)
            if lo is None or hi is None:
                continue
            given = self.given.setdefault((st.target, d), {})
            given[k] = Interval(self.facts.simplify(lo), self.facts.simplify(hi))
            if all(p in given for p in self.pieces[st.target][d]):
                self._settle(st.target, d, self.pieces[st.target][d])
                changed = True
        return changed

    def _settle(self, t: r.Tensor, d: int, statements: Sequence[int]) -> None:
        """Give a dimension the hull of what these statements write."""
        found = [self.given[t, d][k] for k in statements]
        lo, hi = found[0].lo, found[0].hi
        for i in found[1:]:
            # No range has a negative extent, so one that begins behind another also ends behind it.
            before, behind = ("<", i.hi, lo), (">", i.lo, hi)
            least = i.lo if self.facts.proves(before) else self._least(lo, i.lo)
            hi = i.hi if self.facts.proves(behind) else self._greatest(hi, i.hi)
            lo = least
        self.facts.dims[t][d] = Interval(lo, hi)
        self.givers[t, d] = self.checked.statements[statements[0]].span

    def _least(self, a: Term, b: Term) -> Term:
        if a == b or self.facts.proves(("<=", a, b)):
            return a
        return b if self.facts.proves(("<=", b, a)) else self.facts.simplify(("min", a, b))

    def _greatest(self, a: Term, b: Term) -> Term:
        if a == b or self.facts.proves((">=", a, b)):
            return a
        return b if self.facts.proves((">=", b, a)) else self.facts.simplify(("max", a, b))

    def _give_in_part(self) -> bool:
        """Where nothing else moves, settle a dimension by those of its statements that are known."""
        for (t, d), given in self.given.items():
            if self.facts.dims[t][d] is None:
                known = [k for k in self.pieces[t][d] if k in given]
                self._settle(t, d, known or [min(given)])
                return True
        return False

    def _last_resort(self, pending: list[int]) -> bool:
        """Where nothing else gives a dimension, the declaration of a returned tensor does."""
        changed = False
        for k in pending:
            st = self.checked.statements[k]
            tensors = {st.target} | {a.tensor for e in st.roots() for a in r.accesses(e)}
            for t in tensors:
                if t.role != "return" or t.dims is None:
                    continue
                dims = self.facts.dims.setdefault(t, [None] * t.rank)
                for d, declared in enumerate(t.dims):
                    if dims[d] is None:
                        dims[d] = Interval(0, self.facts.simplify(("-", self.facts.term(declared), 1)))
                        changed = True
        return changed

    def _finish(self, k: int, st: r.Statement, sol: Solution, constraints: list[Constraint]) -> None:
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
            names = {a: f"{a.tensor.name}({access_text(a)})" for a in guarded}
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
            accesses = " and ".join(f"{a.tensor.name}({access_text(a)})" for a in guarded)
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
        text = f"'{st.target.name}' would be the place of an extreme of nothing: '{v}' has no values"
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

    def _oblige(self, k: int, st: r.Statement, c: Constraint, sol: Solution) -> None:
        data = bool(free(c.subscript) & self.facts.opaque.keys())
        # A clamp is a promise about sizes, whatever the data are.
        necessary = data or (
            not (c.guarded or st.conditions)
            and attained(c.subscript, sol.keys() | self.facts.counters.keys())
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
        text = f"{c.access.tensor.name}({access_text(c.access)})"
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
        """No access happens where a range is empty."""
        if condition is True:
            return condition
        for i in sol.values():
            empty = self.facts.simplify(("<", i.hi, i.lo))
            if free(empty) & self.facts.counters.keys():
                continue
            if empty is not False and not self.facts.waits(empty) and not self.facts.proves(("not", empty)):
                condition = ("or", condition, empty)
        return condition

    def _agreements(self) -> None:
        pairs = [(e.left, e.right, e.reason, e.span) for e in self.checked.equalities]
        for x in self.checked.returns:
            for d, declared in enumerate(x.dims or ()):
                reason = f"dimension {d} of '{x.name}' is declared otherwise"
                pairs.append((declared, r.ExtentOf(x.tensor, d, x.span), reason, x.span))
        for left, right, reason, span in pairs:
            a, b = self.facts.simplify(self.facts.term(left)), self.facts.simplify(self.facts.term(right))
            if a == b or self.facts.waits(a) or self.facts.waits(b) or self.facts.proves(("==", a, b)):
                continue
            text = f"{reason}: {show(a)} and {show(b)} must be equal"
            if self.facts.proves(("!=", a, b)):
                raise RangeError(
                    text, span, code="TC0309", help="no sizes can make them equal: check the declarations"
                )
            self.preconditions.append(Precondition(expr_of(("==", a, b)), text, span))

    def _fail(self, k: int) -> None:
        """Nothing moves any more: explain the first open variable of the first waiting statement."""
        st = self.checked.statements[k]
        sol, constraints, unknown, _ = self._attempt(k)
        if sol is None or not unknown:
            raise RangeError(
                "the extents this statement needs are never known",
                st.span,
                code="TC0301",
                help="give its variables ranges with 'where'",
            )
        v = unknown[0]
        span = st.span_of(v)
        mine = [c for c in constraints if v in free(c.subscript)]
        where = f"give it one: where {v} in 0:…"
        if not mine:
            raise RangeError(f"the range of '{v}' is unconstrained", span, code="TC0301", help=where)
        for c in mine:
            others = sorted((free(c.subscript) & set(unknown)) - {v})
            data = free(c.subscript) & self.facts.opaque.keys()
            if data:
                raise RangeError(
                    f"the subscript of '{c.access.tensor.name}' holds '{v}' and data, so it cannot give "
                    f"'{v}' a range",
                    c.access.subscripts[c.dim].span,
                    code="TC0303",
                    help=where,
                )
            if others:
                raise RangeError(
                    f"the range of '{v}' is ambiguous: {show(c.condition)} relates it to "
                    + ", ".join(f"'{o}'" for o in others),
                    span,
                    code="TC0302",
                    notes=[Note("in this access", c.access.span)],
                    help=where,
                )
        c = mine[0]
        raise RangeError(
            f"the range of '{v}' cannot be solved from {show(c.condition)}",
            c.access.subscripts[c.dim].span,
            code="TC0303",
            help=where,
        )
