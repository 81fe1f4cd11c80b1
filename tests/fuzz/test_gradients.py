"""Random gradients against finite differences (python -m fuzz.gradients)."""

from __future__ import annotations

import numpy as np
import pytest

from fuzz import gradients
from fuzz.strategies import Program


def test_random_gradients() -> None:
    seen = gradients.run(60, 11, "reference", progress=False, shrink=False)
    assert seen.right >= 15


def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from tc.autodiff import derivatives

    monkeypatch.setitem(derivatives.DERIVATIVES, "tanh", lambda args, y, k, g: g)
    program = Program("def f(double(N) A0) -> (T0) { T0(i) = tanh(A0(i)) }", {"N": 3}, "small", 0)
    with pytest.raises(gradients.WrongGradient, match="wanted"):
        gradients.check(program, "reference")


def test_a_kink_is_no_derivative() -> None:
    assert gradients._derivative(abs, 1.0) is None
    found = gradients._derivative(lambda t: 3 * np.sin(t), 3.0)
    assert found is not None and abs(found[0] - 3) <= found[1] < 1e-3
