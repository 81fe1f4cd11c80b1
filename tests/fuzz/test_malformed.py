"""A short share of the malformed texts of `python -m fuzz`."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import tc
from fuzz import malformed
from tests.share import examples


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        (malformed.sibling, 1000),
        (malformed.mutant, 1000),
        (malformed.soup, 300),
        (malformed.characters, 300),
        (malformed.bytes_, 300),
    ],
)
def test_texts(kind: Callable[[random.Random], str], count: int) -> None:
    rng = random.Random(20180213)
    for _ in range(examples(count)):
        malformed.attempt(kind(rng))


def test_siblings_are_programs_to_the_parser() -> None:
    """They are to reach what comes after it."""
    rng = random.Random(1)
    codes = [malformed.attempt(malformed.sibling(rng)) for _ in range(200)]
    assert sum(c is None or not c.startswith("TC01") for c in codes) > 100
    assert len(set(codes)) > 8


@pytest.mark.share(18)
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


def test_what_is_found_is_made_short() -> None:
    text = "def f(float(N) A) -> (B) { B(i) = A(i) + exp(A(i)) where i in 0:N }"
    found = malformed.shortened(text, lambda t: "exp" in t and "where" in t)
    assert found == "expwhere"
