"""Recurrences along rows that do not depend on each other: rows in lanes, blocks of columns transposed."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tc

ROWS = {
    "a sum": "for j in 1:M { y(n,j) = y(n,j-1) + x(n,j) }",
    "backwards": "for j in M-2:-1:-1 { y(n,j) = y(n,j+1) - x(n,j) }",
    "both ways": "for j in 1:M { y(n,j) = y(n,j-1) - x(n,M-1-j) }",
    "in place": "for j in 1:M { y(n,j) = max(y(n,j-1) - 1, y(n,j)) }",
    "a factor of the row": "for j in 1:M { y(n,j) = min(c(n) + y(n,j-1), x(n,j)) where n in 0:N }",
    "a factor of the column": "for j in 1:M { y(n,j) = max(d(j) - y(n,j-1), x(n,j)) where n in 0:N }",
    "stored by columns": "for j in 1:M { y(n,j) = max(e(j,n) - y(n,j-1), x(n,j-1)) where n in 0:N }",
    "two results": "for j in 1:M { y(n,j) = y(n,j-1) + x(n,j) z(n,j) = min(z(n,j-1), y(n,j)) }",
    "one of two": "for j in 1:M { y(n,j) = y(n,j-1) + x(n,j) z(n,j) = 2*y(n,j) - x(n,j-1) }",
    "every second row is read": "for j in 1:M { y(n,j) = y(n,j-1) + x(n/2,j) where n in 0:N }",
    "of order three": "for j in 3:M { y(n,j) = x(n,j) - y(n,j-3) + y(n,j-1) }",
    "the element before": "for j in 1:M { y(n,j) = y(n,j-1) + x(n,j) z(n,j) = max(z(n,j-1), y(n,j-1)) }",
    "a guard": "for j in 0:M { y(n,j) = y(n,j) - (j >= 2 ? y(n,j-2) : 3) }",
    "three dimensions": "for j in 1:M { w(n,k,j) = w(n,k,j-1) + x(n,j) where k in 0:3 }",
    "a long chain": "for j in 1:M { y(n,j) = max(min(y(n,j-1) + x(n,j), 9) - 1, -9) }",
}
# Rows of which only some are in lanes, or none.
OTHERS = ("three dimensions", "of order three", "a guard", "every second row is read", "one of two")
TYPES = {"float": np.float32, "double": np.float64, "int": np.int32, "int64": np.int64}
SHAPES = [(1, 9), (2, 40), (3, 1), (5, 2), (7, 17), (8, 8), (9, 10), (33, 27), (70, 41)]


def source(name: str, t: str) -> str:
    body = ROWS[name]
    results = [r for r in "yzw" if f"{r}(" in body]
    first = {"y": "y(n,j) = x(n,j)", "z": "z(n,j) = x(n,j)", "w": "w(n,k,j) = x(n,j) where k in 0:3"}
    params = {"x": "N,M", "c": "N", "d": "M", "e": "M,N"}
    used = [f"{t}({dims}) {p}" for p, dims in params.items() if p == "x" or f"{p}(" in body]
    lines = "\n".join(first[r] for r in results)
    return f"def f({', '.join(used)}) -> ({', '.join(results)}) {{\n{lines}\n{body}\n}}"


def arguments(name: str, t: str, n: int, m: int) -> list[np.ndarray]:
    shapes = {"x": (n, m), "c": (n,), "d": (m,), "e": (m, n)}
    rng = np.random.default_rng(n * m)
    used = [s for p, s in shapes.items() if p == "x" or f"{p}(" in ROWS[name]]
    return [rng.integers(-4, 5, s).astype(TYPES[t]) for s in used]


@pytest.mark.share(12)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("name", ROWS)
def test_results_are_those_of_the_reference(name: str, t: str, shape: tuple[int, int]) -> None:
    text, given = source(name, t), arguments(name, t, *shape)
    want = tc.compile(text, "reference")(*given)
    for dynamic in ((), ("N",), ("N", "M")):
        found = tc.compile(text, "cpu", dynamic=dynamic)(*given)
        pairs = zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]
        for a, b in pairs:
            np.testing.assert_array_equal(a, b)


def rows_at_a_time(text: str, isa: str, **sizes: int) -> list[tuple[int, int]]:
    """Of each block of rows that is transposed on its way to registers, the columns and the rows."""
    nest = str(tc.compile(text, "cpu", options={"isa": isa}).inspect("inward", **sizes))
    found = re.findall(r"transposed for j_k in \[0, (\d+)\)\n *vector for \S+_l in \[0, (\d+)\)", nest)
    return [(int(c), int(n)) for c, n in found]


@pytest.mark.parametrize(
    ("t", "isa", "lanes"),
    [("float", "avx2", 8), ("double", "avx2", 4), ("int", "sse4.2", 4), ("int64", "avx2", 4)],
)
@pytest.mark.parametrize("name", [n for n in ROWS if n not in OTHERS])
def test_a_lane_for_each_row(name: str, t: str, isa: str, lanes: int) -> None:
    """A block has as many columns as a vector has lanes; what is left of a row is a smaller one."""
    found = set(rows_at_a_time(source(name, t), isa, N=16 * lanes, M=10 * lanes + 3))
    assert found == {(lanes, lanes), (2, lanes)}


@pytest.mark.parametrize(
    ("body", "t", "isa"),
    [
        (ROWS["a sum"], "half", "avx2"),  # elements of two bytes
        (ROWS["a sum"], "double", "sse4.2"),  # two lanes
        ("for j in 4:M { y(n,j) = y(n,j-4) + x(n,j) }", "float", "avx2"),  # no register holds it
        ("for j in 1:M { y(n,j) = y(n,j-1) + x(n,j/2) }", "float", "avx2"),  # not one after the other
    ],
)
def test_rows_that_stay_as_they_are(body: str, t: str, isa: str) -> None:
    text = f"def f({t}(N,M) x) -> (y) {{ y(n,j) = x(n,j)\n{body} }}"
    assert not rows_at_a_time(text, isa, N=64, M=40)


def test_elements_beside_a_row_are_not_read() -> None:
    """`x(n,j-5)` is read only where it exists; a block would read what is before the matrix."""
    guarded = "for j in 1:M { y(n,j) = y(n,j-1) + (x(n,j) > 0 ? x(n,max(j-5,0)) : 0) }"
    text = f"def f(float(N,M) x) -> (y) {{ y(n,j) = x(n,j)\n{guarded} }}"
    x = np.random.default_rng(0).integers(-4, 5, (16, 40)).astype("f4")
    np.testing.assert_array_equal(tc.compile(text, "cpu")(x), tc.compile(text, "reference")(x))


def test_several_groups_of_lanes_where_an_iteration_takes_long() -> None:
    loop = "for j in 1:M { y(n,j) = tanh(y(n,j-1)) - x(n,j) }"
    text = f"def f(float(N,M) x) -> (y) {{ y(n,j) = x(n,j)\n{loop} }}"
    kernel = tc.compile(text, "cpu", options={"isa": "avx2"})
    assert "by 32" in str(kernel.inspect("inward", N=96, M=40))
    for n in (1, 3, 8, 31, 33, 41, 75):
        x = np.random.default_rng(n).uniform(-1, 1, (n, 21)).astype("f4")
        np.testing.assert_allclose(kernel(x), tc.compile(text, "reference")(x), rtol=2e-6, atol=2e-6)


FILTERS = {
    "rows": "y(n,d) = y(n,d-1) + x(n,d)",
    "a batch of rows": "y(b,n,d) = max(y(b,n,d-1) - 1, x(b,n,d))",
}
EXTENTS = {"B": 3, "N": 40, "D": 50}


@pytest.mark.parametrize("body", FILTERS.values(), ids=FILTERS)
def test_a_loop_moves_into_a_dynamic_number_of_rows(body: str) -> None:
    """Each iteration of the loop went down a column, and its threads started and ended."""
    rank = "B,N,D" if "b" in body else "N,D"
    at = rank.lower()
    text = f"def f(float({rank}) x) -> (y) {{ y({at}) = x({at}) for d in 1:D {{ {body} }} }}"
    for dynamic in (("N",), ("N", "D"), tuple(rank.split(","))):
        kernel = tc.compile(text, "cpu", dynamic=dynamic)
        nest = str(kernel.inspect("inward", **{s: n for s, n in EXTENTS.items() if s in rank}))
        assert "transposed for d_k" in nest and "parallel for" in nest[: nest.index("S1.read")]
        for n, d in ((0, 5), (1, 1), (3, 9), (8, 8), (29, 40), (300, 120)):
            x = np.random.default_rng(n).integers(-9, 9, (2, n, d)).astype("f4")
            x = x if "b" in body else x[0]
            np.testing.assert_array_equal(kernel(x), tc.compile(text, "reference")(x))


def test_segments_that_go_along_rows() -> None:
    """Their loops stay as in the source; not those of statements that read other rows, or go along none."""
    for body, along in (
        ("y(n,d) = y(n,d-1) + x(n,d)", True),
        ("y(n,d) = (n >= 1 ? y(n-1,d-1) : 0) + x(n,d) where n in 0:N", False),
        ("s(n) = 2*s(n) + x(n,d)", False),
    ):
        first = "s(n) = x(n,0)" if body.startswith("s") else "y(n,d) = x(n,d)"
        text = f"def f(float(N,D) x) -> ({body[0]}) {{ {first} for d in 1:D {{ {body} }} }}"
        kernel = tc.compile(text, "cpu", dynamic=("N",))
        nest = str(kernel.inspect("scatters", N=40, D=50))
        loop = nest[nest.index("for d in") :].splitlines()
        assert (loop[1].strip() == "for n in [0, N)") == along
