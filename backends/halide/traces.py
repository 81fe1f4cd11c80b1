"""The stages that the lines of Halide's lowered statements belong to.

Halide names the loops of a definition `FUNC.sNUMBER.VARIABLE`: number 0 is the pure definition, the updates
follow.  Its Python package has these statements as text only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tc.ir.lines import Line, Lines

_LOOP = re.compile(r" *\w+(?:<[^>]*>)? \(([\w$]+)\.s(\d+)\.")
_PRODUCE = re.compile(r" *produce ([\w$]+) \{")
_STORE = re.compile(r" *([\w$]+)\[.*\] = ")


def lines(text: str, stages: Mapping[str, Sequence[str]]) -> Lines:
    """The lines of a lowered statement; `stages` are those of each Func, by Halide's name of it, with "" for
    a definition that is no stage's."""
    out: list[Line] = []
    inside: list[tuple[int, str]] = []  # the loops around: their indentation, and their stage
    following: dict[str, int] = {}  # the definition of a Func that comes next
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        while inside and (depth < inside[-1][0] or (depth == inside[-1][0] and line.strip() != "}")):
            inside.pop()
        if loop := _LOOP.match(line):
            number = int(loop[2])
            inside.append((depth, _at(stages, loop[1], number)))
            following[loop[1]] = number + 1
        stage = inside[-1][1] if inside else ""
        around = frozenset[str]()
        if (produce := _PRODUCE.match(line)) is not None:
            around = frozenset(stages.get(produce[1], ())) - {""}
        elif not inside and (store := _STORE.match(line)) and store[1] in stages:
            number = following.get(store[1], 0)
            stage, following[store[1]] = _at(stages, store[1], number), number + 1
        out.append(Line(line, frozenset([stage]) - {""}, around))
    return tuple(out)


def _at(stages: Mapping[str, Sequence[str]], func: str, number: int) -> str:
    found = stages.get(func, ())
    return found[number] if number < len(found) else ""
