"""Long reductions in parts: `s op= f(k)` becomes partial results of chunks of `k`, and their combination.

The partial results are a new Func whose chunk is a pure variable, so that everything downstream sees ordinary
parallel loops (Suriana, Adams and Kamil, "Parallel associative reductions in Halide", 2017).  The
order of combination is fixed by the program, not by how many threads run it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from tc.dtypes import accumulator
from tc.ir.evaluate import evaluate
from tc.ir.expr import LT, Add, Call, Expr, FloorDiv, IntImm, Mul, Variable, substitute, variables, walk
from tc.ir.lower import neutral
from tc.ir.program import Buffer, Domain, Func, IterVar, Program, Range, Stage, fresh, moved_sites
from tc.ir.simplify import simplify

_GRAIN = 64  # chunks of what is contiguous are whole cache lines
_DYNAMIC = 1 << 13  # instances of a chunk of dynamic length at most: all are looked at, also of a short one


def split_reductions(
    program: Program,
    chunks: int,
    fewest: int,
    done: Collection[str] = frozenset(),
    typical: Mapping[str, int] | None = None,
    many: Callable[[Stage], tuple[int, int] | None] | None = None,
) -> Program:
    """Every reduction with at least `fewest` instances but fewer results than there should be tasks
    (`chunks`), in up to `chunks` parts; but those of the stages `done`.

    `many`: both numbers for a reduction of which a task has many results, if it is one.  Where sizes are
    dynamic, at their `typical` values: chunks are as long as they would be then, so for larger ones there are
    more.
    """
    for stage in program.stages:
        numbers = many(stage) if many is not None else None
        where = _split(stage, *(numbers or (chunks, fewest)), typical or {})
        if where is not None and stage.name not in done:
            program = _factored(program, stage, *where)
    return program


def is_product(stage: Stage) -> bool:
    """Whether results share what they read along two variables, as those of a product of matrices do."""
    pure = {v.name for v in stage.domain.vars if v.kind == "pure"}
    missing = [pure - {v for a in e.args for v in variables(a)} for e in _reads(stage)]
    return any(a - b and b - a for a, b in itertools.combinations(missing, 2))


def is_of_columns(stage: Stage) -> bool:
    """Whether neighbours in memory go into different results, and all that is read is for one of these."""
    pure = {v.name for v in stage.domain.vars if v.kind == "pure"}
    reads = _reads(stage)
    last = [variables(e.args[-1]) for e in reads]
    whole = all(pure <= {v for a in e.args for v in variables(a)} for e in reads)
    return whole and bool(last) and all(v and v <= pure for v in last)


def _reads(stage: Stage) -> list[Call]:
    return [e for e in walk(stage.value) if isinstance(e, Call) and e.kind != "intrinsic" and e.args]


def chunked_reductions(
    program: Program,
    chunks: int,
    fewest: int,
    itemsize: int,
    typical: Mapping[str, int] | None = None,
    many: Callable[[Stage], tuple[int, int] | None] | None = None,
) -> tuple[Program, Mapping[str, str]]:
    """The same reductions, each with a loop over its chunks instead of partial results: what updates results
    of up to `itemsize` bytes, in the type in which it computes them, and does not read them otherwise.  With
    the variable of this loop for each stage that has one now."""
    found: dict[str, str] = {}
    for stage in program.stages:
        numbers = many(stage) if many is not None else None
        where = _split(stage, *(numbers or (chunks, fewest)), typical or {})
        t = program.func(stage.func).dtype
        reads = {e.name for e in walk(stage.value) if isinstance(e, Call) and e.kind != "intrinsic"}
        plain = accumulator(t, stage.value.dtype) == t and 4 <= t.itemsize <= itemsize
        if where is None or not plain or stage.func in reads:
            continue
        var, size = where
        chunks_of, inner, at, conditions = _chunks(stage, var, size)
        pure = [v for v in stage.domain.vars if v.kind == "pure"]
        rest = [inner if v is var else v for v in stage.domain.vars if v.kind != "pure"]
        domain = Domain((*pure, replace(chunks_of, kind="reduction"), *rest), conditions)
        new = replace(stage, value=substitute(stage.value, dict(at)), domain=domain)
        stages = tuple(new if s is stage else s for s in program.stages)
        program = replace(program, stages=stages, sites=moved_sites(program, new, at))
        found[stage.name] = chunks_of.name
    return program, found


def _split(stage: Stage, chunks: int, fewest: int, typical: Mapping[str, int]) -> tuple[IterVar, int] | None:
    """The variable to split and the length of its chunks."""
    reductions = [v for v in stage.domain.vars if v.kind == "reduction"]
    extents = {v.name: max(0, evaluate(v.range.extent, typical)) for v in stage.domain.vars}
    results = math.prod(extents[v.name] for v in stage.domain.vars if v.kind == "pure")
    instances = math.prod(extents.values())
    if stage.op is None or not reductions or results >= chunks or instances < fewest:
        return None
    wanted = max(2, chunks // max(1, results))
    # The outermost that is long enough: what is inside stays contiguous.
    var = next((v for v in reductions if extents[v.name] >= wanted), None)
    if var is None:
        var = max(reductions, key=lambda v: extents[v.name])
    extent = extents[var.name]
    size = math.ceil(extent / min(wanted, extent))
    if not isinstance(var.range.extent, IntImm):
        size = min(size, math.ceil(_DYNAMIC * extent / instances))
    if var is reductions[-1]:
        size = math.ceil(size / _GRAIN) * _GRAIN
    return (var, size) if size < extent else None


def _factored(program: Program, stage: Stage, var: IterVar, size: int) -> Program:
    assert stage.op is not None
    taken = {b.name for b in program.buffers} | {f.name for f in program.funcs}
    name = fresh(f"{stage.func}_part", taken)
    func = program.func(stage.func)
    dtype = accumulator(func.dtype, stage.value.dtype)
    chunks, inner, at, conditions = _chunks(stage, var, size)
    pure = [v for v in stage.domain.vars if v.kind == "pure"]
    box = (chunks.range, *(v.range for v in pure))
    args: tuple[Expr, ...] = (Variable(chunks.name), *(Variable(v.name) for v in pure))
    start_value = neutral(stage.op, dtype)
    init = Stage(
        fresh(f"{stage.name}i", {s.name for s in program.stages}), name, args, None, start_value,
        Domain((chunks, *pure)), stage.text, True, stage.span,
    )  # fmt: skip
    rest = tuple(inner if v is var else v for v in stage.domain.vars if v.kind == "reduction")
    update = Stage(
        fresh(f"{stage.name}p", {s.name for s in program.stages}), name, args, stage.op,
        substitute(stage.value, dict(at)), Domain((chunks, *pure, *rest), conditions), stage.text, False,
        stage.span,
    )  # fmt: skip
    parts = replace(chunks, kind="reduction")
    combined = replace(stage, value=Call(name, args, dtype, "func"), domain=Domain((*pure, parts)))
    position = program.stages.index(stage)
    before, after = program.stages[:position], program.stages[position + 1 :]
    own = program.func_buffers[stage.func]
    reads = any(isinstance(e, Call) and program.func_buffers.get(e.name) == own for e in walk(stage.value))
    # What starts the results goes where they are used, and can stay in registers until they are combined.
    start = () if reads or not before or before[-1].func != stage.func else before[-1:]
    stages = (*before[: len(before) - len(start)], init, update, *start, combined, *after)
    where = next(i for i, f in enumerate(program.funcs) if f.name == stage.func)
    new = Func(name, name, dtype, box, None)
    return replace(
        program,
        buffers=(*program.buffers, Buffer(name, dtype, box, "temporary")),
        funcs=(*program.funcs[:where], new, *program.funcs[where:]),
        stages=stages,
        sites=moved_sites(program, update, at),
    )


def _chunks(
    stage: Stage, var: IterVar, size: int
) -> tuple[IterVar, IterVar, Mapping[str, Expr], tuple[Expr, ...]]:
    """The chunks of a variable, of `size` points; a point of one; what the variable is of these; and the
    conditions of the stage then."""
    extent = var.range.extent
    names = set(stage.domain.names)
    chunk, inside = fresh(f"{var.name}_chunk", names), fresh(f"{var.name}_in", names)
    start = Mul(Variable(chunk), IntImm(size))
    at: dict[str, Expr] = {var.name: simplify(Add(var.range.min, Add(start, Variable(inside))), exact=True)}
    conditions = tuple(simplify(substitute(c, dict(at)), exact=True) for c in stage.domain.conditions)
    if not isinstance(extent, IntImm) or extent.value % size:
        conditions = (*conditions, LT(Add(start, Variable(inside)), extent))
    count = simplify(FloorDiv(Add(extent, IntImm(size - 1)), IntImm(size)), exact=True)
    chunks = IterVar(chunk, Range(IntImm(0), count), "pure")
    return chunks, IterVar(inside, Range(IntImm(0), IntImm(size)), "reduction"), at, conditions
