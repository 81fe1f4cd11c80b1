"""Reductions over residues, one for each residue: their form, and that they compute the same."""
# ruff: noqa: E501 - tables of programs

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
from tc.transforms.program.phases import split_phases

SPLIT = {
    "a stride": "y(h) +=! x(c,(h-i)/2) * w(c,i) where h in 0:2*N, (h-i) % 2 == 0, h-i >= 0, h-i < 2*N",
    "a guard": "y(h) +=! ((h-i) % 2 == 0 && h >= i && h-i < 2*N ? x(c,(h-i)/2) * w(c,i) : 0) where h in 0:2*N",
    "a guard of a factor": "y(h) +=! (h-i) % 2 == 0 ? x[none,zero](c,(h-i)/2) * w(c,i) : 0 where h in 0:2*N",
    "a definition with 0": "y(h) = 0 where h in 0:2*N\n"
    "y(h) += (h-i) % 2 == 0 && h >= i && h-i < 2*N ? x(c,(h-i)/2) * w(c,i) : 0",
    "padding": "y(h) +=! x[none,zero](c,(h+1-i)/2) * w(c,i) where h in 0:2*N-1, (h+1-i) % 2 == 0",
    "a larger stride than the window": "y(h) +=! x[none,zero](c,(h-i)/7) * w(c,i) where h in 0:7*N, (h-i) % 7 == 0",
    "as large as the window": "y(h) +=! x[none,zero](c,(h-i)/5) * w(c,i) where h in 0:5*N, (h-i) % 5 == 0",
    "a dilation": "y(h) +=! x[none,zero](c,(h+1-3*i)/2) * w(c,i) where h in 0:2*N, (h+1-3*i) % 2 == 0",
    "a dilation of another slope": "y(h) +=! x[none,zero](c,(h-2*i)/5) * w(c,i) where h in 0:9, (h-2*i) % 5 == 0",
    "the other way round": "y(h) +=! x[none,zero](c,(h+i)/3) * w(c,i) where h in 0:9, (h+i) % 3 == 0",
    "another residue": "y(h) +=! x[none,zero](c,(h-i)/3) * w(c,i) where h in 0:9, (h-i) % 3 == 2",
    "results from another point on": "y(h) +=! x[none,zero](c,(h-i)/3) * w(c,i) where h in 2:11, (h-i) % 3 == 0",
    "extrema": "y(h) max=! x[none,zero](c,(h-i)/2) * w(c,i) where h in 0:2*N, (h-i) % 2 == 0",
    "two residues": "y(h,v) +=! x[zero,zero]((h-i)/2,(v-j)/3) * w(i,j)"
    " where h in 0:7, v in 0:10, (h-i) % 2 == 0, (v-j) % 3 == 0",
    "among other conditions": "y(h) +=! x[none,zero](c,(h-i)/2) * w(c,i) where h in 0:9, (h-i) % 2 == 0, i <= h, h != 3",
    "not anew, of integers": "y(h) = h where h in 0:9\ny(h) += x[none,zero](c,(h-i)/2) * w(c,i) where (h-i) % 2 == 0",
}
LEFT = {
    "a step of a result": "y(h) +=! x(c,h) * w(c,i) where h % 2 == 0, h in 0:N",
    "both variables of the sum": "y(c) +=! x(c,h) * w(c,i) where (h-i) % 2 == 0, c in 0:3",
    "even strides of both": "y(h) +=! x[none,zero](c,h-i) * w(c,i) where (2*h-2*i) % 4 == 0, h in 0:N",
    "one window for two residues": "y(h,v) +=! x[zero,zero]((h-i)/2,(v-i)/2) * w(0,i)"
    " where h in 0:7, v in 0:9, (h-i) % 2 == 0, (v-i) % 2 == 0",
    "inequality": "y(h) +=! x[none,zero](c,h-i) * w(c,i) where (h-i) % 2 <= 0, h in 0:N",
    "as data say": "y(h) +=! x(c,at(i)) * w(c,i) where (h-i) % 2 == 0, h in 0:N",
}


def program(statement: str, sizes: dict[str, int]) -> Program:
    source = f"def f(int(C,N) x, int(C,K) w, int(K) at) -> (y) {{ {statement} }}"
    built = pipeline.build(pipeline.front(Source(source)), pipeline.Variant()).program
    return guards.restrict(specialize(built, sizes))


@pytest.mark.share(6)
@pytest.mark.parametrize("k", [1, 4, 5])
@pytest.mark.parametrize("name", SPLIT)
def test_results_are_unchanged(name: str, k: int) -> None:
    before = program(SPLIT[name], {"C": 3, "N": 6, "K": k})
    after, names = split_phases(before)
    assert names == ("y",)
    verify.program(after)
    assert equivalence.same_results(before, after) == "reference"


