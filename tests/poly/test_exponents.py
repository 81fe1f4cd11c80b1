"""Proofs that exponents are never positive."""

from __future__ import annotations

import pytest

import tc
from tc.ir.expr import Call, walk
from tc.poly import scop
from tc.poly.context import isl_context
from tc.poly.exponents import NAME, nonpositive_exponents

NEVER = {
    "soft-max": "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d)\n O(n,d) = exp(I(n,d) - M(n)) }",
    "the sum alone": "def f(float(N,D) I) -> (S,M) { M(n) max=! I(n,d)\n S(n) +=! exp(I(n,d) - M(n)) }",
    "a maximum that is used again": (
        "def f(float(N,D) I) -> (O) { m(n) max=! I(n,d)\n O(n,d) = exp(I(n,d) - m(n))\n m(n) +=! O(n,d)\n"
        " O(n,d) = O(n,d) / m(n) }"
    ),
    "in place": (
        "def f(float(N,D) A) -> (S,M) { S(n,d) = A(n,d) * 0.125\n M(n) max=! S(n,d)\n"
        " S(n,d) = exp(S(n,d) - M(n)) }"
    ),
    "a maximum of all": "def f(float(N,D) I) -> (O,M) { M max=! I(n,d)\n O(n,d) = exp(I(n,d) - M) }",
    "a column": "def f(float(N,D) I) -> (O,M) { M(d) max=! I(n,d)\n O(n,d) = exp(I(n,d) - M(d)) }",
    "a part of what was compared": (
        "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d)\n"
        " O(n,d) = exp(I(n,d) - M(n)) where d in 1:3, n in 0:N }"
    ),
    "larger than all of it": (
        "def f(float(N,D) I, float(N) B) -> (O,M) { M(n) = B(n)\n M(n) max= I(n,d)\n"
        " O(n,d) = exp(I(n,d) - M(n)) }"
    ),
    "halves": (
        "def f(float16(N,D) I) -> (O,M) { M(n) max=! I(n,d)\n O(n,d) = exp(float(I(n,d)) - float(M(n))) }"
    ),
    "some element, as data say": (
        "def f(float(N,D) I, int(N,D) K) -> (O,M) { M(n) max=! I(n,d)\n O(n,d) = exp(I(n,K(n,d)) - M(n)) }"
    ),
}
NEVER |= {
    "of a maximum that is 0 where all is masked": (
        "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d)\n m(n) = M(n) == -inf ? 0 : M(n)\n"
        " O(n,d) = exp(I(n,d) - m(n)) }"
    ),
    "of a maximum that becomes 0 there": (
        "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d)\n M(n) = M(n) == -inf ? 0 : M(n)\n"
        " O(n,d) = exp(I(n,d) - M(n)) }"
    ),
    "of a product with a constant": (
        "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d) * 0.5\n O(n,d) = exp(I(n,d) * 0.5 - M(n)) }"
    ),
    "of a quotient by a scalar": (
        "def f(float(N,D) I, float T) -> (O,M) { M(n) max=! I(n,d) / T\n O(n,d) = exp(I(n,d) / T - M(n)) }"
    ),
    "of a sum with a mask": (
        "def f(float(B,N,D) I, float(N,D) mask) -> (O,M) { M(b,n) max=! I(b,n,d) + mask(n,d)\n"
        " O(b,n,d) = exp(I(b,n,d) + mask(n,d) - M(b,n)) }"
    ),
    "of one tensor at two elements": (
        "def f(float(N) x, float(D) y) -> (O,M) { M(i) max=! x(i) * x(j) * y(k)\n"
        " O(i,j,k) = exp(x(i) * x(j) * y(k) - M(i)) }"
    ),
}
PERHAPS = {
    "of a maximum that is 0 elsewhere": (
        "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d)\n m(n) = M(n) == 1 ? 0 : M(n)\n"
        " O(n,d) = exp(I(n,d) - m(n)) }"
    ),
    "of another number where all is masked": (
        "def f(float(N,D) I, float(N) b) -> (O,M) { M(n) max=! I(n,d)\n m(n) = M(n) == -inf ? 0 : b(n)\n"
        " O(n,d) = exp(I(n,d) - m(n)) }"
    ),
    "of another row that is 0 where all is masked": (
        "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d)\n m(n) = M(N-1-n) == -inf ? 0 : M(n)\n"
        " O(n,d) = exp(I(n,d) - m(n)) }"
    ),
    "of a product with another constant": (
        "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d) * 0.5\n O(n,d) = exp(I(n,d) * 0.25 - M(n)) }"
    ),
    "of another row of the mask": (
        "def f(float(N,D) I, float(N,D) mask) -> (O,M) { M(n) max=! I(n,d) + mask(n,d)\n"
        " O(n,d) = exp(I(n,d) + mask(n+1,d) - M(n)) where n in 0:N-1 }"
    ),
    "of what an index is part of": (
        "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d) * d\n O(n,d) = exp(I(n,d) * (d + 1) - M(n)) }"
    ),
    "of elements that only one by one were compared": (
        "def f(float(N) x, float(D) y) -> (O,M) { M(i) max=! x(i) * y(i) where i in 0:3\n"
        " O(i,j) = exp(x(j) * y(i) - M(i)) where i in 0:3 }"
    ),
    "a minimum": "def f(float(N,D) I) -> (O,M) { M(n) min=! I(n,d)\n O(n,d) = exp(I(n,d) - M(n)) }",
    "the other way round": "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d)\n O(n,d) = exp(M(n) - I(n,d)) }",
    "of another tensor": (
        "def f(float(N,D) I, float(N,D) J) -> (O,M) { M(n) max=! J(n,d)\n O(n,d) = exp(I(n,d) - M(n)) }"
    ),
    "of another row": (
        "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d)\n O(n,d) = exp(I(n,d) - M(n+1)) where n in 0:N-1 }"
    ),
    "of a part": (
        "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d) where d in 1:D, n in 0:N\n"
        " O(n,d) = exp(I(n,d) - M(n)) where d in 0:D }"
    ),
    "of half of it": (
        "def f(float(N,D) I) -> (O,M) { M(n) max=! 0.5 * I(n,d)\n O(n,d) = exp(I(n,d) - M(n)) }"
    ),
    "changed in between": (
        "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d)\n M(n) = M(n) - 1.0\n O(n,d) = exp(I(n,d) - M(n)) }"
    ),
    "of what is overwritten": (
        "def f(float(N,D) A) -> (S,M,O) { S(n,d) = A(n,d)\n M(n) max=! S(n,d)\n S(n,d) = A(n,d) * 2.0\n"
        " O(n,d) = exp(S(n,d) - M(n)) }"
    ),
    "a scaled difference": (
        "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d)\n O(n,d) = exp(0.0 - 2.0 * (I(n,d) - M(n))) }"
    ),
    "under a condition": (
        "def f(float(N,D) I) -> (O,M) { M(n) max=! I(n,d) where d < n\n O(n,d) = exp(I(n,d) - M(n)) }"
    ),
}


def names(source: str, sizes: dict[str, int]) -> set[str]:
    program = tc.compile(source, "reference").program(sizes)
    with isl_context():
        found = nonpositive_exponents(scop.build(program)).bodies.values()
        return {x.name for e in found for x in walk(e) if isinstance(x, Call) and x.name.startswith("exp")}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sizes", [{"N": 7, "D": 9}, {}])
@pytest.mark.parametrize("what", NEVER)
def test_exponents_that_are_never_positive_are_proven(what: str, sizes: dict[str, int]) -> None:
    assert names(NEVER[what], sizes) == {NAME}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sizes", [{"N": 7, "D": 9}, {}])
@pytest.mark.parametrize("what", PERHAPS)
def test_exponents_that_may_be_positive_are_not_proven(what: str, sizes: dict[str, int]) -> None:
    assert names(PERHAPS[what], sizes) == {"exp"}
