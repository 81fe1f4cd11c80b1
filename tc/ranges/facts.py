"""What is known while ranges are inferred: sizes, tensors' dimensions, and terms for the solver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tc.dtypes import DType
from tc.errors import unreachable
from tc.halide import solve
from tc.halide.solve import Term
from tc.halide.terms import expr_of, free
from tc.ir.program import Range
from tc.lang import resolved as r
from tc.lang.exact import compares_floats, holds_exact, integer_type, is_float
from tc.ranges import host
from tc.ranges.model import Bound, Depends

_CONDITIONS = frozenset(["&&", "||", "==", "!=", "<", "<=", ">", ">="])


@dataclass(frozen=True, slots=True)
class Interval:
    """`lo <= x <= hi`, both inclusive."""

    lo: Term
    hi: Term


class Unknown(Exception):
    """A subscript needs the extent of a tensor that is not known yet."""


Solution = Mapping[str, Interval]


class Facts:
    """`dims`: the dimensions of tensors known so far; `counters`: the values of loop variables, outer loops
    first, but those of which the statement in hand has an index of the same name; `deferred`: solver
    variables that stand for values known only once scalars are; `opaque`: those that stand for data, with
    the bounds of its type."""

    def __init__(self, checked: r.Checked, scalars: Mapping[str, int], integers: Mapping[str, DType]) -> None:
        self.scalars = scalars
        self.integers = integers
        self.sizes: dict[str, solve.Bounds] = dict.fromkeys(checked.sizes, (0, None))
        self.ones: dict[str, solve.Bounds] = dict.fromkeys(checked.sizes, (1, None))
        self.dims: dict[r.Tensor, list[Interval | None]] = {}
        self.every_counter: dict[str, Interval] = {}
        self.counters: dict[str, Interval] = {}
        self.around: tuple[Interval, ...] = ()  # of the loops around the statement in hand
        self.deferred: dict[str, frozenset[str]] = {}
        self.opaque: dict[str, solve.Bounds] = {}
        self.said: dict[r.Exp, str] = {}  # opaque values of the statement in hand
        self._simplified: dict[Term, Term] = {}  # statements are solved several times
        for p in checked.params:
            if isinstance(p, r.Tensor):
                self.dims[p] = [Interval(0, self.simplify(("-", self.term(d), 1))) for d in p.dims or ()]
            elif p.specialized and p.name not in scalars:
                self.deferred[p.name] = frozenset({p.name})

    def simplify(self, t: Term) -> Term:
        """An equal, simpler term, given that sizes are not negative."""
        if isinstance(t, (bool, int, str)):
            return t
        found = self._simplified.get(t)
        if found is None:
            found = self._simplified[t] = solve.simplify(t, self.sizes)
        return found

    def proves(self, condition: Term) -> bool:
        """Whether a condition is shown to hold for all sizes >= 0, in all iterations of loops."""
        return solve.can_prove(self.always(condition), self.sizes)

    def refutes(self, condition: Term) -> bool:
        """Whether a condition is shown to fail for all sizes >= 1, in some iteration of loops."""
        return solve.can_prove(("not", self.always(condition)), self.ones)

    def quantify(self, condition: Term, sol: Solution) -> Term:
        """A condition that implies `condition` for all values of the solved variables and of loops."""
        # Bounds of one variable mention no others: those that `where` gives hold sizes and loops alone.
        domain: dict[str, solve.Bounds] = {n: (sol[n].lo, sol[n].hi) for n in free(condition) if n in sol}
        if domain:
            condition = solve.and_condition_over_domain(condition, domain, self.sizes)
        return self.simplify(self.always(condition))

    def always(self, condition: Term) -> Term:
        """A condition over sizes that implies `condition` in all iterations of loops."""
        for name in reversed(self.counters):
            if name in free(condition):
                i = self.counters[name]
                condition = solve.and_condition_over_domain(condition, {name: (i.lo, i.hi)}, self.sizes)
        return condition

    def extreme(self, t: Term | None, upper: bool) -> Term | None:
        """The greatest or least value of a term in all iterations of loops."""
        for name in reversed(self.counters):
            if t is not None and name in free(t):
                i = self.counters[name]
                t = solve.bounds_of_expr_in_scope(t, {name: (i.lo, i.hi)}, self.sizes)[upper]
        return t

    def enter(self, st: r.Statement) -> None:
        """Have a statement in hand, and know the values of the variables of the loops around it.

        Raises Unknown where a bound is not known yet.
        """
        self.said = {}
        own = {*st.variables, *st.auxiliary}  # which are in no loop of their name
        self.counters = {n: i for n, i in self.every_counter.items() if n not in own}
        self.around = ()
        for loop in st.loops:
            if loop.name not in self.counters:
                first, last = self.bound_term(loop.first), self.bound_term(loop.last)
                i = Interval(("+", last, 1), first) if loop.down else Interval(first, ("-", last, 1))
                found = Interval(self.simplify(i.lo), self.simplify(i.hi))
                self.counters[loop.name] = self.every_counter[loop.name] = found
        self.around = tuple(self.counters[loop.name] for loop in st.loops)

    def waits(self, t: Term) -> frozenset[str]:
        """The scalars a term needs before it has a value."""
        out = frozenset[str]()
        for n in free(t):
            out |= self.deferred.get(n, frozenset())
        return out

    def interval(self, t: r.Tensor, d: int) -> Interval | None:
        """A tensor's dimension as it is seen (a view starts at 0), or None while it is not known."""
        if t.base is None:
            dims = self.dims.get(t)
            return dims[d] if dims is not None else None
        i = self.interval(t.base, d)
        return None if i is None else Interval(0, self.simplify(("-", i.hi, i.lo)))

    def bound(self, i: Interval) -> Bound:
        """An interval as it is returned."""
        waits = self.waits(i.lo) | self.waits(i.hi)
        if waits and any(n.startswith("$") for n in free(i.lo) | free(i.hi)):
            return Depends(waits)
        extent = self.simplify(("+", ("-", i.hi, i.lo), 1))
        return Range(expr_of(i.lo), expr_of(extent))

    def term(self, e: r.Exp) -> Term:
        """An integer expression for the solver; data and inexact terms become variables of their own."""
        if is_float(e):
            return self._opaque(e, (None, None))
        match e:
            case r.Const():
                return int(e.value)
            case r.Index():
                return e.name
            case r.Size() | r.Counter():
                return e.name
            case r.Scalar():
                return self.scalars.get(e.name, e.name)
            case r.ExtentOf():
                i = self.interval(e.tensor, e.axis)
                if i is None:
                    raise Unknown
                return self.simplify(("+", ("-", i.hi, i.lo), 1))
            case r.OriginOf():
                i = self.interval(e.tensor, e.axis)
                if i is None:
                    raise Unknown
                return i.lo
            case r.Access():
                dtype = self.integers.get(e.tensor.storage.name, e.tensor.storage.declared)
                return self._opaque(e, _bounds_of(dtype))
            case r.Apply():
                return self._apply(e)
            case r.Unary():
                # A condition is no integer; the type checker will say so.
                return (
                    self._wrapped(e, ("-", self.term(e.operand)))
                    if e.op == "-"
                    else self._opaque(e, (None, None))
                )
            case r.Binary():
                return (
                    self._opaque(e, (None, None))
                    if e.op in _CONDITIONS
                    else self._wrapped(e, self._binary(e))
                )
            case r.If():
                return ("select", self.condition(e.condition), self.term(e.then), self.term(e.otherwise))
            case r.Cast():
                if holds_exact(e.target) and not is_float(e.operand):
                    inner = self.term(e.operand)
                    if not free(inner) & self.opaque.keys():
                        return inner
                return self._opaque(e, _bounds_of(e.target))
            case r.Let() | r.LastIndex() | r.Imaginary():
                unreachable(e)

    def bound_term(self, e: r.Exp) -> Term:
        """The same of a bound.  One that is not exact waits for its sizes; the host computes it."""
        if host.is_exact(e):
            return self.term(e)
        host.check(e)
        missing = host.names(e) - self.scalars.keys()
        if not missing:
            return host.value(e, self.scalars)
        name = f"${e.span.start}.{e.span.end}"
        self.deferred[name] = missing
        return name

    def condition(self, e: r.Exp) -> Term:
        """A condition for the solver; data, and what is no condition, become variables."""
        match e:
            case r.Unary(op="!"):
                return ("not", self.condition(e.operand))
            case r.Binary(op="&&"):
                return ("and", self.condition(e.left), self.condition(e.right))
            case r.Binary(op="||"):
                return ("or", self.condition(e.left), self.condition(e.right))
            case r.Binary() if e.op in _CONDITIONS and not compares_floats(e):
                return (e.op, self.term(e.left), self.term(e.right))
            case _:
                return ("!=", self._opaque(e, (None, None)), 0)

    def _wrapped(self, e: r.Exp, t: Term) -> Term:
        """The term of arithmetic, or what its type says where opaque terms may make it wrap around."""
        scope = {n: self.opaque[n] for n in free(t) if n in self.opaque}
        dtype = integer_type(e, self.integers) if scope else None
        if dtype is None or not dtype.is_int:
            return t
        lo, hi = solve.bounds_of_expr_in_scope(t, scope, self.sizes)
        if isinstance(lo, int) and isinstance(hi, int):
            fits = dtype.min <= lo and hi <= dtype.max
        else:  # bounds that only one side has decide nothing: both sides are checked when the kernel runs
            fits = holds_exact(dtype)
        return t if fits else self._opaque(e, _bounds_of(dtype))

    def _opaque(self, e: r.Exp, bounds: solve.Bounds) -> str:
        """A variable for a value; the same for what a statement says twice, as all of it is read at once."""
        name = self.said.setdefault(e, f"${e.span.start}.{e.span.end}")
        self.opaque[name] = bounds
        return name

    def _apply(self, e: r.Apply) -> Term:
        if e.function == "select" and len(e.args) == 3:
            return ("select", self.condition(e.args[0]), self.term(e.args[1]), self.term(e.args[2]))
        args = [self.term(a) for a in e.args]
        match e.function:
            case "min" | "max":
                out = args[0]
                for a in args[1:]:
                    out = (e.function, out, a)
                return out
            case "abs":
                return self._wrapped(e, ("max", args[0], ("-", 0, args[0])))
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
                if not free(b) - self.sizes.keys() - self.deferred.keys():
                    # Known once the scalars are; until then its sign is not, which the solver would need.
                    name = f"${e.span.start}.{e.span.end}"
                    self.deferred[name] = self.waits(a) | self.waits(b)
                    return name
                return self._opaque(e, (None, None))
            case _:
                return (e.op, a, b)


def _bounds_of(dtype: DType | None) -> solve.Bounds:
    """What a type says about its values."""
    if dtype is None or dtype.is_float or dtype.is_complex or dtype.bits > 16:
        return (None, None)
    return (int(dtype.min), int(dtype.max))
