"""sin, cos and tan.

|x| = n pi/2 + r with pi/2 in several parts (Cody and Waite, Software Manual for the Elementary Functions,
1980, ch. 8): with FMA each n C is subtracted in one rounding, without the parts are short (float64), or
float32 is reduced in float64.  Beyond a bound, lanes go to libm one by one.  On |r| <= pi/4 minimax
polynomials.
"""

from __future__ import annotations

from fractions import Fraction

from tc.codegen.vector_math.builder import Body, Value
from tc.codegen.vector_math.formats import DOUBLE, SINGLE, Format, rounded, split

PI = Fraction(0xC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22, 2**254)

_LIMIT = {24: 2.0**16, 53: 2.0**20}
_PARTS = {
    (24, True): split(PI / 2, 24, 24, 24),
    (53, True): split(PI / 2, 53, 53, 53),
    (53, False): split(PI / 2, 33, 33, 33, 53),
}
_SIN = {
    24: (-0.16666655242443085, 0.008332188241183758, -0.00019518066255841404),
    53: (-0.1666666666666663, 0.008333333333321888, -0.00019841269829418723, 2.75573135649109e-06,
         -2.505073918133465e-08, 1.5895741917016028e-10),
}  # fmt: skip
_COS = {
    24: (0.04166664555668831, -0.0013887309469282627, 2.44323346123565e-05),
    53: (0.041666666666666595, -0.0013888888888873318, 2.4801587288975154e-05, -2.7557314206373466e-07,
         2.087570361231973e-09, -1.135864186689628e-11),
}  # fmt: skip
_TAN32 = (
    0.3333335220813751, 0.13332588970661163, 0.05406774953007698, 0.021243514493107796,
    0.010933258570730686, -3.180436760885641e-05, 0.004435474518686533,
)  # fmt: skip


def _reduce(b: Body, f: Format, a: Value, exactly: bool = False) -> tuple[Value, Value, Value | None]:
    """r, n as the low bits of an integer, and on demand the rounding error of r, for a = |x|."""
    if f is SINGLE and not b.target.fma:
        wide = a.convert("fpext", "double")
        shifted = wide * rounded(2 / PI, 53) + DOUBLE.magic
        n = shifted - DOUBLE.magic
        high, low = split(PI / 2, 33, 53)
        r = (wide - n * high) - n * low
        near = r.convert("fptrunc", "float")
        error = (r - near.convert("fpext", "double")).convert("fptrunc", "float")
        return near, shifted.bits().convert("trunc", "i32"), error
    shifted = b.mad(a, rounded(2 / PI, f.precision), f.magic)
    n = shifted - f.magic
    parts = _PARTS[f.precision, b.target.fma]
    r = b.mad(n, -parts[0], a)  # exact
    if not exactly:
        for part in parts[1:]:
            r = b.mad(n, -part, r)
        return r, shifted.bits(), None
    if b.target.fma:
        product, rest = b.two_product(f, n, -parts[1])
    else:
        product, rest = n * -parts[1], None
    first, error = b.two_sum(r, product)
    error = error if rest is None else error + rest
    for part in parts[2:]:
        error = b.mad(n, -part, error)
    r, error = b.fast_two_sum(first, error)
    return r, shifted.bits(), error


def _sine(b: Body, f: Format, r: Value, z: Value) -> Value:
    return b.mad(r * z, b.series(z, _SIN[f.precision]), r)


def _cosine(b: Body, f: Format, z: Value) -> Value:
    return b.mad(z * z, b.series(z, _COS[f.precision]), b.mad(z, -0.5, 1.0))


def _signed(f: Format, x: Value, sign: Value) -> Value:
    """x with its sign changed where bit 1 of `sign` is set."""
    return (x.bits() ^ ((sign << (f.bits - 2)) & (1 << (f.bits - 1)))).float()


def sin(b: Body, f: Format, x: Value) -> Value:
    a = x.abs()
    r, n, _ = _reduce(b, f, a)
    z = r * r
    y = (n & 1).ne(0).select(_cosine(b, f, z), _sine(b, f, r, z))
    minus = ((n << (f.bits - 2)) ^ x.bits()) & (1 << (f.bits - 1))
    y = (y.bits() ^ minus).float()
    return b.rarely(a.ge(_LIMIT[f.precision]), x, y, "sinf" if f is SINGLE else "sin")


def cos(b: Body, f: Format, x: Value) -> Value:
    a = x.abs()
    r, n, _ = _reduce(b, f, a)
    z = r * r
    y = (n & 1).eq(0).select(_cosine(b, f, z), _sine(b, f, r, z))
    y = _signed(f, y, n + 1)
    return b.rarely(a.ge(_LIMIT[f.precision]), x, y, "cosf" if f is SINGLE else "cos")


def tan(b: Body, f: Format, x: Value) -> Value:
    """tan r or -1 / tan r.  The rounding error of r, which tan magnifies up to 1.6 times, is put back."""
    a = x.abs()
    r, n, error = _reduce(b, f, a, exactly=True)
    z = r * r
    odd = (n & 1).ne(0)
    assert error is not None
    if f is SINGLE:
        t = r + b.mad(r * z, b.horner(z, _TAN32), b.mad(error, z, error))
        y = odd.select(-1.0 / t, t)
    else:
        s = r + b.mad(r * z, b.series(z, _SIN[53]), error)
        c = b.mad(z * z, b.series(z, _COS[53]), b.mad(z, -0.5, 1.0)) - r * error
        y = odd.select(-c, s) / odd.select(s, c)
    y = (y.bits() ^ (x.bits() & (1 << (f.bits - 1)))).float()
    return b.rarely(a.ge(_LIMIT[f.precision]), x, y, "tanf" if f is SINGLE else "tan")
