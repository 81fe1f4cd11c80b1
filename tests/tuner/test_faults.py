"""A search of which candidates crash, hang, leak or are wrong finds the right winner and keeps its budget."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import tc
from tc.options import Options
from tc.tuned.records import Records
from tests.tuner.conftest import ADD

KINDS = {
    1: ("crash", "crash", "killed by SIGSEGV"),
    2: ("hang", "hang", "takes longer than it may"),
    4: ("leak", "oom", "takes more memory than it may"),
    16: ("late crash", "crash", "killed by SIGSEGV"),  # faster than the default: called often
    32: ("exit", "crash", "ended with exit code 3"),
    64: ("slightly wrong", "wrong", "differs from the default kernel's"),
    128: ("crash in compile", "crash", "killed by SIGABRT"),
    256: ("hang in compile", "hang", "takes longer than it may"),
    512: ("bug", "refused", "ZeroDivisionError: a bug of the compiler"),
    1024: ("wrong", "wrong", "differs from the"),
}
SETTINGS: dict[str, Any] = {
    "sizes": {"N": 1000},
    "backend": "faulty",
    "run_seconds": 1.0,
    "compile_seconds": 1.0,
    "memory_mib": 200,
    "prune": None,
}


def starts(*unrolls: int) -> list[Options]:
    return [Options(unroll=n) for n in unrolls]


def test_every_kind_of_failure_is_recorded_as_such_and_the_right_one_wins(
    faulty: Any, tmp_path: Path
) -> None:
    faulty({n: kind for n, (kind, _, _) in KINDS.items()})
    order = starts(16, *KINDS, 8)  # options that crash late were fast before, if there were no other
    tuned = tc.tune(ADD, strategy="given", start=order, budget=None, **SETTINGS)
    assert tuned.best == Options(unroll=8) and tuned.gain > 1.5, tuned.summary()
    verdicts = {t.options.unroll: (t.status, t.problem) for t in tuned.trials}
    for n, (_, status, problem) in KINDS.items():
        assert verdicts[n][0] == status and problem in verdicts[n][1], (n, verdicts[n])
    assert len(tuned.failed) == len(KINDS)
    found = Records(tmp_path / "records").scan()
    assert (
        not found.foreign and len(found.records) == len(KINDS) + 3
    )  # the default, the winner, and its last rounds
    # None of them is tried again.
    faulty({})
    again = tc.tune(ADD, strategy="given", start=order, budget=None, **SETTINGS)
    assert again.best == Options(unroll=8)
    assert {t.options.unroll for t in again.failed} == {*KINDS}
    anew = Records(tmp_path / "records").scan().records[len(found.records) :]
    assert {r.options.get("unroll") for r in anew} == {None, 8}
    # Unless that is asked for.
    fresh = tc.tune(ADD, strategy="given", start=starts(1, 8), budget=None, resume=False, **SETTINGS)
    assert not fresh.failed


@pytest.mark.share(12)
@pytest.mark.parametrize("strategy", ["combined", "random"])
def test_half_of_them_fail_and_the_budget_is_kept(faulty: Any, strategy: str) -> None:
    faults = {64: "hang", 1: "crash", 16: "wrong", 2: "leak"}
    faulty(faults)
    start = time.monotonic()
    budget = 4.0
    more = {**SETTINGS, "start": [Options(unroll=2), Options(unroll=8)]}
    tuned = tc.tune(ADD, strategy=strategy, budget=budget, jobs=2, **more)
    spent = time.monotonic() - start
    # 5 % on a quiet machine; here it is enough that no hanging candidate keeps the search.
    assert max(tuned.seconds, spent) < 2 * budget
    assert tuned.failed and tuned.best.unroll not in faults
    if strategy == "combined":
        assert tuned.best.unroll == 8 and tuned.gain > 1.5, tuned.summary()


def test_a_default_that_is_wrong_is_said_and_nothing_is_tuned(faulty: Any, monkeypatch: Any) -> None:
    import json
    import os

    path = Path(os.environ["FAULTY_PLAN"])
    path.write_text(json.dumps({"base_us": 300, "faults": {"None": "wrong"}}))
    tuned = tc.tune(ADD, budget=3.0, **SETTINGS)
    assert tuned.best == tuned.default == Options()
    (trial,) = tuned.trials
    assert trial.status == "wrong" and "differs from the oracle" in trial.problem
    assert "the default was not measured" in tuned.summary()


@pytest.mark.parametrize("order", [(8, 16), (16, 8)])
def test_a_winner_that_fails_in_a_second_process_is_not_the_winner(
    faulty: Any, order: tuple[int, ...]
) -> None:
    """The next best is, in whatever order they were tried."""
    faulty({8: "crash in a second process"})
    tuned = tc.tune(ADD, strategy="given", start=starts(*order), budget=None, **SETTINGS)
    assert tuned.best == Options(unroll=16) and tuned.gain == pytest.approx(2.0), tuned.summary()
    assert [t.status for t in tuned.trials] == ["ok"] * 3  # each was right, and measured, in the search


@pytest.mark.slow
def test_two_hundred_candidates_of_which_half_fail(faulty: Any, tmp_path: Path) -> None:
    faulty({1: "crash", 16: "wrong", 64: "hang", 32: "leak"}, base_us=200)
    start = time.monotonic()
    budget = 120.0
    tuned = tc.tune(ADD, strategy="random", trials=200, budget=budget, jobs=2, **SETTINGS)
    assert time.monotonic() - start < 2 * budget
    assert tuned.best.unroll == 8 and tuned.gain > 1.5, tuned.summary()
    assert len(tuned.trials) == 201 and 70 <= len(tuned.failed) <= 130
    found = Records(tmp_path / "records").scan()
    assert not found.foreign and len({r.to_line() for r in found.records}) == 202
