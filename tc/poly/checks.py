"""The rules of the language for a program, decided exactly and for all sizes at once (docs/language.md):
updates in place, elements that nothing defines, accesses out of bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import islpy as isl

from tc.errors import Note, SemanticError
from tc.ir.expr import FALSE, ONE, TRUE, Add, Call, Expr, IntImm, Variable, substitute, walk
from tc.ir.printer import text
from tc.ir.program import Box, Buffer, Program, Range, Stage
from tc.ir.simplify import simplify
from tc.poly.accesses import Read, reads
from tc.poly.affine import IN, OUT, PARAM
from tc.poly.ast import condition
from tc.poly.context import isl_context
from tc.poly.examples import Example, assignments, example, pair
from tc.poly.scop import Access, Scop, Statement, box_set
from tc.poly.times import execution_times

_MOST_NOTES = 4  # statements that a message shows

# --- Updates in place.


def in_place_stages(program: Program) -> tuple[Stage, ...]:
    """The stages that `in_place` has to look at: those that read the tensor that they write, each behind the
    one before it, which may initialise it."""
    buffers = program.func_buffers
    own = {
        i
        for i, s in enumerate(program.stages)
        if any(buffers.get(r.call.name) == buffers[s.func] for r in reads(s))
    }
    return tuple(s for i, s in enumerate(program.stages) if i in own or i + 1 in own)


def in_place(scop: Scop) -> None:
    """SemanticError TC0227 if an instance reads an element that another instance of its statement overwrites.

    The element that an `op` combines with does not count.  For `op=!` the initialisation is part of the
    statement.  TC0226 where data decide which element it reads, and may decide on one of these.
    """
    with isl_context():
        for s in scop.statements:
            own = [a for a in s.accesses if a.kind == "read" and a.buffer == s.write.buffer]
            if not own:
                continue
            before = scop.statements[s.index - 1] if s.index else None
            init = before if before is not None and _initialises(before.stage, s.stage) else None
            for a in own:
                _in_place_access(scop, s, a, init)


def _initialises(first: Stage, second: Stage) -> bool:
    return first.init and first.func == second.func and second.op is not None


def _in_place_access(scop: Scop, s: Statement, a: Access, init: Statement | None) -> None:
    assert a.read is not None
    shown = f"{a.buffer}({', '.join(map(text, a.subscripts))})"
    data = any(isinstance(x, Call) and x.kind != "intrinsic" for e in a.subscripts for x in walk(e))
    if init is None and a.subscripts == s.write.subscripts and not s.reduction:
        return
    others = [(s, a.map.apply_range(s.write.map.reverse()))]
    others[0] = (s, others[0][1].subtract(isl.Map.identity(others[0][1].get_space())))
    if init is not None:
        others.append((init, a.map.apply_range(init.write.map.reverse())))
    for writer, conflicts in others:
        found = pair(scop.parameters, conflicts)
        if found is None:
            continue
        if data:
            raise SemanticError(
                f"the statement updates '{a.buffer}' and reads it at a subscript that depends on data",
                s.stage.span,
                code="TC0226",
                help=f"write to another tensor, and copy it to '{a.buffer}' in a second statement",
            )
        reader, other = found
        raise SemanticError(
            f"the statement reads {shown} where another of its iterations overwrites it",
            s.stage.span,
            code="TC0227",
            help=f"{_conflict(s, writer, reader, other)}; {_remedy(s, a)}",
        )


def _remedy(s: Statement, a: Access) -> str:
    """What to write instead: a loop, where iterations read what those before them write."""
    copied = f"write to another tensor, and copy it to '{a.buffer}' in a second statement"
    loops = _recurrence(s)
    if not loops:
        return copied
    by_name = {v.name: v.range for v in s.stage.domain.vars}
    heads: list[str] = []
    for name in loops:
        low, extent = by_name[name].min, by_name[name].extent
        heads.append(f"for {name} in {text(low)}:{text(simplify(Add(low, extent), exact=True))}")
    subscripts = (text(substitute(e, _points(s))) for e in s.write.subscripts)
    target = f"{a.buffer}({', '.join(subscripts)})"
    body = " { ".join([*heads, f"{target} {s.stage.op or ''}= …"]) + " }" * len(heads)
    return f"if each builds on those before it, write a loop: {body}; else {copied}"


def _recurrence(s: Statement) -> tuple[str, ...]:
    """The variables of the loops in whose order every iteration reads only what was written before; empty if
    there is no such order.  One loop is better than several."""
    found: isl.Map | None = None
    for a in s.accesses:
        if a.kind == "read" and a.buffer == s.write.buffer:
            to_writer = a.map.apply_range(s.write.map.reverse())
            found = to_writer if found is None else found.union(to_writer)
    pure = [k for k, v in enumerate(s.stage.domain.vars) if v.kind == "pure"]
    if found is None or not pure:
        return ()
    found = found.subtract(isl.Map.identity(found.get_space()))
    names = s.stage.domain.names
    space = found.get_space()
    for k in pure:
        if found.is_subset(isl.Map.universe(space).order_gt(IN, k, OUT, k)):
            return (names[k],)
    earlier, equal = isl.Map.empty(space), isl.Map.universe(space)
    for n, k in enumerate(pure):
        earlier = earlier.union(equal.order_gt(IN, k, OUT, k))
        equal = equal.equate(IN, k, OUT, k)
        if found.is_subset(earlier):
            return tuple(names[k] for k in pure[: n + 1])
    return ()


def _conflict(s: Statement, writer: Statement, reader: Example, other: Example) -> str:
    what = "which the initialisation overwrites" if writer is not s else "which the one at"
    if writer is not s:
        return f"the iteration at {_at(s, reader)} reads an element, {what}{reader.for_sizes}"
    return (
        f"the iteration at {_at(s, reader)} reads an element, {what} {_at(s, other)} writes{reader.for_sizes}"
    )


def _at(s: Statement, e: Example) -> str:
    """An iteration as a message names it: without the variables that stand for written subscripts."""
    values = dict(zip(s.stage.domain.names, e.point, strict=True))
    points = _points(s)
    return assignments({n: v for n, v in values.items() if n not in points} or values)


def _points(s: Statement) -> dict[str, Expr]:
    """The variables that stand for left-hand-side subscripts without an index, and these."""
    found = {v.name: v.range for v in s.stage.domain.vars if v.name.startswith("at") and v.name.endswith("_")}
    return {n: r.min for n, r in found.items() if r.extent == ONE}


# --- Elements that nothing defines.


def to_define(program: Program, stages: Sequence[Stage] | None = None) -> tuple[Buffer, ...]:
    """The tensors that `undefined` has to look at: not those whose elements come from the caller, nor those
    that the first statement to touch them defines as a whole, by comparing syntax."""
    buffers = program.func_buffers
    boxes = {b.name: b.box for b in program.buffers}
    whole: dict[str, bool] = {}
    for s in program.stages if stages is None else stages:
        for r in reads(s):
            whole.setdefault(buffers.get(r.call.name, r.call.name), False)
        own = buffers[s.func]
        if own not in whole:
            whole[own] = _defines(s, boxes[own])
    given = {b.name for b in program.buffers if b.role == "input" or b.inout or b.filled}
    return tuple(b for b in program.buffers if b.name not in given and not whole.get(b.name))


def _defines(s: Stage, box: Box) -> bool:
    """Whether a stage writes each element of a box."""
    if s.op is not None or s.domain.conditions or s.loops:
        return False
    ranges = {v.name: v.range for v in s.domain.vars}
    names = [a.name for a in s.args if isinstance(a, Variable)]
    if len(names) != len(s.args) or len(set(names)) != len(names):
        return False
    return all(n in ranges and ranges[n] == r for n, r in zip(names, box, strict=True))


def undefined(scop: Scop) -> None:
    """SemanticError TC0228 if an element of a tensor is read, or returned, that no statement defines.

    A statement with `=` defines the elements that its iterations write, `op=!` those it initialises; an
    `op=` alone none.  Tensors that start from the caller's values are exempt, and those that their parts
    fill by construction, since isl takes very long to add up many boxes.
    """
    with isl_context():
        for b in to_define(scop.program):
            _undefined_buffer(scop, b)


def undefined_in_loops(scop: Scop, stages: Sequence[Stage]) -> None:
    """The same for a program with sequential loops, of which `scop` has the counters in its domains (as
    `tc.transforms.program.segments.in_domains` makes it) and `stages` are the stages with their loops.

    An instance reads what instances before it have defined; the order is lexicographic in positions and
    counters.
    """
    with isl_context():
        times = execution_times(scop, stages)
        for b in to_define(scop.program, stages):
            _undefined_in_loops(scop, b, times)


def _undefined_in_loops(scop: Scop, b: Buffer, times: Mapping[str, isl.Map]) -> None:
    box = box_set(scop, b).intersect_params(scop.context)
    defined = isl.Set.empty(box.get_space())
    parts = [s for s in scop.statements if s.write.buffer == b.name]
    for s in parts:
        if s.stage.op is None and s.write.must:
            defined = defined.union(s.write.map.range())
    for s, a, lacking in reads_of_nothing(scop, b.name, times):
        # What is read beyond the tensor is out of bounds, which is checked elsewhere.
        found_example = pair(scop.parameters, lacking.intersect_range(box))
        if found_example is not None:
            reader, element = found_example
            where = _at(s, reader)
            raise SemanticError(
                f"the statement uses {_element(b, element)}, which nothing has defined before",
                s.stage.span,
                code="TC0228",
                help=f"at {where}{reader.for_sizes}; define all of '{b.name}' before it is used"
                + (", or use +=! for a reduction" if a.kind == "update" else ""),
            )
    # No element of a temporary is needed if its loop never runs.
    found = example(scop.parameters, box.subtract(defined)) if b.role == "output" else None
    if found is not None and parts:
        raise _nothing_defines(b, found, parts)


def reads_of_nothing(
    scop: Scop, buffer: str, times: Mapping[str, isl.Map]
) -> Iterator[tuple[Statement, Access, isl.Map]]:
    """The reads of a buffer, each from the instances to the elements that no instance has defined before; the
    maps are empty where there is none."""
    writes: isl.Map | None = None  # from times to elements
    for s in scop.statements:
        if s.write.buffer == buffer and s.stage.op is None and s.write.must:
            found = times[s.name].reverse().apply_range(s.write.map)
            writes = found if writes is None else writes.union(found)
    for s in scop.statements:
        for a in s.accesses:
            if a.buffer != buffer or a.kind == "write":
                continue
            lacking = a.map
            if writes is not None:
                at = times[s.name]
                earlier = isl.Map.lex_gt(at.get_space().range())
                lacking = lacking.subtract(at.apply_range(earlier).apply_range(writes))
            yield s, a, lacking


def _undefined_buffer(scop: Scop, b: Buffer) -> None:
    box = box_set(scop, b).intersect_params(scop.context)
    defined = isl.Set.empty(box.get_space())
    for s in scop.statements:
        for a in s.accesses:
            if a.buffer != b.name or a.kind == "write":
                continue
            lacking = a.map.range().intersect(box).subtract(defined)
            found = example(scop.parameters, lacking)
            if found is not None:
                raise SemanticError(
                    f"the statement uses {_element(b, found)}, which nothing has defined before",
                    s.stage.span,
                    code="TC0228",
                    help=f"{found.for_sizes.strip() or 'always'}; define all of '{b.name}' before it is used"
                    + (", or use +=! for a reduction" if a.kind == "update" else ""),
                )
        if s.write.buffer == b.name and s.stage.op is None and s.write.must:
            defined = defined.union(s.write.map.range())
    if b.role == "temporary" and b.kept:  # no pass computes it elsewhere, and nothing reads the rest
        return
    found = example(scop.parameters, box.subtract(defined))
    parts = [s for s in scop.statements if s.write.buffer == b.name]
    if found is not None and parts:
        raise _nothing_defines(b, found, parts)


def _nothing_defines(b: Buffer, e: Example, parts: Sequence[Statement]) -> SemanticError:
    """An element that none of the statements that write its tensor defines."""
    first, *others = dict.fromkeys(s.stage.span for s in parts)
    return SemanticError(
        f"no statement defines {_element(b, e)}",
        first,
        code="TC0228",
        notes=[Note("this one does not, either", span) for span in others[:_MOST_NOTES] if span is not None],
        help=f"{e.for_sizes.strip() or 'always'}; give '{b.name}' a value everywhere first, "
        "or add a statement for the other elements",
    )


def _element(b: Buffer, e: Example) -> str:
    return f"{b.name}({', '.join(map(str, e.point))})"


# --- Accesses out of bounds.

# isl's conversion of a set to an expression is exponential in its disjuncts; nobody reads such a condition
# either.  Beyond this the solver's condition serves, or a check when the kernel runs.
_MAX_DISJUNCTS = 8

Status = Literal["proven", "precondition", "unprovable"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Whether an access stays in its tensor.

    `proven` for all sizes; under a `precondition` on sizes (`condition`, with an example of sizes that
    break it, and `shown`, what it comes to where no size is 0); `unprovable` where a subscript is not
    affine.  `read` is None for the stage's write.  Dimensions that are checked when the kernel runs are
    left out.
    """

    stage: str
    buffer: str
    subscripts: tuple[Expr, ...]
    read: Read | None
    status: Status
    condition: Expr | None = None
    counterexample: str = ""
    shown: Expr | None = None

    @property
    def text(self) -> str:
        return f"{self.buffer}({', '.join(map(text, self.subscripts))})"


