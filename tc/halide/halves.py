"""float16 and bfloat16 as 16-bit patterns: conversions in integer arithmetic.

Halide has both types, but emulates what the target lacks, says so on stderr, and rounds double to half
through a function of the compiler's run time that a kernel cannot count on.  The IR holds halves in loads,
stores and casts only, so these functions are all that is needed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from tc.dtypes import BFLOAT16, FLOAT16, DType
from tc.halide.binding import HlExpr, hl, literal


def to_float32(bits: HlExpr, dtype: DType) -> HlExpr:
    """The float32 value of a half given as uint16; exact, NaN stays NaN."""
    wide = hl.u32(bits)
    if dtype != FLOAT16:
        return hl.reinterpret(hl.Float(32), wide << hl.u32(16))
    # Exponent and fraction in float32's places; one exact multiplication corrects the bias (2^112), also
    # for subnormal halves.  Infinities and NaN get the largest exponent.
    magnitude = (wide & hl.u32(0x7FFF)) << hl.u32(13)
    finite = hl.reinterpret(hl.UInt(32), hl.reinterpret(hl.Float(32), magnitude) * hl.f32(2.0**112))
    special = magnitude | hl.u32(0x7F800000)
    sign = (wide & hl.u32(0x8000)) << hl.u32(16)
    return hl.reinterpret(hl.Float(32), sign | hl.select(magnitude >= hl.u32(0x0F800000), special, finite))


def from_float32(value: HlExpr, dtype: DType) -> HlExpr:
    """A float32 rounded to nearest even, as uint16; NaN becomes a quiet NaN."""
    bits = hl.reinterpret(hl.UInt(32), value)
    if dtype != FLOAT16:
        even = (bits >> hl.u32(16)) & hl.u32(1)
        rounded = (bits + hl.u32(0x7FFF) + even) >> hl.u32(16)
        quiet = (bits >> hl.u32(16)) | hl.u32(0x40)
        magnitude = bits & hl.u32(0x7FFFFFFF)
        return hl.u16(hl.select(magnitude > hl.u32(0x7F800000), quiet, rounded))
    sign = (bits >> hl.u32(16)) & hl.u32(0x8000)
    magnitude = bits & hl.u32(0x7FFFFFFF)
    # Below 2^-14: adding 1/2 rounds at 2^-24, the distance of subnormal halves.
    shifted = hl.reinterpret(hl.Float(32), magnitude) + hl.f32(0.5)
    small = hl.reinterpret(hl.UInt(32), shifted) - hl.u32(0x3F000000)
    even = (magnitude >> hl.u32(13)) & hl.u32(1)
    # 0x38000000 = (127 - 15) << 23, the difference of the biases.
    normal = (magnitude - hl.u32(0x38000000) + hl.u32(0xFFF) + even) >> hl.u32(13)
    finite = hl.select(magnitude < hl.u32(0x38800000), small, normal)
    large = hl.select(magnitude > hl.u32(0x7F800000), hl.u32(0x7E00), hl.u32(0x7C00))
    # 0x477FF000 = 65520, halfway between the largest half and the next power of two.
    return hl.u16(sign | hl.select(magnitude >= hl.u32(0x477FF000), large, finite))


def from_float64(value: HlExpr, dtype: DType) -> HlExpr:
    """A double rounded once: first to float32 rounding to odd, which keeps the second rounding right
    (Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008)."""
    nearest = hl.f32(value)
    back = hl.f64(nearest)
    bits = hl.reinterpret(hl.UInt(32), nearest)
    odd = bits & hl.u32(1)
    away = hl.abs(back) > hl.abs(value)
    # Towards zero, then the last bit set: an inexact result is odd.
    to_odd = hl.select(away, bits - hl.u32(1), bits) | hl.u32(1)
    exact = (back == value) | hl.is_nan(value) | (odd == hl.u32(1))
    return from_float32(hl.reinterpret(hl.Float(32), hl.select(exact, bits, to_odd)), dtype)


def from_integer(value: HlExpr, source: DType, dtype: DType) -> HlExpr:
    """An integer of 32 or 64 bits rounded once."""
    if dtype != BFLOAT16:
        return from_float32(hl.f32(value), dtype)  # exact in float32, or infinite
    if source.bits == 64:
        # Bits that a double may lack become one.
        bits, low = hl.u64(value), hl.u64(0x7FF)
        few = hl.cast(value.type(), (bits | ((bits & low) + low)) & ~low)
        end = literal(1 << 53, source)
        far = value > end if not source.is_signed else (value > end) | (value < literal(-(1 << 53), source))
        value = hl.select(far, few, value)
    return from_float64(hl.f64(value), dtype)
