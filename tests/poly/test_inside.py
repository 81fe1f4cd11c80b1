"""Reads whose element exists whatever conditions say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tc
from fuzz.memory import guarded
from tc.errors import InternalError, Source
from tc.ir.expr import Expr, Load, rebuild, walk
from tc.ir.specialize import specialize
from tc.pipeline import front as pipeline
from tc.poly import inside, scop
from tc.poly.context import isl_context

SIZES = {"N": 5, "M": 8}


def marked(statement: str, sizes: dict[str, int] = SIZES) -> tuple[scop.Scop, list[bool]]:
    source = f"def f(float(N,M) x, int(N) at, float(M) w) -> (y) {{ {statement} }}"
    program = pipeline.build(pipeline.front(Source(source)), pipeline.Variant()).program
    with isl_context():
        found = inside.marked(scop.build(specialize(program, sizes)))
    reads = [e for body in found.bodies.values() for e in walk(body) if isinstance(e, Load)]
    return found, [e.inside for e in reads if e.buffer != "at"]


@pytest.mark.parametrize(
    "statement",
    [
        "y(i) +=! x(i,j) where j <= i",
        "y(i,j) = w(j) where i in 0:N",
        "y(i) +=! x(i,(i/2)*2) where j <= i, j in 0:M, i in 0:N",
        "y(i) +=! x(N-1-i,j%M) where j in 0:99, j < i",
    ],
)
def test_reads_that_are_always_in_bounds(statement: str) -> None:
    found, reads = marked(statement)
    assert reads and all(reads)
    assert inside.check(found) == "points"


@pytest.mark.parametrize(
    "statement",
    [
        "y(i) +=! x(i,i-1+j) where i in 0:N, j in 0:3, i+j >= 1, i-1+j < M",  # before the first one
        "y(i) +=! (i + j < M ? w(i+j) : 0) where i in 0:N, j in 0:M",  # behind the last one
        "y(i) = x(i,at(i))",  # as data say
    ],
)
def test_reads_that_may_be_out_of_bounds(statement: str) -> None:
    found, reads = marked(statement)
    assert reads and not any(reads)
    inside.check(found)


def test_symbolic_sizes() -> None:
    assert marked("y(i) +=! x(i,j) where j <= i", {})[1] == [True]
    assert marked("y(i) +=! x(i,j+1) where j <= i, j in 0:M-1", {})[1] == [False]


def test_the_oracle_sees_a_wrong_mark() -> None:
    found, _ = marked("y(i) +=! (i + j < M ? w(i+j) : 0) where i in 0:N, j in 0:M")

    def all_marked(e: Expr) -> Expr:
        e = rebuild(e, all_marked)
        return replace(e, inside=True) if isinstance(e, Load) else e

    bodies = {name: all_marked(body) for name, body in found.bodies.items()}
    with pytest.raises(InternalError) as error:
        inside.check(replace(found, bodies=bodies))
    assert error.value.code == "TC0908"


@pytest.mark.parametrize("n", [1, 7, 16, 33])
@pytest.mark.parametrize(
    "statement",
    [
        "y(i) +=! x(j,i) where i in 0:N, j in 0:N, j <= i",
        "y(i) +=! (i + j < N ? x(j,i+j) : 0) where i in 0:N, j in 0:N",
        "y(i) +=! x(j,0) * x(0,j) where i in 0:N, j in 0:N, j + 3 <= i",
    ],
)
def test_no_lane_reads_beyond_its_page(statement: str, n: int) -> None:
    source = f"def f(int(N,N) x) -> (y) {{ {statement} }}"
    for at_end in (True, False):
        x = guarded((n, n), np.dtype("int32"), at_end=at_end)
        x[...] = np.arange(n * n).reshape(n, n)
        np.testing.assert_array_equal(tc.compile(source, backend="cpu")(x), tc.interpret(source, x))
