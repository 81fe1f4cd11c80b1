"""Gradients and tangents read no elements that the program does not read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import tc
from fuzz import gradients
from fuzz.strategies import Program

# A program, and sizes at which it reads less than the ranges of its variables name.
PROGRAMS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "a condition that no two variables meet": (
        """def f(double(N,K) A) -> (T) {
             T(i,j) +=! abs(min(0, A(int8(k), m))) + A(i,i) + A(j,j) where k in 2:4, i != j
           }""",
        {"N": 1, "K": 1},
    ),
    "no values of another variable": (
        """def f(double(N) A, double(M) B) -> (T) {
             T(i) +=! (A(int8(k)) > 0 ? A(int8(k)) : 0) * B(i) where k in 2:4
           }""",
        {"N": 1, "M": 0},
    ),
    "no values of another variable, in a loop": (
        """def f(double(N) A, double(M) B, double(K) w) -> (T) {
             T(i) = B(i)
             for t in 0:3 {
               S(i) +=! (A(int8(k)) > 0 ? A(int8(k)) : 0) * w(j) * T(i) where k in 2:4
               T(i) = T(i) + S(i)
             }
           }""",
        {"N": 1, "M": 2, "K": 0},
    ),
    "a condition on the variable itself": (
        """def f(double(N) A, double(M) B) -> (T) {
             T(i) +=! A(int8(4*(k%3))) > 0 ? A(int8(4*(k%3))) * B(i) : 0 where k in 0:4, k % 3 == 0
           }""",
        {"N": 1, "M": 2},
    ),
    "a triangle": (
        """def f(double(N) A, int(N) X) -> (T) {
             T(i) +=! A(X(i+j)) > 0 ? A(X(i+j)) * A(i) : 0 where i in 0:N, j in 0:N, i + j < N
           }""",
        {"N": 3},
    ),
    "a look-up that another one allows": (
        """def f(double(N) A, double(M) B, int(M) X) -> (T) {
             T(i) = X(i) < 1 ? (A(X(i)) > 0 ? A(X(i)) * B(i) : 0) : B(i)
           }""",
        {"N": 1, "M": 9},
    ),
    "a scatter of nothing beside a short tensor": (
        """def f(double(N,M) A, int(K) X) -> (T) { T(i,j) = A(X(i),j) * A(X(i),1) where j in 2:6 }""",
        {"N": 1, "M": 1, "K": 0},
    ),
    "a scatter of nothing, in a minimum": (
        """def f(double(P,K) A) -> (T) {
             T(l,i,j,k) min=! sqrt(A(5*i-1,j) / A(select(j * 0.5 < 3, j, 0), j)) + A(l,l) + A(k,k) + A(m,m)
               where j in 2:6
           }""",
        {"P": 1, "K": 2},
    ),
    "a neighbour within a condition": (
        """def f(double(N) A, double(N) B) -> (T) {
             T(i) = i >= 1 ? (A(i-1) > 0 ? A(i-1) * B(i) : 0) : B(i) where i in 0:N
           }""",
        {"N": 4},
    ),
    "a neighbour within a condition, in a maximum": (
        """def f(double(N) A, double(N) B) -> (T) {
             T max=! i >= 1 ? (max(A(i-1), B(i)) > 0 ? max(A(i-1), 1.0) * B(i) : 0) : B(i) where i in 0:N
           }""",
        {"N": 4},
    ),
}


@pytest.mark.share(8)
@pytest.mark.parametrize("ties", ["first", "split"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_no_instance_reads_is_not_read(name: str, ties: str) -> None:
    source, sizes = PROGRAMS[name]
    for number in (0, 3):
        assert gradients.check(Program(source, sizes, "small", number), "reference", ties, True) == "right"


def test_a_table_of_subscripts_is_a_maximum_over_instances() -> None:
    source, _ = PROGRAMS["no values of another variable"]
    _, place, _, scatter, *_ = tc.grad(source, "A").splitlines()
    assert place == (
        "  place(k) max=! A(int8(k)) > 0.0 ? int64(int8(k)) : int64(0) where k in 2:4, i in 0:min(M, 1)"
    )
    assert scatter.startswith("  d_A(place(k)) +=")


def test_a_table_of_what_is_read_everywhere_takes_no_maximum() -> None:
    source = """def f(double(N) A, double(N) B, int(N) X) -> (T) {
      T(i) +=! B(k) > 0 ? A(X(k)) : 0 where k in 0:N, i in 0:N, i != k
    }"""
    assert "  place(k) = B(k) > 0.0 ? int64(X(k)) : int64(0) where k in 0:N\n" in tc.grad(source, "A")


def test_conditions_are_joined_where_all_that_they_read_exists() -> None:
    source = "def f(double(N) A, double(N) B) -> (T) { T(i) = A(i) > 0 ? (B(i) > 0 ? A(i) : 0) : 0 }"
    assert "A(i) > 0.0 && B(i) > 0.0 ? t_A(i) : 0.0" in tc.jvp(source, "A")


@pytest.mark.filterwarnings("ignore::tc.EmptyRange")
def test_what_an_empty_statement_would_write_outside() -> None:
    source = """def f(double(P) a, double(M) b) -> (t) {
      t(k,i) = a(k) * a(0) where k in 0:P, i in 0:2
      t(k,i) min= a(k) * b(i) where k in 3:P, i in M-2:M
    }"""
    for m in (2, 3, 5):
        d_a, d_b = tc.compile(tc.grad(source), "reference")(np.ones(3), np.ones(m), np.ones((3, 2)))
        np.testing.assert_array_equal(d_a, [8, 2, 2])
        np.testing.assert_array_equal(d_b, np.zeros(m))
