"""tc.halide.solve: known results, soundness by brute force, errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tc.halide import solve
from tests.share import examples

Env = dict[str, int]
SIZES = dict.fromkeys(("I", "J", "K", "M", "N", "H", "W", "KH", "KW", "S"), (1, None))

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}


def value(term: Any, env: Env) -> Any:
    """The meaning of a term, by Python's own arithmetic."""
    match term:
        case str():
            return env[term]
        case ("not", a):
            return not value(a, env)
        case ("-", a):
            return -value(a, env)
        case ("select", c, a, b):
            return value(a, env) if value(c, env) else value(b, env)
        case (op, a, b):
            return OPERATORS[op](value(a, env), value(b, env))
        case _:
            return term


def same(a: Any, b: Any) -> bool:
    """Whether two integer terms agree on every assignment of a grid of sizes."""
    names = sorted(SIZES)
    used = [n for n in names if n in repr(a) or n in repr(b)]
    grid = (dict(zip(used, v, strict=True)) for v in product(range(1, 9), repeat=len(used)))
    return all(value(a, {**env, "k": 2}) == value(b, {**env, "k": 2}) for env in grid)


def largest(subscript: Any, extent: Any) -> Any:
    """The condition that a subscript stays below an extent."""
    return ("<=", subscript, ("-", extent, 1))


# --- known results ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition, low, high",
    [
        (largest(("+", "i", "k"), "I"), None, ("-", ("-", "I", 1), "k")),
        (largest(("+", ("*", 2, "i"), "k"), "I"), None, ("//", ("-", ("-", "I", 1), "k"), 2)),
        (largest(("*", 123, "i"), "I"), None, ("//", ("-", "I", 1), 123)),
        ((">=", ("-", 10, "i"), 0), None, 10),
        (largest(("-", 10, "i"), "I"), ("-", 11, "I"), None),
        (largest(("-", "i", 1), "I"), None, "I"),
        ((">=", ("-", "i", 1), 0), 1, None),
        ((">=", ("+", "i", 5), 0), -5, None),
        (largest(("-", 5, ("*", 2, "i")), "I"), ("//", ("-", 7, "I"), 2), None),
        ((">=", ("*", -2, "i"), 0), None, 0),
        (largest(("//", "i", 2), "I"), None, ("-", ("*", 2, "I"), 1)),
        (largest(("//", "i", -2), "I"), ("-", 1, ("*", 2, "I")), None),
        (largest(("//", ("+", ("*", 2, "i"), 1), 3), "I"), None, ("-", ("//", ("*", 3, "I"), 2), 1)),
        (("and", (">=", "i", 3), ("<", "i", "N")), 3, ("-", "N", 1)),
        (("not", (">", "i", "N")), None, "N"),
        (True, None, None),
    ],
)
def test_solved_intervals(condition: Any, low: Any, high: Any) -> None:
    found = solve.solve_for_inner_interval(condition, "i", SIZES)
    assert found is not None
    for end, expected in zip(found, (low, high), strict=True):
        assert (end is None) == (expected is None)
        assert expected is None or same(end, expected), (end, expected)


@pytest.mark.parametrize(
    "condition",
    [
        largest(("%", "i", 3), "I"),
        largest(("*", "i", "S"), "I"),
        largest(("*", "i", "i"), "I"),
        largest(("select", ("<", "i", 3), "i", 0), "I"),
        ("<", "N", "M"),
        False,
    ],
)
def test_what_has_no_interval_is_none(condition: Any) -> None:
    assert solve.solve_for_inner_interval(condition, "i") is None


