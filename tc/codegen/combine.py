"""Reductions across the threads of a block (`Combine`).

In CUDA the threads of a warp combine their values by shuffles, and warps combine partial results through
shared memory.  Without shuffles all values go through shared memory: those of few threads are combined
serially, those of many by a tree.

Shuffles and trees halve the distance in each step, and serial loops have a fixed order, so the order of
operations depends only on the numbers of threads.  Values are combined in the type in which updates compute,
and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tc.codegen.c_helpers import short
from tc.codegen.dialect import CUDA
from tc.codegen.expr import EQUAL, CExpr, Text
from tc.codegen.scratch import Area, Scratch, combined_type, elements_of
from tc.dtypes import INT32, DType
from tc.errors import InternalError
from tc.ir.expr import IntImm
from tc.ir.grouping import Grouping
from tc.ir.loops import WARP, Array, Combine


@dataclass(frozen=True, slots=True)
class Team:
    """The threads of a block and what they exchange values through.

    `threads` are the mapped variables with their numbers of threads, `thread` is the number of a thread in
    the block.  `arrays` has the names and lengths of shared arrays by type and area; missing ones are added.
    """

    expr: CExpr
    threads: Sequence[tuple[str, int]]
    thread: str
    arrays: dict[Area, tuple[str, int]]
    scratch: Scratch


@dataclass(frozen=True, slots=True)
class _Reduction:
    """A reduction through shared memory: in the type `t`, of threads in groups, in one array."""

    s: Combine
    t: DType
    expr: CExpr
    grouping: Grouping
    array: str
    thread: str

    def combined(self, a: str, b: Text) -> str:
        return self.expr.combine(self.s.op, Text(a), b, self.t).text

    def stored(self, at: str) -> Text:
        """The value that a thread has stored in a slot."""
        place = f"{self.array}[{at}]"
        return Text(f"{place} != 0", EQUAL) if self.t.is_bool else Text(place)


@dataclass(frozen=True, slots=True)
class _Element:
    """An element of a thread's array: its place, its type, and its value in the type of the reduction."""

    place: str
    dtype: DType
    value: Text

    def assigned(self, r: _Reduction, value: Text) -> str:
        return f"{self.place} = {r.expr.cast(value, r.t, self.dtype).text};"


def emit_combine(s: Combine, team: Team, env: Mapping[str, str]) -> list[str]:
    """The lines of a reduction and of those that share barriers with it; none for the others of its
    group."""
    expr, threads = team.expr, team.threads
    array = expr.arrays[s.buffer]
    if array.role != "register":
        raise InternalError(f"threads hold no parts of {s.buffer}")
    if s.thread not in dict(threads):
        raise InternalError(f"the launch has no threads {s.thread}")
    grouping = Grouping.of(threads, s.thread, expr.dialect is CUDA)
    if grouping.count == 1:
        return []
    used = expr.used_names.copy()
    if grouping.warps == 1:
        group, lines = (s,), _combine_within_warps(s, array, expr, env, grouping)
    else:
        group = team.scratch.groups[id(s)]
        lines = _combine_through_memory(group, team, env) if group else []
        used |= {name for name, _ in team.arrays.values()}
    expr.used_names.clear()
    expr.used_names.update(used)
    return [*(f"/* {c.op} of {c.buffer} over {c.thread} */" for c in group), *lines]


def _combine_within_warps(
    s: Combine, array: Array, expr: CExpr, env: Mapping[str, str], grouping: Grouping
) -> list[str]:
    t = combined_type(array)
    names = [expr.fresh("e") for _ in array.shape]
    element = _element(expr, array, names, env, t)
    lines = _shuffle_lines(s, t, expr, element.value, grouping)
    lines.append(f"{element.place} = {expr.cast(Text('held'), t, array.dtype).text};")
    if not names:
        return _indented("{", lines)
    for name, extent in reversed(list(zip(names, array.shape, strict=True))):
        assert isinstance(extent, IntImm)
        lines = _for_each(expr, name, extent.value, lines)
    return lines


