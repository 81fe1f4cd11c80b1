"""Constant subscripts of arrays in registers: compilers put arrays with other subscripts into local memory.

Where conditions leave a thread one of its points (`where k == i`, a band of a matrix), isl computes which
one, without a loop over all of them.  Registers cannot be indexed: then each element is tested for being that
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tc.ir.expr import EQ, Expr, IntImm, Load, rebuild, variables, walk
from tc.ir.loops import Array, Block, Compute, For, If, Stmt

_MOST = 8  # elements of a dimension, at most, that are all tested


def selected(body: Stmt, arrays: Sequence[Array]) -> Stmt:
    """The body of a launch with constant subscripts of registers; `arrays` are its own arrays."""
    registers = {a.name: a.shape for a in arrays if a.role == "register"}

    def visit(s: Stmt, fixed: frozenset[str]) -> Stmt:
        match s:
            case Block():
                return replace(s, body=tuple(visit(c, fixed) for c in s.body))
            case For():
                constant = isinstance(s.lower, IntImm) and isinstance(s.upper, IntImm)
                return replace(s, body=visit(s.body, fixed | {s.var} if constant else fixed))
            case If():
                other = None if s.otherwise is None else visit(s.otherwise, fixed)
                return replace(s, then=visit(s.then, fixed), otherwise=other)
            case Compute():
                return _each(s, dict(_varying(s, registers, fixed)), registers)
            case _:
                return s

    return visit(body, frozenset())


Shapes = Mapping[str, tuple[Expr, ...]]


def _varying(s: Compute, registers: Shapes, fixed: frozenset[str]) -> Iterator[tuple[Expr, int]]:
    """The subscripts of registers that are not constant in unrolled loops, with the extents of their
    dimension."""
    places = [(s.buffer, s.subscripts)]
    places += [(e.buffer, e.subscripts) for e in walk(s.value) if isinstance(e, Load)]
    for name, subscripts in places:
        for e, n in zip(subscripts, registers.get(name, ()), strict=False):
            if not variables(e) <= fixed and isinstance(n, IntImm) and n.value <= _MOST:
                yield e, n.value


def _each(s: Compute, varying: Mapping[Expr, int], registers: Shapes) -> Stmt:
    """A copy of a statement for each element that it may access, under a test of the subscript.

    (In a loop over the elements, compilers would replace the index by the equal subscript before they
    unroll.)
    """
    if not varying:
        return s
    e, count = next(iter(varying.items()))

    def element(number: int) -> Stmt:
        def at(name: str, subscripts: tuple[Expr, ...]) -> tuple[Expr, ...]:
            return (
                tuple(IntImm(number) if x == e else x for x in subscripts)
                if name in registers
                else subscripts
            )

        def visit(x: Expr) -> Expr:
            x = replace(x, subscripts=at(x.buffer, x.subscripts)) if isinstance(x, Load) else x
            return rebuild(x, visit)

        one = replace(s, subscripts=at(s.buffer, s.subscripts), value=visit(s.value))
        rest = {x: n for x, n in varying.items() if x != e}
        return If(EQ(e, IntImm(number)), _each(one, rest, registers))

    return Block(tuple(map(element, range(count))))
