"""Expressions of complex numbers as pairs of real expressions.

A part that is known to be 0 by the form of the expression is absent: the imaginary part of a real number that
became complex, the real part of an imaginary literal.  Scaling then needs no product of two pairs.  Otherwise
arithmetic is that of NumPy: a product is four multiplications, a quotient is scaled by the larger part of the
divisor (Smith, 1962), an absolute value does not overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from tc.dtypes import DType
from tc.errors import InternalError
from tc.ir import expr as x
from tc.ir.expr import Expr
from tc.ir.program import fresh
from tc.ir.simplify import is_pure, simplify


@dataclass(frozen=True, slots=True)
class Pair:
    """The parts of a complex number; one that is absent is 0."""

    real: Expr | None
    imaginary: Expr | None

    def both(self, dtype: DType) -> tuple[Expr, Expr]:
        zero = x.imm(0, dtype)
        return (
            zero if self.real is None else self.real,
            zero if self.imaginary is None else self.imaginary,
        )


Bindings = list[tuple[str, Expr]]


@dataclass
class Values:
    """Rewrites the expressions of one stage.  `scalars` are the complex scalar parameters, which are arrays
    of two numbers by now, and `taken` the names that no let may have."""

    scalars: frozenset[str]
    taken: set[str]
    bindings: Bindings = field(default_factory=Bindings)
    pairs: dict[str, Pair] = field(default_factory=dict[str, Pair])
    renamed: dict[str, str] = field(default_factory=dict[str, str])
    known: dict[str, str] = field(default_factory=dict[str, str])  # what is in scope -> its name

    # ---- lets

    def bind(self, e: Expr, name: str = "c") -> Expr:
        """A name for a value that is used more than once; the value itself if it is a name, a literal or a
        read.  Equal values have one name."""
        if isinstance(e, x.Variable | x.IntImm | x.UIntImm | x.FloatImm):
            return e
        if isinstance(e, x.Call) and e.kind != "intrinsic":
            return e
        same = repr(x.without_sites(e, of_checked=False))  # which tells 0 from -0
        chosen = self.known.get(same)
        if chosen is None:
            chosen = self.known[same] = fresh(f"{name}{len(self.taken)}", self.taken)
            self.taken.add(chosen)
            self.bindings.append((chosen, e))
        return x.Variable(chosen, e.dtype)

    def wrapped(self, e: Expr, bindings: Bindings | None = None) -> Expr:
        """An expression in the lets that it uses, and in those that check a subscript."""
        used = x.variables(e)
        for name, value in reversed(self.bindings if bindings is None else bindings):
            if name in used or not is_pure(value):
                e = x.Let(name, value, e)
                used |= x.variables(value)
        return simplify(e)

    def branch(self, e: Expr, convert: Callable[[Expr], Pair]) -> tuple[Pair, Bindings]:
        """The pair of a branch that may not be taken, and the lets that are evaluated with it alone."""
        outer, self.bindings = self.bindings, []
        known = dict(self.known)
        pair = convert(e)
        inner, self.bindings = self.bindings, outer
        self.known = known
        return pair, inner

    # ---- real expressions

    def real(self, e: Expr) -> Expr:
        """An expression of a real type, in which reads of complex numbers become reads of their parts."""
        match e:
            case x.Call(kind="intrinsic", args=(a, *_)) if a.dtype.is_complex:
                return self._of_complex(e.name, self.pair(a), e.dtype)
            case x.EQ() | x.NE() if e.a.dtype.is_complex:
                (ar, ai), (br, bi) = (self.pair(c).both(c.dtype.part) for c in (e.a, e.b))
                if isinstance(e, x.EQ):
                    return x.And(x.EQ(ar, br), x.EQ(ai, bi))
                return x.Or(x.NE(ar, br), x.NE(ai, bi))
            case x.Let():
                return self._let(e, self.real)
            case x.Variable():
                return x.Variable(self.renamed[e.name], e.dtype) if e.name in self.renamed else e
            case x.IfThenElse():
                condition = self.real(e.condition)
                (then, of_then), (other, of_other) = (
                    self.branch(b, lambda b: Pair(self.real(b), None)) for b in (e.then_value, e.else_value)
                )
                assert then.real is not None and other.real is not None
                return x.IfThenElse(
                    condition, self.wrapped(then.real, of_then), self.wrapped(other.real, of_other)
                )
            case _:
                return x.rebuild(e, self.real)

    def _of_complex(self, name: str, p: Pair, dtype: DType) -> Expr:
        re, im = p.both(dtype)
        match name:
            case "real":
                return re
            case "imag":
                return im
            case "arg":
                return _call("atan2", im, re)
            case "abs" if p.imaginary is None:
                return _call("fabs", re)
            case "abs" if p.real is None:
                return _call("fabs", im)
            case "abs":
                return _call("hypot", re, im)
            case _:
                raise InternalError(f"no complex function {name!r}")

    def _let(self, e: x.Let, convert: Callable[[Expr], Expr]) -> Expr:
        self._define(e)
        return convert(e.body)

    def _define(self, e: x.Let) -> None:
        """Bind what a let binds; its body is converted next."""
        if e.value.dtype.is_complex:
            p = self.pair(e.value)
            re, im = (None if c is None else self.bind(c, e.name) for c in (p.real, p.imaginary))
            self.pairs[e.name] = Pair(re, im)
            return
        value = self.real(e.value)
        name = fresh(e.name, self.taken)
        self.taken.add(name)
        self.renamed[e.name] = name
        self.bindings.append((name, value))

    # ---- complex expressions

    def pair(self, e: Expr) -> Pair:
        """The parts of an expression of a complex type."""
        part = e.dtype.part
        match e:
            case x.Variable() if e.name in self.pairs:
                return self.pairs[e.name]
            case x.Variable() if e.name in self.scalars:
                return Pair(*(x.Call(e.name, (x.IntImm(k),), part, "image") for k in range(2)))
            case x.Cast() if not e.value.dtype.is_complex:
                return Pair(_cast(part, self.real(e.value)), None)
            case x.Cast():
                return _mapped(self.pair(e.value), lambda a: _cast(part, a))
            case x.Call(kind="intrinsic"):
                return self._function(e)
            case x.Call():
                args = tuple(map(self.real, e.args))
                re, im = (
                    x.Call(e.name, (*args, x.IntImm(k)), part, e.kind, e.checked, e.site) for k in range(2)
                )
                return Pair(re, im)
            case x.Add() | x.Sub():
                (ar, ai), (br, bi) = (self.pair(c).both(part) for c in (e.a, e.b))
                return Pair(type(e)(ar, br), type(e)(ai, bi))
            case x.Mul():
                return self._product(self._atoms(e.a), self._atoms(e.b))
            case x.Div():
                return self._quotient(self._atoms(e.a), self._atoms(e.b), part)
            case x.Select():
                condition = self.bind(self.real(e.condition))
                (ar, ai), (br, bi) = (self.pair(c).both(part) for c in (e.true_value, e.false_value))
                return Pair(x.Select(condition, ar, br), x.Select(condition, ai, bi))
            case x.IfThenElse():
                return self._choice(e, part)
            case x.Let():
                self._define(e)
                return self.pair(e.body)
            case _:
                raise InternalError(f"no parts of {type(e).__name__}")

    def _choice(self, e: x.IfThenElse, part: DType) -> Pair:
        condition = self.bind(self.real(e.condition))
        found = [self.branch(b, self.pair) for b in (e.then_value, e.else_value)]
        (then, of_then), (other, of_other) = ((p.both(part), lets) for p, lets in found)

        def chosen(k: int) -> Expr:
            return x.IfThenElse(condition, self.wrapped(then[k], of_then), self.wrapped(other[k], of_other))

        return Pair(chosen(0), chosen(1))

    def _atoms(self, e: Expr) -> Pair:
        return _mapped(self.pair(e), self.bind)

    @staticmethod
    def _product(a: Pair, b: Pair) -> Pair:
        def of(p: Expr | None, q: Expr | None) -> Expr | None:
            return None if p is None or q is None else x.Mul(p, q)

        rr, ii = of(a.real, b.real), of(a.imaginary, b.imaginary)
        ri, ir = of(a.real, b.imaginary), of(a.imaginary, b.real)
        real = rr if ii is None else negative(ii) if rr is None else x.Sub(rr, ii)
        imaginary = ri if ir is None else ir if ri is None else x.Add(ri, ir)
        return Pair(real, imaginary)

    def _quotient(self, a: Pair, b: Pair, part: DType) -> Pair:
        if b.imaginary is None and b.real is not None:
            divisor = b.real
            return _mapped(a, lambda c: x.Div(c, divisor))
        if b.real is None and b.imaginary is not None:
            divisor = b.imaginary
            re = None if a.imaginary is None else x.Div(a.imaginary, divisor)
            im = None if a.real is None else negative(x.Div(a.real, divisor))
            return Pair(re, im)
        zero = x.imm(0, part)
        (ar, ai), (br, bi) = a.both(part), b.both(part)
        by_real = self.bind(x.GE(_call("fabs", br), _call("fabs", bi)))
        large, small = (self.bind(x.Select(by_real, p, q)) for p, q in ((br, bi), (bi, br)))
        none = x.EQ(large, zero)  # so that a division by 0 gives an infinity or NaN in each part separately
        ratio = self.bind(x.Select(none, zero, x.Div(small, large)))
        divisor = self.bind(x.Select(none, zero, x.Add(large, x.Mul(small, ratio))))
        re = x.Select(by_real, x.Add(ar, x.Mul(ai, ratio)), x.Add(x.Mul(ar, ratio), ai))
        im = x.Select(by_real, x.Sub(ai, x.Mul(ar, ratio)), x.Sub(x.Mul(ai, ratio), ar))
        return Pair(x.Div(re, divisor), x.Div(im, divisor))

    def _function(self, e: x.Call) -> Pair:
        part = e.dtype.part
        match e.name:
            case "imaginary":
                return Pair(None, self.real(e.args[0]))
            case "conj":
                p = self.pair(e.args[0])
                return Pair(p.real, None if p.imaginary is None else negative(p.imaginary))
            case "polar":
                radius, angle = (self.bind(self.real(a)) for a in e.args)
                return Pair(*(x.Mul(radius, _call(f, angle)) for f in ("cos", "sin")))
            case "exp":
                re, im = self._atoms(e.args[0]).both(part)
                radius = self.bind(_call("exp", re))
                none = x.EQ(im, x.imm(0, part))  # avoids a product of 0 with an infinity
                turned = x.Select(none, im, x.Mul(radius, _call("sin", im)))
                return Pair(x.Mul(radius, _call("cos", im)), turned)
            case "sqrt":
                return self._root(*self._atoms(e.args[0]).both(part), part)
            case _:
                raise InternalError(f"no complex function {e.name!r}")

    def _root(self, re: Expr, im: Expr, part: DType) -> Pair:
        """t = sqrt((|re| + |z|) / 2) is the larger part of the root, |im| / (2 t) the other one."""
        zero, half, two = (x.imm(v, part) for v in (0, 0.5, 2))
        halved, size = self.bind(_call("fabs", x.Mul(re, half))), self.bind(_call("fabs", im))
        length = _call("hypot", halved, x.Mul(size, half))
        larger = self.bind(_call("sqrt", x.Add(halved, length)))
        rest = x.Div(size, x.Mul(two, larger))
        # For 0 and for an infinite imaginary part that would be NaN.
        infinite = x.EQ(size, x.imm(math.inf, part))
        smaller = self.bind(x.Select(infinite, size, x.Select(x.EQ(larger, zero), zero, rest)))
        right = self.bind(x.GE(re, zero))
        turned = x.Select(right, smaller, larger)
        return Pair(x.Select(right, larger, smaller), _call("copysign", turned, im))


def negative(e: Expr) -> Expr:
    return x.Mul(e, x.imm(-1, e.dtype))


def _call(name: str, *args: Expr) -> Expr:
    return x.Call(name, args, args[0].dtype, "intrinsic")


def _cast(dtype: DType, e: Expr) -> Expr:
    return e if e.dtype == dtype else x.Cast(dtype, e)


def _mapped(p: Pair, f: Callable[[Expr], Expr]) -> Pair:
    re, im = (None if c is None else f(c) for c in (p.real, p.imaginary))
    return Pair(re, im)


def by_part(e: Expr, k: Expr, values: Values) -> Expr | None:
    """Part `k` of a complex expression whose parts are computed alike, each from the same part of what it
    reads: of sums and of products with real numbers.  None for other expressions."""
    part = e.dtype.part
    match e:
        case x.Call() if e.kind != "intrinsic":
            args = (*map(values.real, e.args), k)
            return x.Call(e.name, args, part, e.kind, e.checked, e.site)
        case x.Variable() if e.name in values.scalars:
            return x.Call(e.name, (k,), part, "image")
        case x.Cast(value=value) if not value.dtype.is_complex:
            return x.imm(0, part) if x.constant(value) == 0 else None
        case x.Cast():
            inner = by_part(e.value, k, values)
            return None if inner is None else _cast(part, inner)
        case x.Add() | x.Sub():
            a, b = by_part(e.a, k, values), by_part(e.b, k, values)
            return None if a is None or b is None else type(e)(a, b)
        case x.Mul() | x.Div():
            factor = _real_factor(e.b, values)
            if factor is not None:
                a = by_part(e.a, k, values)
                return None if a is None else type(e)(a, factor)
            factor = _real_factor(e.a, values) if isinstance(e, x.Mul) else None
            b = None if factor is None else by_part(e.b, k, values)
            return None if factor is None or b is None else x.Mul(factor, b)
        case x.Select():
            a, b = by_part(e.true_value, k, values), by_part(e.false_value, k, values)
            return None if a is None or b is None else x.Select(values.real(e.condition), a, b)
        case x.IfThenElse():
            condition = values.real(e.condition)
            branches: list[Expr] = []
            for b in (e.then_value, e.else_value):
                pair, bindings = values.branch(b, lambda b: Pair(by_part(b, k, values), None))
                if pair.real is None:
                    return None
                branches.append(values.wrapped(pair.real, bindings))
            return x.IfThenElse(condition, *branches)
        case _:
            return None


def _real_factor(e: Expr, values: Values) -> Expr | None:
    if isinstance(e, x.Cast) and not e.value.dtype.is_complex:
        return _cast(e.dtype.part, values.real(e.value))
    return None


def has_complex(e: Expr) -> bool:
    """Whether a complex number is computed anywhere in an expression."""
    return any(c.dtype.is_complex for c in x.walk(e))
