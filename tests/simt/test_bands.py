"""Products of banded matrices, by conditions: threads keep their results in registers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tc
from tests.simt import shim as simt
from tests.simt.mapped import prepared
from tests.simt.mapped_form import register_subscripts

CONDITIONS = {
    "band": "k <= i + 3, k >= i - 3",
    "window": "k <= i, k > i - 3",
    "diagonal": "k == i",
    "every other": "2 * k == i",
    "two thirds": "3 * k <= 2 * i + 1, 3 * k >= 2 * i - 4",
    "corner": "k + i == 40",
}
FLOAT = "def f(float(N,K) A, float(K,M) B) -> (C) {{ C(i,j) +=! A(i,k) * B(k,j) where {} }}"
# With in/out results: those without a term are unchanged.
DOUBLE = """def f(double(N,K) A, double(K,M) B, double(N,M) D) -> (C) {{
  C(i,j) = D(i,j)
  C(i,j) += A(i,k) * B(k,j) where {}
}}"""


GIVEN = {"tile": (32, 32, 16), "threads": (8, 4)}
# Every sixth; all of them as slow tests.
TRIED = [
    pytest.param(n, t, o, id=f"{n}-{t[6:12].strip('(')}-{o}", marks=() if k % 6 == 0 else pytest.mark.slow)
    for k, (n, t, o) in enumerate(itertools.product(CONDITIONS, (FLOAT, DOUBLE), ({}, GIVEN)))
]


def source(name: str, text: str = FLOAT) -> str:
    return text.format(CONDITIONS[name])


@pytest.mark.slow
@pytest.mark.share(18)
@pytest.mark.parametrize("name", CONDITIONS)
def test_banded_products_keep_results_in_registers(name: str) -> None:
    """No mapping is rejected because of dynamic subscripts of register arrays."""
    kernel = tc.compile(source(name), "cuda", options={"isa": "sm_90"})
    one = kernel.specialize(N=1000, K=1000, M=333)
    assert "rejected" not in one.inspect("choice")
    assert ": registers of each thread" in one.inspect("choice")
    nest = one.compiled.nest
    assert all(register_subscripts(nest.body, nest, frozenset()))


@pytest.mark.share(12)
@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize(("name", "text", "options"), TRIED)
def test_banded_products_are_exact(name: str, text: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    kernel = tc.compile(source(name, text), "cuda", options=options)
    shapes = {"A": (45, 41), "B": (41, 39), "D": (45, 39)}
    kind = np.float32 if text is FLOAT else np.float64
    given = {p.name: rng.integers(-3, 4, shapes[p.name]).astype(kind) for p in kernel.front.checked.params}
    wanted = tc.interpret(source(name, text), **given)
    result = prepared(kernel, given).run()
    assert not result.found, simt.report(result.found)
    np.testing.assert_array_equal(result.values["C"], wanted)
    other = tc.compile(source(name, text), "opencl", options=options)
    np.testing.assert_array_equal(other(**given), wanted)
