"""Index expressions as isl's piecewise quasi-affine functions and sets.

Sizes, and integer scalars not yet specialised, are isl parameters.  A sub-expression of these alone
that is not affine (`M * N`, `(H - KH) / s`) becomes a parameter of its own, whose value is that
expression.  Everything else that is not quasi-affine is None, and the caller over-approximates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import islpy as isl

from tc.ir.expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    UIntImm,
    Variable,
    variables,
)
from tc.ir.intervals import INT32_SUMMANDS, ends
from tc.ir.program import IterVar, Program, Range
from tc.ir.simplify import from_terms, simplify
from tc.poly.context import Names
from tc.poly.extrema import Sum, operands, plus, unified

PARAM, IN, SET, OUT = isl.dim_type.param, isl.dim_type.in_, isl.dim_type.set, isl.dim_type.out

_SMALL, _LARGE = 1 << 20, 1 << 62  # values of a term; those of which nothing is known

# A linear form: coefficients of variables and of parameters by position, and a constant.
_CONST = ("c", 0)
Linear = dict[tuple[str, int], int]


@dataclass(slots=True)
class Parameters:
    """The parameters of a scop: isl name -> its expression, in isl's order."""

    names: Names
    values: dict[str, Expr] = field(default_factory=dict[str, Expr])
    of_expr: dict[Expr, int] = field(default_factory=dict[Expr, int])
    base: frozenset[str] = frozenset()  # source names of sizes and unspecialised scalars
    sizes: frozenset[str] = frozenset()  # source names of sizes
    given: dict[str, int] = field(default_factory=dict[str, int])  # values of specialised scalars
    summands: float = INT32_SUMMANDS  # indices of which a sum in int32 does not wrap around
    frozen: bool = False  # set when all have been declared: then spaces are made

    @staticmethod
    def of(program: Program, names: Names, summands: float = INT32_SUMMANDS) -> Parameters:
        known = [*program.sizes]
        known += [s.name for s in program.scalars if s.specialized and s.value is None and s.dtype.is_int]
        sizes = frozenset(program.sizes)
        given = {s.name: int(s.value) for s in program.scalars if s.specialized and s.value is not None}
        p = Parameters(names, base=frozenset(known), sizes=sizes, given=given, summands=summands)
        for n in known:
            p._add(Variable(n), n)
        return p

    def _add(self, e: Expr, name: str) -> int:
        position = len(self.of_expr)
        self.of_expr[e] = position
        self.values[self.names.safe("parameter", name)] = e
        return position

    def derive(self, e: Expr) -> int | None:
        """The parameter of a non-affine expression of parameters only; None if it is more than that."""
        if e in self.of_expr:
            return self.of_expr[e]
        if self.frozen or e.dtype != INDEX or not variables(e) <= self.base or not _plain(e):
            return None
        return self._add(e, f"e{len(self.of_expr)}")

    def space(self, kind: str, name: str, dims: Sequence[str], ctx: isl.Context) -> isl.Space:
        """A set space `name[dims]` over all parameters known by now."""
        s = isl.Space.set_alloc(ctx, len(self.values), len(dims))
        for i, n in enumerate(self.values):
            s = s.set_dim_name(PARAM, i, n)
        for i, n in enumerate(dims):
            s = s.set_dim_name(SET, i, n)
        return s.set_tuple_name(SET, self.names.safe(kind, name)) if name else s

    def params_space(self, ctx: isl.Context) -> isl.Space:
        return self.space("", "", (), ctx).params()


def _plain(e: Expr) -> bool:
    """Whether every node is index arithmetic that the host evaluates exactly."""
    match e:
        case IntImm() | Variable():
            return True
        case Add() | Sub() | Mul() | FloorDiv() | FloorMod() | Min() | Max():
            return _plain(e.a) and _plain(e.b)
        case Cast():
            return e.dtype == INDEX and e.value.dtype.is_int and _plain(e.value)
        case _:
            return False


def _reach(r: Range, sizes: frozenset[str]) -> int | None:
    """The greatest magnitude of a range, if known."""
    (low, high), (_, extent) = ends(r.min, sizes), ends(r.extent, sizes)
    if low is None or high is None or extent is None:
        return None
    return max(abs(low), abs(high + extent - 1))


