"""`python -m tc run` on a reproducer: what it prints, flags beside it, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.programs import MM

CASE: dict[str, Any] = {
    "reproducer": 1,
    "source": MM,
    "entry": "mm",
    "backend": "reference",
    "options": {"strict": True},
    "checks": "safe",
    "dynamic": {},
    "scalars": {},
    "dtypes": {"A": "float32", "B": "float32"},
    "given": [],
    "sizes": {"M": 3, "K": 4, "N": 5},
    "error": "ZeroDivisionError: division by zero",
    "versions": {},
    "traceback": [],
}


def write(**members: Any) -> None:
    Path("case.json").write_text(json.dumps({k: v for k, v in {**CASE, **members}.items() if v is not ...}))


def test_it_runs_and_agrees(run: Any) -> None:
    write()
    r = run("run", "case.json")
    assert r.code == 0 and r.err == ""
    assert r.out.startswith("C: float32(3, 5), [") and " on reference\noracle: agrees" in r.out
    assert r.out.endswith("no longer fails: ZeroDivisionError: division by zero\n")
    r = run("run", "case.json", "--json")
    assert r.code == 0 and r.json["ok"] and r.json["agrees"] and r.json["results"]["C"]["shape"] == [3, 5]
    assert r.json["failed"] == CASE["error"] and r.json["notes"] == []
    assert run("run", "-", stdin=Path("case.json").read_bytes()).code == 0


def test_flags_say_otherwise(run: Any) -> None:
    write()
    assert "C: float32(2, 5)" in run("run", "case.json", "--size", "M=2").out
    r = run("run", "case.json", "--backend", "cpu")  # whose options are not those of the reproducer's backend
    assert r.code == 0 and " on cpu\n" in r.out
    write(dynamic={"M": 64})
    r = run("run", "case.json", "--backend", "halide")
    assert r.code == 0 and " on halide\n" in r.out
    assert run("run", "case.json", "--dynamic", "N=32").code == 0
    r = run("run", "case.json", "--option", "strct=true")
    assert r.code == 1 and "error[TC0511]: there is no option 'strct'" in r.err


def test_what_is_given_and_in_which_types(run: Any) -> None:
    source = "def f(float(N) A, int(L) I) -> (s, C) { s += A(i) C(l) = A(I(l)) }"
    members: dict[str, Any] = {"source": source, "entry": "f", "sizes": {"N": 6, "L": 4}}
    write(**members, given=["s"], dtypes={"A": "float32", "I": "uint8"})
    given = run("run", "case.json", "--json").json
    assert given["ok"] and given["agrees"]
    write(**members, dtypes={"A": "float32", "I": "uint8"})
    assert given["results"]["s"] != run("run", "case.json", "--json").json["results"]["s"]


def test_a_result_that_is_wrong(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tc import api

    honest = api.interpret
    monkeypatch.setattr(api, "interpret", lambda *a, **k: honest(*a, **k) + 1)
    write()
    r = run("run", "case.json")
    assert r.code == 1 and "oracle: DISAGREES" in r.out and "no longer fails" not in r.out
    assert run("run", "case.json", "--json").json["ok"] is False


def test_it_is_compiled_and_verified(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No kernel that lies on disk may stand in for the compile that failed."""
    import os

    from tc import kernel

    monkeypatch.setenv("TC_VERIFY", "0")
    monkeypatch.setenv("TC_CACHE_DIR", str(tmp_path / "kernels"))
    write(backend="cpu", options={})
    for _ in range(2):
        kernel.CACHE.clear()
        assert run("run", "case.json").code == 0
        assert not any(found.restored for found in kernel.CACHE._values.values())
    assert os.environ["TC_VERIFY"] == "0"


def test_it_was_another_version(run: Any) -> None:
    write(versions={"llvmlite": "0.1", "python": "2.7", "nothing": "1"})
    r = run("run", "case.json")
    assert r.code == 0
    notes = r.err.splitlines()
    assert len(notes) == 2 and notes[0].startswith("note: it was llvmlite 0.1, now ")
    assert notes[1].startswith("note: it was python 2.7, now 3.")


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"reproducer": ...}, "it has no member 'reproducer'"),
        ({"reproducer": 2}, "its format is 2, and this version of tc reads 1"),
        ({"reproducer": None}, "its format is None, and this version of tc reads 1"),
        ({"source": ...}, "it has no member 'source'"),
        ({"source": 3}, "its 'source' is not text"),
        ({"options": [1]}, "its 'options' is not an object"),
        ({"sizes": {"M": "3"}}, "its 'sizes' is not an object of integers"),
        ({"sizes": {"M": True}}, "its 'sizes' is not an object of integers"),
        ({"scalars": [3]}, "its 'scalars' is not an object of integers"),
        ({"dtypes": {"A": "float"}}, "its 'dtypes' is not an object of types"),
        ({"dtypes": {"A": []}}, "its 'dtypes' is not an object of types"),
        ({"given": "C"}, "its 'given' is not a list of names"),
        ({"dynamic": ["M"]}, "its 'dynamic' is not an object of integers"),
        ({"command": ["check", "a b.tc"], "source": ""}, "it holds a command line, and no program"),
    ],
    ids=str,
)
def test_files_that_are_none(run: Any, members: dict[str, Any], problem: str) -> None:
    write(**members)
    r = run("run", "case.json")
    assert r.code == 1 and r.out == ""
    assert r.err.startswith(f"error[TC0518]: case.json is not a reproducer: {problem}\n"), r.err
    assert "= help: " in r.err
    if "command" in members:
        assert "run that: python -m tc check 'a b.tc'" in r.err


@pytest.mark.parametrize("text", ["{", '{"source": }', "{" * 100_000, "[" * 10 + "{", '{"reproducer": 1'])
def test_files_that_are_no_json(run: Any, text: str) -> None:
    Path("case.json").write_text(text)
    r = run("run", "case.json")
    assert r.code == 1 and r.out == ""
    if text.startswith("{"):
        assert r.err.startswith("error[TC0518]: case.json is not a reproducer: not JSON: "), r.err
    else:
        assert r.err.startswith("error[TC010"), r.err


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"sizes": {"M": 3}}, "TC0513"),
        ({"sizes": {"M": 3, "K": 4, "N": -5}}, "TC0515"),
        ({"sizes": {"M": 3, "K": 4, "N": 5, "Q": 1}}, "TC0513"),
        ({"entry": "mn"}, "TC0216"),
        ({"backend": "refrence"}, "TC0801"),
        ({"options": {"tile": [8]}}, "TC0809"),
        ({"options": {"tile": "x"}}, "TC0511"),
        ({"checks": "some"}, "TC0511"),
        ({"dynamic": {"Q": 4}}, "TC0513"),
        ({"source": "def mm("}, "TC0103"),
    ],
    ids=str,
)
def test_what_it_says_is_wrong(run: Any, members: dict[str, Any], code: str) -> None:
    write(**members)
    r = run("run", "case.json")
    assert r.code == 1 and r.err.startswith(f"error[{code}]: "), r.err
