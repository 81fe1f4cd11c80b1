"""`python -m tc show`: every stage, with and without sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tc.inspection.stages import CODE, STAGES
from tests.cli.programs import REFERENCE, SIZES

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
    marks = {
        "asm": ".globl",
        "llvm": "define",
        "code": "sgemm(",
        "syntax": "def sgemm(",
        "dependences": "S0[i, j] ->",
        "choice": "no choice",
        "mapped": "nothing is mapped",
    }
    mark = marks.get(stage, "S1[i, j, k]" if stage == "schedule" else "C")
    assert mark in r.out


@pytest.mark.parametrize("stage", [s for s, (_, sizes) in STAGES.items() if sizes])
def test_show_asks_for_sizes(run: Any, stage: str) -> None:
    r = run("show", stage, "mm.tc", *REFERENCE, "--size", "M=3")
    assert r.code == 1 and r.out == ""
    assert r.err.splitlines() == [
        f"error[TC0513]: '{stage}' is shown at given sizes, and K, N are not given",
        "  = help: add --size K=… --size N=…",
    ]


def test_show_symbolic_stages_at_sizes(run: Any) -> None:
    assert "0 <= i < M" in run("show", "scop", "mm.tc", *REFERENCE).out
    assert "i <= 2" in run("show", "scop", "mm.tc", *REFERENCE, *SIZES).out


def test_show_all(run: Any) -> None:
    def shown(*more: str) -> list[str]:
        r = run("show", "all", "mm.tc", *REFERENCE, *SIZES, *more)
        assert r.code == 0, r.err
        return [x[5:].split(":")[0] for x in r.out.splitlines() if x.startswith("==== ")]

    assert shown("--code") == list(STAGES)
    assert shown() == [*(s for s in STAGES if s not in CODE), ", ".join(CODE)]
    assert shown()[-2] == "loops"
    r = run("show", "all", "mm.tc", *REFERENCE)
    assert r.code == 0 and "(needs --size M=… --size K=… --size N=…)" in r.out


def test_ranges_that_are_written_have_their_own_text(run: Any) -> None:
    source = b"def f(float(N) A) -> (B) {\n  B(i) = A(0) where i in 0:N\n}"
    assert "  where    i in 0:N\n" in run("show", "ranges", "-", *REFERENCE, stdin=source).out


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
        (["ir", "mm.tc", "--picture"], "TC0514", "there is no picture of 'ir'", "there are pictures of"),
        (
            ["schedule", "mm.tc", "--picture", "--size", "M=3"],
            "TC0513",
            "'schedule' is drawn at given sizes, and K, N are not given",
            "add --size K=… --size N=…",
        ),
        (["ir", "mm.tc", "-o", "x"], "TC0515", "show ir prints a text, and takes no --output", "redirect it"),
        (
            ["ranges", "mm.tc", "--picture", "-o", "x.png"],
            "TC0515",
            "--output x.png: a picture is an SVG file",
            "end its name in .svg",
        ),
        (["ir", "mm.tc", "--code"], "TC0515", "--code is for 'all', not for 'ir'", "write show code FILE"),
        (
            ["ir", "mm.tc", "--size", "Q=1"],
            "TC0513",
            "mm has no size or specialised scalar 'Q'",
            "it has K, M, N",
        ),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_show_says_what_is_wrong(run: Any, arguments: list[str], code: str, message: str, help: str) -> None:
    r = run("show", *arguments, *REFERENCE)
    assert r.code == 1 and r.out == "" and r.err.startswith(f"error[{code}]: {message}"), r.err
    assert f"= help: {help}" in r.err


@pytest.mark.parametrize("stage", ["schedule", "ranges"])
def test_show_draws_pictures(run: Any, stage: str) -> None:
    r = run("show", stage, "mm.tc", "--picture", *REFERENCE, *SIZES)
    assert r.code == 0 and r.out == f"mm-{stage}.svg written\n", r.err
    ElementTree.parse(f"mm-{stage}.svg")
    r = run("show", stage, "mm.tc", "--picture", *REFERENCE, *SIZES, "-o", "other.svg")
    assert r.out == "other.svg written\n"
    assert Path("other.svg").read_text() == Path(f"mm-{stage}.svg").read_text()


def test_show_html(run: Any) -> None:
    r = run("show", "html", "mm.tc", *REFERENCE, *SIZES)
    assert r.code == 0 and r.out == "mm.html written\n", r.err
    page = Path("mm.html").read_text()
    assert (
        "mm on reference" in page
        and 'id="loops"' in page
        and "http:" not in page.replace("http://www.w3", "")
    )
    r = run("show", "html", "mm.tc", *REFERENCE, "-o", "symbolic.html")
    assert r.code == 0 and "needs --size M=… --size K=…" in Path("symbolic.html").read_text()


def test_show_draws_no_schedule_of_halide(run: Any) -> None:
    r = run("show", "schedule", "mm.tc", "--picture", "--backend", "halide", *SIZES)
    assert r.code == 1 and "error[TC0514]: the backend 'halide' has no schedule tree to draw" in r.err


def test_show_a_kernel_with_a_dynamic_size(run: Any) -> None:
    sizes = ["--size", "K=3", "--size", "N=4"]
    for given in ("M", "M=7"):
        r = run("show", "loops", "mm.tc", *REFERENCE, *sizes, "--dynamic", given)
        assert r.code == 0 and "sizes M\n" in r.out, r.err
    r = run("show", "loops", "mm.tc", *REFERENCE, *sizes, "--dynamic", "m")
    assert r.code == 1 and "error[TC0513]: mm has no size 'm'" in r.err
