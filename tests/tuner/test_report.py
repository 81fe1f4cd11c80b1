"""The page of records, looked at in a browser."""

from __future__ import annotations

from pathlib import Path

from tc.tuned.records import Record, Scan
from tc.tuner.report import write_report
from tests.browser import browser
from tests.tuner.conftest import ADD


def test_the_report_in_a_browser(tmp_path: Path) -> None:
    def record(unroll: int, ns: int, status: str = "ok", problem: str = "") -> Record:
        origin = {0: "default", 8: "confirm"}.get(unroll, "")
        return Record(
            program="ab" * 32,
            extents=(64,),
            backend="cpu",
            options={"unroll": unroll} if unroll else {},
            status=status,
            problem=problem,
            ns=(ns, ns + 10, ns - 10) if ns else (),
            sizes={"N": 64},
            source=ADD,
            entry="add",
            predicted=float(ns or 5),
            origin=origin,
        )

    rows = (record(0, 9000), record(8, 3000), record(16, 4000), record(1, 0, "crash", "<b>SIGSEGV</b>"))
    target = tmp_path / "page.html"
    write_report(Scan(rows), target)
    with browser() as page:
        page.open(target)
        assert page.value("document.title") == "Tuning"
        cells = "[...document.querySelectorAll('#winners th, #winners td')].map(e => e.textContent)"
        assert page.value(cells)[4:] == ["add N=64 on cpu, machine ", "3.0", "3.00", '{"unroll": 8}']
        pictures = page.value("[...document.images].map(i => [i.complete, i.naturalWidth])")
        assert len(pictures) == 3 and all(done and width > 300 for done, width in pictures)
        right = "[...document.querySelectorAll('img, table, pre')].map(e => e.getBoundingClientRect().right)"
        assert max(page.value(right)) <= page.value("document.documentElement.clientWidth")
        assert "<b>SIGSEGV</b>" in page.value("document.body.innerText")
        page.value("document.querySelector('#winners a').click()")
        assert page.value("document.querySelector(location.hash).tagName") == "H2"
        assert page.screenshot(tmp_path / "report.png").startswith(b"\x89PNG")
        assert page.problems == []
        assert all(r.startswith(("file:", "data:")) for r in page.requests), "a page loads nothing"