@pytest.mark.parametrize(
    "condition, domain, expected",
    [
        (largest(("+", "i", "k"), "I"), {"k": (0, ("-", "K", 1))}, ("<=", ("+", "i", ("-", "K", 1)), "I1")),
        ((">=", ("-", "i", "k"), 0), {"k": (0, ("-", "K", 1))}, (">=", "i", ("-", "K", 1))),
        (
            largest(("+", ("*", 2, "i"), "k"), "I"),
            {"k": (0, 2), "i": (0, ("-", "N", 1))},
            ("<=", ("*", 2, "N"), ("-", "I", 1)),
        ),
    ],
)
def test_conditions_over_a_domain_are_exact_for_affine_subscripts(
    condition: Any, domain: dict[str, Any], expected: Any
) -> None:
    found = solve.and_condition_over_domain(condition, domain, SIZES)
    for i, size, n, k in product(range(-3, 8), range(1, 8), range(1, 5), range(1, 5)):
        env = {"i": i, "I": size, "I1": size - 1, "N": n, "K": k}
        assert value(found, env) == value(expected, env)


def test_conditions_over_a_domain_are_simplified_first() -> None:
    assert solve.and_condition_over_domain(("<=", ("-", ("*", 2, "k"), "k"), 9), {"k": (0, 9)}) is True
    assert solve.and_condition_over_domain(("<=", "k", "N"), {"k": (0, None)}) is False
    assert (
        solve.and_condition_over_domain(("<=", ("%", "k", "S"), ("-", "S", 1)), {"k": (0, 5)}, SIZES) is True
    )


@pytest.mark.parametrize(
    "expr, domain, low, high",
    [
        (("+", "k", "N"), {"k": (0, None)}, "N", None),
        (("-", "N", "k"), {"k": (0, None)}, None, "N"),
        (("-", ("*", 2, "k"), "k"), {"k": (0, 9)}, 0, 9),
        (
            ("max", ("min", ("+", "i", "k"), ("-", "I", 1)), 0),
            {"k": (None, None), "i": (None, None)},
            0,
            ("max", ("-", "I", 1), 0),
        ),
        (("%", "i", "S"), {"i": (None, None)}, 0, ("-", "S", 1)),
        (("%", "i", 3), {}, ("%", "i", 3), ("%", "i", 3)),
        ("i", {"i": (None, None)}, None, None),
    ],
)
def test_bounds_of_terms(expr: Any, domain: dict[str, Any], low: Any, high: Any) -> None:
    found = solve.bounds_of_expr_in_scope(expr, domain, SIZES)
    for end, expected in zip(found, (low, high), strict=True):
        assert (end is None) == (expected is None)
        if expected is not None:
            for i, n in product(range(-4, 5), range(1, 6)):
                env = {"i": i, "N": n, "I": n, "S": n}
                assert value(end, env) == value(expected, env)


def test_proofs_use_constant_bounds_and_do_not_guess() -> None:
    assert solve.can_prove((">=", ("*", "M", "N"), 1), SIZES) is True
    assert solve.can_prove((">=", ("*", "M", "N"), 1)) is False
    assert solve.can_prove(("<=", ("-", "N", 5), ("-", "N", 4))) is True
    assert solve.can_prove(("<", "N", "N")) is False


def test_the_strided_convolution_extents_agree() -> None:
    a = ("//", ("+", ("-", "H", "KH"), 1), 2)
    b = ("-", ("//", ("+", ("-", "H", "KH"), 5), 2), 2)
    assert solve.can_prove(("==", a, b))


def test_simplify_folds_and_keeps_names() -> None:
    assert solve.simplify(("-", ("-", "x"))) == "x"
    assert solve.simplify(("-", ("+", "x", 3), "x")) == 3
    assert solve.simplify(("<", ("min", "x", 3), 4)) is True
    assert solve.simplify("N", {"N": (4, 4)}) == 4
    assert solve.simplify(("==", ("<", "x", 3), True)) == ("<", "x", 3)
    for name in ("t0", "t1", "pos_inf", "neg_inf", "ä.$", "N", ":"):
        assert solve.simplify(("+", name, 0)) == name
        assert solve.solve_for_inner_interval(("<=", "i", name), "i") == (None, name)


