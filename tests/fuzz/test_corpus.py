"""Every failure that was ever found is found no more."""

from __future__ import annotations

import pytest

from fuzz.corpus import Case, cases, loads

CASES = dict(cases())


@pytest.mark.share(36)
@pytest.mark.parametrize("name", CASES)
def test_the_corpus(name: str) -> None:
    assert CASES[name].found, "say what was wrong"
    CASES[name].replay()


def test_cases_come_back_from_their_files() -> None:
    for case in CASES.values():
        assert loads(case.dumps()) == case


def test_what_is_not_expected_is_told() -> None:
    with pytest.raises(AssertionError, match="expected program, found TC"):
        Case("program", text="def").replay()
    with pytest.raises(TypeError):
        loads('{"expected": "agree", "unknown": 1}')
