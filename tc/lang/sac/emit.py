# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Elaborated arrays to the checked form of `tc.lang.resolved`: statements over boxes of indices.

A part of an array is a statement of its own over a box that no earlier part covers.  Reductions inside
expressions, and elements of arrays that are computed once, become tensors over the variables they depend on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tc.dtypes import DType
from tc.errors import SemanticError, Span
from tc.lang import resolved as r
from tc.lang.sac import terms as t
from tc.lang.sac.arrays import Array, Region, zero
from tc.lang.sac.elaborate import Elaborator
from tc.lang.sac.regions import converted_array, inside
from tc.lang.sac.scalars import conjuncts, truth_of

_AXES = "ijklmnop"
_MAX_BOXES = 8  # of one part; beyond, what earlier parts cover is a condition
_MAX_PIECES = 12  # of one array; beyond, its parts are written last to first
_MAX_OPERANDS = 4  # of the minima and maxima of a bound, that are never too many
_MAX_WEIGHT = 16  # pieces of an array times the operands of minima and maxima in a bound; the same beyond
Variable = tuple[str, Any, Any]
Box = tuple[tuple[Any, Any], ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables around an expression, outermost first, and what is known of them."""

    variables: tuple[Variable, ...] = ()
    conditions: tuple[Any, ...] = ()

    @property
    def ranges(self) -> dict[str, tuple[Any, Any]]:
        return {n: (lo, hi) for n, lo, hi in self.variables}

    def given(self, condition: Any) -> Scope:
        return replace(self, conditions=(*self.conditions, *conjuncts(condition)))


class Emitter:
    def __init__(self, el: Elaborator) -> None:
        self.el = el
        self.statements: list[r.Statement] = []
        self.kept: dict[Any, tuple[r.Tensor, tuple[str, ...]]] = {}
        self.lets: list[r.LetBinding] = []
        self.let_keys: dict[Any, str] = {}

    # ---- tensors

    def tensor(
        self,
        a: Array,
        env: tuple[tuple[str, Any], ...],
        scope: Scope,
        outer: tuple[Variable, ...],
        name: str,
        role: Literal["return", "temporary"],
        declared: DType,
    ) -> r.Tensor:
        """A tensor over `outer` and the axes of an array, and the statements that make it."""
        values = dict(env)
        shape = tuple(t.substitute(n, values) for n in a.shape)
        for n in shape:
            self._fixed(n, a.span)
        target = r.Tensor(name, len(outer) + len(shape), role, declared, None, a.span)
        zero_ = t.const(0, a.span)
        whole = tuple((lo, _end(lo, hi)) for _, lo, hi in outer) + tuple((zero_, n) for n in shape)
        regions = a.regions or (Region(tuple((zero_, n) for n in a.shape), a.at),)
        regions = tuple(
            Region(
                tuple((t.substitute(lo, values), t.substitute(hi, values)) for lo, hi in x.box),
                x.at,
                x.conditions,
            )
            for x in regions
        )
        pieces = list(_disjoint(regions, shape, a.span))
        operands = max(map(_weight, pieces), default=0)
        nested = operands > _MAX_OPERANDS and len(pieces) * operands > _MAX_WEIGHT
        if len(pieces) > _MAX_PIECES or nested:
            pieces = [_alone(x, shape, a.span) for x in reversed(regions)]
        for region, box, extra in pieces:
            variables = tuple(
                (self.el.fresh(_AXES[d % len(_AXES)]), lo, hi) for d, (lo, hi) in enumerate(box)
            )
            index = tuple(t.index(n, a.span) for n, _, _ in variables)
            conditions = [t.substitute(c, values) for c in extra(index)]
            value = t.substitute(region.at(index), values)
            where = None if len(pieces) == 1 and not conditions else whole
            around = replace(scope, variables=(*scope.variables, *variables))
            for c in conditions:
                around = around.given(c)
            self._define(target, (*outer, *variables), value, around, conditions, where, a.span)
        return target

    def _fixed(self, n: Any, span: Span) -> None:
        if any(isinstance(x, (r.Index, r.Access, t.Pick, t.Reduce)) for x in t.walk(n)):
            raise SemanticError(
                "an array that must be stored has a shape that depends on an index",
                span,
                code="TC0263",
                help="select from it directly, or give it a shape that is computed from shapes",
            )

    def _define(
        self,
        target: r.Tensor,
        lhs: tuple[Variable, ...],
        value: Any,
        scope: Scope,
        conditions: Sequence[Any],
        where: Box | None,
        span: Span,
    ) -> None:
        if isinstance(value, t.Reduce) and where is None and value.element == target.declared:
            self._reduce(target, lhs, value, scope, span)
            return
        value, conditions = self._guarded(value, scope, conditions, {n for n, _, _ in lhs})
        self._statement(target, lhs, "=", value, (), scope, conditions, where, span)

    def _guarded(
        self, value: Any, scope: Scope, conditions: Sequence[Any], have: set[str]
    ) -> tuple[Any, Sequence[Any]]:
        """Conditions on indices cut the domain; those on data choose."""
        return value, conditions

    def _reduce(
        self, target: r.Tensor, lhs: tuple[Variable, ...], e: t.Reduce, scope: Scope, span: Span
    ) -> None:
        """A tensor that is a reduction: a statement for each part."""
        if not e.parts:
            value: Any = _neutral(e.op, e.element, span)
            self._statement(target, lhs, "=", value, (), scope, (), None, span)
            return
        sign = {"+": "+=", "*": "*=", "min": "min=", "max": "max="}[e.op]
        for k, part in enumerate(e.parts):
            ranges = {n: (lo, hi) for n, lo, hi in scope.variables}
            conditions = list(part.conditions)
            variables: list[Variable] = []
            for n, lo, hi in part.variables:
                low, end = (self._hull(b, ranges, upper, span) for b, upper in ((lo, False), (hi, True)))
                i = t.index(n, span)
                if low != lo:
                    conditions.append(t.relation("<=", lo, i, span))
                if end != hi:
                    conditions.append(t.relation("<", i, hi, span))
                name = self.el.fresh("k")
                variables.append((name, low, end))
                ranges[n] = (low, end)
            renamed = {
                n: t.index(new, span)
                for (n, _, _), (new, _, _) in zip(part.variables, variables, strict=True)
            }
            inner = replace(scope, variables=(*scope.variables, *variables))
            tests = [t.substitute(c, renamed) for c in conditions]
            for c in tests:
                inner = inner.given(c)
            value = t.substitute(part.value, renamed)
            affine = [c for c in tests if _affine(c)]
            data = [c for c in tests if not _affine(c)]
            if data:
                neutral = _neutral(e.op, e.element, span)
                value = r.If(t.conjunction(data, span), _typed(value, e.element), neutral, span)
            op = sign + ("!" if k == 0 else "")
            self._statement(target, lhs, op, value, tuple(variables), inner, affine, None, span)

    def _hull(self, e: Any, ranges: t.Ranges, upper: bool, span: Span) -> Any:
        out = t.extreme(e, ranges, upper, loose=True)
        if out is None or any(isinstance(x, (r.Index, r.Access, t.Pick, t.Reduce)) for x in t.walk(out)):
            raise SemanticError(
                "the range of a reduction depends on an index in a way that gives it no bounds",
                span,
                code="TC0257",
                help="bounds of reductions are sums, minima and maxima of indices and sizes",
            )
        return out

    def _statement(
        self,
        target: r.Tensor,
        lhs: tuple[Variable, ...],
        op: str,
        value: Any,
        reductions: tuple[Variable, ...],
        scope: Scope,
        conditions: Sequence[Any],
        where: Box | None,
        span: Span,
    ) -> None:
        outer_lets, outer_keys = self.lets, self.let_keys
        self.lets, self.let_keys = [], {}
        lowered = self.lower(value, scope)
        tests = tuple(self.lower(c, scope) for c in conditions if truth_of(c) is not True)
        lets = tuple(self.lets)
        self.lets, self.let_keys = outer_lets, outer_keys
        subscripts = tuple(r.Subscript(n, None, span) for n, _, _ in lhs)
        ranges = tuple(_range(n, lo, hi, span) for n, lo, hi in (*lhs, *reductions))
        statement = r.Statement(
            target=target,
            subscripts=subscripts,
            op=op,
            value=lowered,
            reductions=tuple(n for n, _, _ in reductions),
            auxiliary=(),
            ranges=ranges,
            lets=lets,
            exists=(),
            conditions=tests,
            span=span,
            box=where,
            index_spans=tuple((n, span) for n, _, _ in (*lhs, *reductions)),
        )
        self.statements.append(statement)

    # ---- expressions

    def lower(self, e: Any, scope: Scope) -> Any:
        match e:
            case r.Const() | r.Index() | r.Size() | r.Scalar():
                return e
            case t.Pick():
                return self._pick(e, scope)
            case t.Reduce():
                return self._forced(e, scope)
            case r.If():
                condition = self.lower(e.condition, scope)
                known = truth_of(e.condition)
                if known is not None:
                    chosen: Any = e.then if known else e.otherwise
                    return self.lower(chosen, scope)
                test: Any = e.condition
                then = self.lower(e.then, scope.given(test))
                no = r.Unary("!", test, e.span)
                return r.If(condition, then, self.lower(e.otherwise, scope.given(no)), e.span)
            case r.Binary(op="quo" | "rem"):
                return self._truncated(e, scope)
            case _:
                return r.rebuild(e, lambda c: self.lower(c, scope))

    def _let(self, e: Any) -> Any:
        """A name for what is used several times."""
        if isinstance(e, (r.Const, r.Index, r.Size, r.Scalar, r.Let)):
            return e
        if e not in self.let_keys:
            name = self.el.fresh("q")
            self.let_keys[e] = name
            self.lets.append(r.LetBinding(name, e, e.span))
        return r.Let(self.let_keys[e], e.span)

    def _truncated(self, e: r.Binary, scope: Scope) -> Any:
        """`/` and `%` towards zero, from those that floor; both are 0 for a divisor of 0."""
        span = e.span
        a, b = self._let(self.lower(e.left, scope)), self._let(self.lower(e.right, scope))
        zero_ = t.const(0, span)
        remainder = self._let(r.Binary("%", a, b, span))
        below, divisor = r.Binary("<", a, zero_, span), t.number(b)
        if divisor is None:
            above = r.Binary(">", a, zero_, span)
            differ = r.Binary(
                "||",
                r.Binary("&&", below, r.Binary(">", b, zero_, span), span),
                r.Binary("&&", above, r.Binary("<", b, zero_, span), span),
                span,
            )
        else:
            differ = below if divisor > 0 else r.Binary(">", a, zero_, span)
        test = r.Binary("&&", r.Binary("!=", remainder, zero_, span), differ, span)
        if e.op == "rem":
            return self._let(r.If(test, r.Binary("-", remainder, b, span), remainder, span))
        quotient = self._let(r.Binary("/", a, b, span))
        return self._let(r.If(test, r.Binary("+", quotient, t.const(1, span), span), quotient, span))

    def _pick(self, e: t.Pick, scope: Scope) -> Any:
        """An element of an array: computed here where its index is in bounds and it is not kept."""
        values = dict(e.env)
        shape = tuple(t.substitute(n, values) for n in e.array.shape)
        if not e.array.stored and all(_within(i, n, scope) for i, n in zip(e.index, shape, strict=True)):
            return self.lower(e.array.element_at(e.index, e.env), scope)
        a = e.array
        needed = a.free_names()
        reads = {n for n in needed if n not in values} | {
            x for n in needed if n in values for x in t.free(values[n])
        }
        outer = tuple(v for v in scope.variables if v[0] in reads)
        names_ = {n for n, _, _ in outer}
        # What the conditions around it protect may be out of bounds where they do not hold.
        guards = [c for c in scope.conditions if outer and t.free(c) and t.free(c) <= names_]
        key = (id(a), e.env, tuple(n for n, _, _ in outer), tuple(outer), tuple(guards))
        if key not in self.kept:
            inner = Scope(outer)
            name = self.el.fresh(a.name or "part")
            made = a
            if isinstance(a.dtype, str):
                made = converted_array(a, a.dtype, a.element)
            if guards:
                made = _guarded_array(made, t.conjunction(guards, e.span))
            self.kept[key] = (
                self.tensor(made, e.env, inner, outer, name, "temporary", made.element),
                tuple(n for n, _, _ in outer),
            )
        tensor, names = self.kept[key]
        index = tuple(t.index(n, e.span) for n in names)
        return r.Access(tensor, (*index, *(self.lower(i, scope) for i in e.index)), e.span)

    def _forced(self, e: t.Reduce, scope: Scope) -> Any:
        """A reduction inside an expression: a tensor over the variables that it depends on."""
        span = e.span
        if not e.parts:
            return r.Cast(e.element, _neutral(e.op, e.element, span), True, span)
        guards = [c for c in scope.conditions if self._needs(e, scope)]
        reads = t.free(e) | {n for c in guards for n in t.free(c)}
        outer = tuple(v for v in scope.variables if v[0] in reads)
        bound = [n for p in e.parts for n, _, _ in p.variables]
        renamed = {n: t.index(f"${k}", span) for k, n in enumerate(bound)}
        shape = tuple(
            (
                tuple((t.substitute(lo, renamed), t.substitute(hi, renamed)) for _, lo, hi in p.variables),
                tuple(t.substitute(c, renamed) for c in p.conditions),
                t.substitute(p.value, renamed),
            )
            for p in e.parts
        )
        key = (e.op, e.element, shape, outer, tuple(guards))
        if key not in self.kept:
            if guards:
                test = t.conjunction(guards, span)
                neutral = _neutral(e.op, e.element, span)
                guarded = (r.If(test, _typed(p.value, e.element), neutral, span) for p in e.parts)
                e = replace(
                    e, parts=tuple(replace(p, value=x) for p, x in zip(e.parts, guarded, strict=True))
                )
            name = self.el.fresh({"+": "total", "*": "product", "min": "least", "max": "most"}[e.op])
            target = r.Tensor(name, len(outer), "temporary", e.element, None, span)
            self._reduce(target, outer, e, Scope(outer), span)
            self.kept[key] = (target, tuple(n for n, _, _ in outer))
        target, names = self.kept[key]
        return r.Access(target, tuple(t.index(n, span) for n in names), span)

    def _needs(self, e: t.Reduce, scope: Scope) -> bool:
        """Whether what a reduction reads may be out of bounds without the conditions around it."""
        ranges = scope.ranges
        for p in e.parts:
            ranges |= {n: (lo, hi) for n, lo, hi in p.variables}
        open_scope = Scope(tuple((n, lo, hi) for n, (lo, hi) in ranges.items()))
        for x in t.walk(e):
            if isinstance(x, t.Pick):
                shape = tuple(t.substitute(n, dict(x.env)) for n in x.array.shape)
                if not all(_within(i, n, open_scope) for i, n in zip(x.index, shape, strict=True)):
                    return True
                if any(isinstance(y, (r.Access, t.Pick)) for y in t.walk(x.array.template()[1])):
                    return True
            if isinstance(x, r.Access):
                dims = x.tensor.dims
                if dims is None or not all(_within(i, n, open_scope) for i, n in zip(x.subscripts, dims)):
                    return True
        return False


def _guarded_array(a: Array, test: Any) -> Array:
    """An array with zeros where a condition does not hold."""
    nothing = zero(a.dtype, a.span)

    def guarded(at: Any) -> Any:
        return lambda index: r.If(test, at(index), nothing, a.span)

    regions = tuple(Region(x.box, guarded(x.at), x.conditions) for x in a.regions)
    return Array(a.shape, a.dtype, guarded(a.at), a.span, regions=regions, name=a.name)


def _range(name: str, lo: Any, hi: Any, span: Span) -> r.IndexRange:
    return r.IndexRange(name, lo, _end(lo, hi), span)


def _end(lo: Any, hi: Any) -> Any:
    """The end of a range that may be empty."""
    return hi if t.not_negative(t.minus(hi, lo), {}) else t.greatest(lo, hi)


def _within(i: Any, extent: Any, scope: Scope) -> bool:
    """Whether an index is shown to be in bounds."""
    if any(isinstance(x, (r.Access, t.Pick, t.Reduce)) for x in t.walk(i)):
        return False
    ranges = scope.ranges
    one = t.const(1, i.span)
    return t.not_negative(i, ranges) and t.not_negative(t.minus(t.minus(extent, one), i), ranges)


def _affine(c: Any) -> bool:
    """Whether a condition relates indices and sizes alone."""
    match c:
        case r.Unary(op="!"):
            return _affine(c.operand)
        case r.Binary(op="&&" | "||"):
            return _affine(c.left) and _affine(c.right)
        case r.Binary(op="<" | "<=" | ">" | ">=" | "==" | "!="):
            return not any(
                isinstance(x, (r.Access, t.Pick, t.Reduce, r.Cast))
                or (isinstance(x, r.Binary) and x.op in ("quo", "rem"))
                or (isinstance(x, r.Const) and isinstance(x.value, float))
                or (isinstance(x, r.Scalar) and not x.declared.is_int)
                for x in t.walk(c)
            )
        case _:
            return False


def _neutral(op: str, dtype: DType, span: Span) -> Any:
    if op in "+*":
        return t.const(0 if op == "+" else 1, span)
    value = dtype.max if op == "min" else dtype.min
    return r.Cast(dtype, r.Const(value, False, span), True, span)


def _typed(value: Any, dtype: DType) -> Any:
    """A value beside one of a type: literals that it chooses from have that type."""
    match value:
        case r.If():
            then, otherwise = _typed(value.then, dtype), _typed(value.otherwise, dtype)
            return replace(value, then=then, otherwise=otherwise)
        case r.Const():
            return r.Cast(dtype, value, True, value.span)
        case _:
            return value


def _weight(piece: tuple[Region, Box, Any]) -> int:
    """How many operands the minima and maxima of a bound have at most: isl splits sets at each."""
    _, box, _ = piece
    return max((sum(map(_operands, t.walk(b))) for pair in box for b in pair), default=0)


def _operands(e: Any) -> int:
    return len(e.args) if isinstance(e, r.Apply) else 0


def _alone(region: Region, shape: tuple[Any, ...], span: Span) -> tuple[Region, Box, Any]:
    """A region whatever the others cover."""
    zero_ = t.const(0, span)
    whole: Box = (*region.box, *((zero_, n) for n in shape[len(region.box) :]))
    return region, whole, lambda index: list(region.conditions(index)) if region.conditions else []


def _disjoint(
    regions: Sequence[Region], shape: tuple[Any, ...], span: Span
) -> Sequence[tuple[Region, Box, Any]]:
    """Regions as boxes that do not meet, or that conditions keep apart."""
    zero_ = t.const(0, span)
    out: list[tuple[Region, Box, Any]] = []
    seen: list[tuple[Region, Box]] = []
    for region in regions:
        whole: Box = (*region.box, *((zero_, n) for n in shape[len(region.box) :]))
        boxes: list[Box] = [whole]
        tested: list[tuple[Region, Box]] = []
        for earlier, box in seen:
            if earlier.conditions is not None:
                tested.append((earlier, box))
                continue
            cut = [x for b in boxes for x in _difference(b, box)]
            if len(cut) > _MAX_BOXES:
                tested.append((earlier, box))
            else:
                boxes = cut

        def conditions(
            index: tuple[Any, ...], region: Region = region, tested: Any = tuple(tested)
        ) -> list[Any]:
            found = list(region.conditions(index)) if region.conditions else []
            outside = [inside(Region(box, x.at, x.conditions), index) for x, box in tested]
            return found + [r.Unary("!", t.conjunction(tests, span), span) for tests in outside]

        out += [(region, b, conditions) for b in boxes]
        seen.append((region, whole))
    return out


def _difference(a: Box, b: Box) -> list[Box]:
    """The first box without the second, as boxes that do not meet."""
    out: list[Box] = []
    left = list(a)
    for d, ((lo, hi), (elo, ehi)) in enumerate(zip(a, b, strict=True)):
        before = (lo, t.least(hi, elo))
        behind = (t.greatest(lo, ehi), hi)
        out += [(*left[:d], part, *a[d + 1 :]) for part in (before, behind) if not _empty(part)]
        left[d] = (t.greatest(lo, elo), t.least(hi, ehi))
        if _empty(left[d]):
            return [a]
    return out


def _empty(part: tuple[Any, Any]) -> bool:
    return t.not_negative(t.minus(part[0], part[1]), {})
