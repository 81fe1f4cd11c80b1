"""Runs in parts."""

import json
from pathlib import Path
from typing import Any

from fuzz.report import Report
from fuzz.totals import Totals


def batch(**counts: Any) -> dict[str, Any]:
    """What a worker writes."""
    return json.loads(json.dumps({**vars(Report()), **counts}))


def test_a_second_part_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    path = tmp_path / "totals.json"
    first = Totals.of(path, 7, 2, ("cpu",))
    first.seed += 2  # two processes
    first.add(batch(programs=5, texts=30, refused={"TC0601": 2}, slowest=1.5, slowest_source="def f"))
    first.fail("died", "{}")
    first.keep(now=True)
    second = Totals.of(path, 7, 1, ("cpu", "reference"))
    assert second.seed == 7002
    second.add(batch(programs=4, refused={"TC0601": 1, "TC0303": 1}, failures=[["wrong", "{}"]]))
    second.keep(now=True)
    report = Totals.of(path, 7, 1, ("cpu",)).report
    assert (report.programs, report.texts, report.slowest_source) == (9, 30, "def f")
    assert report.refused == {"TC0601": 3, "TC0303": 1}
    assert [what for what, _ in report.failures] == ["died", "wrong"]
    text = second.table()
    assert "9 programs ran on cpu, reference" in text
    assert "part 1: 5 programs, 30 texts, 1 failures" in text
    assert "part 2: 4 programs, 0 texts, 1 failures" in text


def test_without_a_file_there_is_one_part_and_nothing_is_written(tmp_path: Path) -> None:
    totals = Totals.of(None, 7, 2, ("cpu",))
    totals.add(batch(programs=1))
    totals.keep(now=True)
    assert "part" not in totals.table()
    assert not list(tmp_path.iterdir())
