"""Temporaries with the batch of a product before its rows and columns."""

from __future__ import annotations

import pytest

from tc.ir.expr import Variable
from tc.pipeline import equivalence
from tc.transforms.program.batches import products_first
from tests.backends.cpu_cases import compiled

SIZES = {"F": 17, "C": 3, "A": 5, "B": 2, "N": 2, "I": 3, "J": 4, "P": 2}
PARAMETERS = "float(F,C,A) u, float(N,C,I,J,B) x, float(A,B) T, float(P,A) d, int32(A) r"
V = "v(n,c,i,j,a) +=! x(n,c,i,j,b) * T(a,b) "
OF_V = "m(n,f,i,j,a) +=! u(f,c,a) * v(n,c,i,j,a) "
CASES = {  # the order of the dimensions of each temporary that has another
    "a factor and the result": (V + OF_V + "y(n,f,i,j,a) = m(n,f,i,j,a)", {"v": "ancij", "m": "anfij"}),
    "both factors": (
        V
        + "w(f,c,a) = u(f,c,a) + 1 m(n,f,i,j,a) +=! w(f,c,a) * v(n,c,i,j,a) y(n,f,i,j,a) = 2 * m(n,f,i,j,a)",
        {"v": "ancij", "w": "afc", "m": "anfij"},
    ),
    "what is computed of it": (
        V + OF_V + "t(n,f,i,j,p) +=! m(n,f,i,j,a) * d(p,a) y(n,f,h,j,p) = t(n,f,h/2,j,p) where h in 0:2*I",
        {"v": "ancij", "m": "anfij", "t": "pnfij"},
    ),
    "a result in another order": (
        V + "m(f,i,n,j,a) +=! u(f,c,a) * v(n,c,i,j,a) y(n,f,i,j,a) = m(f,i,n,j,a) * m(f,i,n,j,0)",
        {"v": "ancij", "m": "afinj"},
    ),
    "numbers that are widened": (
        V + "m(n,f,i,j,a) +=! double(u(f,c,a)) * double(v(n,c,i,j,a)) y(n,f,i,j,a) = m(n,f,i,j,a)",
        {"v": "ancij", "m": "anfij"},
    ),
    "a read that data choose": (V + OF_V + "y(n,f,i,j,a) = m(n,f,i,j,r(a))", {"v": "ancij", "m": "anfij"}),
    "a statement that goes on": (
        V + OF_V + "m(n,f,i,j,a) = m(n,f,i,j,a) * 2 where a in 1:3 y(n,f,i,j,a) = m(n,f,i,j,a)",
        {"v": "ancij", "m": "anfij"},
    ),
    "two products of one temporary": (
        V + OF_V + "k(n,f,i,j,a) +=! u(f,c,a) * v(n,c,i,j,a) y(n,f,i,j,a) = m(n,f,i,j,a) - k(n,f,i,j,a)",
        {"v": "ancij", "m": "anfij", "k": "anfij"},
    ),
}
SAME = {
    "the batch is first": (
        "v(a,n,c,i,j) +=! x(n,c,i,j,b) * T(a,b) m(a,n,f,i,j) +=! u(f,c,a) * v(a,n,c,i,j) "
        "y(n,f,i,j,a) = m(a,n,f,i,j)"
    ),
    "one row": "v(c,a) +=! x(0,c,0,0,b) * T(a,b) m(f,a) +=! u(f,c,a) * v(c,a) y(f,a) = m(f,a)",
    "the result is the caller's": V + "y(n,f,i,j,a) +=! u(f,c,a) * v(n,c,i,j,a)",
    "the columns are an argument": "m(n,f,i,j,a) +=! u(f,c,a) * x(n,c,i,j,a) y(n,f,i,j,a) = m(n,f,i,j,a)",
    "a sum of sums": V + "m(n,f,i,j,a) +=! u(f,c,a) + v(n,c,i,j,a) y(n,f,i,j,a) = m(n,f,i,j,a)",
    "an extreme": V + "m(n,f,i,j,a) max=! u(f,c,a) * v(n,c,i,j,a) y(n,f,i,j,a) = m(n,f,i,j,a)",
    "under a condition": (
        V + "m(n,f,i,j,a) +=! u(f,c,a) * v(n,c,i,j,a) where c <= i y(n,f,i,j,a) = m(n,f,i,j,a)"
    ),
    "a subscript that is no variable": (
        V + "m(n,f,i,j,a) +=! u(f,c,a) * v(n,c,i,j,A-1-a) y(n,f,i,j,a) = m(n,f,i,j,a)"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_temporaries_with_the_batch_first(name: str) -> None:
    body, expected = CASES[name]
    before = compiled(f"def f({PARAMETERS}) -> (y) {{ {body} }}").program(SIZES)
    after, names = products_first(before, {})
    equivalence.same_results(before, after)
    assert {*names} == {*expected}
    for n in names:
        written = next(s for s in after.stages if after.func_buffers[s.func] == n)
        assert "".join(a.name for a in written.args if isinstance(a, Variable)) == expected[n]
        assert "".join(v.name for v in written.domain.vars if v.kind == "pure") == expected[n]


@pytest.mark.parametrize("name", SAME)
def test_other_temporaries_keep_their_layout(name: str) -> None:
    program = compiled(f"def f({PARAMETERS}) -> (y) {{ {SAME[name]} }}").program(SIZES)
    assert products_first(program, {}) == (program, ())
