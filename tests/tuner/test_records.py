"""Records: lines that any number of processes append, and that any file may hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tc.options import Options
from tc.tuned.queries import export, pooled, winner
from tc.tuned.records import OtherVersionError, Record, Records, read_line

PROGRAM = "ab" * 32


def record(**more: Any) -> Record:
    given: dict[str, Any] = {"program": PROGRAM, "extents": (4, 5), "backend": "cpu", "options": {}}
    return Record(**{**given, "status": "ok", "ns": (100, 110, 90), "sizes": {"M": 4, "N": 5}, **more})


def test_a_record_is_a_line_and_comes_back() -> None:
    r = record(
        options={"tile": [8, 4]}, ref_ns=(200, 210, 190), ref={}, predicted=3.5, dynamic=("0",), time=1.5
    )
    line = r.to_line()
    assert "\n" not in line and json.loads(line)["v"] == 1
    again = read_line(line)
    assert again == r and again.to_line() == line
    assert again.chosen() == Options(tile=(8, 4))
    assert again.median == 100 and again.ratio == 0.5


BROKEN: dict[str, str] = {
    "torn": record().to_line()[:-9],
    "text": "a note that somebody made",
    "list": "[1, 2]",
    "number": "3",
    "deep": "[" * 100_000,
    "no version": json.dumps({"program": PROGRAM}),
    "incomplete": json.dumps({"v": 1, "program": PROGRAM}),
    "status": record().to_line().replace('"ok"', '"splendid"'),
    "times": record().to_line().replace("[100, 110, 90]", '["fast"]'),
    "no time at all": record().to_line().replace("[100, 110, 90]", "[0]"),
    "one time": record().to_line().replace("[100, 110, 90]", "100"),
    "options": record(options={"tile": [1]}).to_line().replace('{"tile": [1]}', '"all"'),
    "extents": record().to_line().replace("[4, 5]", "[4.5]"),
    "sizes": record().to_line().replace('{"M": 4, "N": 5}', '{"M": "four"}'),
    "when": record(time=1.0).to_line().replace('"time": 1.0', '"time": "noon"'),
    "not a number": record(predicted=1.0).to_line().replace('"predicted": 1.0', '"predicted": NaN'),
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_record(line: str) -> None:
    with pytest.raises(ValueError) as e:
        read_line(line)
    assert not isinstance(e.value, OtherVersionError)


def test_lines_that_are_none_are_counted_and_stay(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.append(record())
    path = records.path(PROGRAM)
    later = record(time=2.0).to_line().replace('"v": 1', '"v": 2')
    spoiled = [*(x.encode() for x in BROKEN.values()), b"\xff\xfe\x00", later.encode()]
    with path.open("ab") as f:
        f.write(b"\n".join(spoiled) + b"\n\n")
    records.append(record(time=3.0))
    found = records.scan()
    assert [r.time for r in found.records] == [0.0, 3.0]
    assert (found.foreign, found.other) == (len(BROKEN) + 1, 1)
    assert found.skipped == f"skipped lines: {len(BROKEN) + 1} no records, 1 of another version"
    assert records.remove(lambda r: r.time == 0.0) == 1
    lines = path.read_bytes().split(b"\n")
    assert all(line in lines for line in spoiled) and [r.time for r in records.scan().records] == [3.0]


def test_a_torn_last_line_spoils_no_other(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.append(record(time=1.0))
    with records.path(PROGRAM).open("ab") as f:
        f.write(record(time=2.0).to_line().encode()[:40])
    records.append(record(time=3.0))
    found = records.scan()
    assert [r.time for r in found.records] == [1.0, 3.0] and found.foreign == 1


WRITER = """
import sys
from tc.tuned.records import Record, Records
r = Records(sys.argv[1])
for i in range(200):
    r.append(Record(program="ab" * 32, extents=(i,), backend=sys.argv[2], options={}, status="ok",
                    problem="x" * (i * 37 % 9000)))
    if i == 100 and sys.argv[2] == "1":
        r.remove(lambda x: x.backend == "0" and x.extents[0] < 5)
