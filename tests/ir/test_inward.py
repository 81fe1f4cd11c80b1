"""Sequential loops moved into loops whose iterations have elements of their own."""

from __future__ import annotations

import numpy as np
import pytest

import tc

SUM = """def f(float(N,D) x) -> (y) {
  y(n,0) = x(n,0)
  for d in 1:D { y(n,d) = y(n,d-1) + x(n,d) }
}"""
BOTH = """def f(float(N,D) x) -> (y, z) {
  y(n,0) = x(n,0)
  for d in 1:D {
    y(n,d) = y(n,d-1) + x(n,d)
    z(n,d) = 2*y(n,d-1)
  }
}"""
SHIFTED = """def f(float(N,D) x) -> (y) {
  y(n,0) = x(n,0)
  for d in 1:D { y(n,d) = (n >= 1 ? y(n-1,d-1) : 0) + x(n,d) where n in 0:N }
}"""
TRIANGLE = """def f(float(N,D) x) -> (y) {
  y(n,d) = x(n,d)
  for d in 1:D { y(n,d) = y(n,d-1) + x(n,d) where n in 0:d }
}"""
STATE = """def f(float(N,D) x) -> (s) {
  s(n) = x(n,0)
  for d in 1:D { s(n) = 2*s(n) - x(n,d) }
}"""


def loops(source: str, n: int, d: int, isa: str | None = None) -> list[str]:
    kernel = tc.compile(source, "cpu", sizes={"N": n, "D": d}, options={"isa": isa} if isa else {})
    return str(kernel.inspect("inward", N=n, D=d)).splitlines()


def inside(source: str, n: int, d: int) -> bool:
    """Whether the sequential loop is inside of the loop over rows."""
    return any("for n" in x for around in loops_around("for d in", loops(source, n, d)) for x in around)


def loops_around(loop: str, lines: list[str]) -> list[list[str]]:
    """The lines that enclose each line that starts so."""
    found: list[list[str]] = []
    around: list[str] = []
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2
        around[depth:] = [line.strip()]
        if line.strip().startswith(loop):
            found.append(around[:depth])
    return found


@pytest.mark.share(6)
@pytest.mark.parametrize(("n", "d"), [(1, 5), (3, 9), (37, 50), (100, 1000)])
@pytest.mark.parametrize("source", [SUM, BOTH, SHIFTED, TRIANGLE, STATE])
def test_the_results_are_the_same(source: str, n: int, d: int) -> None:
    x = np.random.default_rng(n).integers(-3, 4, (n, max(d, n))).astype("f4")
    x = x if source is not STATE else x[:, :7]
    if source is TRIANGLE:
        x = x[:, : n + 1]
    found = tc.compile(source, "cpu")(x)
    want = tc.compile(source, "reference")(x)
    pairs = zip(found, want, strict=True) if source is BOTH else [(found, want)]
    for a, b in pairs:
        np.testing.assert_array_equal(a, b)


def test_a_loop_over_independent_rows_runs_along_each_row() -> None:
    assert inside(SUM, 1000, 60)
    lines = loops(SUM, 1000, 1000)
    assert any(line.strip().startswith("parallel for n") for line in lines)  # there is work for threads


@pytest.mark.parametrize("source", [SHIFTED, TRIANGLE, STATE])
def test_loops_that_are_not_moved(source: str) -> None:
    """Rows that read others, rows of which there are more in later iterations, and elements side by side."""
    assert not inside(source, 1000, 1001)


def filtered(value: str, t: str = "float") -> str:
    return f"""def f({t}(N,D) x) -> (y) {{
      y(n,0) = x(n,0)
      for d in 1:D {{ y(n,d) = {value} }}
    }}"""


