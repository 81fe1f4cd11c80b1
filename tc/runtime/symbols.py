"""The functions that machine code may call: those of `tc._native`, of C's mathematics and of C's memory."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

from tc import _native

_MEMORY = frozenset(["memset", "memcpy", "memmove", "memcmp"])
# C99, 7.12; with an f for float.
_FUNCTIONS = """
    acos asin atan atan2 cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 exp10 expm1 frexp ilogb ldexp
    log log10 log1p log2 logb modf scalbn scalbln cbrt fabs hypot pow sqrt erf erfc lgamma tgamma ceil floor
    nearbyint rint lrint llrint round lround llround trunc fmod remainder remquo copysign nextafter fdim fmax
    fmin fma j0 j1 jn y0 y1 yn
"""
_MATH = frozenset(_FUNCTIONS.split())
_LIBM = {"linux": "libm.so.6", "darwin": "libSystem.dylib"}


def importable(name: str) -> bool:
    """Whether machine code may call this function."""
    return name in _native.symbols() or name in _MEMORY or name.removesuffix("f") in _MATH or name in _MATH


@cache
def _libm() -> ctypes.CDLL:
    return ctypes.CDLL(_LIBM.get(sys.platform, "libm.so.6"))


def address(name: str) -> int:
    """The address of a function; 0 for one that may not be called, or is not here."""
    found = _native.symbols().get(name)
    if found is None and importable(name):
        function = getattr(ctypes.CDLL(None) if name in _MEMORY else _libm(), name, None)
        found = ctypes.cast(function, ctypes.c_void_p).value if function is not None else None
    return found or 0
