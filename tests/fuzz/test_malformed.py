"""A short share of the malformed texts of `python -m fuzz`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import tc
from fuzz import malformed

_COMMON = settings(
    deadline=None,
    suppress_health_check=list[Any](HealthCheck),
    database=None,
    derandomize=True,
    print_blob=True,
)


@given(text=malformed.mutants())
@settings(_COMMON, max_examples=400)
def test_mutants(text: str) -> None:
    malformed.attempt(text)


@given(text=malformed.texts())
@settings(_COMMON, max_examples=400)
def test_texts(text: str) -> None:
    malformed.attempt(text)


@pytest.mark.parametrize("times", [100, 10_000, 100_000])
@pytest.mark.parametrize("pair", ["()", "-", "!", "{}", "[]", "a(,)", "?:", "+"])
def test_nests(pair: str, times: int) -> None:
    """Depth is refused as such, not by the stack of the process."""
    middle = len(pair) // 2 or 1
    text = f"def f(float(N) A) -> (B) {{ B(i) = {pair[:middle] * times} A(i) {pair[middle:] * times} }}"
    malformed.attempt(text)


def test_what_is_not_a_refusal_comes_out() -> None:
    def broken(text: str) -> None:
        raise RecursionError(text)

    with pytest.raises(RecursionError):
        malformed.attempt("def", broken)

    def internal(text: str) -> None:
        raise tc.InternalError(text)

    with pytest.raises(tc.InternalError):
        malformed.attempt("def", internal)


def test_slow_texts_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malformed, "SECONDS", -1.0)
    with pytest.raises(malformed.Slow):
        malformed.attempt("def")
