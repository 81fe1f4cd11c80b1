"""Materialization of operands: a part of a value that depends on fewer loops than its statement has is
computed once (Halide's `compute_root`, the opposite of `tc.transforms.program.inline`).

`O(n,f,y,x) +=! (inside(y+ky, x+kx) ? I(n,c,y+ky-1,x+kx-1) : 0) * K(f,c,ky,kx)` chooses the same element, or
the same zero, for every `f`, and for all `y` and `ky` with the same sum.  As a temporary over `n`, `c`,
`y+ky` and `x+kx` it is computed once, and the reduction reads plain arrays.

`y(n,c) = (x(n,c) - m(c)) * rsqrt(v(c) + eps)` takes the root of the same variance for every `n`.  A value
that depends on the row only, such as `m(n)` of a soft-max by rows, is computed once for each row in any case;
a value that depends on the column only would be computed again in every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.ir.evaluate import bytes_of, evaluate
from tc.ir.expr import (
    EQ,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Variable,
    children,
    rebuild,
    substitute,
    variables,
    walk,
    without_sites,
)
from tc.ir.program import Program, Range, Stage, fresh
from tc.transforms.program.coordinates import (
    Form,
    coordinates_of,
    domain_of,
    is_dense,
    movable,
    moved,
    points_of,
    sided,
    sum_of,
)
from tc.transforms.program.stages import tensor_names, with_stages_before, with_temporary


@dataclass(frozen=True, slots=True)
class Operand:
    """A part of the value of a stage, as a function of coordinates: variables of the stage's domain, or sums
    of several.

    It has `points` values, and the stage computes it `instances` times.
    """

    stage: Stage
    value: Expr
    coordinates: tuple[Form, ...]
    points: int
    instances: int


def materialize(
    program: Program, worth: Callable[[Program, Operand], bool], typical: Mapping[str, int]
) -> tuple[Program, tuple[str, ...]]:
    """The program with temporaries for the operands that are `worth` it, and their names.  The decision is
    made at `typical` values of dynamic sizes."""
    names: list[str] = []
    pending = list(program.stages)
    while pending:
        stage = pending.pop(0)
        if stage.init or not (stage.op or stage.args):
            continue
        chosen: dict[Expr, Operand] = {}
        _Choice(program, stage, worth, typical, chosen).visit(stage.value)
        if chosen:
            program, made, reader = _materialized(program, stage, list(chosen.values()))
            names += (s.func for s in made)
            again = [reader] if isinstance(stage.value, Let) else []  # values that use the name of an operand
            pending = [*made, *again, *pending]  # a part of an operand may have still fewer points
    return program, tuple(names)


@dataclass(frozen=True, slots=True)
class _Choice:
    """The choice of operands in a stage: `chosen` collects them by their values."""

    program: Program
    stage: Stage
    worth: Callable[[Program, Operand], bool]
    typical: Mapping[str, int]
    chosen: dict[Expr, Operand]

    def visit(self, e: Expr, named: frozenset[str] = frozenset()) -> None:
        """Choose the largest parts of a value that are worth it, among those that are evaluated
        unconditionally and contain none of the `named` values.  The value of a `Let` is always evaluated."""
        if isinstance(e, Call) and e.kind != "intrinsic":
            return
        if isinstance(e, Let):
            self.visit(e.value, named)
            self.visit(e.body, named | {e.name})
            return
        free = not named or variables(e).isdisjoint(named)
        found = _operand(self.program, self.stage, e, self.typical) if free else None
        if found is not None and self.worth(self.program, found):
            self.chosen[without_sites(found.value)] = found
        elif not isinstance(e, IfThenElse):
            for part in children(e):
                self.visit(part, named)


def _operand(program: Program, stage: Stage, e: Expr, typical: Mapping[str, int]) -> Operand | None:
    """A part of a value as an operand; None if it must or should not be stored.

    These are not stored: a plain read, or one that only becomes a wider integer (products of integers take it
    directly); a value that reads the results, or is addressed by data; a value with no fewer points than
    instances; one that takes more memory than the caller's arrays; and, under conditions, which may exclude
    all points, a value that may not exist at some of the points that they exclude.
    """
    while isinstance(e, Cast) and e.dtype.is_int and e.value.dtype.is_int:
        e = e.value
    if isinstance(e, Call | Variable) and not (isinstance(e, Call) and e.kind == "intrinsic"):
        return None
    names = variables(e) & set(stage.domain.names)
    if not names or e.dtype.is_bool or not _exact(e) or not movable(program, stage, e):
        return None
    conditions = stage.domain.conditions
    if any(isinstance(c, EQ) for c in conditions) or (conditions and not _everywhere(program, stage, e)):
        return None
    coordinates = coordinates_of(stage, e)
    if stage.op is None and names.isdisjoint(variables(stage.args[-1])):
        return None  # a value of the whole row
    ranges = {v.name: v.range for v in stage.domain.vars}
    alone = {form[0][0] for form in coordinates if len(form) == 1}
    for name, r in ranges.items():
        # A loop of dynamic length may have no iterations.
        if not isinstance(r.extent, IntImm) and name not in alone:
            return None
    extents = {n: max(0, evaluate(r.extent, typical)) for n, r in ranges.items()}
    points = points_of(coordinates, extents)
    # A comparison holds at about half of the points, as that of a triangle does.
    instances = math.prod(extents.values()) >> len(conditions)
    if not instances or points >= instances or not all(is_dense(form, extents) for form in coordinates):
        return None
    if points * e.dtype.itemsize > sum(
        bytes_of(b, typical) for b in program.buffers if b.role != "temporary"
    ):
        return None
    return Operand(stage, e, coordinates, points, instances)


def _everywhere(program: Program, stage: Stage, e: Expr) -> bool:
    """Whether a value exists at all points of the ranges of a stage's variables, whatever its conditions: a
    number that is computed of elements of inputs at these variables alone, which the inputs have."""
    boxes = {b.name: b.box for b in program.buffers if b.role == "input"}
    ranges = {v.name: v.range for v in stage.domain.vars}

    def has(box: Range, subscript: Expr) -> bool:
        return isinstance(subscript, Variable) and ranges.get(subscript.name) == box

    for x in walk(e):
        if isinstance(x, Div | FloorDiv | FloorMod) and not x.dtype.is_float:
            return False
        if isinstance(x, Call) and x.kind != "intrinsic":
            box = boxes.get(x.name)
            if box is None or not all(map(has, box, x.args)):
                return False
    return True


def _exact(e: Expr) -> bool:
    """Whether storing a value does not round it."""
    return not e.dtype.is_half or isinstance(e, IfThenElse)


# The new program.


def _materialized(
    program: Program, stage: Stage, operands: Sequence[Operand]
) -> tuple[Program, Sequence[Stage], Stage]:
    """The program with stages for the operands of one stage, and that stage reading them."""
    reads: dict[Expr, Expr] = {}
    stages: list[Stage] = []
    for o in operands:
        taken = tensor_names(program)
        name = fresh(f"{stage.func}_operand", taken)
        domain = domain_of(program, stage, o.coordinates)
        args = tuple(Variable(v.name) for v in domain.vars)
        box = tuple(v.range for v in domain.vars)
        value = moved(sided(stage, o.value), o.coordinates, domain.names, stage.domain.names)
        number = fresh(f"{stage.name}o", {s.name for s in (*program.stages, *stages)})
        stages.append(Stage(number, name, args, None, value, domain, stage.text, False, stage.span))
        program = with_temporary(program, name, value.dtype, box, stage.func)
        reads[without_sites(o.value)] = Call(name, tuple(map(sum_of, o.coordinates)), value.dtype, "func")

    def visit(e: Expr) -> Expr:
        return reads.get(without_sites(e)) or rebuild(e, visit)

    reader = replace(stage, value=_without_names(visit(stage.value), {o.func for o in stages}))
    return with_stages_before(program, stage, stages, reader), stages, reader


def _without_names(e: Expr, funcs: Collection[str]) -> Expr:
    """A value in which reads of these Funcs replace their names."""
    if not isinstance(e, Let):
        return e
    body = _without_names(e.body, funcs)
    if isinstance(e.value, Call) and e.value.name in funcs:
        return _without_names(substitute(body, {e.name: e.value}), funcs)
    return replace(e, body=body)
