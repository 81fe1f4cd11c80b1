"""Padded iteration domains and isolated tiles: conditions that need no guards in inner loops."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tc
from tc.ir.expr import IntImm, Load, variables, walk
from tc.ir.loops import (
    Compute,
    For,
    If,
    LoopKind,
    Stmt,
    statements,
)
from tc.poly import trace
from tc.poly.gpu.mapping import AxisMap, NestMap, RegionMap
from tests.backends.cpu_cases import Array as NumPy
from tests.poly.promoted import CONV, GEMM, nest, small
from tests.poly.test_mapping import launched, polyhedra
from tests.simt.mapped import prepared
from tests.simt.shim import report

TRIANGLE = "def tri(float(N,N) A, float(N,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) where j <= i }"


def runs_right(kernel: tc.Kernel, backend: str, given: dict[str, NumPy]) -> None:
    """The result of a kernel, on PoCL or on the shim."""
    wanted = tc.interpret(kernel.source, **given)
    if backend == "opencl":
        np.testing.assert_array_equal(kernel(**given), wanted)
    else:
        result = prepared(kernel, given).run()
        assert not result.found, report(result.found)
        (held,) = result.values.values()
        np.testing.assert_array_equal(held, wanted)


@pytest.mark.share(18)
@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        (GEMM, {"M": 1000, "N": 1000, "K": 1000}),
        (GEMM, {"M": 127, "N": 509, "K": 77}),
        (GEMM, {"M": 127, "N": 1003, "K": 1000}),  # split, with a shorter last part
        (CONV, {"N": 8, "C": 64, "H": 58, "W": 58, "M": 64, "KH": 3, "KW": 3}),
    ],
)
def test_partial_tiles_have_no_guard_in_inner_loops(source: str, sizes: dict[str, int]) -> None:
    """There is no condition in the loops of a reduction: their bounds end them."""
    body = nest(tc.compile(source, "cuda"), **sizes)
    update = next(
        s for s in statements(body) if isinstance(s, For) and s.kind is LoopKind.SERIAL and innermost(s)
    )
    assert not [s for s in statements(update) if isinstance(s, If)]


def innermost(s: For) -> bool:
    """The innermost loop of a reduction, with updates in registers and only unrolled loops inside."""
    below = list(statements(s.body))
    serial = [x for x in below if isinstance(x, For) and x.kind is LoopKind.SERIAL]
    updates = [x for x in below if isinstance(x, Compute) and x.stage and x.op is not None]
    return bool(updates) and not serial


APART = TRIANGLE.replace("j <= i", "i != j, i != 7")
BAND = TRIANGLE.replace("j <= i", "j <= i, i < j + 7")
STEPS = TRIANGLE.replace("j <= i", "k <= i")
LEAST = TRIANGLE.replace("+=!", "min=!")
AFTER = TRIANGLE.replace("}", "C(i,j) = C(i,j) * 2 - A(i,j) }")
BIASED = TRIANGLE.replace("C(i,j) +=!", "C(i,j) = A(j,i) C(i,j) +=")
ADDED = """def added(float(N,N) A, float(N,N) B) -> (C) {
  C(i,j) = A(j,i)
  C(i,j) += A(i,k) * B(k,j)
}"""
ADDED_TRIANGLE = ADDED.replace("\n}", " where j <= i\n}")
TWICE = ADDED.replace("\n}", "\n  C(i,j) += A(k,i) * B(j,k) where i <= j\n}")
HALVES = TRIANGLE.replace("float", "half")


@pytest.mark.parametrize(
    ("source", "guarded"),
    [
        (TRIANGLE, False),
        (BAND, False),
        (APART, False),
        (STEPS, True),  # the points of a tile end at different iterations
        (LEAST, False),
        (AFTER, False),
        (BIASED, False),
        (ADDED, False),
        (ADDED_TRIANGLE, False),
        (TWICE, False),
        (HALVES, False),
    ],
)
@pytest.mark.share(90)
@pytest.mark.parametrize("fusion", ["max", "min"])
@pytest.mark.parametrize("backend", ["opencl", "cuda"])
def test_separate_sums_need_no_guards(backend: str, source: str, guarded: bool, fusion: str) -> None:
    """Neither conditions on points nor the ends of a matrix, to which products are added, need guards in the
    loops of a reduction: the sums of other points are not used."""
    options = {"tile": (8, 16), "threads": (8, 4), "use_shared_memory": True, "fusion": fusion}
    rng = np.random.default_rng(3)
    names = re.findall(r"(?:float|half)\(N,N\) (\w)", source)
    dtype = np.float16 if source == HALVES else np.float32
    given = {n: small(rng, 21, 21).astype(dtype) for n in names}
    given["A"][4, 3] = np.inf  # times a zero of the padding it is NaN
    kernel = tc.compile(source, backend, options=options)
    runs_right(kernel, backend, given)
    updates = [s for s in statements(nest(kernel, N=21)) if isinstance(s, For) and innermost(s)]
    assert updates
    assert any(isinstance(s, If) for u in updates for s in statements(u)) == guarded


def test_separate_sums_are_shown_as_partial_results() -> None:
    """Conditions on points do not prevent results in registers."""
    kernel = tc.compile(TRIANGLE, "cuda", options={"tile": (4, 8), "threads": (8, 4), "isa": "sm_80"})
    inspected = kernel.inspect("mapped", N=21)
    assert "registers of each thread, parts of C" in inspected
    assert "not in registers" not in inspected


PARTS = """def parts(float(M,K) A, float(N,K) B) -> (P) {
  P(c,m,n) +=! A(m,8*c + k) * B(n,8*c + k)
    where c in 0:(K + 7) / 8, k in 0:8, exists A(0,8*c + k), 8*c + k < K
}"""
STAIRS = PARTS.replace("8*c + k < K", "8*c + k <= m")


@pytest.mark.share(18)
@pytest.mark.parametrize(
    ("source", "tile", "guarded"),
    [
        (PARTS, (1, 4, 8, 4), False),
        (PARTS, (1, 4, 8, 3), False),
        (PARTS, (2, 4, 8, 4), True),  # the points of a tile end at different iterations
        (STAIRS, (1, 4, 8, 4), True),
    ],
)
@pytest.mark.parametrize("backend", ["opencl", "cuda"])
def test_conditions_on_loop_bounds_need_no_guard(
    backend: str, source: str, tile: tuple[int, ...], guarded: bool
) -> None:
    """There is no guard, and copies may be double-buffered, as in the last part of a split reduction."""
    options = {"tile": tile, "threads": (4, 2), "use_shared_memory": True}
    rng = np.random.default_rng(3)
    given = {"A": small(rng, 9, 21), "B": small(rng, 13, 21)}
    kernel = tc.compile(source, backend, options=options)
    runs_right(kernel, backend, given)
    body = nest(kernel, M=9, N=13, K=21)
    updates = [s for s in statements(body) if isinstance(s, For) and innermost(s)]
    loops = [u for u in updates if u.kind is LoopKind.SERIAL]
    if guarded:
        assert {on_the_border(u) for u in loops} == {False, True}
    else:
        assert not any(isinstance(s, If) for u in updates for s in statements(u))


def on_the_border(update: For) -> bool:
    """Whether a loop, or an inner one, has conditions or a variable trip count."""
    loops = [s for s in statements(update) if isinstance(s, For)]
    constant = all(isinstance(e, IntImm) for s in loops for e in (s.lower, s.upper))
    return not constant or any(isinstance(s, If) for s in statements(update))


@pytest.mark.parametrize(
    "condition", ["k <= i", "i <= k", "k <= i, i < k + 14", "k <= i + j, i <= k + j", "j < k", "k != i"]
)
@pytest.mark.share(18)
@pytest.mark.parametrize("backend", ["opencl", "cuda"])
def test_whole_tiles_of_a_border_are_isolated(backend: str, condition: str) -> None:
    """Only tiles on the border of a condition have guards."""
    source = TRIANGLE.replace("j <= i", condition)
    options = {"tile": (8, 16, 4), "threads": (8, 4), "use_shared_memory": True}
    rng = np.random.default_rng(3)
    given = {"A": small(rng, 37, 37), "B": small(rng, 37, 37)}
    for a in given.values():
        a[4, 3] = np.inf
    kernel = tc.compile(source, backend, options=options)
    runs_right(kernel, backend, given)
    updates = [s for s in statements(nest(kernel, N=37)) if isinstance(s, For) and innermost(s)]
    assert {on_the_border(s) for s in updates} == {False, True}


@pytest.mark.share(18)
@pytest.mark.parametrize(
    "condition", ["i != j", "i != 2*j, j != 7", "j <= i, i != 5", "k != i", "k != j, i != k"]
)
def test_registers_have_constant_subscripts(condition: str) -> None:
    """For all conditions: dynamic subscripts would put register arrays into local memory."""
    source = TRIANGLE.replace("j <= i", condition)
    kernel = tc.compile(source, "cuda", options={"tile": (16, 16, 8), "threads": (8, 4), "isa": "sm_80"})
    made = kernel.specialize(N=64).compiled.nest
    registers = {a.name for a in made.arrays if a.role == "register"}
    assert registers
    for s in statements(made.body):
        if isinstance(s, For) and any(_indexed(c, registers, s.var) for c in statements(s.body)):
            assert s.kind is LoopKind.UNROLLED
            assert isinstance(s.lower, IntImm)
            assert isinstance(s.upper, IntImm)


def _indexed(s: Stmt, arrays: set[str], var: str) -> bool:
    """Whether a statement accesses one of the arrays by a variable."""
    if not isinstance(s, Compute):
        return False
    loads = [(e.buffer, e.subscripts) for e in walk(s.value) if isinstance(e, Load)]
    every = [(s.buffer, s.subscripts), *loads]
    return any(name in arrays and any(var in variables(e) for e in at) for name, at in every)


def test_isolated_tiles_of_dynamic_size_are_correct() -> None:
    """One kernel for every size, with any extent of the last tile."""
    source = TRIANGLE.replace("j <= i", "k <= i")
    options = {"tile": (8, 16, 4), "threads": (8, 4), "use_shared_memory": True}
    kernel = tc.compile(source, "opencl", options=options, dynamic=("N",))
    rng = np.random.default_rng(3)
    for n in (1, 3, 8, 31, 32, 45):
        a, b = small(rng, n, n), small(rng, n, n)
        np.testing.assert_array_equal(kernel(a, b), tc.interpret(source, a, b))


@pytest.mark.share(18)
@pytest.mark.parametrize(
    ("condition", "rows", "ring"),
    [("k <= i", 8, True), ("i <= k, k < i + 14", 8, True), ("k / 4 != i", 8, True), ("k / 4 != i", 1, False)],
)
def test_isolated_tiles_are_double_buffered(condition: str, rows: int, ring: bool) -> None:
    """From the first tile of a block on; not if the next tile may be empty."""
    p, s, regions = polyhedra(TRIANGLE.replace("j <= i", condition), N=19)
    (only,) = regions
    i, j = (a.name for a in only.nests[0].axes)
    (k,) = only.nests[0].phases[1].axes
    axes = {i: AxisMap(rows, "b0", 3, "t1", min(rows, 4)), j: AxisMap(16, "b1", 2, "t0", 8)}
    mapping = RegionMap(
        (("b0", IntImm(3)), ("b1", IntImm(2))),
        (("t0", 8), ("t1", min(rows, 4))),
        (NestMap(axes, ({}, {k.name: AxisMap(4)})),),
    )
    n = launched(p, s, regions, [mapping], 1 << 14, ahead=True)
    shared = [a for a in n.arrays if a.role == "shared"]
    assert shared
    assert {a.shape[0] == IntImm(2) for a in shared} == {ring}
    trace.verify(p, n, {})
