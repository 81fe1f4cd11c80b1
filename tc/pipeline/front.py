"""The front end as lists of passes: from text to a program at given sizes.

    FRONT       text -> parse -> check -> ranges -> types -> recurrences
                                                               all that is known without sizes and data
    BUILD       -> variant -> lower -> dividends -> legality -> in_place
                                                               the program, symbolic in its sizes
    SPECIALIZE  -> specialize -> complex                       the program at given sizes, of real numbers

The passes of a backend follow (`tc.pipeline.target.Backend.passes`), unless `tc.pipeline.load` finds the
kernel on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tc.dtypes import INT32, INT64, DType
from tc.errors import DataDependentAccess, NarrowedRange, RangeError, Source, Warning
from tc.ir import expr as x
from tc.ir import verify
from tc.ir.dropped import dropped
from tc.ir.lower import lower
from tc.ir.printer import program_text
from tc.ir.program import Program
from tc.ir.specialize import ruled_out
from tc.ir.specialize import specialize as specialize_program
from tc.lang import notations
from tc.lang import resolved as r
from tc.lang.types import Typed, assign_types, subscript_only
from tc.pipeline.legality import access_text, legal, marked_accesses
from tc.pipeline.pass_manager import Pass, PassList, changed, later
from tc.pipeline.recurrences import starting_from_nothing
from tc.poly.implication import implies
from tc.ranges import Ranges, host, infer
from tc.support.float_mode import standard


@dataclass(frozen=True, slots=True)
class Front:
    """All that is known of a program before any data: symbolic in sizes and specialised scalars."""

    source: Source
    syntax: Any  # of the notation
    checked: r.Checked
    typed: Typed
    ranges: Ranges
    any_integer: frozenset[str]  # integer parameters that serve in any integer type
    warnings: tuple[Warning, ...]
    lang: str = "tc"
    known: notations.Known = ()

    @property
    def specialized(self) -> tuple[str, ...]:
        """The scalar parameters whose values are part of the compile key."""
        return tuple(p.name for p in self.checked.params if isinstance(p, r.ScalarParam) and p.specialized)

    @property
    def fixed_sizes(self) -> tuple[str, ...]:
        """The sizes whose values are part of the compile key: a bound is computed from them on the host."""
        used = frozenset[str]()
        for st in self.checked.statements:
            for g in st.ranges:
                used |= host.names(r.expand_lets(g.lo, st)) | host.names(r.expand_lets(g.hi, st))
        return tuple(n for n in self.checked.sizes if n in used)

    @property
    def keyed(self) -> tuple[str, ...]:
        """The scalars and sizes that ranges may wait for."""
        return (*self.specialized, *self.fixed_sizes)


@dataclass(frozen=True, slots=True)
class Variant:
    """The facts besides sizes that select a program: values of specialised scalars, outputs the caller passes
    to be accumulated into, the types of subscript-only integers, and whether indices need 64 bits.

    `drop`: scatters leave out elements outside of their tensor.  `aliases`: outputs in the memory of an
    input.
    """

    scalars: tuple[tuple[str, int], ...] = ()
    given: frozenset[str] = frozenset()
    integers: tuple[tuple[str, DType], ...] = ()
    wide: bool = False
    strict: bool = False
    checks: bool = True
    drop: bool = False
    aliases: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Built:
    """A program, symbolic in its sizes, proved legal or with the preconditions that make it so."""

    front: Front
    variant: Variant
    typed: Typed
    ranges: Ranges
    program: Program


# ---- text to types


@dataclass(frozen=True, slots=True)
class _FrontState:
    source: Source
    entry: str | None
    lang: str = "tc"
    known: notations.Known = ()
    syntax: Any = later()
    checked: r.Checked = later()
    ranges: Ranges = later()
    typed: Typed = later()
    any_integer: frozenset[str] = later()


def _typed(state: _FrontState) -> _FrontState:
    return changed(state, typed=assign_types(state.checked), any_integer=subscript_only(state.checked))


def _ranges_text(state: _FrontState) -> str:
    steps = (
        f"round {t.round}: {t.lo} <= {t.variable} <= {t.hi}, from {t.access}\n" for t in state.ranges.steps
    )
    return "".join(steps)


def _types_text(state: _FrontState) -> str:
    tensors = {t.name: t for t in (*state.checked.params, *(x.tensor for x in state.checked.returns))}
    named = ((n, t) for n, t in tensors.items() if isinstance(t, r.Tensor))
    return "".join(f"{n}: {state.typed.dtype(t)}\n" for n, t in named)


def _recurrences(state: _FrontState) -> _FrontState:
    typed = starting_from_nothing(state.typed, state.ranges)
    return changed(state, checked=typed.checked, typed=typed)


def _modes_text(state: _FrontState) -> str:
    return "".join(f"{x.name}: {x.mode}\n" for x in state.checked.returns)


FRONT = PassList[_FrontState](
    "front",
    (
        Pass(
            "parse",
            "parse the text to a syntax tree",
            "tc/lang/parse.py",
            lambda st: replace(st, syntax=notations.parse(st.lang, st.source)),
            lambda st: notations.formatted(st.lang, st.syntax),
        ),
        Pass(
            "check",
            "resolve names, inline calls, find reductions",
            "tc/lang/check.py",
            lambda st: replace(st, checked=notations.check(st.lang, st.syntax, st.entry, st.known)),
            lambda st: notations.statements(st.lang, st.checked),
        ),
        Pass(
            "ranges",
            "infer the range of every variable and tensor, in rounds, on Halide's solver",
            "tc/ranges/infer.py",
            lambda st: replace(st, ranges=infer(st.checked, implies=implies)),
            _ranges_text,
        ),
        Pass(
            "types",
            "assign element types and write out every conversion",
            "tc/lang/types.py",
            _typed,
            _types_text,
        ),
        Pass(
            "recurrences",
            "tell results of loops that start from nothing from those that start from `out=`",
            "tc/pipeline/recurrences.py",
            _recurrences,
            _modes_text,
        ),
    ),
)


@standard
def front(source: Source, entry: str | None = None, lang: str = "tc", known: notations.Known = ()) -> Front:
    """Parse, check, infer and type; raises `ParseError`, `SemanticError`, `RangeError`, `DTypeError`.
    `known` are the ranks and element types of parameters that a SaC source leaves open."""
    st = FRONT.run(_FrontState(source, entry, lang, known))
    warnings = _warnings(st.checked, st.ranges)
    return Front(source, st.syntax, st.checked, st.typed, st.ranges, st.any_integer, warnings, lang, known)


def _warnings(checked: r.Checked, ranges: Ranges) -> tuple[Warning, ...]:
    """The warnings, without those on data-dependent accesses that are clamped into range, with those of range
    inference."""
    open_spans = {(o.span.start, o.span.end) for o in ranges.obligations if o.data_dependent}
    kept: list[Warning] = []
    for w in checked.warnings:
        clamped = w.span is not None and (w.span.start, w.span.end) not in open_spans
        if isinstance(w, DataDependentAccess) and ranges.complete and clamped:
            continue
        kept.append(w)
    kept += (
        NarrowedRange(
            f"{n.access}, which is read under a condition, makes the range of '{n.variable}' {n.narrow}; "
            f"without it the range would be {n.wide}",
            n.span,
            help=f"give it: where {n.variable} in …; or let the condition keep {n.access} in range by itself",
        )
        for n in ranges.narrowings
    )
    return tuple(kept)


# ---- types to a program


@dataclass(frozen=True, slots=True)
class _BuildState:
    front: Front
    variant: Variant
    ranges: Ranges
    typed: Typed
    program: Program = later()


def _of_variant(state: _BuildState) -> _BuildState:
    variant, checked = state.variant, state.front.checked
    ranges, typed = state.ranges, state.typed
    if variant.scalars or variant.integers:
        ranges = infer(checked, dict(variant.scalars), dict(variant.integers), implies=implies)
    if variant.integers or variant.wide:
        typed = assign_types(checked, dict(variant.integers), INT64 if variant.wide else INT32)
    return changed(state, ranges=ranges, typed=typed)


def _lowered(state: _BuildState) -> _BuildState:
    variant, ranges = state.variant, state.ranges
    program = lower(state.typed, ranges.known_boxes(), given=variant.given, strict=variant.strict)
    if variant.drop:
        program = dropped(program)
    # Until they are decided, open accesses count as checked: folding keeps those (`x * 0`).
    program = marked_accesses(program, {(o.site, o.dim) for o in ranges.obligations})
    if variant.scalars:
        program = specialize_program(program, {}, dict(variant.scalars))
    return changed(state, program=program)


def _without_small_dividends(state: _BuildState) -> _BuildState:
    if not state.program.loops:
        return state
    from tc.poly.small_dividends import without_small_dividends

    return changed(state, program=without_small_dividends(state.program))


def _legal_program(state: _BuildState) -> _BuildState:
    return changed(
        state, program=legal(state.program, state.ranges, dict(state.variant.scalars), state.variant.checks)
    )


def _in_place(state: _BuildState) -> _BuildState:
    from tc.poly.in_place import in_place

    program = state.program
    for result, source in state.variant.aliases:
        program = in_place(program, result, source)
    return changed(state, program=program)


def _well_formed(before: _BuildState, after: _BuildState) -> str:
    return verify.program(after.program)


def _same_results(before: _BuildState, after: _BuildState) -> str:
    from tc.pipeline.equivalence import same_results

    oracles = (verify.program(after.program), same_results(before.program, after.program))
    return ", ".join(filter(None, oracles))


def _program_text(state: _BuildState) -> str:
    return program_text(state.program)


BUILD = PassList[_BuildState](
    "build",
    (
        Pass(
            "variant",
            "infer ranges and types again, for given scalars and types of subscripts",
            "tc/pipeline/front.py",
            _of_variant,
        ),
        Pass(
            "lower",
            "lower the typed tree to the Halide-mirroring IR",
            "tc/ir/lower.py",
            _lowered,
            _program_text,
            _well_formed,
        ),
        Pass(
            "dividends",
            "leave out remainders by sizes of subscripts that are smaller, in sequential loops",
            "tc/poly/small_dividends.py",
            _without_small_dividends,
            _program_text,
            _same_results,
        ),
        Pass(
            "legality",
            "check in-place updates, definedness and bounds by isl, for all sizes",
            "tc/poly/checks.py",
            _legal_program,
            _program_text,
            _well_formed,
        ),
        Pass(
            "in_place",
            "leave out copies of an input to itself, where `out=` is that input",
            "tc/poly/in_place.py",
            _in_place,
            _program_text,
            _well_formed,
        ),
    ),
)


# Codes of what no sizes allow: a negative extent, elements outside of a tensor, extents that differ.
_RULED_OUT = frozenset(("TC0304", "TC0305", "TC0307", "TC0309"))


@standard
def build(f: Front, variant: Variant) -> Built:
    """The symbolic program of a variant; raises `RangeError`, `SemanticError` where it is not legal, and
    `PreconditionError` where only the values that the variant was made for are at fault."""
    try:
        st = BUILD.run(_BuildState(f, variant, f.ranges, f.typed))
    except RangeError as e:
        if variant.scalars and e.code in _RULED_OUT:
            raise ruled_out(e, dict(variant.scalars)) from None
        raise
    return Built(f, variant, st.typed, st.ranges, st.program)


# ---- a program at given sizes


@dataclass(frozen=True, slots=True)
class _SpecializeState:
    program: Program
    sizes: Mapping[str, int]
    scalars: Mapping[str, int | float]


def _specialized(state: _SpecializeState) -> _SpecializeState:
    return changed(state, program=specialize_program(state.program, state.sizes, state.scalars))


def _without_complex(state: _SpecializeState) -> _SpecializeState:
    from tc.transforms.program.complex_parts import split_complex

    return changed(state, program=split_complex(state.program))


SPECIALIZE = PassList[_SpecializeState](
    "specialize",
    (
        Pass(
            "specialize",
            "substitute sizes and scalars",
            "tc/ir/specialize.py",
            _specialized,
            lambda st: program_text(st.program),
            lambda _, st: verify.program(st.program),
        ),
        Pass(
            "complex",
            "split complex numbers into real and imaginary parts",
            "tc/transforms/program/complex_parts.py",
            _without_complex,
            lambda st: program_text(st.program),
            lambda _, st: verify.program(st.program),
        ),
    ),
)


@standard
def specialize(built: Built, sizes: Mapping[str, int], scalars: Mapping[str, int | float]) -> Program:
    """The program at given sizes; those not given stay symbolic."""
    return SPECIALIZE.run(_SpecializeState(built.program, sizes, scalars)).program


def unforeseen(built: Built) -> tuple[str, ...]:
    """The accesses of a program that are checked when it runs, though they do not depend on data."""
    values = (e for s in built.program.stages for e in x.walk(s.value))
    checked = {(e.site, d) for e in values if isinstance(e, x.Call) for d in e.checked}
    found = (o for o in built.ranges.obligations if not o.data_dependent and (o.site, o.dim) in checked)
    return tuple(dict.fromkeys(map(access_text, found)))
