"""What complex numbers do not have: an order, most functions, and a real number that they become.

Each function raises DTypeError, TC0412 for what needs an order and TC0413 for the rest, or returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tc.dtypes import DType
from tc.errors import DTypeError, Span
from tc.lang import resolved as r
from tc.lang.builtins import OF_COMPLEX

_FUNCTIONS = "complex numbers have + - * / == != conj real imag abs arg exp sqrt"


def parts_of(text: str) -> str:
    """Which real numbers to take of a complex one."""
    return f"write real({text}), imag({text}) or abs({text})"


def literal(e: r.Imaginary, dtype: DType) -> r.Imaginary:
    """An imaginary literal of a type.  TC0406 for a real one."""
    if not dtype.is_complex:
        raise DTypeError(
            f"the literal {e.span.text} is complex and does not adapt to {dtype}",
            e.span,
            code="TC0406",
            help="the tensor is complex64 or complex128, or takes real(…), imag(…) or abs(…)",
        )
    return replace(e, value=dtype.part.literal(e.value), dtype=dtype)


def reduction(st: r.Statement, target: DType) -> None:
    op = st.op.removesuffix("!")
    if target.is_complex and op in ("min=", "max="):
        raise _unordered(f"this reduction compares {target}", st.span)


def comparison(e: r.Binary, operand: r.Exp) -> None:
    if operand.dtype is not None and operand.dtype.is_complex and e.op not in ("==", "!="):
        raise _unordered(f"'{e.op}' compares {operand.dtype}", e.span)


def extremum(e: r.Apply) -> None:
    if e.function != "abs":
        raise _unordered(f"'{e.function}' compares {e.args[0].dtype or 'complex numbers'}", e.span)


def _unordered(what: str, span: Span) -> DTypeError:
    return DTypeError(
        f"{what}, and complex numbers have no order",
        span,
        code="TC0412",
        help="compare what has one: abs(z), real(z) or imag(z)",
    )


def remainder(e: r.Binary, *operands: DType) -> None:
    for t in operands:
        if t.is_complex:
            raise DTypeError(f"there is no remainder of {t}", e.span, code="TC0413", help=_FUNCTIONS)


def function(e: r.Apply) -> None:
    if e.function in OF_COMPLEX:
        return
    help = "write abs(z)" if e.function == "fabs" else _FUNCTIONS
    raise DTypeError(f"there is no '{e.function}' of complex numbers", e.span, code="TC0413", help=help)


def real_arguments(e: r.Apply, args: Sequence[r.Exp]) -> None:
    for a in args:
        if a.dtype is not None and a.dtype.is_complex:
            raise DTypeError(
                f"'{e.function}' makes a complex number of two real ones, and this is {a.dtype}",
                a.span,
                code="TC0413",
                help=parts_of(a.span.text),
            )


def cast(e: r.Cast, operand: r.Exp) -> None:
    source = operand.dtype
    if source is None or not source.is_complex or e.target.is_complex:
        return
    text = operand.span.text
    raise DTypeError(
        f"a cast does not make {e.target} of {source}",
        e.span,
        code="TC0413",
        help=f"write {text} != 0" if e.target.is_bool else parts_of(text),
    )
