"""The order of the loops of a reduction."""

from __future__ import annotations

import numpy as np
import pytest

from tc.transforms.program.interchange import interchange
from tests.backends.cpu_cases import compiled, interpreted

# Parameters and a sum, and the order of its loops for sizes of 4.
ORDERS = {
    "as both are read": (
        "float(A,B,C) X, float(A,B,C) Y",
        "O(i) +=! X(r,s,t) * Y(r,s,t) where t in 0:C, i in 0:1",
        "rst",
    ),
    "steps, not names": ("float(A,B) X, float(C,A) Y", "O(i) +=! X(s,r) * Y(i,s) where r in 0:B", "sr"),
    "windows": (
        "float(C,D,D) X, float(C,A,A) Y",
        "O(y,x) +=! X(c,y+p,x+q) * Y(c,p,q) where p in 0:A, q in 0:A, c in 0:C, y in 0:2, x in 0:2",
        "cpq",
    ),
    "no order that suits both": (
        "float(A,B) X, float(B,A) Y",
        "O(i) +=! X(r,s) * Y(s,r) where i in 0:1",
        "rs",
    ),
    "conditions": ("float(A,B) X, float(B) Y", "O(i) +=! Y(s) * X(r,s) where i in 0:1, r <= s", "sr"),
    "choices": (
        "float(A,B) X, float(B) Y",
        "O(i) +=! Y(s) * (r < s ? X(r,s) : 0) where i in 0:1, r in 0:A",
        "sr",
    ),
    "without them": ("float(A,B) X, float(B) Y", "O(i) +=! Y(s) * X(r,s) where i in 0:1", "rs"),
}


@pytest.mark.parametrize(("params", "body", "want"), ORDERS.values(), ids=ORDERS)
def test_loops_get_the_order_of_memory(params: str, body: str, want: str) -> None:
    kernel = compiled(f"def f({params}) -> (O) {{ {body} }}")
    program = kernel.program({n: 6 if n == "D" else 4 for n in kernel.front.checked.sizes})
    (stage,) = (s for s in interchange(program, {}).stages if s.op is not None)
    found = [v.name for v in stage.domain.vars if v.kind == "reduction"]
    assert "".join(found) == want


def test_a_temporary_of_one_element_is_no_obstacle() -> None:
    """Its box has no dimensions, which is not to have no box; the buffer has another name where the first
    of two definitions is overwritten."""
    source = """def f(float(N,N) A, float(N) B) -> (T, O) {
      T +=! B(i) + B(i)
      T +=! B(i)
      O(i) +=! T + A(r,s) * B(s) where r in 0:N, s in 0:N, i in 0:2 }"""
    kernel = compiled(source)
    program = kernel.program({"N": 4})
    last = interchange(program, {}).stages[-1]
    assert [v.name for v in last.domain.vars if v.kind == "reduction"] == ["r", "s"]
    a, b = np.arange(16, dtype=np.float32).reshape(4, 4), np.ones(4, np.float32)
    for got, want in zip(kernel(a, b), interpreted(source, a, b), strict=True):
        np.testing.assert_array_equal(got, want)
