"""What the comments above a `.tc` file of the library say.

    # One line or several: what it computes.
    #
    # Prose, if there is more to say.
    #
    # stride = 1 (sh, sw): the step between windows
    # kernel (kh, kw): rows and columns of a window
    # x: images
    # leading: N
    # returns: y(N,F,(H-kh)/sh+1,(W-kw)/sw+1)
    # gradient: none, the results are integers
    # matches: torch.nn.functional.conv2d

A line that names a parameter of a def says what it is, and for scalars the default: an expression of scalars
before it and of sizes.  Scalars in parentheses are one argument in Python, a number for all or a tuple.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

_PARAMETER = re.compile(r"(\w+)(?: = (.+?))?(?: \((\w+(?:, \w+)+)\))?(?:: (.+))?")
_KEYS = ("leading", "returns", "gradient", "matches")
# The least values of whole numbers, by the names that they have in all files.
LEAST: Mapping[str, int] = MappingProxyType(
    {
        "bins": 1,
        "dilation": 1,
        "factor": 1,
        "groups": 1,
        "kernel": 1,
        "output": 1,
        "output_padding": 0,
        "padding": 0,
        "radius": 0,
        "segments": 0,
        "size": 1,
        "stride": 1,
        "window": 0,
    }
)


class Formula:
    """An expression of sizes and scalars in Python, as a function of those."""

    def __init__(self, text: str) -> None:
        self.names = tuple(n.id for n in ast.walk(ast.parse(text, mode="eval")) if isinstance(n, ast.Name))
        self.names = tuple(n for n in dict.fromkeys(self.names) if n != "ceil")
        # Text of this package's own files.
        self._function = eval(
            f"lambda {', '.join(self.names)}: {text}", {"__builtins__": {}, "ceil": math.ceil}
        )

    def value(self, known: Mapping[str, Any]) -> Any:
        return self._function(*(known[n] for n in self.names))


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument in Python, which stands for one parameter of the defs, or for several scalars."""

    name: str
    parameters: tuple[str, ...]
    default: str | None
    text: str

    formula: Formula | None = None

    def value(self, known: Mapping[str, Any]) -> Any:
        """The default, from sizes and scalars that are known."""
        assert self.formula is not None
        return self.formula.value(known)


@dataclass(frozen=True, slots=True)
class Header:
    """`leading`: the size that stands for any number of leading dimensions.  `returns`: the results with
    their extents.  `gradient`: why there is none, else empty.  `matches`: what computes the same
    elsewhere."""

    summary: str
    prose: str
    arguments: Mapping[str, Argument]
    leading: str | None
    returns: tuple[tuple[str, tuple[str, ...]], ...]
    gradient: str
    matches: str


def read_header(source: str, parameters: Collection[str]) -> Header:
    """The header of a file whose defs have these parameters."""
    lines: list[str] = []
    for line in source.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line[1:].removeprefix(" ").rstrip())
    blocks = "\n".join(lines).split("\n\n")
    summary = " ".join(blocks[0].split())
    arguments: dict[str, Argument] = {}
    said = dict.fromkeys(_KEYS, "")
    prose: list[str] = []
    for block in blocks[1:]:
        rest: list[str] = []
        for line in block.splitlines():
            key, _, text = line.partition(": ")
            found = _argument(line, parameters)
            if key in _KEYS:
                said[key] = text
            elif found is not None:
                arguments[found.name] = found
            else:
                rest.append(line)
        if rest:
            prose.append("\n".join(rest))
    results = (r.partition("(") for r in _split(said["returns"]))
    returns = tuple((name, tuple(_split(dims.removesuffix(")")))) for name, _, dims in results)
    leading, gradient = said["leading"] or None, said["gradient"].removeprefix("none, ")
    return Header(summary, "\n\n".join(prose), arguments, leading, returns, gradient, said["matches"])


def _argument(line: str, parameters: Collection[str]) -> Argument | None:
    m = _PARAMETER.fullmatch(line)
    if m is None:
        return None
    name, default, several, text = m.groups()
    stands_for = tuple(several.split(", ")) if several else (name,)
    if not all(n in parameters for n in stands_for):
        return None
    return Argument(name, stands_for, default, text or "", Formula(default) if default is not None else None)


def _split(text: str) -> list[str]:
    """What commas outside of parentheses separate."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


def extents(header: Header, known: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of results for given sizes and scalars, as the header has them."""
    return {
        name: tuple(int(Formula(d.replace("/", "//")).value(known)) for d in dims)
        for name, dims in header.returns
    }


def constants(arguments: Sequence[Argument]) -> dict[str, Any]:
    """The defaults that depend on nothing."""
    return {a.name: a.value({}) for a in arguments if a.formula is not None and not a.formula.names}
