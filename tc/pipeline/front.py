"""THE list of passes, in order; hooks to time and dump them.

    text -> parse -> check -> ranges -> types          `front`: all that is known before any data
         -> lower -> legality                          `build`: the program, symbolic in its sizes
         -> specialize                                 `specialize`: one substitution
         -> load                                       a kernel kept on disk (tc/cache/memory.py), or
         -> scop -> dependences -> schedule -> ast     a backend's own passes, on the program
         -> code -> machine code

Every pass is a pure function and runs under `stage(name)`, which `observe` can time and `TC_DUMP` writes
out.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from tc.dtypes import INT32, INT64, DType
from tc.errors import DataDependentAccess, InternalError, RangeError, Source, Warning
from tc.ir import expr as x
from tc.ir.lower import Boxes, lower
from tc.ir.program import Precondition, Program, Range
from tc.ir.specialize import specialize as specialize_program
from tc.lang import resolved as r
from tc.lang import syntax as s
from tc.lang.check import check
from tc.lang.parse import parse
from tc.lang.types import Typed, assign_types, subscript_only
from tc.ranges import Depends, Obligation, Ranges, infer
from tc.support.float_mode import standard

PASSES: tuple[tuple[str, str], ...] = (
    ("parse", "text to syntax tree"),
    ("check", "names, calls inlined, reductions"),
    ("ranges", "the rounds of range inference, on Halide's solver"),
    ("types", "element types; conversions written out"),
    ("lower", "the Halide-mirroring IR"),
    ("legality", "in-place updates, definedness and bounds, decided by isl for all sizes"),
    ("specialize", "sizes and scalars substituted"),
    ("load", "a kernel kept on disk instead of what follows, or the look for one"),
    ("scop", "iteration domains and access relations"),
    ("dependences", "flow, anti and output dependences; reductions apart"),
    ("schedule", "the schedule tree"),
    ("choose", "the tilings of fused loops, by the model of the machine"),
    ("map", "fused loops to blocks and threads: the mapped schedule tree"),
    ("ast", "isl AST to loop nest"),
    ("scan", "tiled boxes to loop nest"),
    ("code", "loop nest to target text"),
    ("machine", "target text to machine code"),
)

Observer = Callable[[str, float], None]
_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observe(observer: Observer) -> Generator[None, None, None]:
    """Call `observer(pass name, seconds)` after every pass that runs in this context."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


@contextmanager
def uncollected() -> Generator[None, None, None]:
    """No cyclic garbage collection meanwhile: beside a large library one takes as long as a compile."""
    thread = threading.get_ident()
    if thread in _uncollected:
        yield
        return
    try:
        _uncollected[thread] = gc.isenabled()
        gc.disable()
        yield
    finally:
        if _uncollected.pop(thread, False):
            gc.enable()


_uncollected: dict[int, bool] = {}  # whether garbage was collected before, by thread


def _forked() -> None:
    """In the child of a fork the compiles of other threads never end: do what they would at their end."""
    thread = threading.get_ident()
    mine = thread in _uncollected
    theirs = [_uncollected.pop(t) for t in list(_uncollected) if t != thread]
    enable = any(theirs)
    if enable and mine:
        _uncollected[thread] = True
    elif enable:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@contextmanager
def stage(name: str) -> Generator[None, None, None]:
    """The body is the pass `name`."""
    observer = _observer.get()
    if observer is None:
        yield
        return
    start = time.perf_counter()
    try:
        yield
    finally:
        observer(name, time.perf_counter() - start)


@dataclass(frozen=True, slots=True)
class Front:
    """All that is known of a program before any data: symbolic in sizes and specialised scalars."""

    source: Source
    syntax: s.Program
    checked: r.Checked
    typed: Typed
    ranges: Ranges
    any_integer: frozenset[str]  # integer parameters that serve in any integer type
    warnings: tuple[Warning, ...]

    @property
    def specialized(self) -> tuple[str, ...]:
        """The scalar parameters whose values are part of the compile key."""
        return tuple(p.name for p in self.checked.params if isinstance(p, r.ScalarParam) and p.specialized)


@dataclass(frozen=True, slots=True)
class Variant:
    """What besides sizes selects a program: values of specialised scalars, outputs the caller passes to be
    accumulated into, the types of subscript-only integers, and whether indices need 64 bits."""

    scalars: tuple[tuple[str, int], ...] = ()
    given: frozenset[str] = frozenset()
    integers: tuple[tuple[str, DType], ...] = ()
    wide: bool = False
    strict: bool = False
    checks: bool = True


@dataclass(frozen=True, slots=True)
class Built:
    """A program, symbolic in its sizes, proved legal or with the preconditions that make it so."""

    front: Front
    variant: Variant
    typed: Typed
    ranges: Ranges
    program: Program


@standard
def front(source: Source, entry: str | None = None) -> Front:
    """Parse, check, infer and type; raises `ParseError`, `SemanticError`, `RangeError`, `DTypeError`."""
    with stage("parse"):
        syntax = parse(source)
    with stage("check"):
        checked = check(syntax, entry)
    with stage("ranges"):
        ranges = infer(checked)
    with stage("types"):
        typed = assign_types(checked)
        integers = subscript_only(checked)
    return Front(source, syntax, checked, typed, ranges, integers, _warnings(checked, ranges))


