"""Random gradients against finite differences (python -m fuzz.gradients)."""

from __future__ import annotations

import numpy as np
import pytest

from fuzz import gradients
from fuzz.strategies import Program
from tests.share import examples


def test_random_gradients() -> None:
    seen = gradients.run(examples(60, 6), 11, "reference", progress=False, shrink=False, kind="real")
    assert seen.right >= examples(15, 6)
    assert seen.refused.total() <= seen.right / 10


def test_random_gradients_of_complex_numbers() -> None:
    seen = gradients.run(examples(8, 4), 3, "reference", progress=False, shrink=False, kind="complex")
    assert seen.right >= examples(8, 4) - 1 and not seen.refused


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("T0(i) = A0(i) * A0(i)", "right"),
        ("T0(i) = A0(i) > A0(i) + 1 ? A0(i) : 2.0", "right"),
        ("T0(i) = lgamma(A0(i))", "right"),
        ("T0(i) = trigamma(A0(i))", "refused TC0241"),
        ("T0(i) = i where i in 0:N", "constant"),
        ("T0(i) = floor(2.5) where i in 0:N  T1(i) = A0(i) * T0(i)", "right"),  # of float32 one
        ("T0(i) = A0(j)", "invalid TC0225"),
        ("T0(i) = A0(i + 1) where i in 0:N", "invalid TC0601"),
    ],
)
def test_what_became_of_a_program(body: str, kind: str) -> None:
    program = Program(
        f"def f(double(N) A0) -> ({'T0, T1' if 'T1' in body else 'T0'}) {{ {body} }}", {"N": 3}, "small", 0
    )
    assert gradients.check(program, "reference") == kind
    seen = gradients.Seen()
    seen.add(kind)
    counts = {"right": seen.right, "constant": seen.constant}
    counts |= {"refused": seen.refused.total(), "invalid": seen.invalid.total()}
    assert counts == {n: int(kind.startswith(n)) for n in counts}


def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from tc.autodiff import derivatives

    monkeypatch.setitem(derivatives.DERIVATIVES, "tanh", lambda args, y, k, g: g)
    program = Program("def f(double(N) A0) -> (T0) { T0(i) = tanh(A0(i)) }", {"N": 3}, "small", 0)
    with pytest.raises(gradients.WrongGradient, match="wanted"):
        gradients.check(program, "reference")


def test_a_gradient_without_conjugates_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from tc.autodiff import derivatives

    program = Program("def f(cdouble(N) z) -> (y) { y(i) = z(i) * z(i) }", {"N": 3}, "small", 0)
    assert gradients.check(program, "reference") == "right"
    monkeypatch.setattr(derivatives, "conj", lambda e: e)
    with pytest.raises(gradients.WrongGradient, match="wanted"):
        gradients.check(program, "reference")


def test_a_kink_is_no_derivative() -> None:
    assert gradients._derivative(abs, 1.0) is None
    found = gradients._derivative(lambda t: 3 * np.sin(t), 3.0)
    assert found is not None and abs(found[0] - 3) <= found[1] < 1e-3
