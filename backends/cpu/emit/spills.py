"""Spills: vector registers that LLVM spills in innermost loops, and whether a candidate with fewer vectors
pays.

The cost model knows the vectors that a register tile keeps and estimates what else is live; only the code
shows what the register allocator did.  Assembly shows it all, since the emitter's labels name the statements
of a loop and LLVM prints them.  But LLVM generates the code once more to print it: on AVX2, 13 ms at the
median of the workloads and up to 68, as long as the object took, and llvmlite has no disassembler.  So
`may_spill` first searches the bytes of the object, which exists anyway, in about 0.1 ms, for loops with
arithmetic and vector operands on the stack.  Assembly is printed for these alone, 2 of the 74 workloads on
AVX-512.  The size of the register tile says less: exponentials of four vectors spill.

A loop that spills is not always slower than one with fewer vectors.  Of 31 kernels of the workloads on
AVX-512, AVX2 and SSE4.2 that spill, one step to fewer vectors made some up to 1.6 times as fast and others a
fifth slower (medians of five processes).  Nor is the absence of spills a criterion: a convolution on SSE4.2
went from 8 spills in 105 instructions to none and took 15 % longer.  What separates the two is the number of
vector instructions, spills included, for each arithmetic one, together with the model's cycles: see `pays`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..isa import Isa
from ..target import Machine

# Share of a loop's vector instructions that are spills, from which on other candidates are tried, which makes
# compiling take about three times as long.  The loops that were replaced spilled 11 % or more, but for a
# convolution on AVX-512 with 6 %, which would take 370 ms to compile instead of 120 for a gain of 0 to 20 %,
# by the process.
SPILL_SHARE = 0.08
# Vector instructions for each arithmetic one, before over after, must exceed the growth of the model's cycles
# by this factor.  On one processor (Zen 4) those that got slower reach 1.04 (2 % slower) and 1.03 (5 %); from
# 1.051 on none did.  The criterion misses some: a depthwise convolution on SSE4.2 at 1.01 would have been
# 1.18 times as fast.
_MIN_GAIN = 1.05
# Latency of store forwarding: cycles from a vector's store to the load of it.
_STORE_FORWARDING = 8
# Arithmetic instructions of a loop, at least, that is examined; packs and transpositions have none.
_MIN_ARITHMETIC = 12
# Bytes of a main loop for each arithmetic instruction, at most: main loops that spilled had 7 to 17 on AVX2
# and SSE4.2 (28 where halves are converted, and nothing was better).  Loops of tiles that a condition divides
# have 21 to 86, spill, and run beside the main one.
_MAX_BYTES = 20
# For an instruction set whose objects are not searched: share of the registers that vectors take, above which
# spills are suspected.
_MAX_VECTOR_SHARE = 0.75

_COMMENT = re.compile(r"\s*(?:# |//|##).*$")
_PLACE = re.compile(r"([\w.$]+):")
_STATEMENTS = re.compile(r"%loop-([\w.-]+)-\d+\b")  # as kernel._loop_label makes labels
_JUMP = re.compile(r"(?:j\w+|b(?:\.\w+)?|cbn?z \w+,|tbn?z \w+, ?#\d+,) ?([\w.$]+)$")
_VECTOR = re.compile(r"%[xyz]mm\d|(?<![%\w.])(?:v\d+\.\d|[qds]\d+\b)")
_STACK = re.compile(r"(?<![\w)])-?(?:0x)?\w*\(%(?P<x86>rsp|rbp)\)|\[(?P<arm>sp|x29)(?:, ?#-?\w+)?\]")
_FRAME = re.compile(r"movq %rsp, %rbp$|mov x29, sp$|add x29, sp, ")
_ARITHMETIC = re.compile(
    r"v?(?:fn?m(?!ov)|add|sub|mul|div|max|min|fadd|fsub|fdiv|p(?:add|sub|mul|madd|max|min)|ml[as]\b)"
)
_CALL = re.compile(r"callq?\b|blr?\b")

# In the bytes of x86 objects: prefix, operation, ModRM and SIB of an operand at %rsp (with one bit of the
# prefix the same SIB means %r12); arithmetic; a jump with a distance of 32 bits, which innermost loops that
# fill the registers need.
_NOT_R12 = rb"[\x20-\x3f\x60-\x7f\xa0-\xbf\xe0-\xff]"
_AT_STACK = re.compile(
    rb"(?:\xc5.|\xc4"
    + _NOT_R12
    + rb".|\x62"
    + _NOT_R12
    + rb"..|(?<![\x41\x43\x45\x47\x49\x4b\x4d\x4f])\x0f)."
    rb"[\x04\x0c\x14\x1c\x24\x2c\x34\x3c\x44\x4c\x54\x5c\x64\x6c\x74\x7c\x84\x8c\x94\x9c\xa4\xac\xb4\xbc]\x24",
    re.DOTALL,
)
_COMPUTES = re.compile(
    rb"(?:\xc5.|\xc4..|\x62...|\x0f)[\x40\x58\x59\x5c-\x5f\x96-\x9f\xa6-\xaf\xb6-\xbf\xd4\xd5\xf4-\xf6\xf8-\xfe]"
    rb"|\x0f\x38\x40",
    re.DOTALL,
)
# A shift of 32-bit lanes by the bits of a fraction, which builds or extracts exponents.
_EXPONENT = re.compile(rb"\x72[\xd0-\xd7\xf0-\xf7]\x17", re.DOTALL)
_FAR_JUMP = re.compile(rb"\x0f[\x80-\x8f]..\xff\xff", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Loop:
    """The instructions of an innermost loop, and the statements that its label names.  `framed`: the frame
    pointer points to the stack, and is not another register for addresses."""

    lines: tuple[str, ...]
    statements: tuple[str, ...] = ()
    framed: bool = False

    def count(self, pattern: str | re.Pattern[str]) -> int:
        """Instructions that match a pattern at their start."""
        return sum(bool(re.match(pattern, x)) for x in self.lines)

    @property
    def vectors(self) -> int:
        """Instructions on vector registers."""
        return sum(bool(_VECTOR.search(x)) for x in self.lines)

    @property
    def arithmetic(self) -> int:
        """Arithmetic instructions on vector registers, multiply-adds included."""
        return sum(bool(_VECTOR.search(x) and _ARITHMETIC.match(x)) for x in self.lines)

    @property
    def spills(self) -> int:
        """Vector moves to and from the stack, and vector arithmetic on operands there."""
        return sum(bool(_VECTOR.search(x)) and self._on_stack(x) for x in self.lines)

    @property
    def stack_round_trips(self) -> int:
        """How often, at most, an iteration stores a vector on the stack and it or the next iteration reloads
        that vector: the round trips of a sum that is kept there."""
        turns: dict[str, int] = {}
        full: set[str] = set()
        moves = [x for x in self.lines if _VECTOR.search(x) and self._on_stack(x)]
        for x in (*moves, *moves):  # the second time as the next iteration
            found = _STACK.search(x)
            assert found is not None
            if x.endswith(found[0]) if found["x86"] else x.startswith("st"):
                full.add(found[0])
            elif found[0] in full:
                full.remove(found[0])
                turns[found[0]] = turns.get(found[0], 0) + 1
        return -(-max(turns.values(), default=0) // 2)

    @property
    def spill_share(self) -> str:
        """The spills and the vector instructions, as text."""
        return f"{self.spills} of {self.vectors} vector instructions"

    @property
    def summary(self) -> str:
        """A line for the choice's text."""
        return f"the loop of {', '.join(self.statements)} spills {self.spill_share}"

    @property
    def calls(self) -> bool:
        """Whether the loop calls a function, around which vector registers are saved."""
        return bool(self.count(_CALL))

    def _on_stack(self, line: str) -> bool:
        found = _STACK.search(line)
        return found is not None and (self.framed or found["x86"] == "rsp" or found["arm"] == "sp")


