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

from tc.codegen.c_helpers import short
from tc.codegen.dialect import CUDA
from tc.codegen.expr import EQUAL, CExpr, Text
from tc.codegen.scratch import Area, Scratch, combined_type, elements_of
from tc.dtypes import INT32, DType
from tc.errors import InternalError
from tc.ir.expr import IntImm
from tc.ir.grouping import Grouping
from tc.ir.loops import WARP, Array, Combine


def emit_combine(
    s: Combine,
    threads: Sequence[tuple[str, int]],
    env: Mapping[str, str],
    expr: CExpr,
    thread: str,
    scratch_arrays: dict[Area, tuple[str, int]],
    scratch: Scratch,
) -> list[str]:
    """The lines of a reduction and of those that share barriers with it; none for the others of its group.

    `thread` is the number of a thread in the block.  `scratch_arrays` has the names and lengths of shared
    arrays by type and area; missing ones are added.
    """
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
        group = scratch.groups[id(s)]
        lines = (
            _combine_through_memory(group, threads, env, expr, thread, scratch_arrays, scratch)
            if group
            else []
        )
        used |= {name for name, _ in scratch_arrays.values()}
    expr.used_names.clear()
    expr.used_names.update(used)
    return [*(f"/* {c.op} of {c.buffer} over {c.thread} */" for c in group), *lines]


def _combine_within_warps(
    s: Combine, array: Array, expr: CExpr, env: Mapping[str, str], grouping: Grouping
) -> list[str]:
    t = combined_type(array)
    names = [expr.fresh("e") for _ in array.shape]
    element, value = _element(expr, array, names, env, t)
    lines = _shuffle_lines(s, t, expr, value, grouping)
    lines.append(f"{element} = {expr.cast(Text('held'), t, array.dtype).text};")
    if not names:
        return _indented("{", lines)
    for name, extent in reversed(list(zip(names, array.shape, strict=True))):
        assert isinstance(extent, IntImm)
        lines = _for_each(expr, name, extent.value, lines)
    return lines


def _combine_through_memory(
    group: Sequence[Combine],
    threads: Sequence[tuple[str, int]],
    env: Mapping[str, str],
    expr: CExpr,
    thread: str,
    scratch_arrays: dict[Area, tuple[str, int]],
    scratch: Scratch,
) -> list[str]:
    """Reductions through shared memory; a single one has as many elements in a round as there are slots
    for."""
    barrier = expr.dialect.barrier
    rounds, round_name = 1, ""
    stores: list[str] = []
    combined_lines: list[str] = []
    loads: list[str] = []
    for s in group:
        array = expr.arrays[s.buffer]
        t, count = combined_type(array), elements_of(array)
        grouping = Grouping.of(threads, s.thread, expr.dialect is CUDA)
        area = t, scratch.of[id(s)]
        if area not in scratch_arrays:
            scratch_arrays[area] = expr.fresh(f"scratch{area[1] or ''}_{short(t)}"), scratch.sizes[area]
        scratch_array, _ = scratch_arrays[area]
        rounds, elements = grouping.rounds(count), grouping.elements_per_round(count)
        round_name, e = expr.fresh("round") if rounds > 1 else "", expr.fresh("e") if elements > 1 else ""
        scaled = f"{round_name} * {elements}" if round_name and elements > 1 else round_name
        number = " + ".join(x for x in (scaled, e) if x) or "0"
        names = _subscripts(number, [n.value for n in array.shape if isinstance(n, IntImm)])
        element, value = _element(expr, array, names, env, t)
        if grouping.lanes > 1:
            shared_results = grouping.shares_partial_results(count)
            start = f"{e} * {grouping.slots} + " if e else ""
            start += f"{scratch.first[id(s)]} + " if scratch.first[id(s)] else ""
            stored, loaded = _exchange_over_warps(
                s, t, expr, value, grouping, scratch_array, thread, start, shared_results
            )
            loaded.append(f"{element} = {expr.cast(Text('held'), t, array.dtype).text};")
            for lines, more in ((stores, stored), (loads, loaded)):
                lines += _for_each(expr, e, elements, more) if e else _indented("{", more)
            if shared_results:
                combined_lines += [
                    *_combine_shared(s, t, expr, grouping, scratch_array, thread, elements),
                    barrier,
                ]
        else:  # one element in a round
            emit = _combine_serially if grouping.is_serial(s.everywhere) else _combine_by_tree
            stores, loads = emit(
                s, t, expr, value, grouping, scratch_array, thread, env[s.thread], element, array.dtype
            )
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