def out_of_bounds(scop: Scop, sites: frozenset[int] | None = None) -> tuple[Bounds, ...]:
    """Each read and write of a scop, in order, with the sizes for which it leaves its tensor.

    `sites` restricts the answer to these reads.
    """
    out: list[Bounds] = []
    with isl_context():
        boxes = {b.name: b for b in scop.program.buffers}
        for s in scop.statements:
            same: dict[object, Bounds] = {}  # of equal reads
            for a in s.accesses:
                wanted = sites is None or (a.read is not None and a.read.call.site in sites)
                if a.kind == "update" or not wanted:
                    continue
                checked = a.read.call.checked if a.read is not None else ()
                key = (id(a.map), a.buffer, a.subscripts, checked)
                if key not in same:
                    same[key] = _bounds(scop, s, a, boxes[a.buffer])
                out.append(replace(same[key], read=a.read))
    return tuple(out)


def _bounds(scop: Scop, s: Statement, a: Access, b: Buffer) -> Bounds:
    checked = set(a.read.call.checked if a.read is not None else ())
    unchecked = [d for d in range(len(a.subscripts)) if d not in checked]
    verdict = _verdict(scop, s, a, b, unchecked)

    def result(
        status: Status, condition: Expr | None = None, counterexample: str = "", shown: Expr | None = None
    ) -> Bounds:
        return Bounds(s.stage.name, a.buffer, a.subscripts, a.read, status, condition, counterexample, shown)

    if verdict is None:
        return result("unprovable")
    if verdict == TRUE:
        return result("proven")
    outside = _leaves_box(scop, a, b, unchecked).params()
    found = example(scop.parameters, outside)
    counterexample = assignments(found.sizes) if found is not None else ""
    return result("precondition", verdict, counterexample, _shown(scop, outside))


