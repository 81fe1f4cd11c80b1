"""Halide's simplifier, interval solver and bounds inference, on plain tuples.

    Term   ::= int | bool | str                 (a str is an integer variable)
             | (op, Term, Term)                 op in + - * // % min max == != < <= > >= and or
             | ("-", Term) | ("not", Term)
             | ("select", Term, Term, Term)     condition, value if true, value if false
    Bounds ::= (Term | None, Term | None)       both ends inclusive; None: unbounded on that side

`//` and `%` are Python's (floor) for a constant divisor and for positive values of any other; a divisor that
may be negative is divided by as in Halide (the remainder is not negative), and x // 0 counts as 0.

What holds for every function here:

* Integers are int32, and a proof assumes that no value leaves int32.  A constant outside raises
  OverflowError, as does constant folding that would leave it.
* `bounds` are facts about free variables ({"N": (1, None)}: a size is at least 1).  Halide uses only ends
  that are constants; others are ignored.
* A malformed term, one nested deeper than 200 levels or with more than 100 000 nodes, or with more than 10
  selects inside each other's conditions, raises ValueError, as does everything Halide itself refuses.
* Results are simplified terms without sharing.  Their form is Halide's choice and may change between
  releases: compare by `can_prove`, or by values.

The algorithms are those of Halide's Simplify, Solve and Bounds (Ragan-Kelley et al., PLDI 2013); a call takes
4 to 20 microseconds on terms of the size of a subscript.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TypeAlias

from tc.halide import load_library

Term: TypeAlias = "int | bool | str | tuple[Term, ...]"
Bounds: TypeAlias = "tuple[Term | None, Term | None]"


@cache
def _solver():
    load_library()
    from tc import _halide

    return _halide


def simplify(expr: Term, bounds: Mapping[str, Bounds] | None = None) -> Term:
    """An equal, usually simpler term; a constant folds to an int or a bool."""
    return _solver().simplify(expr, bounds)


def can_prove(condition: Term, bounds: Mapping[str, Bounds] | None = None) -> bool:
    """Whether Halide shows `condition` to hold for all values of its variables within `bounds`.

    False means "not shown", not "false": for example `min(min(A, B), C) <= A` and `((I-K)//2)*2 + K <= I`
    hold and are not shown.
    """
    return _solver().can_prove(condition, bounds)


def solve_for_inner_interval(
    condition: Term, variable: str, bounds: Mapping[str, Bounds] | None = None
) -> Bounds | None:
    """An interval of `variable` in which `condition` holds, as large as Halide finds; None if it finds none.

    Sound: every integer in the interval satisfies the condition, whatever the other variables are.  Not
    complete: None means "empty, or not solvable" (`i%3 <= N`, `i*s <= N`, a condition without `variable`),
    and the interval is one contiguous part of the solutions, not always the largest (conjoined conditions,
    `max` and `min` below others: solve each inequality on its own and intersect).  The ends may cross for
    some sizes: the interval is then empty for those.
    """
    return _solver().solve_for_inner_interval(condition, variable, bounds)


def and_condition_over_domain(
    condition: Term, domain: Mapping[str, Bounds], bounds: Mapping[str, Bounds] | None = None
) -> Term:
    """A condition without the variables of `domain` that implies `condition` for all of their values there.

    Sound, not complete: the result may be stronger than needed, up to False, because each occurrence of a
    variable that is left after simplification is bounded on its own (`k*N - k <= 9`).  Ends of `domain` may
    be any terms, but not mention its variables (ValueError).  Where the domain is empty for some sizes the
    result may be stricter than True.
    """
    return _solver().and_condition_over_domain(condition, domain, bounds)


def bounds_of_expr_in_scope(
    expr: Term, domain: Mapping[str, Bounds], bounds: Mapping[str, Bounds] | None = None
) -> Bounds:
    """Bounds of an integer term while the variables of `domain` run over it; other variables stay symbols.

    Sound, not always tight, for the same reason as `and_condition_over_domain`; None where Halide finds no
    bound.  Ends of `domain` may be any terms, but not mention its variables (ValueError).
    """
    return _solver().bounds_of_expr_in_scope(expr, domain, bounds)
