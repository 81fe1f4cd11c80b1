"""Combinations of what the threads of a block hold: warp shuffles in CUDA, else a tree in shared memory.

Both halve the distance in each step, so that the order of the operations is fixed by the number of threads
alone.  Values are combined in the type that updates compute in and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from tc.codegen.c_helpers import short
from tc.codegen.dialect import CUDA
from tc.codegen.expr import EQUAL, CExpr, Text
from tc.dtypes import INT32, DType, accumulator
from tc.errors import InternalError
from tc.ir.expr import IntImm
from tc.ir.loops import WARP, Array, Combine


def combined(
    s: Combine,
    array: Array,
    threads: Sequence[tuple[str, int]],
    env: Mapping[str, str],
    expr: CExpr,
    thread: str,
    scratch: dict[DType, str],
) -> list[str]:
    """The lines of a combination; `thread` is the number of a thread of the block.

    `scratch` holds the shared arrays that are needed, an element a thread, by the type of that;
    what is missing is added.
    """
    if array.role != "register":
        raise InternalError(f"threads hold no parts of {s.buffer}")
    if s.thread not in dict(threads):
        raise InternalError(f"the launch has no threads {s.thread}")
    place_of = [v for v, _ in threads].index(s.thread)
    count = threads[place_of][1]
    stride = reduce(int.__mul__, (n for _, n in threads[:place_of]), 1)
    if count == 1:
        return []
    t = accumulator(array.dtype, array.dtype)
    by_shuffles = expr.dialect is CUDA and within_warp(count, stride)
    if not by_shuffles and t not in scratch:
        scratch[t] = expr.fresh(f"scratch_{short(t)}")
    used = expr.used_names.copy()
    names = [expr.fresh("e") for _ in array.shape]
    element = expr.element(array, [Text(n) for n in names], env)
    value = expr.cast(expr.read(array, element), array.dtype, t)
    if by_shuffles:
        lines = _shuffled(s, t, expr, value, count, stride)
        result = Text("held")
    else:
        here = f"{scratch[t]}[{thread}]"
        lines = _tree(s, t, expr, value, count, stride, scratch[t], here, env[s.thread])
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


def within_warp(count: int, stride: int) -> bool:
    """Whether `count` threads that are `stride` apart are of one warp, and can be halved again and again."""
    return count & (count - 1) == 0 and WARP % (stride * count) == 0


def _shuffled(s: Combine, t: DType, expr: CExpr, value: Text, count: int, stride: int) -> list[str]:
    """Partners are of one group, so that no lane is asked that a block with half a warp does not have.  All
    lanes shuffle, whatever they hold: `||` and `&&` would not ask for what does not matter."""
    distance = "step" if stride == 1 else f"step * {stride}"
    other = Text(f"__shfl_xor_sync(0xffffffffu, held, {distance})")
    if t.is_bool or (t.is_int and t.bits < 32):  # shuffled as int
        other = expr.cast(other, INT32, t)
    return [
        f"{expr.type(t)} held = {value.text};",
        "#pragma unroll",
        f"for (int step = {count // 2}; step > 0; step /= 2) {{",
        f"  const {expr.type(t)} other = {other.text};",
        f"  held = {expr.combine(s.op, Text('held'), Text('other'), t).text};",
        "}",
    ]


def _tree(
    s: Combine,
    t: DType,
    expr: CExpr,
    value: Text,
    count: int,
    stride: int,
    place: str,
    here: str,
    position: str,
) -> list[str]:
    """After the last barrier a thread looks at its own element only: the next one may begin at once."""
    whole = 1 << (count - 1).bit_length()
    thread = here[len(place) + 1 : -1]
    distance = "step" if stride == 1 else f"step * {stride}"
    there = f"{place}[{thread} + {distance}]"
    mine, other = (Text(f"{x} != 0", EQUAL) if t.is_bool else Text(x) for x in (here, there))
    inside = "" if whole == count else f" && {position} + step < {count}"
    return [
        f"{here} = {value.text};",
        expr.dialect.barrier,
        f"for (int step = {whole // 2}; step > 0; step /= 2) {{",
        f"  if ({position} < step{inside}) {here} = {expr.combine(s.op, mine, other, t).text};",
        f"  {expr.dialect.barrier}",
        "}",
    ]
