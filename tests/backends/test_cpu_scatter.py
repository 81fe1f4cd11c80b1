"""Scatters on the cpu: the loop along rows is innermost, in vectors; instances that meet keep their order."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.ir.expr import IntImm, Load, Variable
from tc.ir.loops import Compute, For, LoopKind
from tc.transforms.loops.scatters import along_rows, separate

ROWS = """def f(float(N,D) x, int(N) ids) -> (y) {
  y(s,d) = 0.5 where s in 0:7
  y(ids(n),d) += x(n,d)
}"""


@pytest.mark.parametrize("d", [1, 5, 16, 37, 100])
def test_rows_are_added_in_order(d: int) -> None:
    """Bit for bit as one after the other."""
    g = np.random.default_rng(d)
    x, ids = g.random((50, d)).astype("f4"), g.integers(0, 7, 50).astype("i4")
    want = np.full((7, d), 0.5, "f4")
    for n in range(50):
        want[ids[n]] += x[n]
    kernel = tc.compile(ROWS, "cpu", sizes={"N": 50, "D": d})
    np.testing.assert_array_equal(kernel(x, ids), want)
    lines = str(kernel.inspect("loops", N=50, D=d)).splitlines()
    at = [i for i, line in enumerate(lines) if "ids[n]" in line]
    assert at and (d == 1 or all("vector for d" in lines[i - 1] for i in at))
    assert sum("for n in [0, 50)" in line for line in lines) == 1


@pytest.mark.parametrize("column", [0, 20, 36])
def test_a_subscript_out_of_range_is_found(column: int) -> None:
    x, ids = np.ones((9, 37), "f4"), np.zeros(9, "i4")
    ids[4] = 7
    with pytest.raises(tc.BoundsError, match=r"index 7 is out of range for dimension 0 of 'y'.*n = 4"):
        tc.compile(ROWS, "cpu")(x, ids)


def scatter(*subscripts: object) -> Compute:
    n, d = Variable("n"), Variable("d")
    value = Load("x", (n, d), tc.dtypes.FLOAT32)
    return Compute("S", "y", subscripts, "+", value, (n, d), "")  # type: ignore[arg-type]


def nest(s: Compute, upper: IntImm | Variable) -> For:
    inner = For("n", IntImm(0), upper, 1, LoopKind.SERIAL, s)
    return For("d", IntImm(0), IntImm(40), 1, LoopKind.SERIAL, inner)


def test_only_loops_that_part_elements_move() -> None:
    data = Load("ids", (Variable("n"),), tc.dtypes.INT32)
    moved = along_rows(nest(scatter(data, Variable("d")), IntImm(9)), 16)
    assert isinstance(moved, For) and moved.var == "n"
    apart = nest(scatter(Variable("d"), data), IntImm(9))  # its last subscript is not the loop's variable
    together = nest(scatter(data, Load("ids", (Variable("d"),), tc.dtypes.INT32)), IntImm(9))
    triangle = nest(scatter(data, Variable("d")), Variable("d"))  # whose rows are of several lengths
    assert separate(apart) and not separate(together)
    for s in (apart, together, triangle):
        assert along_rows(s, 16) is s


PLANES = """def f(float(N,C,W) x, int(N) ids) -> (y) {
  y(s,c,w) = 0 where s in 0:7
  y(ids(n),c,w) += x(n,c,w)
}"""


def loops_of(source: str, **sizes: int) -> str:
    machine = {"cores": 2}
    kernel = tc.compile(source, "cpu", options=tc.Options(machine=machine))
    return str(kernel.inspect("loops", **sizes))


@pytest.mark.parametrize(
    ("source", "sizes", "loop"),
    [
        (ROWS, {"N": 5000, "D": 64}, "parallel for d_part in [0, 2)"),
        (ROWS, {"N": 5000, "D": 70}, "parallel for d_part in [0, 2)"),
        (PLANES, {"N": 5000, "C": 3, "W": 20}, "parallel for c in [0, 3)"),
        (ROWS, {"N": 500, "D": 64}, ""),  # too few
        (ROWS, {"N": 5000, "D": 16}, ""),  # one line
        ("def f(int(N) x) -> (y) { y(b) = 0 where b in 0:9 y(x(n)) += 1 }", {"N": 50000}, ""),
    ],
)
def test_threads_share_out_columns(source: str, sizes: dict[str, int], loop: str) -> None:
    lines = loops_of(source, **sizes).splitlines()
    scattered = [line.strip() for line in lines if "parallel for" in line]
    assert [loop] == scattered[-1:] if loop else not any("_part" in x or "for c" in x for x in scattered)


@pytest.mark.parametrize("n", [0, 3, 5000])
@pytest.mark.parametrize("d", [17, 64, 70, 200])
def test_results_in_threads(d: int, n: int) -> None:
    """Bit for bit as one after the other, whatever runs beside."""
    g = np.random.default_rng(d)
    x, ids = g.random((n, d)).astype("f4"), g.integers(0, 7, n).astype("i4")
    want = np.full((7, d), 0.5, "f4")
    for k in range(n):
        want[ids[k]] += x[k]
    dynamic = tc.compile(ROWS, "cpu", dynamic=("N",), options=tc.Options(machine={"cores": 4}))
    for kernel in (tc.compile(ROWS, "cpu"), dynamic):
        for _ in range(3):
            np.testing.assert_array_equal(kernel(x, ids), want)


def test_results_of_planes_in_threads() -> None:
    g = np.random.default_rng(0)
    x, ids = g.integers(-9, 9, (3000, 5, 37)).astype("f4"), g.integers(0, 7, 3000).astype("i4")
    want = np.zeros((7, 5, 37), "f4")
    np.add.at(want, ids, x)
    np.testing.assert_array_equal(tc.compile(PLANES, "cpu")(x, ids), want)


def test_a_subscript_out_of_range_is_found_in_threads() -> None:
    x, ids = np.ones((9000, 64), "f4"), np.zeros(9000, "i4")
    ids[4321], ids[8000] = 7, -3
    kernel = tc.compile(ROWS, "cpu")
    for _ in range(5):
        with pytest.raises(tc.BoundsError, match=r"index 7 is out of range for dimension 0 of 'y'.*n = 4321"):
            kernel(x, ids)
