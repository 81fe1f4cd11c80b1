"""Values of expressions in lanes, with loop-invariant code motion; index arithmetic is in `index_forms`."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

from tc.codegen.llvm_expr import PREDICATES
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
from tc.poly import fractions

from ..isa import Isa
from . import border_loads, branches, lane_conditions, load_by_shuffle, quotients
from .affine import Affine, factors
from .bounds_checks import check
from .branches import CHEAP_FUNCTIONS
from .index_forms import Env, IndexEmitter, LoopContext, compares
from .padded_access import holds_padding, padding
from .values import Value, type_text

_UNBOUNDED = 1 << 62  # beyond every index
_INT32_MAX = (1 << 31) - 1  # what integers of 32 bits hold, signed or not
# Expensive functions whose code has no branch.
_BRANCHLESS = frozenset(["sqrt", "rsqrt", "exp", "exp_nonpositive", "log", fractions.NAME])
_OPERATORS: dict[type, str] = {Add: "+", Sub: "-", Mul: "*", Div: "/"}


class ExpressionEmitter(IndexEmitter):
    """Emits expressions in the current lanes and under the current mask."""

    def __init__(self, isa: Isa, fast_math: bool, arrays: Mapping[str, Array]) -> None:
        super().__init__(isa, fast_math, arrays)
        self.scalars: dict[str, Value] = {}
        self.enclosing: list[LoopContext] = []  # enclosing loops in this function, the innermost last
        self.point: tuple[Expr, ...] = ()
        self._expensive: dict[int, tuple[Expr, bool]] = {}
        self._nonaffine: dict[int, tuple[Load, bool]] = {}
        self._known_conditions: dict[int, tuple[IfThenElse, bool]] = {}
        self._hoistable: dict[int, tuple[Expr, bool]] = {}

    def scalar(self, name: str) -> Value:
        """The value of a scalar argument."""
        raise NotImplementedError

    def failed(self) -> None:
        """Emit the return after a failed check."""
        raise NotImplementedError

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
        not change it; None for an expression that must be computed in place."""
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
            with self._before(target):
                target.values[key] = self.value(e, env)
        return target.values[key]

    @contextmanager
    def _before(self, loop: LoopContext) -> Generator[None]:
        """Emits before an enclosing loop, as if nothing enclosed it."""
        saved = self.loaded, self.enclosing
        self.loaded, self.enclosing = self.loaded[: loop.depth], []
        try:
            with self.fn.moved_to(loop.preheader, self.fn.pure[: loop.depth]), self.under(0, None):
                yield
        finally:
            self.loaded, self.enclosing = saved

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
        """Whether a divisor is the same in most iterations of the innermost loop.  False in statements that
        follow a loop whose results are in registers."""
        if not self.enclosing:
            return False
        if not self.promotions or self.enclosing[-1].depth > self.promotions[-1].depth:
            return True
        fixed = b.constant is not None or b in self.scalars.values()
        return fixed and self.promotions[-1].iterations == 1

    def comparison(self, e: EQ | NE | LT | LE | GT | GE, env: Env) -> Value:
        # Narrow integers may wrap around: only constants of such types are compared here.
        index = e.a.dtype == INDEX
        if index or (_is_index_sum(e.a) and _is_index_sum(e.b)):
            a, b = self.form(e.a, env), self.form(e.b, env)
            if a is not None and b is not None and (index or (_fits_int32(a) and _fits_int32(b))):
                difference = a - b
                if not difference.terms:
                    return self.integer(int(compares(type(e), difference.constant)), BOOL)
                if (narrow := self._comparison_of_lanes(e, difference)) is not None:
                    return narrow
        return self.compare(PREDICATES[type(e)], self.value(e.a, env), self.value(e.b, env))

    def _comparison_of_lanes(self, e: EQ | NE | LT | LE | GT | GE, difference: Affine) -> Value | None:
        """A 32-bit comparison of a form with 0, if the form differs between lanes and 32 bits hold its
        values; else None."""
        lane, rest = difference.lane, Affine() - difference.uniform
        least, greatest = self.value_range(rest)
        if not lane or least < -_INT32_MAX or greatest > _INT32_MAX or abs(lane) * self.lanes > _INT32_MAX:
            return None
        scalar = self.index_value(rest)
        if scalar.constant is not None:
            other = self.integer(int(scalar.constant), INT32)
        else:
            other = Value(self.pure(f"trunc i64 {scalar.text} to i32"), INT32)
        return self.compare(PREDICATES[type(e)], self.steps(INT32, self.lanes, lane), other)

    # Lazy choice.

    def lazy(self, e: IfThenElse, env: Env) -> Value:
        """The value of a choice of which only one side may be evaluated."""
        if self.lanes and self._may_be_known(e):
            found = lane_conditions.choose(self, e, env)
            if found is not None:
                return found
        with self.hoisting(self._condition_operands(e.condition, env) if padding(e) else None):
            c = self.value(e.condition, env)
        if c.constant is not None:
            return self.value(e.then_value if c.constant else e.else_value, env)
        if not (self._is_expensive(e.then_value) or self._is_expensive(e.else_value)) or (
            not self.lanes and branches.costs_more_than_both(e, self.arrays)
        ):
            a, b = self.value(e.then_value, env), self.value(e.else_value, env)
            reads = isinstance(e.then_value, Load) and isinstance(e.else_value, Load)
            return self.merge(c, a, b) if reads else self.select(c, a, b)
        if c.lanes:
            found = lane_conditions.mostly_all(self, e, c, env)
            return self.by_lanes(e, c, env) if found is None else found
        if (v := self._padded_load(e, c, env)) is not None:
            return v
        yes, no, after = self.label("then"), self.label("else"), self.label("endif")
        self.do(f"br i1 {c.text}, label %{yes}, label %{no}")
        ends: list[tuple[Value, str]] = []
        # A padded access in a branch may be one value for each lane, though all are equal.
        wide = self.lanes > 0 and (self._differs_between_lanes(e, env) or holds_padding(e))
        for label, branch in ((yes, e.then_value), (no, e.else_value)):
            self.start(label)
            with self.scope():
                v = self.value(branch, env)
                # Both sides must have the same lanes: a scalar is widened in its own branch.
                if wide and not v.lanes:
                    v = self.widen(v, self.lanes)
            ends.append((v, self.fn.block))
            self.do(f"br label %{after}")
        self.start(after)
        (a, a_block), (b, b_block) = ends
        if a.lanes != b.lanes:
            raise InternalError("the values of a condition have different lanes")
        ty = type_text(a.dtype, a.lanes)
        return Value(
            self.op(f"phi {ty} [ {a.text}, %{a_block} ], [ {b.text}, %{b_block} ]"), a.dtype, a.lanes
        )

    def by_lanes(self, e: IfThenElse, c: Value, env: Env) -> Value:
        """The value of a choice whose condition differs between lanes: both sides, each in its lanes."""
        with self.where(c):
            a = self.value(e.then_value, env)
        with self.where(self.negate(c)):
            b = self.value(e.else_value, env)
        return self.select(c, a, b)

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
        """The part of an element's address that is inside the array whether or not a condition on the
        operands `tested` holds: the part of the subscripts that do not use these operands.  None if that part
        is constant."""
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
        """The operands of a condition on indices; None for other conditions."""
        out: set[str] = set()
        for name in variables(condition):
            a = env.affine.get(name)
            if a is None or a.lane:
                return None
            out |= {n for operand, _ in a.terms for n in factors(operand)}
        return None if any(isinstance(x, (Load, Call, Let)) for x in walk(condition)) else out

    @contextmanager
    def where(self, c: Value) -> Generator[None]:
        """Emits in the lanes of the current mask in which a condition holds."""
        mask = self.mask
        with self.under(self.lanes, c if mask is None else self.logical("and", self.widen(mask, c.lanes), c)):
            yield

    @contextmanager
    def hoisting(self, needed: AbstractSet[str] | None) -> Generator[None]:
        """Moves pure instructions emitted in this context, which use the operands `needed`, before the
        enclosing loops that do not change these."""
        target: LoopContext | None = None
        for loop in reversed(self.enclosing):
            if needed is None or loop.maybe_empty or not needed <= loop.defined:
                break
            target = loop
        if target is None:
            yield
            return
        with self.fn.moved_to(target.preheader, self.fn.pure[: target.depth]):
            yield

    def _is_nonaffine(self, e: Load) -> bool:
        """Whether a load has non-affine subscripts; cached, as a load is emitted for every point
        of a tile."""
        found = self._nonaffine.get(id(e))
        if found is None:
            found = self._nonaffine[id(e)] = e, load_by_shuffle.is_nonaffine(e)
        return found[1]

    def _may_be_known(self, e: IfThenElse) -> bool:
        """Whether a condition may be known for each lane at compile time; cached as well."""
        found = self._known_conditions.get(id(e))
        if found is None:
            found = self._known_conditions[id(e)] = e, lane_conditions.may_be_known(e.condition)
        return found[1]

    def _is_expensive(self, e: Expr) -> bool:
        """Whether a value reads memory, or is expensive enough to be skipped by a branch."""
        found = self._expensive.get(id(e))
        if found is None:
            found = (e, branches.is_expensive(e))
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
            check(self, self.value(e.subscripts[d], env), array, d, e.site, env)
        subscripts = load_by_shuffle.nonaffine_subscripts(self, e, env) if self._is_nonaffine(e) else []
        if (
            subscripts
            and (found := load_by_shuffle.load_by_shuffle(self, array, e, subscripts, env)) is not None
        ):
            return found
        address = self.address(array, e.subscripts, env)
        if address is not None:
            return self.load(array, address, e.inside)
        promotion = self.promotion_of(array)
        if promotion is not None and array.name in promotion.written:  # else memory has it, too
            raise InternalError(f"'{array.name}' is in registers and read where data says")
        if (
            subscripts
            and (found := load_by_shuffle.load_contiguous(self, array, e, subscripts, env)) is not None
        ):
            return found
        return border_loads.load_apart(self, array, e, env)

    def load_gathered(self, array: Array, e: Load, env: Env) -> Value:
        """One element for each lane, at arbitrary addresses."""
        total = self.integer(0, INT64)
        for s, stride in zip(e.subscripts, self.strides[array.name], strict=True):
            v = self.cast(self.value(s, env), INT64)
            step = self.integer(stride, INT64) if isinstance(stride, int) else self.value(stride, env)
            total = self.binary("+", total, self.binary("*", v, step))
        return self.gather(array, self.base(array), total)


def _is_index_sum(e: Expr) -> bool:
    """Whether an integer consists of indices and constants in sums and products, which wrap around alike."""
    parts = Cast | IntImm | Variable | Add | Sub | Mul
    return e.dtype.is_int and not e.dtype.is_bool and all(isinstance(x, parts) for x in walk(e))


def _fits_int32(a: Affine) -> bool:
    """Whether a form is a constant that 32 bits hold, signed or unsigned."""
    return not a.terms and 0 <= a.constant <= _INT32_MAX
