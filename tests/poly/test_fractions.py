"""Proofs that fractions are between 0 and 1."""

from __future__ import annotations

import pytest

import tc
from tc.ir.expr import Call, walk
from tc.poly import scop
from tc.poly.context import isl_context
from tc.poly.exponents import nonpositive_exponents
from tc.poly.fractions import NAME, divided_fractions

HEAD = "def f(float(N,D) I, float(N) s, float(N,D) J) -> (O,M,Q) { M(n) max=! I(n,d)\n"
KNOWN = {
    "soft-max": HEAD + "O(n,d) = exp(I(n,d) - M(n))\n M(n) +=! O(n,d)\n Q(n,d) = O(n,d) / M(n) }",
    "in place": HEAD + "O(n,d) = exp(I(n,d) - M(n))\n O(n,d) = O(n,d) / s(n)\n Q(n) +=! O(n,d) }",
    "a probability": HEAD + "O(n,d) = sigmoid(I(n,d))\n Q(n,d) = O(n,d) / s(n) }",
    "a part": HEAD + "O(n,d) = exp(I(n,d) - M(n))\n Q(n,d) = O(n,d+1) / s(n) where d in 0:D-1 }",
    "within a sum": HEAD + "O(n,d) = exp(I(n,d) - M(n))\n Q(n) +=! 3.0 * (O(n,d) / s(n)) }",
    "halves": HEAD.replace("-> (O", "-> (float16(N,D) O")
    + "O(n,d) = float16(exp(I(n,d) - M(n)))\n Q(n,d) = float(O(n,d)) / s(n) }",
    "some element, as data say": HEAD + "O(n,d) = exp(I(n,d) - M(n))\n"
    " Q(n,d) = O(n,max(min(int(J(n,d)), D - 1), 0)) / s(n) }",
}
UNKNOWN = {
    "an input": HEAD + "O(n,d) = exp(I(n,d) - M(n))\n Q(n,d) = J(n,d) / s(n) }",
    "any exponential": HEAD + "O(n,d) = exp(I(n,d))\n Q(n,d) = O(n,d) / s(n) }",
    "the other way round": HEAD + "O(n,d) = exp(I(n,d) - M(n))\n Q(n,d) = s(n) / O(n,d) }",
    "a product": HEAD + "O(n,d) = 4.0 * exp(I(n,d) - M(n))\n Q(n,d) = O(n,d) / s(n) }",
    "a sum": HEAD + "O(n) +=! exp(I(n,d) - M(n))\n Q(n) = O(n) / s(n) }",
    "changed in between": HEAD + "O(n,d) = exp(I(n,d) - M(n))\n O(n,d) = O(n,d) * J(n,d)\n"
    " Q(n,d) = O(n,d) / s(n) }",
    "changed in part": HEAD + "O(n,d) = exp(I(n,d) - M(n))\n O(n,d) = J(n,d) where d in 0:1\n"
    " Q(n,d) = O(n,d) / s(n) }",
    "divided twice": HEAD + "O(n,d) = exp(I(n,d) - M(n)) / s(n)\n Q(n,d) = O(n,d) / s(n) }",
    "more than was computed": HEAD + "O(n,d) = J(n,d)\n O(n,d) = exp(I(n,d) - M(n)) where d in 0:1\n"
    " Q(n,d) = O(n,d) / s(n) }",
}


def found(source: str, sizes: dict[str, int]) -> bool:
    program = tc.compile(source, "reference").program(sizes)
    with isl_context():
        bodies = divided_fractions(nonpositive_exponents(scop.build(program))).bodies.values()
        return any(isinstance(x, Call) and x.name == NAME for e in bodies for x in walk(e))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sizes", [{"N": 7, "D": 9}, {}])
@pytest.mark.parametrize("what", KNOWN)
def test_fractions_from_0_to_1_are_proven(what: str, sizes: dict[str, int]) -> None:
    assert found(KNOWN[what], sizes)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sizes", [{"N": 7, "D": 9}, {}])
@pytest.mark.parametrize("what", UNKNOWN)
def test_other_fractions_are_not_proven(what: str, sizes: dict[str, int]) -> None:
    assert not found(UNKNOWN[what], sizes)
