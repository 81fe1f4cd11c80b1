"""SaC on the command line: files that end in .sac."""

from __future__ import annotations

from pathlib import Path

import pytest

from tc.cli.main import main

MATRIX = """double[.,.] mm(double[.,.] A, double[.,.] B) {
  return { [i, j] -> sum({ [k] -> A[i, k] * B[k, j] }) };
}
"""
LAST = "{ iv -> sum({ [j] -> A[iv ++ [j]] }) | iv < drop([-1], shape(A)) }\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mm.sac").write_text(MATRIX)
    Path("last.sac").write_text(LAST)
    return tmp_path


def test_run(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--size", "A_0=3", "--size", "A_1=4", "--size", "B_0=4", "--size", "B_1=2"]
    assert main(["run", "mm.sac", "--backend", "reference", "--check", *sizes]) == 0
    assert "agrees" in capsys.readouterr().out
    how = ["--rank", "A=2:float", "--size", "A_0=2", "--size", "A_1=5", "--backend", "reference", "--check"]
    assert main(["run", "last.sac", *how]) == 0
    assert "float32" in capsys.readouterr().out


def test_ranks(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "last.sac", "--backend", "reference"]) == 1
    assert "the rank of A is not given" in capsys.readouterr().err
    assert main(["show", "ranges", "mm.sac", "--rank", "A=2"]) == 1
    assert "leaves no rank open" in capsys.readouterr().err
    assert main(["show", "ranges", "last.sac", "--rank", "A=3"]) == 0
    assert "[0, A_0), [0, A_1), [0, A_2)" in capsys.readouterr().out


def test_check_and_format(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.sac").write_text("int f(int n) { return m; }\n")
    assert main(["check", "mm.sac", "last.sac"]) == 0
    assert main(["check", "bad.sac"]) == 1
    assert "unknown name 'm'" in capsys.readouterr().err
    assert main(["format", "--check", "mm.sac"]) == 0


def test_ranks_of_several_parameters_in_one_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("first.sac").write_text("double[*] f(double[*] a, double[*] b) { return a; }\n")
    assert main(["show", "ranges", "first.sac", "--rank", "a=2,b=1"]) == 0
    assert "result: [0, a_0), [0, a_1)" in capsys.readouterr().out
