"""Prefix reductions in chunks: `y(d) op= e(k) where k <= d` combines O(D) values instead of O(D²).

With chunks of w points, and x/w rounded down,

    sums(b)   op= e(w*b + q)                            the values of each chunk
    before(b) op= sums(c) where c < b                   a prefix reduction again, w times shorter
    y(d)        = before(d/w)
    y(d)      op= e(w*(d/w) + q) where q <= d%w         the rest, at most one chunk

The chunks are ordinary parallel loops (the scheme of Blelloch, "Prefix sums and their applications", 1990,
with wide levels).  As in any reduction, the order in which values are combined may change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.dtypes import DType, accumulator
from tc.ir.evaluate import evaluate
from tc.ir.expr import (
    GE,
    GT,
    LE,
    LT,
    ZERO,
    Add,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    Variable,
    substitute,
    variables,
)
from tc.ir.lower import neutral
from tc.ir.program import Buffer, Domain, Func, IterVar, Program, Range, Stage, fresh
from tc.ir.simplify import simplify
from tc.transforms.program.prefix_forms import Prefix, each_is_a_point, prefix_of
from tc.transforms.program.stages import tensor_names

_CHUNKS = 2  # points of a prefix, below which direct sums are as fast


def in_chunks(
    program: Program, width: Callable[[DType], int], typical: Mapping[str, int], constant: bool = False
) -> tuple[Program, tuple[str, ...]]:
    """`program` with its long prefix reductions in chunks of `width` points for values of a type, and the
    tensors that they define.

    Lengths are judged at `typical` values of dynamic sizes.  With `constant` only those reductions change
    whose temporaries have a constant size.
    """
    names: list[str] = []
    buffers = {b.name for b in program.buffers}
    while True:
        for stage in program.stages:
            prefix = prefix_of(program, stage)
            if prefix is not None and is_long(program, stage, prefix, width, typical, constant):
                break
        else:
            return program, tuple(dict.fromkeys(n for n in names if n in buffers))
        names.append(program.func_buffers[stage.func])
        w = width(accumulator(program.func(stage.func).dtype, stage.value.dtype))
        program = _Rewriter(program, stage, prefix, w).program()


def is_long(
    program: Program,
    stage: Stage,
    prefix: Prefix,
    width: Callable[[DType], int],
    typical: Mapping[str, int],
    constant: bool,
) -> bool:
    """Whether a prefix reduction has more than a few chunks of `width` points at the `typical` sizes; with
    `constant` only where its sizes are constant."""
    if constant and not stage.domain.constant:
        return False
    w = width(accumulator(program.func(stage.func).dtype, stage.value.dtype))
    results = [v for v in stage.domain.vars if v.name in prefix.along]
    return min(evaluate(v.range.extent, typical) for v in (prefix.var, *results)) > _CHUNKS * w


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A new temporary, as a function of the points along the reduction: of the chunks, or of the values."""

    name: str
    dtype: DType
    kept: tuple[Variable, ...]
    place: int

    def at(self, point: Expr) -> Call:
        args = (*self.kept[: self.place], point, *self.kept[self.place :])
        return Call(self.name, args, self.dtype, "func")


