# pyright: reportUnknownMemberType=false
"""Replicated results in all threads of a row, and the threads that store results from shared memory."""

from __future__ import annotations

import itertools
import math

import islpy as isl
import numpy as np
import pytest

import tc
from tc.dtypes import FLOAT32
from tc.ir.evaluate import evaluate
from tc.ir.expr import IntImm
from tc.ir.loops import Array, Combine, Compute, For, Stmt, Sync, statements
from tc.ir.program import Range
from tc.poly.context import isl_context
from tc.poly.gpu import copies
from tc.poly.gpu.footprint import Dimension
from tc.poly.gpu.local import Local
from tests.backends.cpu_cases import Array as NumPy
from tests.poly.promoted import small
from tests.simt.mapped import prepared
from tests.simt.shim import report


def ran(kernel: tc.Kernel, backend: str, given: dict[str, NumPy]) -> tuple[NumPy, ...]:
    """The results of a kernel, on PoCL or on the shim."""
    if backend == "opencl":
        return kernel(**given)
    result = prepared(kernel, given).run()
    assert not result.found, report(result.found)
    return tuple(result.values.values())


ROWS = """def rows(float(N,K) X, float(N) W, float(K) B) -> (M, V, Y) {
  M(n) +=! X(n,k)
  M(n) = M(n) * W(n) / K
  V(n) +=! (X(n,k) - M(n)) * (X(n,k) - M(n))
  r(n) = rsqrt(V(n) / K + 1.5)
  Y(n,k) = (X(n,k) - M(n)) * r(n) + B(k)
}"""


@pytest.mark.share(36)
@pytest.mark.parametrize(("n", "k"), [(3, 300), (40, 33), (9, 1)])
@pytest.mark.parametrize(
    "options",
    [{}, {"tile": (4,), "threads": (16, 4)}, {"tile": (1,), "blocks": (2,), "fusion": "max"}],
    ids=str,
)
@pytest.mark.parametrize("backend", ["opencl", "cuda"])
def test_threads_of_a_row_have_replicated_results(
    backend: str, options: dict[str, object], n: int, k: int
) -> None:
    """Reduction results, temporaries, and values that are computed from them."""
    rng = np.random.default_rng(5)
    kernel = tc.compile(ROWS, backend, options=options)
    given = {"X": small(rng, n, k), "W": small(rng, n), "B": small(rng, k)}
    for got, wanted in zip(ran(kernel, backend, given), tc.interpret(ROWS, **given), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    nest = kernel.specialize(N=n, K=k).compiled.nest
    combined = [s for s in statements(nest.body) if isinstance(s, Combine)]
    assert all(s.everywhere for s in combined)
    if combined:
        assert {a.name.split(".")[0] for a in nest.arrays if a.replicas} == {"M", "V", "r"}
        assert not any(isinstance(s, Sync) for s in statements(nest.body))


@pytest.mark.share(12)
@pytest.mark.parametrize("backend", ["opencl", "cuda"])
@pytest.mark.parametrize("strategy", ["max", "min"])
def test_a_result_is_stored_at_all_points(backend: str, strategy: str) -> None:
    """Also if the last statement that writes it, in a separate nest, has no instances."""
    source = """def f(float(N,K) X) -> (S, T, Y) {
      S(n) +=! X(n,k)
      T(n) = S(n) + 1
      T(n) += X(n,k) where k < 10*n - 40
      S(n) = 1 where n > 2, n != 6
      Y(n,k) = X(n,k) / S(n) + T(n)
    }"""
    given = {"X": small(np.random.default_rng(2), 9, 70)}
    options = {"intra_tile_fusion": strategy, "tile": (2,), "threads": (16, 2)}
    kernel = tc.compile(source, backend, options=options)
    for got, wanted in zip(ran(kernel, backend, given), tc.interpret(source, **given), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("source", "replicated"),
    [
        ("def f(float(N,K) X) -> (S, Y) { S(n) +=! X(n,k)\nY(n,k) = X(n,k) / S(n) }", {"S"}),
        # A condition on rows is the same for all threads of a row.
        (
            "def f(float(N,K) X) -> (S, Y) { S(n) +=! X(n,k)\nS(n) = 1 where n < 5\nY(n,k) = X(n,k) / S(n) }",
            {"S"},
        ),
        # There is no reduction across threads.
        ("def f(float(N,K) X, float(N) W) -> (S, Y) { S(n) = W(n)\nY(n,k) = X(n,k) * S(n) }", set()),
    ],
)
def test_only_some_buffers_are_replicated(source: str, replicated: set[str]) -> None:
    nest = tc.compile(source, "cuda").specialize(N=40, K=300).compiled.nest
    assert {a.name.split(".")[0] for a in nest.arrays if a.replicas} == replicated


@pytest.mark.parametrize(
    "shape", [(1,), (7,), (64,), (3, 5), (4, 32), (2, 3, 8), (1, 1024), (33, 4)], ids=str
)
@pytest.mark.parametrize("threads", [(32,), (7,), (8, 4), (4, 6, 2), (256,)], ids=str)
def test_movers_are_the_threads_that_store_elements(shape: tuple[int, ...], threads: tuple[int, ...]) -> None:
    """They are those that the insertion of barriers assumes."""
    box = tuple(Dimension(n, 0, (), 0, 0) for n in shape)
    x = Local("O", Array("O_0", FLOAT32, tuple(map(IntImm, shape)), "shared"), (0,) * len(shape), box)
    variables = tuple((f"t{i}", n) for i, n in enumerate(threads))
    ranges = tuple(Range(IntImm(0), IntImm(n)) for n in shape)
    moves = copies.store(x, ranges, {}, variables, "l")
    found: dict[tuple[int, ...], tuple[int, ...]] = {}

    def run(s: Stmt, at: dict[str, int], thread: tuple[int, ...]) -> None:
        if isinstance(s, For):
            for i in range(evaluate(s.lower, at), evaluate(s.upper, at), s.step):
                run(s.body, {**at, s.var: i}, thread)
        else:
            assert isinstance(s, Compute)
            place = tuple(evaluate(e, at) for e in s.subscripts)
            assert place not in found
            found[place] = thread

    for thread in itertools.product(*map(range, threads)):
        run(moves, dict(zip((v for v, _ in variables), thread, strict=True)), thread)
    assert len(found) == math.prod(shape)
    with isl_context() as ctx:
        told = isl.Map.read_from_str(ctx, copies.movers(x, variables))
        for place, thread in found.items():
            point = isl.Set.read_from_str(ctx, f"{{ place[{', '.join(map(str, place))}] }}")
            wanted = isl.Set.read_from_str(ctx, f"{{ [{', '.join(map(str, thread))}] }}")
            assert point.apply(told).is_equal(wanted)
