"""The command line: what it prints where, and its exit codes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc import cli
from tc.inspect import STAGES

MM = """def mm(float(M,K) A, float(K,N) B) -> (C) {
  C(i,j) +=! A(i,k) * B(k,j)
}
"""
SGEMM = """def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {
  C(i,j) = b * C(i,j)               # initialization
  C(i,j) += a * A(i,k) * B(k,j)     # accumulation
}
"""
SIZES = ["--size", "M=3", "--size", "K=4", "--size", "N=5"]
REFERENCE = ["--backend", "reference"]


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
            code = cli.main(argv)
        except SystemExit as e:
            code = int(e.code or 0)
        seen = capsys.readouterr()
        assert "Traceback" not in seen.out + seen.err
        return Result(code, seen.out, seen.err)

    return call


def python(*argv: str, folder: Path, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tc", *argv],
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=300,
    )


# ---- the process


def test_a_process_ends_with_the_code_and_keeps_the_streams_apart(tmp_path: Path) -> None:
    (tmp_path / "mm.tc").write_text(MM)
    good = python("run", "mm.tc", *SIZES, *REFERENCE, "--check", folder=tmp_path)
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.startswith("C: float32(3, 5), [") and "oracle: agrees" in good.stdout
    bad = python("check", "-", folder=tmp_path, text=MM.replace("B(k", "X(k"))
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr.startswith("error[TC0201]: unknown tensor or function 'X'\n --> <stdin>:2:23\n")
    usage = python("check", folder=tmp_path)
    assert usage.returncode == 2 and usage.stdout == "" and "usage: python -m tc check" in usage.stderr


def test_output_that_nobody_reads_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "mm.tc").write_text(MM)
    command = f"{sys.executable} -m tc show all mm.tc --backend reference --size M=3 --size K=4 --size N=5 | head -1"
    p = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert p.stdout.startswith("==== syntax") and p.stderr == ""


def test_an_ascii_terminal_is_no_error(tmp_path: Path) -> None:
    p = python("check", "-", folder=tmp_path, text="", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert p.returncode == 1 and p.stderr.startswith("error[TC0103]") and "Traceback" not in p.stderr


def test_a_bug_is_reported_as_one(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tc import commands

    def broken(*args: Any) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(commands, "make_arguments", broken)
    r = run("run", "mm.tc", *SIZES, *REFERENCE)
    assert r.code == 3 and r.out == "" and r.err.startswith("error[TC0901]: a bug in tc: ZeroDivisionError")
    assert "reproducer" in r.err
    r = run("run", "mm.tc", *SIZES, *REFERENCE, "--json")
    assert r.code == 3 and r.json["ok"] is False and r.json["diagnostics"][0]["category"] == "InternalError"


def test_an_interrupt_is_quiet(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tc import commands

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "run_kernel", interrupt)
    r = run("run", "mm.tc", *SIZES, *REFERENCE)
    assert (r.code, r.out, r.err) == (130, "", "")


def test_version_and_help(run: Any) -> None:
    r = run("--version")
    assert (r.code, r.out) == (0, f"tc {tc.__version__}\n")
    r = run("--help")
    assert r.code == 0 and all(c in r.out for c in ("run", "show", "check", "format", "doctor", "demo"))
    for command in ("run", "show", "check", "format", "doctor", "demo"):
        assert run(command, "--help").code == 0
    assert run().code == 2
    assert run("rnu").code == 2


def test_warnings_do_not_outlive_a_call(run: Any) -> None:
    import warnings

    before = warnings.showwarning, list(warnings.filters)
    run("check", "-", stdin=b"def f(float(N) A) -> (s) { s += A(i) }")
    assert (warnings.showwarning, list(warnings.filters)) == before


# ---- reading sources


@pytest.mark.parametrize("command", [["check"], ["format"], ["run", *SIZES], ["show", "ranges"]], ids=lambda c: c[0])
@pytest.mark.parametrize(
    ("data", "code", "place"),
    [
        (None, "TC0516", None),
        (b"", "TC0103", "1:1"),
        (b"def f(float(N) A) -> (B) { B(i) = A(i)\x00 }", "TC0101", "1:39"),
        (b"def f(float(N) A) -> (B) {\n B(i) = \xff A(i) }", "TC0107", "2:9"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x1b[31m\xfe\xff" * 50, "TC0107", "1:15"),
        (b"\x89\x00\x01", "TC0107", "1:1"),
        ("# caf\xe9 \u2202\ndef f(float(N) A) -> (B) { B(i) = A(i) \u00d7 2 }".encode(), "TC0101", "2:40"),
    ],
    ids=["missing", "empty", "NUL", "invalid UTF-8", "binary", "first byte", "not ASCII"],
)
def test_files_that_are_no_source(run: Any, command: list[str], data: bytes | None, code: str, place: str) -> None:
    if data is not None:
        Path("x.tc").write_bytes(data)
    r = run(*command, "x.tc")
    assert r.code == 1 and r.out == ""
    assert r.err.startswith(f"error[{code}]: "), r.err
    assert (f"--> x.tc:{place}\n" if place else "x.tc") in r.err
    assert "\x1b" not in r.err and "\0" not in r.err


def test_a_folder_is_no_source(run: Any) -> None:
    Path("d.tc").mkdir()
    r = run("check", "d.tc")
    assert r.code == 1 and r.err == "error[TC0516]: d.tc: Is a directory\n"


def test_a_byte_order_mark_and_windows_line_ends(run: Any) -> None:
    Path("w.tc").write_bytes(b"\xef\xbb\xbf" + MM.replace("\n", "\r\n").encode())
    assert run("check", "w.tc").code == 0
    assert run("format", "--check", "w.tc").code == 0
    Path("w.tc").write_bytes(b"\xef\xbb\xbf" + MM.replace("\n", "\r\n").replace("B(k", "X(k").encode())
    assert "w.tc:2:23\n" in run("check", "w.tc").err


def test_standard_input(run: Any) -> None:
    r = run("check", "-", stdin=MM.encode())
    assert (r.code, r.out, r.err) == (0, "<stdin>: 1 def, no errors\n", "")
    assert run("show", "syntax", "-", *REFERENCE, stdin=MM.encode()).out == MM
    assert run("run", "-", *SIZES, *REFERENCE, "--check", stdin=MM.encode()).code == 0
    assert "--> <stdin>:1:1" in run("check", "-", stdin=b"\xff").err


def test_a_source_that_is_too_long(run: Any) -> None:
    Path("x.tc").write_bytes(b"#" * (5 << 20))
    assert run("check", "x.tc").err.startswith("error[TC0104]")


# ---- check


SEVERAL = """def good(float(N) A) -> (B) { B(i) = A(i) }
def unknown(float(N) A) -> (B) { B(i) = A(i) + goood(i) }
def caller(float(N) A) -> (B) { B = unknown(A) }
def open(float(N) A) -> (B) { B(i,j) = A(i) }
def warns(float(N) A) -> (s) { s += A(i) }
def narrow(double(N) A) -> (float(N) B) { B(i) = A(i) }
def inplace(float(N,N) A) -> (B) { B(i,j) = A(i,j) B(i,j) = B(j,i) }
"""


def test_check_reports_every_def_once_in_order(run: Any) -> None:
    Path("x.tc").write_text(SEVERAL)
    r = run("check", "x.tc")
    assert r.code == 1 and r.out == ""
    lines = r.err.splitlines()
    heads = [h.split("]")[0] for h in lines if h.startswith(("error", "warning"))]
    assert heads == ["error[TC0201", "error[TC0301", "warning[TC1001", "error[TC0404", "error[TC0227"]
    assert "2 | def unknown(float(N) A) -> (B) { B(i) = A(i) + goood(i) }" in lines
    assert "  = help: did you mean 'good'?" in lines


def test_check_json(run: Any) -> None:
    Path("x.tc").write_text(SEVERAL)
    r = run("check", "x.tc", "mm.tc", "--json")
    assert r.code == 1 and r.err == ""
    assert set(r.json) == {"ok", "files", "diagnostics"} and r.json["ok"] is False
    assert r.json["files"] == {
        "x.tc": ["good", "unknown", "caller", "open", "warns", "narrow", "inplace"],
        "mm.tc": ["mm"],
    }
    first = r.json["diagnostics"][0]
    assert set(first) == {"severity", "code", "category", "message", "span", "notes", "help"}
    assert first["span"] == {"file": "x.tc", "line": 2, "column": 48, "length": 5}
    assert [d["severity"] for d in r.json["diagnostics"]] == ["error", "error", "warning", "error", "error"]
    good = run("check", "mm.tc", "--json")
    assert good.code == 0 and good.json == {"ok": True, "files": {"mm.tc": ["mm"]}, "diagnostics": []}


def test_check_goes_on_after_a_file_that_does_not_parse(run: Any) -> None:
    Path("x.tc").write_text("def f(")
    r = run("check", "x.tc", "mm.tc")
    assert r.code == 1 and r.out == "mm.tc: 1 def, no errors\n" and r.err.startswith("error[TC0103]")
    r = run("check", "x.tc", "--json")
    assert r.json["files"] == {"x.tc": []} and r.json["diagnostics"][0]["code"] == "TC0103"


def test_check_sees_doubled_defs_and_the_errors_beside_them(run: Any) -> None:
    Path("x.tc").write_text(
        "def f(float(N) A) -> (B) { B(i) = A(i) }\ndef f(float(N) A) -> (B) { B(i) = A(i) }\n"
        "def g(float(N) A) -> (B) { B(i) = Q(i) }\n"
    )
    r = run("check", "x.tc", "--json")
    assert [d["code"] for d in r.json["diagnostics"]] == ["TC0217", "TC0201"]


def test_check_warns_and_passes(run: Any) -> None:
    r = run("check", "-", stdin=b"def f(float(N) A) -> (s) { s += A(i) }")
    assert r.code == 0 and r.out == "<stdin>: 1 def, no errors\n" and r.err.startswith("warning[TC1001]")


def test_check_of_a_program_whose_ranges_wait_for_a_scalar(run: Any) -> None:
    r = run("check", "-", stdin=b"def f(int s, float(N) A) -> (B) { B(i) = A(s*i) }")
    assert (r.code, r.err) == (0, "")


# ---- run


def test_run_with_files_saves_what_numpy_computes(run: Any) -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-9, 9, (3, 4)).astype(np.float32)
    b = rng.integers(-9, 9, (4, 5)).astype(np.float32)
    np.save("a.npy", a)
    np.save("b.npy", np.asfortranarray(b))
    r = run("run", "mm.tc", *REFERENCE, "--input", "A=a.npy", "--input", "B=b.npy", "--output", "C=c.out", "--check")
    assert r.code == 0, r.err
    np.testing.assert_array_equal(np.load("c.out"), a @ b)


def test_run_json_has_stable_keys(run: Any) -> None:
    r = run("run", "mm.tc", *SIZES, *REFERENCE, "--json", "--check")
    assert r.code == 0 and r.err == ""
    assert set(r.json) == {"ok", "results", "backend", "compile_ms", "run_us", "agrees", "difference", "diagnostics"}
    assert r.json["backend"] == "reference" and r.json["diagnostics"] == [] and r.json["agrees"] is True
    assert set(r.json["results"]["C"]) == {"dtype", "shape", "summary"} and r.json["results"]["C"]["shape"] == [3, 5]
    assert r.json["compile_ms"] >= 0 and r.json["run_us"] > 0
    without = run("run", "mm.tc", *SIZES, *REFERENCE, "--json")
    assert set(without.json) == {"ok", "results", "backend", "compile_ms", "run_us", "diagnostics"}
    lut = b"def f(float(N) A, int(M) I) -> (B) { B(i) = A(I(i)) }"
    warned = run("run", "-", "--size", "N=3", "--size", "M=2", *REFERENCE, "--json", stdin=lut)
    assert warned.code == 0 and warned.err == "" and warned.json["diagnostics"][0]["code"] == "TC1003"
    bad = run("run", "mm.tc", "--size", "M=3", "--json")
    assert bad.code == 1 and bad.json["ok"] is False and bad.json["diagnostics"][-1]["code"] == "TC0513"


def test_run_is_repeatable_and_the_seed_changes_it(run: Any) -> None:
    def results(*more: str) -> Any:
        return run("run", "mm.tc", *SIZES, *REFERENCE, "--json", *more).json["results"]

    assert results() == results() == results("--seed", "0") != results("--seed", "1")


def test_run_in_out(run: Any) -> None:
    r = run("run", "sgemm.tc", *SIZES, *REFERENCE, "--check", "--scalar", "a=2", "--scalar", "b=-0.5")
    assert r.code == 0 and "oracle: agrees" in r.out
    a, b, c = (np.arange(n, dtype=np.float32).reshape(s) for n, s in ((15, (5, 3)), (12, (3, 4)), (20, (5, 4))))
    for name, x in {"A": a, "B": b, "C": c}.items():
        np.save(f"{name}.npy", x)
    inputs = [x for n in "ABC" for x in ("--input", f"{n}={n}.npy")]
    r = run("run", "sgemm.tc", *REFERENCE, *inputs, "--scalar", "a=2", "--scalar", "b=3", "--output", "C=o.npy")
    assert r.code == 0, r.err
    np.testing.assert_array_equal(np.load("o.npy"), 3 * c + 2 * (a @ b))
    np.testing.assert_array_equal(np.load("C.npy"), c)


def test_run_accumulates_into_what_is_given(run: Any) -> None:
    Path("f.tc").write_text("def f(float(N) A) -> (s, t) { s += A(i) t(i) += A(i) }")
    np.save("a.npy", np.array([1, 2, 4], np.float32))
    np.save("t.npy", np.array([10, 20, 30], np.float32))
    r = run("run", "f.tc", *REFERENCE, "--input", "A=a.npy", "--input", "t=t.npy", "--output", "t=o.npy", "--check")
    assert r.code == 0, r.err
    np.testing.assert_array_equal(np.load("o.npy"), [11, 22, 34])


def test_run_specialised_scalars_and_several_results(run: Any) -> None:
    source = b"def f(int s, bool w, float(N) A) -> (B, C) { B(i) = A(s*i) C(i) = w ? A(i) : 0 }"
    r = run("run", "-", "--size", "N=7", "--size", "s=3", *REFERENCE, "--json", "--check", stdin=source)
    assert r.code == 0, r.err
    assert r.json["results"]["B"]["shape"] == [3] and r.json["results"]["C"]["shape"] == [7]
    r = run("run", "-", "--size", "N=7", "--scalar", "s=2", "--scalar", "w=false", *REFERENCE, stdin=source)
    assert "B: float32(4,)" in r.out and "C: float32(7,), [0, 0, 0, 0, …]" in r.out


def test_run_every_type(run: Any) -> None:
    from tc.dtypes import ALL

    for t in ALL:
        source = f"def f({t}(N) A) -> ({t}(N) B) {{ B(i) = A(i) }}".encode()
        r = run("run", "-", "--size", "N=6", *REFERENCE, "--check", stdin=source)
        assert r.code == 0 and f"B: {t}(6,)" in r.out, r.err


def test_run_empty_sizes(run: Any) -> None:
    r = run("run", "mm.tc", "--size", "M=0", "--size", "K=0", "--size", "N=2", *REFERENCE, "--check")
    assert r.code == 0 and "C: float32(0, 2), []" in r.out


def test_run_entry_and_option(run: Any) -> None:
    Path("two.tc").write_text(MM + "def f(half(N) A) -> (B) { B(i) = A(i) + A(i) }")
    assert run("run", "two.tc", "--entry", "mm", *SIZES, *REFERENCE).out.startswith("C: ")
    assert run("run", "two.tc", "--size", "N=2", *REFERENCE, "--option", "strict=true").out.startswith("B: float16")
    r = run("run", "two.tc", "--entry", "mn", *SIZES)
    assert r.code == 1 and "error[TC0216]: there is no def 'mn'" in r.err


@pytest.mark.parametrize(
    ("arguments", "code", "message", "help"),
    [
        (["--size", "M=3"], "TC0513", "no value for the size K, N", "add --size K=… --size N=…"),
        ([*SIZES, "--size", "Q=3"], "TC0513", "mm has no size 'Q'", "it has M, K, N"),
        (["--size", "m=3"], "TC0513", "mm has no size 'm'", "did you mean 'M'?"),
        (["--size", "M=three"], "TC0515", "--size M=three: not an integer", None),
        (["--size", "M=1.5"], "TC0515", "--size M=1.5: not an integer", None),
        (["--size", "M"], "TC0515", "--size M: not of the form NAME=VALUE", None),
        (["--size", "M="], "TC0515", "--size M=: not of the form NAME=VALUE", None),
        (["--size", "M=1", "--size", "M=2"], "TC0515", "--size: 'M' is given twice", None),
        (["--size", "M=-1"], "TC0515", "a size is not negative", None),
        ([*SIZES, "--scalar", "a=1"], "TC0513", "mm has no scalar 'a'", "it has none"),
        ([*SIZES, "--scalar", "a=x"], "TC0515", "--scalar a=x: not a number", None),
        ([*SIZES, "--input", "Z=a.npy"], "TC0515", "mm has no input 'Z'", "it has A, B"),
        ([*SIZES, "--input", "C=a.npy"], "TC0515", "mm has no input 'C'", None),
        ([*SIZES, "--input", "A=absent.npy"], "TC0516", "absent.npy: No such file", None),
        ([*SIZES, "--input", "A=text.npy"], "TC0516", "text.npy is not a .npy file", "np.save"),
        ([*SIZES, "--input", "A=empty.npy"], "TC0516", "empty.npy is not a .npy file", "np.save"),
        ([*SIZES, "--input", "A=objects.npy"], "TC0516", "objects.npy is not a .npy file", "np.save"),
        ([*SIZES, "--input", "A=cut.npy"], "TC0516", "cut.npy is not a .npy file", "np.save"),
        ([*SIZES, "--input", "A=doubles.npy"], "TC0411", "A: expected float32, found float64", "astype"),
        ([*SIZES, "--input", "A=large.npy"], "TC0504", "size K is", "shape"),
        ([*SIZES, "--input", "A=flat.npy"], "TC0503", "A: expected a tensor with 2 dimensions", "reshape"),
        ([*SIZES, "--output", "D=d.npy"], "TC0515", "mm has no result 'D'", "it has C"),
        ([*SIZES, "--output", "C=nowhere/c.npy"], "TC0516", "nowhere/c.npy: No such file", None),
        ([*SIZES, "--option", "strict=yes"], "TC0515", "--option strict=yes: not JSON", "strict='\"yes\"'"),
        ([*SIZES, "--option", "strict=1"], "TC0511", "option strict=1 is not valid", "True or False"),
        ([*SIZES, "--option", "strct=true"], "TC0511", "there is no option 'strct'", "did you mean 'strict'?"),
        ([*SIZES, "--backend", "refrence"], "TC0801", "there is no backend 'refrence'", "did you mean 'reference'?"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_run_says_what_is_wrong(run: Any, arguments: list[str], code: str, message: str, help: str | None) -> None:
    Path("text.npy").write_text("1 2 3\n4 5 6\n")
    Path("empty.npy").touch()
    np.save("doubles.npy", np.ones((3, 4)))
    np.save("large.npy", np.ones((3, 9), np.float32))
    np.save("flat.npy", np.ones(12, np.float32))
    np.save("objects.npy", np.array([None]), allow_pickle=True)
    Path("cut.npy").write_bytes(Path("large.npy").read_bytes()[:-8])
    backend = [] if "--backend" in arguments else REFERENCE
    r = run("run", "mm.tc", *backend, *arguments)
    assert r.code == 1 and r.out == ""
    assert r.err.startswith(f"error[{code}]: ") and message in r.err, r.err
    assert help is None or f"= help: {help}" in r.err or help in r.err.split("= help: ")[-1], r.err
    assert not Path("d.npy").exists()


def test_run_scalars_are_not_inputs(run: Any) -> None:
    r = run("run", "sgemm.tc", *SIZES, *REFERENCE, "--input", "a=x.npy")
    assert r.code == 1 and "help: write --scalar a=…" in r.err


def test_run_without_memory(run: Any) -> None:
    r = run("run", "mm.tc", "--size", "M=9000000000", "--size", "K=9000000000", "--size", "N=1", *REFERENCE)
    assert r.code == 1 and r.err.startswith("error[TC0517]: not enough memory"), r.err


def test_run_reports_a_disagreement(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tc import api

    honest = api.interpret
    monkeypatch.setattr(api, "interpret", lambda *a, **k: honest(*a, **k) + 1)
    r = run("run", "mm.tc", *SIZES, *REFERENCE, "--check")
    assert r.code == 1 and "oracle: DISAGREES" in r.out
    r = run("run", "mm.tc", *SIZES, *REFERENCE, "--check", "--json")
    assert r.code == 1 and r.json["ok"] is False and r.json["agrees"] is False


def test_run_index_errors(run: Any) -> None:
    Path("f.tc").write_text("def f(float(N) A, int(M) I) -> (B) { B(i) = A(max(I(i), 0)) }")
    np.save("i.npy", np.array([1, 5], np.int32))
    r = run("run", "f.tc", "--size", "N=4", "--input", "I=i.npy", *REFERENCE)
    assert r.code == 1 and "error[TC0701]: index 5 is out of range" in r.err
    r = run("run", "f.tc", "--size", "N=4", "--size", "M=100", *REFERENCE, "--check")
    assert r.code == 0, r.err  # random subscripts stay inside


# ---- show


def test_show_list(run: Any) -> None:
    r = run("show", "list")
    assert r.code == 0 and [line.split()[0] for line in r.out.splitlines()] == list(STAGES)
    assert all(what in r.out for what, _ in STAGES.values())


@pytest.mark.parametrize("stage", STAGES)
def test_show_every_stage_of_figure_1(run: Any, stage: str) -> None:
    r = run("show", stage, "sgemm.tc", *SIZES, *REFERENCE)
    assert r.code == 0 and r.err == "", r.err
    assert len(r.out) > 50 and r.out.endswith("\n")
    marks = {"asm": ".globl", "llvm": "define", "code": "sgemm(", "syntax": "def sgemm(", "dependences": "S0[i, j] ->"}
    mark = marks.get(stage, "S1[i, j, k]" if stage == "schedule" else "C")
    assert mark in r.out


@pytest.mark.parametrize("stage", [s for s, (_, sizes) in STAGES.items() if sizes])
def test_show_asks_for_sizes(run: Any, stage: str) -> None:
    r = run("show", stage, "mm.tc", *REFERENCE, "--size", "M=3")
    assert r.code == 1 and r.out == ""
    assert r.err == (
        f"error[TC0513]: '{stage}' is shown at given sizes, and K, N are not given\n  = help: add --size K=… --size N=…\n"
    )


def test_show_symbolic_stages_at_sizes(run: Any) -> None:
    assert "0 <= i < M" in run("show", "scop", "mm.tc", *REFERENCE).out
    assert "i <= 2" in run("show", "scop", "mm.tc", *REFERENCE, *SIZES).out


def test_show_all(run: Any) -> None:
    r = run("show", "all", "mm.tc", *REFERENCE, *SIZES)
    assert r.code == 0 and [line[5:].split(":")[0] for line in r.out.splitlines() if line.startswith("==== ")] == list(
        STAGES
    )
    r = run("show", "all", "mm.tc", *REFERENCE)
    assert r.code == 0 and "(needs --size M=… --size K=… --size N=…)" in r.out


def test_show_with_a_scalar(run: Any) -> None:
    source = b"def f(int s, float(N) A) -> (B) { B(i) = A(s*i) }"
    assert "depends on s" in run("show", "ranges", "-", *REFERENCE, stdin=source).out
    r = run("show", "ir", "-", *REFERENCE, stdin=source)
    assert r.code == 1 and "error[TC0513]" in r.err
    assert "(N - 1)/3" in run("show", "ir", "-", *REFERENCE, "--size", "s=3", stdin=source).out


@pytest.mark.parametrize(
    ("arguments", "code", "message", "help"),
    [
        (["lops", "mm.tc"], "TC0514", "there is no stage 'lops'", "did you mean 'loops'?"),
        (["lops"], "TC0514", "there is no stage 'lops'", "did you mean 'loops'?"),
        (["zzzzz", "mm.tc"], "TC0514", "there is no stage 'zzzzz'", "the stages are syntax, ranges"),
        (["ranges"], "TC0515", "show ranges: no file is given", "show STAGE FILE"),
        (["ir", "mm.tc", "--size", "Q=1"], "TC0513", "mm has no size or specialised scalar 'Q'", "it has K, M, N"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_show_says_what_is_wrong(run: Any, arguments: list[str], code: str, message: str, help: str) -> None:
    r = run("show", *arguments, *REFERENCE)
    assert r.code == 1 and r.out == "" and r.err.startswith(f"error[{code}]: {message}"), r.err
    assert f"= help: {help}" in r.err


# ---- format


UGLY = b"def mm(float ( M,K ) A, float(K,N) B) -> (C)\n{ C(i,j)+=!A(i,k)*B(k,j) } # end\n"


def test_format(run: Any) -> None:
    r = run("format", "-", stdin=UGLY)
    assert r.code == 0 and r.err == ""
    assert r.out == MM.rstrip("\n") + "  # end\n"
    assert run("format", "-", stdin=r.out.encode()).out == r.out


def test_format_check(run: Any) -> None:
    Path("ugly.tc").write_bytes(UGLY)
    r = run("format", "--check", "ugly.tc", "mm.tc")
    assert (r.code, r.out, r.err) == (1, "", "ugly.tc is not formatted\n")
    assert run("format", "--check", "mm.tc").code == 0
    assert Path("ugly.tc").read_bytes() == UGLY
    r = run("format", "--check", "-", stdin=UGLY)
    assert (r.code, r.err) == (1, "<stdin> is not formatted\n")


def test_format_write(run: Any) -> None:
    Path("ugly.tc").write_bytes(UGLY)
    r = run("format", "--write", "ugly.tc", "mm.tc")
    assert (r.code, r.out, r.err) == (0, "", "")
    assert run("format", "--check", "ugly.tc", "mm.tc").code == 0
    assert Path("mm.tc").read_text() == MM


def test_format_leaves_what_does_not_parse(run: Any) -> None:
    Path("x.tc").write_text("def f(")
    r = run("format", "--write", "x.tc", "mm.tc")
    assert r.code == 1 and r.err.startswith("error[TC0103]") and Path("x.tc").read_text() == "def f("
    assert run("format", "--check", "--write", "mm.tc").code == 2


# ---- doctor, demo


def test_doctor(run: Any) -> None:
    r = run("doctor")
    assert r.code == 0 and r.err == "" and f"tc {tc.__version__} on Python" in r.out
    assert "backend reference  available" in r.out
    r = run("doctor", "--json")
    assert set(r.json) == {"ok", "tc", "python", "machine", "packages", "backends", "diagnostics"}
    assert r.json["backends"]["reference"] == {"available": True, "reason": "", "remedy": ""}
    assert set(r.json["backends"]) == set(tc.backends()) and r.json["packages"]["numpy"] == np.__version__


def test_doctor_says_why_a_backend_is_missing(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tc import registry

    class Entry:
        def load(self) -> None:
            raise ModuleNotFoundError("No module named 'pycuda'")

    monkeypatch.setattr(registry, "_found", {"cuda": Entry()})
    monkeypatch.setattr(registry, "_loaded", {})
    lines = run("doctor").out.splitlines()
    assert lines[-2] == "backend cuda       not available: the backend 'cuda' does not load: No module named 'pycuda'"
    assert lines[-1].strip() == "install what it needs: pip install 'tensor-comprehensions[cuda]'"


def test_demo(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tc import commands

    r = run("demo")
    assert r.code == 0 and r.err == ""
    assert r.out.count("the oracle agrees") == len(commands.DEMOS) and "DISAGREES" not in r.out
    monkeypatch.setattr(commands, "compare", lambda *a: {"agrees": False, "difference": "all of it"})
    assert run("demo").code == 1
    assert run("demo", "--backend", "refrence").err.startswith("error[TC0801]")