def test_a_symbolic_size() -> None:
    before = program(
        "y(h) +=! x[none,zero](c,(h+1-i)/2) * w(c,i) where h in 0:2*N, (h+1-i) % 2 == 0", {"C": 3, "K": 3}
    )
    after, names = split_phases(before)
    assert names == ("y",)
    assert equivalence.same_results(before, after) == "reference"


@pytest.mark.parametrize("name", LEFT)
def test_reductions_that_are_not_split(name: str) -> None:
    before = program(LEFT[name], {"C": 3, "N": 6, "K": 4})
    assert split_phases(before) == (before, ())


def test_the_rewritten_statements() -> None:
    statement = (
        "y(h) +=! (h-i) % 2 == 0 && h >= i && h-i < 2*N ? x(c,(h-i)/2) * w(c,i) : 0 where h in 0:2*N+1"
    )
    after, _ = split_phases(program(statement, {"C": 3, "N": 6, "K": 3}))
    stages = [line.split(": ", 1)[1] for line in program_text(after).splitlines() if ": " in line]
    inner = "i_phase in [{}), h in [0, 7); reduce c in [0, 3), i in [0, {})"
    assert [s for s in stages if "+=" in s] == [
        "y_phases(i_phase, h) += x(c, (2 * h - 2 * i)/2) * w(c, 2 * i + i_phase)   for "
        + inner.format(phase, length)
        + rest
        for phase, length, rest in (
            ("0, 1", 2, " where 2 * h - 2 * i >= 0, 2 * h - 2 * i < 12"),
            ("1, 2", 1, " where 2 * h - 2 * i < 12, 2 * h + i_phase < 13"),
        )
    ]
    assert stages[-1] == "y(h) = y_phases(h % 2, h/2)   for h in [0, 13)"


def test_a_sum_that_does_not_start_from_0_keeps_its_zeros() -> None:
    """To add 0 to -0 gives 0: such a sum is left as it is."""
    source = "def f(float(N) x, float(K) w) -> (y) { y(h) = -0.0 where h in 0:9\n y(h) += x((h-i)/2) * w(i) where (h-i) % 2 == 0, h-i >= 0, h-i < 2*N }"
    built = pipeline.build(pipeline.front(Source(source)), pipeline.Variant()).program
    before = guards.restrict(specialize(built, {"N": 4, "K": 3}))
    assert split_phases(before)[1] == ()


@pytest.mark.share(12)
@pytest.mark.parametrize("backend", ["cpu", "opencl"])
@pytest.mark.parametrize("stride", [2, 3])
def test_a_transposed_convolution(backend: str, stride: int) -> None:
    source = f"""def f(double(N,C,H,W) x, double(C,F,K,K) w) -> (y) {{
      y(n,f,h,v) +=! (h - i) % {stride} == 0 && (v - j) % {stride} == 0
        ? x[none,none,zero,zero](n, c, (h - i)/{stride}, (v - j)/{stride}) * w(c,f,i,j) : 0
        where h in 0:{stride}*(H-1)+K, v in 0:{stride}*(W-1)+K
    }}"""
    rng = np.random.default_rng(4)
    x, w = (rng.integers(-3, 4, shape).astype("f8") for shape in ((2, 3, 9, 8), (3, 5, 4, 4)))
    expected = np.zeros((2, 5, stride * 8 + 4, stride * 7 + 4))
    for i in range(4):
        for j in range(4):
            part = np.einsum("nchw,cf->nfhw", x, w[:, :, i, j])
            expected[:, :, i : i + stride * 9 : stride, j : j + stride * 8 : stride] += part
    np.testing.assert_array_equal(tc.compile(source, backend=backend)(x, w), expected)


def test_in_a_loop_whose_counter_bounds_the_results() -> None:
    """Temporaries of parts of loops have constant sizes: such a reduction stays."""
    source = """def f(int(N) x, int(K) w) -> (y) {
      for t in 0:4 {
        s(h) +=! x[zero]((h-i)/2) * w(i) where h in 0:2*t+1, (h-i) % 2 == 0
        y(t) +=! s(h) where h in 0:2*t+1
      }
    }"""
    x, w = np.arange(1, 6, dtype="i4"), np.array([1, 10, 100], "i4")
    expected = tc.interpret(source, x, w)
    np.testing.assert_array_equal(tc.compile(source, backend="cpu")(x, w), expected)
