"""Contiguous copies of columns that many rows read, in sequential loops.

`L(i,j) += -L(i,k) * L(j,k)` in a loop over `k` runs along `j`, and the elements `L(j,k)` of a column are one
row apart, so that each row would gather them again.  A temporary holds a contiguous copy of the column.  A
statement reads all of its operands before it writes any result, so a copy that directly precedes it has the
values that it reads, even where it updates the same tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from tc.ir.evaluate import evaluate
from tc.ir.expr import Add, Call, Expr, IntImm, Let, Sub, Variable, children, rebuild, variables, walk
from tc.ir.program import Box, Domain, IterVar, Program, Range, Stage, fresh
from tc.ir.simplify import linear_terms, simplify
from tc.transforms.program.stages import tensor_names, with_temporary


@dataclass(frozen=True, slots=True)
class Column:
    """A read of a column: only the variable `along` of the stage moves it; `place` is the range of its
    dimension.

    It has `points` elements, each of which is read `times` times.
    """

    read: Call
    along: IterVar
    subscript: Expr
    place: Range
    points: int
    times: int


def copy_columns(
    program: Program, worth: Callable[[Column], bool], typical: Mapping[str, int]
) -> tuple[Program, tuple[str, ...]]:
    """The program with temporaries for the columns that are `worth` it, and their names.  The decision is
    made at `typical` values of dynamic sizes; the temporaries have constant sizes."""
    names: list[str] = []
    for stage in program.stages:
        before = program.stages.index(stage) - 1
        if before >= 0 and program.stages[before].init and program.stages[before].func == stage.func:
            continue  # one loop nest computes a result's first values and its sums
        found = [c for c in dict.fromkeys(_columns(program, stage, typical)) if worth(c)]
        for column in found:
            program, name = _copied(program, stage.name, column)
            names.append(name)
    return program, tuple(names)


def _columns(program: Program, stage: Stage, typical: Mapping[str, int]) -> Iterator[Column]:
    """The reads of columns in a stage along the rows that it writes."""
    if stage.init or stage.scatters or not stage.args:
        return
    along = next((v for v in stage.domain.vars if stage.args[-1] == Variable(v.name)), None)
    if along is None or along.kind != "pure":
        return
    extents = {v.name: max(0, evaluate(v.range.extent, typical)) for v in stage.domain.vars}
    times = math.prod(n for name, n in extents.items() if name != along.name)
    for read in _always(stage.value):
        if read.checked or len(read.args) < 2:
            continue
        moved = [i for i, a in enumerate(read.args) if variables(a) & extents.keys()]
        if len(moved) != 1 or moved[0] == len(read.args) - 1:
            continue
        subscript, place = read.args[moved[0]], _box(program, read)[moved[0]]
        if variables(subscript) & extents.keys() == {along.name} and _inside(subscript, along, place):
            yield Column(read, along, subscript, place, extents[along.name], times)


def _always(e: Expr) -> Iterator[Call]:
    """The reads of tensors in a value that have no data-dependent subscripts and do not use a let."""
    if isinstance(e, Let):
        return
    if isinstance(e, Call) and e.kind != "intrinsic":
        if not any(isinstance(x, Call) for a in e.args for x in walk(a)):
            yield e
        return
    for part in children(e):
        yield from _always(part)


def _box(program: Program, read: Call) -> Box:
    found = next((f.box for f in program.funcs if f.name == read.name), None)
    return program.buffer(read.name).box if found is None else found


def _inside(subscript: Expr, along: IterVar, place: Range) -> bool:
    """Whether a subscript, a sum that contains its variable with factor 1, stays in a constant range of the
    tensor for all values of the variable, whether or not the stage's other loops have iterations.  Sizes and
    counters are never negative."""
    if not (isinstance(place.min, IntImm) and isinstance(place.extent, IntImm)):
        return False
    terms, offset = linear_terms(subscript)
    if terms.pop(Variable(along.name), 0) != 1:
        return False
    rest: Expr = IntImm(offset)
    for t, c in terms.items():
        if not isinstance(t, Variable):
            return False
        rest = Add(rest, _times(t, c))
    first = Add(rest, along.range.min)
    last = Sub(Add(first, along.range.extent), IntImm(1))
    end = place.min.value + place.extent.value - 1
    return _not_negative(Sub(first, place.min)) and _not_negative(Sub(IntImm(end), last))


def _times(e: Expr, factor: int) -> Expr:
    total: Expr = IntImm(0)
    for _ in range(abs(factor)):
        total = Add(total, e) if factor > 0 else Sub(total, e)
    return total


def _not_negative(e: Expr) -> bool:
    terms, offset = linear_terms(simplify(e, exact=True))
    return offset >= 0 and all(isinstance(t, Variable) and c >= 0 for t, c in terms.items())


def _copied(program: Program, stage_name: str, column: Column) -> tuple[Program, str]:
    """The program with a stage that copies a column, right before the stage that reads it."""
    stage = program.stage(stage_name)
    taken = tensor_names(program)
    name = fresh(f"{stage.func}_{stage.name}_column", taken)
    number = fresh(f"{stage.name}c", {s.name for s in program.stages})
    box, dtype = (column.place,), column.read.dtype
    domain = Domain((IterVar(column.along.name, column.along.range, "pure"),))
    copy = Stage(number, name, (column.subscript,), None, column.read, domain, stage.text, False, stage.span)
    there = Call(name, (column.subscript,), dtype, "func")

    def visit(e: Expr) -> Expr:
        return there if e == column.read else rebuild(e, visit)

    at = program.stages.index(stage)
    reader = replace(stage, value=visit(stage.value))
    stages = (*program.stages[:at], copy, reader, *program.stages[at + 1 :])
    return replace(with_temporary(program, name, dtype, box, stage.func), stages=stages), name
