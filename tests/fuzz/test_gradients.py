"""Random gradients against finite differences (python -m fuzz.gradients)."""

from __future__ import annotations

from pathlib import Path

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


def test_the_gradient_of_a_gradient_is_checked() -> None:
    seen = gradients.Seen()
    program = Program("def f(double(N) A0) -> (T0) { T0(i) = A0(i) * A0(i) * A0(i) }", {"N": 3}, "small", 1)
    gradients._examine(program, seen, "reference", True, True, None)
    assert (seen.right, seen.second) == (1, {"right": 1})
    linear = Program("def f(double(N) A0) -> (T0) { T0 +=! A0(i) }", {"N": 3}, "small", 1)
    gradients._examine(linear, seen, "reference", True, True, None)
    assert (seen.right, seen.second) == (2, {"right": 1, "constant": 1})


def test_a_run_goes_on_and_what_it_kept_is_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tc.autodiff import derivatives

    file = tmp_path / "wrong.jsonl"
    bodies = ["T0(i) = tanh(A0(i))", "T0(i) = sin(A0(i)) * s", "T0(i) = tanh(A0(i)) * s"]
    seen = gradients.Seen()
    with monkeypatch.context() as patch:
        patch.setitem(derivatives.DERIVATIVES, "tanh", lambda args, y, k, g: g)
        for body in bodies:
            text = f"def f(double(N) A0, double s) -> (T0) {{ {body} }}"
            program = Program(text, {"N": 3}, "small", 0, {"s": 0.5})
            gradients._examine(program, seen, "reference", True, False, file)
        assert (seen.right, seen.wrong) == (1, 2) and len(file.read_text().splitlines()) == 2
        again = gradients.replay(file, "reference", True)
        assert (again.right, again.wrong) == (0, 2) and capsys.readouterr().out.count("wanted") == 2
    assert str(gradients.replay(file, "reference", True)).endswith("0 wrong")


def test_runs_are_added_up() -> None:
    seen, other = gradients.Seen(), gradients.Seen()
    for kind in ("right", "kink", "constant", "wrong", "invalid TC0601", "refused TC0241"):
        other.add(kind, is_complex=True)
    seen.include(other)
    seen.include(other)
    assert (seen.right, seen.complex, seen.kinks, seen.constant, seen.wrong) == (2, 2, 2, 2, 2)
    assert seen.invalid == {"TC0601": 2} and seen.refused == {"TC0241": 2}


@pytest.mark.slow
def test_what_is_left_of_a_sum_that_cancels_is_not_wrong() -> None:
    body = "T0(i) max=! (A0(i,j,i) + A0(i,i,i+i)) * (A0(i,i,i) * x) where x = A0(i,j,i) - A0(i,i,j)"
    program = Program(f"def f(double(K,M,P) A0) -> (T0) {{ {body} }}", {"K": 1, "M": 1, "P": 1}, "small", 14)
    seen = gradients.Seen()
    gradients._examine(program, seen, "reference", True, True, None)
    assert (seen.right, seen.second) == (1, {"right": 1})
