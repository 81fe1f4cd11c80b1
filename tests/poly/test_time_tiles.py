"""Tiles over iterations of a sequential loop: which loops have them, how far iterations are behind, and that
results stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tc
from tc.ir.program import Program
from tc.pipeline import equivalence
from tc.poly.time_tiles import Skewed, TimeTile, tile_time
from tests.share import examples

JACOBI = """
def f(double(N,M) A0) -> (A, B) {
  A(i,j) = A0(i,j)
  B(i,j) = A0(i,j)
  for t in 0:7 {
    B(i,j) = 0.2 * (A(i,j) + A(i,j-1) + A(i,j+1) + A(i+1,j) + A(i-1,j))
    A(i,j) = 0.2 * (B(i,j) + B(i,j-1) + B(i,j+1) + B(i+1,j) + B(i-1,j))
  }
}
"""
HEAT = """
def f(double(N,M) A0) -> (u) {
  u(i,j) = A0(i,j)
  for t in 0:7 {
    v(i,j) = u(i,j) + 0.1 * (u[MODE](i-2,j) + u[MODE](i+1,j) - u[MODE](i,j-1))
    u(i,j) = v(i,j)
  }
}
"""
FIELDS = """
def f(double(N,M) A0) -> (ex, ey, hz) {
  ex(i,j) = A0(i,j)
  ey(i,j) = A0(i,j)
  hz(i,j) = A0(i,j)
  for t in 0:7 {
    ey(0,j) = 0.1 * t where j in 0:M
    ey(i,j) += -0.5 * (hz(i,j) - hz(i-1,j)) where i in 1:N
    ex(i,j) += -0.5 * (hz(i,j) - hz(i,j-1)) where j in 1:M
    hz(i,j) += -0.7 * (ex(i,j+1) - ex(i,j) + ey(i+1,j) - ey(i,j)) where i in 0:N-1, j in 0:M-1
  }
}
"""
HISTORY = """
def f(double(N,M) A0) -> (u) {
  u(0,i,j) = A0(i,j)
  for t in 0:7 { u(t+1,i,j) = 0.5 * (u[clamp](t,i-1,j) + u[clamp](t,i+1,j)) }
}
"""
ROWS_OF_THEIR_OWN = """
def f(double(N,M) A0) -> (u) {
  u(i,j) = A0(i,j)
  for t in 0:7 {
    v(i,j) = u(i,j) + 0.1 * u[wrap](i,j-1)
    u(i,j) = v(i,j)
  }
}
"""
COLUMNS = """
def f(double(N,M) A0) -> (u) {
  u(i,j) = A0(i,j)
  for t in 0:7 {
    v(i,j) = u(i,j) + 0.1 * (u[wrap](i-1,j) + u[clamp](i,j+1))
    u(i,j) = v(i,j)
  }
}
"""
SUMS = """
def f(double(N,M) A0) -> (u) {
  u(i,j) = A0(i,j)
  for t in 0:7 {
    v(i,j) +=! 0.3 * u[zero](i+k,j) where i in 0:N, j in 0:M, k in -1:2
    u(i,j) = v(i,j)
  }
}
"""
INNER_LOOP = """
def f(double(N,M) A0) -> (u) {
  u(i,j) = A0(i,j)
  for s in 0:2 {
    u(i,j) = 0.5 * u(i,j)
    for t in 0:7 {
      v(i,j) = 0.5 * (u[clamp](i-1,j) + u[clamp](i+1,j)) where i in 0:N, j in 0:M
      u(i,j) = v(i,j) + s
    }
  }
}
"""
# The loop, how many rows an iteration is behind the one before it, and each statement behind the first.
TILED = {
    "Jacobi": (JACOBI, ("t", 2, (0, 1))),
    "clamped": (HEAT.replace("MODE", "clamp"), ("t", 3, (0, 2))),
    "zeros": (HEAT.replace("MODE", "zero"), ("t", 3, (0, 2))),
    "reflected": (HEAT.replace("MODE", "reflect"), ("t", 4, (0, 2))),
    "fields": (FIELDS, ("t", 1, (0, 0, 0, 1))),
    "history": (HISTORY, ("t", 1, (0,))),
    "rows of their own": (ROWS_OF_THEIR_OWN, ("t", 0, (0, 0))),
    "along the second dimension": (COLUMNS, ("t", 1, (0, 0))),
    "sums": (SUMS, ("t", 2, (0, 0, 1))),
    "a loop in a loop": (INNER_LOOP, ("t", 2, (0, 1))),
}
STAYS = {
    "every row needs every other": """
def f(double(N,N) A0) -> (u) {
  u(i) = A0(0,i)
  for t in 0:7 { v(i) +=! A0(i,k) * u(k) u(i) = v(i) }
}
""",
    "rows wrap around": """
def f(double(N,N) A0) -> (u) {
  u(i) = A0(0,i)
  for t in 0:7 { v(i) = u[wrap](i-1) + u[wrap](i+1) where i in 0:N u(i) = v(i) }
}
""",
    "a number that all rows make and need": """
def f(double(N,N) A0) -> (u) {
  u(i) = A0(0,i)
  for t in 0:7 { s(z) max=! u(i) where z in 0:1 u(i) = u(i) - 0.5 * s(0) }
}
""",
    "data say which row": """
