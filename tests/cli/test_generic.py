"""Defs with type variables on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tc.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SOURCE = "def mm<T>(T(M,K) A, T(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }\n"


def test_types_are_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm.tc"
    file.write_text(SOURCE)
    sizes = [a for n in "MKN" for a in ("--size", f"{n}=2")]
    assert main(["run", str(file), "--type", "T=double", "--backend", "reference", *sizes]) == 0
    assert "C: float64(2, 2)" in capsys.readouterr().out
    assert main(["check", str(file)]) == 0
    assert main(["run", str(file), "--backend", "reference", *sizes]) != 0
    assert "write --type T=float" in capsys.readouterr().err


def test_several_sizes_after_one_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm.tc"
    file.write_text(SOURCE.replace("<T>(T(M,K) A, T(", "(float(M,K) A, float("))
    assert main(["run", str(file), "--backend", "reference", "--size", "M=3,K=2", "--size", "N=4"]) == 0
    assert "C: float32(3, 4)" in capsys.readouterr().out
    assert main(["run", str(file), "--backend", "reference", "--size", "M=3,K"]) != 0
    assert "K: not of the form NAME=VALUE" in capsys.readouterr().err
