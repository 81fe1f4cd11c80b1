"""A Program as Halide Funcs.

One `hl.Func` per Func of the IR, indexed in reverse (Halide's first dimension is the contiguous one):

* its pure definition is the first stage if that covers the box without reading the Func itself, else a
  copy of the version (or the caller's values) it starts from, else `undef`;
* every other stage is an update.  A dimension stays a pure Var where the stage covers it from end to end and
  reads of the own Func use the same coordinate; everything else is an RVar.  The last variable of a domain
  is innermost;
* `where` conditions become the RDom's predicate;
* inputs are ImageParams, scalars and sizes that are still symbols Params; no ImageParam has static strides or
  bounds, for which Halide 21 emits aligned vector loads from memory that need not be aligned;
* all Funcs are `compute_root` (Halide would otherwise inline and recompute them), all outputs one Pipeline.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tc.dtypes import INT32, DType
from tc.halide import arithmetic
from tc.halide.binding import LOCK, HlExpr, hl, storage
from tc.halide.expressions import Scope, Tensor
from tc.halide.limits import is_checked, refuse
from tc.halide.text import render
from tc.ir import expr as x
from tc.ir.intervals import Interval, box_interval
from tc.ir.program import Buffer, Func, IterVar, Program, Stage


@dataclass(frozen=True, slots=True)
class Definition:
    """A pure definition or an update of `func`, as it was made: what `text` prints.

    `stage` None: a first definition by copy of `start`, or `undef` without one.  `axes` names the Func's
    dimensions, `axis_names` the stage's variables that are pure, `reduced` those that are not.
    """

    func: Any
    axes: tuple[str, ...]
    scope: Scope
    stage: Stage | None = None
    start: str = ""
    axis_names: dict[str, str] = field(default_factory=dict[str, str])
    reduced: frozenset[str] = frozenset()
    sources: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def text(self) -> str:
        """The source statement."""
        return self.stage.text if self.stage else ""


@dataclass(frozen=True, slots=True)
class Lowered:
    """The Funcs of a program.

    `images`: the ImageParams of inputs and (under the buffer's name) of the caller's values of in/out
    outputs; `params`: scalars and symbolic sizes; `funcs`: by IR name; `outputs`: the pipeline's Funcs in
    the order of `program.outputs`; `definitions`: all that was defined, in order; `names`: Halide's names
    to those of the IR.
    """

    program: Program
    pipeline: Any
    images: dict[str, Any]
    params: dict[str, Any]
    funcs: dict[str, Any]
    outputs: tuple[Any, ...]
    definitions: tuple[Definition, ...]
    names: dict[str, str]


def build(program: Program, *, unscheduled: bool = False) -> Lowered:
    """Lower a program, symbolic or specialised.

    `unscheduled` leaves the schedule to an autoscheduler.  It may compute points beyond a stage's domain, so
    every subscript is clamped.
    Raises BackendError (TC0805) naming what Halide cannot follow (`limits`).
    """
    refuse(program)
    with LOCK:
        return _Builder(program, unscheduled).run()


class _Builder:
    def __init__(self, program: Program, unscheduled: bool) -> None:
        self.program = program
        self.unscheduled = unscheduled
        self.names: dict[str, str] = {}
        self.images: dict[str, Any] = {}
        self.params: dict[str, Any] = {}
        self.sizes: dict[str, HlExpr] = {}
        self.tensors: dict[str, Tensor] = {}
        self.funcs: dict[str, Any] = {}
        self.definitions: list[Definition] = []

    def run(self) -> Lowered:
        p = self.program
        for n in p.sizes:
            self.sizes[n] = self.params[n] = hl.Param(hl.Int(32), self._name(n))
        for s in p.scalars:
            if s.value is None:
                self.params[s.name] = hl.Param(storage(s.dtype), self._name(s.name))
        for b in p.buffers:
            if b.role == "input":
                self.tensors[b.name] = Tensor(self._image(b, b.name), b.box, b.dtype)
        last: dict[str, str] = {}
        for f in p.funcs:
            self._func(f)
            if f.name in self.funcs:
                last[f.buffer] = f.name
        results = [last[n] for n in p.outputs]
        outputs = tuple(self.funcs[n] for n in results)
        for f in p.funcs:
            if f.name in self.funcs and f.name not in results:
                self._compute_all(f)
        if not self.unscheduled:
            for f in self.funcs.values():
                f.compute_root()
        return Lowered(
            p,
            hl.Pipeline(list(outputs)),
            self.images,
            self.params,
            self.funcs,
            outputs,
            tuple(self.definitions),
            self.names,
        )

    def _compute_all(self, f: Func) -> None:
        """Halide computes the elements that results need; where subscripts are checked, all of them count."""
        if not any(map(is_checked, self.program.stages_of(f.name))):
            return
        func = self.funcs[f.name]
        for axis, r in zip(reversed(func.args()), f.box, strict=True):
            low, extent = x.constant(r.min), x.constant(r.extent)
            if low is not None and extent is not None:
                func.bound(axis, int(low), int(extent))

    # ---- names and images

    def _name(self, name: str) -> str:
        """A name Halide and the linker accept, distinct in the program: `tanh` or `3d.1` are not."""
        base = "tc_" + re.sub(r"\W", "_", name, flags=re.ASCII)
        made, n = base, 1
        while made in self.names:
            n += 1
            made = f"{base}_{n}"
        self.names[made] = name
        return made

    def _image(self, b: Buffer, shown: str) -> Any:
        image = self.images[b.name] = hl.ImageParam(storage(b.dtype), len(b.box), self._name(shown))
        return image

    # ---- Funcs

    def _func(self, f: Func) -> None:
        buffer = self.program.buffer(f.buffer)
        stages = list(self.program.stages_of(f.name))
        from_caller = buffer.inout and all(g.buffer != f.buffer or g is f for g in self._before(f))
        if from_caller and not (stages and self._is_pure_definition(f, stages[0])):
            given = Tensor(self._image(buffer, f"{f.buffer} as given"), f.box, f.dtype)
            if not stages:
                self.tensors[f.name] = given
                return
        else:
            given = None if f.previous is None else self.tensors[f.previous]
        func = hl.Func(self._name(f.name))
        self.names[func.name()] = self.names.get(func.name(), f.name)
        self.funcs[f.name] = func
        axes = [hl.Var(f"i{d}") for d in range(len(f.box))]
        if stages and self._is_pure_definition(f, stages[0]):
            first = stages.pop(0)
            axes = [hl.Var(v.name) for v in first.domain.vars]
            scope = self._scope(first, dict(zip(first.domain.names, axes, strict=True)))
            func[tuple(reversed(axes))] = _stored(scope.value(first.value), f.dtype)
            self._note(func, axes, scope, stage=first, axis_names={n: n for n in first.domain.names})
        else:
            start = hl.undef(storage(f.dtype)) if given is None else given.source[tuple(reversed(axes))]
            func[tuple(reversed(axes))] = start
            self._note(func, axes, self._scope(None, {}), start="" if given is None else given.source.name())
        self.tensors[f.name] = Tensor(func, f.box, f.dtype)
        for s in stages:
            self._update(f, func, axes, s)

    def _note(self, func: Any, axes: list[Any], scope: Scope, **rest: Any) -> None:
        sources = {n: t.source.name() for n, t in self.tensors.items()}
        names = tuple(a.name() for a in axes)
        self.definitions.append(Definition(func, names, scope, sources=sources, **rest))

    def _before(self, f: Func) -> list[Func]:
        out: list[Func] = []
        for g in self.program.funcs:
            if g is f:
                break
            out.append(g)
        return out

    def _is_pure_definition(self, f: Func, s: Stage) -> bool:
        whole = tuple(s.args) == tuple(x.Variable(v.name) for v in s.domain.vars)
        box = tuple(v.range for v in s.domain.vars) == f.box
        return s.op is None and whole and box and not s.domain.conditions and not _self_reads(s)

    def _update(self, f: Func, func: Any, axes: list[Any], s: Stage) -> None:
        spans = {v.name: box_interval((v.range,), 0) for v in s.domain.vars}
        if any(span is not None and span[0] > span[1] for span in spans.values()):
            return  # no instance
        pure = self._pure_axes(f, s)
        rvars = [v for v in s.domain.vars if v.name not in pure]
        ranges = tuple(map(self._range, reversed(rvars)))
        indices: dict[str, HlExpr] = {n: axes[d] for n, d in pure.items()}
        reduction: Any = hl.RDom([hl.Range(*r) for r in ranges], "r") if rvars else None
        for k, v in enumerate(rvars):
            indices[v.name] = reduction[len(rvars) - 1 - k]
        scope = self._scope(s, indices)
        for c in s.domain.conditions:
            reduction.where(scope.condition(c))
        args = tuple(
            axes[d] if isinstance(a, x.Variable) and pure.get(a.name) == d else scope.index(a)
            for d, a in enumerate(s.args)
        )
        value = self._counted(s, rvars, indices, scope.value(s.value))
        if s.op in ("min", "max") and s.value.dtype == INT32 and not _reads(s):
            # Halide ends a loop where `min(f, k)` is f, by the f before the loop, and then stores k alone.
            # It does not see through a double, which holds every int32.
            value = hl.i32(hl.f64(value))
        if s.op is not None:
            value = arithmetic.combine(s.op, self.tensors[f.name].at(list(args)), value, f.dtype)
        func[tuple(reversed(args))] = _stored(value, f.dtype)
        axis_names = {n: axes[d].name() for n, d in pure.items()}
        reduced = frozenset(v.name for v in rvars)
        self._note(func, axes, scope, stage=s, axis_names=axis_names, reduced=reduced)

    def _counted(self, s: Stage, rvars: list[IterVar], indices: dict[str, HlExpr], value: HlExpr) -> HlExpr:
        """Halide drops dimensions of an RDom that an update does not mention: mention them."""
        mentioned = {n for e in (s.value, *s.args) for n in x.variables(e)}
        for v in rvars:
            if v.name not in mentioned:
                before_the_first = indices[v.name] < self._range(v)[0]
                value = hl.select(before_the_first, hl.cast(value.type(), hl.i32(0)), value)
        return value

    def _pure_axes(self, f: Func, s: Stage) -> dict[str, int]:
        """The dimensions of an update that stay pure: {variable: position}."""
        reads = _self_reads(s)
        loops = {v.name: v for v in s.domain.vars}
        out: dict[str, int] = {}
        for d, a in enumerate(s.args):
            if not isinstance(a, x.Variable) or loops[a.name].range != f.box[d]:
                continue
            uses = [[a.name in x.variables(sub) for sub in r.args] for r in reads]
            # A pure Var stands in its own place, alone, in every read of the Func.
            if all(r.args[d] == a and sum(u) == 1 for r, u in zip(reads, uses, strict=True)):
                out[a.name] = d
        everything = len(out) == len(s.domain.vars)
        if everything and (s.domain.conditions or not (reads or s.op)):
            return {}  # a predicate needs an RDom, and a full redefinition would hide what came before
        return out

    def _range(self, v: IterVar) -> tuple[HlExpr, HlExpr]:
        scope = self._scope(None, {})
        return scope.index(v.range.min), scope.index(v.range.extent)

    def _scope(self, s: Stage | None, indices: dict[str, HlExpr]) -> Scope:
        intervals: dict[str, Interval | None] = dict.fromkeys(self.sizes)
        intervals |= {n.name: None for n in self.program.scalars if n.specialized and n.value is None}
        point: tuple[HlExpr, ...] = ()
        live: HlExpr | None = None
        if s is not None:
            intervals |= {v.name: box_interval((v.range,), 0) for v in s.domain.vars}
            point = tuple(indices[v.name] for v in s.domain.vars)
            for v in s.domain.vars:
                if isinstance(indices[v.name], hl.Var):
                    live = self._inside(indices[v.name], v, live)
        return Scope(
            {**self.sizes, **indices},
            intervals,
            {n: q for n, q in self.params.items() if n not in self.sizes},
            self.tensors,
            point,
            live,
            "" if s is None else s.func,
            self.unscheduled,
        )

    def _inside(self, var: HlExpr, v: IterVar, held: HlExpr | None) -> HlExpr:
        """Schedules may round a pure dimension up: those points' subscripts are not checked."""
        bounds = Scope(self.sizes, dict.fromkeys(self.sizes), self.params, {}, (), None, "", False)
        lo, extent = bounds.index(v.range.min), bounds.index(v.range.extent)
        here = (var >= lo) & (var < lo + extent)
        return here if held is None else held & here


def _self_reads(s: Stage) -> list[x.Call]:
    return [c for c in x.walk(s.value) if isinstance(c, x.Call) and c.kind == "func" and c.name == s.func]


def _reads(s: Stage) -> bool:
    return any(isinstance(c, x.Call) and c.kind != "intrinsic" for c in x.walk(s.value))


def _stored(value: HlExpr, dtype: DType) -> HlExpr:
    """A value as it is kept in memory."""
    return hl.cast(hl.UInt(8), value) if dtype.is_bool else value


def show(program: Program) -> str:
    """The program as Halide Funcs, symbolic or specialised: one definition a line."""
    with LOCK:
        return render(build(program))
