"""Expressions in lanes: index arithmetic as affine forms, everything else as values; with loop-invariant code
motion."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field

from tc.codegen.llvm_expr import PREDICATES, error_record
from tc.codegen.numerics import MAX_POINT
from tc.dtypes import BOOL, INT32, INT64
from tc.errors import InternalError, unreachable
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
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Load,
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
    walk,
)
from tc.ir.loops import Array
from tc.ir.simplify import linear_terms
from tc.poly import fractions

from ..isa import Isa
from . import load_by_shuffle, quotients
from .affine import LANE, Affine, factors
from .padded_access import padding
from .promotion import PromotionEmitter
from .values import Value, type_text

_UNBOUNDED = 1 << 62  # beyond every index
_INT32_MAX = (1 << 31) - 1  # what integers of 32 bits hold, signed or not
# Functions of few instructions.
CHEAP_FUNCTIONS = frozenset(
    ["fabs", "abs", "fmin", "fmax", "copysign", "floor", "ceil", "trunc", "fma", "sqrt"]
)
# Expensive functions whose code has no branch.
_BRANCHLESS = frozenset(["sqrt", "rsqrt", "exp", "exp_nonpositive", "log", fractions.NAME])
_OPERATORS: dict[type, str] = {Add: "+", Sub: "-", Mul: "*", Div: "/"}


@dataclass(frozen=True, slots=True)
class Env:
    """The environment of an expression: loop variables as affine forms, lets as values."""

    affine: Mapping[str, Affine]
    values: Mapping[str, Value]

    def bind(self, name: str, a: Affine) -> Env:
        return Env({**self.affine, name: a}, self.values)

    def at_lane(self, number: int) -> Env:
        """The environment at one lane."""
        return Env({n: a.at_lane(number) for n, a in self.affine.items()}, self.values)

    def varies(self, e: Expr) -> bool:
        """Whether an index differs between lanes."""
        return any(n in self.affine and self.affine[n].lane for n in variables(e))

    def let(self, name: str, v: Value) -> Env:
        return Env(self.affine, {**self.values, name: v})


@dataclass(slots=True)
class LoopContext:
    """An enclosing loop, for loop-invariant code motion.

    `defined` are the operands that are defined before the loop, `depth` is the number of scopes open there;
    `maybe_empty`: the loop may have no iteration; `written` are the buffers that it writes.  `preheader`
    collects the instructions moved before the loop, `values` the values of hoisted expressions, by what they
    are made of.
    """

    defined: AbstractSet[str]
    depth: int
    maybe_empty: bool
    written: AbstractSet[str]
    preheader: list[str] = field(default_factory=list[str])
    values: dict[Hashable, Value] = field(default_factory=dict[Hashable, Value])


def operands(env: Env) -> Iterator[str]:
    """The operands in the forms of an environment."""
    return (n for a in env.affine.values() for operand, _ in a.terms for n in factors(operand))


_Flat = tuple[tuple[Expr, ...], tuple[tuple[str, int], ...], tuple[tuple[Expr, int], ...], int]


class ExpressionEmitter(PromotionEmitter):
    """Emits expressions in the current lanes and under the current mask."""

    def __init__(self, isa: Isa, fast_math: bool, arrays: Mapping[str, Array]) -> None:
        super().__init__(isa, fast_math, arrays)
        self.scalars: dict[str, Value] = {}
        self.sizes = Env({}, {})  # of the dynamic sizes
        # Of operands: the least and the greatest value, if known.
        self.ranges: dict[str, tuple[int, int]] = {}
        self.enclosing: list[LoopContext] = []  # enclosing loops in this function, the innermost last
        # Expressions of dynamic sizes that this function has computed.
        self.hoisted_sizes: dict[Expr, str] = {}
        self.point: tuple[Expr, ...] = ()
        self._expensive: dict[int, tuple[Expr, bool]] = {}
        self._nonaffine: dict[int, tuple[Load, bool]] = {}
        self._hoistable: dict[int, tuple[Expr, bool]] = {}
        self._flat: dict[int, _Flat] = {}

    def scalar(self, name: str) -> Value:
        """The value of a scalar argument."""
        raise NotImplementedError

    def failed(self) -> None:
        """Emit the return after a failed check."""
        raise NotImplementedError

    # Index arithmetic.

    def form(self, e: Expr, env: Env) -> Affine | None:
        """The affine form of an index expression; None where it has none."""
        match e:
            case IntImm():
                return Affine((), e.value)
            case Variable():
                return env.affine.get(e.name)
            case Add() | Sub():
                a = self.form(e.a, env)
                b = self.form(e.b, env) if a is not None else None
                if a is None or b is None:
                    return None
                return a + b if isinstance(e, Add) else a - b
            case Mul():
                a, b = self.form(e.a, env), self.form(e.b, env)
                return None if a is None or b is None else a.times(b)
            case FloorDiv() | FloorMod() if isinstance(e.b, IntImm) and e.b.value > 0:
                a = self.form(e.a, env)
                found = None if a is None else self._divide_form(a, e.b.value, isinstance(e, FloorDiv))
                return self._size_form(e) if found is None else found
            case FloorDiv() | FloorMod():
                return self._size_form(e)
            case Min() | Max():
                a, b = self.form(e.a, env), self.form(e.b, env)
                if a is None or b is None:
                    return None
                d = a - b
                if not d.terms:
                    return (
                        (a if d.constant <= 0 else b) if isinstance(e, Min) else (a if d.constant >= 0 else b)
                    )
                return self._size_form(e)
            case Cast() | Select() | IfThenElse() if e.dtype == INDEX:
                return self._size_form(e) or self._constant_form(e, env)
            case Cast() | Call():
                return self._constant_form(e, env)
            case _:
                return None

    def _constant_form(self, e: Expr, env: Env) -> Affine | None:
        """The form of an index expression whose value is a number here, in an integer type that holds it."""
        match e:
            case Cast() if e.value.dtype.is_int:
                a = self.form(e.value, env)
            case Call() if e.name == "abs":
                a = self.form(e.args[0], env)
                a = None if a is None else Affine(a.terms, abs(a.constant))
            case _:
                return None
        if a is None or a.terms or not e.dtype.is_int or e.dtype.bits < 32:
            return None
        least = -_INT32_MAX if e.dtype.is_signed else 0
        return a if least <= a.constant <= _INT32_MAX else None

    def _size_form(self, e: Expr) -> Affine | None:
        """The form of an expression of dynamic sizes alone, which is computed once, at the function's entry;
        None of other expressions."""
        if not self.sizes.affine or not variables(e) <= self.sizes.affine.keys():
            return None
        if any(isinstance(x, (Call, Load, Let)) for x in walk(e)):
            return None
        return Affine.of(self.hoist_sizes(e))

    def hoist_sizes(self, e: Expr) -> str:
        """Compute an expression of dynamic sizes at the function's entry; an i64 operand."""
        found = self.hoisted_sizes.get(e)
        if found is None:
            lines, pure = self.fn.lines, self.fn.pure
            self.fn.lines, self.fn.pure = self.fn.entry, [{}]
            # Not by its form, which would ask for this.
            v = self._size_value(e)
            self.fn.lines, self.fn.pure = lines, pure
            self.hoisted_sizes[e] = found = v.text
        return found

    def _size_value(self, e: Expr) -> Value:
        """The value of an expression of dynamic sizes, without asking for its form."""
        match e:
            case FloorDiv() | FloorMod():
                a, b = self.value(e.a, self.sizes), self.value(e.b, self.sizes)
                return self.division(a, b, isinstance(e, FloorDiv))
            case Min() | Max():
                return self.extremum(
                    self.value(e.a, self.sizes), self.value(e.b, self.sizes), isinstance(e, Min)
                )
            case _:
                return self.value(e, self.sizes)

    def _divide_form(self, a: Affine, divisor: int, quotient: bool) -> Affine | None:
        """The form of a floor division or its remainder, where the terms that the divisor does not divide
        stay within one multiple of it; else None."""
        whole, rest = (
            tuple((n, f) for n, f in a.terms if (f % divisor == 0) == divides) for divides in (True, False)
        )
        offset = a.constant % divisor
        low = high = offset
        active = self.mask.active if self.mask is not None and self.mask.active else self.lanes
        for name, factor in rest:
            if name != LANE:
                return None
            low, high = low + min(0, factor * (active - 1)), high + max(0, factor * (active - 1))
        if low < 0 or high >= divisor:
            return None
        if not quotient:
            return Affine(rest, offset)
        return Affine(tuple((n, f // divisor) for n, f in whole), (a.constant - offset) // divisor)

    def _nonnegative_division(self, e: FloorDiv | FloorMod, env: Env) -> Value | None:
        """A quotient or remainder, by a constant, of a value that is known to be 0 or more; None of others.
        Lanes are divided in 32 bits where these hold the value, as there is no vector division of longer
        integers."""
        a = self.form(e.a, env)
        least, greatest = (-1, 0) if a is None else self.value_range(a)
        if a is None or least < 0 or not isinstance(e.b, IntImm) or e.b.value <= 0:
            return None
        b, quotient = e.b.value, isinstance(e, FloorDiv)
        v = self.index_value(a)
        if not v.lanes or greatest > _INT32_MAX or b > _INT32_MAX:
            found = self.unsigned_division(v, b, quotient)
            if not v.lanes:
                self.ranges[found.text] = (least // b, greatest // b) if quotient else (0, b - 1)
            return found
        narrow, wide = (type_text(t, v.lanes) for t in (INT32, INT64))
        short = Value(self.pure(f"trunc {wide} {v.text} to {narrow}"), INT32, v.lanes)
        found = self.unsigned_division(short, b, quotient)
        return Value(self.pure(f"zext {narrow} {found.text} to {wide}"), INT64, v.lanes)

    def value_range(self, a: Affine) -> tuple[int, int]:
        """Bounds of the least and the greatest value of a form."""
        least = greatest = a.constant
        for name, factor in a.terms:
            low, high = (
                (0, self.lanes - 1) if name == LANE else self.ranges.get(name, (-_UNBOUNDED, _UNBOUNDED))
            )
            least += min(factor * low, factor * high)
            greatest += max(factor * low, factor * high)
        return least, greatest

    def affine(self, e: Expr, env: Env) -> Affine:
        """The form of an index expression that all lanes share; if it is not affine, its value becomes an
        operand."""
        a = self.form(e, env)
        if a is not None:
            return a
        v = self.value(e, env)
        if v.lanes:
            raise InternalError("a bound of a loop differs between lanes")
        return Affine((), int(v.constant)) if v.constant is not None else Affine.of(v.text)

    def address(self, array: Array, subscripts: tuple[Expr, ...], env: Env) -> Affine | None:
        """The affine form of an element's position in its array, in elements; None where lanes differ in a
        way that is not affine."""
        cached = self._flat.get(id(subscripts))
        if cached is None:
            cached = self._flatten(array, subscripts)
            self._flat[id(subscripts)] = cached
        _, names, others, constant = cached
        total: dict[str, int] = {}
        affine = env.affine
        for name, factor in names:
            a = affine.get(name)
            if a is None:
                a = self._operand(Variable(name), env)
                if a is None:
                    return None
            constant += factor * a.constant
            for n, f in a.terms:
                total[n] = total.get(n, 0) + factor * f
        for e, factor in others:
            a = self.form(e, env)
            if a is None:
                a = self._operand(e, env)
                if a is None:
                    return None
            constant += factor * a.constant
            for n, f in a.terms:
                total[n] = total.get(n, 0) + factor * f
        return Affine(tuple(sorted((n, f) for n, f in total.items() if f)), constant)

    def _flatten(self, array: Array, subscripts: tuple[Expr, ...]) -> _Flat:
        """A position as a sum: variables, other terms, a constant.  The subscripts are returned, too, to keep
        them alive with the cached result."""
        names: dict[str, int] = {}
        others: list[tuple[Expr, int]] = []
        constant = 0
        for e, stride in zip(subscripts, self.strides[array.name], strict=True):
            terms, offset = linear_terms(e)
            if not isinstance(stride, int):
                others += [(Mul(term, stride), factor) for term, factor in terms.items()]
                if offset:
                    others.append((stride, offset))
                continue
            constant += offset * stride
            for term, factor in terms.items():
                if isinstance(term, Variable):
                    names[term.name] = names.get(term.name, 0) + factor * stride
                else:
                    others.append((term, factor * stride))
        return subscripts, tuple(names.items()), tuple(_combine_quotients(others)), constant

    def _operand(self, e: Expr, env: Env) -> Affine | None:
        """The form of a scalar value as one operand; None of a vector."""
        v = self.value(e, env)
        if v.lanes:
            return None
        return Affine((), int(v.constant)) if v.constant is not None else Affine.of(v.text)

    # Values.

    def condition(self, e: Expr, env: Env) -> Value:
        return self.value(e, env)

    def value(self, e: Expr, env: Env) -> Value:
        """The value of an expression."""
        match e:
            case IntImm() | UIntImm() | FloatImm():
                return self.literal(e.value, e.dtype)
            case Variable():
                if e.name in env.values:
                    return env.values[e.name]
                if e.name in env.affine:
                    return self.cast(self.index_value(env.affine[e.name]), e.dtype)
                return self.scalar(e.name)
            case Cast():
                return self.cast(self.value(e.value, env), e.dtype)
            case Div() if (found := self.loop_invariant(e, env)) is not None:
                return found
            case Add() | Sub() | Mul() | Div():
                return self.arithmetic(e, env)
            case FloorDiv() | FloorMod():
                if e.dtype == INDEX:
                    a = self.form(e, env)
                    if a is not None:
                        return self.index_value(a)
                    if (found := self._nonnegative_division(e, env)) is not None:
                        return found
                return self.division(self.value(e.a, env), self.value(e.b, env), isinstance(e, FloorDiv))
            case Min() | Max():
                if e.dtype == INDEX:
                    a = self.form(e, env)
                    if a is not None:
                        return self.index_value(a)
                return self.extremum(self.value(e.a, env), self.value(e.b, env), isinstance(e, Min))
            case EQ() | NE() | LT() | LE() | GT() | GE():
                return self.comparison(e, env)
            case And() | Or():
                a, b = self.value(e.a, env), self.value(e.b, env)
                for x, y in ((a, b), (b, a)):
                    if x.constant is not None:
                        return y if bool(x.constant) == isinstance(e, And) else x
                return self.logical("and" if isinstance(e, And) else "or", a, b)
            case Not():
                return self.negate(self.value(e.a, env))
            case Select():
                c, a, b = (self.value(x, env) for x in (e.condition, e.true_value, e.false_value))
                return self.select(c, a, b)
            case IfThenElse():
                return self.lazy(e, env)
            case Let():
                return self.value(e.body, env.let(e.name, self.value(e.value, env)))
            case Call():
                if e.kind != "intrinsic":
                    raise InternalError(f"a loop nest reads '{e.name}' by its Func")
                if (found := self.loop_invariant(e, env)) is not None:
                    return found
                args = [self.value(a, env) for a in e.args]
                if e.name == fractions.NAME:
                    return self.quotient(args[0], args[1], fraction=True)
                return self.intrinsic(e.name, args, e.dtype)
            case Load():
                return self.read(e, env)
            case _:
                unreachable(e)

    def loop_invariant(self, e: Expr, env: Env) -> Value | None:
        """The value of an expensive scalar expression, computed before the outermost enclosing loop that does
        not change it; None of an expression that must be computed in place."""
        if not self.enclosing or not self._is_hoistable(e):
            return None
        names = variables(e)
        if any(n in env.values for n in names) or any(n in env.affine and env.affine[n].lane for n in names):
            return None
        needed = {
            n for name in names if name in env.affine for o, _ in env.affine[name].terms for n in factors(o)
        }
        reads = [x for x in walk(e) if isinstance(x, Load)]
        target: LoopContext | None = None
        for loop in reversed(self.enclosing):
            if not needed <= loop.defined or not all(self._is_invariant_load(x, env, loop) for x in reads):
                break
            target = loop
        if target is None:
            return None
        key = (id(e), tuple(sorted((n, env.affine[n]) for n in names if n in env.affine)))
        if key not in target.values:
            saved = self.fn.lines, self.fn.pure, self.loaded, self.lanes, self.mask, self.enclosing
            self.fn.lines, self.fn.pure = target.preheader, self.fn.pure[: target.depth]
            self.loaded, self.lanes, self.mask, self.enclosing = self.loaded[: target.depth], 0, None, []
            target.values[key] = self.value(e, env)
            self.fn.lines, self.fn.pure, self.loaded, self.lanes, self.mask, self.enclosing = saved
        return target.values[key]

    def _is_hoistable(self, e: Expr) -> bool:
        """Whether a value is expensive, and computed without a branch."""
        found = self._hoistable.get(id(e))
        if found is None:
            inside = list(walk(e))
            calls = [x.name for x in inside if isinstance(x, Call)]
            straight = e.dtype.is_float and all(n in CHEAP_FUNCTIONS or n in _BRANCHLESS for n in calls)
            straight = straight and not any(
                isinstance(x, IfThenElse | Let | FloorDiv | FloorMod) for x in inside
            )
            found = (e, straight and (isinstance(e, Div) or any(n in _BRANCHLESS for n in calls)))
            self._hoistable[id(e)] = found
        return found[1]

    def _is_invariant_load(self, x: Load, env: Env, loop: LoopContext) -> bool:
        """Whether an element exists when a loop begins, and the loop does not change it."""
        array = self.arrays[x.buffer]
        if (
            x.buffer in loop.written
            or x.checked
            or any(isinstance(i, Load) for s in x.subscripts for i in walk(s))
        ):
            return False
        promotion = self.promotion_of(array)
        if promotion is None:
            return not loop.maybe_empty and not self.conditional and self.mask is None
        address = self.address(array, x.subscripts, env)
        return (
            loop.depth > promotion.depth and address is not None and (array.name, address) in promotion.slots
        )

    def arithmetic(self, e: Add | Sub | Mul | Div, env: Env) -> Value:
        if e.dtype == INDEX:
            a = self.form(e, env)
            if a is not None:
                return self.index_value(a)
        if isinstance(e, Add) and e.dtype.is_float:
            for product, other in ((e.a, e.b), (e.b, e.a)):
                if isinstance(product, Mul):
                    a, b = self.value(product.a, env), self.value(product.b, env)
                    return self.fma(a, b, self.value(other, env))
        a, b = self.value(e.a, env), self.value(e.b, env)
        return self.quotient(a, b) if isinstance(e, Div) else self.binary(_OPERATORS[type(e)], a, b)

    def quotient(self, a: Value, b: Value, fraction: bool = False) -> Value:
        """`a / b`; a `fraction` is from 0 to 1, or NaN."""
        if (
            a.dtype.is_float
            and not self.fast_math
            and self._is_invariant_divisor(b)
            and quotients.pays(self.isa, a, b)
        ):
            return quotients.divide(self, a, b, fraction)
        return self.binary("/", a, b)

    def _is_invariant_divisor(self, b: Value) -> bool:
        """Whether a divisor is the same in most iterations of the innermost loop; false in what follows a
        loop whose results are in registers."""
        if not self.enclosing:
            return False
        if not self.promotions or self.enclosing[-1].depth > self.promotions[-1].depth:
            return True
        fixed = b.constant is not None or b in self.scalars.values()
        return fixed and self.promotions[-1].iterations == 1

    def comparison(self, e: EQ | NE | LT | LE | GT | GE, env: Env) -> Value:
        # Narrow integers may wrap: of them only numbers are compared here.
        index = e.a.dtype == INDEX
        if index or (_is_index_sum(e.a) and _is_index_sum(e.b)):
            a, b = self.form(e.a, env), self.form(e.b, env)
            if a is not None and b is not None and (index or (_fits_int32(a) and _fits_int32(b))):
                difference = a - b
                if not difference.terms:
                    d = difference.constant
                    holds = {EQ: d == 0, NE: d != 0, LT: d < 0, LE: d <= 0, GT: d > 0, GE: d >= 0}[type(e)]
                    return self.integer(int(holds), BOOL)
        return self.compare(PREDICATES[type(e)], self.value(e.a, env), self.value(e.b, env))

    # Lazy choice.

    def lazy(self, e: IfThenElse, env: Env) -> Value:
        """The value of a condition of which only one side may be computed."""
        with self.hoisting(self._condition_operands(e.condition, env) if padding(e) else None):
            c = self.value(e.condition, env)
        if c.constant is not None:
            return self.value(e.then_value if c.constant else e.else_value, env)
        if not (self._is_expensive(e.then_value) or self._is_expensive(e.else_value)):
            return self.select(c, self.value(e.then_value, env), self.value(e.else_value, env))
        if c.lanes:
            mask = self.mask
            self.mask = c if mask is None else self.logical("and", self.widen(mask, c.lanes), c)
            a = self.value(e.then_value, env)
            other = self.negate(c)
            self.mask = other if mask is None else self.logical("and", self.widen(mask, c.lanes), other)
            b = self.value(e.else_value, env)
            self.mask = mask
            return self.select(c, a, b)
        if (v := self._padded_load(e, c, env)) is not None:
            return v
        yes, no, after = self.label("then"), self.label("else"), self.label("endif")
        self.do(f"br i1 {c.text}, label %{yes}, label %{no}")
        ends: list[tuple[Value, str, int]] = []
        for label, branch in ((yes, e.then_value), (no, e.else_value)):
            self.start(label)
            self.open()
            v = self.value(branch, env)
            # Both sides must have the same lanes: a scalar is widened in its own branch.
            if self.lanes and self._differs_between_lanes(e, env) and not v.lanes:
                v = self.widen(v, self.lanes)
            self.close()
            ends.append((v, self.fn.block, len(self.fn.lines)))
            self.do(f"br label %{after}")
        self.start(after)
        (a, a_block, _), (b, b_block, _) = ends
        if a.lanes != b.lanes:
            raise InternalError("the values of a condition have different lanes")
        ty = type_text(a.dtype, a.lanes)
        return Value(
            self.op(f"phi {ty} [ {a.text}, %{a_block} ], [ {b.text}, %{b_block} ]"), a.dtype, a.lanes
        )

    def _padded_load(self, e: IfThenElse, c: Value, env: Env) -> Value | None:
        """The value of a padded access (an element of an array, or a constant outside of it) whose condition
        all lanes share, without a branch; None where that is not possible."""
        found = padding(e)
        if found is None:
            return None
        element, constant, chosen = found
        array = self.arrays[element.buffer]
        address = self.address(array, element.subscripts, env)
        if address is None:
            return None
        tested = self._condition_operands(e.condition, env)
        with self.hoisting(tested):
            c = c if chosen else self.negate(c)
        value = self.value(constant, env)
        whole = self.lanes > 0 and not address.lane and self.isa.vector_bytes == 64
        inside = self._unconditional_offset(element, tested, env) if whole and tested is not None else None
        if tested is None or inside is None:
            return self.load_or_constant(c, array, address, value)
        rest = address - inside
        with self.hoisting(tested | {n for operand, _ in rest.terms for n in factors(operand)}):
            start = Affine.of(self.pure(f"select i1 {c.text}, i64 {self.materialize(rest)}, i64 0"))
            c = self.widen(c, self.lanes)
        return self.load_masked(c, array, start + inside, value)

    def _unconditional_offset(self, e: Load, tested: AbstractSet[str], env: Env) -> Affine | None:
        """The part of an element's address that is inside the array whatever a condition on the operands
        `tested` says: that of the subscripts that do not use these.  None if no such part changes."""
        array, out = self.arrays[e.buffer], Affine()
        for subscript, stride, extent in zip(
            e.subscripts, self.strides[array.name], array.shape, strict=True
        ):
            a = self.form(subscript, env)
            if a is None or not isinstance(stride, int) or not isinstance(extent, IntImm) or not extent.value:
                return None
            if any(n not in self.ranges or n in tested for n, _ in a.terms):
                continue
            ends = [[f * end for end in self.ranges[n]] for n, f in a.terms]
            if a.constant + sum(map(min, ends)) >= 0 and a.constant + sum(map(max, ends)) < extent.value:
                out += a * stride
        return out if out.terms else None

    def _condition_operands(self, condition: Expr, env: Env) -> AbstractSet[str] | None:
        """The operands of a condition on indices; None of another condition."""
        out: set[str] = set()
        for name in variables(condition):
            a = env.affine.get(name)
            if a is None or a.lane:
                return None
            out |= {n for operand, _ in a.terms for n in factors(operand)}
        return None if any(isinstance(x, (Load, Call, Let)) for x in walk(condition)) else out

    @contextmanager
    def hoisting(self, needed: AbstractSet[str] | None) -> Generator[None]:
        """Pure instructions emitted in this context, which use the operands `needed`, are moved before the
        enclosing loops that do not change these."""
        target: LoopContext | None = None
        for loop in reversed(self.enclosing):
            if needed is None or loop.maybe_empty or not needed <= loop.defined:
                break
            target = loop
        saved = self.fn.lines, self.fn.pure
        if target is not None:
            self.fn.lines, self.fn.pure = target.preheader, self.fn.pure[: target.depth]
        try:
            yield
        finally:
            self.fn.lines, self.fn.pure = saved

    def _is_nonaffine(self, e: Load) -> bool:
        """Whether a load has non-affine subscripts; cached, as a load is emitted for every point
        of a tile."""
        found = self._nonaffine.get(id(e))
        if found is None:
            found = self._nonaffine[id(e)] = e, load_by_shuffle.is_nonaffine(e)
        return found[1]

    def _is_expensive(self, e: Expr) -> bool:
        """Whether a value reads memory, or is expensive enough to be skipped by a branch."""
        found = self._expensive.get(id(e))
        if found is None:
            heavy = any(
                isinstance(x, Load) or (isinstance(x, Call) and x.name not in CHEAP_FUNCTIONS)
                for x in walk(e)
            )
            found = (e, heavy)
            self._expensive[id(e)] = found
        return found[1]

    def _differs_between_lanes(self, e: IfThenElse, env: Env) -> bool:
        """Whether names in an expression differ between lanes."""
        names = {x.name for x in walk(e) if isinstance(x, Variable)}
        return any(
            (n in env.affine and env.affine[n].lane) or (n in env.values and env.values[n].lanes)
            for n in names
        )

    # Reads.

    def read(self, e: Load, env: Env) -> Value:
        """The value of a load, with its checks."""
        array = self.arrays[e.buffer]
        for d in e.checked:
            self.check(self.value(e.subscripts[d], env), array, d, e.site, env)
        subscripts = load_by_shuffle.nonaffine_subscripts(self, e, env) if self._is_nonaffine(e) else []
        if (
            subscripts
            and (found := load_by_shuffle.load_by_shuffle(self, array, e, subscripts, env)) is not None
        ):
            return found
        address = self.address(array, e.subscripts, env)
        if address is not None:
            return self.load(array, address)
        promotion = self.promotion_of(array)
        if promotion is not None and array.name in promotion.written:  # else memory has it, too
            raise InternalError(f"'{array.name}' is in registers and read where data says")
        if (
            subscripts
            and (found := load_by_shuffle.load_contiguous(self, array, e, subscripts, env)) is not None
        ):
            return found
        return self.load_gathered(array, e, env)

    def load_gathered(self, array: Array, e: Load, env: Env) -> Value:
        """An element for each lane, at any address."""
        total = self.integer(0, INT64)
        for s, stride in zip(e.subscripts, self.strides[array.name], strict=True):
            v = self.cast(self.value(s, env), INT64)
            step = self.integer(stride, INT64) if isinstance(stride, int) else self.value(stride, env)
            total = self.binary("+", total, self.binary("*", v, step))
        return self.gather(array, self.base(array), total)

    def check(self, subscript: Value, array: Array, dimension: int, site: int, env: Env) -> None:
        """Emit a bounds check: return with the error record filled if an active lane's subscript is out of
        range."""
        extent = self.value(array.shape[dimension], env)
        subscript = self.cast(subscript, INT64)
        bad = self.compare(("", "uge", "uge"), subscript, extent)
        if self.mask is not None:
            bad = self.logical("and", self.vector_mask() if self.lanes else self.mask, bad)
        key = f"checked {bad.text} {site} {dimension}"
        if any(key in scope for scope in self.fn.pure):
            return
        self.fn.pure[-1][key] = ""
        outside, inside = self.label("outside"), self.label("inside")
        self.do(f"br i1 {self.any_lane(bad)}, label %{outside}, label %{inside}")
        self.start(outside)
        self.open()
        lane = "0"
        if bad.lanes:
            whole = self.op(f"bitcast <{bad.lanes} x i1> {bad.text} to i{bad.lanes}")
            wide = self.op(f"zext i{bad.lanes} {whole} to i64") if bad.lanes < 64 else whole
            lane = self.call("i64", "llvm.cttz.i64", ("i64", wide), ("i1", "true"))

        def one(v: Value) -> str:
            if not v.lanes:
                return v.text
            return self.op(f"extractelement {type_text(v.dtype, v.lanes)} {v.text}, i64 {lane}")

        lower = array.lower[dimension] if array.lower else IntImm(0)
        found = one(subscript)
        if lower != IntImm(0):
            found = self.op(f"add i64 {found}, {self.value(lower, env).text}")
        mask, self.mask = self.mask, None
        kept = tuple(one(self.value(p, env)) for p in self.point[:MAX_POINT])
        self.mask = mask
        words = error_record(site, found, kept, dimension)
        name = f"record_{len(words)}"
        self.texts.setdefault(name, _record_function(name, len(words)))
        self.do(f"call void @{name}(ptr %error, {', '.join(f'i64 {w}' for w in words)})")
        self.failed()
        self.close()
        self.start(inside)


def _record_function(name: str, words: int) -> str:
    """A function that fills the error record.  The first thread to fail fills it; the record's first word
    says that it is taken.  It is a function because dozens of checks in a loop would each repeat these lines.
    """
    params = ", ".join(f"i64 %w{i}" for i in range(words))
    lines = [
        f"define internal void @{name}(ptr %error, {params}) noinline cold nounwind {{",
        "  %claim = cmpxchg ptr %error, i64 0, i64 %w0 monotonic monotonic",
        "  %mine = extractvalue { i64, i1 } %claim, 1",
        "  br i1 %mine, label %write, label %leave",
        "write:",
        *(
            f"  %at{i} = getelementptr i64, ptr %error, i64 {i}\n  store i64 %w{i}, ptr %at{i}"
            for i in range(1, words)
        ),
        "  br label %leave",
        "leave:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _combine_quotients(terms: list[tuple[Expr, int]]) -> list[tuple[Expr, int]]:
    """A sum of quotients and remainders of an index, such as `9 * (m / 9) + 3 * (m / 3 % 3) + m % 3`, as the
    index itself; another sum as it is.  A remainder is `x % k = x - k * (x / k)`."""
    total: dict[tuple[Expr, int], int] = {}
    for e, factor in terms:
        match e:
            case FloorMod(a=x, b=IntImm() as k) if k.value > 0:
                m, d = _as_quotient(x)
                total[m, d * k.value] = total.get((m, d * k.value), 0) - factor * k.value
            case _:
                m, d = _as_quotient(e)
        total[m, d] = total.get((m, d), 0) + factor
    left = {q: factor for q, factor in total.items() if factor}
    whole = len(left) < len(terms) and all(d == 1 for _, d in left)
    return [(m, factor) for (m, _), factor in left.items()] if whole else terms


def _is_index_sum(e: Expr) -> bool:
    """Whether an integer consists of indices and numbers in sums and products, which wrap alike."""
    parts = Cast | IntImm | Variable | Add | Sub | Mul
    return e.dtype.is_int and not e.dtype.is_bool and all(isinstance(x, parts) for x in walk(e))


def _fits_int32(a: Affine) -> bool:
    """Whether a form is a number that 32 bits hold, signed or not."""
    return not a.terms and 0 <= a.constant <= _INT32_MAX


def _as_quotient(e: Expr) -> tuple[Expr, int]:
    """The dividend and the constant divisor of a value, with nested quotients combined; the divisor is 1 if
    it is no quotient."""
    if isinstance(e, FloorDiv) and isinstance(e.b, IntImm) and e.b.value > 0:
        m, d = _as_quotient(e.a)
        return m, d * e.b.value
    return e, 1
