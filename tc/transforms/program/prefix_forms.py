"""Recognition of prefix reductions: `y(d) op= e(k) where k <= d`, or over a suffix, with any affine bound.

The combined values do not depend on the variables of the bound, so results share them: a longer prefix
contains all values of a shorter one.
"""

from __future__ import annotations

from dataclasses import dataclass

from tc.ir.expr import GE, GT, LE, LT, Call, Expr, FloorDiv, IntImm, Sub, Variable, constant, variables, walk
from tc.ir.program import IterVar, Program, Range, Stage
from tc.ir.simplify import from_terms, linear_terms, simplify
from tc.transforms.program.reductions import reads_others


@dataclass(frozen=True, slots=True)
class Prefix:
    """A reduction over the points of `var` up to `bound` inclusive, or from `bound` on (`suffix`).

    `along` are the pure variables of the bound, `inner` the other variables of the reduction.  The conditions
    `of_values` restrict the combined values, those `of_results` the results.
    """

    var: IterVar
    bound: Expr
    suffix: bool
    along: frozenset[str]
    inner: tuple[IterVar, ...]
    of_values: tuple[Expr, ...]
    of_results: tuple[Expr, ...]

    @property
    def offset(self) -> int | None:
        """The constant by which the bound exceeds its only variable; None if it has another form."""
        terms, offset = linear_terms(self.bound)
        only = len(self.along) == 1 and terms == {Variable(next(iter(self.along))): 1}
        return offset if only else None


def each_is_a_point(prefix: Prefix, results: Range) -> bool:
    """Whether each place of a result is a point of the reduction, which then has a value of its own."""
    points = prefix.var.range
    inside = (Sub(results.min, points.min), Sub(points.end, results.end))
    found = [constant(simplify(e, exact=True)) for e in inside]
    return all(n is not None and n >= 0 for n in found)


def prefix_of(program: Program, stage: Stage) -> Prefix | None:
    """A stage as a prefix reduction; None if it is none."""
    if stage.op is None or stage.scatters or not stage.domain.conditions:
        return None
    if not reads_others(program, stage, stage.value):
        return None
    found = (_along(stage, v) for v in stage.domain.vars if v.kind == "reduction")
    return next((p for p in found if p is not None), None)


def _along(stage: Stage, var: IterVar) -> Prefix | None:
    """A stage as a prefix reduction over one of its variables."""
    domain = stage.domain
    pure = {v.name for v in domain.vars if v.kind == "pure"}
    inner = tuple(v for v in domain.vars if v.kind == "reduction" and v is not var)
    linking = [c for c in domain.conditions if var.name in variables(c) and variables(c) & pure]
    solved = _solved(linking[0], var.name) if len(linking) == 1 else None
    if solved is None:
        return None
    bound, suffix = solved
    along = frozenset(variables(bound) & pure)
    reductions = {var.name, *(v.name for v in inner)}
    if variables(bound) & reductions or variables(stage.value) & along:
        return None
    rest = [c for c in domain.conditions if c is not linking[0]]
    of_values = tuple(c for c in rest if variables(c) & reductions)
    if any(variables(c) & along for c in of_values):
        return None
    of_results = tuple(c for c in rest if not variables(c) & reductions)
    return Prefix(var, bound, suffix, along, inner, of_values, of_results)


def _solved(condition: Expr, name: str) -> tuple[Expr, bool] | None:
    """The last point of a variable at which a condition holds, or the first one (true); None if the condition
    is not affine in the variable."""
    match condition:
        case LE() | LT():
            difference = Sub(condition.a, condition.b)
        case GE() | GT():
            difference = Sub(condition.b, condition.a)
        case _:
            return None
    terms, offset = linear_terms(difference)
    offset += isinstance(condition, LT | GT)
    factor = terms.pop(Variable(name), 0)
    if not factor or any(name in variables(t) for t in terms):
        return None
    if any(isinstance(e, Call) for t in terms for e in walk(t)):
        return None
    if factor > 0:  # factor * name <= -rest
        rest = from_terms({t: -c for t, c in terms.items()}, -offset)
    else:  # |factor| * name >= rest
        rest = from_terms(terms, offset - factor - 1)
    return simplify(FloorDiv(rest, IntImm(abs(factor))), exact=True), factor < 0
