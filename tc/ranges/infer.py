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
from tc.halide.solve import Term
from tc.halide.terms import expr_of, free, show
from tc.ir.program import Precondition
from tc.lang import resolved as r
from tc.ranges.checks import Checks
from tc.ranges.facts import Facts, Interval, Solution, Unknown
from tc.ranges.model import Derivation, Ranges
from tc.ranges.rounds import Constraint, Implies, Rounds


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


def _by_mode(st: r.Statement, v: str, named: str = "") -> str | None:
    """Help for a variable that boundary modes alone keep from being given a range."""
    for root in st.roots():
        for a in r.accesses(r.expand_lets(root, st)):
            free_dims = [d for d in range(len(a.modes)) if not a.constrained(d)]
            plain = [d for d in free_dims if isinstance(a.subscripts[d], r.Index)]
            if any(r.Index(v, a.span) == a.subscripts[d] for d in plain):
                modes = ["none" if d in plain else _mode_text(m) for d, m in enumerate(a.modes)]
                return (
                    f"a dimension with a mode gives no range: write {a.tensor.name}[{','.join(modes)}](…), "
                    f"or give it one: where {named or v} in 0:…"
                )
    return None


def _mode_text(m: r.Mode) -> str:
    if m.value is None:
        return m.name
    zero = isinstance(m.value, r.Const) and m.value.value == 0
    return "zero" if zero else f"fill={m.value.span.text}"


def _wide(extent: r.Exp) -> bool:
    return isinstance(extent, r.Const) and int(extent.value) >> 31 > 0


def _too_large(what: str, span: Span) -> RangeError:
    return RangeError(
        f"{what} leaves 32 bits in range inference",
        span,
        code="TC0308",
        help="the solver computes in 32 bits: use smaller offsets, strides and bounds",
    )


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
        self.checks = Checks(self.facts, self.rounds, self.pieces, self.givers)

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
            self.checks.finish(k, st, *done[k])
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
            tuple(self.checks.obligations),
            tuple(dict.fromkeys(self.checks.preconditions)),
            tuple(sorted(self.derivation.steps, key=lambda s: s.statement)),
            tuple(dict.fromkeys(self.derivation.narrowings)),
            {n: self.facts.bound(i) for n, i in self.facts.every_counter.items()},
            frozenset(self.checks.cut),
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
        # Guarded accesses join for what is still open, last those that their guards alone keep in bounds, for
        # what other statements do not give the tensor.
        joined = unguarded
        for implied in (False, True):
            if implied:
                self._take_from_tensor(st, sol, unknown)
            open_now = set(unknown)
            late = [c for c in constraints if c.guarded and not c.settled and c.implied == implied]
            joined = joined + [c for c in late if free(c.subscript) & open_now]
            if unknown:
                rounds = self.rounds.run(k, joined, unknown, sol, derivation, rounds)
        self._take_from_tensor(st, sol, unknown)
        self._defer(st, constraints, sol, unknown)
        return sol, constraints, unknown, derivation

    def _take_from_tensor(self, st: r.Statement, sol: dict[str, Interval], unknown: list[str]) -> None:
        """Complete open left-hand-side variables by what other statements gave their dimensions."""
        for d, sub in enumerate(st.subscripts):
            known = self.facts.interval(st.target, d) if sub.index in unknown else None
            if known is None:
                continue
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
        lo, hi = self.given[t, d][statements[0]].lo, self.given[t, d][statements[0]].hi
        for k in statements[1:]:
            i = self.given[t, d][k]
            # No range has a negative extent, so one that begins behind another also ends behind it.
            before, behind = self.facts.proves(("<", i.hi, lo)), self.facts.proves((">", i.lo, hi))
            if self.checked.statements[k].loops:  # whose bounds may make it negative
                if before:
                    self._needs(t, d, ("<=", i.lo, lo), statements[0])
                if behind:
                    self._needs(t, d, (">=", i.hi, hi), statements[0])
            lo = i.lo if before else self._least(lo, i.lo)
            hi = i.hi if behind else self._greatest(hi, i.hi)
        self.facts.dims[t][d] = Interval(lo, hi)
        self.givers[t, d] = self.checked.statements[statements[0]].span

    def _needs(self, t: r.Tensor, d: int, condition: Term, k: int) -> None:
        """A precondition that what a statement writes lies within a range, unless that is shown."""
        if not self.facts.waits(condition) and not self.facts.proves(condition):
            text = f"dimension {d} of '{t.name}' must hold all that this statement writes"
            found = self.facts.simplify(condition)
            if isinstance(found, tuple) and found[0] == "<=" and isinstance(found[1], int):
                found = (">=", found[2], found[1])
            span = self.checked.statements[k].span
            self.checks.preconditions.append(Precondition(expr_of(found), text, span))

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
            condition: Term = ("==", a, b)
            if isinstance(a, tuple) and a[0] == "min" and b in a[1:]:  # `min(x, b) == b`
                larger = next((x for x in a[1:] if x != b), b)
                condition, text = (">=", larger, b), f"{reason}: {show(larger)} must be at least {show(b)}"
            if self.facts.proves(("!=", a, b)):
                raise RangeError(
                    text, span, code="TC0309", help="no sizes can make them equal: check the declarations"
                )
            self.checks.preconditions.append(Precondition(expr_of(condition), text, span))

    def _by_mode_of_others(self, st: r.Statement, v: str) -> str | None:
        """The same of a variable whose dimension other statements of the tensor would give a range."""
        places = [d for d, sub in enumerate(st.subscripts) if sub.index == v]
        others = [x for x in self.checked.statements if x is not st and x.target == st.target]
        found = (_by_mode(x, x.subscripts[d].index, v) for x in others for d in places)
        return next((hint for hint in found if hint), None)

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
            hint = _by_mode(st, v) or self._by_mode_of_others(st, v) or where
            raise RangeError(f"the range of '{v}' is unconstrained", span, code="TC0301", help=hint)
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
