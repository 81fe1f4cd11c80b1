"""Interleaving of copies of a long dependence chain, for processors that schedule only some dozens of
instructions ahead.

A function such as `exp` is a chain of some twenty instructions, each of which waits four cycles for the one
before.  Processors overlap the chains of an unrolled loop as far as their schedulers reach: if one copy
follows the other, a scheduler of a hundred instructions holds four or five copies, most of whose instructions
wait. If the first instructions of all copies come first, then the second ones, each finds its operand ready.

Only the order changes.  An instruction comes after those whose results it uses, a store after the earlier
loads and stores of the same array, and a load after the earlier stores.  Arrays do not overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

INTERLEAVED_COPIES = 4  # copies that are interleaved, at most

_NAME = re.compile(r"%[\w.$-]+")
_RESULT = re.compile(r"  (%[\w.$-]+) = ")
_POINTER = re.compile(r"(?:ptr|<\d+ x ptr>) (%[\w.$-]+)")
_BRANCHES = ("br ", "ret ", "switch ", "unreachable")
_SLOT = "%slot"
_UNKNOWN_ARRAY = ""


def interleaved(copies: Sequence[Sequence[str]], array_of: Mapping[str, str]) -> list[str]:
    """The instructions of all copies, one of each in turn; or copy after copy if there is a branch.
    `array_of` names the arrays that pointers defined before point into."""
    lines = [line for c in copies for line in c]
    if any(line.endswith(":") or line.lstrip().startswith(_BRANCHES) for line in lines):
        return lines
    after = _dependences(lines, array_of)
    starts = [0]
    for c in copies:
        starts.append(starts[-1] + len(c))
    following, out = starts[:-1], list[str]()
    done = [False] * len(lines)
    while len(out) < len(lines):
        for i, end in enumerate(starts[1:]):
            at = following[i]
            if at < end and all(done[x] for x in after[at]):
                out.append(lines[at])
                done[at] = True
                following[i] += 1
    return out


def _dependences(lines: Sequence[str], array_of: Mapping[str, str]) -> list[list[int]]:
    """For each line the earlier lines that it must follow."""
    defined: dict[str, int] = {}
    arrays = dict(array_of)
    stored: dict[str, list[int]] = {}
    loaded: dict[str, list[int]] = {}
    out: list[list[int]] = []
    for i, line in enumerate(lines):
        result = _RESULT.match(line)
        text = line[result.end() :] if result else line.lstrip()
        before = [defined[n] for n in _NAME.findall(text) if n in defined]
        pointers = _POINTER.findall(text)
        if result:
            defined[result[1]] = i
        if pointers and "getelementptr" in text:
            assert result
            arrays.setdefault(result[1], _array(pointers[0], arrays))
        elif pointers and "@llvm.prefetch" not in text:
            array = _array(pointers[0], arrays) if len(pointers) == 1 else _UNKNOWN_ARRAY
            before += _may_alias(array, stored)
            if text.startswith("load") or ".load." in text or ".gather." in text:
                loaded.setdefault(array, []).append(i)
            else:
                before += _may_alias(array, loaded)
                stored.setdefault(array, []).append(i)
        out.append(before)
    return out


def _array(pointer: str, arrays: Mapping[str, str]) -> str:
    """The array that a pointer points into; a slot that becomes a register is an array of its own."""
    return arrays.get(pointer, pointer if pointer.startswith(_SLOT) else _UNKNOWN_ARRAY)


def _may_alias(array: str, accesses: Mapping[str, Sequence[int]]) -> Iterator[int]:
    """The accesses to arrays that may be this one."""
    for other, found in accesses.items():
        distinct = array.startswith(_SLOT) or other.startswith(_SLOT)
        if other == array or (_UNKNOWN_ARRAY in (other, array) and not distinct):
            yield from found
