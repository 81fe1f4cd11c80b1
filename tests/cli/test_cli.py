"""The command line as a process; sources that cannot be read; `check`, `format`, `doctor`, `demo`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tests.cli.programs import MM, REFERENCE, SIZES


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
    command = " ".join([sys.executable, "-m tc show all mm.tc", *REFERENCE, *SIZES, "| head -1"])
    p = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert p.stdout.startswith("==== syntax") and p.stderr == ""


def test_an_ascii_terminal_is_no_error(tmp_path: Path) -> None:
    p = python("check", "-", folder=tmp_path, text="", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert p.returncode == 1 and p.stderr.startswith("error[TC0103]") and "Traceback" not in p.stderr


def test_a_bug_is_reported_as_one(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tc.cli import commands

    def broken(*args: Any) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(commands, "arguments_of", broken)
    r = run("run", "mm.tc", *SIZES, *REFERENCE)
    assert r.code == 3 and r.out == "" and r.err.startswith("error[TC0901]: a bug in tc: ZeroDivisionError")
    assert "reproducer" in r.err
    r = run("run", "mm.tc", *SIZES, *REFERENCE, "--json")
    assert r.code == 3 and r.json["ok"] is False and r.json["diagnostics"][0]["category"] == "InternalError"


def test_an_interrupt_is_quiet(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tc.cli import commands

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


@pytest.mark.parametrize(
    "command", [["check"], ["format"], ["run", *SIZES], ["show", "ranges"]], ids=lambda c: c[0]
)
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
def test_files_that_are_no_source(
    run: Any, command: list[str], data: bytes | None, code: str, place: str
) -> None:
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


def test_check_goes_on_after_a_file_that_is_not_there(run: Any) -> None:
    Path("x.tc").write_text("def f(")
    r = run("check", "x.tc", "none.tc", "mm.tc")
    assert r.code == 1 and r.out == "mm.tc: 1 def, no errors\n" and "error[TC0516]: none.tc" in r.err
    r = run("check", "--json", "x.tc", "none.tc", "mm.tc")
    assert [d["code"] for d in r.json["diagnostics"]] == ["TC0103", "TC0516"]
    assert r.json["files"] == {"x.tc": [], "none.tc": [], "mm.tc": ["mm"]}


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
    assert r.json["backends"]["reference"] == {
        "available": True,
        "compiles": True,
        "reason": "",
        "remedy": "",
    }
    assert set(r.json["backends"]) == set(tc.backends()) and r.json["packages"]["numpy"] == np.__version__


def test_doctor_says_why_a_backend_is_missing(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tc import registry

    class Entry:
        def load(self) -> None:
            raise ModuleNotFoundError("No module named 'pycuda'")

    monkeypatch.setattr(registry, "_found", {"cuda": Entry()})
    monkeypatch.setattr(registry, "_loaded", {})
    lines = run("doctor").out.splitlines()
    assert (
        lines[-2]
        == "backend cuda       not available: the backend 'cuda' does not load: No module named 'pycuda'"
    )
    assert lines[-1].strip() == "install what it needs: pip install 'tensor-comprehensions[cuda]'"


def test_demo(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tc.cli import demo

    r = run("demo", "programs", "--backend", "reference")
    assert r.code == 0 and r.err == ""
    assert r.out.count("the oracle agrees") == len(demo.DEMOS) and "DISAGREES" not in r.out
    monkeypatch.setattr(demo, "DEMOS", demo.DEMOS[:1])
    monkeypatch.setattr(demo, "compare", lambda *a: {"agrees": False, "difference": "all of it"})
    assert run("demo", "programs", "--backend", "reference").code == 1
    assert run("demo", "programs", "--backend", "refrence").err.startswith("error[TC0801]")
    assert "did you mean 'photo'?" in run("demo", "foto").err


def test_demo_of_a_photo(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image
    from sklearn import datasets

    picture = np.random.default_rng(0).integers(0, 256, (12, 14, 3)).astype(np.uint8)
    monkeypatch.setattr(datasets, "load_sample_image", lambda name: picture)
    r = run("demo", "photo", "--backend", "reference", "--output", "pictures")
    assert r.code == 0 and "14×12 pixels" in r.out and "the oracle agrees" in r.out
    np.testing.assert_array_equal(np.asarray(Image.open("pictures/before.png")), picture)
    assert np.asarray(Image.open("pictures/after.png")).shape == picture.shape


def test_demo_of_peers_shows_medians(tmp_path: Path) -> None:
    from tc.cli import demo_peers

    medians = {"a": {"tc": 1e-6, "numpy": 3e-6}, "longer": {"tc": 2e-4, "numpy": 1e-4}}
    head, first, second = demo_peers.table(medians, ["tc", "numpy"]).splitlines()
    assert head.split() == ["us", "a", "call,", "median", "tc", "numpy", "numpy", "/", "tc"]
    assert first.split() == ["a", "1.0", "3.0", "3.00"] and second.split() == [
        "longer",
        "200.0",
        "100.0",
        "0.50",
    ]
    demo_peers.draw(medians, ["tc", "numpy"], tmp_path / "peers.png")
    assert (tmp_path / "peers.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_demo_of_peers(run: Any) -> None:
    r = run("demo", "peers")
    assert r.code == 0 and "attention" in r.out and "DISAGREES" not in r.out
    assert Path("tc-demo/peers.png").exists()


# ---- cache


def test_cache_reports_and_clears(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tc.cache.disk import Store, digest

    directory = tmp_path / "kernels"
    monkeypatch.setenv("TC_CACHE_DIR", str(directory))
    r = run("cache")
    assert (r.code, r.out, r.err) == (0, f"{directory}\n0 kernels, 0 bytes of {1 << 30}\n", "")
    assert not directory.exists()
    store = Store(directory)
    for n in range(3):
        store.put(digest(n), bytes(100))
    bytes_kept = store.size()
    assert run("cache").out.endswith(f"\n3 kernels, {bytes_kept} bytes of {1 << 30}\n")
    assert run("cache", "--path").out == f"{directory}\n"
    monkeypatch.setenv("TC_CACHE_MIB", "5")
    report = {"directory": str(directory), "on": True, "kernels": 3, "bytes": bytes_kept, "limit": 5 << 20}
    assert run("cache", "--json").json == {"ok": True, **report, "diagnostics": []}
    monkeypatch.setenv("TC_CACHE", "0")
    r = run("cache", "--clear")
    assert r.out.endswith(f"\n3 removed, 0 kernels, 0 bytes of {5 << 20} (TC_CACHE is off)\n")
    assert store.entries() == []
    assert run("cache", "--clear", "--json").json["removed"] == 0
    assert run("cache", "--clear", "--path").code == 2


def test_cache_says_why_a_directory_is_of_no_use(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_CACHE_DIR", "/dev/null/kernels")
    r = run("cache")
    assert r.code == 0 and r.out.startswith("/dev/null/kernels\n0 kernels")
    assert r.err.startswith("warning[TC1005]: compiled kernels are not kept: /dev/null/kernels")
    monkeypatch.setenv("TC_CACHE_MIB", "much")
    r = run("cache", "--json")
    assert r.code == 1 and r.json["diagnostics"][0]["code"] == "TC0512"