class _Rewriter:
    """Rewrites one stage to several."""

    def __init__(self, program: Program, stage: Stage, prefix: Prefix, width: int) -> None:
        self.source = program
        self.stage = stage
        self.prefix = prefix
        self.width = width
        self.func = program.func(stage.func)
        self.dtype = accumulator(self.func.dtype, stage.value.dtype)
        self.temporaries: list[Stage] = []
        self.results: list[Stage] = []
        self.buffers: list[Buffer] = []
        self.taken = tensor_names(program)
        self.stage_names = {s.name for s in program.stages}
        self.variables = set(stage.domain.names) | set(program.sizes)
        of_values = variables(stage.value).union(*map(variables, prefix.of_values))
        # The dimensions of temporaries, in the order of the result's; the variables of the bound become one.
        order = [v for a in stage.args for v in variables(a)]
        pure = {v.name: v for v in stage.domain.vars if v.kind == "pure"}
        kept = [v for v in order if v in of_values and v not in prefix.along]
        first = next(i for i, v in enumerate(order) if v in prefix.along)
        self.kept = tuple(pure[v] for v in kept)
        self.place = sum(v in kept for v in order[:first])

    # ---- parts of stages

    def tensor(self, stem: str, r: Range) -> _Tensor:
        name = fresh(f"{self.func.buffer}_{stem}", self.taken)
        self.taken.add(name)
        ranges = [v.range for v in self.kept]
        ranges.insert(self.place, r)
        self.buffers.append(Buffer(name, self.dtype, tuple(ranges), "temporary"))
        return _Tensor(name, self.dtype, tuple(Variable(v.name) for v in self.kept), self.place)

    def variable(self, stem: str, r: Range, kind: str = "pure") -> IterVar:
        name = fresh(stem, self.variables)
        self.variables.add(name)
        return IterVar(name, r, "pure" if kind == "pure" else "reduction")

    def pure(self, point: IterVar) -> tuple[IterVar, ...]:
        return (*self.kept[: self.place], point, *self.kept[self.place :])

    def add(self, to: Call, op: bool, value: Expr, domain: Domain, init: bool = False) -> None:
        s = self.stage
        # A func that defines its buffer again has another name, which is not part of those of statements.
        suffix = "" if to.name == s.func else to.name.removeprefix(self.func.buffer)
        name = fresh(f"{s.name}{suffix}{'i' if init else ''}", self.stage_names)
        self.stage_names.add(name)
        new = Stage(
            name, to.name, to.args, s.op if op else None, value, domain, s.text, init, s.span, s.loops
        )
        (self.results if to.name == s.func else self.temporaries).append(new)

    def reduction(
        self, to: Call, point: IterVar, inner: Sequence[IterVar], value: Expr, conditions: Sequence[Expr]
    ) -> None:
        """A tensor that is `value` combined over `inner`."""
        assert self.stage.op is not None
        pure = self.pure(point)
        self.add(to, False, neutral(self.stage.op, self.dtype), Domain(pure), True)
        self.add(to, True, value, Domain((*pure, *inner), tuple(conditions)))

    # ---- the values

    def values(self) -> Callable[[Expr], Expr]:
        """The combined values as a function of the point: a read is repeated, any other value gets a
        temporary."""
        p, s = self.prefix, self.stage
        value = s.value
        inner = value.value if isinstance(value, Cast) else value
        plain = isinstance(inner, Call) and inner.kind != "intrinsic"
        if plain and not p.inner and not p.of_values:
            return lambda at: self.cast(substitute(value, {p.var.name: at}))
        point = replace(p.var, kind="pure")
        u = self.tensor("values", p.var.range)
        at = u.at(Variable(p.var.name))
        if p.inner or p.of_values:
            self.reduction(at, point, p.inner, value, p.of_values)
        else:
            self.add(at, False, self.cast(value), Domain(self.pure(point)))
        return u.at

    def cast(self, value: Expr) -> Expr:
        return value if value.dtype == self.dtype else Cast(self.dtype, value)

    # ---- the stages

    def program(self) -> Program:
        stage, at = self.stage, self.source.stages.index(self.stage)
        before, after = self.source.stages[:at], self.source.stages[at + 1 :]
        start = before[-1:] if before and before[-1].init and before[-1].func == stage.func else ()
        before = before[: len(before) - len(start)]
        values = self.values()
        if self.aligned():
            # The results start from the values before their chunk, not from the neutral element.
            anew = bool(start) and not self.prefix.of_results
            self.chunks(values, anew)
            start = () if anew else start
        else:
            self.from_prefixes(values)
        where = self.source.funcs.index(self.func)
        funcs = [Func(b.name, b.name, b.dtype, b.box, None) for b in self.buffers]
        return replace(
            self.source,
            buffers=(*self.source.buffers, *self.buffers),
            funcs=(*self.source.funcs[:where], *funcs, *self.source.funcs[where:]),
            stages=(*before, *self.temporaries, *start, *self.results, *after),
        )

    def aligned(self) -> bool:
        """Whether each point of the reduction is also a point of the results, which have a prefix each."""
        p = self.prefix
        if p.offset not in (0, 1 if p.suffix else -1) or self.func.dtype != self.dtype:
            return False
        d = next(v.range for v in self.stage.domain.vars if v.name in p.along)
        return each_is_a_point(p, d)

    def chunks(self, values: Callable[[Expr], Expr], anew: bool) -> None:
        """The results from the sums of chunks, the prefixes of these, and the rest."""
        p, s, w = self.prefix, self.stage, IntImm(self.width)
        first, extent = p.var.range.min, p.var.range.extent
        count = simplify(FloorDiv(Add(extent, IntImm(self.width - 1)), w), exact=True)
        numbers = Range(ZERO, count)
        sums, before = self.tensor("sums", numbers), self.tensor("before", numbers)
        inside = self.variable(f"{p.var.name}_in", Range(ZERO, w), "reduction")
        chunk = self.variable(f"{p.var.name}_chunk", numbers)

        def ends(at: Expr) -> list[Expr]:
            """The condition that a point of a chunk exists."""
            whole = isinstance(extent, IntImm) and extent.value % self.width == 0
            return [] if whole else [LT(at, extent)]

        at = Add(Mul(Variable(chunk.name), w), Variable(inside.name))
        value = values(simplify(Add(first, at), exact=True))
        self.reduction(sums.at(Variable(chunk.name)), chunk, (inside,), value, ends(at))
        other = self.variable(f"{p.var.name}_other", numbers, "reduction")
        outside = (GT if p.suffix else LT)(Variable(other.name), Variable(chunk.name))
        value = sums.at(Variable(other.name))
        self.reduction(before.at(Variable(chunk.name)), chunk, (other,), value, (outside,))

        (d,) = p.along
        pure = tuple(v for v in s.domain.vars if v.kind == "pure")
        mine = simplify(Sub(Variable(d), first), exact=True)
        number, place = FloorDiv(mine, w), FloorMod(mine, w)
        result = Call(s.func, s.args, self.dtype, "func")
        self.add(result, not anew, before.at(number), Domain(pure, p.of_results))
        strict = p.offset != 0
        compare = {(False, False): LE, (False, True): LT, (True, False): GE, (True, True): GT}
        at = Add(Mul(number, w), Variable(inside.name))
        left = compare[p.suffix, strict](Variable(inside.name), place)
        conditions = (*p.of_results, left, *(ends(at) if p.suffix else ()))
        value = values(simplify(Add(first, at), exact=True))
        self.add(result, True, value, Domain((*pure, inside), conditions))

    def from_prefixes(self, values: Callable[[Expr], Expr]) -> None:
        """The results from the prefixes of all points, which get a tensor of their own."""
        p, s = self.prefix, self.stage
        first, last = p.var.range.min, simplify(Sub(p.var.range.end, IntImm(1)), exact=True)
        every = self.tensor("prefixes", p.var.range)
        point = self.variable(f"{p.var.name}_last", p.var.range)
        own = (GE if p.suffix else LE)(Variable(p.var.name), Variable(point.name))
        value = values(Variable(p.var.name))
        self.reduction(every.at(Variable(point.name)), point, (p.var,), value, (own,))
        if p.suffix:
            at, some = Max(p.bound, first), LE(p.bound, last)
        else:
            at, some = Min(p.bound, last), GE(p.bound, first)
        pure = tuple(v for v in s.domain.vars if v.kind == "pure")
        result = Call(s.func, s.args, self.func.dtype, "func")
        value = every.at(simplify(at, exact=True))
        self.add(result, True, value, Domain(pure, (*p.of_results, simplify(some, exact=True))))
