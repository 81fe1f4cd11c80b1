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
