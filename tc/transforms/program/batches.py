"""Batches of products: temporaries have the variables that count the products of a batch first.

    m(n,f,i,j,a,b) += u(f,c,a,b) * v(n,c,i,j,a,b)   →   m(a,b,n,f,i,j) += u(a,b,f,c) * v(a,b,n,c,i,j)

Variables that index both factors and the result count products of matrices, one for each of their values.
Where they come last, vectors go along them, and no element of a factor is used for two lanes: each
multiply-add loads both of its factors.  Where they come first, each product keeps elements in registers, and
uses them for many results.  The layout of a temporary is free.  (Springer and Bientinesi, "Design of a
High-Performance GEMM-like Tensor-Tensor Multiplication", 2018, order the dimensions of a contraction by the
same kinds of variables.)

What is computed of these products follows: where rows of a few elements would come last, as q in
`t(n,f,i,j,p,q) += d(p,a) * m(a,b,n,f,i,j) * d(q,b)`, the variables of the product do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping

from tc.ir.evaluate import evaluate
from tc.ir.expr import Call, Cast, Mul, Variable
from tc.ir.program import Program, Stage
from tc.transforms.program.layout import Order, permuted

# Rows and columns of a product, from which it is worth another layout: with as many, each element of a
# factor saves more loads than the change of its place takes.  Rows with fewer elements are short.
_LEAST = 16


def products_first(program: Program, typical: Mapping[str, int]) -> tuple[Program, tuple[str, ...]]:
    """The program with the batches of its products first, and the names of the temporaries of which the
    dimensions have another order.  The decision is made at `typical` values of dynamic sizes."""
    orders: dict[str, Order] = {}
    for s in sorted(program.stages, key=lambda s: -_points(s, s.domain.names, typical)):
        found = _orders(program, s, typical)
        if all(orders.get(name, order) == order for name, order in found.items()):
            orders |= found
    for s in program.stages if orders else ():
        orders |= _following(program, s, orders, typical)
    return (permuted(program, orders), tuple(orders)) if orders else (program, ())


def _orders(program: Program, s: Stage, typical: Mapping[str, int]) -> dict[str, Order]:
    """The order of the dimensions of each temporary that puts the batch of a product first; none if the
    stage is no product with a batch, or has it first, or if another layout is not worth it."""
    factors = _factors(s)
    args = [s.args, *(e.args for e in factors)]
    result, *of = ([a.name for a in x if isinstance(a, Variable)] for x in args)
    if len(of) != 2 or any(len(x) != len({*n}) for x, n in zip(args, (result, *of), strict=True)):
        return {}
    batch = [v for v in result if v in of[0] and v in of[1]]
    if not batch or result[-1] not in batch:
        return {}
    for names, others in (of, reversed(of)):
        if _points(s, [v for v in result if v in names and v not in others], typical) < _LEAST:
            return {}
    along = next(v for v in reversed(result) if v not in batch)  # vectors will go along it
    orders: dict[str, Order] = {}
    for name, names, needed in (
        (s.func, result, True),
        *((e.name, n, along in n) for e, n in zip(factors, of, strict=True)),
    ):
        buffer = program.buffer(program.func_buffers.get(name, name))
        if buffer.role == "temporary":
            orders[buffer.name] = tuple(sorted(range(len(names)), key=lambda d, n=names: n[d] not in batch))
        elif needed:
            return {}
    return orders


def _following(
    program: Program, s: Stage, orders: Mapping[str, Order], typical: Mapping[str, int]
) -> dict[str, Order]:
    """The order of a temporary that a stage computes of one with another order: the variables of both are
    the last, as there, if the rows would be short otherwise."""
    buffer = program.buffer(program.func_buffers[s.func])
    names = [a.name for a in s.args if isinstance(a, Variable)]
    if buffer.role != "temporary" or buffer.name in orders or len(names) != len(s.args):
        return {}
    for e in s.calls:
        order = orders.get(program.func_buffers.get(e.name, e.name))
        read = [e.args[d] for d in order] if order else []
        last = [a.name for a in read if isinstance(a, Variable) and a.name in names]
        if last and names[-1] not in last:
            short = list(itertools.takewhile(lambda v, last=last: v not in last, reversed(names)))
            if _points(s, short, typical) < _LEAST:
                first = [v for v in names if v not in last]
                return {buffer.name: tuple(map(names.index, (*first, *last)))}
    return {}


def _factors(s: Stage) -> list[Call]:
    """The two elements of which a stage sums products; none if it is another stage."""
    if s.op != "+" or s.scatters or s.domain.conditions or not isinstance(s.value, Mul):
        return []
    factors = [e.value if isinstance(e, Cast) else e for e in (s.value.a, s.value.b)]
    return [e for e in factors if isinstance(e, Call) and e.kind != "intrinsic" and not e.checked]


def _points(s: Stage, names: Collection[str], typical: Mapping[str, int]) -> int:
    return math.prod(evaluate(v.range.extent, typical) for v in s.domain.vars if v.name in names)
