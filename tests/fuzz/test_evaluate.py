"""The generator's evaluator: known results, what it knows of errors, and that it sees what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import tc
from fuzz import differential, numbers, ranges, tree
from fuzz.almost import Almost, almost_valid
from fuzz.coverage import CLASSES, covered, form, summary
from fuzz.differential import Disagreement, compare
from fuzz.evaluate import types_of
from fuzz.numbers import Value, exact
from fuzz.related import RELATIONS, check, related
from fuzz.strategies import Program, programs
from fuzz.tree import Access, Binary, Cast, Def, Index, Number, Param, Statement, Target, Tree, Within
from tests.share import examples

_COMMON = settings(
    deadline=None,
    suppress_health_check=list[Any](HealthCheck),
    database=None,
    derandomize=True,
    print_blob=True,
)
IX, JX, KX = Index("i"), Index("j"), Index("k")
A, B = Param("A", "float", ("N",)), Param("B", "int8", ("N", "M"))


def program(*body: Statement, returns: tuple[str, ...] = ("T",), **sizes: int) -> Program:
    made = Tree((Def("f", (A, B), returns, body),))
    return Program(str(made), {"N": 5, "M": 4, **sizes}, "small", 1, {}, tree.dumps(made))


def at(name: str, *subscripts: Any) -> Access:
    return Access(name, subscripts)


SUM = Statement("T", (Target("i"),), "+=!", at("B", IX, JX))
SHIFTED = Statement("T", (Target("i"),), "=", Binary("-", at("A", IX), at("A", Binary("-", IX, Number("2")))))


# Values.


def test_small_integers_are_exact() -> None:
    outcome = compare(program(SUM), ("reference",))
    assert outcome.refused is None and outcome.certain == (5, 5)
    (wanted,) = outcome.wanted
    assert wanted.error is not None and not wanted.error.any()


def test_errors_are_bounded() -> None:
    third = numbers.arithmetic("/", exact("float", 1.0), exact("float", 3.0))
    assert 1e-9 < float(third.error) < 1e-7
    for t, unit in (("float", 2.0**-23), ("double", 2.0**-52), ("half", 2.0**-10), ("bfloat16", 2.0**-7)):
        x = numbers.rounded(t, np.asarray(0.1), np.zeros(()))
        assert unit * 0.05 < float(x.error) < unit * 0.2
    # Of numbers that may be equal nobody knows which is the larger.
    assert np.isinf(numbers.comparison("<", third, third).error)
    assert not numbers.comparison("<", third, exact("float", 1.0)).error
    assert np.isinf(numbers.convert(Value("float", np.asarray(2.0), np.asarray(1e-7)), "int").error)
    assert not numbers.convert(Value("float", np.asarray(2.5), np.asarray(1e-7)), "int").error
    # It may overflow or not.
    with np.errstate(over="ignore"):
        product = numbers.arithmetic("*", exact("half", 255.0), exact("half", 258.0))
    assert np.isinf(product.error)


def test_sums_in_any_order() -> None:
    rng = np.random.default_rng(0)
    terms = rng.standard_normal(1000).astype(np.float32)
    found = numbers.reduced("+", exact("float", terms), (0,), None)
    assert abs(float(np.cumsum(terms, dtype=np.float32)[-1]) - float(found.of)) <= float(found.error) < 0.1
    whole = numbers.reduced("+", exact("float", np.arange(1000.0)), (0,), None)
    assert float(whole.of) == 499500 and not whole.error


def test_integers() -> None:
    low = exact("int8", -128)
    assert numbers.arithmetic("/", low, exact("int8", -1)).of == -128
    assert numbers.arithmetic("%", low, exact("int8", 0)).of == 0
    assert numbers.arithmetic("/", exact("int", -7), exact("int", 2)).of == -4
    assert numbers.convert(exact("float", 1e9), "uint8").of == 255
    assert numbers.convert(exact("float", np.nan), "int64").of == 0
    assert numbers.convert(exact("int", 300), "uint8").of == 44
    assert numbers.common("uint8", "int8") == "int8" and numbers.common("uint32", "int8") == "int"
    assert numbers.common("half", "int64") == "half" and numbers.common("bool", "bool") == "int"


# Text and files.


@given(p=programs())
@settings(_COMMON, max_examples=examples(60))
def test_trees_come_back_from_files(p: Program) -> None:
    assert p.tree is not None
    made = tree.loads(p.tree)
    assert str(made) == p.source and tree.loads(tree.dumps(made)) == made


def test_parentheses_where_needed() -> None:
    inner = Binary("-", IX, Binary("-", JX, KX))
    assert tree.text(inner) == "i - (j - k)"
    assert tree.text(Binary("*", Binary("+", IX, JX), KX)) == "(i + j) * k"
    assert tree.text(Binary("-", Binary("-", IX, JX), KX)) == "i - j - k"


def test_types() -> None:
    zero = Statement("T", (Target("i"),), "=", Number("0"))
    later = Statement("T", (Target("i"),), "+=", Cast("double", at("A", IX)))
    other = Statement("S", (Target("i"),), "max=!", Binary("<", at("A", IX), Number("1")))
    made = tree.loads(program(zero, later, other, returns=("T", "S")).tree or "")
    assert types_of(made)["f"] == {"A": "float", "B": "int8", "T": "double", "S": "int"}


# What is wrong is seen.


def _wrong(p: Program, monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    real = tc.interpret
    monkeypatch.setattr(tc, "interpret", lambda source, **given: change(real(source, **given)))
    with pytest.raises(Disagreement):
        compare(p, ())


def test_a_wrong_element_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(found: np.ndarray) -> np.ndarray:
        found = np.array(found)
        found[-1] += 1
        return found

    _wrong(program(SUM), monkeypatch, change)
    _wrong(program(SHIFTED), monkeypatch, change)


def test_a_wrong_refusal_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, **given: Any) -> None:
        raise tc.BoundsError("T: out of bounds", code="TC0701")

    monkeypatch.setattr(tc, "interpret", refuse)
    with pytest.raises(Disagreement):
        compare(program(SUM), ())


@pytest.mark.parametrize("by", [(1, 0), (0, 1), (-1, 0), (0, -1)])
def test_a_wrong_range_is_seen(by: tuple[int, int]) -> None:
    p = program(SHIFTED)
    right = {"i": (2, 5)}
    made = tree.loads(p.tree or "")
    assert ranges.check(made, p.sizes, {}, [right], {"T": ((2, 5),)}) == [(right, ((2, 5),))]
    wrong = {"i": (2 + by[0], 5 + by[1])}
    with pytest.raises(ranges.WrongRange):
        ranges.check(made, p.sizes, {}, [wrong], {"T": (wrong["i"],)})


def test_ranges_over_known_indices() -> None:
    """k is known from the clause, i then from all k: by isl and by trying."""
    s = Statement(
        "T", (Target("i"),), "+=!", at("A", Binary("+", IX, KX)), (Within("k", Number("0"), Number("3")),)
    )
    boxes = {"A": [(0, 10)]}
    assert ranges.infer(s, boxes, {}, {"k": (0, 3), "i": (0, 8)}) == {"k": (0, 3), "i": (0, 8)}
    for wrong in ({"k": (0, 3), "i": (0, 9)}, {"k": (0, 3), "i": (0, 7)}, {"k": (0, 2), "i": (0, 8)}):
        with pytest.raises(ranges.WrongRange):
            ranges.infer(s, boxes, {}, wrong)


# Related and faulty programs.


@given(p=programs())
@settings(_COMMON, max_examples=examples(45, 9))
def test_related_programs_agree(p: Program) -> None:
    for name in RELATIONS:
        check(p, name, (), {})


def test_relations_apply() -> None:
    body = Statement(
        "T",
        (Target("i"),),
        "+=!",
        Binary("*", at("A", IX), at("B", IX, KX)),
        (Within("k", Number("0"), Number("4")),),
    )
    p = program(body)
    for name in RELATIONS:
        other = related(p, name)
        assert other is not None and other.source != p.source, name
        assert check(p, name, ("reference",), {})


def test_a_relation_that_does_not_hold_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    p = program(SUM)
    other = replace(program(replace(SUM, value=Binary("+", SUM.value, Number("1")))))
    monkeypatch.setattr("fuzz.related.related", lambda p, name: other)
    with pytest.raises(Disagreement):
        check(p, "commuted", (), {})


@given(a=almost_valid())
@settings(_COMMON, max_examples=examples(105, 9))
def test_faults_are_refused(a: Almost) -> None:
    code = compare(a.program, ()).refused
    assert a.sound if code is None else code[:4] in a.codes, a.kind


# Coverage.


def test_pairs_that_met() -> None:
    made = tree.loads(program(SUM, SHIFTED, returns=("T",)).tree or "")
    found = covered(made, {"A": "float", "B": "int8", "T": "int8"}, [("transform", "vector")])
    assert found["access i × operator +=!"] == 1 and found["access i + n × operator -"] == 1
    assert found["operator +=! × transform vector"] == 1
    text = summary(found)
    assert all(f"{a} ×" in text or f"× {a}" in text for a in CLASSES)


@pytest.mark.parametrize(
    ("subscript", "expected"),
    [
        (IX, "i"),
        (Binary("+", IX, Number("1")), "i + n"),
        (Binary("-", Number("7"), IX), "n - i"),
        (Binary("+", IX, JX), "i + j"),
        (Binary("*", Number("2"), IX), "n * i"),
        (Binary("/", IX, Number("2")), "i / n"),
        (at("X", IX), "by data"),
        (Number("0"), "constant"),
    ],
)
def test_forms_of_access(subscript: Any, expected: str) -> None:
    assert form(subscript) == expected


@pytest.mark.slow
def test_the_share_of_what_is_known() -> None:
    """A comparison that accepts anything would be worth nothing."""
    known = elements = judged = ran = 0

    @given(p=programs())
    @settings(_COMMON, max_examples=examples(100))
    def once(p: Program) -> None:
        nonlocal known, elements, judged, ran
        found = differential.compare(p, ())
        ran += found.refused is None
        judged += bool(found.wanted)
        known, elements = known + found.certain[0], elements + found.certain[1]

    once()
    assert ran >= examples(20) and judged == ran
    assert known > 0.8 * elements


@pytest.mark.parametrize("t", ["f2", "f4", "f8", "bfloat16"])
def test_nan_of_all_kinds_are_given(t: str) -> None:
    """Of both signs and many payloads, all quiet; what is a number stays what it was."""
    dtype = np.dtype(ml_dtypes.bfloat16 if t == "bfloat16" else t)
    plain = np.array([1.5, np.nan, -2.0, np.inf, np.nan, -0.0] * 40, np.float64).astype(dtype)
    before = plain.copy()
    found = differential.any_nan(np.random.default_rng(2), plain)
    unsigned = f"u{dtype.itemsize}"
    nan = np.isnan(before.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float64)), nan)
    np.testing.assert_array_equal(found.view(unsigned)[~nan], before.view(unsigned)[~nan])
    signs = np.signbit(found.astype(np.float64)[nan])
    assert signs.any() and not signs.all() and len(set(found.view(unsigned)[nan].tolist())) > 30
    assert (found.view(unsigned)[nan] & before.view(unsigned)[nan] == before.view(unsigned)[nan]).all()
    assert differential.any_nan(np.random.default_rng(2), np.asarray(dtype.type(np.nan))).shape == ()