def _weight(e: Expr) -> float:
    """How many indices an expression of int32 adds up at most, in magnitude; infinity if it may be more."""
    match e:
        case IntImm():
            return 0 if abs(e.value) < 1 << 24 else math.inf
        case Variable():
            return 1
        case Cast() if e.value.dtype == INDEX:
            return 1  # the value of an index of the source, such as N - 1 - j of one that counts down
        case Add() | Sub():
            return _weight(e.a) + _weight(e.b)
        case Min() | Max():
            return max(_weight(e.a), _weight(e.b))
        case Mul(a=a, b=IntImm(value=k)) | Mul(a=IntImm(value=k), b=a):
            return abs(k) * _weight(a) if k else 0
        case FloorDiv(a=a, b=IntImm(value=k)) | FloorMod(a=a, b=IntImm(value=k)) if k > 0:
            return _weight(a)
        case Call(name="abs", kind="intrinsic", args=(a,)):
            return _weight(a)
        case Select():
            return max(_weight(e.true_value), _weight(e.false_value))
        case IfThenElse():
            return max(_weight(e.then_value), _weight(e.else_value))
        case _:
            return math.inf


class Affine:
    """Converts expressions over the dimensions of one set space; `axes`: those of which ranges are known."""

    def __init__(
        self, parameters: Parameters, space: isl.Space, dims: Sequence[str], axes: Iterable[IterVar] = ()
    ) -> None:
        self.parameters = parameters
        self.reach = {
            ("d", dims.index(v.name)): n for v in axes if (n := _reach(v.range, parameters.sizes)) is not None
        }
        self.space = space
        self.local = isl.LocalSpace.from_space(space)
        self.ctx = space.get_ctx()
        self.positions = {n: i for i, n in enumerate(dims)}

    # Linear forms, in Python: most subscripts are one, and isl calls cost more than dicts.

    def linear(self, e: Expr) -> Linear | None:
        """`e` as coefficients of `("d", dimension)`, `("p", parameter)` and a constant, or None."""
        form = self._linear(e)
        if form is None or e.dtype == INDEX:
            return form
        # Indices used as values are int32.  Sums of a few of them cannot wrap: an array dimension that
        # large makes lowering choose int64.  Anything else might, and is not affine.
        if e.dtype.bits < 32 or not e.dtype.is_signed:
            return None
        terms = [(abs(c), abs(c) * self.reach.get(k, _LARGE)) for k, c in form.items() if k != _CONST]
        weight = sum(c for c, reach in terms if reach > _SMALL)
        reach = sum(reach for _, reach in terms if reach <= _SMALL) + abs(form.get(_CONST, 0))
        most = self.parameters.summands
        if e.dtype.bits == 32 and (reach > 1 << 24 or (weight > most and _weight(e) > most)):
            return None
        return form

    def _linear(self, e: Expr) -> Linear | None:
        match e:
            case IntImm() | UIntImm():
                return {_CONST: e.value}
            case Variable():
                if e.name in self.positions:
                    return {("d", self.positions[e.name]): 1}
                if Variable(e.name) in self.parameters.of_expr:
                    return {("p", self.parameters.of_expr[Variable(e.name)]): 1}
                return None
            case Cast():
                return self.linear(e.value) if e.dtype.is_int and e.value.dtype.is_int else None
            case Add() | Sub():
                a = self.linear(e.a)
                b = self.linear(e.b) if a is not None else None
                if a is None or b is None:
                    return self._derived(e)
                sign = 1 if isinstance(e, Add) else -1
                out = dict(a)
                for k, c in b.items():
                    out[k] = out.get(k, 0) + sign * c
                return {k: c for k, c in out.items() if c}
            case Mul():
                a, b = self.linear(e.a), self.linear(e.b)
                if a is not None and b is not None:
                    for x, y in ((a, b), (b, a)):
                        if not x.keys() - {_CONST}:
                            k = x.get(_CONST, 0)
                            return {t: c * k for t, c in y.items() if c * k}
                return self._derived(e)
            case FloorDiv() | FloorMod():
                divisor = self.linear(e.b)
                if divisor is not None and divisor.keys() == {_CONST} and divisor[_CONST] > 0:
                    return None  # quasi-affine: isl's
                return self._derived(e)
            case _:
                return None

    def _derived(self, e: Expr) -> Linear | None:
        position = self.parameters.derive(e)
        return None if position is None else {("p", position): 1}

    def aff(self, form: Linear) -> isl.Aff:
        out = isl.Aff.zero_on_domain(self.local)
        for (kind, position), c in form.items():
            value = self._value(c)
            if kind == "c":
                out = out.set_constant_val(value)
            else:
                out = out.set_coefficient_val(IN if kind == "d" else PARAM, position, value)
        return out

    def _value(self, c: int) -> int | isl.Val:
        """islpy makes values of integers of 64 bits only."""
        return c if -(1 << 63) <= c < 1 << 63 else isl.Val.read_from_str(self.ctx, str(c))

    def pw_aff(self, e: Expr) -> isl.PwAff | None:
        """`e` as a function on the space, or None where it is not quasi-affine."""
        form = self.linear(e)
        if form is not None:
            return isl.PwAff.from_aff(self.aff(form))
        wide = e.dtype.is_signed and e.dtype.bits >= 32
        wraps = isinstance(e, (Add, Sub, Mul)) and (
            e.dtype.bits > 32 or _weight(e) > self.parameters.summands
        )
        if e.dtype != INDEX and (not wide or wraps):
            return None
        match e:
            case Cast():
                return self.pw_aff(e.value) if e.dtype.is_int and e.value.dtype.is_int else None
            case Add() | Sub() | Min() | Max():
                a = self.pw_aff(e.a)
                b = self.pw_aff(e.b) if a is not None else None
                if a is None or b is None:
                    return self._derived_pw(e)
                match e:
                    case Add():
                        return a.add(b)
                    case Sub():
                        return a.sub(b)
                    case Min():
                        return a.min(b)
                    case _:
                        return a.max(b)
            case Call(name="abs", kind="intrinsic", args=(a,)) if _weight(a) <= self.parameters.summands:
                x = self.pw_aff(a)
                return None if x is None else x.max(x.neg())
            case Mul():
                for factor, other in ((e.a, e.b), (e.b, e.a)):
                    form = self.linear(factor)
                    if form is not None and not form.keys() - {_CONST}:
                        x = self.pw_aff(other)
                        return None if x is None else x.scale_val(form.get(_CONST, 0))
                return self._derived_pw(e)
            case FloorDiv() | FloorMod():
                form = self.linear(e.b)
                if form is None or form.keys() != {_CONST} or form[_CONST] <= 0:
                    return self._derived_pw(e)
                x = self.pw_aff(e.a)
                if x is None:
                    return self._derived_pw(e)
                k = isl.Val.int_from_si(self.ctx, form[_CONST])
                return x.scale_down_val(k).floor() if isinstance(e, FloorDiv) else x.mod_val(k)
            case Select() | IfThenElse():
                condition, yes, no = (
                    (e.condition, e.true_value, e.false_value)
                    if isinstance(e, Select)
                    else (e.condition, e.then_value, e.else_value)
                )
                where, exact = self.holds(condition)
                a, b = self.pw_aff(yes), self.pw_aff(no)
                if not exact or a is None or b is None:
                    return None
                return a.intersect_domain(where).union_add(b.subtract_domain(where))
            case _:
                return None

    def _derived_pw(self, e: Expr) -> isl.PwAff | None:
        form = self._derived(e)
        return None if form is None else isl.PwAff.from_aff(self.aff(form))

    # Conditions.

    def nonneg(self, s: isl.Set, form: Linear) -> isl.Set:
        """`s` where the linear form is at least 0."""
        return s.add_constraint(isl.Constraint.inequality_from_aff(self.aff(form)))

    def where_nonneg(self, s: isl.Set, form: Linear, bound: Expr) -> tuple[isl.Set, bool]:
        """`s` where `form + bound >= 0`, and whether that is exact; if not, it is a superset.

        A bound of minima is one constraint for each operand, and of maxima one part of the set for each: as
        piecewise affine functions, nests of them have far more pieces.
        """
        return self._where_nonneg(s, form, unified(bound))

    def _where_nonneg(self, s: isl.Set, form: Linear, total: Sum) -> tuple[isl.Set, bool]:
        terms, offset = total
        least = [t for t, c in terms.items() if isinstance(t, Min if c > 0 else Max)]
        most = [t for t, c in terms.items() if isinstance(t, Max if c > 0 else Min)]
        # Parts first and constraints in each of them: parts for each constraint would multiply.
        for chosen in (*most, *least):
            assert isinstance(chosen, Min | Max)
            others = ({t: c for t, c in terms.items() if t != chosen}, offset)
            parts = chosen in most
            found, exact = (isl.Set.empty(s.get_space()) if parts else s), True
            for x in operands(chosen):
                one, exact_one = self._where_nonneg(
                    s if parts else found, form, plus(others, x, terms[chosen])
                )
                found = found.union(one).coalesce() if parts else one
                exact = exact and exact_one
            return found, exact
        bound = from_terms(terms, offset)
        linear = self.linear(bound)
        if linear is not None:
            return self.nonneg(s, {k: linear.get(k, 0) + form.get(k, 0) for k in {**linear, **form}}), True
        value = self.pw_aff(bound)
        if value is None:
            return s, False
        return s.intersect(value.add(isl.PwAff.from_aff(self.aff(form))).nonneg_set()), True

    def universe(self) -> isl.Set:
        return isl.Set.universe(self.space)

    def holds(self, e: Expr, value: bool = True) -> tuple[isl.Set, bool]:
        """Where the condition has this value, and whether that is exact; if not, it is a superset."""
        match e:
            case UIntImm() | IntImm():
                return (self.universe() if bool(e.value) == value else isl.Set.empty(self.space)), True
            case Not():
                return self.holds(e.a, not value)
            case And() | Or():
                (a, exact_a), (b, exact_b) = self.holds(e.a, value), self.holds(e.b, value)
                both = isinstance(e, And) == value
                return (a.intersect(b) if both else a.union(b)), exact_a and exact_b
            case EQ() | NE() | LT() | LE() | GT() | GE():
                return self._compare(e, value)
            case _:
                return self.universe(), False

    def _compare(self, e: EQ | NE | LT | LE | GT | GE, value: bool) -> tuple[isl.Set, bool]:
        if e.a.dtype.is_bool or not e.a.dtype.is_int:
            return self.universe(), False
        if e.a.dtype == INDEX and not isinstance(e, EQ | NE):  # which do not wrap around
            difference = Sub(e.b, e.a) if isinstance(e, LT | LE) == value else Sub(e.a, e.b)
            if isinstance(e, LT | GT) == value:
                difference = Sub(difference, IntImm(1))
            return self.where_nonneg(self.universe(), {}, difference)
        left, right = simplify(e.a, exact=True), simplify(e.b, exact=True)
        for x, other, is_left in ((left, right, True), (right, left, False)):
            if not isinstance(x, Min | Max):
                continue
            if isinstance(e, EQ | NE):
                return self._compare_both_ways(left, right, isinstance(e, EQ) == value)
            return self._compare_extremum(e, value, x, other, is_left)
        a = self.pw_aff(left)
        b = self.pw_aff(right)
        if a is None or b is None:
            return self.universe(), False
        match (e, value):
            case (EQ(), True) | (NE(), False):
                return a.eq_set(b), True
            case (NE(), True) | (EQ(), False):
                return a.ne_set(b), True
            case (LT(), True) | (GE(), False):
                return a.lt_set(b), True
            case (LE(), True) | (GT(), False):
                return a.le_set(b), True
            case (GT(), True) | (LE(), False):
                return a.gt_set(b), True
            case _:
                return a.ge_set(b), True

    def _compare_both_ways(self, left: Expr, right: Expr, equal: bool) -> tuple[isl.Set, bool]:
        """Where two expressions are equal, or differ, by relations of order."""
        parts = (LE(left, right), GE(left, right)) if equal else (LT(left, right), GT(left, right))
        (a, exact_a), (b, exact_b) = (self._compare(p, True) for p in parts)
        return (a.intersect(b) if equal else a.union(b)), exact_a and exact_b

    def _compare_extremum(
        self, e: LT | LE | GT | GE, value: bool, x: Min | Max, other: Expr, is_left: bool
    ) -> tuple[isl.Set, bool]:
        """A relation to a minimum or maximum as relations to its operands, which have far fewer pieces."""
        parts = [type(e)(y, other) if is_left else type(e)(other, y) for y in (x.a, x.b)]
        (a, exact_a), (b, exact_b) = (self._compare(p, value) for p in parts)
        below = isinstance(e, LT | LE) == is_left  # of the extremum below the other
        every = (isinstance(x, Max) == below) == value
        return (a.intersect(b) if every else a.union(b).coalesce()), exact_a and exact_b


