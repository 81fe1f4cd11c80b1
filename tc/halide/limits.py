"""The one list of what Halide cannot follow.

Each entry has a test that shows why it is there.  What is not in the list is lowered with the language's
meaning: overflow, division, NaN, half types and conversions are spelled out (`arithmetic`, `halves`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tc.errors import BackendError
from tc.ir import expr as x
from tc.ir.intervals import INT32, Interval, Intervals, box_interval, compared, interval, is_index, within
from tc.ir.program import Box, Program, Stage
from tc.ir.simplify import simplify


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A kind of program that is refused: `find` yields what offends, in the program's words."""

    name: str
    find: Callable[[Program], Iterator[str]]
    reason: str
    help: str


def _missing_builtins(p: Program) -> Iterator[str]:
    from tc.halide.builtins import FUNCTIONS

    for s in p.stages:
        for e in x.walk(s.value):
            if isinstance(e, x.Call) and e.kind == "intrinsic" and e.name not in FUNCTIONS:
                yield f"the built-in '{e.name}'"


def _boxes(p: Program) -> Iterator[tuple[str, Box]]:
    for b in p.buffers:
        yield f"'{b.name}'", b.box
    for s in p.stages:
        yield f"the range of '{s.text}'", tuple(v.range for v in s.domain.vars)


def _wide_coordinates(p: Program) -> Iterator[str]:
    for what, box in _boxes(p):
        for d in range(len(box)):
            span = box_interval(box, d)
            # Halide holds a minimum, an extent and one past the last coordinate.
            if span is not None and not (
                within((span[0], span[1] + 1), INT32) and span[1] - span[0] < INT32[1]
            ):
                yield f"{what}, dimension {d}, from {span[0]} to {span[1]}"


def _wide_strides(p: Program) -> Iterator[str]:
    for b in p.buffers:
        extents = [x.constant(r.extent) for r in b.box]
        stride = 1
        for extent in reversed(extents[1:]):
            if extent is None:
                break
            stride *= max(int(extent), 1)
        if stride > INT32[1]:
            yield f"'{b.name}', whose outermost stride is {stride} elements"


LARGEST = 10_000_000  # nodes; a second or two of Halide's front end


def _large_expressions(p: Program) -> Iterator[str]:
    from tc.halide.expansion import expansion

    for s in p.stages:
        size = expansion(s.value)
        if size > LARGEST:
            yield f"'{s.text}', which expands to {size} nodes"


def _lost_checks(p: Program) -> Iterator[str]:
    """Statements with checked subscripts whose results are overwritten before anything reads them."""
    last = {f.buffer: f.name for f in p.funcs}
    needed: set[str] = set()
    pending = [last[n] for n in p.outputs]
    starts = {f.name: f.previous for f in p.funcs}
    while pending:
        name = pending.pop()
        if name in needed or name not in starts:
            continue
        needed.add(name)
        pending += [n for n in (starts[name],) if n is not None]
        for s in filter(_runs, p.stages_of(name)):
            pending += [e.name for e in x.walk(s.value) if isinstance(e, x.Call) and e.kind != "intrinsic"]
    for s in p.stages:
        if s.func not in needed and is_checked(s) and _runs(s):
            yield f"'{s.text}', which is overwritten before anything reads it"


def _runs(s: Stage) -> bool:
    """Whether a statement has a point, as far as its box says."""
    return all(x.constant(v.range.extent) != 0 for v in s.domain.vars)


def _zero_factors(p: Program) -> Iterator[str]:
    """Updates by a product with a literal 0: Halide's pass that trims what changes nothing takes these for 0,
    whatever the target says of strictness, and NaN and infinities are lost."""
    for s in p.stages:
        if s.op is None and not any(isinstance(e, x.Call) and e.name == s.func for e in x.walk(s.value)):
            continue
        for e in x.walk(s.value):
            if isinstance(e, x.Mul) and e.dtype.is_float and 0 in (x.constant(e.a), x.constant(e.b)):
                yield f"'{s.text}', which updates by a product with 0"


def is_checked(s: Stage) -> bool:
    """Whether the kernel looks at a subscript of a statement when it runs."""
    return any(isinstance(e, x.Call) and e.checked for e in x.walk(s.value))


def _loops(p: Program) -> Iterator[str]:
    for loop in p.loops:
        yield f"the sequential loop '{loop.name}'"


def _scatters(p: Program) -> Iterator[str]:
    for s in p.stages:
        if s.scatters:
            yield f"'{s.text}'"


EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion(
        "scatter",
        _scatters,
        "an update of Halide has no checks where it writes",
        "use another backend",
    ),
    Exclusion(
        "sequential loops",
        _loops,
        "a function of Halide is defined once, for all of its points",
        "use another backend",
    ),
    Exclusion(
        "built-in",
        _missing_builtins,
        "Halide has no such function, and its Python interface makes no calls to others",
        "write it with functions Halide has, or use another backend",
    ),
    Exclusion(
        "coordinates beyond int32",
        _wide_coordinates,
        "Halide's coordinates are 32-bit integers",
        "split the dimension in two, or use another backend",
    ),
    Exclusion(
        "strides beyond int32",
        _wide_strides,
        "Halide's strides are 32-bit integers",
        "split the tensor, or use another backend",
    ),
    Exclusion(
        "expressions too large",
        _large_expressions,
        "Halide walks what a function uses several times once for each use",
        "give a part of the expression a tensor of its own",
    ),
    Exclusion(
        "lost checks",
        _lost_checks,
        "Halide computes only what results need, and an index out of range there would go unnoticed",
        "leave the statement out",
    ),
    Exclusion(
        "zero factors",
        _zero_factors,
        "Halide takes such an update for none, also where the other factor is not finite",
        "leave the product out, or multiply by a scalar argument",
    ),
)


