"""Element types and the arithmetic rules between them (docs/language.md, "Types and numerics")."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Literal

Kind = Literal["bool", "int", "uint", "float", "bfloat", "complex"]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type; instances are the module's constants, compared by value."""

    name: str
    kind: Kind
    bits: int

    @property
    def is_float(self) -> bool:
        return self.kind in ("float", "bfloat")

    @property
    def is_int(self) -> bool:
        """Signed or unsigned integer; bool is neither."""
        return self.kind in ("int", "uint")

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_signed(self) -> bool:
        return self.kind == "int"

    @property
    def is_complex(self) -> bool:
        """A pair of two floating numbers; `is_float` is false of it."""
        return self.kind == "complex"

    @property
    def is_inexact(self) -> bool:
        """Floating or complex."""
        return self.is_float or self.is_complex

    @property
    def part(self) -> DType:
        """The type of the real and the imaginary part; of other types the type itself."""
        return FLOAT32 if self.is_complex and self.bits == 64 else FLOAT64 if self.is_complex else self

    @property
    def is_half(self) -> bool:
        """A 16-bit floating type, which computes and accumulates in float32."""
        return self.is_float and self.bits == 16

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return (self.bits + 7) // 8

    @property
    def min(self) -> int | float:
        """The least value: minus infinity for floating types."""
        if self.is_float:
            return float("-inf")
        return -(1 << (self.bits - 1)) if self.is_signed else 0

    @property
    def max(self) -> int | float:
        """The greatest value: infinity for floating types."""
        if self.is_float:
            return float("inf")
        if self.is_bool:
            return 1
        return (1 << (self.bits - 1 if self.is_signed else self.bits)) - 1

    def literal(self, value: int | float) -> float:
        """A double that rounds to this floating type as the number does; of a half also by way of float32.

        Where it is not exact, nearest might be halfway between two numbers of the type though the number is
        not: then it is the odd neighbour (Boldo and Melquiond, 2008).
        """
        wide = float(value)
        if self.bits == 64 or not math.isfinite(wide):
            return wide
        if int(wide) != value and isinstance(value, int):
            wide = _odd("d", "q", wide, abs(int(wide)) > abs(value))
        if self.is_half and abs(wide) < 2.0**127:
            (single,) = struct.unpack("<f", struct.pack("<f", wide))
            (bits,) = struct.unpack("<i", struct.pack("<f", single))
            if single != wide and bits & 0xFFF == 0:  # a tie of a half has that many zeros
                return _odd("f", "i", single, abs(single) > abs(wide))
        return wide

    def wrap(self, value: int) -> int:
        """An integer reduced to this integer type, two's complement."""
        value &= (1 << self.bits) - 1
        return value - (1 << self.bits) if self.is_signed and value >> (self.bits - 1) else value

    def __str__(self) -> str:
        return self.name


BOOL = DType("bool", "bool", 1)
INT8, INT16, INT32, INT64 = (DType(f"int{b}", "int", b) for b in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (DType(f"uint{b}", "uint", b) for b in (8, 16, 32, 64))
FLOAT16, FLOAT32, FLOAT64 = (DType(f"float{b}", "float", b) for b in (16, 32, 64))
BFLOAT16 = DType("bfloat16", "bfloat", 16)

COMPLEX64, COMPLEX128 = DType("complex64", "complex", 64), DType("complex128", "complex", 128)

# The real types, which is what machines compute with.
ALL = (
    BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64,
)  # fmt: skip
BY_NAME = {t.name: t for t in (*ALL, COMPLEX64, COMPLEX128)}

# The spellings of the language (docs/language.md, SCALAR).
SPELLINGS = BY_NAME | {
    "byte": UINT8,
    "int": INT32,
    "half": FLOAT16,
    "float": FLOAT32,
    "double": FLOAT64,
    "cfloat": COMPLEX64,
    "cdouble": COMPLEX128,
}


def _odd(real: str, whole: str, nearest: float, away: bool) -> float:
    """The odd one of the two numbers around what was rounded to `nearest`, away from zero or not."""
    (bits,) = struct.unpack(f"<{whole}", struct.pack(f"<{real}", nearest))
    return struct.unpack(f"<{real}", struct.pack(f"<{whole}", bits - away | 1))[0]


def promote(a: DType, b: DType) -> DType:
    """The type of `a op b`.

    Integers: the wider width, signed if either is, never promoted to int.  An integer with a float
    takes that float.  float16 with bfloat16 gives float32, the narrowest type that holds both.
    bool computes as int32.  A complex type with a real one is complex, of parts that hold both.
    """
    if a.is_complex or b.is_complex:
        return complex_of(promote(a.part, b.part))
    if a.is_bool and b.is_bool:
        return INT32
    if a.is_bool or b.is_bool:
        return promote(INT32, b if a.is_bool else a)
    if a.is_float or b.is_float:
        if a.is_float and b.is_float:
            if a == b:
                return a
            return FLOAT32 if a.bits == b.bits else max(a, b, key=lambda t: t.bits)
        return a if a.is_float else b
    bits = max(a.bits, b.bits)
    return BY_NAME[f"{'int' if a.is_signed or b.is_signed else 'uint'}{bits}"]


def complex_of(real: DType) -> DType:
    """The complex type whose parts hold a real type: complex128 for float64, else complex64."""
    return COMPLEX128 if real == FLOAT64 else COMPLEX64


def fits_without_cast(source: DType, target: DType) -> bool:
    """Whether a value of `source` may be stored as `target` without a written cast (never narrowing)."""
    if source == target:
        return True
    if target.is_complex:
        return source.part == target.part or fits_without_cast(source.part, target.part)
    if source.is_complex:
        return False
    if target.is_bool or source.is_bool:
        return source.is_bool
    if source.is_float:
        return target.is_float and target.bits > source.bits
    if target.is_float:
        return True
    if source.is_signed:
        return target.is_signed and target.bits >= source.bits
    return target.bits > source.bits or (not target.is_signed and target.bits >= source.bits)


def accumulator(buffer: DType, value: DType) -> DType:
    """The type in which an update `buffer op= value` is computed: never 16-bit floating."""
    wide = FLOAT32 if buffer.is_half else buffer
    if value == wide or value.is_half or value.is_bool:
        return wide
    return value
