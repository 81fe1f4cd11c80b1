"""Sums that are prefixes without their factors are multiplied by them once, behind the sum."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.errors import Source
from tc.ir.printer import text
from tc.ir.specialize import specialize
from tc.pipeline import front as pipeline
from tc.transforms.program.prefix_factors import multiply_after

INPUTS = "float(N) x, float(N) w, float(N) v, float(N,N) A, float(N,C) B, float a, int(N) p, int(N) q"


def stages(statement: str, n: int = 64, width: int = 16) -> list[str]:
    """The values of the stages of a program of one statement, the pass run on it, and their conditions."""
    source = f"def f({INPUTS}) -> (y) {{ {statement} }}"
    program = pipeline.build(pipeline.front(Source(source)), pipeline.Variant()).program
    found, _ = multiply_after(specialize(program, {"N": n, "C": 3}), lambda _: width, {})
    return [" if ".join(map(text, (s.value, *s.domain.conditions))) for s in found.stages]


@pytest.mark.parametrize(
    ("statement", "total", "result"),
    [
        ("y(d) +=! x(k) * w(d) where k <= d", "x(k) if k <= d", "y(d) * w(d) if d >= 0"),
        ("y(d) +=! w(d) * x(k) * v(d) where k <= d", "x(k) if k <= d", "y(d) * w(d) * v(d) if d >= 0"),
        ("y(d) +=! x(k) / w(d) where k < d", "x(k) if k < d", "y(d) / w(d) if d - 1 >= 0"),
        ("y(d) +=! x(k) * (w(d) + 1) / v(d) where k > d", "x(k) if k > d",
         "y(d) * (w(d) + 1.0) / v(d) if d + 1 <= 63"),
        ("y(d) +=! a * x(k) * w(d) where k <= d", "a * x(k) if k <= d", "y(d) * w(d) if d >= 0"),
        ("y(d) +=! p(k) * q(d) where k <= d", "p(k) if k <= d", "y(d) * q(d) if d >= 0"),
        ("y(d) +=! B(k,c) * w(d) where k <= d", "B(k, c) if k <= d", "y(d) * w(d) if d >= 0"),
        ("y(d) +=! e * w(d) where e = x(k), k <= d", "x(k) if k <= d", "y(d) * w(d) if d >= 0"),
        ("y(d) +=! x(k) * e where e = w(d) + 1, k <= d", "x(k) if k <= d", "y(d) * (w(d) + 1.0) if d >= 0"),
    ],
)  # fmt: skip
def test_factors_that_go_behind_the_sum(statement: str, total: str, result: str) -> None:
    assert stages(statement)[1:] == [total, result]


@pytest.mark.parametrize(
    "statement",
    [
        "y(d) +=! x(k) * w(k) where k <= d, d in 0:N",  # a prefix as it is
        "y(d) +=! x(k) * a where k <= d, k in 0:N, d in 0:N",
        "y(d) +=! A(k,d) * w(d) where k <= d",  # no prefix without the factor
        "y(d) +=! (x(k) + v(d)) * w(d) where k <= d",
        "y(d) max=! x(k) * w(d) where k <= d",  # the factor may be negative
        "y(d) *=! x(k) * w(d) where k <= d",
        "y(d) +=! p(k) / (1 + d) where k <= d, k in 0:N, d in 0:N",  # rounds towards minus infinity each time
        "y(d) +=! x(k) * w(d) where k <= d, k * c >= 2, c in 0:C",  # may have no instances for other reasons
        "y(d) +=! x(k) * w(d) where k in 0:N, d in 0:N",  # costs nothing beside the addition
    ],
)
def test_factors_that_stay(statement: str) -> None:
    assert len(stages(statement)) == 2


def test_short_prefixes_keep_their_factors() -> None:
    assert len(stages("y(d) +=! x(k) * w(d) where k <= d", n=32)) == 2


KEPT = {"k <= d": np.less_equal, "k < d": np.less, "k >= d": np.greater_equal, "k > d": np.greater}


@pytest.mark.share(8)
@pytest.mark.parametrize(
    ("type", "condition", "backend"),
    [
        *(("float", condition, backend) for condition in KEPT for backend in ("reference", "cpu")),
        ("float", "k < d", "opencl"),
        ("double", "k > d", "cpu"),
        ("int", "k <= d", "cpu"),
        ("int", "k > d", "opencl"),
    ],
)
def test_results(type: str, condition: str, backend: str) -> None:
    """A sum without instances is 0 beside a factor that is no number, too."""
    source = f"""def f({type}(N,K) x, {type}(K) w) -> (y) {{
      y(n,d) +=! x(n,k) * w(d) where {condition}, n in 0:N, d in 0:K, k in 0:K
    }}"""
    rng = np.random.default_rng(0)
    dtype = {"float": np.float32, "double": np.float64, "int": np.int32}[type]
    x, w = (rng.integers(-9, 10, shape).astype(dtype) for shape in ((3, 300), (300,)))
    d = np.arange(300)
    within = KEPT[condition](d[:, None], d)
    want = (x.astype(np.float64) @ within) * w
    if type != "int":
        w[~within.any(axis=0)] = np.inf
    np.testing.assert_array_equal(tc.compile(source, backend)(x, w), want.astype(dtype))


def test_a_long_row_is_a_prefix() -> None:
    source = "def f(float(N) x, float(N) w) -> (y) { y(d) +=! x(k) * w(d) where k <= d, k in 0:N }"
    kernel = tc.compile(source, "cpu")
    kernel(np.ones(5000, np.float32), np.ones(5000, np.float32))
    assert "y_sums" in kernel.inspect("loops", N=5000)
    assert kernel.notes == ("y is multiplied or divided after its sum, which rounds once",)
