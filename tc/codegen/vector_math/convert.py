"""Conversions of the 16-bit floating types, lane by lane what tc.codegen.llvm_helpers does.

Values of those types travel as `i16`.
"""

from __future__ import annotations

from tc.codegen.vector_math.builder import Body, Value


def half_to_float(b: Body, h: Value, native: bool) -> Value:
    """Exact: shifting the exponent field into place and multiplying by 2^112 repairs the bias of normal and
    subnormal numbers alike; infinities and NaNs keep their fraction, and
    NaNs become quiet, as `vcvtph2ps` makes them."""
    if native:
        return h.convert("bitcast", "half").convert("fpext", "float")
    w = h.convert("zext", "i32")
    magnitude = w & 0x7FFF
    wide = magnitude << 13
    finite = (wide.float() * 2.0**112).bits()
    quiet = magnitude.gt(0x7C00).select(0x7FC00000, b.constant(0x7F800000, "i32"))
    shifted = magnitude.gt(0x7BFF).select(wide | quiet, finite)
    return (shifted | ((w & 0x8000) << 16)).float()


def float_to_half(b: Body, x: Value, native: bool) -> Value:
    """To nearest even.  Below 2^-14 adding 1/2 makes the hardware round at 2^-24, the spacing of subnormal
    float16; above, the bits are rounded by hand, and a carry reaches infinity by itself."""
    if native:
        return x.convert("fptrunc", "half").convert("bitcast", "i16")
    w = x.bits()
    magnitude = w & 0x7FFFFFFF
    small = (magnitude.float() + 0.5).bits() - 0x3F000000
    normal = (magnitude - 0x37FFF001 + ((magnitude >> 13) & 1)) >> 13
    r = magnitude.lt(0x38800000).select(small, normal)
    r = magnitude.gt(0x477FEFFF).select(0x7C00, r)
    r = magnitude.gt(0x7F800000).select(((magnitude >> 13) & 0x3FF) | 0x7E00, r)
    return (r | ((w >> 16) & 0x8000)).convert("trunc", "i16")


def bfloat_to_float(b: Body, h: Value, native: bool) -> Value:
    return (h.convert("zext", "i32") << 16).float()


def float_to_bfloat(b: Body, x: Value, native: bool) -> Value:
    w = x.bits()
    high = w >> 16
    rounded = (w + 0x7FFF + (high & 1)) >> 16
    return x.is_nan().select(high | 0x40, rounded).convert("trunc", "i16")
