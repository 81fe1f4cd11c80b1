"""Long reductions in parts: `s op= f(j, k)` becomes partial results of each `j`, or of chunks of `k`, or of
both, and their combination.

The partial results are a new Func whose parts are pure variables, so that everything downstream sees ordinary
parallel loops (Suriana, Adams and Kamil, "Parallel associative reductions in Halide", 2017).  The
order of combination is fixed by the program, not by how many threads run it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.dtypes import accumulator
from tc.ir.evaluate import evaluate
from tc.ir.expr import LT, Add, Call, Expr, FloorDiv, IntImm, Mul, Variable, substitute, variables, walk
from tc.ir.lower import neutral
from tc.ir.program import Buffer, Domain, Func, IterVar, Program, Range, Stage, fresh, moved_sites
from tc.ir.simplify import simplify

_GRAINS = (64, 32, 16, 8, 1)  # parts of what is contiguous are whole cache lines where that costs nothing,
_LONGER, _SHORTER = 4, 16  # no part grows by a fourth, nor is the last one shorter by a 16th of all
_LEAST, _LEAST_ROW = 64, 128  # instances of a part, about; points of a row where outer loops are split, too
_DYNAMIC = 1 << 13  # instances of a part of dynamic length at most: all are looked at, also of a short one


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
        sizes = part_sizes(stage, *(numbers or (chunks, fewest)), typical or {})
        if sizes and stage.name not in done:
            program = _factored(program, stage, sizes)
    return program


def is_product(stage: Stage) -> bool:
    """Whether results share what they read along two variables, as those of a product of matrices do."""
    pure = {v.name for v in stage.domain.vars if v.kind == "pure"}
    missing = [pure - {v for a in e.args for v in variables(a)} for e in reads_of(stage)]
    return any(a - b and b - a for a, b in itertools.combinations(missing, 2))


def is_of_columns(stage: Stage, of: Collection[str] | None = None) -> bool:
    """Whether neighbours in memory go into different results, and all that is read (of these Funcs and
    images) is for one of these."""
    pure = {v.name for v in stage.domain.vars if v.kind == "pure"}
    reads = [e for e in reads_of(stage) if of is None or e.name in of]
    last = [variables(e.args[-1]) for e in reads]
    whole = all(pure <= {v for a in e.args for v in variables(a)} for e in reads)
    return whole and bool(last) and all(v and v <= pure for v in last)


def around_rows(stage: Stage, of: Collection[str] | None = None) -> frozenset[str]:
    """The variables of a reduction over rows of neighbours that go farther in memory than its results do:
    with each of their points the rows of all results come once.  None where not all that is read (of these
    Funcs and images) is so."""
    pure = {v.name for v in stage.domain.vars if v.kind == "pure"}
    found: set[frozenset[str]] = set()
    for e in (e for e in reads_of(stage) if of is None or e.name in of):
        names = [variables(a) for a in e.args]
        last = max((i for i, x in enumerate(names) if x & pure), default=0)
        rows = last < len(names) - 1 and pure <= set[str]().union(*names)
        found.add(frozenset(set[str]().union(*names[:last]) - pure) if rows else frozenset())
    return found.pop() if len(found) == 1 else frozenset()


def reads_of(stage: Stage) -> list[Call]:
    """The elements of tensors that a stage reads."""
    return [e for e in walk(stage.value) if isinstance(e, Call) and e.kind != "intrinsic" and e.args]


def chunked_reductions(
    program: Program,
    chunks: int,
    fewest: int,
    itemsize: int,
    typical: Mapping[str, int] | None = None,
    many: Callable[[Stage], tuple[int, int] | None] | None = None,
) -> tuple[Program, Mapping[str, Sequence[str]]]:
    """The same reductions, each with loops over its parts instead of partial results: what updates results
    of up to `itemsize` bytes, in the type in which it computes them, and does not read them otherwise.  With
    the variables of these loops for each stage that has some now."""
    found: dict[str, Sequence[str]] = {}
    for stage in program.stages:
        numbers = many(stage) if many is not None else None
        sizes = part_sizes(stage, *(numbers or (chunks, fewest)), typical or {})
        t = program.func(stage.func).dtype
        reads = {e.name for e in walk(stage.value) if isinstance(e, Call) and e.kind != "intrinsic"}
        plain = accumulator(t, stage.value.dtype) == t and 4 <= t.itemsize <= itemsize
        if not sizes or not plain or stage.func in reads:
            continue
        cut = _parts(stage, sizes)
        pure = [v for v in stage.domain.vars if v.kind == "pure"]
        outer = [replace(v, kind="reduction") for v in cut.outer]
        domain = Domain((*pure, *outer, *cut.inner), cut.conditions)
        new = replace(stage, value=substitute(stage.value, dict(cut.at)), domain=domain)
        stages = tuple(new if s is stage else s for s in program.stages)
        program = replace(program, stages=stages, sites=moved_sites(program, new, cut.at))
        found[stage.name] = tuple(v.name for v in outer)
    return program, found


def part_sizes(stage: Stage, parts: int, fewest: int, typical: Mapping[str, int]) -> Mapping[str, int]:
    """The variables of a reduction that are split, each with the points of its parts: outer ones whole, each
    point a part, until the next would be too many; that in chunks.  What is inside stays contiguous."""
    extents = {v.name: max(0, evaluate(v.range.extent, typical)) for v in stage.domain.vars}
    results = math.prod(extents[v.name] for v in stage.domain.vars if v.kind == "pure")
    instances = math.prod(extents.values())
    near = _near(stage, extents)
    order = _outermost_first(stage, near)
    if stage.op is None or not order or results >= parts or instances < fewest:
        return {}
    wanted = min(max(2, parts // max(1, results)), math.ceil(instances / max(1, results) / _LEAST))
    sizes: dict[str, int] = {}
    for v in order:
        extent, last = extents[v.name], v is order[-1]
        if not last and extent <= wanted:
            if extent > 1 or not isinstance(v.range.extent, IntImm):
                sizes[v.name] = 1
            wanted = round(wanted / max(1, extent))
            instances //= max(1, extent)
            continue
        size = math.ceil(extent / max(1, min(wanted, extent)))
        if not isinstance(v.range.extent, IntImm):
            size = min(size, math.ceil(_DYNAMIC * extent / max(1, instances)))
        if last:
            size = _even(extent, max(size, _LEAST_ROW if sizes else _LEAST), v.name in near)
        if size < extent:
            sizes[v.name] = size
        break
    return sizes


def _even(extent: int, size: int, near: bool) -> int:
    """The points of parts that are about so long: as whole as can be of cache lines, if neighbours are `near`
    in memory; else as many in each, if as many parts or up to half as many more have that."""
    if not near:
        parts = max(1, round(extent / size))
        equal = [n for n in range(parts, parts + -(-parts // 2) + 1) if extent % n == 0]
        return extent // equal[0] if equal else -(-extent // parts)
    for grain in _GRAINS:
        longer = math.ceil(size / grain) * grain
        beyond = math.ceil(extent / longer) * longer - extent
        if _LONGER * (longer - size) <= size and _SHORTER * beyond <= extent:
            return longer
    return math.ceil(extent / max(1, round(extent / size)))


def _outermost_first(stage: Stage, near: Collection[str]) -> Sequence[IterVar]:
    """The variables of a reduction, last those along which neighbours are `near`."""
    reductions = [v for v in stage.domain.vars if v.kind == "reduction"]
    return sorted(reductions, key=lambda v: v.name in near)


def _near(stage: Stage, extents: Mapping[str, int]) -> frozenset[str]:
    """The variables along which neighbours are of what is read most."""

    def elements(e: Call) -> int:
        return math.prod(extents.get(v, 1) for v in {v for a in e.args for v in variables(a)})

    most = max(reads_of(stage), key=elements, default=None)
    return frozenset(variables(most.args[-1])) if most is not None else frozenset()


def _factored(program: Program, stage: Stage, sizes: Mapping[str, int]) -> Program:
    assert stage.op is not None
    taken = {b.name for b in program.buffers} | {f.name for f in program.funcs}
    name = fresh(f"{stage.func}_part", taken)
    func = program.func(stage.func)
    dtype = accumulator(func.dtype, stage.value.dtype)
    cut = _parts(stage, sizes)
    pure = [v for v in stage.domain.vars if v.kind == "pure"]
    box = tuple(v.range for v in (*cut.outer, *pure))
    args: tuple[Expr, ...] = tuple(Variable(v.name) for v in (*cut.outer, *pure))
    start_value = neutral(stage.op, dtype)
    init = Stage(
        fresh(f"{stage.name}i", {s.name for s in program.stages}), name, args, None, start_value,
        Domain((*cut.outer, *pure)), stage.text, True, stage.span,
    )  # fmt: skip
    update = Stage(
        fresh(f"{stage.name}p", {s.name for s in program.stages}), name, args, stage.op,
        substitute(stage.value, dict(cut.at)), Domain((*cut.outer, *pure, *cut.inner), cut.conditions),
        stage.text, False, stage.span,
    )  # fmt: skip
    parts = tuple(replace(v, kind="reduction") for v in cut.outer)
    combined = replace(stage, value=Call(name, args, dtype, "func"), domain=Domain((*pure, *parts)))
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
        sites=moved_sites(program, update, cut.at),
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """A reduction whose parts are those of `outer`, each with the points of `inner`; `at`: what variables of
    the stage are of these; `conditions`: those of the stage then."""

    outer: tuple[IterVar, ...]
    inner: tuple[IterVar, ...]
    at: Mapping[str, Expr]
    conditions: tuple[Expr, ...]


def _parts(stage: Stage, sizes: Mapping[str, int]) -> _Parts:
    """The parts of a reduction, of so many points of these variables."""
    names = set(stage.domain.names)
    outer: list[IterVar] = []
    inner: list[IterVar] = []
    at: dict[str, Expr] = {}
    ends: list[Expr] = []
    for v in stage.domain.vars:
        if v.kind != "reduction":
            continue
        size, extent = sizes.get(v.name), v.range.extent
        if size is None:
            inner.append(v)
            continue
        if size == 1:
            outer.append(replace(v, kind="pure"))
            continue
        chunk, inside = fresh(f"{v.name}_chunk", names), fresh(f"{v.name}_in", names)
        names |= {chunk, inside}
        point = Add(Mul(Variable(chunk), IntImm(size)), Variable(inside))
        at[v.name] = simplify(Add(v.range.min, point), exact=True)
        if not isinstance(extent, IntImm) or extent.value % size:
            ends.append(LT(point, extent))
        count = simplify(FloorDiv(Add(extent, IntImm(size - 1)), IntImm(size)), exact=True)
        outer.append(IterVar(chunk, Range(IntImm(0), count), "pure"))
        inner.append(IterVar(inside, Range(IntImm(0), IntImm(size)), "reduction"))
    conditions = (simplify(substitute(c, at), exact=True) for c in stage.domain.conditions)
    return _Parts(tuple(outer), tuple(inner), at, (*conditions, *ends))
