"""Overrides of machine facts: numbers with which callers replace those that a backend found.

A backend describes a machine by a dataclass, whose fields are the facts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from tc.errors import BackendError, BackendNotice, did_you_mean, warn

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

_NO_ALIASES: Mapping[str, str] = MappingProxyType({})
_noticed: set[str] = set()  # old names of which this process has issued a notice


def with_overrides(
    described: T,
    facts: Iterable[tuple[str, float]],
    backend: str,
    fixed: Collection[str],
    may_be_zero: Collection[str],
    aliases: Mapping[str, str] = _NO_ALIASES,
) -> T:
    """The description with some of its numbers replaced by `facts`.

    Facts in `fixed` cannot be overridden; those in `may_be_zero` may be 0, all others are above 0.  `aliases`
    maps old names of facts to new ones: an old name works, and issues a BackendNotice once a process.  Raises
    BackendError (TC0814) for unknown facts, and for numbers that a fact cannot be.
    """
    known = {f.name: f.type for f in fields(described) if f.name not in fixed}
    changes: dict[str, Any] = {}
    for given, value in facts:
        name = aliases.get(given, given)
        whole = known.get(name) == "int"
        if name not in known or (whole and value != int(value)) or (not value and name not in may_be_zero):
            near = did_you_mean(name, known) or f"it is described by {', '.join(sorted(known))}"
            number = "a whole number" if whole else "a number"
            raise BackendError(
                f"the model of the {backend} backend has no machine with {given} = {value}",
                code="TC0814",
                help=f"{name} is {number} above 0" if name in known else near,
            )
        if name != given:
            _notice(given, name, backend)
        changes[name] = int(value) if whole else value
    return replace(described, **changes)


def _notice(old: str, new: str, backend: str) -> None:
    if old in _noticed:
        return
    _noticed.add(old)
    text = f"the {backend} backend's machine fact '{old}' is now called '{new}'"
    warn(BackendNotice(text, help=f"say machine={{'{new}': ...}}"), stacklevel=None)


def describe(described: DataclassInstance) -> str:
    """The facts of a description as text, under the names that the option `machine` takes; a value that has a
    name, such as an instruction set, is shown by it."""
    found = ((f.name, getattr(described, f.name)) for f in fields(described))
    return ", ".join(f"{k} {getattr(v, 'name', v)}" for k, v in found)
