"""Functions that scalar LLVM IR calls, as text: conversions of the 16-bit floating types.

They use integer arithmetic, so that no compiler runtime (`__truncsfhf2` and its kin) is needed.  Values of
the 16-bit types travel as `i16`.
"""

from __future__ import annotations

# float16 to float32 is exact: shifting the exponent field into place and multiplying by 2^112 repairs the
# bias of normal and subnormal numbers alike; infinities and NaNs keep their fraction.
_HALF_TO_FLOAT = """\
define internal float @tc_half_to_float(i16 %h) alwaysinline nounwind {
  %w = zext i16 %h to i32
  %s = and i32 %w, 32768
  %sign = shl i32 %s, 16
  %m = and i32 %w, 32767
  %b = shl i32 %m, 13
  %f = bitcast i32 %b to float
  %scaled = fmul float %f, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %special = or i32 %b, 2139095040
  %is = icmp uge i32 %m, 31744
  %a = select i1 %is, i32 %special, i32 %finite
  %r = or i32 %a, %sign
  %x = bitcast i32 %r to float
  ret float %x
}
"""

# float32 to float16, to nearest even.  Below 2^-14 adding 0.5 makes the hardware round at 2^-24, the spacing
# of subnormal float16; above, the bits are rounded by hand, and a carry reaches infinity by itself.
_FLOAT_TO_HALF = """\
define internal i16 @tc_float_to_half(float %x) alwaysinline nounwind {
  %w = bitcast float %x to i32
  %hi = lshr i32 %w, 16
  %sign = and i32 %hi, 32768
  %a = and i32 %w, 2147483647
  %fa = bitcast i32 %a to float
  %sum = fadd float %fa, 0x3FE0000000000000
  %sumbits = bitcast float %sum to i32
  %sub = sub i32 %sumbits, 1056964608
  %odd0 = lshr i32 %a, 13
  %odd = and i32 %odd0, 1
  %bias = sub i32 %a, 939520001
  %round = add i32 %bias, %odd
  %norm = lshr i32 %round, 13
  %small = icmp ult i32 %a, 947912704
  %n0 = select i1 %small, i32 %sub, i32 %norm
  %large = icmp uge i32 %a, 1199570944
  %n1 = select i1 %large, i32 31744, i32 %n0
  %payload0 = lshr i32 %a, 13
  %payload = and i32 %payload0, 1023
  %quiet = or i32 %payload, 32256
  %nan = icmp ugt i32 %a, 2139095040
  %n2 = select i1 %nan, i32 %quiet, i32 %n1
  %r = or i32 %n2, %sign
  %h = trunc i32 %r to i16
  ret i16 %h
}
"""

_BFLOAT_TO_FLOAT = """\
define internal float @tc_bfloat_to_float(i16 %h) alwaysinline nounwind {
  %w = zext i16 %h to i32
  %b = shl i32 %w, 16
  %x = bitcast i32 %b to float
  ret float %x
}
"""

_FLOAT_TO_BFLOAT = """\
define internal i16 @tc_float_to_bfloat(float %x) alwaysinline nounwind {
  %w = bitcast float %x to i32
  %hi = lshr i32 %w, 16
  %odd = and i32 %hi, 1
  %bias = add i32 %w, 32767
  %sum = add i32 %bias, %odd
  %rounded = lshr i32 %sum, 16
  %quiet = or i32 %hi, 64
  %nan = fcmp uno float %x, 0.0
  %r = select i1 %nan, i32 %quiet, i32 %rounded
  %h = trunc i32 %r to i16
  ret i16 %h
}
"""

# float64 to float32, rounded to odd: a second rounding to 16 bits then gives what one rounding would (Boldo
# and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd",
# IEEE Transactions on Computers, 2008).
_DOUBLE_TO_ODD = """\
define internal float @tc_double_to_odd(double %d) alwaysinline nounwind {
  %f = fptrunc double %d to float
  %back = fpext float %f to double
  %differs = fcmp one double %back, %d
  %ab = call double @llvm.fabs.f64(double %back)
  %ad = call double @llvm.fabs.f64(double %d)
  %away = fcmp ogt double %ab, %ad
  %bits = bitcast float %f to i32
  %one = zext i1 %away to i32
  %down = sub i32 %bits, %one
  %odd = or i32 %down, 1
  %r = select i1 %differs, i32 %odd, i32 %bits
  %x = bitcast i32 %r to float
  ret float %x
}
"""

# 64-bit integers to 53 bits, rounded to odd, so that rounding to 24 or fewer bits gives the same result.
_TO_53 = """define internal i64 @tc_{t}_to_53(i64 %i) alwaysinline nounwind {{
  %shifted = add i64 %i, {offset}
  %near = icmp ule i64 %shifted, {span}
  %low = and i64 %i, 2047
  %carry = add i64 %low, 2047
  %some = or i64 %i, %carry
  %few = and i64 %some, -2048
  %r = select i1 %near, i64 %i, i64 %few
  ret i64 %r
}}
"""

# Name -> text and the declarations it needs.
HELPERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "tc_half_to_float": (_HALF_TO_FLOAT, ()),
    "tc_float_to_half": (_FLOAT_TO_HALF, ()),
    "tc_bfloat_to_float": (_BFLOAT_TO_FLOAT, ()),
    "tc_float_to_bfloat": (_FLOAT_TO_BFLOAT, ()),
    "tc_int64_to_53": (_TO_53.format(t="int64", offset=1 << 53, span=1 << 54), ()),
    "tc_uint64_to_53": (_TO_53.format(t="uint64", offset=0, span=1 << 53), ()),
    "tc_double_to_odd": (_DOUBLE_TO_ODD, ("declare double @llvm.fabs.f64(double)",)),
}
