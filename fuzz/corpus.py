"""The corpus: a file for each failure that was ever found, with what is right about it.

A file holds a program with its data, options and layouts, or a text; `expected` is `agree`, `program` or the
code of the error; `found` says what was wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fuzz.differential import compare
from fuzz.malformed import attempt
from fuzz.memory import Layout
from fuzz.strategies import Program

FOLDER = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Case:
    """One file: `program` or `text`."""

    expected: str
    found: str = ""
    program: Program | None = None
    text: str | None = None
    backends: tuple[str, ...] = ("reference", "cpu")
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dynamic: int = 0
    layouts: tuple[Layout, ...] = ()
    threads: int = 3

    def replay(self) -> None:
        """Raises what was found, or AssertionError where something else than expected happens."""
        if self.program is None:
            assert self.text is not None
            happened = attempt(self.text) or "program"
        else:
            outcome = compare(
                self.program, self.backends, self.options, self.dynamic, self.layouts, self.threads
            )
            happened = outcome.refused or "agree"
        assert happened == self.expected, f"expected {self.expected}, found {happened}"

    def dumps(self) -> str:
        return json.dumps({k: v for k, v in asdict(self).items() if v is not None}, indent=2) + "\n"


def loads(text: str) -> Case:
    """Raises TypeError, KeyError or ValueError for what is not a case."""
    fields = json.loads(text)
    if fields.get("program"):
        fields["program"] = Program(**fields["program"])
    for name in ("backends", "layouts"):
        if name in fields:
            fields[name] = tuple(fields[name])
    options = fields.get("options", {})
    fields["options"] = {
        b: {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        for b, given in options.items()
    }
    return Case(**fields)


def cases() -> Iterator[tuple[str, Case]]:
    """Names and cases, in the order of their names."""
    for path in sorted(FOLDER.glob("*.json")):
        yield path.stem, loads(path.read_text(encoding="utf-8"))
