"""Reproducers taken back: the program of a bug compiled as it was then, and run on random data.

`tc.support.reproducer` says what the file holds.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tc.dtypes import BY_NAME, DType
from tc.errors import ArgumentError
from tc.support.reproducer import FORMAT, versions


@dataclass(frozen=True, slots=True)
class Case:
    """What was compiled, and what went wrong; without `sizes` it did before any were known."""

    source: str
    entry: str | None
    backend: str | None
    options: Mapping[str, Any]
    omitted: tuple[str, ...]
    checks: str
    dynamic: Mapping[str, int | None]
    sizes: Mapping[str, int] | None
    scalars: Mapping[str, int]
    dtypes: Mapping[str, DType]
    given: tuple[str, ...]
    error: str
    versions: Mapping[str, str]

    def notes(self) -> list[str]:
        """In what compiling it again differs from then."""
        here = versions()
        changed = (f"{k} {v}, now {here[k]}" for k, v in self.versions.items() if here.get(k, v) != v)
        lost = (f"the option {name} was a function, which no file holds" for name in self.omitted)
        return [*lost, *(f"it was {text}" for text in changed)]


def is_reproducer(text: str) -> bool:
    """Whether a file is meant as one: no program begins with a brace."""
    return text.lstrip().startswith("{")


def read(text: str, name: str) -> Case:
    """The case in a file; ArgumentError (TC0518) for what is no reproducer of this version."""

    def bad(problem: str, help: str | None = None) -> ArgumentError:
        help = help or "it is the file that an InternalError names"
        return ArgumentError(f"{name} is not a reproducer: {problem}", code="TC0518", help=help)

    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as e:
        raise bad(f"not JSON: {e}", "a program begins with 'def', a reproducer is a JSON object") from None
    members = cast("dict[str, Any]", found)  # what begins with a brace is an object
    if "reproducer" not in members:
        raise bad("it has no member 'reproducer'")
    if members["reproducer"] != FORMAT:
        raise bad(
            f"its format is {members['reproducer']!r}, and this version of tc reads {FORMAT}",
            "run it with the version of tc that wrote it, which is among its 'versions'",
        )
    if isinstance(members.get("command"), list):
        command = " ".join(shlex.quote(str(word)) for word in members["command"])
        raise bad("it holds a command line, and no program", f"run that: python -m tc {command}")

    def member(key: str, fits: Callable[[Any], bool], what: str, default: Any = ...) -> Any:
        if key not in members and default is ...:
            raise bad(f"it has no member '{key}'")
        value = members.get(key, default)
        if value is not default and not fits(value):
            raise bad(f"its '{key}' is not {what}")
        return value

    def table(key: str, fits: Callable[[Any], bool], what: str, default: Any = ...) -> Any:
        return member(key, lambda m: _is_table(m, fits), what, default)

    def is_text(value: Any) -> bool:
        return isinstance(value, str)

    def texts(key: str) -> tuple[str, ...]:
        return tuple(member(key, lambda m: _is_list(m, is_text), "a list of names", ()))

    types = table("dtypes", lambda t: isinstance(t, str) and t in BY_NAME, "an object of types", {})
    return Case(
        source=member("source", is_text, "text"),
        entry=member("entry", is_text, "text", None),
        backend=member("backend", is_text, "text", None),
        options=table("options", lambda _: True, "an object", {}),
        omitted=texts("omitted"),
        checks=member("checks", is_text, "text", "safe"),
        dynamic=table("dynamic", lambda v: v is None or _is_integer(v), "an object of integers", {}),
        sizes=table("sizes", _is_integer, "an object of integers", None),
        scalars=table("scalars", _is_integer, "an object of integers", {}),
        dtypes={n: BY_NAME[t] for n, t in types.items()},
        given=texts("given"),
        error=member("error", is_text, "text", ""),
        versions=table("versions", is_text, "an object of texts", {}),
    )


def _is_table(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(map(fits, cast("dict[str, Any]", value).values()))


def _is_list(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(fits, cast("list[Any]", value)))


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