"""


def test_several_processes_append_and_one_removes(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    Records(tmp_path).append(record(backend="0", extents=(1,)))
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(n)], env=env) for n in range(3)
    ]
    assert [p.wait() for p in running] == [0, 0, 0]
    found = Records(tmp_path).scan()
    assert not found.foreign and not found.other
    for n in ("1", "2"):
        assert [r.extents[0] for r in found.records if r.backend == n] == list(range(200))
    kept = [r.extents[0] for r in found.records if r.backend == "0"]
    assert {*range(5, 200)} <= {*kept}


def test_merging_is_putting_files_together(tmp_path: Path) -> None:
    here, there = Records(tmp_path / "a"), Records(tmp_path / "b")
    for i in range(3):
        here.append(record(time=float(i)))
    for i in range(2, 5):
        there.append(record(time=float(i)))
    together = tmp_path / "c" / "anything.jsonl"
    together.parent.mkdir()
    parts = (here.path(PROGRAM), there.path(PROGRAM))
    together.write_bytes(b"".join(p.read_bytes() for p in parts))
    assert len(Records(together.parent).scan().records) == 6
    assert here.merge([there.directory]) == 2 and here.merge([together]) == 0
    assert sorted(r.time for r in here.scan().records) == [0, 1, 2, 3, 4]


def test_a_disk_that_is_full_leaves_no_part_of_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = Records(tmp_path)
    records.append(record(time=1.0))
    whole = records.path(PROGRAM).read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:20]))
    with pytest.raises(OSError, match="no space"):
        records.append(record(time=2.0))
    monkeypatch.undo()
    assert records.path(PROGRAM).read_bytes() == whole


FAST, SLOW = (100, 101, 99, 100, 101, 99, 100), (200, 201, 199, 200, 201, 199, 200)


def test_the_winner_is_what_the_rounds_show() -> None:
    default = record(origin="default", ns=SLOW, time=1.0)
    lucky = record(options={"unroll": 4}, ns=(1, 1, 1), time=2.0)  # was never interleaved
    better = record(options={"unroll": 2}, ns=FAST, ref_ns=SLOW, time=3.0)
    beaten = record(options={"unroll": 8}, ns=SLOW, ref_ns=FAST, time=4.0)
    assert winner([default, lucky]) is None
    assert winner([beaten, better, lucky, default]) == better
    again = record(options={"unroll": 2}, status="crash", ns=(), time=5.0)
    assert winner([default, better, again]) is None
    confirmed = record(origin="confirm", ns=SLOW, ref_ns=SLOW, time=6.0)
    assert winner([better, confirmed]) == confirmed
    later = record(options={"unroll": 16}, ns=FAST, ref_ns=SLOW, time=7.0)
    assert winner([confirmed, later, better]) == later


def test_what_failed_once_is_known_to_fail() -> None:
    good = record(options={"unroll": 2}, time=1.0)
    wrong = record(options={"unroll": 2}, status="wrong", ns=(), time=2.0)
    pruned = record(options={"unroll": 4}, status="pruned", ns=(), time=1.0)
    measured = record(options={"unroll": 4}, time=2.0)
    illegal = record(options={"abacus": 3})
    for order in ([good, wrong, pruned, measured, illegal], [wrong, measured, illegal, pruned, good]):
        known = pooled(order)
        assert known[Options(unroll=2)] == wrong and known[Options(unroll=4)] == measured
        assert len(known) == 2


def test_the_export_follows_the_interchange_format() -> None:
    r = record(options={"tile": [8]}, compile_s=0.25)
    made = export([r, record(status="hang", ns=())])
    assert made["schema_version"] == "1.0.0"
    first, second = made["results"]
    assert first["invalidity"] == "correct" and first["times"]["runtimes"] == [1e-4, 1.1e-4, 9e-5]
    assert first["measurements"] == [{"name": "time", "value": 1e-4, "unit": "milliseconds"}]
    assert second["invalidity"] == "timeout" and not second["measurements"]
