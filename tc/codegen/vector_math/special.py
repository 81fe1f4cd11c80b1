"""The error function and its relatives."""

from __future__ import annotations

from tc.codegen.vector_math.builder import Body, Value
from tc.codegen.vector_math.exponential import (
    EXP64,
    LOG2,
    evaluate,
    exp_moderate,
    near_scale,
    reduce,
    scale_far,
)
from tc.codegen.vector_math.formats import SINGLE, Format, rounded
from tc.codegen.vector_math.power import EXP2_SHORT

_ERF_P = {
    24: (0.12837915122509003, -0.37612494826316833, 0.11281804740428925, -0.02676580473780632,
         0.00499164080247283, -0.0005981801077723503),
    53: (0.12837916709551256, -0.3761263890318346, 0.11283791670942665, -0.026866170642932556,
         0.005223977604943655, -0.0008548325882064323, 0.00012055292354224713, -1.4924691533585258e-05,
         1.6446901308023965e-06, -1.6204709256550427e-07, 1.3704602542499326e-08, -7.768438601759385e-10),
}  # fmt: skip
_LOG_ERFC = {
    24: (-1.1285144090652466, -0.6357181668281555, -0.10526201874017715, 0.022890063002705574,
         -0.0032149816397577524, 0.000213987470488064),
    53: (-1.128378864392509, -0.6366225740635879, -0.10276067663065216, 0.01909760535624776,
         0.000262937741745479, -0.0017619626303150434, 0.0006463091777503059, -5.63440432822934e-05,
         -5.954437676054404e-05, 3.8273498060654315e-05, -1.3430734672650872e-05, 3.2725212897468066e-06,
         -5.789108232550275e-07, 7.363704515303425e-08, -6.4183324737075e-09, 3.4411521532406944e-10,
         -8.567087858700462e-12),
}  # fmt: skip
# (1 + 2x) e^(x^2) erfc(x) in (x - 15/4) / (x + 15/4).
_ERFC = {
    24: (1.2375126354234058, -0.14024050562505022, 0.0035848333337131304, 0.0822724309959555,
         -0.10879454981156413, 0.09236377214313536, -0.058715606801650895, 0.02804519019181796,
         -0.009958042470025897, 0.002272331815456158, 0.001083943909136323),
    53: (1.2375126308378275, -0.14024059858554674, 0.0035854154854870284, 0.0822767384901258,
         -0.10880393014276937, 0.09230432116081533, -0.05869339857074674, 0.02836227741580422,
         -0.009746579740824856, 0.0017556258478154362, 0.0002937147028663456, -0.0002901538911327421,
         5.164544992896202e-05, 2.2383122774664224e-05, -1.1436039752157605e-05, -9.703403186226742e-07,
         1.7404042576780056e-06, -6.221739628762127e-08, -2.49366687844603e-07, 2.7102234748272885e-08,
         3.4301282814168626e-08, -4.5987450353249815e-09, -3.814438602665871e-09),
}  # fmt: skip
_SQRT_HALF = (0.7071067811865476, -4.833646656726457e-17)


def erf(b: Body, f: Format, x: Value) -> Value:
    """x + x P(x^2) up to 0.92 (float64: 1), then 1 - e^(a Q(a)), a = |x|, where a Q(a) fits log erfc."""
    a = x.abs()
    near = b.mad(x, b.series(x * x, _ERF_P[f.precision]), x)
    limited = a.at_most(3.921875 if f is SINGLE else 5.9375)
    far = 1.0 - exp_moderate(b, f, limited * b.series(limited, _LOG_ERFC[f.precision]))
    return a.ge(0.921875 if f is SINGLE else 1.0).select(far.copysign(x), near)


def _erfc_pair(b: Body, f: Format, a: Value, low: Value | None, factor: float) -> Value:
    """factor erfc(a + low) for float64 a >= 0: M. M. Shepherd and J. G. Laframboise, "Chebyshev
    approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity", Mathematics of Computation 36 (1981).
    What a^2 loses in rounding is put back in the exponential."""
    t, c = (a - 3.75) / (a + 3.75), _ERFC[53]
    g = b.mad(b.mad(b.estrin(t, c[2:]), t, c[1]), t, c[0]) / b.mad(a, 2.0, 1.0)
    if factor != 1.0:
        g = g * factor
    square, error = b.two_product(f, a, a)
    if low is not None:
        error = error + 2.0 * (a * low)
    n, _, r = reduce(b, f, -square, EXP64)
    g = g * evaluate(b, f, r, EXP64.polynomial)
    return scale_far(b, f, g - g * error, n)


def _erfc32(b: Body, f: Format, x: Value) -> Value:
    """The same in float64, with one division, for the accuracy of float32."""
    a = x.abs().at_most(10.5)
    above, line = a + 3.75, b.mad(a, 2.0, 1.0)
    inverse = 1.0 / (above * line)
    g = b.horner((a - 3.75) * line * inverse, _ERFC[24]) * (above * inverse)
    t = a * a * rounded(-1 / LOG2, 53)
    shifted = t + f.magic
    rest = t - (shifted - f.magic)
    y = near_scale(f, g * b.horner(rest, EXP2_SHORT), shifted.bits()) + (t - t)  # t - t keeps NaN
    return x.lt(0.0).select(2.0 - y, y)


def erfc(b: Body, f: Format, x: Value) -> Value:
    if f is SINGLE:
        return b.in_double(f, _erfc32, x)
    a = x.abs()
    y = _erfc_pair(b, f, a.at_most(28.0), None, 1.0)
    near = 1.0 - b.mad(x, b.series(x * x, _ERF_P[53]), x)
    return a.lt(0.4765625).select(near, x.lt(0.0).select(2.0 - y, y))


def _normcdf(b: Body, f: Format, x: Value) -> Value:
    a = x.abs().at_most(39.0)
    high, low = b.two_product(f, a, _SQRT_HALF[0])
    y = _erfc_pair(b, f, high, low + a * _SQRT_HALF[1], 0.5)
    near = b.mad(b.mad(high, b.series(high * high, _ERF_P[53]), high).copysign(x), 0.5, 0.5)
    return a.lt(0.671875).select(near, x.gt(0.0).select(1.0 - y, y))


def _normcdf32(b: Body, f: Format, x: Value) -> Value:
    return _erfc32(b, f, x * -_SQRT_HALF[0]) * 0.5


def normcdf(b: Body, f: Format, x: Value) -> Value:
    """erfc(-x / sqrt 2) / 2."""
    return b.in_double(f, _normcdf32, x) if f is SINGLE else _normcdf(b, f, x)
