"""`tc.interpret` of SaC."""

from __future__ import annotations

import numpy as np
import pytest

import tc


def test_an_expression() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = tc.interpret("{ [i,j] -> A[j,i] * 2f }", a, lang="sac")
    np.testing.assert_array_equal(found, 2 * a.T)
    assert found.dtype == np.float32


def test_by_name_and_several_results() -> None:
    source = "double[.], int f(double[.] v, int n) { return (v + n, n * n); }"
    v, n = tc.interpret(source, n=3, v=np.ones(2), lang="sac")
    np.testing.assert_array_equal(v, [4, 4])
    assert n == 9 and np.asarray(n).dtype == np.int32


def test_what_is_missing() -> None:
    with pytest.raises(tc.ArgumentError, match=r"expected 2 inputs \(A, B\), got 1") as caught:
        tc.interpret("A + B", np.ones(3), lang="sac")
    assert caught.value.code == "TC0550"
    with pytest.raises(tc.ArgumentError, match="not for SaC"):
        tc.interpret("A", np.ones(3), points=[[0]], lang="sac")
