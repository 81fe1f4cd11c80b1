"""Floating types, and constants in several parts."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction

from tc.dtypes import FLOAT32, DType


def literal(value: float, element: str) -> str:
    """A floating constant as the bits of a double; it has to be one of the type."""
    if element == "float" and value == value and struct.unpack("<f", struct.pack("<f", value))[0] != value:
        raise AssertionError(f"{value!r} is no float32")
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def rounded(value: Fraction, bits: int) -> float:
    """`value` to `bits` significant bits, half away from zero."""
    magnitude = abs(value)
    exponent = 0
    while magnitude >= 2:
        magnitude, exponent = magnitude / 2, exponent + 1
    while magnitude < 1:
        magnitude, exponent = magnitude * 2, exponent - 1
    scaled = int(magnitude * 2 ** (bits - 1) + Fraction(1, 2))
    return float((1 if value > 0 else -1) * scaled * Fraction(2) ** (exponent - bits + 1))


def split(value: Fraction, *bits: int) -> list[float]:
    """A sum of positive numbers of so many significant bits that approximates `value` (Cody and Waite)."""
    parts: list[float] = []
    for b in bits:
        parts.append(rounded(value, b))
        if Fraction(parts[-1]) > value and len(parts) < len(bits):  # cut off: the rest stays positive
            parts[-1] = float(Fraction(parts[-1]) - Fraction(2) ** (math.frexp(parts[-1])[1] - b))
        value -= Fraction(parts[-1])
    return parts


@dataclass(frozen=True, slots=True)
class Format:
    """The constants of a floating type."""

    element: str  # LLVM's name
    integer: str  # of the same width
    precision: int  # significant bits
    bias: int

    @property
    def fraction(self) -> int:
        return self.precision - 1

    @property
    def bits(self) -> int:
        return 32 if self.element == "float" else 64

    @property
    def least_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def magic(self) -> float:
        """Adding and subtracting it rounds to an integer, which the sum's low bits hold meanwhile."""
        return 1.5 * 2.0**self.fraction

    def bits_of(self, value: float) -> int:
        code = "<f" if self.element == "float" else "<d"
        return int.from_bytes(struct.pack(code, value), "little")


SINGLE = Format("float", "i32", 24, 127)
DOUBLE = Format("double", "i64", 53, 1023)


@dataclass(frozen=True, slots=True)
class Target:
    """What the processor can do: `fma` that LLVM compiles to an instruction, AVX-512F, DQ and VL."""

    fma: bool
    avx512: bool = False


def format_of(dtype: DType) -> Format:
    return SINGLE if dtype == FLOAT32 else DOUBLE
