"""The notations: how a text of each becomes a checked program, after which nothing tells them apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tc.errors import Source
from tc.lang import check as tc_check
from tc.lang import format as tc_format
from tc.lang import parse as tc_parse
from tc.lang import resolved as r
from tc.lang.generic import instantiated
from tc.lang.type_variables import Known


def parse(lang: str, source: Source) -> Any:
    """The syntax tree of a source.  Raises `ParseError`."""
    if lang == "sac":
        from tc.lang.sac.parse import parse

        return parse(source)
    return tc_parse.parse(source)


def check(lang: str, syntax: Any, entry: str | None, known: Known) -> r.Checked:
    """The checked program.  Raises `SemanticError`, and for SaC `RangeError` and `DTypeError`."""
    if lang == "sac":
        from tc.lang.sac.program import Given, elaborate

        given: Mapping[str, Given] = {n: Given(rank, dtype) for n, rank, dtype in known}
        return elaborate(syntax, entry, given)
    return tc_check.check(instantiated(syntax, entry, {n: dtype for n, _, dtype in known}), entry)


def formatted(lang: str, syntax: Any) -> str:
    """The program as text, without comments."""
    if lang == "sac":
        from tc.lang.sac.format import format_program

        return format_program(syntax)
    return tc_format.format_program(syntax)


def statements(lang: str, checked: r.Checked) -> str:
    """The statements of a checked program as text, one a line."""
    if lang == "sac":
        from tc.lang.sac.show import checked_text

        return checked_text(checked)
    return "".join(f"{' '.join(st.span.text.split())}\n" for st in checked.statements)