def test_names_of_halides_own_temporaries_are_not_captured() -> None:
    # The shared part makes Halide name a temporary; all of its usual names are taken by variables here.
    shared = ("*", ("+", "t0", "t1"), ("+", "t2", "t3"))
    for n in range(40):
        term = ("+", ("//", shared, 3), ("%", ("+", shared, f"t{n}"), 5))
        found = solve.simplify(("max", term, ("//", shared, 7)))
        env = {f"t{q}": 3 * q - 20 for q in range(40)}
        assert value(found, env) == value(("max", term, ("//", shared, 7)), env)


# --- soundness by brute force ----------------------------------------------------------------------------

INTEGERS = st.integers(-5, 5)


def numbers(names: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """Integer terms: affine, floor division and remainder by constants, min, max, select."""
    leaf = st.one_of(st.sampled_from(names), st.sampled_from(names), INTEGERS)

    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        comparison = st.tuples(st.sampled_from(["<", "<=", "=="]), inner, inner)
        return st.one_of(
            st.tuples(st.sampled_from(["+", "-", "min", "max"]), inner, inner),
            st.tuples(st.just("*"), st.integers(-3, 3), inner),
            st.tuples(st.sampled_from(["//", "%"]), inner, st.sampled_from([-3, -2, -1, 1, 2, 3, 4])),
            st.tuples(st.just("select"), comparison, inner, inner),
        )

    return st.recursive(leaf, grow, max_leaves=6)


def conditions(names: tuple[str, ...]) -> st.SearchStrategy[Any]:
    inner = numbers(names)
    leaf = st.tuples(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), inner, inner)
    return st.recursive(
        leaf,
        lambda c: st.one_of(st.tuples(st.sampled_from(["and", "or"]), c, c), st.tuples(st.just("not"), c)),
        max_leaves=3,
    )


NAMES = ("i", "j", "N")
OUTER = [{"j": j, "N": n} for j in range(-4, 5) for n in range(1, 5)]
REACH = 12


def domains() -> st.SearchStrategy[Any]:
    low = st.one_of(st.integers(-3, 1), st.just("j"), st.none())
    high = st.one_of(st.integers(-1, 4), st.just(("-", "N", 1)), st.just(("+", "j", 2)), st.none())
    return st.tuples(low, high)


def run(bounds: Any, env: Env) -> range:
    low, high = bounds
    first = -REACH if low is None else max(value(low, env), -REACH)
    last = REACH if high is None else min(value(high, env), REACH)
    return range(first, last + 1)


# What range inference asks: a subscript against an end without the variable that is solved for.
SOLVABLE = st.tuples(
    st.sampled_from(["<=", ">=", "<", ">", "=="]), numbers(("i", "i", "j")), numbers(("j", "N"))
)


@settings(max_examples=examples(500), deadline=None)
@given(st.one_of(SOLVABLE, conditions(NAMES)))
def test_every_point_of_a_solved_interval_satisfies_the_condition(condition: Any) -> None:
    found = solve.solve_for_inner_interval(condition, "i", {"N": (1, None)})
    if found is None:  # nothing is claimed; the table above says what must be found
        return
    for env in OUTER:
        for i in run(found, env):
            assert value(condition, {**env, "i": i}), (found, env, i)


@settings(max_examples=examples(300), deadline=None)
@given(conditions(NAMES), domains())
def test_a_condition_over_a_domain_implies_the_condition(condition: Any, domain: Any) -> None:
    found = solve.and_condition_over_domain(condition, {"i": domain}, {"N": (1, None)})
    for env in OUTER:
        if value(found, env):
            for i in run(domain, env):
                assert value(condition, {**env, "i": i}), (found, env, i)


