"""Descriptions of machines, of which callers may say otherwise than what was found."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from tc.errors import BackendError, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def believed(
    described: T,
    facts: Iterable[tuple[str, float]],
    backend: str,
    fixed: Collection[str],
    none: Collection[str],
) -> T:
    """A description some numbers of which are taken as given; those in `fixed` are for nobody to say, and
    those in `none` may be 0.  Raises BackendError (TC0814) for unknown ones, and for numbers that they cannot
    be."""
    known = {f.name: f.type for f in fields(described) if f.name not in fixed}
    changes: dict[str, Any] = {}
    for name, value in facts:
        whole = known.get(name) == "int"
        if name not in known or (whole and value != int(value)) or (not value and name not in none):
            near = did_you_mean(name, known) or f"it is described by {', '.join(sorted(known))}"
            number = "a whole number" if whole else "a number"
            raise BackendError(
                f"the model of the {backend} backend has no machine with {name} = {value}",
                code="TC0814",
                help=f"{name} is {number} above 0" if name in known else near,
            )
        changes[name] = int(value) if whole else value
    return replace(described, **changes)


def told(described: DataclassInstance) -> str:
    """The facts of a description, as an option names them; what has a name is told by it."""
    found = ((f.name, getattr(described, f.name)) for f in fields(described))
    return ", ".join(f"{k} {getattr(v, 'name', v)}" for k, v in found)
