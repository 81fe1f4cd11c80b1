# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Expressions of a SaC program to arrays of known ranks.

Functions are inlined for the ranks of their arguments; vectors of known length are tuples of scalars; what is
left are shapes over the sizes of the parameters, and elements as functions of an index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tc.dtypes import BOOL, FLOAT32, INT32, INT64
from tc.errors import DTypeError, RangeError, SemanticError, Span
from tc.lang import resolved as r
from tc.lang.sac import syntax as s
from tc.lang.sac import terms as t
from tc.lang.sac.arrays import Array, Region, Type, joined, scalar, settled, vector
from tc.lang.sac.calls import call
from tc.lang.sac.names import Names
from tc.lang.sac.regions import regions_at, row, shifted
from tc.lang.sac.scalars import COMPARE, adapted, arithmetic, facts, t_text, truth_of

MAX_STEPS = 100_000  # expressions elaborated for one program
Env = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Selection:
    """A subscript of an axis of a known extent, as bound inference sees it.  `guarded`: it stands below a
    condition, and `protected`: this condition alone keeps it in bounds."""

    extent: Any
    subscript: Any
    text: str
    guarded: bool
    protected: bool
    span: Span


@dataclass(slots=True)
class Elaborator:
    """Elaborates expressions.  `comprehension` and `with_loop` elaborate those of these kinds."""

    names: Names
    comprehension: Callable[[Elaborator, s.Comprehension, Env], Array]
    with_loop: Callable[[Elaborator, s.WithLoop, Env], Array]
    ranges: dict[str, tuple[Any, Any]] = field(default_factory=dict[str, tuple[Any, Any]])
    equalities: list[r.Equality] = field(default_factory=list[r.Equality])
    derivation: list[r.Derived] = field(default_factory=list[r.Derived])
    traces: list[list[Selection]] = field(default_factory=list[list[Selection]])
    used: set[str] = field(default_factory=set[str])  # names of the program
    weights: dict[int, tuple[dict[str, int], tuple[int, ...]]] = field(
        default_factory=dict[int, tuple[dict[str, int], tuple[int, ...]]]
    )  # of functions, by identity
    guards: int = 0
    facts: list[Any] = field(
        default_factory=list[Any]
    )  # integers that conditions around keep from being negative
    steps: int = 0
    inlining: int = 0

    def fresh(self, name: str) -> str:
        base, n = name, 1
        while name in self.used:
            n += 1
            name = f"{base}_{n}"
        self.used.add(name)
        return name

    # ---- expressions

    def exp(self, e: s.Exp, env: Env) -> Array:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise SemanticError(
                f"elaborating this program takes more than {MAX_STEPS} steps",
                e.span,
                code="TC0265",
                help="functions are inlined at every call: give results that are used again a name",
            )
        match e:
            case s.Int():
                return scalar(t.const(e.value, e.span), "int" if e.value <= INT32.max else INT64, e.span)
            case s.Float():
                return scalar(r.Const(e.value, e.single, e.span), FLOAT32 if e.single else "float", e.span)
            case s.Bool():
                return scalar(t.truth(e.value, e.span), BOOL, e.span)
            case s.Name():
                return env[e.id]
            case s.Vector():
                return self.stack([self.exp(x, env) for x in e.items], e.span)
            case s.Select():
                array = self.exp(e.array, env)
                return self.select(array, self._index(e, env, array), e.span)
            case s.Unary():
                return self.unary(e.op, self.exp(e.operand, env), e.span)
            case s.Binary():
                a, b = self.exp(e.left, env), self.exp(e.right, env)
                return self.cat(a, b, e.span) if e.op == "++" else self.binary(e.op, a, b, e.span)
            case s.Ternary():
                return self._ternary(e, env)
            case s.Call():
                return call(self, e, [self.exp(a, env) for a in e.args])
            case s.Comprehension():
                return self.comprehension(self, e, env)
            case s.WithLoop():
                return self.with_loop(self, e, env)

    def integer(self, a: Array, what: str) -> None:
        if (not isinstance(a.dtype, str) and not a.dtype.is_int) or a.dtype == "float":
            raise DTypeError(
                f"expected an integer for {what} but found {settled(a.dtype)}",
                a.span,
                code="TC0450",
                help=f"convert it: toi({a.span.text})",
            )

    def _index(self, e: s.Select, env: Env, array: Array) -> tuple[Any, ...]:
        """The scalars of a selection's index.

        A vector whose length only a call tells selects single elements: the call must give it as many of them
        as the array has axes.
        """
        found = [self.exp(x, env) for x in e.index]
        if len(found) == 1 and found[0].rank == 1:
            v = found[0]
            if v.items is None and t.number(v.shape[0]) is None:
                what = f"'{v.span.text}' selects an element of '{array.span.text}' of rank {array.rank}"
                self.equal(v.shape[0], t.const(array.rank, v.span), what, v.span)
                v = replace(v, shape=(t.const(array.rank, v.span),))
            return self.items(v, "an index")
        for a in found:
            if a.rank:
                raise SemanticError(
                    f"an index is a vector or a list of scalars, and this has shape {self.shown(a)}",
                    a.span,
                    code="TC0254",
                    help="write A[iv], or A[i, j]",
                )
            self.integer(a, "an index")
        return tuple(a.at(()) for a in found)

    def items(self, a: Array, what: str) -> tuple[Any, ...]:
        """The elements of an integer vector whose length is known."""
        if a.rank != 1:
            raise SemanticError(
                f"{what} is a vector, and this has shape {self.shown(a)}",
                a.span,
                code="TC0254",
                help="write [n] for a vector of one element",
            )
        n = t.number(a.shape[0])
        if a.items is None and n is None:
            raise SemanticError(
                f"the length of {what} is not known before the program runs: {t_text(a.shape[0])}",
                a.span,
                code="TC0255",
                help=f"declare the extent: {_declared(a.shape[0])}",
            )
        if a.items != ():
            self.integer(a, what)
        if a.items is not None:
            return a.items
        return tuple(a.at((t.const(k, a.span),)) for k in range(n or 0))

    # ---- selection

    def select(self, array: Array, index: tuple[Any, ...], span: Span) -> Array:
        k = len(index)
        if k > array.rank:
            raise TooLong(
                f"an index of length {k} selects from '{array.span.text}' of rank {array.rank}",
                span,
                code="TC0254",
                help=f"{array.span.text} has shape {self.shown(array)}",
            )
        for n, i in enumerate(index):
            value, extent = t.number(i), t.number(array.shape[n])
            if value is not None and (value < 0 or (extent is not None and value >= extent)):
                if self.guards:
                    continue
                raise RangeError(
                    f"{i.span.text} is out of bounds for all shapes: axis {n} of '{array.span.text}' has "
                    f"the extent {t_text(array.shape[n])}",
                    i.span,
                    code="TC0351",
                    help="indices count from 0",
                )
            text = f"{array.span.text}[{', '.join(t_text(x) for x in index)}]"
            protected = bool(self.facts and self.traces) and self._protected(i, array.shape[n])
            for trace in self.traces:
                trace.append(Selection(array.shape[n], i, text, bool(self.guards), protected, i.span))
        if k == 0:
            return array
        at = lambda rest: self.pick(array, (*index, *rest), span)  # noqa: E731
        items = (at(()),) if k == array.rank else None
        view = array.view or array.tensor is not None
        return Array(array.shape[k:], array.dtype, at, span, items=items, view=view)

    def _protected(self, index: Any, extent: Any) -> bool:
        """Whether the conditions around a selection alone keep its subscript in bounds."""
        last = t.minus(t.minus(extent, index), t.const(1, index.span))
        return all(
            t.not_negative(x, {}) or any(t.not_negative(t.minus(x, fact), {}) for fact in self.facts)
            for x in (index, last)
        )

    def pick(self, array: Array, index: tuple[Any, ...], span: Span) -> Any:
        """One element of an array, by an index that may be out of bounds."""
        if array.tensor is not None:
            return r.Access(array.tensor, index, span)
        if array.view:
            return array.at(index)
        if array.items is not None and array.rank == 1:
            k = t.number(index[0])
            if k is not None and 0 <= k < len(array.items):
                return array.items[k]
        if not array.rank:
            return array.at(())
        return t.Pick(array, index, (), span)

    # ---- element by element

    def unify(self, a: Array, b: Array, what: str, span: Span, skip: int = 0) -> tuple[Any, ...]:
        """The shape of two arrays that must have one shape; sizes that decide it are compared at the call."""
        if a.rank != b.rank:
            raise SemanticError(
                f"{what}: the shapes {self.shown(a)} and {self.shown(b)} differ in rank",
                span,
                code="TC0256",
                help="there is no broadcasting: operands have one shape, or one is a scalar",
            )
        return tuple(self.equal(x, y, what, span) for x, y in list(zip(a.shape, b.shape, strict=True))[skip:])

    def equal(self, x: Any, y: Any, what: str, span: Span) -> Any:
        if t.same(x, y):
            return x if t.number(x) is not None or t.number(y) is None else y
        if t.number(t.minus(x, y)) is not None:
            raise SemanticError(
                f"{what}: the extents {t_text(x)} and {t_text(y)} differ",
                span,
                code="TC0256",
                help="there is no broadcasting: operands have one shape, or one is a scalar",
            )
        if any(not isinstance(z, _SIZES) for e in (x, y) for z in t.walk(e)):
            raise SemanticError(
                f"{what}: whether {t_text(x)} and {t_text(y)} are equal depends on an index or on data",
                span,
                code="TC0257",
                help="the shapes of operands depend on shapes alone",
            )
        self.equalities.append(r.Equality(x, y, what, span))
        return y if t.number(y) is not None else x

    def require_at_least(self, a: Any, b: Any, what: str, span: Span) -> None:
        """`a >= b`, decided by the sizes of a call."""
        if any(not isinstance(z, _SIZES) for e in (a, b) for z in t.walk(e)):
            raise SemanticError(
                f"{what}: whether {t_text(a)} is at least {t_text(b)} depends on an index or on data",
                span,
                code="TC0257",
                help="shapes are computed from shapes alone",
            )
        self.equalities.append(r.Equality(t.least(a, b), b, what, span))

    def elementwise(
        self, arrays: Sequence[Array], dtype: Type, f: Callable[..., Any], what: str, span: Span
    ) -> Array:
        """`f` of corresponding elements; scalars go with every element."""
        big = [a for a in arrays if a.rank]
        if not big:
            return scalar(f(*(a.at(()) for a in arrays)), dtype, span)
        shape = big[0].shape
        for b in big[1:]:
            shape = self.unify(big[0], b, what, span)
        if all(a.items is not None for a in arrays):
            n = len(big[0].items or ())
            columns = [a.items * n if not a.rank else a.items for a in arrays if a.items is not None]
            return vector(tuple(f(*column) for column in zip(*columns, strict=True)), dtype, span)

        def at(index: tuple[Any, ...]) -> Any:
            return f(*(a.at(index if a.rank else ()) for a in arrays))

        split = [a for a in arrays if a.regions]
        regions: tuple[Region, ...] = ()
        if len(split) == 1:

            def of(region: Region) -> Region:
                def inside(index: tuple[Any, ...]) -> Any:
                    return f(
                        *(
                            region.at(index) if a is split[0] else a.at(index if a.rank else ())
                            for a in arrays
                        )
                    )

                return Region(region.box, inside, region.conditions)

            regions = tuple(map(of, split[0].regions))
        return Array(shape, dtype, at, span, regions=regions)

    def unary(self, op: str, a: Array, span: Span) -> Array:
        if op == "!":
            self.boolean(a, "an operand of '!'")
            return self.elementwise([a], BOOL, lambda x: r.Unary("!", x, span), "!", span)
        dtype = a.dtype if isinstance(a.dtype, str) else joined(a.dtype, a.dtype)

        def negated(x: Any) -> Any:
            if isinstance(x, r.Const):
                return r.Const(-x.value, x.single, span)
            return r.Unary("-", x, span)

        return self.elementwise([a], dtype, negated, "-", span)

    def boolean(self, a: Array, what: str) -> None:
        if a.dtype != BOOL:
            raise DTypeError(
                f"expected bool for {what} but found {settled(a.dtype)}",
                a.span,
                code="TC0451",
                help=f"compare it: {a.span.text} != 0",
            )

    def binary(self, op: str, a: Array, b: Array, span: Span) -> Array:
        what = f"the operands of '{op}'"
        if op in ("&&", "||"):
            self.boolean(a, what)
            self.boolean(b, what)
            return self.elementwise([a, b], BOOL, lambda x, y: r.Binary(op, x, y, span), what, span)
        dtype = joined(a.dtype, b.dtype)
        if op == "%" and (dtype == "float" or (not isinstance(dtype, str) and dtype.is_float)):
            raise DTypeError(
                f"'%' is for integers but found {settled(dtype)}",
                span,
                code="TC0452",
                help="write fmod(x, y)",
            )
        result: Type = BOOL if op in COMPARE else dtype

        def f(x: Any, y: Any) -> Any:
            x, y = adapted(x, a.dtype, dtype), adapted(y, b.dtype, dtype)
            return arithmetic(op, x, y, dtype, span)

        return self.elementwise([a, b], result, f, what, span)

    def _ternary(self, e: s.Ternary, env: Env) -> Array:
        condition = self.exp(e.condition, env)
        self.boolean(condition, "the condition of '?:'")
        if condition.rank:
            raise SemanticError(
                f"the condition of '?:' is a scalar, and this has shape {self.shown(condition)}",
                condition.span,
                code="TC0254",
                help="choose element by element with where(c, a, b)",
            )
        test = condition.at(())
        known = truth_of(test)
        if known is not None:
            return self.exp(e.then if known else e.otherwise, env)
        self.guards += 1
        then, otherwise = (
            self._below(e.then, env, facts(test, True)),
            self._below(e.otherwise, env, facts(test, False)),
        )
        self.guards -= 1
        if then.rank != otherwise.rank:
            self.unify(then, otherwise, "the two values of '?:'", e.span)
        return self.choose([condition, then, otherwise], e.span)

    def _below(self, e: s.Exp, env: Env, known: Sequence[Any]) -> Array:
        kept = len(self.facts)
        self.facts += known
        try:
            return self.exp(e, env)
        finally:
            del self.facts[kept:]

    def choose(self, arrays: Sequence[Array], span: Span) -> Array:
        condition, a, b = arrays
        dtype = joined(a.dtype, b.dtype, arithmetic=False)
        self.convertible(a, dtype)
        self.convertible(b, dtype)

        def f(c: Any, x: Any, y: Any) -> Any:
            x, y = adapted(x, a.dtype, dtype), adapted(y, b.dtype, dtype)
            known = truth_of(c)
            return (x if known else y) if known is not None else r.If(c, x, y, span)

        return self.elementwise([condition, a, b], dtype, f, "a condition and its two values", span)

    def convertible(self, a: Array, target: Type) -> None:
        """Raises DTypeError where bool would meet numbers."""
        if (a.dtype == BOOL) != (target == BOOL):
            raise DTypeError(
                f"{settled(a.dtype)} does not go with {settled(target)} here",
                a.span,
                code="TC0453",
                help="convert one of them: toi(b), or compare: x != 0",
            )

    def stack(self, found: list[Array], span: Span) -> Array:
        dtype: Type = "int"
        for n, a in enumerate(found):
            dtype = a.dtype if not n else joined(dtype, a.dtype, arithmetic=False)
        for a in found:
            self.convertible(a, dtype)
        if all(not a.rank for a in found):
            return vector(tuple(adapted(a.at(()), a.dtype, dtype) for a in found), dtype, span)
        shape = found[0].shape
        for a in found[1:]:
            shape = self.unify(found[0], a, "the elements of a vector", span)
        regions = tuple(row(a, n, dtype, span) for n, a in enumerate(found))
        whole = regions_at(regions)
        return Array((t.const(len(found), span), *shape), dtype, whole, span, regions=regions)

    def cat(self, a: Array, b: Array, span: Span) -> Array:
        """`a ++ b` along the first axis."""
        dtype = joined(a.dtype, b.dtype, arithmetic=False)
        if a.items == () and a.rank == 1 and b.rank == 1:
            dtype = b.dtype
        if b.items == () and b.rank == 1 and a.rank == 1:
            dtype = a.dtype
        if not a.rank or not b.rank:
            raise SemanticError(
                "'++' joins arrays along their first axis, and a scalar has none",
                span,
                code="TC0254",
                help="write [x] for a vector of one element",
            )
        if a.items != () and b.items != ():
            self.convertible(a, dtype)
            self.convertible(b, dtype)
        if a.items is not None and b.items is not None:
            left = tuple(adapted(x, a.dtype, dtype) for x in a.items)
            return vector(left + tuple(adapted(x, b.dtype, dtype) for x in b.items), dtype, span)
        rest = self.unify(a, b, "the operands of '++'", span, skip=1)
        n, m = a.shape[0], b.shape[0]
        regions = (
            *shifted(a, t.const(0, span), dtype),
            *shifted(b, n, dtype),
        )
        return Array((t.plus(n, m), *rest), dtype, regions_at(regions), span, regions=regions)

    # ---- calls

    def shown(self, a: Array) -> str:
        return f"[{', '.join(t_text(x) for x in a.shape)}]"


def _declared(extent: Any) -> str:
    """A parameter that declares this extent of its."""
    if not isinstance(extent, r.Size):
        return "int[3] iv"
    name, _, axis = extent.name.rpartition("_")
    return f"int[{'.,' * int(axis)}3] {name}"


_SIZES = (r.Const, r.Size, r.Scalar, r.Binary, r.Unary, r.Apply)


class TooLong(SemanticError):
    """An index longer than the rank of what it selects from."""
