"""Strength reduction of divisions: `s += a(k) / c` sums `a(k)`, and divides the sum by `c` once.

A division takes as long as eight or more multiply-adds, and a sum of quotients cannot be computed as a sum of
products.  The language permits this rewrite as it permits another order of a sum: the sum is rounded once by
the division, where each term was before.  After the rewrite `y(d) += x(k) / (d+1) where k <= d` is a prefix
reduction.

A sum that has no instances under its conditions is 0.  Its quotient is 0, too, only if the divisor is neither
0 nor NaN; so under conditions the divisor must be known to be positive.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tc.dtypes import accumulator
from tc.ir.expr import Add, Cast, Expr, FloatImm, IntImm, Mul, Variable, constant, variables
from tc.ir.program import Program, Stage, fresh
from tc.transforms.program.product_terms import Product, without_terms
from tc.transforms.program.reductions import loop_invariant, neutral_start

_LARGEST = (1 << 31) - 1
_LEAST = 4  # instances of a sum, at least, for which a pass over its results pays


def divide_after(program: Program) -> tuple[Program, tuple[str, ...]]:
    """`program` with divisions after the sums, and the tensors whose sums these are.

    Only sums that start from 0 change, whose divisors are the same in all instances of a sum, and positive if
    there are conditions.
    """
    stages: list[Stage] = []
    names = {s.name for s in program.stages}
    divided: list[str] = []
    for s in program.stages:
        found = _split(program, s)
        if found is None:
            stages.append(s)
            continue
        divided.append(program.func_buffers[s.func])
        name = fresh(f"{s.name}d", names)
        names.add(name)
        conditions = tuple(c for c in s.domain.conditions if not variables(c) & _reduced(s))
        stages += replace(s, value=found.value), found.after(s, name, conditions)
    return (replace(program, stages=tuple(stages)) if divided else program), tuple(divided)


def _split(program: Program, s: Stage) -> Product | None:
    """The terms of a sum without their divisors, and the divisors; None if none can be moved."""
    if s.op != "+" or s.scatters or s.loops or neutral_start(program, s) is None:
        return None
    func = program.func(s.func)
    t = s.value.dtype
    if not t.is_float or func.dtype != t or accumulator(func.dtype, t) != t:
        return None
    extents = [v.range.extent for v in s.domain.vars if v.kind == "reduction"]
    if not all(isinstance(e, IntImm) for e in extents):
        return None
    if math.prod(e.value for e in extents if isinstance(e, IntImm)) < _LEAST:
        return None
    terms = without_terms(s.value, loop_invariant(program, s))
    if s.domain.conditions and not all(_is_positive(d, s) for d in terms.divisors):
        return None
    return terms if terms.divisors and variables(terms.value) & _reduced(s) else None


def _reduced(s: Stage) -> set[str]:
    return {v.name for v in s.domain.vars if v.kind == "reduction"}


def _is_positive(e: Expr, s: Stage) -> bool:
    """Whether a divisor is an expression of indices that is greater than 0 for all of them, and that 32 bits
    hold."""
    bounds = _bounds(e, s)
    return bounds is not None and bounds[0] > 0 and bounds[1] <= _LARGEST


def _bounds(e: Expr, s: Stage) -> tuple[float, float] | None:
    """The range of an expression of indices and nonnegative numbers; None for other expressions."""
    match e:
        case IntImm() | FloatImm() if e.value >= 0:
            return e.value, e.value
        case Variable():
            found = [v.range for v in s.domain.vars if v.name == e.name]
            low, extent = (constant(x) for x in (found[0].min, found[0].extent)) if found else (None, None)
            return None if low is None or extent is None or low < 0 else (low, low + max(extent, 1) - 1)
        case Cast() if not e.dtype.is_bool and e.dtype.bits >= 32:
            return _bounds(e.value, s)
        case Add() | Mul():
            a, b = _bounds(e.a, s), _bounds(e.b, s)
            if a is None or b is None:
                return None
            low, high = (a[i] + b[i] if isinstance(e, Add) else a[i] * b[i] for i in (0, 1))
            return None if high > _LARGEST else (low, high)
        case _:
            return None
