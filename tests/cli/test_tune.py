"""`python -m tc tune`: every candidate with its prediction and its time, the fastest first."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tc
from tc import tuning
from tests.cli.programs import REFERENCE, SIZES

CPU = ["--backend", "cpu", "--candidates", "3", "--rounds", "1"]


def test_every_candidate_is_a_line_and_the_fastest_is_named(run: Any) -> None:
    r = run("tune", "mm.tc", *CPU, *SIZES)
    assert r.code == 0 and r.err == "", r.err
    *lines, best = r.out.splitlines()
    assert 2 <= len(lines) <= 4
    parts = [re.fullmatch(r" *([\d.]+) us  predicted +(\d*)  (tc\.Options\(.*\))", line) for line in lines]
    assert all(parts), r.out
    times = [float(p[1]) for p in parts if p]
    assert times == sorted(times)
    predictions = [p[2] for p in parts if p]
    assert predictions.count("") == 1, "the options given are one of the trials, without a prediction"
    assert parts[0] and best == f"best: {parts[0][3]}"


def test_json_has_what_is_printed_and_options_that_compile(run: Any) -> None:
    r = run("tune", "mm.tc", *CPU, *SIZES, "--json")
    assert r.code == 0 and r.err == ""
    assert set(r.json) == {"ok", "trials", "best", "diagnostics"}
    assert all(set(t) == {"options", "predicted", "us", "problem"} for t in r.json["trials"])
    assert r.json["best"] == r.json["trials"][0]["options"]
    source = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    for t in r.json["trials"]:
        options = eval(t["options"], {"tc": tc})
        tc.compile(source, "cpu", options=options, sizes={"M": 3, "K": 4, "N": 5})


def test_results_that_start_from_the_caller_and_scalars(run: Any) -> None:
    sizes = ["--size", "N=9", "--size", "M=8", "--size", "K=7"]
    r = run("tune", "sgemm.tc", *CPU, *sizes, "--scalar", "a=2", "--scalar", "b=0.5", "--json")
    assert r.code == 0, r.err
    assert all(t["us"] > 0 and t["problem"] == "" for t in r.json["trials"])


def test_a_candidate_that_is_wrong_is_last_and_says_so(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def disagrees(*args: Any) -> str:
        seen.append(len(seen))
        return "C differs at (1, 2)" if len(seen) == 2 else ""

    monkeypatch.setattr(tuning, "_disagrees", disagrees)
    r = run("tune", "mm.tc", *CPU, *SIZES)
    assert r.code == 0 and len(seen) > 2
    *lines, best = r.out.splitlines()
    wrong = lines[-1]
    assert wrong.startswith("    C differs at (1, 2)  predicted ") and " us " not in wrong
    assert not best.endswith(wrong.split("  ")[-1])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["tune", "mm.tc", *CPU, "--size", "M=3", "--size", "K=4"], 1, "no value for the size N"),
        (["tune", "mm.tc", *REFERENCE, *SIZES], 1, "TC0812"),
        (["tune", "mm.tc", *CPU, *SIZES, "--size", "Q=4"], 1, "has no size 'Q'"),
        (["tune", "absent.tc", *CPU, *SIZES], 1, "absent.tc"),
        (["tune", "mm.tc", *SIZES, "--candidates", "many"], 2, "--candidates"),
    ],
    ids=["size", "backend", "unknown", "file", "count"],
)
def test_what_is_wrong_is_said(run: Any, arguments: list[str], code: int, says: str) -> None:
    r = run(*arguments)
    assert r.code == code and says in r.err, (r.code, r.err)
