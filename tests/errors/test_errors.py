"""Diagnostics as text, as data and across processes."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import warnings

import pytest

import tc
from tc import errors
from tc.errors import Note, Source, Span, render, suggest

ERRORS = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, tc.Error)]
WARNINGS = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, tc.Warning)]


def span(text: str, part: str, name: str = "f.tc") -> Span:
    start = text.index(part)
    return Span(Source(text, name), start, start + len(part))


def shown(text: str, part: str, *notes: Note, help: str | None = None) -> list[str]:
    return render("error", "TC0000", "message", span(text, part), notes, help).split("\n")


# ---- text


def test_all_parts() -> None:
    text = "first\nsecond line\nthird\n"
    lines = shown(text, "line", Note("seen here", span(text, "first")), Note("and so"), help="write another")
    assert lines == [
        "error[TC0000]: message",
        " --> f.tc:2:8",
        "2 | second line",
        "  |        ^^^^",
        " ::: f.tc:1:1",
        "1 | first",
        "  | ^^^^^ seen here",
        "  = note: and so",
        "  = help: write another",
    ]


def test_without_a_place() -> None:
    assert (
        render("warning", "TC1000", "message", None, (), "help") == "warning[TC1000]: message\n  = help: help"
    )
    assert str(tc.Error("message")) == "error[TC0000]: message"


def test_the_gutter_is_as_wide_as_the_largest_line_number() -> None:
    text = "a\n" * 9 + "bc\n"
    lines = shown(text, "bc", Note("first", Span(Source(text, "f.tc"), 0, 1)))
    assert lines[1:] == [
        "  --> f.tc:10:1",
        "10 | bc",
        "   | ^^",
        "  ::: f.tc:1:1",
        " 1 | a",
        "   | ^ first",
    ]


def test_tabs_keep_the_caret_below_its_text() -> None:
    assert shown("\ta =\tb", "b")[2:] == ["1 | \ta =\tb", "  | \t   \t^"]


def test_carets_end_with_the_first_line_of_a_span() -> None:
    assert shown("ab cd\nef", "cd\nef")[2:] == ["1 | ab cd", "  |    ^^"]


def test_an_empty_span_and_one_at_the_end_have_one_caret() -> None:
    source = Source("abc\n")
    for start, place, line in ((1, "1:2", "1 | abc"), (3, "1:4", "1 | abc"), (4, "2:1", "2 | ")):
        lines = render("error", "TC0000", "m", Span(source, start, start), (), None).split("\n")
        assert lines[1] == f" --> <string>:{place}" and lines[2] == line
        assert lines[3].count("^") == 1


@pytest.mark.parametrize("before", [0, 70, 79, 80, 81, 500, 100_000])
@pytest.mark.parametrize("after", [0, 79, 500])
def test_long_lines_are_cut_around_the_caret(before: int, after: int) -> None:
    lines = shown("x" * before + "HERE" + "y" * after, "HERE")
    text, carets = lines[2][4:], lines[3][4:]
    assert len(text) <= 160
    assert text[carets.index("^") : carets.rindex("^") + 1] == "HERE"
    assert lines[1] == f" --> f.tc:1:{before + 1}"


def test_a_span_longer_than_what_is_shown_is_cut() -> None:
    lines = shown("a" * 1000, "a" * 1000)
    assert len(lines[3]) <= len(lines[2]) == 164


def test_other_scripts() -> None:
    text = "# Σ über 2 Achsen × ∂\nÄ = é"
    assert shown(text, "é")[1:] == [" --> f.tc:2:5", "2 | Ä = é", "  |     ^"]


def test_carriage_returns_are_not_shown() -> None:
    assert shown("ab\r\ncd\r\n", "ab")[2] == "1 | ab"


def test_control_characters_do_not_reach_the_terminal() -> None:
    text = shown("a \x1b[31m b \x00 c", "b")
    assert not any(c in "".join(text) for c in "\x1b\x00")
    assert text[2].index("b") == text[3].index("^")


# ---- data


def test_as_dict_is_json_and_complete() -> None:
    text = "one two"
    e = tc.RangeError(
        "m", span(text, "two"), code="TC0301", help="h", notes=[Note("n", span(text, "one")), Note("o")]
    )
    data = json.loads(json.dumps(e.as_dict()))
    assert data == {
        "severity": "error",
        "code": "TC0301",
        "category": "RangeError",
        "message": "m",
        "span": {"file": "f.tc", "line": 1, "column": 5, "length": 3},
        "notes": [
            {"message": "n", "span": {"file": "f.tc", "line": 1, "column": 1, "length": 3}},
            {"message": "o", "span": None},
        ],
        "help": "h",
    }
    w = tc.LoneReduction("m").as_dict()
    assert (w["severity"], w["code"], w["category"], w["span"]) == (
        "warning",
        "TC1002",
        "LoneReduction",
        None,
    )


@pytest.mark.parametrize("kind", ERRORS, ids=lambda c: c.__name__)
def test_errors_pickle(kind: type[tc.Error]) -> None:
    text = "one two"
    e = kind(
        "message", span(text, "two"), code="TC0299", help="help", notes=[Note("note", span(text, "one"))]
    )
    back = pickle.loads(pickle.dumps(e))
    assert (
        type(back) is kind and str(back) == str(e) and back.as_dict() == e.as_dict() and back.args == e.args
    )
    assert pickle.loads(pickle.dumps(kind("message"))).code == kind.default_code


@pytest.mark.parametrize("kind", WARNINGS, ids=lambda c: c.__name__)
def test_warnings_pickle(kind: type[tc.Warning]) -> None:
    text = "one two"
    w = kind("message", span(text, "two"), help="help", notes=[Note("note", span(text, "one"))])
    back = pickle.loads(pickle.dumps(w))
    assert type(back) is kind and str(back) == str(w) and back.as_dict() == w.as_dict()


def test_an_error_of_a_child_process_arrives_whole() -> None:
    program = """
