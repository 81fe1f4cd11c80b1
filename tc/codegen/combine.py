"""Combinations of what the threads of a block hold: in CUDA by shuffles within warps and then, through shared
memory, over warps; else in shared memory alone, of few threads one after the other, of many by a tree.

Shuffles and trees halve the distance in each step, warps and few threads follow each other, so that the order
of the operations is fixed by the numbers of threads alone.  Values are combined in the type that updates
compute in and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tc.codegen.c_helpers import short
from tc.codegen.dialect import CUDA
from tc.codegen.expr import EQUAL, CExpr, Text
from tc.codegen.scratch import Area, Scratch, elements_of, held_as
from tc.dtypes import INT32, DType
from tc.errors import InternalError
from tc.ir.expr import IntImm
from tc.ir.grouping import Grouping
from tc.ir.loops import WARP, Array, Combine


def combined(
    s: Combine,
    threads: Sequence[tuple[str, int]],
    env: Mapping[str, str],
    expr: CExpr,
    thread: str,
    places: dict[Area, tuple[str, int]],
    areas: Scratch,
) -> list[str]:
    """The lines of a combination and of those that it shares barriers with, none for another one of these;
    `thread` is the number of a thread of the block.

    `places` holds the shared arrays that are needed with their numbers of elements, by the type of these and
    the area; what is missing is added.
    """
    array = expr.arrays[s.buffer]
    if array.role != "register":
        raise InternalError(f"threads hold no parts of {s.buffer}")
    if s.thread not in dict(threads):
        raise InternalError(f"the launch has no threads {s.thread}")
    how = Grouping.of(threads, s.thread, expr.dialect is CUDA)
    if how.count == 1:
        return []
    used = expr.used_names.copy()
    if how.warps == 1:
        group, lines = (s,), _within_warps(s, array, expr, env, how)
    else:
        group = areas.groups[id(s)]
        lines = _through_memory(group, threads, env, expr, thread, places, areas) if group else []
        used |= {name for name, _ in places.values()}
    expr.used_names.clear()
    expr.used_names.update(used)
    return [*(f"/* {c.op} of {c.buffer} over {c.thread} */" for c in group), *lines]


def _within_warps(s: Combine, array: Array, expr: CExpr, env: Mapping[str, str], how: Grouping) -> list[str]:
    t = held_as(array)
    names = [expr.fresh("e") for _ in array.shape]
    element, value = _element(expr, array, names, env, t)
    lines = _shuffled(s, t, expr, value, how)
    lines.append(f"{element} = {expr.cast(Text('held'), t, array.dtype).text};")
    if not names:
        return _indented("{", lines)
    for name, extent in reversed(list(zip(names, array.shape, strict=True))):
        assert isinstance(extent, IntImm)
        lines = _for_each(expr, name, extent.value, lines)
    return lines


def _through_memory(
    group: Sequence[Combine],
    threads: Sequence[tuple[str, int]],
    env: Mapping[str, str],
    expr: CExpr,
    thread: str,
    places: dict[Area, tuple[str, int]],
    areas: Scratch,
) -> list[str]:
    """Combinations in shared memory, of one alone as many elements at once as there is room for."""
    barrier = expr.dialect.barrier
    rounds, turn = 1, ""
    put: list[str] = []
    summed: list[str] = []
    get: list[str] = []
    for s in group:
        array = expr.arrays[s.buffer]
        t, count = held_as(array), elements_of(array)
        how = Grouping.of(threads, s.thread, expr.dialect is CUDA)
        area = t, areas.of[id(s)]
        if area not in places:
            places[area] = expr.fresh(f"scratch{area[1] or ''}_{short(t)}"), areas.rooms[area]
        place, _ = places[area]
        rounds, many = how.rounds(count), how.at_once(count)
        turn, e = expr.fresh("round") if rounds > 1 else "", expr.fresh("e") if many > 1 else ""
        scaled = f"{turn} * {many}" if turn and many > 1 else turn
        number = " + ".join(x for x in (scaled, e) if x) or "0"
        names = _position(number, [n.value for n in array.shape if isinstance(n, IntImm)])
        element, value = _element(expr, array, names, env, t)
        if how.lanes > 1:
            alone = how.shared_out(count)
            start = f"{e} * {how.slots} + " if e else ""
            start += f"{areas.first[id(s)]} + " if areas.first[id(s)] else ""
            stored, loaded = _over_warps(s, t, expr, value, how, place, thread, start, alone)
            loaded.append(f"{element} = {expr.cast(Text('held'), t, array.dtype).text};")
            for lines, more in ((put, stored), (get, loaded)):
                lines += _for_each(expr, e, many, more) if e else _indented("{", more)
            if alone:
                summed += [*_summed(s, t, expr, how, place, thread, many), barrier]
        else:  # there is room for one
            made = _in_a_row if how.in_a_row(s.everywhere) else _tree
            put, get = made(s, t, expr, value, how, place, thread, env[s.thread], element, array.dtype)
    waits = id(group[0]) in areas.waiting or rounds > 1
    lines = [*([barrier] if waits else []), *put, barrier, *summed, *get]
    return _for_each(expr, turn, rounds, lines) if turn else lines


def _position(number: str, shape: Sequence[int]) -> list[str]:
    """The subscripts of the element with this number."""
    out: list[str] = []
    after = math.prod(shape)
    for k, n in enumerate(shape):
        after //= n
        whole = f"({number})" if " " in number and len(shape) > 1 else number
        digit = f"{whole} / {after}" if after > 1 else whole
        out.append("0" if n == 1 else f"{digit} % {n}" if k and math.prod(shape[:k]) > 1 else digit)
    return out


def _element(
    expr: CExpr, array: Array, names: Sequence[str], env: Mapping[str, str], t: DType
) -> tuple[str, Text]:
    """An element of what threads hold, and its value in the type of the combination."""
    element = expr.element(array, [Text(n) for n in names], env)
    return element, expr.cast(expr.read(array, element), array.dtype, t)


def _for_each(expr: CExpr, name: str, count: int, lines: Sequence[str]) -> list[str]:
    head = f"for ({expr.type(INT32)} {name} = 0; {name} < {count}; {name}++) {{"
    return ["#pragma unroll", *_indented(head, lines)]


def _indented(head: str, lines: Sequence[str]) -> list[str]:
    return [head, *(f"  {x}" for x in lines), "}"]


def _shuffled(s: Combine, t: DType, expr: CExpr, value: Text, how: Grouping) -> list[str]:
    """What a warp has is in `held`.  Partners are of one group, so that no lane is asked that a block with
    half a warp does not have.  All lanes shuffle, whatever they hold: `||` and `&&` would not ask for what
    does not matter."""
    distance = "step" if how.stride == 1 else f"step * {how.stride}"
    other = Text(f"__shfl_xor_sync(0xffffffffu, held, {distance})")
    if t.is_bool or (t.is_int and t.bits < 32):  # shuffled as int
        other = expr.cast(other, INT32, t)
    return [
        f"{expr.type(t)} held = {value.text};",
        "#pragma unroll",
        f"for (int step = {how.lanes // 2}; step > 0; step /= 2) {{",
        f"  const {expr.type(t)} other = {other.text};",
        f"  held = {expr.combine(s.op, Text('held'), Text('other'), t).text};",
        "}",
    ]


def _over_warps(
    s: Combine,
    t: DType,
    expr: CExpr,
    value: Text,
    how: Grouping,
    place: str,
    thread: str,
    first: str,
    alone: bool,
) -> tuple[list[str], list[str]]:
    """The first lanes of a warp store what it has, from `first` on; after a barrier all threads of a group
    read that of all its warps, or that of the first `alone`, where all is by then."""
    slots, group = how.stride, how.stride * how.count
    lane = f" + {thread} % {slots}" if slots > 1 else ""
    scale = f" * {slots}" if slots > 1 else ""
    mine = f"{place}[{first}{thread} / {WARP}{scale}{lane}]"
    # The first slot of the group: the whole block may be one.
    start = [first.removesuffix(" + ")] if first else []
    start += [f"{thread} / {group} * {how.warps * slots}"] if group < how.threads else []
    start += [f"{thread} % {slots}"] if slots > 1 else []
    put = [
        *_shuffled(s, t, expr, value, how),
        f"if ({thread} % {WARP} {f'< {slots}' if slots > 1 else '== 0'}) {mine} = held;",
    ]
    get = [
        f"const int first = {' + '.join(start) or '0'};",
        *_of_warps(s, t, expr, how, place, 1 if alone else how.warps),
    ]
    return put, get


def _of_warps(
    s: Combine, t: DType, expr: CExpr, how: Grouping, place: str, warps: int, name: str = "warp"
) -> list[str]:
    """What so many warps of a group, or threads, have stored, in `held`; `name`: of a loop over them."""

    def read(at: str) -> Text:
        return Text(f"{place}[{at}] != 0", EQUAL) if t.is_bool else Text(f"{place}[{at}]")

    scale = f" * {how.stride}" if how.stride > 1 else ""
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


def _summed(
    s: Combine, t: DType, expr: CExpr, how: Grouping, place: str, thread: str, many: int
) -> list[str]:
    """What the warps of a group have of `many` values becomes that of the first one: threads share it out."""
    stride, total = how.stride, how.slots * many // how.warps
    first = f"sum / {stride} * {how.warps * stride} + sum % {stride}" if stride > 1 else f"sum * {how.warps}"
    return _indented(
        f"for ({expr.type(INT32)} sum = {thread}; sum < {total}; sum += {how.threads}) {{",
        [
            f"const int first = {first};",
            *_of_warps(s, t, expr, how, place, how.warps),
            f"{place}[first] = held;",
        ],
    )


def _in_a_row(
    s: Combine,
    t: DType,
    expr: CExpr,
    value: Text,
    how: Grouping,
    place: str,
    thread: str,
    position: str,
    element: str,
    held: DType,
) -> tuple[list[str], list[str]]:
    """All threads put what they have, and read that of their group, or the first ones do."""
    first = thread
    if s.everywhere:
        first += f" - {position if how.stride == 1 else f'{position} * {how.stride}'}"
    get = [
        f"const int first = {first};",
        *_of_warps(s, t, expr, how, place, how.count, "part"),
        f"{element} = {expr.cast(Text('held'), t, held).text};",
    ]
    return [f"{place}[{thread}] = {value.text};"], _indented(
        "{" if s.everywhere else f"if ({position} == 0) {{", get
    )


def _tree(
    s: Combine,
    t: DType,
    expr: CExpr,
    value: Text,
    how: Grouping,
    place: str,
    thread: str,
    position: str,
    element: str,
    held: DType,
) -> tuple[list[str], list[str]]:
    """Each step halves the number of threads that have a part; the last one's result goes to `element`, there
    or everywhere."""
    whole = 1 << (how.count - 1).bit_length()
    here = f"{place}[{thread}]"

    def sum_of(distance: str) -> Text:
        there = f"{place}[{thread} + {distance if how.stride == 1 else f'{distance} * {how.stride}'}]"
        mine, other = (Text(f"{x} != 0", EQUAL) if t.is_bool else Text(x) for x in (here, there))
        return expr.combine(s.op, mine, other, t)

    inside = "" if whole == how.count else f" && {position} + step < {how.count}"
    least = 0 if s.everywhere else 1
    steps = [
        f"for (int step = {whole // 2}; step > {least}; step /= 2) {{",
        f"  if ({position} < step{inside}) {here} = {sum_of('step').text};",
        f"  {expr.dialect.barrier}",
        "}",
    ]
    if s.everywhere:
        first = f"{place}[{thread} - {position if how.stride == 1 else f'{position} * {how.stride}'}]"
        found = Text(f"{first} != 0", EQUAL) if t.is_bool else Text(first)
        last = f"{element} = {expr.cast(found, t, held).text};"
    else:
        last = f"if ({position} == 0) {element} = {expr.cast(sum_of('1'), t, held).text};"
    return [f"{here} = {value.text};"], [*(steps if whole > 2 or s.everywhere else []), last]
