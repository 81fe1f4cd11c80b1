"""Integer scalars in bounds and subscripts: ranges wait for them, and take them exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tests.conformance.running import BACKENDS, run


@pytest.mark.share(36)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("p", [1, 2, 3, 8, 9])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("L(w) = X(w) where w in 0:H/P m(w) = 2*L(w)", lambda x, h, p: 2 * x[: h // p]),
        ("L(w) = X(w) where w in 0:H/P m(w) = L(w) + X(w%P)",
         lambda x, h, p: (x + x[np.arange(16) % p])[:h // p]),
        ("m(w) = X(w/P) where w in 0:H", lambda x, h, p: x[np.arange(h) // p]),
        ("m(w,q) = X(w*P+q) where w in 0:H/P, q in 0:P", lambda x, h, p: x[: h // p * p].reshape(h // p, p)),
        ("L(w) = X(w) where w in H%P:H/2+P m(w) = 2*L(w)", lambda x, h, p: 2 * x[h % p : h // 2 + p]),
    ],
)  # fmt: skip
def test_divided_sizes(body: str, expected: Any, p: int, backend: str) -> None:
    values = np.random.default_rng(0).random(16, np.float32)
    source = f"def f(float(N) X, float(H) Z, int P) -> (m) {{ {body} }}"
    found = run(backend, source, values, np.zeros(8, np.float32), p)
    np.testing.assert_allclose(found, expected(values, 8, p), rtol=1e-6)


def test_what_a_quotient_by_a_scalar_sizes_depends_on_it() -> None:
    kernel = tc.compile(
        "def f(float(N) X, float(H) Z, int P) -> (m) { L(w) = X(w) where w in 0:H/P m(w) = 2*L(w) }",
        "reference",
    )
    assert str(kernel.ranges["m"][0]) == "depends on P"
    assert kernel.ranges.at(N=16, H=9, P=2)["m"] == (tc.Range(0, 4),)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_divisor_that_is_zero_gives_zero(backend: str) -> None:
    source = "def f(float(N) X, float(H) Z, int P) -> (m) { m(w) = X(w) where w in 0:H/P }"
    assert run(backend, source, np.ones(16, np.float32), np.zeros(8, np.float32), 0).shape == (0,)
