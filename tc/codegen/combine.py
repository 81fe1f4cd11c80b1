"""Combinations of what the threads of a block hold: in CUDA by shuffles within warps and then, through shared
memory, over warps; else by a tree in shared memory.

Shuffles and trees halve the distance in each step, and warps follow each other, so that the order of the
operations is fixed by the numbers of threads alone.  Values are combined in the type that updates compute in
and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tc.codegen.c_helpers import short
from tc.codegen.dialect import CUDA
from tc.codegen.expr import EQUAL, CExpr, Text
from tc.dtypes import INT32, DType, accumulator
from tc.errors import InternalError
from tc.ir.expr import IntImm
from tc.ir.loops import WARP, Array, Combine


@dataclass(frozen=True, slots=True)
class Grouping:
    """How `count` threads that are `stride` apart combine: the `lanes` of a warp by shuffles (1: none do),
    what `warps` of them have left through shared memory."""

    count: int
    stride: int
    lanes: int

    @staticmethod
    def of(threads: Sequence[tuple[str, int]], variable: str, shuffles: bool) -> Grouping:
        """Of the threads along a variable of a block."""
        place = [v for v, _ in threads].index(variable)
        count, stride = threads[place][1], math.prod(n for _, n in threads[:place])
        lanes = WARP // stride if WARP % stride == 0 else 1
        if count < lanes and count & (count - 1) == 0:
            lanes = count
        return Grouping(count, stride, lanes if shuffles and count % lanes == 0 else 1)

    @property
    def warps(self) -> int:
        """How many warps have a part after shuffles; of a tree how many threads."""
        return self.count // self.lanes

    def room(self, threads: int) -> int:
        """Elements of shared memory that a block of so many threads needs."""
        if self.warps == 1:
            return 0
        return threads if self.lanes == 1 else -(-threads // WARP) * self.stride

    @property
    def barriers(self) -> int:
        if self.warps == 1:
            return 0
        return 2 if self.lanes > 1 else 1 + (self.count - 1).bit_length()


def combined(
    s: Combine,
    array: Array,
    threads: Sequence[tuple[str, int]],
    env: Mapping[str, str],
    expr: CExpr,
    thread: str,
    scratch: dict[DType, tuple[str, int]],
) -> list[str]:
    """The lines of a combination; `thread` is the number of a thread of the block.

    `scratch` holds the shared arrays that are needed with their elements, by the type of these; what is
    missing is added.
    """
    if array.role != "register":
        raise InternalError(f"threads hold no parts of {s.buffer}")
    if s.thread not in dict(threads):
        raise InternalError(f"the launch has no threads {s.thread}")
    how = Grouping.of(threads, s.thread, expr.dialect is CUDA)
    if how.count == 1:
        return []
    t = accumulator(array.dtype, array.dtype)
    place, block = "", math.prod(n for _, n in threads)
    if room := how.room(block):
        place, most = scratch.get(t) or (expr.fresh(f"scratch_{short(t)}"), 0)
        scratch[t] = place, max(most, room)
    used = expr.used_names.copy()
    names = [expr.fresh("e") for _ in array.shape]
    element = expr.element(array, [Text(n) for n in names], env)
    value = expr.cast(expr.read(array, element), array.dtype, t)
    if how.lanes > 1:
        lines = _shuffled(s, t, expr, value, how)
        result = Text("held")
        if how.warps > 1:
            lines += _over_warps(s, t, expr, how, place, thread, block)
    else:
        here = f"{place}[{thread}]"
        lines = _tree(s, t, expr, value, how, place, here, env[s.thread])
        result = Text(f"{here} != 0", EQUAL) if t.is_bool else Text(here)
    lines.append(f"{element} = {expr.cast(result, t, array.dtype).text};")
    expr.used_names.clear()
    expr.used_names.update(used)
    for name, extent in reversed(list(zip(names, array.shape, strict=True))):
        if not isinstance(extent, IntImm):
            raise InternalError(f"the extents of {array.name} are not constant")
        head = f"for ({expr.type(INT32)} {name} = 0; {name} < {extent.value}; {name}++) {{"
        lines = ["#pragma unroll", head, *(f"  {x}" for x in lines), "}"]
    if not names:
        lines = ["{", *(f"  {x}" for x in lines), "}"]
    return [f"/* {s.op} of {array.name} over {s.thread} */", *lines]


def _shuffled(s: Combine, t: DType, expr: CExpr, value: Text, how: Grouping) -> list[str]:
    """Partners are of one group, so that no lane is asked that a block with half a warp does not have.  All
    lanes shuffle, whatever they hold: `||` and `&&` would not ask for what does not matter."""
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
    s: Combine, t: DType, expr: CExpr, how: Grouping, place: str, thread: str, block: int
) -> list[str]:
    """The first lanes of a warp store what it has, and all threads of the group read that of all its warps;
    when they have, the next combination may begin."""
    slots, group = how.stride, how.stride * how.count
    lane = f" + {thread} % {slots}" if slots > 1 else ""
    scale = f" * {slots}" if slots > 1 else ""
    mine = f"{place}[{thread} / {WARP}{scale}{lane}]"
    # The first slot of the group: the whole block may be one.
    first = [f"{thread} / {group} * {how.warps * slots}"] if group < block else []
    first += [f"{thread} % {slots}"] if slots > 1 else []
    other = Text(f"{place}[first + warp{scale}]")
    start = Text(f"{place}[first]")
    if t.is_bool:
        other, start = Text(f"{other.text} != 0", EQUAL), Text(f"{start.text} != 0", EQUAL)
    return [
        f"if ({thread} % {WARP} {f'< {slots}' if slots > 1 else '== 0'}) {mine} = held;",
        expr.dialect.barrier,
        f"const int first = {' + '.join(first) or '0'};",
        f"held = {start.text};",
        "#pragma unroll",
        f"for (int warp = 1; warp < {how.warps}; warp++) {{",
        f"  held = {expr.combine(s.op, Text('held'), other, t).text};",
        "}",
        expr.dialect.barrier,
    ]


def _tree(
    s: Combine, t: DType, expr: CExpr, value: Text, how: Grouping, place: str, here: str, position: str
) -> list[str]:
    """After the last barrier a thread looks at its own element only: the next one may begin at once."""
    whole = 1 << (how.count - 1).bit_length()
    thread = here[len(place) + 1 : -1]
    distance = "step" if how.stride == 1 else f"step * {how.stride}"
    there = f"{place}[{thread} + {distance}]"
    mine, other = (Text(f"{x} != 0", EQUAL) if t.is_bool else Text(x) for x in (here, there))
    inside = "" if whole == how.count else f" && {position} + step < {how.count}"
    return [
        f"{here} = {value.text};",
        expr.dialect.barrier,
        f"for (int step = {whole // 2}; step > 0; step /= 2) {{",
        f"  if ({position} < step{inside}) {here} = {expr.combine(s.op, mine, other, t).text};",
        f"  {expr.dialect.barrier}",
        "}",
    ]
