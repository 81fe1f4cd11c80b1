"""What fails inside LLVM, Halide or isl is an InternalError, whose reproducer `python -m tc run` repeats."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import tc
from tc.cli.main import main
from tc.poly import context

SOURCE = """def f(int s, float a, float(N,M) A, int(L) I) -> (B, C) {
  B(i) += a * A(i, s)   # %s
  C(l) = A(s, I(l))
}"""
ROWS, INDICES = np.ones((5, 6), np.float32), np.zeros(4, np.int64)


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _parse(m: pytest.MonkeyPatch) -> None:
    def refuses(*args: Any) -> Any:
        raise RuntimeError("LLVM IR parsing error")

    m.setattr(llvm, "parse_assembly", refuses)


def _generate(m: pytest.MonkeyPatch) -> None:
    def fails(*args: Any, **more: Any) -> Any:
        raise RuntimeError("Cannot select: a node")

    m.setattr(llvm.TargetMachine, "emit_object", fails)


def _link(m: pytest.MonkeyPatch) -> None:
    m.setattr(llvm, "address_of_symbol", lambda name: None)


def _halide(m: pytest.MonkeyPatch) -> None:
    from tc.halide.binding import hl

    def fails(*args: Any, **more: Any) -> Any:
        raise hl.HalideError("Internal Error at Bounds.cpp")

    m.setattr(hl.Pipeline, "compile_to_object", fails)


def _exhausted(m: pytest.MonkeyPatch) -> None:
    m.setattr(context, "MAX_OPERATIONS", 3000)


def _isl(m: pytest.MonkeyPatch) -> None:
    import islpy as isl

    def fails(*args: Any, **more: Any) -> Any:
        raise isl.Error("call to isl_union_map_apply_range failed: unexpected")

    # Where the scop of the specialised program is built, after the front end's.
    from tc.poly import scop

    m.setattr(scop, "union_map", fails)


FAILURES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str, str, str]] = {
    "LLVM refuses": (_parse, "cpu", "TC0903", "LLVM IR parsing error"),
    "LLVM refuses the reference's": (_parse, "reference", "TC0903", "LLVM IR parsing error"),
    "LLVM's code generator": (_generate, "cpu", "TC0901", "RuntimeError: Cannot select"),
    "LLVM's linker": (_link, "cpu", "TC0903", "no definition of"),
    "Halide": (_halide, "halide", "TC0900", "Halide refuses the pipeline: Internal Error at Bounds.cpp"),
    "isl": (_isl, "cpu", "TC0901", "isl_union_map_apply_range failed"),
    "isl, exhausted": (_exhausted, "reference", "TC0906", "isl gave up after 3000 operations"),
}


def provoked(
    failure: str, monkeypatch: pytest.MonkeyPatch, backend: str, **compiling: Any
) -> tuple[tc.InternalError, Path]:
    """The error of a call that fails in the middle of its compile, and the file that it names."""
    fail = FAILURES[failure][0]
    with pytest.warns(tc.Warning):
        kernel = tc.compile(SOURCE % failure, backend, **compiling)
    out = {"B": np.zeros(5, np.float32), "C": np.zeros(4, np.float32)}
    # Loads what is loaded once.
    kernel(2, 0.5, ROWS[:4], INDICES[:3], out={"B": out["B"][:4], "C": out["C"][:3]})
    with monkeypatch.context() as m:
        fail(m)
        with pytest.raises(tc.InternalError) as caught:
            kernel(1, 0.5, ROWS, INDICES, out=out)
    assert caught.value.help is not None and caught.value.help.startswith("please report it with the repr")
    return caught.value, Path(caught.value.help.split()[-1])


@pytest.mark.parametrize("failure", ["isl", "isl, exhausted"])
def test_what_led_to_an_error_can_be_compared(failure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """hypothesis tells failures apart by it; islpy's exceptions raise TypeError when compared."""
    monkeypatch.setenv("TC_CACHE", "0")
    error: BaseException | None = provoked(failure, monkeypatch, FAILURES[failure][1])[0]
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__context__
    assert type(seen[-1]).__module__.startswith("islpy") and seen[-1] != seen[0]
    assert hash(seen[-1]) == hash(seen[-1])


