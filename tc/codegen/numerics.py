"""Definitions that all emitters share: 16-bit constants and the error record."""

from __future__ import annotations

import struct

from tc.dtypes import DType

ERROR_WORDS = 32  # int64 words of the error record
MAX_POINT = ERROR_WORDS - 4  # iteration variables in it, beside site, subscript, count, dimension


def bits16(value: float, dtype: DType) -> int:
    """The bits of `value` in float16 or bfloat16, rounded to nearest even; a NaN becomes the quiet NaN."""
    if value != value:
        return 0x7E00 if dtype.kind == "float" else 0x7FC0
    if dtype.kind == "float":
        try:
            return struct.unpack("<H", struct.pack("<e", value))[0]
        except OverflowError:
            return 0x7C00 if value > 0 else 0xFC00
    (wide,) = struct.unpack("<Q", struct.pack("<d", value))
    sign, magnitude = wide >> 63 << 15, wide & ((1 << 63) - 1)
    exponent = (magnitude >> 52) - 1023
    if exponent < -134:
        return sign
    if exponent > 127:
        return sign | 0x7F80
    # In units of the last place of bfloat16, whose smallest exponent is -126.
    place = max(exponent, -126) - 7
    fraction = (magnitude & ((1 << 52) - 1)) | (1 << 52)
    shift = 52 - exponent + place
    quotient, rest = divmod(fraction, 1 << shift)
    half = 1 << (shift - 1)
    quotient += rest > half or (rest == half and quotient % 2 == 1)
    return sign | (((max(exponent, -126) + 126) << 7) + quotient)
