"""Subscripts with so many `min` and `max` that their cases are too many, which adjoints scatter at."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.autodiff import fibres

SOURCES = {
    "clamp": "def f(double(N,N) x, double(K,K) w) -> (y) {"
    " y(i,j) +=! x[clamp](i+k-1, j+l-1) * w(k,l) where i in 0:N, j in 0:N }",
    "reflect": "def f(double(N,N) x, double(K,K) w) -> (y) {"
    " y(i,j) +=! x[reflect](i+k-1, j+l-1) * w(k,l) where i in 0:N, j in 0:N }",
    "an index": "def f(double(N,N) x, double(K,N) w) -> (y) {"
    " y(i,j) = x(i, min(max(j-2, 0), i)) * x(min(i,j), abs(i-j)) * w(i,j) where i in 0:K }",
}


def _values(source: str, backend: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    x, w = rng.uniform(0.5, 1.5, (5, 5)), rng.uniform(0.5, 1.5, (3, 5 if "w(i,j)" in source else 3))
    y = np.asarray(tc.compile(source, "reference")(x, w))
    return [np.asarray(a) for a in tc.compile(tc.grad(source), backend)(x, w, rng.uniform(0.5, 1.5, y.shape))]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", SOURCES)
def test_scatters_and_gathers_agree(name: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gathered, gathers = _values(SOURCES[name], "reference"), tc.grad(SOURCES[name])
    monkeypatch.setattr(fibres, "MOST_CASES", 1)
    assert tc.grad(SOURCES[name]) != gathers
    for a, b in zip(gathered, _values(SOURCES[name], backend), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_cases_are_not_counted_out() -> None:
    """Twelve extremes in subscripts of which every case is another have 2^12."""
    variables = [f"v{n}" for n in range(6)]
    subscripts = ", ".join(f"min(max({v}-2, 0), i)" for v in variables)
    ranges = ", ".join(f"{v} in 0:4" for v in variables)
    dims = ",".join("N" * len(variables))
    source = f"def f(double({dims}) x) -> (y) {{ y(i) +=! x({subscripts}) where i in 0:2, {ranges} }}"
    assert tc.grad(source).count("+=") == 1
