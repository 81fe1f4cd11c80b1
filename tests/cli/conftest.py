"""A folder with two programs, and the command line run in it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tc.cli import main
from tests.cli.programs import MM, SGEMM


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`run("check", "mm.tc")` in a folder with a few files."""
    monkeypatch.chdir(tmp_path)
    Path("mm.tc").write_text(MM)
    Path("sgemm.tc").write_text(SGEMM)

    def call(*argv: str, stdin: bytes | None = None) -> Result:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        try:
            code = main.main(argv)
        except SystemExit as e:
            code = int(e.code or 0)
        seen = capsys.readouterr()
        assert "Traceback" not in seen.out + seen.err
        return Result(code, seen.out, seen.err)

    return call