def declare(parameters: Parameters, expressions: Iterable[Expr]) -> None:
    """Enter the parameters that these expressions need, so that all spaces can have the same ones."""

    def visit(e: Expr) -> bool:
        """Whether `e` is made of parameters only; its largest non-affine such parts are entered."""
        match e:
            case IntImm() | UIntImm():
                return True
            case Variable():
                return e.name in parameters.base
            case Add() | Sub() | Min() | Max() | EQ() | NE() | LT() | LE() | GT() | GE() | And() | Or():
                a, b = visit(e.a), visit(e.b)
                return a and b
            case Mul():
                a, b = visit(e.a), visit(e.b)
                if a and b and variables(e.a) and variables(e.b):
                    parameters.derive(e)
                return a and b
            case FloorDiv() | FloorMod():
                a, b = visit(e.a), visit(e.b)
                constant = isinstance(e.b, IntImm) and e.b.value > 0
                if a and b and not constant:
                    parameters.derive(e)
                return a and b
            case Cast():
                return visit(e.value)
            case Not():
                return visit(e.a)
            case Select():
                return all([visit(e.condition), visit(e.true_value), visit(e.false_value)])
            case IfThenElse():
                return all([visit(e.condition), visit(e.then_value), visit(e.else_value)])
            case _:
                return False

    for e in expressions:
        visit(simplify(e, exact=True))
    parameters.frozen = True
