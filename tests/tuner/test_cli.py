"""`python -m tc tune`: a search, the records, and the report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import run
from tests.tuner.conftest import ADD

_ = run  # the fixture

SIZE = ["--size", "N=3"]
FAULTY = ["--backend", "faulty", "--strategy", "given"]


@pytest.fixture
def files(faulty: Any, run: Any) -> Any:
    Path("add.tc").write_text(ADD)
    Path("start.json").write_text('[{"unroll": 8}, {"unroll": 1}, {"unroll": 16}]')
    faulty({1: "crash"})
    return run


def tuned(files: Any, *more: str) -> Any:
    return files("tune", "add.tc", *FAULTY, "--size", "N=64", "--start", "start.json", *more)


@pytest.mark.slow
def test_candidates_and_the_winner_are_printed(files: Any, tmp_path: Path) -> None:
    r = tuned(files)
    assert r.code == 0, r.err
    lines = r.out.splitlines()
    assert lines[0] == "add at N = 64 on faulty"
    assert re.fullmatch(r" +[\d.]+ us, predicted 1 cycles +tc\.Options\(unroll=8\)", lines[1]), lines[1]
    assert lines[4] == "    crash: killed by SIGSEGV, predicted 1 cycles              tc.Options(unroll=1)"
    assert lines[5].startswith("3 candidates in ") and lines[5].endswith(" s, 1 failed")
    assert re.match(r"best: tc\.Options\(unroll=8\), [12]\.\d\d times as fast, by rounds", lines[7]), lines[7]
    assert r.err == "", "progress is for terminals"

    shown = files("tune", "records")
    assert shown.code == 0
    assert re.fullmatch(
        r'[0-9a-f]{12}  add N=64  faulty [0-9a-f]{8}  5 records  [\d.]+ us, \{"unroll": 8\}\n', shown.out
    )
    best = files("tune", "records", "best", "--json")
    (program,) = best.json["programs"]
    assert program["best"] == {"unroll": 8} and program["failed"] == 1 and program["sizes"] == {"N": 64}

    exported = files("tune", "records", "export")
    assert [x["configuration"] for x in json.loads(exported.out)["results"]].count({"unroll": 1}) == 1

    other = tmp_path / "other"
    merged = files("tune", "records", "merge", str(tmp_path / "records"), "--records", str(other))
    assert merged.out == f"5 records added to {other}\n"
    assert (
        files("tune", "records", "merge", str(tmp_path / "records"), "--records", str(other), "--json").json[
            "added"
        ]
        == 0
    )

    with (other / "notes.jsonl").open("w") as f:
        f.write("a note\n")
    pruned = files("tune", "records", "prune", "--records", str(other), "--json")
    assert pruned.json["removed"] == 2, "the candidates that were slower, and the winner's first rounds"
    left = files("tune", "records", "best", "--records", str(other))
    assert '{"unroll": 8}' in left.out and left.out.endswith("skipped lines: 1 no records\n")
    assert (other / "notes.jsonl").read_text() == "a note\n"

    r = files("tune", "report", "--output", "page.html", "--png", "plots", "--json")
    assert r.code == 0 and len(r.json["files"]) == 4
    page = Path("page.html").read_text()
    assert page.count("data:image/png;base64,") == 3 and "http" not in page
    assert '<table id="winners">' in page and "killed by SIGSEGV" in page and "&quot;unroll&quot;: 8" in page
    for name in r.json["files"][1:]:
        assert Path(name).read_bytes().startswith(b"\x89PNG") and Path(name).stat().st_size > 4000


@pytest.mark.slow
def test_a_suite_and_json(files: Any) -> None:
    Path("suite").mkdir()
    Path("suite/a.tc").write_text("# sizes: N=8\n" + ADD)
    Path("suite/b.tc").write_text("# sizes: N=16,32\n" + ADD.replace("add", "plus"))
    r = files(
        "tune", "--suite", "suite", "--backend", "faulty", "--trials", "1", "--strategy", "model", "--json"
    )
    assert r.code == 0 and r.err == ""
    assert [(t["name"], t["sizes"]["N"]) for t in r.json["tuned"]] == [("add", 8), ("plus", 16), ("plus", 32)]
    assert all(
        {"options", "status", "us", "origin", "predicted", "problem"} == set(t["trials"][0])
        for t in r.json["tuned"]
    )


def test_tuned_options_serve_the_command_line(files: Any) -> None:
    assert tuned(files, "--json").json["tuned"][0]["best"] == {"unroll": 8}
    import tc

    kernel = tc.compile(ADD, "faulty")
    assert kernel.specialize(N=64).options == tc.Options(unroll=8)
    assert "from records" in kernel.notes[0]


BAD: dict[str, tuple[list[str], int, str]] = {
    "nothing": (["tune"], 1, "tune takes a file"),
    "two": (["tune", "add.tc", "add.tc"], 1, "tune takes a file"),
    "both": (["tune", "add.tc", "--suite", "x"], 1, "a file and --suite"),
    "no suite": (["tune", "--suite", "x"], 1, "no .tc file with sizes"),
    "file": (["tune", "absent.tc", "--size", "N=3"], 1, "absent.tc"),
    "size": (["tune", "add.tc", *FAULTY], 1, "no value for the size N"),
    "unknown size": (["tune", "add.tc", *FAULTY, "--size", "N=3", "--size", "Q=4"], 1, "has no size 'Q'"),
    "size twice": (["tune", "add.tc", "--size", "N=3", "--size", "N=4"], 1, "given twice"),
    "size word": (["tune", "add.tc", "--size", "N=3,x"], 1, "not an integer"),
    "budget": (["tune", "add.tc", "--size", "N=3", "--budget", "soon"], 1, "not a time"),
    "no budget": (
        ["tune", "add.tc", *FAULTY, "--size", "N=3", "--budget", "0"],
        1,
        "budget=0.0 is not valid",
    ),
    "trials": (["tune", "add.tc", "--size", "N=3", "--trials", "many"], 2, "--trials"),
    "strategy": (
        ["tune", "add.tc", "--size", "N=3", "--backend", "faulty", "--strategy", "luck"],
        1,
        "no strategy",
    ),
    "fix": (["tune", "add.tc", "--size", "N=3", "--fix", "unroll"], 1, "not of the form"),
    "fix json": (["tune", "add.tc", "--size", "N=3", "--fix", "unroll=x"], 1, "not JSON"),
    "start": (["tune", "add.tc", "--size", "N=3", "--start", "add.tc"], 1, "not JSON"),
    "start file": (["tune", "add.tc", "--size", "N=3", "--start", "absent"], 1, "absent"),
    "reference": (["tune", "mm.tc", "--backend", "reference", "--size", "M=2"], 1, "TC0"),
    "action": (["tune", "records", "bset"], 1, "did you mean 'best'"),
    "merge": (["tune", "records", "merge"], 1, "merge takes"),
    "merge what": (["tune", "records", "merge", "absent"], 1, "absent"),
    "report": (["tune", "report"], 1, "no records in"),
}


@pytest.mark.parametrize(("arguments", "code", "says"), BAD.values(), ids=BAD.keys())
def test_what_is_wrong_is_said(files: Any, arguments: list[str], code: int, says: str) -> None:
    r = files(*arguments)
    assert r.code == code and says in r.err, (r.code, r.err)


def test_minutes_and_hours() -> None:
    from tc.cli.tune import seconds

    assert [seconds(t) for t in ("90", "90s", "1.5m", "2h")] == [90, 90, 90, 7200]
