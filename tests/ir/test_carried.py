"""Elements that the next iteration of a loop reads, in registers."""

from __future__ import annotations

import numpy as np
import pytest

import tc

CARRIED = {
    "a sum": "y(n,0) = x(n,0)\n for d in 1:D { y(n,d) = y(n,d-1) + x(n,d) }",
    "a recurrence of one row": "y(d) = x(0,d) where d in 0:1\n for d in 1:D { y(d) = 3 - 2*y(d-1) + x(0,d) }",
    "backwards": "y(n,d) = x(n,d) where d in D-1:D\n"
    "for d in 1:D { y(n,D-1-d) = y(n,D-d) + x(n,D-1-d) where n in 0:N }",
    "both neighbours": """y(i,j) = x(i,j)
      for i in 1:N { for j in 1:D { y(i,j) = y(i-1,j) - y(i,j-1) + y(i-1,j-1) } }""",
    "in place": """y(i,j) = x(i,j)
      for t in 0:2 { for i in 1:N-1 { for j in 1:D-1 {
        y(i,j) = y(i-1,j) + y(i,j-1) - y(i,j) + y(i,j+1) } } }""",
    "read where a condition holds": """y(d) = x(0,d)
      for d in 1:D { y(d) = d % 3 == 1 ? y(d-1) : x(0,d) }""",
    "a maximum": "y(n,0) = x(n,0)\n for d in 1:D { y(n,d) = fmax(y(n,d-1), x(n,d)) }",
}
LEFT = {
    "two iterations before": """y(n,d) = x(n,d) where d in 0:2
      for d in 2:D { y(n,d) = y(n,d-1) * 0 + y(n,d-2) + x(n,d) }""",
    "absent from the first iteration": """y(d) = x(0,d)
      for d in 0:D { y(d) = d % 3 == 1 ? y(d-1) : x(0,d) }""",
    "stored twice": """y(d) = x(0,d)
      for d in 1:D { y(d) = y(d-1) + x(0,d)
        y(d) = 2*y(d) }""",
    "read behind the store": """y(d) = x(0,d)
      z(d) = 0 * x(0,d)
      for d in 1:D { y(d) = x(0,d) + 1
        z(d) = y(d-1) }""",
}


def source(body: str) -> str:
    returns = "y, z" if "z(" in body else "y"
    return f"def f(float(N,D) x) -> ({returns}) {{ {body} }}"


@pytest.mark.share(6)
@pytest.mark.parametrize(("n", "d"), [(1, 3), (3, 2), (4, 9), (39, 70)])
@pytest.mark.parametrize("name", [*CARRIED, *LEFT])
def test_the_results_are_the_same(name: str, n: int, d: int) -> None:
    text = source({**CARRIED, **LEFT}[name])
    x = np.random.default_rng(n).integers(-1, 2, (n, d)).astype("f4")
    found, wanted = (np.stack(tc.compile(text, backend)(x)) for backend in ("cpu", "reference"))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", CARRIED)
def test_elements_that_are_carried_in_registers(name: str) -> None:
    text = tc.compile(source(CARRIED[name]), "cpu").inspect("carry", N=9, D=30)
    assert "S1: y.carried" in str(text) or "S2: y.carried" in str(text)


@pytest.mark.parametrize("name", ["absent from the first iteration", "stored twice", "read behind the store"])
def test_elements_that_stay_in_memory(name: str) -> None:
    text = tc.compile(source(LEFT[name]), "cpu").inspect("carry", N=9, D=30)
    assert "y.carried" not in str(text)


@pytest.mark.slow
def test_rows_are_interleaved() -> None:
    """Rows that wait for themselves are computed four at a time, also where a part has another number."""
    text = source(CARRIED["a sum"]).replace("float", "double")
    kernel = tc.compile(text, "cpu", options={"isa": "sse4.2"})  # two lanes, in which rows are not computed
    for n in (*range(1, 10), 63, 64, 65, 1001):
        x = np.random.default_rng(n).integers(-2, 3, (n, 60)).astype("f8")
        np.testing.assert_array_equal(kernel(x), np.cumsum(x, 1))
    assert "by 4" in str(kernel.inspect("inward", N=1001, D=60))


@pytest.mark.parametrize("d", [0, 1, 2])
def test_loops_without_iterations(d: int) -> None:
    """Nothing is read before a loop that may have no iteration."""
    text = "def f(float(D) x) -> (y) { y(d) = x(d)\n for t in 1:D { y(t) = y(t-1) + x(t) } }"
    for dynamic in ((), ("D",)):
        kernel = tc.compile(text, "cpu", dynamic=dynamic)
        x = np.arange(d, dtype="f4")
        np.testing.assert_array_equal(kernel(x), np.cumsum(x))
