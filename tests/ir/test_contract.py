"""Temporaries of one iteration of a sequential loop."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.ir.program import Program
from tc.pipeline import equivalence
from tc.transforms.program.contract import contract
from tests.backends.cpu_cases import compiled

ONE = {  # what is left of the dimensions of `p`
    "one iteration": ("p(t,j) = d(j) + e(t,j)\n d(j) = 2 * p(t,j)", 1),
    "the next one": ("p(t+1,j) = d(j) + e(t,j)\n d(j) = 2 * p(t+1,j)", 1),
    "backwards": ("p(T-1-t,j) = d(j) + e(t,j)\n d(j) = 2 * p(T-1-t,j)", 1),
    "a sum": ("p(t,j) +=! d(i) * e(t,i) where j in 0:N\n d(j) = p(t,j)", 1),
    "an arg-reduction": (
        "p(t,j) argmax=! d(i) - e(t,j) * i where j in 0:N\n d(j) = float(p(t,j)) + e(t,j)",
        1,
    ),
    "a row of it": ("p(t,j) = d(j) + e(t,j)\n s(t) +=! p(t,j)\n d(j) = p(t,j) + s(t)", 1),
    "two loops": ("for u in 0:2 { p(t,u,j) = d(j) + e(t,j)\n d(j) = 2 * p(t,u,j) - e(t,j) }", 1),
    "the inner loop alone": ("for u in 0:2 { p(j,u) = d(j) + e(t,j)\n d(j) = p(j,u) - e(t,j) }", 1),
}
KEPT = {
    "the iteration before": ("p(t,j) = d(j) + (t >= 1 ? p(t-1,j) : 0.0)\n d(j) = 2 * p(t,j)", 2),
    "read where the loop has ended": (
        "p(t,j) = d(j) + e(t,j)\n d(j) = p(t,j) }\n for r in 0:T { d(j) = d(j) + p(r,j)",
        2,
    ),
    "two iterations share it": ("p(t/2,j) = d(j) + e(t,j)\n d(j) = 2 * p(t/2,j)", 2),
}


def source(body: str) -> str:
    return f"""def f(float(T,N) e, float(N) x) -> (d) {{
      d(j) = x(j)
      for t in 0:T {{ {body} }}
    }}"""


def program(body: str) -> Program:
    return compiled(source(body)).program({"T": 5, "N": 4})


@pytest.mark.parametrize("name", [*ONE, *KEPT])
def test_which_dimensions_are_removed(name: str) -> None:
    body, rank = {**ONE, **KEPT}[name]
    before = program(body)
    after, names = contract(before)
    equivalence.same_results(before, after)
    (p,) = (b for b in after.buffers if b.name == "p")
    assert len(p.box) == rank
    assert ("p" in names) == (name in ONE)


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", ["cpu", "opencl"])
@pytest.mark.parametrize("name", ONE)
def test_the_results_are_the_same(name: str, backend: str) -> None:
    text = source(ONE[name][0])
    rng = np.random.default_rng(0)
    e, x = (rng.integers(-1, 2, s).astype("f4") for s in ((5, 4), (4,)))
    np.testing.assert_array_equal(tc.compile(text, backend)(e, x), tc.interpret(text, e, x))


@pytest.mark.filterwarnings("ignore::tc.errors.DataDependentAccess")
def test_messages_keep_the_names_of_variables() -> None:
    body = "p(t,j) = d(j) + e(t,int(x(j)))\n d(j) = p(t,j)"
    with pytest.raises(tc.BoundsError, match=r"j = 1"):
        compiled(source(body))(np.ones((3, 4), np.float32), np.array([0, 9, 0, 0], np.float32))