@settings(max_examples=examples(300), deadline=None)
@given(numbers(NAMES), domains())
def test_bounds_hold_on_the_domain(expr: Any, domain: Any) -> None:
    low, high = solve.bounds_of_expr_in_scope(expr, {"i": domain}, {"N": (1, None)})
    for env in OUTER:
        for i in run(domain, env):
            at = value(expr, {**env, "i": i})
            assert low is None or value(low, env) <= at
            assert high is None or at <= value(high, env)


@settings(max_examples=examples(200), deadline=None)
@given(conditions(NAMES))
def test_simplifying_keeps_the_meaning_and_proofs_hold(condition: Any) -> None:
    bounds = {"N": (1, None)}
    found = solve.simplify(condition, bounds)
    proven = solve.can_prove(condition, bounds)
    for env in OUTER:
        for i in range(-6, 7):
            point = {**env, "i": i}
            assert value(found, point) == value(condition, point)
            assert value(condition, point) or not proven


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(-3, 3), st.integers(-6, 6), st.integers(-6, 6), st.integers(-6, 6))
def test_intervals_of_affine_conditions_are_maximal(a: int, b: int, c: int, d: int) -> None:
    assume(a != 0)
    # low <= a*i + b <= high with constants: the solutions are contiguous, so all of them are found.
    subscript = ("+", ("*", a, "i"), b)
    lower = solve.solve_for_inner_interval((">=", subscript, min(c, d)), "i")
    upper = solve.solve_for_inner_interval(("<=", subscript, max(c, d)), "i")
    assert lower is not None
    assert upper is not None
    found = set(run(lower, {})) & set(run(upper, {}))
    assert found == {i for i in range(-REACH, REACH + 1) if min(c, d) <= a * i + b <= max(c, d)}