def _shown(scop: Scop, outside: isl.Set) -> Expr | None:
    """The complement of `outside` where all sizes are at least 1, or None if nothing is left there."""
    positive = scop.context
    names = set(scop.program.sizes)
    one = isl.Val.one(scop.ctx)
    for i in range(positive.dim(PARAM)):
        if scop.names.original(str(positive.get_dim_name(PARAM, i))) in names:
            positive = positive.lower_bound_val(PARAM, i, one)
    allowed = positive.subtract(outside).coalesce()
    if allowed.is_empty() or allowed.n_basic_set() > _MAX_DISJUNCTS:
        return None
    return condition(scop, allowed, given=positive)


def _verdict(scop: Scop, s: Statement, a: Access, b: Buffer, dimensions: list[int]) -> Expr | None:
    """The sizes for which an access stays in its tensor in these dimensions: TRUE if all, FALSE if none;
    None where a subscript is not affine."""
    if set(dimensions) & set(a.unknown):
        return None
    ranges = {v.name: v.range for v in s.stage.domain.vars}
    if all(_inside(a.subscripts[d], ranges, b, d) for d in dimensions):
        return TRUE
    outside = _leaves_box(scop, a, b, dimensions)
    if outside.is_empty():
        return TRUE
    if outside.n_basic_set() > _MAX_DISJUNCTS:
        return None
    allowed = scop.context.subtract(outside.params()).coalesce()
    if allowed.n_basic_set() > _MAX_DISJUNCTS:
        return None
    return FALSE if allowed.is_empty() else condition(scop, allowed)


def _inside(e: Expr, ranges: dict[str, Range], b: Buffer, dimension: int) -> bool:
    """By syntax: a variable whose range is the dimension's, or a literal in a literal range."""
    box = b.box[dimension]
    if isinstance(e, Variable):
        return ranges.get(e.name) == box
    if isinstance(e, IntImm) and isinstance(box.min, IntImm) and isinstance(box.extent, IntImm):
        return box.min.value <= e.value < box.min.value + box.extent.value
    return False


def _leaves_box(scop: Scop, a: Access, b: Buffer, dimensions: list[int]) -> isl.Set:
    """The instances whose access lies outside the box in one of these dimensions."""
    box = box_set(scop, b)
    if len(dimensions) < len(b.box):
        inner = [d for d in range(len(b.box)) if d not in dimensions]
        for d in inner:
            box = box.drop_constraints_involving_dims(isl.dim_type.set, d, 1)
    return a.map.subtract_range(box).domain()