def _element(
    expr: CExpr, array: Array, names: Sequence[str], env: Mapping[str, str], t: DType
) -> tuple[str, Text]:
    """An element of a thread's array, and its value in the type of the reduction."""
    element = expr.element(array, [Text(n) for n in names], env)
    return element, expr.cast(expr.read(array, element), array.dtype, t)


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
    s: Combine,
    t: DType,
    expr: CExpr,
    value: Text,
    grouping: Grouping,
    scratch_array: str,
    thread: str,
    first: str,
    shared_results: bool,
) -> tuple[list[str], list[str]]:
    """The stores and the loads of partial results.

    The first lanes of a warp store its partial result, from the slot `first` on.  After a barrier all threads
    of a group load those of all its warps; with `shared_results` only that of the first warp, which then has
    the result.
    """
    slots, group = grouping.stride, grouping.stride * grouping.count
    lane = f" + {thread} % {slots}" if slots > 1 else ""
    scale = f" * {slots}" if slots > 1 else ""
    own = f"{scratch_array}[{first}{thread} / {WARP}{scale}{lane}]"
    # The first slot of the group, which may be the whole block.
    start = [first.removesuffix(" + ")] if first else []
    start += [f"{thread} / {group} * {grouping.warps * slots}"] if group < grouping.threads else []
    start += [f"{thread} % {slots}"] if slots > 1 else []
    stores = [
        *_shuffle_lines(s, t, expr, value, grouping),
        f"if ({thread} % {WARP} {f'< {slots}' if slots > 1 else '== 0'}) {own} = held;",
    ]
    loads = [
        f"const int first = {' + '.join(start) or '0'};",
        *_accumulate_partial_results(
            s, t, expr, grouping, scratch_array, 1 if shared_results else grouping.warps
        ),
    ]
    return stores, loads


def _accumulate_partial_results(
    s: Combine, t: DType, expr: CExpr, grouping: Grouping, scratch_array: str, warps: int, name: str = "warp"
) -> list[str]:
    """Combine in `held` what `warps` warps, or threads, of a group have stored, in a loop over `name`."""

    def read(at: str) -> Text:
        return Text(f"{scratch_array}[{at}] != 0", EQUAL) if t.is_bool else Text(f"{scratch_array}[{at}]")

    scale = f" * {grouping.stride}" if grouping.stride > 1 else ""
    lines = [f"{expr.type(t)} held = {read('first').text};"]
    if warps > 1:
        other = read(f"first + {name}{scale}")
        lines += [
            "#pragma unroll",
            f"for (int {name} = 1; {name} < {warps}; {name}++) {{",
            f"  held = {expr.combine(s.op, Text('held'), other, t).text};",
            "}",
        ]
    return lines


def _combine_shared(
    s: Combine, t: DType, expr: CExpr, grouping: Grouping, scratch_array: str, thread: str, elements: int
) -> list[str]:
    """Combine the partial results of a group's warps in the slot of the first one; the `elements` are divided
    among threads."""
    stride, total = grouping.stride, grouping.slots * elements // grouping.warps
    first = (
        f"sum / {stride} * {grouping.warps * stride} + sum % {stride}"
        if stride > 1
        else f"sum * {grouping.warps}"
    )
    return _indented(
        f"for ({expr.type(INT32)} sum = {thread}; sum < {total}; sum += {grouping.threads}) {{",
        [
            f"const int first = {first};",
            *_accumulate_partial_results(s, t, expr, grouping, scratch_array, grouping.warps),
            f"{scratch_array}[first] = held;",
        ],
    )


def _combine_serially(
    s: Combine,
    t: DType,
    expr: CExpr,
    value: Text,
    grouping: Grouping,
    scratch_array: str,
    thread: str,
    thread_position: str,
    element: str,
    element_type: DType,
) -> tuple[list[str], list[str]]:
    """All threads store their values; all of them, or the first one of each group, load and combine those of
    the group."""
    first = thread
    if s.everywhere:
        first += f" - {_scaled(thread_position, grouping.stride)}"
    loads = [
        f"const int first = {first};",
        *_accumulate_partial_results(s, t, expr, grouping, scratch_array, grouping.count, "part"),
        f"{element} = {expr.cast(Text('held'), t, element_type).text};",
    ]
    return [f"{scratch_array}[{thread}] = {value.text};"], _indented(
        "{" if s.everywhere else f"if ({thread_position} == 0) {{", loads
    )


def _combine_by_tree(
    s: Combine,
    t: DType,
    expr: CExpr,
    value: Text,
    grouping: Grouping,
    scratch_array: str,
    thread: str,
    thread_position: str,
    element: str,
    element_type: DType,
) -> tuple[list[str], list[str]]:
    """Each step halves the number of threads with partial results; the first thread of a group, or all of
    them, store the result to `element`."""
    rounded_count = 1 << (grouping.count - 1).bit_length()
    own_slot = f"{scratch_array}[{thread}]"

    def sum_of(distance: str) -> Text:
        other_slot = f"{scratch_array}[{thread} + {_scaled(distance, grouping.stride)}]"
        own, other = (Text(f"{x} != 0", EQUAL) if t.is_bool else Text(x) for x in (own_slot, other_slot))
        return expr.combine(s.op, own, other, t)

    inside = "" if rounded_count == grouping.count else f" && {thread_position} + step < {grouping.count}"
    last_step = 0 if s.everywhere else 1
    steps = [
        f"for (int step = {rounded_count // 2}; step > {last_step}; step /= 2) {{",
        f"  if ({thread_position} < step{inside}) {own_slot} = {sum_of('step').text};",
        f"  {expr.dialect.barrier}",
        "}",
    ]
    if s.everywhere:
        first = f"{scratch_array}[{thread} - {_scaled(thread_position, grouping.stride)}]"
        found = Text(f"{first} != 0", EQUAL) if t.is_bool else Text(first)
        last = f"{element} = {expr.cast(found, t, element_type).text};"
    else:
        last = f"if ({thread_position} == 0) {element} = {expr.cast(sum_of('1'), t, element_type).text};"
    return [f"{own_slot} = {value.text};"], [*(steps if rounded_count > 2 or s.everywhere else []), last]
