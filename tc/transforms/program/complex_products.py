"""Sums of products of complex numbers as sums of products of real numbers that are neighbours in memory.

Where neighbouring results use neighbours in one factor, as in `C(m,n) += A(m,k) * B(k,n)`, the products with
each part q of the other factor are computed first, and then combined:

    E(m,q,n) += part q of A(m,k) * B(k,n)        C(m,n) += E(m,0,n) + j E(m,1,n)

The first statement scales both parts alike, so it is a product of real matrices, of A with two rows for each
of its rows and B with two columns for each of its columns.  It takes as many operations as products of
complex numbers do.

Where neighbours in both factors are summed, as in `y(m) += A(m,k) * x(k)`, a copy of one factor holds the
real numbers that each part of a result needs:

    y(m,p) += A(m,k,q) * x'(p,k,q)               x'(0,k,q) = real x(k), -imag x(k)
                                                 x'(1,k,q) = imag x(k), real x(k)

This pays where each element of the copy is used many times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tc.dtypes import DType
from tc.ir import expr as x
from tc.ir.expr import Expr
from tc.ir.program import Box, Buffer, Domain, IterVar, Program, Range, Stage
from tc.transforms.program.complex_values import Values, has_complex, negative

PAIR = Range(x.ZERO, x.IntImm(2))
_USES = 8  # uses of an element of a copy, or products for a result, at least
_UNKNOWN = 64  # taken for an extent that is not known yet


@dataclass(frozen=True, slots=True)
class Factors:
    """The factors of a sum of products: `first` is split into its parts, both parts of `second` are read
    together.

    `conjugates` tells for each whether the factor is its conjugate; `scale` are factors that are the same for
    all instances.  `columns`: neighbouring results use neighbours in `second`; otherwise neighbours in both
    factors are summed.
    """

    first: x.Call
    second: x.Call
    conjugates: tuple[bool, bool]
    scale: tuple[Expr, ...]
    columns: bool


def factors(program: Program, s: Stage) -> Factors | None:
    """The factors of a sum of products, where one of the two forms pays."""
    reductions = any(v.kind == "reduction" for v in s.domain.vars)
    if s.op != "+" or s.loops or s.scatters or s.domain.conditions or not reductions or not s.args:
        return None
    own = set(s.domain.names)
    reads: list[tuple[x.Call, bool]] = []
    scale: list[Expr] = []
    for f in _flat(s.value):
        read = f.args[0] if isinstance(f, x.Call) and f.name == "conj" else f
        if isinstance(read, x.Call) and read.kind != "intrinsic" and not _special(read):
            reads.append((read, read is not f))
        elif x.variables(f).isdisjoint(own) and not any(map(_reads, x.walk(f))):
            scale.append(f)
        else:
            return None
    if len(reads) != 2 or not all(isinstance(a, x.Variable) for a in s.args):
        return None
    boxes = {b.name: b.box for b in program.buffers}
    buffer_of = program.func_buffers
    ranges = {v.name: v.range for v in s.domain.vars}
    target = boxes[buffer_of[s.func]]
    whole = tuple(ranges[a.name] for a in s.args if isinstance(a, x.Variable)) == target
    for (first, of_first), (second, of_second) in (reads, reads[::-1]):
        found = Factors(first, second, (of_first, of_second), tuple(scale), True)
        if whole and _are_columns(s, first, second) and _uses(s, target) >= _USES:
            return found
        box = boxes[buffer_of.get(second.name, second.name)]
        if _are_rows(s, first, second) and _uses(s, box) >= _USES:
            return replace(found, columns=False)
    return None


def _flat(e: Expr) -> list[Expr]:
    return [*_flat(e.a), *_flat(e.b)] if isinstance(e, x.Mul) else [e]


def _reads(e: Expr) -> bool:
    return isinstance(e, x.Call) and e.kind != "intrinsic"


def _special(e: x.Call) -> bool:
    """Whether a read is checked, of a single number, of a real tensor, or addressed by complex numbers."""
    return bool(e.checked) or not e.args or not e.dtype.is_complex or any(map(has_complex, e.args))


def _are_columns(s: Stage, first: x.Call, second: x.Call) -> bool:
    """Whether neighbouring results use neighbours in the second factor, and one element of the first."""
    (result,) = x.variables(s.args[-1])
    elsewhere = {n for a in (*first.args, *second.args[:-1]) for n in x.variables(a)}
    return result in x.variables(second.args[-1]) and result not in elsewhere


def _are_rows(s: Stage, first: x.Call, second: x.Call) -> bool:
    """Whether neighbours in both factors are summed."""
    pure = {v.name for v in s.domain.vars if v.kind == "pure"}
    last = [x.variables(f.args[-1]) for f in (first, second)]
    return bool(last[0] & last[1]) and all(n.isdisjoint(pure) for n in last)


def _uses(s: Stage, box: Box) -> float:
    """The approximate number of instances for each element of a tensor."""
    instances = math.prod(_extent(v.range) for v in s.domain.vars)
    return instances / max(1, math.prod(map(_extent, box)))


def _extent(r: Range) -> int:
    n = x.constant(r.extent)
    return _UNKNOWN if n is None else int(n)


def by_columns(s: Stage, found: Factors, target: Box, name: str, of: str) -> tuple[Box, tuple[Stage, ...]]:
    """The box of the temporary of complex numbers `name`, and the statements that sum up into it and combine
    its two parts; `of` is the variable for the parts of the first factor."""
    dtype = s.value.dtype
    pure = tuple(v for v in s.domain.vars if v.kind == "pure")
    rest = tuple(v for v in s.domain.vars if v.kind != "pure")
    own = IterVar(of, PAIR, "pure")

    def placed(q: Expr) -> tuple[Expr, ...]:
        return (*s.args[:-1], q, s.args[-1])

    def sums(q: int) -> Expr:
        read: Expr = x.Call(name, placed(x.IntImm(q)), dtype, "func")
        return x.Call("conj", (read,), dtype, "intrinsic") if found.conjugates[1] else read

    q = x.Variable(of)
    part: Expr = replace(found.first, args=(*found.first.args, q), dtype=dtype.part)
    start = replace(
        s,
        func=name,
        args=placed(q),
        op=None,
        value=x.imm(0, dtype),
        domain=Domain((*pure, own)),
        text=f"{s.text}  # sums start from 0",
        init=True,
    )
    add = replace(
        s,
        func=name,
        args=placed(q),
        value=x.Mul(x.Cast(dtype, part), found.second),
        domain=Domain((*pure, own, *rest)),
    )
    unit = x.Call("imaginary", (x.imm(-1 if found.conjugates[0] else 1, dtype.part),), dtype, "intrinsic")
    value: Expr = x.Add(sums(0), x.Mul(unit, sums(1)))
    for f in found.scale:
        value = x.Mul(f, value)
    return (*target[:-1], PAIR, target[-1]), (start, add, replace(s, value=value, domain=Domain(pure)))


@dataclass(frozen=True, slots=True)
class Copied:
    """The copy of a factor, and the statements, of real numbers, that make it and compute the sum."""

    buffer: Buffer
    stages: tuple[Stage, ...]


def by_rows(
    s: Stage, found: Factors, box: Box, name: str, part: str, of: str, values: Callable[[], Values]
) -> Copied:
    """The copy of the second factor under a name, and the sum; `part` and `of` are the variables for the
    parts of results and of factors, `values` makes what rewrites expressions."""
    dtype: DType = s.value.dtype
    axes = tuple(IterVar(f"{name}_{d}", r, "pure") for d, r in enumerate(box))
    at = tuple(x.Variable(v.name) for v in axes)
    value: Expr = replace(found.second, args=at)
    if found.conjugates[1]:
        value = x.Call("conj", (value,), dtype, "intrinsic")
    for f in found.scale:
        value = x.Mul(f, value)
    rewriting = values()
    re, im = rewriting.pair(value).both(dtype.part)
    turned = (im, negative(re)) if found.conjugates[0] else (negative(im), re)
    p, q = x.Variable(part), x.Variable(of)

    def placed(args: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (*args[:-1], p, args[-1], q)

    stages: list[Stage] = []
    for k, parts in enumerate(((re, im), turned)):
        for result, e in enumerate(parts):
            of_result, of_factor = (Range(x.IntImm(n), x.ONE) for n in (result, k))
            own = IterVar(part, of_result, "pure"), IterVar(of, of_factor, "pure")
            domain = Domain((*axes[:-1], own[0], axes[-1], own[1]))
            text = f"{name} = the parts of {found.second.name} as those of products need them"
            stages.append(
                Stage("", name, placed(at), None, rewriting.wrapped(e), domain, text, False, s.span)
            )
    first = replace(found.first, args=(*found.first.args, q), dtype=dtype.part)
    second = x.Call(name, placed(found.second.args), dtype.part, "func")
    pure = tuple(v for v in s.domain.vars if v.kind == "pure")
    rest = tuple(v for v in s.domain.vars if v.kind != "pure")
    domain = Domain((*pure, IterVar(part, PAIR, "pure"), *rest, IterVar(of, PAIR, "reduction")))
    stages.append(replace(s, args=(*s.args, p), value=x.Mul(first, second), domain=domain))
    buffer = Buffer(name, dtype.part, (*box[:-1], PAIR, box[-1], PAIR), "temporary", pairs=True)
    return Copied(buffer, tuple(stages))