def _combine_through_memory(group: Sequence[Combine], team: Team, env: Mapping[str, str]) -> list[str]:
    """Reductions through shared memory; a single one has as many elements in a round as there are slots
    for."""
    expr, scratch = team.expr, team.scratch
    barrier = expr.dialect.barrier
    rounds, round_name = 1, ""
    stores: list[str] = []
    combined_lines: list[str] = []
    loads: list[str] = []
    for s in group:
        array = expr.arrays[s.buffer]
        t, count = combined_type(array), elements_of(array)
        grouping = Grouping.of(team.threads, s.thread, expr.dialect is CUDA)
        area = t, scratch.of[id(s)]
        if area not in team.arrays:
            team.arrays[area] = expr.fresh(f"scratch{area[1] or ''}_{short(t)}"), scratch.sizes[area]
        r = _Reduction(s, t, expr, grouping, team.arrays[area][0], team.thread)
        rounds, elements = grouping.rounds(count), grouping.elements_per_round(count)
        round_name, e = expr.fresh("round") if rounds > 1 else "", expr.fresh("e") if elements > 1 else ""
        scaled = f"{round_name} * {elements}" if round_name and elements > 1 else round_name
        number = " + ".join(x for x in (scaled, e) if x) or "0"
        names = _subscripts(number, [n.value for n in array.shape if isinstance(n, IntImm)])
        element = _element(expr, array, names, env, t)
        if grouping.lanes > 1:
            shared_results = grouping.shares_partial_results(count)
            start = f"{e} * {grouping.slots} + " if e else ""
            start += f"{scratch.first[id(s)]} + " if scratch.first[id(s)] else ""
            stored, loaded = _exchange_over_warps(r, element.value, start, shared_results)
            loaded.append(element.assigned(r, Text("held")))
            for lines, more in ((stores, stored), (loads, loaded)):
                lines += _for_each(expr, e, elements, more) if e else _indented("{", more)
            if shared_results:
                combined_lines += [*_combine_shared(r, elements), barrier]
        else:  # one element in a round
            emit = _combine_serially if grouping.is_serial(s.everywhere) else _combine_by_tree
            stores, loads = emit(r, element, env[s.thread])
    must_wait = id(group[0]) in scratch.waiting or rounds > 1
    lines = [*([barrier] if must_wait else []), *stores, barrier, *combined_lines, *loads]
    return _for_each(expr, round_name, rounds, lines) if round_name else lines


def _subscripts(number: str, shape: Sequence[int]) -> list[str]:
    """The subscripts of the element with this linear index."""
    out: list[str] = []
    after = math.prod(shape)
    for k, n in enumerate(shape):
        after //= n
        operand = f"({number})" if " " in number and len(shape) > 1 else number
        digit = f"{operand} / {after}" if after > 1 else operand
        out.append("0" if n == 1 else f"{digit} % {n}" if k and math.prod(shape[:k]) > 1 else digit)
    return out


def _element(expr: CExpr, array: Array, names: Sequence[str], env: Mapping[str, str], t: DType) -> _Element:
    place = expr.element(array, [Text(n) for n in names], env)
    return _Element(place, array.dtype, expr.cast(expr.read(array, place), array.dtype, t))


def _for_each(expr: CExpr, name: str, count: int, lines: Sequence[str]) -> list[str]:
    head = f"for ({expr.type(INT32)} {name} = 0; {name} < {count}; {name}++) {{"
    return ["#pragma unroll", *_indented(head, lines)]


def _scaled(number: str, stride: int) -> str:
    return number if stride == 1 else f"{number} * {stride}"


def _indented(head: str, lines: Sequence[str]) -> list[str]:
    return [head, *(f"  {x}" for x in lines), "}"]


def _shuffle_lines(s: Combine, t: DType, expr: CExpr, value: Text, grouping: Grouping) -> list[str]:
    """Combine the values of a warp in `held`.

    Partners belong to one group, so no lane beyond the end of a block takes part.  All lanes execute the
    shuffle, so its result is a variable: `||` and `&&` would skip the call.
    """
    distance = "step" if grouping.stride == 1 else f"step * {grouping.stride}"
    other = Text(f"__shfl_xor_sync(0xffffffffu, held, {distance})")
    if t.is_bool or (t.is_int and t.bits < 32):  # shuffled as int
        other = expr.cast(other, INT32, t)
    return [
        f"{expr.type(t)} held = {value.text};",
        "#pragma unroll",
        f"for (int step = {grouping.lanes // 2}; step > 0; step /= 2) {{",
        f"  const {expr.type(t)} other = {other.text};",
        f"  held = {expr.combine(s.op, Text('held'), Text('other'), t).text};",
        "}",
    ]


