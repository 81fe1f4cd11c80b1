"""Scatters on the cpu: the loop along rows is innermost, in vectors; instances that meet keep their order."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc import _native
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


def test_only_loops_whose_iterations_update_different_elements_move() -> None:
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


def of_rows(rows: int) -> str:
    return ROWS.replace("0:7", f"0:{rows}")


HISTOGRAM = "def f(int(N) x) -> (y) { y(b) = 0 where b in 0:9 y(x(n)) += 1 }"


def loops_of(source: str, **sizes: int) -> list[str]:
    kernel = tc.compile(source, "cpu", options=tc.Options(machine={"cores": 2}))
    return [line.strip() for line in str(kernel.inspect("loops", **sizes)).splitlines()]


@pytest.mark.parametrize(
    ("source", "sizes", "loop"),
    [
        (of_rows(4000), {"N": 5000, "D": 64}, "d_part in [0, 2)"),
        (of_rows(4000), {"N": 5000, "D": 70}, "d_part in [0, 2)"),
        (PLANES.replace("0:7", "0:4000"), {"N": 5000, "C": 3, "W": 20}, "c in [0, 3)"),
        (of_rows(4000), {"N": 100, "D": 64}, ""),  # too few
        (of_rows(4000), {"N": 5000, "D": 16}, ""),  # one line
        (of_rows(7), {"N": 5000, "D": 64}, "n_part in [0, 8)"),
        (of_rows(200), {"N": 5000, "D": 16}, "n_part in [0, 3)"),
        (HISTOGRAM, {"N": 50000}, "n_part in [0, 8)"),
        (HISTOGRAM, {"N": 100}, ""),
    ],
)
def test_threads_share_out_columns_or_have_copies(source: str, sizes: dict[str, int], loop: str) -> None:
    scattered = [x for x in loops_of(source, **sizes) if x.startswith("parallel for") and "s_0" not in x]
    scattered = [x for x in scattered if "n_part_0" not in x]  # the copies are combined
    assert scattered == ([f"parallel for {loop}"] if loop else [])


@pytest.mark.share(8)
@pytest.mark.parametrize("n", [0, 3, 5000])
@pytest.mark.parametrize("d", [17, 64, 70, 200])
@pytest.mark.parametrize("rows", [7, 900])
def test_results_in_threads(rows: int, d: int, n: int) -> None:
    g = np.random.default_rng(d)
    x, ids = g.integers(-9, 10, (n, d)).astype("f4"), g.integers(0, rows, n).astype("i4")
    want = np.full((rows, d), 0.5, "f4")
    np.add.at(want, ids, x)
    source = of_rows(rows)
    dynamic = tc.compile(source, "cpu", dynamic=("N",), options=tc.Options(machine={"cores": 4}))
    for kernel in (tc.compile(source, "cpu"), dynamic):
        for _ in range(3):
            np.testing.assert_array_equal(kernel(x, ids), want)


@pytest.mark.parametrize(
    ("op", "t", "ufunc"),
    [
        ("+", "float", np.add),
        ("+", "int8", np.add),
        ("max", "float", np.maximum),
        ("min", "double", np.minimum),
        ("*", "double", np.multiply),
        ("max", "int", np.maximum),
        ("+", "half", np.add),
    ],
)
def test_copies_of_every_reduction(op: str, t: str, ufunc: np.ufunc) -> None:
    dtype = np.dtype({"float": "f4", "double": "f8", "half": "f2", "int": "i4"}.get(t, t))
    g = np.random.default_rng(0)
    low, high = (1, 2) if op == "*" else (-2, 3) if t == "half" else (-9, 10)
    x, ids = g.integers(low, high, (2000, 5)).astype(dtype), g.integers(0, 11, 2000).astype("i4")
    z = g.integers(low, high, (11, 5)).astype(dtype)
    want = z.copy()
    for i, row in zip(ids, x, strict=True):
        want[i] = ufunc(want[i], row)
    source = f"""def f({t}(N,D) x, int(N) ids, {t}(S,D) z) -> ({t} y) {{
      y(s,d) = z(s,d)
      y(ids(n),d) {op}= x(n,d)
    }}"""
    np.testing.assert_array_equal(tc.compile(source, "cpu")(x, ids, z), want)


def test_sums_do_not_depend_on_threads() -> None:
    g = np.random.default_rng(0)
    x, ids = g.random((20_000, 40), np.float32), g.integers(0, 50, 20_000).astype("i4")
    found = []
    before = _native.get_num_threads()
    try:
        for cores in (1, 2, 5):
            kernel = tc.compile(of_rows(50), "cpu", options=tc.Options(machine={"cores": cores}))
            for threads in (1, 2):
                _native.set_num_threads(threads)
                found.append(np.asarray(kernel(x, ids)))
    finally:
        _native.set_num_threads(before)
    assert "copies" in "\n".join(loops_of(of_rows(50), N=20_000, D=40))
    for y in found[1:]:
        np.testing.assert_array_equal(y, found[0])


def test_results_of_planes_in_threads() -> None:
    g = np.random.default_rng(0)
    for rows in (7, 3000):
        x, ids = g.integers(-9, 9, (3000, 5, 37)).astype("f4"), g.integers(0, rows, 3000).astype("i4")
        want = np.zeros((rows, 5, 37), "f4")
        np.add.at(want, ids, x)
        np.testing.assert_array_equal(tc.compile(PLANES.replace("0:7", f"0:{rows}"), "cpu")(x, ids), want)


def test_a_loop_along_rows_inside_of_others() -> None:
    source = """def f(float(P,N,D) x, int(P,N) ids) -> (y) {
      y(p,s,d) = 0 where p in 0:P, s in 0:300
      y(p,ids(p,n),d) += x(p,n,d)
    }"""
    lines = loops_of(source, P=2, N=500, D=64)
    at = next(i for i, line in enumerate(lines) if line.startswith("S1"))
    assert lines[at - 1].startswith("vector for d") and "parallel for p in [0, 2)" in lines
    g = np.random.default_rng(0)
    x, ids = g.integers(-9, 9, (2, 500, 64)).astype("f4"), g.integers(0, 300, (2, 500)).astype("i4")
    want = np.zeros((2, 300, 64), "f4")
    for p in range(2):
        np.add.at(want[p], ids[p], x[p])
    np.testing.assert_array_equal(tc.compile(source, "cpu")(x, ids), want)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_columns_whose_rows_data_choose_are_no_vectors(backend: str) -> None:
    """Neighbouring columns are updated in rows of their own: vectors of them were an internal error."""
    source = """def f(float(N) x, int(D) ids) -> (y) {
      y(s,d) = 0 where s in 0:9, d in 0:D
      y(ids(d),d) += x(n) * 2
    }"""
    g = np.random.default_rng(0)
    x, ids = g.integers(-9, 9, 30).astype("f4"), g.integers(0, 9, 70).astype("i4")
    want = np.zeros((9, 70), "f4")
    want[ids, np.arange(70)] = 2 * x.sum()
    np.testing.assert_array_equal(tc.compile(source, backend)(x, ids), want)


@pytest.mark.parametrize("rows", [7, 6000])
def test_a_subscript_out_of_range_is_found_in_threads(rows: int) -> None:
    x, ids = np.ones((9000, 64), "f4"), np.zeros(9000, "i4")
    ids[4321] = rows
    kernel = tc.compile(of_rows(rows), "cpu")
    for _ in range(5):
        with pytest.raises(
            tc.BoundsError, match=rf"index {rows} is out of range for dimension 0 of 'y'.*n = 4321"
        ):
            kernel(x, ids)
