"""`python -m tc run`: files, scalars, in/out results, and what is wrong with an argument."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.tuner.data import make_arguments
from tests.cli.programs import MM, REFERENCE, SIZES

# ---- run


def test_run_with_files_saves_what_numpy_computes(run: Any) -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-9, 9, (3, 4)).astype(np.float32)
    b = rng.integers(-9, 9, (4, 5)).astype(np.float32)
    np.save("a.npy", a)
    np.save("b.npy", np.asfortranarray(b))
    r = run(
        "run",
        "mm.tc",
        *REFERENCE,
        "--input",
        "A=a.npy",
        "--input",
        "B=b.npy",
        "--output",
        "C=c.out",
        "--check",
    )
    assert r.code == 0, r.err
    np.testing.assert_array_equal(np.load("c.out"), a @ b)


def test_run_json_has_stable_keys(run: Any) -> None:
    r = run("run", "mm.tc", *SIZES, *REFERENCE, "--json", "--check")
    assert r.code == 0 and r.err == ""
    assert set(r.json) == {
        "ok",
        "results",
        "backend",
        "compile_ms",
        "run_us",
        "agrees",
        "difference",
        "diagnostics",
    }
    assert r.json["backend"] == "reference" and r.json["diagnostics"] == [] and r.json["agrees"] is True
    assert set(r.json["results"]["C"]) == {"dtype", "shape", "summary"} and r.json["results"]["C"][
        "shape"
    ] == [3, 5]
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
    a, b, c = (
        np.arange(n, dtype=np.float32).reshape(s) for n, s in ((15, (5, 3)), (12, (3, 4)), (20, (5, 4)))
    )
    for name, x in {"A": a, "B": b, "C": c}.items():
        np.save(f"{name}.npy", x)
    inputs = [x for n in "ABC" for x in ("--input", f"{n}={n}.npy")]
    r = run(
        "run", "sgemm.tc", *REFERENCE, *inputs, "--scalar", "a=2", "--scalar", "b=3", "--output", "C=o.npy"
    )
    assert r.code == 0, r.err
    np.testing.assert_array_equal(np.load("o.npy"), 3 * c + 2 * (a @ b))
    np.testing.assert_array_equal(np.load("C.npy"), c)


def test_run_accumulates_into_what_is_given(run: Any) -> None:
    Path("f.tc").write_text("def f(float(N) A) -> (s, t) { s += A(i) t(i) += A(i) }")
    np.save("a.npy", np.array([1, 2, 4], np.float32))
    np.save("t.npy", np.array([10, 20, 30], np.float32))
    r = run(
        "run",
        "f.tc",
        *REFERENCE,
        "--input",
        "A=a.npy",
        "--input",
        "t=t.npy",
        "--output",
        "t=o.npy",
        "--check",
    )
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
    assert run("run", "two.tc", "--size", "N=2", *REFERENCE, "--option", "strict=true").out.startswith(
        "B: float16"
    )
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
        (
            [*SIZES, "--option", "strct=true"],
            "TC0511",
            "there is no option 'strct'",
            "did you mean 'strict'?",
        ),
        (
            [*SIZES, "--backend", "refrence"],
            "TC0801",
            "there is no backend 'refrence'",
            "did you mean 'reference'?",
        ),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_run_says_what_is_wrong(
    run: Any, arguments: list[str], code: str, message: str, help: str | None
) -> None:
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


def test_random_data_stay_inside_what_they_index_also_where_they_scatter() -> None:
    source = """
    def f(int(N) bin, int(N) row, float(N) x, float(K) start, float(R,2) table) -> (h) {
      h(k) = start(k)
      h(bin(i)) += x(i) * table(row(i), 1)
    }"""
    with pytest.warns(tc.DataDependentAccess):
        kernel = tc.compile(source, "reference")
    arguments, _ = make_arguments(kernel, {"N": 500, "K": 3, "R": 4}, {}, {})
    assert set(arguments["bin"]) == {0, 1, 2}
    assert set(arguments["row"]) == {0, 1, 2, 3}


# ---- flags


def test_several_values_follow_one_flag(run: Any) -> None:
    want = run("run", "mm.tc", *SIZES, *REFERENCE, "--output", "C=a.npy").out
    for sizes in (
        ["--size", "M=3", "K=4", "N=5", "mm.tc"],
        ["mm.tc", "--size", "M=3,K=4", "N=5"],
        ["--size=M=3", "N=5", "K=4", "mm.tc"],
    ):
        r = run("run", *REFERENCE, *sizes, "--output", "C=b.npy")
        assert r.code == 0 and r.out.splitlines()[0] == want.splitlines()[0]
        np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))
    r = run("run", *REFERENCE, "--size", "M=3", "K=4", "N=5", "mm.tc", "more.tc")
    assert r.code == 2 and "unrecognized arguments: more.tc" in r.err


@pytest.mark.parametrize("command", [["show", "loops"], ["show", "all"], ["tune", "--trials", "1"]])
def test_a_file_may_stand_behind_flags(run: Any, command: list[str]) -> None:
    r = run(*command, "--backend", "cpu", *SIZES, "mm.tc")
    assert (r.code, r.err) == (0, "") and r.out
    assert run(*command, "--backend", "cpu", *SIZES, "mm.tc", "--nothing").code == 2


def test_normal_data(run: Any) -> None:
    drawn = [run("run", "mm.tc", *SIZES, *REFERENCE, "--data", d, "--check") for d in ("normal", "integers")]
    assert all(r.code == 0 and "oracle: agrees" in r.out for r in drawn)
    values = [float(r.out.partition("[")[2].partition(",")[0]) for r in drawn]
    assert values[0] != round(values[0]) and values[1] == round(values[1])


def test_data_of_an_archive(run: Any) -> None:
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 2), np.float32)
    np.savez("data.npz", A=a, B=b)
    r = run("run", "mm.tc", *REFERENCE, "--data", "data.npz", "--output", "C=c.npy")
    assert r.code == 0
    np.testing.assert_array_equal(np.load("c.npy"), a @ b)
    np.save("other.npy", 2 * a)  # what is named on the command line goes first
    assert (
        run(
            "run", "mm.tc", *REFERENCE, "--data", "data.npz", "--input", "A=other.npy", "--output", "C=c.npy"
        ).code
        == 0
    )
    np.testing.assert_array_equal(np.load("c.npy"), 2 * a @ b)
    source = b"def f(float(N) x, float a, int32 k) -> (y) { y(i) = a * x(i) + k }"
    np.savez("scaled.npz", x=a[0], a=np.float32(0.25), k=3)
    r = run("run", "-", *REFERENCE, "--data", "scaled.npz", "--output", "y=y.npy", stdin=source)
    assert r.code == 0
    np.testing.assert_array_equal(np.load("y.npy"), a[0] / 4 + 3)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (
            "nromal",
            "error[TC0515]: --data nromal: it is normal or integers, or a .npz file\n  = help: did you",
        ),
        (
            "one.npy",
            "error[TC0515]: --data one.npy: it is normal or integers, or a .npz file\n"
            "  = help: a .npy file is of one array: --input NAME=FILE.npy",
        ),
        ("absent.npz", "error[TC0516]: absent.npz: No such file"),
        ("text.npz", "error[TC0516]: text.npz is not a .npz file of numbers"),
        ("objects.npz", "error[TC0516]: objects.npz is not a .npz file of numbers"),
        ("names.npz", "error[TC0515]: mm has no input 'Z'\n  = help: it has A, B"),
    ],
)
def test_data_that_cannot_be_used(run: Any, data: str, says: str) -> None:
    Path("text.npz").write_text("A = 1")
    np.savez("objects.npz", A=np.array([{}], dtype=object))
    np.savez("names.npz", Z=np.ones(3))
    r = run("run", "mm.tc", *SIZES, *REFERENCE, "--data", data)
    assert r.code == 1 and r.err.startswith(says) and r.out == ""
