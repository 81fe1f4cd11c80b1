"""docs/library.md lists the operators of the library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tc import library

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).parents[2] / "docs/library.md"
BEGIN, END = "<!-- operators: begin -->\n", "<!-- operators: end -->\n"


def markdown() -> str:
    """A table for each kind."""
    lines: list[str] = []
    for group in dict.fromkeys(x.group for x in library.list()):
        lines += [f"### {group.capitalize()}", "", "| operator | what it computes | gradient | the same as |"]
        lines.append("|---|---|---|---|")
        for x in library.list(group):
            call = f"`{x.name}{x.signature}`"
            gradient = f"no: {x.header.gradient}" if x.header.gradient else "yes"
            lines.append(f"| {call} | {x.summary} `{x.shapes}` | {gradient} | `{x.header.matches}` |")
        lines.append("")
    return "\n".join(lines)


def test_the_tables_are_those_of_the_files(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    found, after = rest.split(END)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(before + BEGIN + markdown() + END + after, encoding="utf-8")
        return
    assert found == markdown(), "run this test with --update-golden"