SHORT = {  # an iteration's operations, and the rows that are computed at a time
    "smoothed": ("0.5*y(n,d-1) + 0.25*x(n,d)", 4),
    "gated": ("(0.5+x(n,d))*y(n,d-1) + x(n,d)", 4),
    "the greater one": ("fmax(y(n,d-1), x(n,d))", 8),
    "a filter of order one": ("0.5*y(n,d-1) + 0.25*x(n,d) - 0.125*x(n,d-1)", 8),
    "a choice": ("y(n,d-1) > x(n,d) ? y(n,d-1) : x(n,d) + y(n,d-1)", 8),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("name", SHORT)
def test_short_iterations_run_along_rows(name: str) -> None:
    """Where two lanes are too few for the transposition of rows; as lanes across rows, elements were gathered
    and scattered one by one."""
    value, together = SHORT[name]
    lines = loops(filtered(value, "double"), 1000, 1000, "sse4.2")
    assert any("for n" in x for around in loops_around("for d in", lines) for x in around)
    text = "\n".join(lines)
    sequential = text[text.index("for d in") :]
    assert "vector" not in sequential and f"by {together}" in text
    assert "parallel for n" in text


def test_long_iterations_run_in_lanes() -> None:
    text = "\n".join(loops(filtered("tanh(0.5*y(n,d-1) + exp(x(n,d)))"), 1000, 1000))
    assert "vector for n" in text[text.index("for d in") :]


def test_tiles_are_as_many_instances_as_their_points() -> None:
    """15 tiles of 64 rows are work for threads, though they are fewer than rows."""
    text = "\n".join(loops(filtered("tanh(0.5*y(n,d-1) + exp(x(n,d)))"), 1000, 1000))
    assert "parallel for n" in text


@pytest.mark.share(30)
@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("t", ["float", "double", "half"])
@pytest.mark.parametrize(("n", "d"), [(1, 40), (7, 90), (40, 33), (135, 70), (1000, 50)])
def test_results_of_short_iterations(name: str, t: str, n: int, d: int) -> None:
    source = filtered(SHORT[name][0], t)
    dtype = {"float": "f4", "double": "f8", "half": "f2"}[t]
    x = (np.random.default_rng(n).integers(-4, 5, (n, d)) / 8).astype(dtype)
    tolerance = {"float": 1e-5, "double": 1e-12, "half": 2e-2}[t]
    found = np.asarray(tc.compile(source, "cpu")(x), np.float64)
    want = np.asarray(tc.compile(source, "reference")(x), np.float64)
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
def test_planes_of_rows_of_several_dimensions() -> None:
    source = """def f(float(A,B,D) x) -> (y) {
      y(a,b,0) = x(a,b,0)
      for d in 1:D { y(a,b,d) = 0.5*y(a,b,d-1) + x(a,b,d) }
    }"""
    for shape in ((3, 5, 40), (40, 50, 60), (1, 200, 100)):
        x = np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32)
        found, want = (tc.compile(source, backend)(x) for backend in ("cpu", "reference"))
        np.testing.assert_allclose(found, want, rtol=1e-6)


BATCH = """def f(int(B,N) x, int(B,M) y) -> (d) {
  d(b,i,j) = 0 where b in 0:B, i in 0:N+1, j in 0:M+1
  for i in 1:N+1 { for j in 1:M+1 {
    d(b,i,j) = max(d(b,i-1,j-1) + (x(b,i-1) == y(b,j-1) ? 2 : -1), max(d(b,i-1,j), d(b,i,j-1)) - 1)
      where b in 0:B
  } }
}"""


def test_two_loops_move_into_a_batch_of_tables() -> None:
    """The inner one alone left a fork and a join for each row."""
    text = str(tc.compile(BATCH, "cpu").inspect("inward", B=40, N=60, M=70))
    table = text[text.rindex("parallel for b") :]
    assert table.index("for i in") < table.index("for j in")
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 3, (40, n)).astype(np.int32) for n in (30, 35))
    np.testing.assert_array_equal(tc.compile(BATCH, "cpu")(x, y), tc.compile(BATCH, "reference")(x, y))


STAGES = """def f(complex64(B,N) x, complex64(S,H) w) -> (a) {
  a(b,i) = x(b,i)
  for s in 0:S {
    u(b,i) = a(b,i) + a(b,i+H) where i in 0:H
    v(b,i) = (a(b,i) - a(b,i+H)) * w(s,i)
    a(b,i) = i % 2 == 0 ? u(b,i/2) : v(b,i/2) where i in 0:N
  }
}"""


@pytest.mark.parametrize("rows", [3, 256])
def test_loops_over_the_same_rows_become_one(rows: int) -> None:
    """A row goes through all stages while it is in the first cache."""
    lines = str(tc.compile(STAGES, "cpu").inspect("inward", B=rows, N=1024, S=10, H=512)).splitlines()
    (around,) = loops_around("for s in", lines)
    assert any(x.startswith("for b") for x in around)
    u = next(i for i, x in enumerate(lines) if "S1: u" in x)
    assert not any("for b" in x for x in lines[u:])
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 5, (2, *n)).astype(np.float32) for n in ((rows, 64), (4, 32)))
    arrays = x[0] + 1j * x[1], w[0] + 1j * w[1]
    np.testing.assert_array_equal(
        tc.compile(STAGES, "cpu")(*arrays), tc.compile(STAGES, "reference")(*arrays)
    )


def test_the_last_of_several_threads_has_a_remainder() -> None:
    """Behind its tiles; all rows still have the loop inside."""
    source = """def f(float(N,D) x) -> (y) {
      y(n,0) = x(n,0)
      for d in 1:D { y(n,d) = max(y(n,d-1), x(n,d)) }
    }"""
    kernel = tc.compile(source, "cpu", options={"machine": (("cores", 2),), "vector": 0})
    lines = str(kernel.inspect("inward", N=5000, D=200)).splitlines()
    found = loops_around("for d in", lines)
    assert len(found) == 3  # tiles and remainder of the last thread, tiles of the others
    assert all([x for x in around if "for" in x][-1].startswith("for n") for around in found)
    assert sum("if n_" in x for x in found[0]) == 1
    x = np.random.default_rng(0).integers(-99, 99, (5000, 200)).astype(np.float32)
    np.testing.assert_array_equal(kernel(x), np.maximum.accumulate(x, axis=1))
