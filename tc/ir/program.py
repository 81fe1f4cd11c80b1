"""Programs: Funcs with pure and update definitions over iteration domains.

    Program : Buffer*, Scalar*, Func*, Stage*   (stages in program order)
    Func    : one version of a tensor (SSA): a new version starts where the tensor is redefined after a read
    Stage   : args <op>= value   over a Domain   (the pure definition or an update of its Func)
    Domain  : IterVar(name, Range, pure | reduction)*, cut by affine conditions
    Range   : [min, min + extent)

Everything is symbolic in the sizes until `specialize`.  Funcs live in Buffers: all versions of a tensor
share one, so that a redefinition is an update in place for everyone but Halide.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from tc.dtypes import DType
from tc.errors import Span
from tc.ir.expr import Add, Call, Expr, IntImm, Max, Min, Mul, Variable, constant, substitute, walk

Op = Literal["+", "*", "min", "max"]


def combined(op: Op, a: Expr, b: Expr) -> Expr:
    """Two values of one type as a reduction combines them."""
    return {"+": Add, "*": Mul, "min": Min, "max": Max}[op](a, b)


@dataclass(frozen=True, slots=True)
class Range:
    """`min <= x < min + extent`, as Halide's `Range`."""

    min: Expr
    extent: Expr

    @property
    def end(self) -> Expr:
        return Add(self.min, self.extent)


Box = tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class IterVar:
    """A dimension of an iteration domain; `reduction` where it is a dimension of the RDom."""

    name: str
    range: Range
    kind: Literal["pure", "reduction"]


