"""Long prefix reductions in chunks: their form, and that they compute the same."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.errors import Source
from tc.ir import verify
from tc.ir.printer import program_text
from tc.ir.program import Program
from tc.ir.specialize import specialize
from tc.pipeline import equivalence
from tc.pipeline import front as pipeline
from tc.transforms.program import guards
from tc.transforms.program.prefixes import in_chunks

CHUNKED = {
    "up to the point": "y(n,d) +=! x(n,k) where k <= d, d in 0:D",
    "before the point": "y(n,d) +=! x(n,k) where k < d, d in 0:D",
    "from the point on": "y(n,d) +=! x(n,k) where k >= d, d in 0:D",
    "behind the point": "y(n,d) +=! x(n,k) where k > d, d in 0:D",
    "part of the points": "y(n,d) +=! x(n,k) where k <= d, d in 2:D-1",
    "down the columns": "y(d,n) +=! x(k,n) where k <= d, d in 0:N",
    "greatest": "y(n,d) max=! x(n,k) where k <= d, d in 0:D",
    "least": "y(n,d) min=! x(n,k) where k > d, d in 0:D",
    "product": "y(n,d) *=! x(n,k) where k <= d, d in 0:D",
    "scaled": "y(n,d) +=! x(n,k) where k <= 2*d + 3, d in 0:D",
    "scaled the other way": "y(n,d) +=! x(n,k) where 2*k <= d, d in 0:2*D",
    "scaled suffix": "y(n,d) +=! x(n,k) where 3*k >= d + 1, d in 0:2*D",
    "shifted": "y(n,d) +=! x(n,k) where k <= d - 5, d in 0:D+9",
    "shifted suffix": "y(n,d) +=! x(n,k) where k >= d - 5, d in 0:D+9",
    "backwards": "y(n,d) +=! x(n,k) where k + d <= D, d in 0:D",
    "two variables in the bound": "y(n,d) +=! x(0,k) where k <= d + n, d in 0:D, n in 0:N",
    "what is computed": "y(n,d) +=! x(n,k) * x(n,k) + k where k <= d, d in 0:D",
    "a guard": "y(n,d) +=! (k <= d ? x(n,k) : 0) where d in 0:D",
    "two prefixes": "y(i,j) +=! x(k,l) where k <= i, l <= j, i in 0:N, j in 0:D",
    "another reduction": "y(d) +=! x(n,k) where k <= d, d in 0:D",
    "some values": "y(n,d) +=! x(n,k) where k <= d, k % 3 == 1, d in 0:D",
    "some results": "y(n,d) +=! x(n,k) where k <= d, d + n >= 7, d in 0:D",
    "not anew": "y(n,d) = 2 * x(n,d) y(n,d) += x(n,k) where k <= d, d in 0:D",
    "defined again": "y(n,d) = 2 * x(n,d) t(n,d) = y(n,d) y(n,d) +=! t(n,k) where k <= d, d in 0:D",
    "for each of others": "y(m,n,d) +=! x(n,k) where k <= d, d in 0:D, m in 0:2",
}
LEFT = {
    "short": "y(n,d) +=! x(n,k) where k <= d, d in 0:4",
    "values that differ": "y(n,d) +=! x(n,k) * d where k <= d, d in 0:D",
    "a window": "y(n,d) +=! x(n,k) where k <= d, k + 3 >= d, d in 0:D",
    "no bound": "y(n) +=! x(n,k)",
    "a bound for all": "y(n) +=! x(n,k) where k <= N",
    "a point": "y(n,d) +=! x(n,k) where k == d, d in 0:D",
    "every second": "y(n,d) +=! x(n,k) where (k/2) <= d, d in 0:D",
    "as data say": "y(n,d) +=! x(n,at(k)) where k <= d, d in 0:D",
}
SIZES = {"N": 11, "D": 13}


def program(statement: str, sizes: dict[str, int] = SIZES) -> Program:
    source = f"def f(int(N,D) x, int(D) at) -> (y) {{ {statement} }}"
    built = pipeline.build(pipeline.front(Source(source)), pipeline.Variant()).program
    return guards.restrict(specialize(built, sizes))


@pytest.mark.share(6)
@pytest.mark.parametrize("sizes", [SIZES, {"N": 9, "D": 16}, {}], ids=["odd", "whole", "symbolic"])
@pytest.mark.parametrize("name", CHUNKED)
def test_results_are_unchanged(name: str, sizes: dict[str, int]) -> None:
    if name == "a guard" and not sizes:
        pytest.skip("guards of symbolic ranges stay in values")
    before = program(CHUNKED[name], sizes)
    after, names = in_chunks(before, lambda t: 4, {} if sizes else SIZES)
    assert names == ("y",)
    verify.program(after)
    assert equivalence.same_results(before, after) == "reference"


@pytest.mark.parametrize("name", LEFT)
def test_reductions_that_are_not_split(name: str) -> None:
    before = program(LEFT[name])
    assert in_chunks(before, lambda t: 4, {}) == (before, ())


def test_the_rewritten_statements() -> None:
    after, _ = in_chunks(program("y(n,d) +=! x(n,k) where k <= d, d in 0:D"), lambda t: 4, {})
    stages = [line.split(": ", 1)[1] for line in program_text(after).splitlines() if ": " in line]
    assert [s.split("   for")[0] for s in stages] == [
        "y_sums(n, k_chunk) = 0",
        "y_sums(n, k_chunk) += x(n, 4 * k_chunk + k_in)",
        "y_before(n, k_chunk) = 0",
        "y_before(n, k_chunk) += y_sums(n, k_other)",
        "y(n, d) = y_before(n, d/4)",
        "y(n, d) += x(n, 4 * (d/4) + k_in)",
    ]


def test_prefixes_of_chunks_are_split_again() -> None:
    after, _ = in_chunks(
        program("y(n,d) +=! x(n,k) where k <= d, d in 0:D", {"N": 2, "D": 99}), lambda t: 4, {}
    )
    assert [b.name for b in after.buffers if b.role == "temporary"] == [
        "y_sums", "y_before", "y_before_sums", "y_before_before",
    ]  # fmt: skip


def test_temporaries_of_constant_size() -> None:
    before = program("y(n,d) +=! x(n,k) where k <= d, d in 0:D", {})
    assert in_chunks(before, lambda t: 4, SIZES, constant=True) == (before, ())


@pytest.mark.parametrize("backend", ["cpu", "opencl"])
@pytest.mark.parametrize("t", ["float", "double", "int8", "float16"])
@pytest.mark.share(24)
def test_long_prefixes(backend: str, t: str) -> None:
    source = f"""def f({t}(N,D) x) -> (y, z) {{
      y(n,d) +=! x(n,k) where k <= d, d in 0:D
      z(n,d) max=! x(n,k) where k >= d, d in 0:D
    }}"""
    x = np.random.default_rng(5).integers(-1, 2, (3, 301)).astype({"float": "f4", "double": "f8"}.get(t, t))
    y, z = tc.compile(source, backend=backend)(x)
    np.testing.assert_array_equal(y, np.cumsum(x, 1, dtype=x.dtype))
    np.testing.assert_array_equal(z, np.maximum.accumulate(x[:, ::-1], 1)[:, ::-1])


def test_prefixes_in_a_loop() -> None:
    source = """def f(double(T,D) x) -> (y) {
      s(d) = 0.0 where d in 0:D
      for t in 0:T {
        p(d) +=! x(t,k) + s(k) where k <= d, d in 0:D
        s(d) = p(d) * 0.125
        y(t,d) = s(d)
      }
    }"""
    x = np.random.default_rng(5).integers(-3, 4, (5, 70)).astype("f8")
    expected, s = np.empty_like(x), np.zeros(70)
    for t in range(5):
        s = np.cumsum(x[t] + s) * 0.125
        expected[t] = s
    for backend in ("cpu", "opencl", "reference"):
        np.testing.assert_allclose(tc.compile(source, backend=backend)(x), expected, rtol=1e-13)


def test_the_choice_names_the_tensors() -> None:
    source = "def f(float(N,D) x) -> (y) { y(n,d) +=! x(n,k) where k <= d, d in 0:D }"
    kernel = tc.compile(source, backend="cpu")
    kernel(np.ones((2, 99), "f4"))
    assert "prefix reductions in chunks: y\n" in kernel.inspect("choice", N=2, D=99)
