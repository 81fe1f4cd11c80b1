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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tc.errors import Note, RangeError, Span, unreachable
from tc.halide import solve
from tc.halide.solve import Term
from tc.halide.terms import expr_of, free, show
from tc.ir.expr import Expr
from tc.ir.program import Precondition, Range
from tc.lang import resolved as r


@dataclass(frozen=True, slots=True)
class Depends:
    """A range that is known only once these scalars are."""

    scalars: frozenset[str]

    def __str__(self) -> str:
        return "depends on " + ", ".join(sorted(self.scalars))


Bound = Range | Depends


@dataclass(frozen=True, slots=True)
class Obligation:
    """An access dimension that is not in bounds by construction.

    `condition`: over sizes, sufficient for the access to be in bounds (None: none is known).
    """

    statement: int
    site: int
    dim: int
    tensor: str
    condition: Expr | None
    guarded: bool
    data_dependent: bool
    text: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the derivation: in `round`, `access` allowed `variable` the range `lo..hi`."""

    statement: int
    round: int
    variable: str
    access: str
    condition: str
    lo: str
    hi: str


@dataclass(frozen=True, slots=True)
class Ranges:
    """`variables[k]`: the ranges of statement k's variables; `boxes`: those of the tensors' dimensions."""

    variables: tuple[Mapping[str, Bound], ...]
    boxes: Mapping[r.Tensor, tuple[Bound, ...]]
    obligations: tuple[Obligation, ...]
    preconditions: tuple[Precondition, ...]
    steps: tuple[Step, ...]

    @property
    def complete(self) -> bool:
        """Whether every range is known (else scalars must be specialised first)."""
        return not any(isinstance(b, Depends) for m in self.variables for b in m.values())

    def box(self, t: r.Tensor) -> tuple[Bound, ...]:
        """The range of a tensor as it is seen here: a view starts at 0."""
        if t.base is None:
            return self.boxes[t]
        zero = expr_of(0)
        return tuple(Range(zero, b.extent) if isinstance(b, Range) else b for b in self.box(t.base))


def infer(checked: r.Checked, scalars: Mapping[str, int] | None = None) -> Ranges:
    """The ranges of every variable and tensor of a checked def, symbolic in the sizes.

    `scalars` gives values of specialised scalars; without it, dimensions that only they determine are
    `Depends`.  Raises `RangeError`.
    """
    try:
        return _Inference(checked, scalars or {}).run()
    except OverflowError:
        raise RangeError(
            "a constant of this program leaves 32 bits in range inference",
            checked.span,
            code="TC0308",
            help="give the variables concerned explicit 'where' ranges",
        ) from None


@dataclass(frozen=True, slots=True)
class _Interval:
    lo: Term
    hi: Term  # inclusive


@dataclass(slots=True)
class _Constraint:
    """`subscript <= limit` (upper) or `>= limit` of one access dimension."""

    access: r.Access
    dim: int
    subscript: Term
    upper: bool
    limit: Term
    guarded: bool
    used: bool = False
    settled: bool = False  # in range whatever the variables are (sizes >= 1): constrains nothing

    @property
    def condition(self) -> Term:
        return ("<=" if self.upper else ">=", self.subscript, self.limit)


class _Unknown(Exception):  # noqa: N818
    """A subscript needs the extent of a tensor that is not known yet."""


class _Inference:
    def __init__(self, checked: r.Checked, scalars: Mapping[str, int]) -> None:
        self.checked = checked
        self.scalars = scalars
        self.sizes: dict[str, solve.Bounds] = {n: (0, None) for n in checked.sizes}
        self.ones: dict[str, solve.Bounds] = {n: (1, None) for n in checked.sizes}
        self.dims: dict[r.Tensor, list[_Interval | None]] = {}
        self.givers: dict[tuple[r.Tensor, int], Span] = {}
        self.deferred: dict[str, frozenset[str]] = {}  # solver variable -> scalars it waits for
        self.opaque: dict[str, solve.Bounds] = {}  # solver variable for data -> bounds of its type
        self.steps: list[Step] = []
        self.preconditions: list[Precondition] = []
        self.obligations: list[Obligation] = []
        for p in checked.params:
            if isinstance(p, r.Tensor):
                self.dims[p] = [_Interval(0, self.simplify(("-", self.term(d), 1))) for d in p.dims or ()]
            elif p.specialized and p.name not in scalars:
                self.deferred[p.name] = frozenset({p.name})

    # ---- driver

    def run(self) -> Ranges:
        statements = self.checked.statements
        done: dict[int, tuple[dict[str, _Interval], list[_Constraint]]] = {}
        pending = list(range(len(statements)))
        while pending:
            progress = False
            for k in list(pending):
                solution, constraints, open_vars, steps = self._attempt(k)
                if solution is None:
                    continue
                progress |= self._give(statements[k], solution)
                if not open_vars:
                    done[k] = (solution, constraints)
                    self.steps += steps
                    pending.remove(k)
                    progress = True
            if not progress and not self._last_resort(pending):
                self._fail(pending[0])
        for k, st in enumerate(statements):
            self._finish(k, st, *done[k])
        self._agreements()
        boxes = {t: tuple(self._bound(i) for i in dims if i is not None) for t, dims in self.dims.items()}
        variables = tuple(
            {v: self._bound(done[k][0][v]) for v in (*st.variables, *st.auxiliary)}
            for k, st in enumerate(statements)
        )
        return Ranges(
            variables,
            boxes,
            tuple(self.obligations),
            tuple(dict.fromkeys(self.preconditions)),
            tuple(sorted(self.steps, key=lambda s: s.statement)),
        )

    def _attempt(
        self, k: int
    ) -> tuple[dict[str, _Interval] | None, list[_Constraint], list[str], list[Step]]:
        """Solve one statement with the tensor dimensions known so far."""
        st = self.checked.statements[k]
        unknown = [v for v in (*st.variables, *st.auxiliary)]
        sol: dict[str, _Interval] = {}
        try:
            for g in st.ranges:
                lo, hi = self.term(r.expand_lets(g.lo, st)), self.term(r.expand_lets(g.hi, st))
                sol[g.name] = _Interval(self.simplify(lo), self.simplify(("-", hi, 1)))
            if st.box is not None and self.dims.get(st.target) is None:
                self.dims[st.target] = [
                    _Interval(self.simplify(self.term(a)), self.simplify(("-", self.term(b), 1)))
                    for a, b in st.box
                ]
            constraints = list(self._constraints(st, sol, set(unknown)))
        except _Unknown:
            return None, [], unknown, []
        unknown = [v for v in unknown if v not in sol]
        steps: list[Step] = []
        unguarded = [c for c in constraints if not c.guarded and not c.settled]
        rounds = self._rounds(k, unguarded, unknown, sol, steps, 1)
        if unknown:
            open_now = set(unknown)
            late = [c for c in constraints if c.guarded and not c.settled and free(c.subscript) & open_now]
            self._rounds(k, unguarded + late, unknown, sol, steps, rounds)
        for sub in st.subscripts:
            if sub.index in unknown:
                self._take_from_tensor(st, sub, sol, unknown)
        self._defer(st, constraints, sol, unknown)
        return sol, constraints, unknown, steps

    def _rounds(
        self,
        k: int,
        constraints: list[_Constraint],
        unknown: list[str],
        sol: dict[str, _Interval],
        steps: list[Step],
        number: int,
    ) -> int:
        while unknown:
            fresh: dict[str, _Interval] = {}
            used: list[_Constraint] = []
            open_now = set(unknown)
            for v in unknown:
                lows: list[Term] = []
                highs: list[Term] = []
                mine: list[_Constraint] = []
                found: list[Step] = []
                for c in constraints:
                    if c.used or free(c.subscript) & open_now != {v}:
                        continue
                    if free(c.condition) & self.opaque.keys():
                        continue
                    bounds = self._solve(c, v, sol)
                    if bounds is None:
                        continue
                    mine.append(c)
                    lo, hi = bounds
                    if lo is not None:
                        lows.append(lo)
                    if hi is not None:
                        highs.append(hi)
                    found.append(
                        Step(
                            k, number, v, f"{c.access.tensor.name}({_text(c.access)})", show(c.condition),
                            "-inf" if lo is None else show(lo), "+inf" if hi is None else show(hi),
                        )  # fmt: skip
                    )
                if lows and highs:
                    fresh[v] = _Interval(self._fold("max", lows), self._fold("min", highs))
                    used += mine
                    steps += found
            if not fresh:
                break
            sol.update(fresh)
            for c in used:
                c.used = True
            unknown[:] = [v for v in unknown if v not in fresh]
            number += 1
        return number

    def _solve(self, c: _Constraint, v: str, sol: Mapping[str, _Interval]) -> solve.Bounds | None:
        condition = self.quantify(c.condition, sol)
        if condition is False:
            return None
        if condition is True:
            return (None, None)
        return solve.solve_for_inner_interval(condition, v, self.sizes)

    def quantify(self, condition: Term, sol: Mapping[str, _Interval]) -> Term:
        """A condition that implies `condition` for all values of the solved variables."""
        # Bounds of one variable may mention another only through `where`, and those hold sizes alone.
        domain: dict[str, solve.Bounds] = {n: (sol[n].lo, sol[n].hi) for n in free(condition) if n in sol}
        if not domain:
            return self.simplify(condition)
        return solve.and_condition_over_domain(condition, domain, self.sizes)

    def _fold(self, op: str, terms: list[Term]) -> Term:
        out = terms[0]
        for t in terms[1:]:
            if t != out:
                out = (op, out, t)
        return self.simplify(out)

    def _take_from_tensor(
        self, st: r.Statement, sub: r.Subscript, sol: dict[str, _Interval], unknown: list[str]
    ) -> None:
        """Complete an open left-hand-side variable by what other statements gave its dimension."""
        known = self.interval(st.target, st.subscripts.index(sub))
        if known is None:
            return
        lo, hi = known.lo, known.hi
        if sub.offset is not None:
            offset = self.term(r.expand_lets(sub.offset, st))
            lo, hi = self.simplify(("-", lo, offset)), self.simplify(("-", hi, offset))
        sol[sub.index] = _Interval(lo, hi)
        unknown.remove(sub.index)

    def _defer(
        self, st: r.Statement, constraints: list[_Constraint], sol: dict[str, _Interval], unknown: list[str]
    ) -> None:
        """Variables that only run-time scalars keep from being solved get a placeholder."""
        for v in list(unknown):
            waits = frozenset[str]()
            for c in constraints:
                if v in free(c.subscript):
                    waits |= self.waits(c.condition)
                    for n in free(c.subscript) & sol.keys():
                        waits |= self.waits(sol[n].lo) | self.waits(sol[n].hi)
            if waits:
                lo, hi = f"${v}.{len(self.deferred)}.lo", f"${v}.{len(self.deferred)}.hi"
                self.deferred[lo] = self.deferred[hi] = waits
                sol[v] = _Interval(lo, hi)
                unknown.remove(v)

    def waits(self, t: Term) -> frozenset[str]:
        """The scalars a term needs before it has a value."""
        out = frozenset[str]()
        for n in free(t):
            out |= self.deferred.get(n, frozenset())
        return out

    # ---- constraints of a statement

    def _constraints(
        self, st: r.Statement, sol: Mapping[str, _Interval], variables: set[str]
    ) -> Iterator[_Constraint]:
        for root, guarded in [(e, False) for e in st.exists] + [(st.value, False)]:
            for access, under in _guarded_accesses(r.expand_lets(root, st), guarded):
                for d, e in enumerate(access.subscripts):
                    box = self.interval(access.tensor, d)
                    if box is None:
                        continue
                    term = self.term(e)
                    for upper, limit in ((False, box.lo), (True, box.hi)):
                        for part, bound in _split(term, upper, limit):
                            c = _Constraint(access, d, self.simplify(part), upper, self.simplify(bound), under)
                            c.settled = self._always(c, sol, variables)
                            yield c

    def _always(self, c: _Constraint, sol: Mapping[str, _Interval], variables: set[str]) -> bool:
        """Whether the subscript is in range for all values of the variables, given sizes >= 1."""
        if isinstance(c.subscript, str):
            return False
        bound = self._extreme(c, sol, variables - sol.keys())
        if bound is None:
            return False
        return solve.can_prove(("<=" if c.upper else ">=", bound, c.limit), self.ones)

    def _extreme(self, c: _Constraint, sol: Mapping[str, _Interval], everything: set[str]) -> Term | None:
        """The greatest (upper) or least value of a subscript over its variables, as a term over sizes."""
        domain: dict[str, solve.Bounds] = {}
        for n in free(c.subscript):
            if n in sol:
                domain[n] = (sol[n].lo, sol[n].hi)
            elif n in self.opaque:
                domain[n] = self.opaque[n]
            elif n in everything:
                domain[n] = (None, None)
        lo, hi = solve.bounds_of_expr_in_scope(c.subscript, domain, self.sizes)
        return hi if c.upper else lo

    # ---- after a statement is solved

    def _give(self, st: r.Statement, sol: Mapping[str, _Interval]) -> bool:
        """Let a statement give its tensor the dimensions that are still open."""
        if st.target.base is not None:
            return False
        dims = self.dims.setdefault(st.target, [None] * st.target.rank)
        changed = False
        for d, sub in enumerate(st.subscripts):
            if dims[d] is None and sub.index in sol:
                i = sol[sub.index]
                if sub.offset is not None:
                    offset = self.term(r.expand_lets(sub.offset, st))
                    i = _Interval(self.simplify(("+", i.lo, offset)), self.simplify(("+", i.hi, offset)))
                dims[d] = i
                self.givers[st.target, d] = st.span
                changed = True
        return changed

    def _last_resort(self, pending: list[int]) -> bool:
        """Where nothing else gives a dimension, the declaration of a returned tensor does."""
        changed = False
        for k in pending:
            st = self.checked.statements[k]
            tensors = {st.target} | {a.tensor for e in st.roots() for a in r.accesses(e)}
            for t in tensors:
                if t.role != "return" or t.dims is None:
                    continue
                dims = self.dims.setdefault(t, [None] * t.rank)
                for d, declared in enumerate(t.dims):
                    if dims[d] is None:
                        dims[d] = _Interval(0, self.simplify(("-", self.term(declared), 1)))
                        changed = True
        return changed

    def _finish(
        self, k: int, st: r.Statement, sol: Mapping[str, _Interval], constraints: list[_Constraint]
    ) -> None:
        for v in (*st.variables, *st.auxiliary):
            self._extent_not_negative(st, v, sol[v])
        for d, sub in enumerate(st.subscripts):
            self._inside_tensor(st, d, sub, sol)
        for c in constraints:
            if not c.used:
                self._oblige(k, st, c, sol)

    def _extent_not_negative(self, st: r.Statement, v: str, i: _Interval) -> None:
        extent = self.simplify(("+", ("-", i.hi, i.lo), 1))
        if self.waits(extent) or self.proves((">=", extent, 0)):
            return
        low, end = show(i.lo), show(self.simplify(("+", i.hi, 1)))
        if self.proves(("<", extent, 0)):
            raise RangeError(
                f"the range of '{v}' is {low}:{end}, which has the negative extent {show(extent)}",
                st.span_of(v),
                code="TC0304",
                help="a range lo:hi is half-open, with lo <= hi",
            )
        self.preconditions.append(
            Precondition(
                expr_of(self.simplify((">=", extent, 0))),
                f"the range {low}:{end} of '{v}' would have a negative extent",
                st.span_of(v),
            )
        )

    def _inside_tensor(
        self, st: r.Statement, d: int, sub: r.Subscript, sol: Mapping[str, _Interval]
    ) -> None:
        box = self.interval(st.target, d)
        if box is None or st.box is not None:  # the parts of a concat fill their box by construction
            return
        i = sol[sub.index]
        lo, hi = i.lo, i.hi
        if sub.offset is not None:
            offset = self.term(r.expand_lets(sub.offset, st))
            lo, hi = self.simplify(("+", lo, offset)), self.simplify(("+", hi, offset))
        if (lo, hi) == (box.lo, box.hi):
            return
        for op, mine, bound in ((">=", lo, box.lo), ("<=", hi, box.hi)):
            condition = self.simplify((op, mine, bound))
            if condition is True or self.waits(condition) or self.proves(condition):
                continue
            giver = self.givers.get((st.target.storage, d))
            mine_text = f"{show(lo)}:{show(self.simplify(('+', hi, 1)))}"
            box_text = f"{show(box.lo)}:{show(self.simplify(('+', box.hi, 1)))}"
            message = (
                f"this statement writes '{st.target.name}' at {mine_text} in dimension {d}, outside its "
                f"range {box_text}"
            )
            if self.refutes(condition):
                raise RangeError(
                    message,
                    sub.span,
                    code="TC0305",
                    notes=[Note("the range comes from here", giver)] if giver else (),
                    help="the first statement of a tensor fixes its range; use 'where' to make them agree",
                )
            self._precondition(condition, message, sub.span, st, sol)

    def _oblige(self, k: int, st: r.Statement, c: _Constraint, sol: Mapping[str, _Interval]) -> None:
        data = bool(free(c.subscript) & self.opaque.keys())
        condition: Term = False
        if not data:
            condition = self.quantify(c.condition, sol)
            if free(condition) & (sol.keys() | self.opaque.keys()):
                condition = False
        if condition is False:
            bound = self._extreme(c, sol, set())
            if bound is not None and not free(bound) & sol.keys():
                condition = self.simplify(("<=" if c.upper else ">=", bound, c.limit))
                data = False
        if self.waits(condition) or any(self.waits(i.lo) | self.waits(i.hi) for i in sol.values()):
            return
        if condition is True or (condition is not False and self.proves(condition)):
            return
        text = f"{c.access.tensor.name}({_text(c.access)})"
        self.obligations.append(
            Obligation(
                k,
                c.access.site,
                c.dim,
                c.access.tensor.name,
                None if condition is False else expr_of(self._unless_empty(condition, sol)),
                c.guarded,
                data,
                f"{text} needs {show(condition)}" if condition is not False else f"{text} may leave its tensor",
                c.access.subscripts[c.dim].span,
            )
        )

    def _precondition(
        self, condition: Term, reason: str, span: Span, st: r.Statement, sol: Mapping[str, _Interval]
    ) -> None:
        self.preconditions.append(Precondition(expr_of(self._unless_empty(condition, sol)), reason, span))

    def _unless_empty(self, condition: Term, sol: Mapping[str, _Interval]) -> Term:
        """No access happens where a range is empty."""
        if condition is True:
            return condition
        for i in sol.values():
            empty = self.simplify(("<", i.hi, i.lo))
            if empty is not False and not self.waits(empty) and not self.proves(("not", empty)):
                condition = ("or", condition, empty)
        return condition

    def _agreements(self) -> None:
        pairs = [(e.left, e.right, e.reason, e.span) for e in self.checked.equalities]
        for x in self.checked.returns:
            for d, declared in enumerate(x.dims or ()):
                reason = f"dimension {d} of '{x.name}' is declared otherwise"
                pairs.append((declared, r.ExtentOf(x.tensor, d, x.span), reason, x.span))
        for left, right, reason, span in pairs:
            a, b = self.simplify(self.term(left)), self.simplify(self.term(right))
            if a == b or self.waits(a) or self.waits(b) or self.proves(("==", a, b)):
                continue
            text = f"{reason}: {show(a)} and {show(b)} must be equal"
            if self.proves(("!=", a, b)):
                raise RangeError(text, span, code="TC0309")
            self.preconditions.append(Precondition(expr_of(("==", a, b)), text, span))

    def _fail(self, k: int) -> None:
        """Nothing moves any more: explain the first open variable of the first waiting statement."""
        st = self.checked.statements[k]
        sol, constraints, unknown, _ = self._attempt(k)
        if sol is None or not unknown:
            raise RangeError(
                "the extents this statement needs are never known", st.span, code="TC0301"
            )
        v = unknown[0]
        span = st.span_of(v)
        mine = [c for c in constraints if v in free(c.subscript)]
        where = f"give it one: where {v} in 0:…"
        if not mine:
            raise RangeError(f"the range of '{v}' is unconstrained", span, code="TC0301", help=where)
        for c in mine:
            others = sorted((free(c.subscript) & set(unknown)) - {v})
            data = free(c.subscript) & self.opaque.keys()
            if data:
                raise RangeError(
                    f"the subscript of '{c.access.tensor.name}' holds '{v}' and data, so it cannot give '{v}' a range",
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

    # ---- terms

    def simplify(self, t: Term) -> Term:
        return t if isinstance(t, (bool, int, str)) else solve.simplify(t, self.sizes)

    def proves(self, condition: Term) -> bool:
        return solve.can_prove(condition, self.sizes)

    def refutes(self, condition: Term) -> bool:
        return solve.can_prove(("not", condition), self.ones)

    def interval(self, t: r.Tensor, d: int) -> _Interval | None:
        if t.base is None:
            dims = self.dims.get(t)
            return dims[d] if dims is not None else None
        i = self.interval(t.base, d)
        return None if i is None else _Interval(0, self.simplify(("-", i.hi, i.lo)))

    def term(self, e: r.Exp) -> Term:
        """An integer expression for the solver; data becomes a variable of its own."""
        match e:
            case r.Const():
                return e.value if isinstance(e.value, int) else self._opaque(e, (None, None))
            case r.Index():
                return e.name
            case r.Size():
                return e.name
            case r.Scalar():
                if e.declared.is_float:
                    return self._opaque(e, (None, None))
                return self.scalars.get(e.name, e.name)
            case r.ExtentOf():
                i = self.interval(e.tensor, e.axis)
                if i is None:
                    raise _Unknown
                return self.simplify(("+", ("-", i.hi, i.lo), 1))
            case r.Access():
                declared = e.tensor.storage.declared
                small = declared is not None and (declared.is_int or declared.is_bool) and declared.bits <= 16
                return self._opaque(e, (int(declared.min), int(declared.max)) if small and declared else (None, None))
            case r.Apply():
                return self._apply(e)
            case r.Unary():
                return ("-" if e.op == "-" else "not", self.term(e.operand))
            case r.Binary():
                return self._binary(e)
            case r.If():
                return ("select", self.term(e.condition), self.term(e.then), self.term(e.otherwise))
            case r.Cast():
                inner = self.term(e.operand)
                exact = e.target.is_int and e.target.bits >= 32
                if exact and not free(inner) & self.opaque.keys():
                    return inner
                return self._opaque(e, (None, None))
            case r.Let():
                unreachable(e)

    def _opaque(self, e: r.Exp, bounds: solve.Bounds) -> str:
        name = f"${e.span.start}.{e.span.end}"
        self.opaque[name] = bounds
        return name

    def _apply(self, e: r.Apply) -> Term:
        args = [self.term(a) for a in e.args]
        match e.function:
            case "min" | "max":
                out = args[0]
                for a in args[1:]:
                    out = (e.function, out, a)
                return out
            case "abs":
                return ("max", args[0], ("-", 0, args[0]))
            case "select":
                return ("select", args[0], args[1], args[2])
            case _:
                return self._opaque(e, (None, None))

    def _binary(self, e: r.Binary) -> Term:
        a, b = self.term(e.left), self.term(e.right)
        match e.op:
            case "/" | "%":
                op = "//" if e.op == "/" else "%"
                if b == 0:
                    return 0
                if isinstance(b, int) or not free(b) - self.sizes.keys():
                    return (op, a, b)
                return self._opaque(e, (None, None))
            case "&&":
                return ("and", a, b)
            case "||":
                return ("or", a, b)
            case _:
                return (e.op, a, b)

    def _bound(self, i: _Interval) -> Bound:
        waits = self.waits(i.lo) | self.waits(i.hi)
        if waits and any(n.startswith("$") for n in free(i.lo) | free(i.hi)):
            return Depends(waits)
        extent = self.simplify(("+", ("-", i.hi, i.lo), 1))
        return Range(expr_of(i.lo), expr_of(extent))


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
    return isinstance(t, tuple) and (t[0] in ("min", "max") or (t[0] in ("+", "-") and any(map(_extremal, t[1:]))))


def _guarded_accesses(e: r.Exp, guarded: bool) -> Iterator[tuple[r.Access, bool]]:
    """The accesses of an expression; True for those in a branch of a ternary."""
    if isinstance(e, r.Access):
        yield e, guarded
    if isinstance(e, r.If):
        yield from _guarded_accesses(e.condition, guarded)
        yield from _guarded_accesses(e.then, True)
        yield from _guarded_accesses(e.otherwise, True)
        return
    for c in r.children(e):
        yield from _guarded_accesses(c, guarded)


def _text(a: r.Access) -> str:
    return ", ".join(e.name if isinstance(e, r.Index) else e.span.text for e in a.subscripts)