def loops(assembly: str) -> tuple[Loop, ...]:
    """The innermost loops of an assembly text: backward jumps that enclose no other."""
    places: dict[str, int] = {}
    statements: dict[int, tuple[str, ...]] = {}
    framed: list[bool] = []  # for the function of each line
    lines: list[str] = []
    frame = False
    for raw in assembly.splitlines():
        line = _COMMENT.sub("", raw).strip()
        label = _PLACE.match(line)
        if label:
            places[label[1]] = len(lines)
            frame = frame and label[1].startswith(".")
            named = _STATEMENTS.search(raw)
            if named:
                statements[len(lines)] = tuple(named[1].split("-"))
        elif line and not line.startswith("."):
            lines.append(re.sub(r"\s+", " ", line))
            frame = frame or bool(_FRAME.match(lines[-1]))
            framed.append(frame)
    spans: list[tuple[int, int]] = []
    for i, line in enumerate(lines):
        jump = _JUMP.match(line)
        if jump and places.get(jump[1], i + 1) <= i:
            spans.append((places[jump[1]], i + 1))
    return tuple(Loop(tuple(lines[a:b]), statements.get(a, ()), framed[a]) for a, b in _innermost(spans))


def _innermost(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans that enclose no other, in their order.  There are thousands where each lane has a branch of
    its own that comes back from the end of the function."""
    holds: set[tuple[int, int]] = set()
    first_end = math.inf  # of the spans that start there or later
    for a, b in sorted(spans, key=lambda x: (-x[0], x[1])):
        if first_end <= b:
            holds.add((a, b))
        first_end = min(first_end, b)
    return [x for x in spans if x not in holds]


def main_loops(assembly: str, statements: frozenset[str]) -> tuple[Loop, ...]:
    """For each set of these statements the innermost loop with the most arithmetic."""
    best: dict[tuple[str, ...], Loop] = {}
    for x in loops(assembly):
        if not x.statements or not statements.issuperset(x.statements) or x.calls or not x.arithmetic:
            continue
        most = best.setdefault(x.statements, x)
        if x.arithmetic > most.arithmetic:
            best[x.statements] = x
    return tuple(best.values())


def worst(found: Iterable[Loop]) -> Loop | None:
    """The loop that spills most, if any spills more than `SPILL_SHARE`."""
    return max(filter(spills_much, found), key=lambda x: x.spills, default=None)


def pays(before: Loop, after: Loop, model_ratio: float, machine: Machine) -> bool:
    """Whether the loop `after`, which spills less, is better; the model, which knows of no spills, predicts
    `model_ratio` times the cycles for its nest."""
    gain = _cost_per_operation(before, machine) / _cost_per_operation(after, machine)
    return after.spills < before.spills and gain >= _MIN_GAIN * model_ratio


def _cost_per_operation(x: Loop, machine: Machine) -> float:
    """Vector instructions for each arithmetic one, times how much longer the loop takes where a sum goes
    through memory from one addition to the next: of 12 sums on AVX2 one that did, three times an iteration,
    made a convolution take twice as long."""
    busy = max(x.arithmetic / machine.fma_units, x.vectors / machine.issue_width)
    return (
        x.vectors
        / x.arithmetic
        * max(1.0, x.stack_round_trips * (_STORE_FORWARDING + machine.latency) / busy)
    )


def spills_much(x: Loop) -> bool:
    """Whether a loop spills more than `SPILL_SHARE`."""
    return x.spills > SPILL_SHARE * x.vectors


def may_spill(code: bytes, isa: Isa, vectors: int, functions: bool = True) -> bool:
    """Whether the code of an object may spill more than `SPILL_SHARE` in a loop with arithmetic.

    `vectors` are those of the largest register tile.  `functions`: loops with exponentials or logarithms
    count, whose constants are read from the stack.  Bytes that match by chance only cost time.
    """
    if vectors < 2:
        return False
    if not isa.x86:
        return vectors > _MAX_VECTOR_SHARE * isa.registers
    at_stack = [m.start() for m in _AT_STACK.finditer(code)]
    if not at_stack:
        return False
    spans: list[tuple[int, int]] = []
    for m in _FAR_JUMP.finditer(code):
        start = m.end() + int.from_bytes(code[m.end() - 4 : m.end()], "little", signed=True)
        if start >= 0:
            spans.append((start, m.start()))
    for a, b in _innermost(spans):
        spills = bisect_left(at_stack, b) - bisect_left(at_stack, a)
        if not spills:
            continue
        if not functions and _EXPONENT.search(code, a, b):
            continue
        arithmetic = sum(1 for _ in _COMPUTES.finditer(code, a, b))
        dense = b - a <= _MAX_BYTES * arithmetic
        if arithmetic >= _MIN_ARITHMETIC and dense and spills > SPILL_SHARE * (arithmetic + spills):
            return True
    return False
