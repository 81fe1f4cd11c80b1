"""An index out of range in a sequential loop: the error names the iteration, too."""

from __future__ import annotations

import numpy as np
import pytest

import tc

pytestmark = pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")

PROGRAMS = {
    "a read": (
        "for t in 0:T { y(m) = y(m) + x(I(t,m)) }",
        "t = 3, m = 1",
    ),
    "downwards": (
        "for t in T-1:-1:-1 { y(m) = y(m) + x(I(t,m)) }",
        "t = 3, m = 1",
    ),
    "from the second on": (
        "for t in 1:T { y(m) = y(m) + x(I(t,m)) }",
        "t = 3, m = 1",
    ),
    "a scatter": (
        "for t in 0:T { y(I(t,m)) += 1.0 }",
        "t = 3, m = 1",
    ),
    "two loops": (
        "for s in 0:2 { for t in 2:T { y(m) = y(m) + x(I(t,m)) } }",
        "s = 0, t = 3, m = 1",
    ),
    "an element of the loop": (
        "for t in 0:T { y(t) = x(I(t,1)) }",
        "t = 3",
    ),
}


def message(body: str, backend: str, bad: int, **options: object) -> str:
    source = f"def f(float(N) x, int(T,M) I) -> (y) {{ y(k) = 0.0 where k in 0:N  {body} }}"
    index = np.zeros((6, 2), np.int32)
    index[3, 1] = bad
    with pytest.raises(tc.BoundsError) as caught:
        tc.compile(source, backend, **options)(np.zeros(6, np.float32), index)
    return str(caught.value).splitlines()[0]


@pytest.mark.parametrize("backend", ["reference", "cpu", "opencl"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_iteration_is_named(name: str, backend: str) -> None:
    body, where = PROGRAMS[name]
    body = body.replace("y(m) = y(m) + x(I(t,m))", "y(m) = y(m) + x(I(t,m)) where m in 0:2")
    assert message(body, backend, 9).endswith(f", at {where}")


@pytest.mark.parametrize("dynamic", [False, True])
def test_with_symbolic_sizes(dynamic: bool) -> None:
    body, where = PROGRAMS["a scatter"]
    assert message(body, "cpu", -1, dynamic=dynamic).endswith(f", at {where}")


@pytest.mark.parametrize(
    "body",
    [
        "c(0) = y(0) for j in 1:N { c(j) = c(j-1) + x(j) }",
        "c(N-1) = y(0) for j in N-2:-1:-1 { c(j) = c(j+1) + x(j) }",
    ],
)
def test_what_is_written_before_a_loop_lies_in_the_tensor(body: str) -> None:
    """Without elements the loop has none, and the tensor no place for the first one."""
    kernel = tc.compile(f"def f(float(N) x, float(M) y) -> (c) {{ {body} }}", "reference")
    assert "N >= 1" in [p.condition for p in kernel.preconditions]
    one, two = np.ones(1, np.float32), np.ones(2, np.float32)
    np.testing.assert_array_equal(kernel(one, two), [1])
    with pytest.raises(tc.PreconditionError, match="dimension 0 of 'c' must hold all that this statement"):
        kernel(np.zeros(0, np.float32), two)
