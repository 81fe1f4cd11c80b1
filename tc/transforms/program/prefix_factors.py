"""Factors and divisors that keep a sum from being a prefix: `y(d) += x(k) * w(d) where k <= d` sums `x(k)`.

The sum is multiplied by `w(d)` behind it, where it has instances: one without instances is 0, whatever `w(d)`
is.  Integers wrap, so that the result is the same.  A sum of floating numbers is rounded once where each
product was rounded, as if it was summed in another order.  Other sums keep their factors, which cost nothing
beside the additions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tc.dtypes import DType, accumulator
from tc.ir.expr import GE, LE, Expr, IntImm, Sub, variables
from tc.ir.program import Program, Stage, fresh
from tc.ir.simplify import simplify
from tc.transforms.program.prefix_forms import Prefix, prefix_of
from tc.transforms.program.prefixes import is_long
from tc.transforms.program.product_terms import Product, without_terms
from tc.transforms.program.reductions import loop_invariant, neutral_start


@dataclass(frozen=True, slots=True)
class Split:
    """The stage of a sum without some factors and divisors, as which it is a prefix."""

    stage: Stage
    prefix: Prefix
    product: Product

    @property
    def conditions(self) -> tuple[Expr, ...]:
        """Where the sum has instances."""
        p = self.prefix
        last = simplify(Sub(p.var.range.end, IntImm(1)), exact=True)
        some = LE(p.bound, last) if p.suffix else GE(p.bound, p.var.range.min)
        return (*p.of_results, simplify(some, exact=True))

    def scaled(self, name: str) -> Stage:
        """The stage of a name that multiplies and divides the sums."""
        return self.product.after(self.stage, name, self.conditions)


def multiply_after(
    program: Program, width: Callable[[DType], int], typical: Mapping[str, int], constant: bool = False
) -> tuple[Program, tuple[str, ...]]:
    """`program` with the factors and divisors of long sums behind them, where the sums are prefixes then; and
    the tensors whose sums these are.  The arguments are those of `in_chunks`."""
    stages: list[Stage] = []
    names = {s.name for s in program.stages}
    changed: list[str] = []
    for s in program.stages:
        found = split(program, s)
        if found is None or not is_long(program, found.stage, found.prefix, width, typical, constant):
            stages.append(s)
            continue
        changed.append(program.func_buffers[s.func])
        name = fresh(f"{s.name}f", names)
        names.add(name)
        stages += found.stage, found.scaled(name)
    return (replace(program, stages=tuple(stages)) if changed else program), tuple(changed)


def split(program: Program, s: Stage) -> Split | None:
    """A sum as a prefix, if only factors and divisors keep it from being one."""
    if s.op != "+" or s.loops or prefix_of(program, s) is not None or neutral_start(program, s) is None:
        return None
    func, t = program.func(s.func), s.value.dtype
    if t.is_bool or t.is_complex or func.dtype != t or accumulator(func.dtype, t) != t:
        return None
    invariant = loop_invariant(program, s)
    pure = {v.name for v in s.domain.vars if v.kind == "pure"}

    def moves(e: Expr) -> bool:
        return invariant(e) and bool(variables(e) & pure)

    product = without_terms(s.value, divisor=moves, factor=moves)
    if not (product.factors or product.divisors) or (product.divisors and not t.is_float):
        return None
    stage = replace(s, value=product.value)
    prefix = prefix_of(program, stage)
    if prefix is None or prefix.of_values:
        return None
    inner = [v.range.extent for v in prefix.inner]
    if not all(isinstance(e, IntImm) and e.value > 0 for e in inner):
        return None
    return Split(stage, prefix, product)