import pickle, sys, tc
try:
    tc.compile("def f(float(N) A) -> (B) { B(i) = A(j) }")
except tc.Error as e:
    sys.stdout.buffer.write(pickle.dumps(e))
"""
    raw = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE).stdout
    e = pickle.loads(raw)
    assert type(e) is tc.SemanticError and e.code == "TC0225" and "B(i) = A(j)" in str(e)


# ---- classes


@pytest.mark.parametrize(
    ("kind", "bases"),
    [
        (tc.DTypeError, [TypeError]),
        (tc.ArgumentError, [TypeError, ValueError]),
        (tc.PreconditionError, [ValueError]),
        (tc.BoundsError, [IndexError]),
        (tc.BackendError, [RuntimeError]),
        (tc.InternalError, [RuntimeError]),
        (tc.Warning, [UserWarning]),
    ],
    ids=lambda x: x.__name__ if isinstance(x, type) else "",
)
def test_classes_are_what_python_users_catch(
    kind: type[BaseException], bases: list[type[BaseException]]
) -> None:
    for base in bases:
        assert issubclass(kind, base)


def test_every_error_is_a_tc_error_and_public() -> None:
    for kind in [*ERRORS, *WARNINGS]:
        assert getattr(tc, kind.__name__) is kind
        assert kind.__name__ in tc.__all__
    assert all(issubclass(w, tc.Warning) for w in WARNINGS)
    assert not issubclass(tc.Warning, tc.Error)


def test_general_codes_are_distinct() -> None:
    codes = [c.default_code for c in ERRORS] + [c.code for c in WARNINGS]
    assert len(set(codes)) == len(codes)
    assert all(c.default_code.endswith("00") for c in ERRORS)


def test_warnings_are_filtered_by_category() -> None:
    source = "def f(float(N) A, int(M) I) -> (B) { B(i) += A(I(i)) }"
    with pytest.warns(tc.Warning) as caught:
        tc.compile(source, backend="reference")
    assert {type(w.message) for w in caught} == {tc.UninitializedReduction, tc.DataDependentAccess}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=tc.DataDependentAccess)
        with pytest.raises(tc.UninitializedReduction):
            tc.compile(source, backend="reference")


def test_a_warning_points_at_the_caller() -> None:
    with pytest.warns(tc.UninitializedReduction) as caught:
        tc.compile("def f(float(N) A) -> (s) { s += A(i) }", backend="reference")
    assert caught[0].filename == __file__


# ---- suggestions


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("x", ["X", "Y"], "X"),
        ("tahn", ["tan", "tanh"], "tanh"),
        ("Outt", ["Out", "In"], "Out"),
        ("lops", ["loops", "scop", "code"], "loops"),
        ("zzz", ["A", "B"], None),
        ("A", ["A"], None),
        ("A", [], None),
        ("weigth", ["weight", "height"], "weight"),
    ],
)
def test_suggestions(name: str, known: list[str], meant: str | None) -> None:
    assert suggest(name, known) == meant
    assert errors.did_you_mean(name, known) == (f"did you mean '{meant}'?" if meant else None)


def test_a_suggestion_does_not_depend_on_the_order() -> None:
    known = ["aab", "aac", "aad"]
    assert suggest("aa", known) == suggest("aa", known[::-1])