@dataclass(frozen=True, slots=True)
class Domain:
    """A box cut by affine conditions (bool expressions over the variables and sizes)."""

    vars: tuple[IterVar, ...]
    conditions: tuple[Expr, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(v.name for v in self.vars)

    @property
    def constant(self) -> bool:
        """Whether the ranges have constant lengths."""
        return all(isinstance(v.range.extent, IntImm) for v in self.vars)


@dataclass(frozen=True, slots=True)
class Loop:
    """A sequential loop: `name` counts from 0 to `trips`, which may name loops around it.  No two loops of a
    program have the same name; stages of one loop are consecutive."""

    name: str
    trips: Expr


@dataclass(frozen=True, slots=True)
class Buffer:
    """Dense row-major storage of all versions of a tensor, from the lower bounds of `box` on.

    `role`: `input` (an argument), `output` (a result, `inout` if it also starts from the caller's
    values), `temporary` (workspace of the call).  `kept`: no pass may compute an element twice, since
    elements are compared with each other, and roundings may differ.  `filled`: its stages are the parts of
    an array and define every element by construction.  `pairs`: its elements were complex, and its last
    dimension has their real and imaginary parts; `planes`: the last but one has.
    """

    name: str
    dtype: DType
    box: Box
    role: Literal["input", "output", "temporary"]
    inout: bool = False
    kept: bool = False
    filled: bool = False
    pairs: bool = False
    planes: bool = False


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar argument; `value` once it has been specialised."""

    name: str
    dtype: DType
    specialized: bool
    value: int | float | None = None


@dataclass(frozen=True, slots=True)
class Func:
    """A version of a tensor.  `previous` is the version whose elements it starts from: None where its
    first stage is a pure definition over the whole box.  A Func without stages holds what the caller
    passed in."""

    name: str
    buffer: str
    dtype: DType
    box: Box
    previous: str | None


@dataclass(frozen=True, slots=True)
class Stage:
    """`func(args) = value`, or `func(args) = func(args) <op> value` for an `op`.

    `args` are logical coordinates: affine in the domain's pure variables, one each.  `value` reads
    Funcs and images by `Call`.  `init` marks the neutral element set by `op=!`.  `loops` are the sequential
    loops around it, outermost first; all of the stage may name them.

    The `args` of a scatter read tensors, and several instances may update one element.  `checked` has the
    dimensions of these that are checked when an instance runs, each with the number of its site.
    """

    name: str
    func: str
    args: tuple[Expr, ...]
    op: Op | None
    value: Expr
    domain: Domain
    text: str
    init: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)
    loops: tuple[Loop, ...] = ()
    checked: tuple[tuple[int, int], ...] = ()

    @property
    def calls(self) -> tuple[Call, ...]:
        """The reads of Funcs and images: in the value, in the subscripts of a scatter, in conditions."""
        parts = (self.value, *self.args, *self.domain.conditions)
        return tuple(e for p in parts for e in walk(p) if isinstance(e, Call) and e.kind != "intrinsic")

    @property
    def checked_sites(self) -> frozenset[int]:
        """The numbers of the accesses that are checked."""
        return frozenset(n for _, n in self.checked) | {c.site for c in self.calls if c.checked}

    @property
    def scatters(self) -> bool:
        return any(isinstance(e, Call) for a in self.args for e in walk(a))


@dataclass(frozen=True, slots=True)
class Site:
    """A checked access, for messages.

    `variables` are those of the sequential loops around its statement in the source, and those of the
    statement, in domain order.  With such loops, and where a pass has changed those of its stage, `loops` are
    the variables of the stage, and `values` gives the variables of the source in terms of these and of
    counters.
    """

    tensor: str
    text: str
    variables: tuple[str, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    loops: tuple[str, ...] = ()
    values: tuple[Expr, ...] = ()

    def moved(self, stage: Stage, at: Mapping[str, Expr]) -> Site:
        """The site in a stage with other loops, or in another order: the variables `at` are these expressions
        of its."""
        values = self.values or tuple(map(Variable, self.variables))
        new = tuple(substitute(v, dict(at)) for v in values)
        return replace(self, loops=stage.domain.names, values=new)


@dataclass(frozen=True, slots=True)
class Precondition:
    """A relation between sizes (and specialised scalars) that a call must satisfy.  `condition` decides;
    `shown` is its simpler form where no size is 0, for messages.  `remedy` says how else the source could be
    written, for the help of the error.
    """

    condition: Expr
    reason: str
    span: Span | None = field(default=None, compare=False, repr=False)
    shown: Expr | None = field(default=None, compare=False, repr=False)
    remedy: str = field(default="", compare=False, repr=False)

    @property
    def display(self) -> Expr:
        """The form to show: `shown`, or the condition itself if that has no simpler form."""
        return self.condition if self.shown is None or constant(self.shown) is not None else self.shown


@dataclass(frozen=True, slots=True)
class Program:
    """`inputs` and `outputs` name buffers in the order of the signature; `params` gives the order in
    which buffers and scalars are passed.  `counters` are the sizes that sequential loops around the program
    count, of which it is a part."""

    name: str
    sizes: tuple[str, ...]
    params: tuple[str, ...]
    scalars: tuple[Scalar, ...]
    buffers: tuple[Buffer, ...]
    outputs: tuple[str, ...]
    funcs: tuple[Func, ...]
    stages: tuple[Stage, ...]
    sites: tuple[Site, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
    counters: tuple[str, ...] = ()

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)

    def func(self, name: str) -> Func:
        return next(f for f in self.funcs if f.name == name)

    def stage(self, name: str) -> Stage:
        return next(s for s in self.stages if s.name == name)

    @property
    def origins(self) -> Mapping[str, Span]:
        """The places in the source of the stages that have one."""
        return {s.name: s.span for s in self.stages if s.span is not None}

    @property
    def instances(self) -> int:
        """An upper bound on the statement instances of a specialised program: those of the boxes."""
        return sum(
            math.prod(max(0, e.value) for e in _extents(s) if isinstance(e, IntImm)) for s in self.stages
        )

    @property
    def composite(self) -> bool:
        """Whether it has sequential loops or scatters, so that it is compiled in parts."""
        return any(s.loops or s.scatters for s in self.stages)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The sequential loops, outer ones before inner ones."""
        return tuple(dict.fromkeys(loop for s in self.stages for loop in s.loops))

    @property
    def images(self) -> frozenset[str]:
        """The inputs that are read."""
        return frozenset(e.name for s in self.stages for e in s.calls if e.kind == "image")

    def stages_of(self, func: str) -> Iterator[Stage]:
        return (s for s in self.stages if s.func == func)

    @property
    def func_buffers(self) -> Mapping[str, str]:
        return {f.name: f.buffer for f in self.funcs}


def _extents(s: Stage) -> tuple[Expr, ...]:
    return (*(loop.trips for loop in s.loops), *(v.range.extent for v in s.domain.vars))


def fresh(name: str, taken: Collection[str]) -> str:
    """A name that is not taken, as similar as possible to this one."""
    while name in taken:
        name += "_"
    return name


def moved_sites(program: Program, stage: Stage, at: Mapping[str, Expr] | None = None) -> tuple[Site, ...]:
    """The sites of a program after a change of one statement to `stage`, with other loops or another order;
    `at` gives old variables in terms of the new ones."""
    sites = list(program.sites)
    for number in stage.checked_sites:
        sites[number] = sites[number].moved(stage, at or {})
    return tuple(sites)
