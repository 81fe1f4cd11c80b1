"""The order of the loops of a reduction."""

from __future__ import annotations

import pytest

from tc.ir.interchange import interchange
from tests.backends.cpu_cases import compiled

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
def test_orders(params: str, body: str, want: str) -> None:
    kernel = compiled(f"def f({params}) -> (O) {{ {body} }}")
    program = kernel.program({n: 6 if n == "D" else 4 for n in kernel.front.checked.sizes})
    (stage,) = (s for s in interchange(program, {}).stages if s.op is not None)
    found = [v.name for v in stage.domain.vars if v.kind == "reduction"]
    assert "".join(found) == want
