"""Numbers as scalar arguments: integers become floats, and both complex, where asked, never the other way."""

from __future__ import annotations

import operator
import struct
from typing import Any, cast

import numpy as np

from tc import _native
from tc.dtypes import BFLOAT16, DType
from tc.errors import ArgumentError, Span
from tc.runtime.arrays import dlpack_type, is_zero_dimensional, view

Number = bool | int | float | complex

_FORMATS = {"float16": "e", "float32": "f", "float64": "d"}


def convert(value: object, dtype: DType, name: str, span: Span | None = None) -> Number:
    """The number that a kernel sees for an argument: in range for integers, rounded for floats.

    Accepts Python and NumPy scalars and arrays without dimensions.  ArgumentError TC0510 for anything else, a
    float for an integer, and what does not fit.
    """
    number = _number(value, dtype, name, span)
    if dtype.is_complex:
        return _complex(number, dtype, name, span)
    if isinstance(number, complex):
        raise _error(f"{name} is {dtype}, and {number!r} is complex", f"{name}.real, or abs({name})", span)
    if isinstance(number, bool):
        return number if dtype.is_bool else float(number) if dtype.is_float else int(number)
    if dtype.is_bool:
        raise _error(f"{name} is a bool, and {number!r} is a number", f"bool({name})", span)
    if isinstance(number, float) and dtype.is_int:
        raise _error(
            f"{name} is {dtype}, and {number!r} would have to be rounded",
            f"int({name}), or round({name})",
            span,
        )
    try:
        return _unpack(dtype, pack(dtype, number))
    except ValueError:
        help = f"{dtype} holds {dtype.min} to {dtype.max}" if dtype.is_int else f"the largest {dtype} is less"
        shown = f"{number}" if -(10**40) < number < 10**40 else "the number"
        raise _error(f"{name}: {shown} does not fit {dtype}", help, span) from None


def pack(dtype: DType, value: Number) -> bytes:
    """The bytes of an element, rounded to nearest even; ValueError if the value does not fit."""
    return _native.pack(value, *dlpack_type(dtype))


def buffer(dtype: DType, value: Number) -> np.ndarray[Any, np.dtype[Any]]:
    """Memory that holds the value, for a kernel's argument list."""
    return np.frombuffer(pack(dtype, value).ljust(8, b"\0"), np.uint64).copy()


def _complex(number: Number, dtype: DType, name: str, span: Span | None) -> complex:
    parts = (number.real, number.imag) if isinstance(number, complex) else (number, 0)
    real, imaginary = (convert(x, dtype.part, name, span) for x in parts)
    return complex(cast("float", real), cast("float", imaginary))


def _unpack(dtype: DType, raw: bytes) -> Number:
    if dtype.is_int:
        return int.from_bytes(raw, "little" if struct.pack("=H", 1)[0] else "big", signed=dtype.is_signed)
    if dtype == BFLOAT16:
        (pattern,) = struct.unpack("=H", raw)
        return struct.unpack("=f", struct.pack("=I", pattern << 16))[0]
    return struct.unpack("=" + _FORMATS[dtype.name], raw)[0]


def _number(value: object, dtype: DType, name: str, span: Span | None) -> Number:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, complex):
        return complex(value)
    if isinstance(value, np.generic) or is_zero_dimensional(value):
        return cast("Number", _element(cast("object", value), name, span))
    shape = getattr(value, "shape", None)
    if shape is not None:
        raise _error(
            f"{name} is a scalar, got an array of shape {tuple(shape)}",
            f"{name}.item(), if it has one element",
            span,
        )
    try:
        return operator.index(cast("Any", value))
    except TypeError:
        kind = type(value).__name__
        raise _error(
            f"{name} is a scalar of type {dtype}, got {kind}", f"pass a number, such as float({name})", span
        ) from None


def _element(value: object, name: str, span: Span | None) -> object:
    array = view(value, name, span)
    if array.dtype == BFLOAT16:
        return _unpack(BFLOAT16, array.array.view(np.uint16).tobytes())
    return array.array[()].item()


def _error(message: str, help: str, span: Span | None) -> ArgumentError:
    return ArgumentError(message, span, code="TC0510", help=help)
