"""Lines of text with the stages that they show, for readers that mark a statement in every text.

In a traced text, lines end in `TRACE` and the names of their stages; `split` turns these into `Line`s.
Emitters write traces on request; texts that explain a choice always have them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

TRACE = "\x1f"  # a character that no text of ours has


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its newline.  `stages` are those that it states or computes; `around` are those of the
    statements inside of what it opens, such as a loop."""

    text: str
    stages: frozenset[str] = frozenset()
    around: frozenset[str] = frozenset()


Lines = tuple[Line, ...]


def joined(lines: Iterable[Line]) -> str:
    """The lines as text, each with its newline."""
    return "".join(f"{line.text}\n" for line in lines)


def traced(text: str, *stages: str) -> str:
    """A text whose lines are of some stages; those that have a trace keep it."""
    end = TRACE + " ".join(stages)
    return "\n".join(x if TRACE in x or not x.strip() else x + end for x in text.split("\n"))


def split(text: str) -> Lines:
    """The lines of a text that may be traced."""
    out: list[Line] = []
    for line in text.splitlines():
        plain, _, stages = line.partition(TRACE)
        out.append(Line(plain, frozenset(stages.split())))
    return tuple(out)