@pytest.mark.share(18)
@pytest.mark.parametrize("failure", FAILURES)
def test_the_file_holds_what_is_needed(
    failure: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail, backend, code, message = FAILURES[failure]
    monkeypatch.setenv("TC_CACHE", "0")
    compiling = {"options": {"strict": True}, "checks": "none"}
    if backend != "halide":
        compiling |= {"dynamic": {"N": 100}}
    error, file = provoked(failure, monkeypatch, backend, **compiling)
    assert error.code == code and message in error.message
    held = json.loads(file.read_text())
    told = {k: held[k] for k in held if k not in ("error", "versions", "traceback")}
    assert told == {
        "reproducer": 1,
        "source": SOURCE % failure,
        "entry": "f",
        "backend": backend,
        "options": {"strict": True},
        "checks": "none",
        "dynamic": {"N": 100} if backend != "halide" else {},
        "sizes": {"N": 5, "M": 6, "L": 4},
        "scalars": {"s": 1},
        "dtypes": {"A": "float32", "I": "int64"},
        "given": ["B"],
    }
    assert message in held["error"] and any("Error" in line for line in held["traceback"])
    packages = {"python", "tensor-comprehensions", "numpy", "islpy", "llvmlite", "halide"}
    assert packages <= set(held["versions"])

    # While the cause is there it fails again, with the same file; afterwards it runs and agrees.
    before = file.read_text()
    with monkeypatch.context() as m:
        fail(m)
        assert main(["run", str(file)]) == 3
    seen = capsys.readouterr()
    assert f"error[{code}]" in seen.err and str(file) in seen.err and "no longer fails" not in seen.out
    assert json.loads(file.read_text())["source"] == json.loads(before)["source"]
    assert sorted(p.name for p in file.parent.glob("tc-*")) == [file.name]
    assert main(["run", str(file)]) == 0
    seen = capsys.readouterr()
    assert f" on {backend}\noracle: agrees" in seen.out and "no longer fails: " in seen.out


@pytest.mark.slow
def test_another_process_takes_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    _, file = provoked("LLVM refuses", monkeypatch, "cpu", options={"tile": (8,)})
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tc", "run", str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, "TC_VERIFY": "0"},
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "B: float32(5,)" in done.stdout and "C: float32(4,)" in done.stdout
    assert " on cpu\noracle: agrees" in done.stdout
    assert "no longer fails: InternalError: error[TC0903]: LLVM refuses the text" in done.stdout


def test_a_failure_before_any_size_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tc.pipeline import front as pipeline

    def fails(*args: Any, **more: Any) -> Any:
        raise ZeroDivisionError("in a pass")

    source = "def g(float(N) A) -> (B) { B(i) = A(i) * 3 }"
    with monkeypatch.context() as m:
        m.setattr(pipeline, "lower", fails)
        with pytest.raises(tc.InternalError) as caught:
            tc.compile(source, "reference", options={"strict": True})
    file = Path(str(caught.value.help).split()[-1])
    held = json.loads(file.read_text())
    assert held["backend"] == "reference" and "sizes" not in held
    assert main(["run", str(file)]) == 0
    seen = capsys.readouterr().out
    assert seen.startswith("the program compiles") and "no longer fails: ZeroDivisionError" in seen
    assert main(["run", str(file), "--size", "N=7"]) == 0
    assert "B: float32(7,)" in capsys.readouterr().out

    with monkeypatch.context() as m:
        m.setattr(pipeline, "assign_types", fails)
        with pytest.raises(tc.InternalError) as caught:
            tc.compile(source + " ", "reference")
    held = json.loads(Path(str(caught.value.help).split()[-1]).read_text())
    assert held["source"] == source + " " and "backend" not in held


def test_options_that_are_functions_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, file = provoked("isl", monkeypatch, "cpu", options={"fusion": lambda proposal: False, "unroll": 2})
    held = json.loads(file.read_text())
    assert held["options"] == {"unroll": 2} and held["omitted"] == ["fusion"]
    assert main(["run", str(file)]) == 0
    assert "note: the option fusion was a function" in capsys.readouterr().err


def test_nowhere_to_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with monkeypatch.context() as m:
        _generate(m)
        with pytest.raises(tc.InternalError) as caught:
            tc.compile("def g(float(N) A) -> (B) { B(i) = A(i) * 4 }", "cpu", sizes={"N": 9})
    assert caught.value.help == "please report it (no reproducer could be written: No such file or directory)"