def f(double(N,N) A0, int32(N) p) -> (u) {
  u(i) = A0(0,i)
  for t in 0:7 { v(i) = 0.5 * u(min(max(p(i), 0), N-1)) u(i) = v(i) }
}
""",
    "rows that begin later from iteration to iteration": """
def f(double(N,N) A0) -> (u) {
  u(i) = A0(0,i)
  for t in 0:7 { u(i) = 0.5 * u(i) + A0(t,i) where i in t:N }
}
""",
}


def program(source: str, **sizes: int) -> Program:
    kernel = tc.compile(source, "reference")
    return kernel.program({n: v for n, v in sizes.items() if n in kernel.front.checked.sizes})


@pytest.mark.share(8)
@pytest.mark.parametrize("name", TILED)
@pytest.mark.parametrize("tile", [TimeTile(2, 3), TimeTile(7, 4), TimeTile(3, 1), TimeTile(20, 50)])
def test_tiles_compute_the_same(name: str, tile: TimeTile) -> None:
    source, expected = TILED[name]
    before = program(source, N=11, M=6)
    seen: list[Skewed] = []

    def choose(program: Program, found: Skewed) -> TimeTile | None:
        if found.skew > 4:  # rows that wrap around
            return None
        seen.append(found)
        return tile

    after, loops = tile_time(before, choose)
    assert loops == ("t",)
    assert [(x.loop.name, x.skew, x.shifts) for x in seen] == [expected]
    assert {s.loops[-1].name for s in after.stages if len(s.loops) > 2} == {"t"}
    assert equivalence.same_results(before, after)


@pytest.mark.parametrize("name", STAYS)
def test_loops_that_are_not_tiled(name: str) -> None:
    before = program(STAYS[name], N=50)
    after, loops = tile_time(before, lambda p, found: TimeTile(2, 3))
    assert after is before and not loops


def test_the_target_decides() -> None:
    before = program(JACOBI, N=11, M=6)
    assert tile_time(before, lambda p, found: None) == (before, ())
    assert tile_time(before, lambda p, found: TimeTile(1, 100)) == (before, ())
    tried: list[int] = []

    def second(program: Program, found: Skewed) -> TimeTile | None:
        tried.append(found.end - found.low)
        return TimeTile(2, 3) if len(tried) == 2 else None

    assert tile_time(before, second)[1] == ("t",)
    assert tried == [10, 5]  # the inner rows and columns, and one more of the second statement


@st.composite
def stencils(draw: st.DrawFn) -> str:
    """Statements of a loop that read each other's tensors some rows away, with modes and ranges."""
    tensors = ["p", "q", "r"][: draw(st.integers(1, 3))]
    offsets = st.integers(-2, 2)

    def read(target: str) -> str:
        of = draw(st.sampled_from(tensors))
        if of == target:  # at other places these would not be a statement of the language
            return f"{of}(i,j)"
        mode = draw(st.sampled_from(["zero", "clamp", "reflect", "symmetric"]))
        return f"{of}[{mode}](i+{draw(offsets)},j+{draw(offsets)})"

    lines = []
    for _ in range(draw(st.integers(1, 4))):
        target = draw(st.sampled_from(tensors))
        value = " + ".join(
            f"{draw(st.integers(-3, 3))} * {read(target)}" for _ in range(draw(st.integers(1, 3)))
        )
        low, end = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        op = draw(st.sampled_from(["=", "+=", "max="]))
        lines.append(f"{target}(i,j) {op} {value} where i in {low}:N-{end}, j in 0:M")
    start = "\n".join(f"{x}(i,j) = A0(i,j)" for x in tensors)
    body = "\n".join(lines)
    return f"def f(int64(N,M) A0) -> ({', '.join(tensors)}) {{ {start}\n for t in 0:5 {{ {body} }} }}"


@settings(max_examples=examples(60), deadline=None)
@given(stencils(), st.integers(2, 6), st.integers(1, 9))
def test_random_stencils(source: str, iterations: int, rows: int) -> None:
    before = program(source, N=9, M=5)
    after, loops = tile_time(before, lambda p, found: TimeTile(iterations, rows))
    if loops:
        assert equivalence.same_results(before, after)


@pytest.mark.share(10)
@pytest.mark.parametrize("name", TILED)
def test_on_the_cpu(name: str) -> None:
    source, _ = TILED[name]
    a = np.random.default_rng(1).standard_normal((40, 9))
    kernel = tc.compile(source, "cpu", options={"machine": {"l3": 1024, "l2": 4096}})
    found, expected = kernel(a), tc.compile(source, "reference")(a)
    for x, y in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-13)
    line = "loops of which several iterations run on some rows: t"
    # Each iteration of the history writes an array of its own, which has to go to memory anyway.
    assert (line in kernel.inspect("choice", N=40, M=9)) == (name != "history")
    assert line not in tc.compile(source, "cpu").inspect("choice", N=40, M=9)


def test_arrays_of_dynamic_size_stay() -> None:
    a = np.random.default_rng(1).standard_normal((40, 9))
    kernel = tc.compile(JACOBI, "cpu", dynamic=("M",), options={"machine": {"l3": 1024, "l2": 4096}})
    for columns in (9, 4):
        found, expected = kernel(a[:, :columns]), tc.compile(JACOBI, "reference")(a[:, :columns])
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-13)
