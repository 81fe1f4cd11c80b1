"""The grammar of the SaC notation, its formatter, and what parse errors point at."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tc
from tc.lang.sac import habits
from tc.lang.sac.format import format_source
from tc.lang.sac.names import PRIMITIVES, prelude
from tc.lang.sac.parse import parse
from tc.lang.tables import make_lark
from tests.sac.table import TABLE

PROGRAMS = [
    *dict.fromkeys(source for _, source, _, _ in TABLE),
    "double[.,.], int f(double[.,3] A, int n, bool[*] b, float[+] c) { x = A; x = x - -n; return (x, 3); }",
    "with { ([0] <= [i] < [9] step [3] width [2]) : 1; ([0] <= iv < [2]); } : fold(+, 0)",
    "{ [i, .] -> -(1 + 2) * 3 - (4 - 5) ++ [!true] | . < [i] <= [5] }",
    "a < b && c ? d[1, 2][iv] : (e ? 1.5f : .5e3)",
]


@pytest.mark.parametrize("source", PROGRAMS)
def test_formatted_text_is_the_same_program(source: str) -> None:
    formatted = format_source(source)
    assert parse(formatted) == parse(source)
    assert format_source(formatted) == formatted


def test_the_grammar_is_unambiguous() -> None:
    make_lark("tc.lang.sac", strict=True)


def test_comments_stay() -> None:
    source = "// one\nint f(int a) { // two\n  /* three */ x = a; // four\n  return x; }\n// five\n"
    formatted = format_source(source)
    for word in ("// one", "// two", "/* three */", "// four", "// five"):
        assert formatted.count(word) == 1
    assert parse(formatted) == parse(source)


ERRORS = [
    ("{ [i,i] -> 1 }", "TC0155", "i", 5),
    ("{ [...,...] -> 1 }", "TC0155", "...", 7),
    ("{ [_] -> 1 }", "TC0155", "_", 3),
    ("{ [1] -> 1 }", "TC0155", "1", 3),
    ("[1, .]", "TC0156", ".", 4),
    ("{ [i] -> 1 | [j] < [5] }", "TC0157", "[j] < [5]", 13),
    ("", "TC0158", "", 0),
    ("{ i -> 1", "TC0158", "1", 7),
    ("a $ b", "TC0151", "$", 2),
    ("a b", "TC0150", "b", 2),
    ("1 + /* x", "TC0151", "/*", 4),
    ("1 /* x", "TC0151", "/*", 2),
    ("99999999999999999999", "TC0154", "99999999999999999999", 0),
    ("(" * 250 + "1" + ")" * 250, "TC0153", "(", None),
]


@pytest.mark.parametrize(("source", "code", "text", "start"), ERRORS)
def test_errors(source: str, code: str, text: str, start: int | None) -> None:
    with pytest.raises(tc.ParseError) as e:
        parse(source)
    assert e.value.code == code
    assert e.value.span is not None and e.value.span.text == text
    assert start is None or e.value.span.start == start


HABITS = [
    ("(long) v", "tol(x)"),
    ("double(x)", "tod(x)"),
    ("v ** 2", "pow(x, y)"),
    ("A[1:3]", "take([n], drop([k], A))"),
    ("A.shape", "shape(A)"),
    ("len(v)", "shape(A)[0]"),
    ("{ i,j -> A[i,j] }", "[i,j]"),
    ("{ (i,j) -> A[i,j] }", "[i,j]"),
    ("int f(int n) { for (i = 0; i < n; i++) { } return n; }", "comprehension"),
    ("A @ B", "sum("),
    ("max(v)", "maxval"),
    ("sum(v, 1)", "drop([-1], shape(A))"),
    ("relu(v)", "max(A, 0)"),
]


@pytest.mark.parametrize(("source", "help"), HABITS)
def test_what_people_type_from_habit_has_help(source: str, help: str) -> None:
    with pytest.raises(tc.Error) as e:
        tc.compile(source, lang="sac", backend="reference")(np.zeros((2, 3)))
    assert help in (e.value.help or "")


def test_what_help_says_is_in_the_notation() -> None:
    for text in (*habits.FUNCTIONS.values(), *habits.ARGUMENTS.values()):
        if text.startswith("write "):
            parse(text.removeprefix("write "))


def test_the_docs_have_the_whole_prelude() -> None:
    text = Path("docs/sac.md").read_text(encoding="utf-8")
    table = text.split("## The prelude")[1].split("## ")[0]
    columns = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)[`(]", " ".join(columns))) == {*PRIMITIVES, *prelude()}


def test_a_source_of_more_than_a_megabyte() -> None:
    with pytest.raises(tc.ParseError) as e:
        parse("1" + " " * (1 << 20))
    assert e.value.code == "TC0152"