def _warnings(checked: r.Checked, ranges: Ranges) -> tuple[Warning, ...]:
    """The warnings, without those on data-dependent accesses that are clamped into range."""
    open_spans = {(o.span.start, o.span.end) for o in ranges.obligations if o.data_dependent}
    kept: list[Warning] = []
    for w in checked.warnings:
        clamped = w.span is not None and (w.span.start, w.span.end) not in open_spans
        if isinstance(w, DataDependentAccess) and ranges.complete and clamped:
            continue
        kept.append(w)
    return tuple(kept)


@standard
def build(f: Front, variant: Variant) -> Built:
    """The symbolic program of a variant; raises `RangeError`, `SemanticError` where it is not legal."""
    scalars = dict(variant.scalars)
    ranges, typed = f.ranges, f.typed
    if scalars or variant.integers:
        with stage("ranges"):
            ranges = infer(f.checked, scalars, dict(variant.integers))
    if variant.integers or variant.wide:
        with stage("types"):
            typed = assign_types(f.checked, dict(variant.integers), INT64 if variant.wide else INT32)
    with stage("lower"):
        program = lower(typed, _boxes(ranges), given=variant.given, strict=variant.strict)
        # Until they are decided, open accesses count as checked: folding keeps those (`x * 0`).
        program = _mark(program, {(o.site, o.dim) for o in ranges.obligations})
        if scalars:
            program = specialize_program(program, {}, scalars)
    with stage("legality"):
        program = _legal(program, ranges, variant.checks)
    return Built(f, variant, typed, ranges, program)


def _boxes(ranges: Ranges) -> Boxes:
    def known(b: object) -> Range:
        if isinstance(b, Depends):
            raise InternalError(f"a range still {b}")
        assert isinstance(b, Range)
        return b

    return Boxes(
        {t: tuple(map(known, box)) for t, box in ranges.boxes.items()},
        tuple({v: known(b) for v, b in m.items()} for m in ranges.variables),
        ranges.preconditions,
    )


@standard
def specialize(built: Built, sizes: Mapping[str, int], scalars: Mapping[str, int | float]) -> Program:
    """The program at given sizes."""
    with stage("specialize"):
        return specialize_program(built.program, sizes, scalars)


def _legal(program: Program, ranges: Ranges, checks: bool) -> Program:
    """Prove the program legal for all sizes, or attach what is left as preconditions and run-time checks.

    An access that range inference left open is decided exactly where it is affine; where it is not, the
    solver's condition over sizes serves if a call that breaks it is wrong; else the subscript is checked when
    the kernel runs.
    """
    from tc.poly import checks as exact
    from tc.poly.context import isl_context
    from tc.poly.scop import build as build_scop

    preconditions = list(program.preconditions)
    left: dict[int, list[Obligation]] = {}
    dynamic: set[tuple[int, int]] = set()
    for o in ranges.obligations:
        if o.data_dependent:
            dynamic.add((o.site, o.dim))
        else:
            left.setdefault(o.site, []).append(o)
    marked = _mark(program, dynamic)
    with isl_context():
        scop = build_scop(marked)
        exact.in_place(scop)
        exact.undefined(scop)
        verdicts = exact.out_of_bounds(scop, frozenset(left)) if left else ()
    for v in verdicts:
        site = v.read.call.site if v.read is not None else -1
        found = left.get(site, [])
        if v.status == "precondition" and v.condition is not None:
            first = found[0]
            if x.constant(v.condition) == 0:
                raise RangeError(
                    f"{v.text} is out of bounds for all sizes",
                    first.span,
                    code="TC0307",
                    help=f"'{first.tensor}' is read outside its range in dimension {first.dim}",
                )
            reason = f"{_access_text(first)} would be out of bounds"
            preconditions.append(Precondition(v.condition, reason, first.span, v.shown))
        elif v.status == "unprovable":
            for o in found:
                if o.condition is None or (checks and not o.necessary):
                    dynamic.add((o.site, o.dim))
                else:
                    reason = f"{_access_text(o)} would be out of bounds"
                    preconditions.append(Precondition(o.condition, reason, o.span, o.shown))
    program = _mark(program, dynamic if checks else set())
    return replace(program, preconditions=tuple(dict.fromkeys(preconditions)))


def unforeseen(built: Built) -> tuple[str, ...]:
    """The accesses of a program that are checked when it runs, though they do not depend on data."""
    values = (e for s in built.program.stages for e in x.walk(s.value))
    checked = {(e.site, d) for e in values if isinstance(e, x.Call) for d in e.checked}
    found = (o for o in built.ranges.obligations if not o.data_dependent and (o.site, o.dim) in checked)
    return tuple(dict.fromkeys(map(_access_text, found)))


def _access_text(o: Obligation) -> str:
    return o.text.split(" needs ")[0].removesuffix(" may leave its tensor")


def _mark(program: Program, dynamic: set[tuple[int, int]]) -> Program:
    """Record on the accesses which of their dimensions, and no others, are checked when the kernel runs."""

    def mark(e: x.Expr) -> x.Expr:
        e = x.rebuild(e, mark)
        if isinstance(e, x.Call) and e.site >= 0:
            dims = tuple(d for d in range(len(e.args)) if (e.site, d) in dynamic)
            return replace(e, checked=dims) if dims != e.checked else e
        return e

    return replace(program, stages=tuple(replace(st, value=mark(st.value)) for st in program.stages))
