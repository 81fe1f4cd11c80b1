"""Checked accesses that Halide's simplifier takes away, which must not be lost without a word."""

from __future__ import annotations

import pytest

import tc
from tc.errors import BackendError
from tc.halide.limits import refuse_dropped
from tc.ir.program import Program


def program(value: str) -> Program:
    source = f"def f(int(N,N) A, uint8(N,N) B, int(N) X) -> (T) {{ T(i,j) = {value} }}"
    return tc.compile(source, "reference").program({"N": 3})


pytestmark = pytest.mark.filterwarnings("ignore::tc.errors.DataDependentAccess")


@pytest.mark.parametrize(
    "value",
    [
        "A(i, X(j)) * 0",
        "(A(i,j) < A(i, X(j)) ? A(j,i) : A(j,i))",
        "min(B(i, X(j)), uint8(0))",
        "select(i < 0, A(i, X(j)), A(i,j))",
        "select(i >= 0, A(i,j), A(i, X(j)))",
        "select(j > 2, A(i, X(j)), A(i,j))",
        "select(i == j + 3, A(i, X(j)), A(i,j))",
        "select(i != j - 5, A(i,j), A(i, X(j)))",
        "select(i < 1 && j > 2, A(i, X(j)), A(i,j))",
        "select(i < 1 || j <= 2, A(i,j), A(i, X(j)))",
        "select(!(2 * i <= 4), A(i, X(j)), A(i,j))",
    ],
)
def test_what_a_value_does_not_depend_on(value: str) -> None:
    with pytest.raises(BackendError, match="simplifies a checked access away") as caught:
        refuse_dropped(program(value), "")
    assert caught.value.code == "TC0805"
    # What Halide's code shows is there.
    refuse_dropped(program(value), "".join(f'" {site} {site}' for site in range(10)))


@pytest.mark.parametrize(
    "value",
    [
        "A(i, X(j)) * A(i, j)",
        "min(B(i, X(j)), uint8(1))",
        "select(i < 1, A(i, X(j)), A(i,j))",
        "select(i == j, A(i, X(j)), A(i,j))",
        "select(i < 1 || j > 2, A(i,j), A(i, X(j)))",
        "select(X(i) < 0, A(i, X(j)), A(i,j))",
    ],
)
def test_what_it_does(value: str) -> None:
    refuse_dropped(program(value), "")


def test_a_subscript_that_is_never_in_range() -> None:
    """Sizes that make it so are refused before, but where conditions on them are too strict to ask for."""
    source = """def f(half(N) A, half(N,N,M) B, half(P,N,N) C) -> (T, U) {
      T(i,j) +=! C(j,k,k) + B(i+j,j,j)
      U(i,j,k) max=! T(k, 3*j+k-2) + A(i) + B(j,j,j)
    }"""
    with pytest.raises(BackendError, match="simplifies a checked access away"):
        refuse_dropped(tc.compile(source, "reference").program({"N": 1, "M": 1, "P": 1}), "")