def _exchange_over_warps(
    r: _Reduction, value: Text, first: str, shared_results: bool
) -> tuple[list[str], list[str]]:
    """The stores and the loads of partial results.

    The first lanes of a warp store its partial result, from the slot `first` on.  After a barrier all threads
    of a group load those of all its warps; with `shared_results` only that of the first warp, which then has
    the result.
    """
    grouping, thread = r.grouping, r.thread
    slots, group = grouping.stride, grouping.stride * grouping.count
    lane = f" + {thread} % {slots}" if slots > 1 else ""
    scale = f" * {slots}" if slots > 1 else ""
    own = f"{r.array}[{first}{thread} / {WARP}{scale}{lane}]"
    # The first slot of the group, which may be the whole block.
    start = [first.removesuffix(" + ")] if first else []
    start += [f"{thread} / {group} * {grouping.warps * slots}"] if group < grouping.threads else []
    start += [f"{thread} % {slots}"] if slots > 1 else []
    stores = [
        *_shuffle_lines(r.s, r.t, r.expr, value, grouping),
        f"if ({thread} % {WARP} {f'< {slots}' if slots > 1 else '== 0'}) {own} = held;",
    ]
    loads = [
        f"const int first = {' + '.join(start) or '0'};",
        *_accumulate_partial_results(r, 1 if shared_results else grouping.warps),
    ]
    return stores, loads


def _accumulate_partial_results(r: _Reduction, warps: int, name: str = "warp") -> list[str]:
    """Combine in `held` what `warps` warps, or threads, of a group have stored, in a loop over `name`."""
    scale = f" * {r.grouping.stride}" if r.grouping.stride > 1 else ""
    lines = [f"{r.expr.type(r.t)} held = {r.stored('first').text};"]
    if warps > 1:
        other = r.stored(f"first + {name}{scale}")
        lines += [
            "#pragma unroll",
            f"for (int {name} = 1; {name} < {warps}; {name}++) {{",
            f"  held = {r.combined('held', other)};",
            "}",
        ]
    return lines


def _combine_shared(r: _Reduction, elements: int) -> list[str]:
    """Combine the partial results of a group's warps in the slot of the first one; the `elements` are divided
    among threads."""
    grouping = r.grouping
    stride, total = grouping.stride, grouping.slots * elements // grouping.warps
    first = (
        f"sum / {stride} * {grouping.warps * stride} + sum % {stride}"
        if stride > 1
        else f"sum * {grouping.warps}"
    )
    return _indented(
        f"for ({r.expr.type(INT32)} sum = {r.thread}; sum < {total}; sum += {grouping.threads}) {{",
        [
            f"const int first = {first};",
            *_accumulate_partial_results(r, grouping.warps),
            f"{r.array}[first] = held;",
        ],
    )


def _combine_serially(r: _Reduction, element: _Element, position: str) -> tuple[list[str], list[str]]:
    """All threads store their values; all of them, or the first one of each group, load and combine those of
    the group.  `position` is a thread's number in its group."""
    first = r.thread
    if r.s.everywhere:
        first += f" - {_scaled(position, r.grouping.stride)}"
    loads = [
        f"const int first = {first};",
        *_accumulate_partial_results(r, r.grouping.count, "part"),
        element.assigned(r, Text("held")),
    ]
    return [f"{r.array}[{r.thread}] = {element.value.text};"], _indented(
        "{" if r.s.everywhere else f"if ({position} == 0) {{", loads
    )


def _combine_by_tree(r: _Reduction, element: _Element, position: str) -> tuple[list[str], list[str]]:
    """Each step halves the number of threads with partial results; the first thread of a group, or all of
    them, store the result to the element."""
    grouping, thread, everywhere = r.grouping, r.thread, r.s.everywhere
    rounded_count = 1 << (grouping.count - 1).bit_length()
    own_slot = f"{r.array}[{thread}]"

    def sum_of(distance: str) -> Text:
        other = r.stored(f"{thread} + {_scaled(distance, grouping.stride)}")
        return r.expr.combine(r.s.op, r.stored(thread), other, r.t)

    inside = "" if rounded_count == grouping.count else f" && {position} + step < {grouping.count}"
    last_step = 0 if everywhere else 1
    steps = [
        f"for (int step = {rounded_count // 2}; step > {last_step}; step /= 2) {{",
        f"  if ({position} < step{inside}) {own_slot} = {sum_of('step').text};",
        f"  {r.expr.dialect.barrier}",
        "}",
    ]
    if everywhere:
        last = element.assigned(r, r.stored(f"{thread} - {_scaled(position, grouping.stride)}"))
    else:
        last = f"if ({position} == 0) {element.assigned(r, sum_of('1'))}"
    return [f"{own_slot} = {element.value.text};"], [
        *(steps if rounded_count > 2 or everywhere else []),
        last,
    ]
