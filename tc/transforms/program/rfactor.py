"""Split reductions (Halide's `rfactor`): `s op= f(j, k)` becomes partial results for each `j`, for chunks of
`k`, or for both, and the combination of these.

The partial results are a new Func whose parts are pure variables, so that all later passes see ordinary
parallel loops (Suriana, Adams and Kamil, "Parallel associative reductions in Halide", 2017).  The order of
combination is fixed by the program and does not depend on the number of threads.
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
from tc.ir.program import Domain, IterVar, Program, Range, Stage, fresh, moved_sites
from tc.ir.simplify import simplify
from tc.transforms.program.stages import tensor_names, with_temporary

# Elements: parts of contiguous dimensions are whole cache lines where that costs nothing.
_GRAINS = (64, 32, 16, 8, 1)
# No part grows by a fourth, and the last one is not shorter by a 16th of all points.
_LONGER, _SHORTER = 4, 16
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
    """Split every reduction with at least `fewest` instances and fewer results than there should be tasks
    (`chunks`) into up to `chunks` parts, except those of the stages `done`.

    `many` gives both numbers for a reduction of which a task has many results; None for others.  Decisions
    are made at `typical` values of dynamic sizes: chunks have the length that they would have then, so larger
    sizes have more chunks.
    """
    for stage in program.stages:
        numbers = many(stage) if many is not None else None
        sizes = part_sizes(stage, *(numbers or (chunks, fewest)), typical or {})
        if sizes and stage.name not in done:
            program = _factored(program, stage, sizes)
    return program


def is_product(stage: Stage) -> bool:
    """Whether results share operands along two variables, as those of a product of matrices do."""
    pure = {v.name for v in stage.domain.vars if v.kind == "pure"}
    missing = [pure - {v for a in e.args for v in variables(a)} for e in reads_of(stage)]
    return any(a - b and b - a for a, b in itertools.combinations(missing, 2))


def is_of_columns(stage: Stage, of: Collection[str] | None = None) -> bool:
    """Whether neighbours in memory belong to different results, and each element read (of these Funcs and
    images) belongs to one result."""
    pure = {v.name for v in stage.domain.vars if v.kind == "pure"}
    reads = [e for e in reads_of(stage) if of is None or e.name in of]
    last = [variables(e.args[-1]) for e in reads]
    whole = all(pure <= {v for a in e.args for v in variables(a)} for e in reads)
    return whole and bool(last) and all(v and v <= pure for v in last)


def around_rows(stage: Stage, of: Collection[str] | None = None) -> frozenset[str]:
    """The variables of a reduction over rows of neighbours that have larger strides in memory than its
    results: for each of their points the rows of all results follow each other.  None unless all reads (of
    these Funcs and images) have that form."""
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
    """The same reductions with loops over parts in place of partial results, whose iterations update the
    results atomically; and the variables of these loops, for each stage that has some.

    Only reductions change whose results have up to `itemsize` bytes, are updated in the type in which they
    are computed, and are not read by the stage otherwise.
    """
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
    """The variables of a reduction that are split, each with the points of its parts.  Each point of an outer
    variable is a part, until there would be too many; the next variable is split into chunks.  The inner ones
    stay whole and contiguous."""
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
    """The points of parts of about this length: whole cache lines as far as possible, if neighbours are
    `near` in memory; else parts of equal length, if as many parts, or up to half as many more, allow that."""
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
    """The variables of a reduction, with those last along which neighbours are `near`."""
    reductions = [v for v in stage.domain.vars if v.kind == "reduction"]
    return sorted(reductions, key=lambda v: v.name in near)


def _near(stage: Stage, extents: Mapping[str, int]) -> frozenset[str]:
    """The variables along which most of the read elements are neighbours in memory."""

    def elements(e: Call) -> int:
        return math.prod(extents.get(v, 1) for v in {v for a in e.args for v in variables(a)})

    most = max(reads_of(stage), key=elements, default=None)
    return frozenset(variables(most.args[-1])) if most is not None else frozenset()


def _factored(program: Program, stage: Stage, sizes: Mapping[str, int]) -> Program:
    assert stage.op is not None
    taken = tensor_names(program)
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
    sites = moved_sites(program, update, cut.at)
    return replace(with_temporary(program, name, dtype, box, stage.func), stages=stages, sites=sites)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A reduction with parts: `outer` are the variables that number the parts, `inner` those of the points of
    a part.  `at` gives variables of the stage in terms of these, `conditions` the stage's conditions then."""

    outer: tuple[IterVar, ...]
    inner: tuple[IterVar, ...]
    at: Mapping[str, Expr]
    conditions: tuple[Expr, ...]


def _parts(stage: Stage, sizes: Mapping[str, int]) -> _Parts:
    """The parts of a reduction that is split along these variables into parts of so many points."""
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