def exclusions(program: Program) -> list[str]:
    """What of a program Halide cannot follow, one sentence each; empty if it can."""
    return [f"{what}: {e.reason}" for e in EXCLUSIONS for what in dict.fromkeys(e.find(program))]


def refuse_dropped(program: Program, lowered: str) -> None:
    """Raise BackendError (TC0805) if Halide's simplifier dropped a checked access, say as a factor of 0.

    `lowered` is Halide's final code as text: there each check shows the record it makes (`expressions`).  One
    that is always passed is not there either, so only accesses count that a value does not depend on, and
    those that are never in range: what is `require`d of a constant may become that constant.
    """
    shown = {int(m[1]) for m in re.finditer(r'" (\d+) \d+', lowered)}
    for s in program.stages:
        if not _runs(s):
            continue
        for site in _irrelevant(s) | _never_inside(program, s):
            if site + 1 not in shown:
                raise BackendError(
                    f"the halide backend cannot compile '{s.text}': Halide simplifies a checked access away,"
                    " and an index out of range there would go unnoticed",
                    code="TC0805",
                    help="leave the access out",
                )


def _irrelevant(s: Stage) -> set[int]:
    """The checked accesses that the value of a stage does not depend on."""
    value, names = s.value, _intervals(s)

    def sites(e: x.Expr) -> set[int]:
        return {c.site for c in x.walk(e) if isinstance(c, x.Call) and c.site >= 0}

    def unchecked(e: x.Expr) -> x.Expr:
        e = x.rebuild(e, unchecked)
        if isinstance(e, x.Sub) and e.a == e.b and e.dtype.is_int:
            return x.imm(0, e.dtype)
        if isinstance(e, x.Select) and (chosen := _decided(e.condition, names)) is not None:
            return e.true_value if chosen else e.false_value
        if isinstance(e, x.Min | x.Max) and e.dtype.is_int:
            end = e.dtype.min if isinstance(e, x.Min) else e.dtype.max
            if end in (x.constant(simplify(e.a)), x.constant(simplify(e.b))):
                return x.imm(end, e.dtype)
        if not isinstance(e, x.Call):
            return e
        # Reads of one element that are not checked are equal, wherever the source has them.
        return replace(e, checked=(), site=e.site if e.checked else -1)

    checked = {c.site for c in x.walk(value) if isinstance(c, x.Call) and c.checked}
    return checked - sites(simplify(unchecked(value)))


def refuse(program: Program) -> None:
    """Raise BackendError (TC0805) for the first thing Halide cannot follow."""
    for e in EXCLUSIONS:
        for what in e.find(program):
            raise BackendError(
                f"the halide backend cannot compile {what}: {e.reason}", code="TC0805", help=e.help
            )


def _never_inside(program: Program, s: Stage) -> set[int]:
    """The checked accesses of a stage with a subscript that is outside of its tensor at all points."""
    boxes = {b.name: b.box for b in program.buffers}
    boxes |= {f.name: boxes[f.buffer] for f in program.funcs}
    names = _intervals(s)
    out: set[int] = set()
    for e in x.walk(s.value):
        for d in e.checked if isinstance(e, x.Call) else ():
            assert isinstance(e, x.Call)
            there = box_interval(boxes[e.name], d)
            found = interval(e.args[d], names) if is_index(e.args[d], names) else None
            if there is not None and found is not None and (found[1] < there[0] or there[1] < found[0]):
                out.add(e.site)
    return out


def _intervals(s: Stage) -> Intervals:
    """The values of a stage's variables, where these are known."""
    ends = {v.name: box_interval((v.range,), 0) for v in s.domain.vars}
    return {v: i for v, i in ends.items() if i is not None}


def _decided(condition: x.Expr, names: Intervals) -> bool | None:
    """Whether a condition on variables holds at all points, or at none; None if neither is seen."""
    match condition:
        case x.UIntImm():
            return bool(condition.value)
        case x.Not():
            inner = _decided(condition.a, names)
            return None if inner is None else not inner
        case x.And() | x.Or():
            both = [_decided(condition.a, names), _decided(condition.b, names)]
            ends = isinstance(condition, x.Or)  # what one of the two decides
            return ends if ends in both else None if None in both else not ends
        case x.LT() | x.LE() | x.GT() | x.GE() | x.EQ() | x.NE():
            a, b = _span(condition.a, names), _span(condition.b, names)
            return None if a is None or b is None else compared(condition, a, b)
        case _:
            return None


def _span(e: x.Expr, names: Intervals) -> Interval | None:
    """The values of integer arithmetic on variables, in whatever type; None where data enter."""

    def wide(e: x.Expr) -> x.Expr:
        match e:
            case x.Cast() if e.dtype.is_int and e.value.dtype.is_int:
                return wide(e.value)
            case x.IntImm() if e.dtype.is_int:
                return x.imm(e.value, x.INDEX)
            case _:
                return x.rebuild(e, wide)

    return interval(wide(e), names) if e.dtype.is_int and is_index(wide(e), names) else None
