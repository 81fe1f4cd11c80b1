"""Functions of a few instructions."""

from __future__ import annotations

from tc.codegen.vector_math.builder import Body, Value
from tc.codegen.vector_math.formats import Format


def rsqrt(b: Body, f: Format, x: Value) -> Value:
    """Two correctly rounded operations: 1.5 ulp at most, and zeros and infinity as they should be."""
    return 1.0 / x.sqrt()


def fdim(b: Body, f: Format, x: Value, y: Value) -> Value:
    return x.le(y).select(0.0, x - y)


def minimum(b: Body, f: Format, x: Value, y: Value) -> Value:
    """A NaN wins, zeros are equal: `minps`, which gives y beside a NaN, and a blend.  `llvm.minimum` takes
    twice as many instructions to tell zeros apart."""
    return x.is_nan().select(x, x.lt(y).select(x, y))


def maximum(b: Body, f: Format, x: Value, y: Value) -> Value:
    return x.is_nan().select(x, x.gt(y).select(x, y))
