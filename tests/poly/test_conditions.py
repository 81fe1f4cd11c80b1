"""Conditions that iteration domains decide."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.errors import Source
from tc.ir.printer import text
from tc.ir.program import Program
from tc.ir.specialize import specialize
from tc.pipeline import equivalence
from tc.pipeline import front as pipeline
from tc.poly.conditions import decide

SIZES = {"N": 6, "M": 9}


def program(statement: str, sizes: dict[str, int]) -> Program:
    source = f"def f(float(N,M) x, float(M) w, int(N) at) -> (y) {{ {statement} }}"
    built = pipeline.build(pipeline.front(Source(source)), pipeline.Variant()).program
    return specialize(built, sizes) if sizes else built


def decided(statement: str, sizes: dict[str, int]) -> str:
    """The value of a statement, with its conditions decided; running it before and after gives the same."""
    before = program(statement, sizes)
    after = decide(before)
    equivalence.same_results(before, after)
    return text(after.stages[-1].value)


DECIDED = {
    "in range": ("y(i,j) = x[clamp](i,j) where i in 0:N, j in 0:M", "x(i, j)"),
    "in range of a shifted domain": ("y(i) = w[clamp](i+2) where i in 0:M-2", "w(i + 2)"),
    "always": ("y(j) = j >= 0 ? w(j) : 1.0", "w(j)"),
    "never": ("y(j) = j < 0 ? 1.0 : w(j)", "w(j)"),
    "an end alone": ("y(j) = w[clamp](j-1) where j in 0:M", "int32(j) - 1 >= 0 ? w(j - 1) : w(0)"),
    "a quotient": ("y(j) = w[clamp]((j+1)/2-1) where j in 0:2*M", "j - 1 >= 0 ? w((j + 1)/2 - 1) : w(0)"),
    "a let": (
        "y(j) = w[clamp](near) + w[clamp](near+1) where j in 0:2*M-2, near = (j+1)/2-1",
        "(j - 1 >= 0 ? w((j + 1)/2 - 1) : w(0)) + w((j + 1)/2)",
    ),
    "by the condition around it": ("y(j) = j > 3 ? (j > 2 ? w(j) : 1.0) : 2.0", "int32(j) > 3 ? w(j) : 2.0"),
    "by the other branch": ("y(j) = j > 3 ? 2.0 : (j > 4 ? 1.0 : w(j))", "int32(j) > 3 ? 2.0 : w(j)"),
    "by another conjunct": (
        "y(j) = j > 3 && j > 2 ? w(j) : 2.0",
        "int32(j) > 3 ? w(j) : 2.0",
    ),
    "by another disjunct": ("y(j) = j > 3 || j <= 4 ? w(j) : 2.0", "w(j)"),
    "a negation": ("y(j) = !(j < 0) ? w(j) : 2.0", "w(j)"),
    "by a condition of the domain": (
        "y(j) +=! (j >= k ? w(k) : 1.0) where k <= j, j in 0:M, k in 0:M",
        "w(k)",
    ),
    "an extremum": ("y(j) = w(min(max(j-2,0),j)) where j in 0:M", "w(max(j - 2, 0))"),
    "both branches of a select": ("y(j) = select(j >= 0, w(j), w(M-1-j))", "w(j)"),
}


@pytest.mark.parametrize("sizes", [SIZES, {}], ids=["fixed", "symbolic"])
@pytest.mark.parametrize("name", DECIDED)
def test_conditions_after_the_pass(name: str, sizes: dict[str, int]) -> None:
    statement, expected = DECIDED[name]
    assert decided(statement, sizes) == expected


LEFT = {
    "as data say": "y(i) = at(i) >= 0 ? w(0) : 1.0",
    "both happen": "y(j) = j % 2 == 0 ? w(j) : 1.0",
    "it may wrap": "y(j) = j * 2000000000 >= 0 ? w(j) : 1.0",
    "what is read decides": "y(i) = w(at(i)) > 0.0 ? w(0) : 1.0",
}


@pytest.mark.parametrize("name", LEFT)
def test_conditions_that_stay(name: str) -> None:
    before = program(LEFT[name], SIZES)
    assert decide(before) == before


@pytest.mark.filterwarnings("ignore::tc.errors.DataDependentAccess")
def test_a_select_keeps_a_read_that_is_checked() -> None:
    """`select` reads both; an index that is out of range ends the call whatever the condition says."""
    source = "def f(float(N) w, int(N) at) -> (y) { y(i) = select(i >= 0, 1.0, w(at(i))) }"
    kernel = tc.compile(source, backend="cpu")
    with pytest.raises(tc.Error):
        kernel(np.ones(3, np.float32), np.array([0, 7, 1], np.int32))


@pytest.mark.share(6)
@pytest.mark.parametrize("mode", ["clamp", "wrap", "symmetric", "reflect", "zero"])
@pytest.mark.parametrize("n", [2, 37])
def test_resizing_with_each_boundary(mode: str, n: int) -> None:
    source = f"""def f(float(H,W) x) -> (y) {{
      y(h,w) = (1 - fy) * x[{mode}](top,left) + fy * x[{mode}](top+1,left+1)
        where h in 0:2*H, w in 0:3*W, top = (h+1)/2 - 1, left = (w+1)/3 - 1, fy = h - 2.0 * top
    }}"""
    x = np.random.default_rng(n).integers(-4, 5, (n, n + 3)).astype(np.float32)
    try:
        expected = tc.interpret(source, x)
    except tc.Error as error:
        pytest.skip(str(error).splitlines()[0])
    np.testing.assert_array_equal(tc.compile(source, backend="cpu")(x), expected)
