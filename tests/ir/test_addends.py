"""Sums of products of matrices with an update for each product: their form and results."""

from __future__ import annotations

import pytest

from tc.errors import Source
from tc.ir import verify
from tc.ir.printer import text
from tc.ir.program import Program
from tc.ir.specialize import specialize
from tc.pipeline import equivalence
from tc.pipeline import front as pipeline
from tc.transforms.program.addends import separate

SIZES = {"I": 5, "J": 6, "K": 70}
PARAMETERS = "{t}(I,K) A, {t}(K,J) B, {t}(I,K) C, {t}(K,J) D, {t}(I,J) E"
# Of each: the statement, and the values of its updates.
SEPARATED = {
    "two products": (
        "y(i,j) +=! A(i,k) * B(k,j) + C(i,k) * D(k,j)",
        ["A(i, k) * B(k, j)", "C(i, k) * D(k, j)"],
    ),
    "three products": (
        "y(i,j) +=! A(i,k) * B(k,j) + C(i,k) * D(k,j) + A(i,k) * D(k,j)",
        ["A(i, k) * B(k, j)", "C(i, k) * D(k, j)", "A(i, k) * D(k, j)"],
    ),
    "a difference": (
        "y(i,j) +=! A(i,k) * B(k,j) - (C(i,k) * D(k,j) - A(i,k) * D(k,j))",
        ["A(i, k) * B(k, j)", "(-1) * C(i, k) * D(k, j)", "(-1) * (-1) * A(i, k) * D(k, j)"],
    ),
    "a condition": (
        "y(i,j) = E(i,j) y(i,j) += A(i,k) * B(k,j) + C(i,k) * D(k,j) where j <= i",
        ["A(i, k) * B(k, j)", "C(i, k) * D(k, j)"],
    ),
}
LEFT = {
    "one product": "y(i,j) +=! A(i,k) * B(k,j)",
    "a product and a row": "y(i,j) +=! A(i,k) * B(k,j) + C(i,k)",
    "a product of the sum": "y(i,j) +=! (A(i,k) + C(i,k)) * B(k,j)",
    "products of elements": "y(i) +=! A(i,k) * C(i,k) + A(i,k) * A(i,k)",
    "an extreme": "y(i,j) max=! A(i,k) * B(k,j) + C(i,k) * D(k,j)",
    "a sum of itself": (
        "y(i,j) = E(i,j) y(i,j) += y(i,k) * B(k,j) + C(i,k) * D(k,j) where i in 0:2, j in 0:2, k in 2:5"
    ),
}


def program(statement: str, t: str = "int") -> Program:
    source = f"def f({PARAMETERS.format(t=t)}) -> (y) {{ {statement} }}"
    built = pipeline.build(pipeline.front(Source(source)), pipeline.Variant()).program
    return specialize(built, {n: SIZES[n] for n in built.sizes}, {})


@pytest.mark.parametrize("name", SEPARATED)
def test_products_get_updates_of_their_own(name: str) -> None:
    statement, values = SEPARATED[name]
    before = program(statement)
    after, names = separate(before, lambda _: True)
    assert names == ("y",)
    assert [text(s.value) for s in after.stages if s.op is not None] == values
    assert verify.program(after) == "structure"
    assert equivalence.same_results(before, after)


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left(name: str) -> None:
    before = program(LEFT[name])
    assert separate(before, lambda _: True) == (before, ())


@pytest.mark.parametrize("t", ["double", "uint32", "int8"])
def test_differences_of_other_types(t: str) -> None:
    before = program(SEPARATED["a difference"][0], t)
    after, names = separate(before, lambda _: True)
    assert len(names) == 1
    assert equivalence.same_results(before, after)


def test_the_target_decides() -> None:
    before = program(SEPARATED["two products"][0])
    assert separate(before, lambda _: False) == (before, ())


def test_sums_of_halves_are_separated_where_they_are_wider() -> None:
    before = program("y(i,j) +=! A(i,k) * B(k,j) + C(i,k) * D(k,j)", "half")
    after, names = separate(before, lambda _: True)
    assert names == ("y_f32",)
    assert equivalence.same_results(before, after)
