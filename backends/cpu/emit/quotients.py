"""Exact quotients of vectors by one divisor, in half the time of a division.

With y = 1/b and q = a y, both rounded, and r = a - b q, the sum q + r y rounds to the quotient (Markstein,
"Computation of elementary functions on the IBM RISC System/6000 processor", 1990), if q is one of its two
neighbours and nothing overflows or is subnormal.  A product with a rounded reciprocal may be one neighbour
further off: for float64 one more step comes first.  For float32 it need not: the sum is off by at most 2.5 x
2^-48 before it is rounded, for a and b from 1 to 2, and all of the 46,517,418 quotients that are within 8/b x
2^-48 of a rounding boundary are right (they are the solutions of a linear congruence for each b).

The exponents of a and b say whether this holds; if it does not for some lane, all lanes are divided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tc.codegen.llvm_expr import PREDICATES, llvm_type
from tc.dtypes import FLOAT32, FLOAT64, UINT32, UINT64
from tc.ir.expr import EQ, LT

from ..isa import Isa
from .values import LIKELY, Value, ValueEmitter, type_text

_BELOW, _EQUAL = PREDICATES[LT], PREDICATES[EQ]


@dataclass(frozen=True, slots=True)
class _Format:
    """A floating format: the bits of its exponent; the largest magnitude of the exponents of dividends and of
    divisors for which the method is exact; its correction steps."""

    exponent: int
    dividends: int
    divisors: int
    steps: int


# Quotients and remainders are normal, or multiples of the least number: 100 + 24 + 1 < 127, 100 + 47 < 149;
# 900 + 100 + 1 < 1023, 900 + 105 < 1074.
_FORMATS = {FLOAT32: _Format(8, 100, 24, 1), FLOAT64: _Format(11, 900, 100, 2)}


def pays(isa: Isa, a: Value, b: Value) -> bool:
    """Whether a whole vector of 64 bytes is divided by a divisor that all lanes share.  Shorter vectors are
    divided as fast, and LLVM multiplies where the divisor is a power of two."""
    if a.dtype not in _FORMATS or a.lanes * a.dtype.itemsize != 64 or b.lanes or not isa.fma:
        return False
    return b.constant is None or abs(math.frexp(b.constant)[0]) != 0.5


def divide(e: ValueEmitter, a: Value, b: Value, fraction: bool) -> Value:
    """`a / b`, rounded once, as the language requires; see `pays`.  A `fraction` is from 0 to 1, or NaN."""
    t, lanes, form = a.dtype, a.lanes, _FORMATS[a.dtype]
    vector = type_text(t, lanes)
    one = e.floating(1.0, t)
    y = e.widen(Value(e.pure(f"fdiv {llvm_type(t)} {one.text}, {b.text}"), t), lanes)
    divisor = e.widen(b, lanes)
    in_range = _in_range(e, a, b, fraction)
    every = e.pure(f"icmp eq i{lanes} {e.pure(f'bitcast <{lanes} x i1> {in_range} to i{lanes}')}, -1")
    fast, slow, after = e.label("reciprocal"), e.label("divide"), e.label("quotient")
    e.do(f"br i1 {every}, label %{fast}, label %{slow}, {LIKELY}")
    e.start(fast)
    e.open()
    minus = Value(e.pure(f"fneg {vector} {divisor.text}"), t, lanes)
    q = Value(e.pure(f"fmul {vector} {a.text}, {y.text}"), t, lanes)  # never fused into a multiply-add
    for _ in range(form.steps):
        q = e.fma(e.fma(minus, q, a), y, q)
    e.close()
    e.do(f"br label %{after}")
    e.start(slow)
    hard = e.op(f"fdiv {vector} {a.text}, {divisor.text}")
    e.do(f"br label %{after}")
    e.start(after)
    return Value(e.op(f"phi {vector} [ {q.text}, %{fast} ], [ {hard}, %{slow} ]"), t, lanes)


def _in_range(e: ValueEmitter, a: Value, b: Value, fraction: bool) -> str:
    """For each lane whether both exponents are within their bounds, or the dividend is +0.

    A divisor out of range changes the bound of the comparison, which all vectors share.  For a fraction, the
    dividends that are too small lie between 0 and all others, NaN included: with the least exact number
    subtracted, as unsigned bits, 0 is adjacent to all that is in range.
    """
    t, form = a.dtype, _FORMATS[a.dtype]
    kind = {32: UINT32, 64: UINT64}[t.bits]

    def bits(v: Value) -> Value:
        text = e.pure(f"bitcast {type_text(t, v.lanes)} {v.text} to {type_text(kind, v.lanes)}")
        return Value(text, kind, v.lanes)

    def exponents(n: int) -> Value:
        return e.integer(n << (t.bits - form.exponent), kind)

    def above(v: Value, most: int) -> Value:
        """The exponent and what follows it, from the least one that is wanted on."""
        least = (1 << (form.exponent - 1)) - 1 - most
        return e.binary("-", e.binary("+", bits(v), bits(v)), exponents(least))

    good = e.compare(_BELOW, above(e.widen(b, a.lanes), form.divisors), exponents(2 * form.divisors))
    if fraction:
        least = ((1 << (form.exponent - 1)) - 1 - form.dividends) << (t.bits - 1 - form.exponent)
        limit = e.select(good, e.integer((1 << t.bits) - least + 1, kind), e.integer(0, kind))
        return e.compare(_BELOW, e.binary("-", bits(a), e.integer(least, kind)), limit).text
    limit = e.select(good, exponents(2 * form.dividends), exponents(0))
    zero = e.select(good, e.integer(0, kind), e.integer((1 << (t.bits - 1)) - 1, kind))  # else a NaN's bits
    inside = e.compare(_BELOW, above(a, form.dividends), limit)
    return e.logical("or", inside, e.compare(_EQUAL, bits(a), zero)).text
