"""The command `library`: what there is, and one operator with its source."""

from __future__ import annotations

from typing import Any

from tc import library
from tc.errors import ArgumentError, did_you_mean
from tc.library import Operator


def _operators(name: str | None) -> tuple[Operator, ...]:
    found = library.operators()
    if name is None:
        return library.list()
    if name not in found:
        raise ArgumentError(
            f"the library has no '{name}'",
            code="TC0514",
            help=did_you_mean(name, found) or "python -m tc library lists what there is",
        )
    return (found[name],)


def describe(name: str | None) -> str:
    """The list, or the documentation of an operator and its source."""
    found = _operators(name)
    return repr(found) if name is None else f"{found[0].__doc__}\n\n{found[0].source.rstrip()}"


def report(name: str | None) -> dict[str, Any]:
    """The same as data."""
    rows = [
        {
            "name": x.name,
            "group": x.group,
            "summary": x.summary,
            "shapes": x.shapes,
            "matches": x.header.matches,
        }
        for x in _operators(name)
    ]
    if name is None:
        return {"operators": rows}
    (x,) = _operators(name)
    return {**rows[0], "documentation": x.__doc__, "source": x.source}
