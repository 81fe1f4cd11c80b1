"""Products, negations and conjugates of expressions, without factors of 1 and without the conjugates of real
numbers."""

from __future__ import annotations

from tc.dtypes import DType
from tc.ir.expr import Call, Cast, Expr, FloatImm, IfThenElse, Mul, Select, constant, imm


def number(value: float, like: Expr) -> Expr:
    return imm(value, like.dtype)


def literal(e: Expr) -> int | float | None:
    """The value of a real literal, also of one that became complex; None of others."""
    if isinstance(e, Cast) and e.dtype.is_complex:
        return literal(e.value)
    return constant(e)


def times(a: Expr, b: Expr) -> Expr:
    """A product without factors of 1."""
    if literal(a) == 1:
        return b
    if literal(b) == 1:
        return a
    if literal(a) == -1:
        return minus(b)
    if literal(b) == -1:
        return minus(a)
    return Mul(a, b)


def minus(a: Expr) -> Expr:
    match a:
        case FloatImm():
            return FloatImm(-a.value, a.dtype)
        case Cast() if a.dtype.is_complex and literal(a) is not None:
            return Cast(a.dtype, minus(a.value))
        case Mul(a=x, b=y) if literal(y) == -1:
            return x
        case Mul(a=x, b=y) if isinstance(x, FloatImm):
            return times(minus(x), y)
        case Mul(a=Mul(b=z) as x, b=y) if literal(z) == -1.0:
            return times(minus(x), y)
        case _:
            return Mul(a, number(-1, a))


def converted(dtype: DType, a: Expr) -> Expr:
    """A number in another type; a complex literal stays one."""
    if a.dtype == dtype:
        return a
    value = literal(a) if dtype.is_complex else None
    return Cast(dtype, a) if value is None else imm(value, dtype)


def intrinsic(name: str, *args: Expr, dtype: DType | None = None) -> Expr:
    return Call(name, args, args[0].dtype if dtype is None else dtype, "intrinsic")


def unit(dtype: DType) -> Expr:
    """The imaginary unit."""
    return intrinsic("imaginary", imm(1, dtype.part), dtype=dtype)


def conj(a: Expr) -> Expr:
    """The conjugate; of a real number the number itself."""
    match a:
        case _ if not a.dtype.is_complex or _became_complex(a):
            return a
        case Cast():
            return Cast(a.dtype, conj(a.value))
        case Call(name="conj", kind="intrinsic"):
            return a.args[0]
        case Call(name="imaginary", kind="intrinsic"):
            return intrinsic("imaginary", minus(a.args[0]), dtype=a.dtype)
        case Mul(a=x, b=y) if _has_conjugate(x) or _has_conjugate(y):
            return Mul(conj(x), conj(y))
        case Select():
            return Select(a.condition, conj(a.true_value), conj(a.false_value))
        case IfThenElse():
            return IfThenElse(a.condition, conj(a.then_value), conj(a.else_value))
        case _:
            return intrinsic("conj", a)


def real(a: Expr) -> Expr:
    """The real part; of a real number the number itself."""
    part = a.dtype.part
    match a:
        case _ if not a.dtype.is_complex:
            return a
        case Cast() if _became_complex(a):
            return converted(part, a.value)
        case Call(name="conj", kind="intrinsic"):
            return real(a.args[0])
        case Mul(a=x, b=Cast(value=y) as scale) if _became_complex(scale):
            return times(real(x), converted(part, y))
        case Mul(a=Cast(value=y) as scale, b=x) if _became_complex(scale):
            return times(converted(part, y), real(x))
        case _:
            return intrinsic("real", a, dtype=part)


def imag(a: Expr) -> Expr:
    """The imaginary part of a complex number."""
    part = a.dtype.part
    match a:
        case Cast() if _became_complex(a):
            return imm(0, part)
        case Call(name="conj", kind="intrinsic"):
            return minus(imag(a.args[0]))
        case Mul(a=x, b=Cast(value=y) as scale) if _became_complex(scale):
            return times(imag(x), converted(part, y))
        case Mul(a=Cast(value=y) as scale, b=x) if _became_complex(scale):
            return times(converted(part, y), imag(x))
        case _:
            return intrinsic("imag", a, dtype=part)


def _has_conjugate(e: Expr) -> bool:
    """Whether the conjugate is a number that is computed anyway, or has no guard inside."""
    intrinsics = isinstance(e, Call) and e.kind == "intrinsic" and e.name in ("conj", "imaginary")
    return intrinsics or isinstance(e, IfThenElse) or _became_complex(e)


def _became_complex(e: Expr) -> bool:
    """Whether a complex number is a real one that became complex."""
    return isinstance(e, Cast) and e.dtype.is_complex and not e.value.dtype.is_complex