# --- errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "term, message",
    [
        (None, "not a term: None"),
        (1.5, "not a term: 1.5"),
        (["+", "x", 1], "not a term: <list>"),
        (("foo", ("+", "x", 1), 2, 3, 4, 5, 6), "unknown operator in ('foo', (...), 2, 3, 4, 5, ...)"),
        ("", "a variable needs a name"),
        ((), "unknown operator in ()"),
        (("foo", "x", 1), "unknown operator in ('foo', 'x', 1)"),
        ((1, "x", 1), "unknown operator"),
        (("+", "x"), "'+' takes 2 operands"),
        (("+", "x", 1, 2), "'+' takes 2 operands"),
        (("select", True, 1), "'select' takes 3 operands"),
        (("not", True, True), "'not' takes 1 operands"),
        (("not", "x"), "'not' takes a condition"),
        (("+", True, "x"), "'+' takes integers"),
        (("-", True), "'-' takes an integer"),
        (("and", "x", True), "'and' takes conditions"),
        (("==", "x", True), "'==' compares an integer with a condition"),
        (("select", "x", 1, 2), "'select' chooses by an integer"),
        (("select", True, 1, False), "'select' chooses between an integer and a condition"),
        (("//", "x", 0), "division by the constant 0"),
        (("%", "x", 0), "division by the constant 0"),
        ("\ud800", "surrogates not allowed"),
    ],
)
def test_malformed_terms(term: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        solve.simplify(term)
    assert message in str(caught.value)


def test_conditions_and_integers_are_told_apart() -> None:
    with pytest.raises(ValueError, match="a condition is needed, not the integer 'x'"):
        solve.can_prove("x")
    with pytest.raises(ValueError, match="a condition is needed"):
        solve.solve_for_inner_interval(("+", "i", 1), "i")
    with pytest.raises(ValueError, match="an integer is needed"):
        solve.bounds_of_expr_in_scope(("<", "i", 1), {})
    with pytest.raises(ValueError, match="an integer is needed"):
        solve.simplify("x", {"x": (True, None)})


@pytest.mark.parametrize("bounds", [{"x": 1}, {"x": (1,)}, {"x": [1, 2]}, {1: (1, 2)}, [("x", (1, 2))]])
def test_malformed_bounds(bounds: Any) -> None:
    with pytest.raises(ValueError):
        solve.simplify("x", bounds)


@pytest.mark.parametrize("domain", [{"k": (0, "k")}, {"k": (0, "i"), "i": (0, 3)}])
def test_a_domain_may_not_mention_its_variables(domain: Any) -> None:
    with pytest.raises(ValueError, match="bounds one of its variables"):
        solve.and_condition_over_domain(("<", "k", "N"), domain)
    with pytest.raises(ValueError, match="bounds one of its variables"):
        solve.bounds_of_expr_in_scope("k", domain)


@pytest.mark.parametrize(
    "number", [2**31, -(2**31) - 1, 2**63, 10**40, 10**9000], ids=lambda n: f"{n.bit_length()}-bits"
)
def test_integers_beyond_int32_are_refused(number: int) -> None:
    with pytest.raises(OverflowError, match="does not fit int32"):
        solve.simplify(("+", "x", number))
    with pytest.raises(OverflowError, match="does not fit int32"):
        solve.can_prove(True, {"x": (number, None)})


def test_the_ends_of_int32_are_allowed_and_folding_past_them_is_not() -> None:
    assert solve.simplify(2**31 - 1) == 2**31 - 1
    assert solve.simplify(-(2**31)) == -(2**31)
    with pytest.raises(OverflowError):
        solve.simplify(("+", 2**31 - 1, 1))
    with pytest.raises(OverflowError):
        solve.simplify(("//", "x", -(2**31)))


def nested(depth: int) -> Any:
    term: Any = "x"
    for n in range(depth):
        term = ("min", ("+", term, f"v{n % 7}"), n) if n % 2 else ("max", term, f"v{n % 5}")
    return term


def test_deep_terms_are_refused_and_those_below_the_limit_work() -> None:
    for depth in (1_000, 100_000):
        with pytest.raises(ValueError, match="nested deeper than 200 levels"):
            solve.simplify(nested(depth))
    with pytest.raises(ValueError, match=r"unknown operator in \('foo', \(...\)\)"):
        solve.simplify(("foo", nested(100_000)))
    assert solve.simplify(nested(100)) is not None


def test_deep_terms_fit_the_stack_of_a_thread() -> None:
    results: list[Any] = []
    old = threading.stack_size(2**21)
    try:
        worker = threading.Thread(
            target=lambda: results.append(
                solve.and_condition_over_domain(("<", nested(130), "N"), {"x": (0, 9)})
            )
        )
        worker.start()
        worker.join()
    finally:
        threading.stack_size(old)
    assert len(results) == 1


def test_what_explodes_is_refused() -> None:
    wide: Any = "x"
    for _ in range(17):
        wide = ("+", wide, wide)
    with pytest.raises(ValueError, match="more than 100000 nodes"):
        solve.simplify(wide)
    chosen: Any = "x"
    for n in range(11):
        chosen = ("select", ("<", chosen, n), "y", 3)
    with pytest.raises(ValueError, match="more than 10 selects"):
        solve.bounds_of_expr_in_scope(chosen, {"x": (0, "N")})
    branches: Any = "x"
    for n in range(90):
        branches = ("select", ("<", f"v{n % 7}", n), branches, ("+", f"v{n % 7}", 1))
    with pytest.raises(ValueError, match="the result has more than 100000 nodes"):
        solve.bounds_of_expr_in_scope(branches, {f"v{n}": (0, "N") for n in range(7)})


def test_errors_print_nothing_and_do_not_end_the_process() -> None:
    code = """
from tc.halide import solve
for bad in (None, ("//", "x", 0), ("+", 2**31 - 1, 1), ("*", 2**30, 4), ("%", "x", True), 2**40):
    try:
        solve.simplify(bad)
    except (ValueError, OverflowError):
        continue
    raise SystemExit(f"{bad} was accepted")
solve.simplify(("*", ("+", "x", 2**30), 4))
solve.solve_for_inner_interval(("<=", ("*", "i", 2**30), 2**31 - 1), "i")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
