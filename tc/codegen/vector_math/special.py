"""The error function and its relatives."""

from __future__ import annotations

from tc.codegen.vector_math.builder import Body, Format, Value
from tc.codegen.vector_math.exponential import exp_moderate

_ERF_P32 = (
    0.12837915122509003, -0.37612494826316833, 0.11281804740428925, -0.02676580473780632, 0.00499164080247283,
    -0.0005981801077723503,
)  # fmt: skip
_LOG_ERFC32 = (
    -1.1285144090652466, -0.6357181668281555, -0.10526201874017715, 0.022890063002705574, -0.0032149816397577524,
    0.000213987470488064,
)  # fmt: skip


def erf(b: Body, f: Format, x: Value) -> Value:
    """x + x P(x^2) up to 0.92, then 1 - e^(a Q(a)), a = |x|, where a Q(a) fits log erfc."""
    a = x.abs()
    near = b.mad(x, b.horner(x * x, _ERF_P32), x)
    limited = a.at_most(3.921875)
    far = (1.0 - exp_moderate(b, f, limited * b.horner(limited, _LOG_ERFC32))).copysign(x)
    return a.ge(0.921875).select(far, near)


def rsqrt(b: Body, f: Format, x: Value) -> Value:
    """Two correctly rounded operations: 1.5 ulp at most, and zeros and infinity as they should be."""
    return 1.0 / x.sqrt()
