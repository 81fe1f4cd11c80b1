"""Element types: every expression gets its `dtype`, every conversion is written out as a `Cast`.

Literals adapt: an expression made of literals alone is folded and stays without a type ("weak") until
something typed, or the tensor it is stored in, decides; alone it is int32 (int64 if it does not fit) or
float32.  Rules: docs/language.md, "Types and numerics".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tc.dtypes import (
    BOOL,
    FLOAT32,
    INT32,
    DType,
    complex_of,
    fits_without_cast,
    promote,
)
from tc.errors import DTypeError, Span, unreachable
from tc.lang import complex_types as z
from tc.lang import resolved as r
from tc.lang.boundaries import expanded
from tc.lang.builtins import BUILTINS
from tc.lang.literals import folded, imaginary, own_type, typed_literal, weak_float


@dataclass(frozen=True, slots=True)
class Typed:
    """A checked def with typed expressions, and the element type of every tensor variable."""

    checked: r.Checked
    dtypes: Mapping[r.Tensor, DType]

    def dtype(self, t: r.Tensor) -> DType:
        return self.dtypes[t.storage]


def assign_types(
    checked: r.Checked, overrides: Mapping[str, DType] | None = None, index: DType = INT32
) -> Typed:
    """Type a checked def.

    `overrides` gives other integer types to parameters that are used in subscripts only; `index` is the
    type of index variables and sizes as values (int64 where an extent does not fit int32).
    Raises `DTypeError`.
    """
    return _Typer(checked, overrides or {}, index).run()


def argument_types(checked: r.Checked) -> tuple[tuple[r.Argument, DType], ...]:
    """The tensors that cross calls as parameters, each with its element type."""
    return _Typer(checked, {}, INT32).arguments()


def subscript_only(checked: r.Checked) -> frozenset[str]:
    """The integer tensor parameters that are read in subscripts only: any integer type serves them."""
    values: set[str] = set()

    def scan(e: r.Exp, inside: bool, st: r.Statement) -> None:
        if isinstance(e, r.Let):
            scan(st.let(e.name), inside, st)
            return
        if isinstance(e, r.Access):
            if not inside:
                values.add(e.tensor.storage.name)
            for sub in e.subscripts:
                scan(sub, isinstance(sub, r.Access) or _is_index_arithmetic(sub), st)
            return
        for c in r.children(e):
            scan(c, inside, st)

    for st in checked.statements:
        for root in (st.value, *st.exists):
            scan(root, False, st)
        for sub in st.scattered:
            scan(sub, isinstance(sub, r.Access) or _is_index_arithmetic(sub), st)
    return frozenset(
        p.name
        for p in checked.params
        if isinstance(p, r.Tensor) and p.declared is not None and p.declared.is_int and p.name not in values
    )


def _is_index_arithmetic(e: r.Exp) -> bool:
    """Whether a subscript is computed in exact integers, so that the width of the data cannot show."""
    exact = ("min", "max", "abs")
    return not any(
        isinstance(x, (r.Cast, r.If)) or (isinstance(x, r.Apply) and x.function not in exact)
        for x in r.walk(e)
    )


class _Typer:
    def __init__(self, checked: r.Checked, overrides: Mapping[str, DType], index: DType) -> None:
        self.checked = checked
        self.index = index
        self.dtypes: dict[r.Tensor, DType] = {}
        for p in checked.params:
            if isinstance(p, r.Tensor) and p.declared is not None:
                self.dtypes[p] = overrides.get(p.name, p.declared)
        self.lets: dict[str, r.Exp] = {}
        self.open: set[r.Tensor] = set()  # whose types are being found: they adapt, as literals do

    def arguments(self) -> tuple[tuple[r.Argument, DType], ...]:
        self._decide_all()
        arguments = self.checked.arguments
        return tuple((a, a.tensor.storage.declared or self.dtypes[a.tensor.storage]) for a in arguments)

    def _decide_all(self) -> None:
        for st in self.checked.statements:
            if st.target.storage not in self.dtypes:
                self._decide(st.target.storage)

    def run(self) -> Typed:
        self._decide_all()
        statements = tuple(self._statement(st) for st in self.checked.statements)
        for a in self.checked.arguments:
            found = a.tensor.storage.declared or self.dtypes[a.tensor.storage]
            if found != a.dtype:
                raise DTypeError(
                    f"the parameter '{a.name}' is {a.dtype}, but '{a.tensor.name}' is {found}",
                    a.span,
                    code="TC0405",
                    help=f"convert it first: t(i) = {a.dtype}({a.tensor.name}(i))",
                )
        return Typed(replace(self.checked, statements=statements), self.dtypes)

    def _decide(self, t: r.Tensor) -> None:
        """The type of a tensor: declared, else that of its first telling right-hand side."""
        if t.declared is not None:
            self.dtypes[t] = t.declared
            return
        self.open.add(t)
        fallback: DType | None = None
        circular = False
        try:
            for st in self.checked.statements:
                if st.target.storage is not t:
                    continue
                self._lets(st)
                value = self.exp(st.value)
                if value.dtype is not None:
                    # A reduction is arithmetic, and arithmetic on bool is int32.
                    self.dtypes[t] = promote(value.dtype, value.dtype) if st.reduces else value.dtype
                    return
                others = any(a.dtype is None and a.tensor.storage is not t for a in r.accesses(value))
                circular |= others
                if fallback is None and not others and not self._reads_open(value):
                    fallback = own_type(value)
            # In a circle of tensors the one that was asked for first decides, then the others follow.
            if not circular or self.open == {t}:
                self.dtypes[t] = fallback or FLOAT32
        finally:
            self.open.discard(t)

    def _reads_open(self, e: r.Exp) -> bool:
        return any(isinstance(x, r.Access) and x.tensor.storage in self.open for x in r.walk(e))

    def _lets(self, st: r.Statement) -> None:
        self.lets = {}
        for b in st.lets:
            self.lets[b.name] = self.exp(b.value)

    def _statement(self, st: r.Statement) -> r.Statement:
        self._lets(st)
        target = self.dtypes[st.target.storage]
        if st.reduces and target.is_bool:
            raise DTypeError(
                f"'{st.target.name}' is bool, and '{st.op}' is arithmetic, which gives int32",
                st.span,
                code="TC0407",
                help=f"declare it as int32, or compare the result: {st.target.name}(…) > 0",
            )
        z.reduction(st, target)
        value = self.convert(self.exp(st.value), target, f"stored in '{st.target.name}'")
        conditions = tuple(self.boolean(self.exp(c), "a condition") for c in st.conditions)
        exists = tuple(self.settled(self.exp(e)) for e in st.exists)
        for g in st.ranges:
            for bound in (g.lo, g.hi):
                self._integral(self.exp(bound), "a range bound")
        for sub in st.subscripts:
            if sub.offset is not None:
                self._integral(self.exp(sub.offset), "a left-hand-side offset")
        subscripts = tuple(
            s if s.data is None else replace(s, data=self._subscript(s.data)) for s in st.subscripts
        )
        return replace(
            st,
            subscripts=subscripts,
            value=value,
            conditions=conditions,
            exists=exists,
            lets=tuple(replace(b, value=self.settled(self.lets[b.name])) for b in st.lets),
        )

    # ---- expressions

    def exp(self, e: r.Exp) -> r.Exp:
        """`e` typed; dtype None where only literals (or the open tensor) are involved."""
        match e:
            case r.Const():
                return replace(e, dtype=FLOAT32) if e.single else e
            case r.Imaginary():
                return e
            case r.Index() | r.Size() | r.Counter() | r.ExtentOf() | r.OriginOf() | r.LastIndex():
                return replace(e, dtype=self.index)
            case r.Scalar():
                return replace(e, dtype=e.declared)
            case r.Let():
                value = self.lets[e.name]
                return value if value.dtype is None else replace(e, dtype=value.dtype)
            case r.Access() if e.modes:
                return self.exp(expanded(self._truths_outside(e)))
            case r.Access():
                return self._widened(self._access(e))
            case r.Apply():
                return self._apply(e)
            case r.Unary():
                return self._unary(e)
            case r.Binary():
                return self._binary(e)
            case r.If():
                condition = self.boolean(self.exp(e.condition), "the condition of a ternary")
                then, otherwise, dtype = self._match(
                    self.exp(e.then), self.exp(e.otherwise), arithmetic=False
                )
                return replace(e, condition=condition, then=then, otherwise=otherwise, dtype=dtype)
            case r.Cast():
                operand = self.exp(e.operand)
                if not e.written:
                    return self.convert(operand, e.target, "passed to a def")
                if operand.dtype is None:
                    if isinstance(operand, r.Const):
                        return self._cast_literal(operand, e)
                    floating = e.target.is_float and weak_float(operand)
                    if (e.target.is_complex or floating) and not self._reads_open(operand):
                        return self.convert(operand, e.target, "")
                    operand = self.settled(operand)
                z.cast(e, operand)
                return replace(e, operand=operand, dtype=e.target)
            case _:
                unreachable(e)

    def _cast_literal(self, c: r.Const, e: r.Cast) -> r.Exp:
        """A literal under a cast takes the type directly: `double(0.1)` is exact."""
        if e.target.is_complex:
            return replace(typed_literal(c, e.target), span=e.span)
        if e.target.is_float or (isinstance(c.value, int) and e.target.min <= c.value <= e.target.max):
            value = e.target.literal(c.value) if e.target.is_float else c.value
            return replace(c, value=value, dtype=e.target, span=e.span)
        return replace(e, operand=self.settled(c), dtype=e.target)

    def _access(self, e: r.Access) -> r.Access:
        subscripts: list[r.Exp] = []
        for sub in e.subscripts:
            typed = self.settled(self._whole(sub))
            self._integral(typed, f"a subscript of '{e.tensor.name}'")
            subscripts.append(typed)
        return replace(e, subscripts=tuple(subscripts), dtype=self._element(e.tensor.storage))

    def _element(self, storage: r.Tensor) -> DType | None:
        """The element type of a tensor; None while it is being found."""
        if storage not in self.dtypes and storage not in self.open:
            lets = self.lets
            self._decide(storage)
            self.lets = lets
        return None if storage in self.open else self.dtypes.get(storage)

    def _truths_outside(self, e: r.Access) -> r.Access:
        """0 and 1 outside of a tensor of truth values are truth values."""
        if self._element(e.tensor.storage) != BOOL:
            return e

        def truth(m: r.Mode) -> r.Mode:
            v = m.value
            if not isinstance(v, r.Const) or v.value not in (0, 1) or isinstance(v.value, float):
                return m
            return replace(m, value=r.Binary("!=", v, r.Const(0, False, v.span), v.span))

        return replace(e, modes=tuple(map(truth, e.modes)))

    def _whole(self, e: r.Exp) -> r.Exp:
        """A subscript; an element that is one by itself keeps its type."""
        return self._access(e) if isinstance(e, r.Access) and not e.modes else self.exp(e)

    def _widened(self, e: r.Access) -> r.Exp:
        """An element of an array of another integer type than declared, for arithmetic: this does not wrap
        where that of the declared type would not."""
        declared = e.tensor.storage.declared
        if declared is None or e.dtype is None or e.dtype == declared or not declared.is_int:
            return e
        wide = promote(declared, e.dtype)
        return e if wide == e.dtype else r.Cast(wide, e, False, e.span, wide)

    def _subscript(self, e: r.Exp) -> r.Exp:
        typed = self.settled(self._whole(e))
        self._integral(typed, "a left-hand-side subscript")
        return typed

    def _integral(self, e: r.Exp, what: str) -> None:
        dtype = own_type(e) if e.dtype is None else e.dtype
        if not dtype.is_int:
            raise DTypeError(
                f"expected integral type for {what} but found {dtype}",
                e.span,
                code="TC0401",
                help=f"write int32({'real(' * dtype.is_complex}{e.span.text}{')' * dtype.is_complex})",
            )

    def boolean(self, e: r.Exp, what: str) -> r.Exp:
        if e.dtype is None or not e.dtype.is_bool:
            found = e.dtype or own_type(e)
            raise DTypeError(
                f"expected bool for {what} but found {found}",
                e.span,
                code="TC0402",
                help=f"compare it: ({e.span.text}) != 0",
            )
        return e

    def _unary(self, e: r.Unary) -> r.Exp:
        operand = self.exp(e.operand)
        if e.op == "!":
            return replace(e, operand=self.boolean(operand, "an operand of '!'"), dtype=BOOL)
        if isinstance(operand, r.Const) and operand.dtype is None:
            return replace(operand, value=-operand.value, span=e.span)
        if isinstance(operand, r.Imaginary):
            return replace(operand, value=-operand.value, span=e.span)
        if operand.dtype is None:
            return replace(e, operand=operand)
        dtype = promote(operand.dtype, operand.dtype)
        return replace(e, operand=_to(operand, dtype), dtype=dtype)

    def _binary(self, e: r.Binary) -> r.Exp:
        a, b = self.exp(e.left), self.exp(e.right)
        if e.op in ("&&", "||"):
            what = f"an operand of '{e.op}'"
            return replace(e, left=self.boolean(a, what), right=self.boolean(b, what), dtype=BOOL)
        constant = folded(e, a, b)
        if constant is not None:
            return constant
        compares = e.op in ("==", "!=", "<", ">", "<=", ">=")
        a, b, dtype = self._match(a, b, arithmetic=True)
        if compares:
            if dtype is None:
                common = promote(own_type(a), own_type(b))
                a, b = self.convert(a, common, ""), self.convert(b, common, "")
            z.comparison(e, a)
            return replace(e, left=a, right=b, dtype=BOOL)
        if e.op == "%":
            z.remainder(e, dtype or own_type(a), dtype or own_type(b))
        if e.op == "%" and (dtype or own_type(a)).is_float:
            raise DTypeError(
                f"'%' is for integers but found {dtype or own_type(a)}",
                e.span,
                code="TC0403",
                help=f"write fmod({e.left.span.text}, {e.right.span.text})",
            )
        return replace(e, left=a, right=b, dtype=dtype)

    def _apply(self, e: r.Apply) -> r.Exp:
        args = [self.exp(a) for a in e.args]
        kind = BUILTINS[e.function].kind
        if kind == "select":
            condition = self.boolean(args[0], "the first argument of select")
            a, b, dtype = self._match(args[1], args[2], arithmetic=False)
            return replace(e, args=(condition, a, b), dtype=dtype)
        if kind == "complex":
            return self._of_complex(e, args)
        if kind == "same":
            weak = all(a.dtype is None for a in args)
            numbers = all(isinstance(a, r.Const) for a in args) and not any(map(weak_float, args))
            if weak and (numbers or any(map(imaginary, args))):
                args = [self.settled(a) for a in args]
            common = self._common(args)
            if common is None:
                return replace(e, args=tuple(args))
            if common.is_complex:
                z.extremum(e)
                return replace(e, args=(self.convert(args[0], common, ""),), dtype=common.part)
            return replace(e, args=tuple(self.convert(a, common, "") for a in args), dtype=common)
        typed = [a.dtype for a in args if a.dtype is not None]
        if not typed and not any(map(imaginary, args)):  # of literals, or of the open tensor
            return replace(e, args=tuple(args))
        floats = [t for t in typed if t.is_float]
        dtype = floats[0] if floats else FLOAT32
        for t in floats[1:]:
            dtype = promote(dtype, t)
        if any(t.is_complex for t in typed) or any(imaginary(a) for a in args):
            z.function(e)
            dtype = complex_of(dtype)
            for t in typed:
                dtype = promote(dtype, t)
        return replace(e, args=tuple(self.convert(a, dtype, "") for a in args), dtype=dtype)

    def _of_complex(self, e: r.Apply, args: list[r.Exp]) -> r.Exp:
        """conj, real, imag, arg and polar.  Of a real number conj and real are the number itself."""
        if any(a.dtype is None and self._reads_open(a) for a in args):
            return replace(e, args=tuple(args))
        args = [self.settled(a) for a in args]
        types = [a.dtype or own_type(a) for a in args]
        if e.function == "polar":
            z.real_arguments(e, args)
            made = complex_of(promote(*types))
            return replace(e, args=tuple(self.convert(a, made.part, "") for a in args), dtype=made)
        if not types[0].is_complex and e.function in ("conj", "real"):
            return args[0]
        dtype = complex_of(types[0].part)
        out = dtype if e.function == "conj" else dtype.part
        return replace(e, args=(self.convert(args[0], dtype, ""),), dtype=out)

    def _common(self, args: list[r.Exp]) -> DType | None:
        dtype: DType | None = None
        for a in args:
            if a.dtype is not None:
                dtype = promote(a.dtype, a.dtype) if dtype is None else promote(dtype, a.dtype)
        if dtype is not None and dtype.is_int and any(a.dtype is None and weak_float(a) for a in args):
            dtype = FLOAT32
        if dtype is not None and not dtype.is_complex and any(map(imaginary, args)):
            dtype = complex_of(dtype)
        return dtype

    def _match(self, a: r.Exp, b: r.Exp, arithmetic: bool) -> tuple[r.Exp, r.Exp, DType | None]:
        """Both operands in their common type; None where neither has one."""
        if a.dtype is None and b.dtype is None:
            return a, b, None
        if not arithmetic and a.dtype is not None and a.dtype == b.dtype:
            return a, b, a.dtype
        dtype = self._common([a, b])
        assert dtype is not None
        return self.convert(a, dtype, ""), self.convert(b, dtype, ""), dtype

    # ---- conversions

    def settled(self, e: r.Exp) -> r.Exp:
        """`e` with a type of its own if nothing else gave it one."""
        return e if e.dtype is not None else self.convert(e, own_type(e), "")

    def convert(self, e: r.Exp, dtype: DType, where: str) -> r.Exp:
        """`e` as `dtype`: literals adapt, a typed expression may only widen (or be equal)."""
        if e.dtype is not None:
            if where and not fits_without_cast(e.dtype, dtype):
                raise DTypeError(
                    f"{e.dtype} {where} of type {dtype} would be narrowed"
                    if where.startswith("stored")
                    else f"{e.dtype} {where} as {dtype} would be narrowed",
                    e.span,
                    code="TC0404",
                    help=z.parts_of(_short(e.span))
                    if e.dtype.is_complex and not dtype.is_complex
                    else f"write the cast: {dtype}({_short(e.span)})",
                )
            return _to(e, dtype)
        match e:
            case r.Const():
                return typed_literal(e, dtype, where)
            case r.Imaginary():
                return z.literal(e, dtype)
            case r.If():
                then, otherwise = self.convert(e.then, dtype, where), self.convert(e.otherwise, dtype, where)
                return replace(e, then=then, otherwise=otherwise, dtype=dtype)
            case r.Apply() if BUILTINS[e.function].kind == "math" and dtype.is_int:
                return self.convert(self.settled(e), dtype, where)
            case r.Binary(op="%") if dtype.is_inexact and not self._reads_open(e):
                return self.convert(self.settled(e), dtype, where)  # a remainder of whole numbers
            case r.Apply() | r.Binary() | r.Unary() if dtype.is_complex and not (
                imaginary(e) or self._reads_open(e)
            ):
                return _to(self.convert(e, dtype.part, where), dtype)  # such as an extreme of real numbers
            case r.Apply():
                head = e.args[:1] if e.function == "select" else ()
                rest = tuple(self.convert(a, dtype, where) for a in e.args[len(head) :])
                return replace(e, args=head + rest, dtype=dtype)
            case r.Binary():
                left, right = self.convert(e.left, dtype, where), self.convert(e.right, dtype, where)
                return replace(e, left=left, right=right, dtype=dtype)
            case r.Unary():
                return replace(e, operand=self.convert(e.operand, dtype, where), dtype=dtype)
            case _:
                return replace(e, dtype=dtype)


def _to(e: r.Exp, dtype: DType) -> r.Exp:
    return e if e.dtype == dtype else r.Cast(dtype, e, False, e.span, dtype)


def _short(span: Span) -> str:
    text = " ".join(span.text.split())
    return text if len(text) <= 40 else "…"
