"""`python -m tc bench`: contestants, their errors, and what is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tc.cli import bench, bench_report, bench_run, bench_worker
from tc.dtypes import BY_NAME
from tc.errors import ArgumentError
from tests.cli.programs import REFERENCE

SIZES = ["--size", "M=3,K=4,N=5"]
QUICK = [*REFERENCE, *SIZES, "--rounds", "2", "--threads", "1"]


def test_a_spelling_that_agrees_is_timed(run: Any) -> None:
    r = run("bench", "mm.tc", *QUICK, "--against", "numpy: A @ B", "--plot", "times.png")
    assert r.code == 0, r.err
    head, names, ours, theirs, plot = r.out.splitlines()
    assert head == "mm, M=3, K=4, N=5: 1 thread, 2 rounds"
    assert names.split() == ["best", "us", "median", "us", "times", "ours", "95", "%"]
    assert ours.startswith("tc on reference ") and theirs.startswith("numpy: A @ B ")
    assert float(theirs.split()[4]) > 0 and " to " in theirs
    assert plot == "times: times.png" and Path("times.png").read_bytes().startswith(b"\x89PNG")


def test_in_out_results_and_json(run: Any) -> None:
    against = "numpy: b * C + a * (A @ B)"
    sizes = ["--size", "N=5,M=3,K=4", "--scalar", "a=2", "--data", "integers"]
    r = run("bench", "sgemm.tc", *REFERENCE, *sizes, "--rounds", "1", "--against", against, "--json")
    assert r.code == 0, r.err
    assert r.json["sizes"] == {"N": 5, "M": 3, "K": 4} and r.json["kernel"] == "sgemm"
    assert [x["name"] for x in r.json["rows"]] == ["tc", against]
    assert set(r.json["rows"][1]) == {"name", "best_us", "median_us", "ratio", "low", "high"}


@pytest.mark.parametrize(
    ("against", "said"),
    [
        ("A @ B", "not of the form 'LIBRARY: EXPRESSION'"),
        ("numpy:", "not of the form"),
        ("nunpy: A @ B", "did you mean 'numpy'?"),
    ],
)
def test_what_is_no_spelling(run: Any, against: str, said: str) -> None:
    r = run("bench", "mm.tc", *QUICK, "--against", against)
    assert r.code == 1 and "TC0515" in r.err and said in r.err


@pytest.mark.parametrize(
    ("against", "said"),
    [
        ("A @ B + 1", "C differs by 1, where"),
        pytest.param("(A @ B)[0]", "C has the shape (5,), and that of mm has (3, 5)", marks=pytest.mark.slow),
        pytest.param("(A, B)", "gives 2 results, and mm gives 1", marks=pytest.mark.slow),
        pytest.param("A @ C", "NameError: name 'C' is not defined", marks=pytest.mark.slow),
        pytest.param("A @", "SyntaxError: invalid syntax", marks=pytest.mark.slow),
        pytest.param("exit(3)", "its process ended with 3", marks=pytest.mark.slow),
    ],
)
def test_a_spelling_that_fails_or_differs(run: Any, against: str, said: str) -> None:
    r = run("bench", "mm.tc", *QUICK, "--data", "integers", "--against", f"numpy: {against}")
    assert r.code == 1 and "TC0529" in r.err and said in r.err and r.out == ""


def test_spellings_of_torch() -> None:
    arguments = {"x": np.ones((2, 3), np.float32), "in": np.ones(3), "s": 2.0}
    spelling = bench_worker.Spelling("torch", "F.relu(x) * s, x.sum(1)", arguments)
    first, second = spelling.results()
    np.testing.assert_array_equal(first, np.full((2, 3), 2.0, np.float32))
    np.testing.assert_array_equal(second, [3, 3])


@pytest.mark.parametrize(
    ("dtype", "ours", "theirs", "said"),
    [
        ("float32", [1.0, 1000.0], [1.00001, 1000.0], ""),
        ("float32", [1.0, 1000.0], [2.0, 1000.0], "differs by 1, where elements are up to 1e+03"),
        ("float32", [np.nan, np.inf], [np.nan, np.inf], ""),
        ("float32", [np.nan, 1.0], [0.0, 1.0], "differs by inf, where elements are up to 1"),
        ("float64", [1.0], [1 + 1e-9], "differs by 1e-09, where elements are up to 1"),
        ("float16", [1.0], [1.002], ""),
        ("int32", [1, 2], [1, 3], "differs in 1 of 2 elements"),
        ("float32", [], [], ""),
    ],
)
def test_difference(dtype: str, ours: list[Any], theirs: list[Any], said: str) -> None:
    assert bench_run.difference(ours, theirs, BY_NAME[dtype]) == said


def test_a_table_cuts_long_names() -> None:
    rows = bench_report.rows_of({"tc": [1e-6, 2e-6, 3e-6], "numpy: " + "x" * 80: [2e-6, 4e-6, 6e-6]})
    assert rows[0].ratio is None and rows[1].ratio is not None and rows[1].ratio.ratio == 2
    assert rows[0].best == 1e-6 and rows[0].median == 2e-6


def test_a_plot_of_no_format(tmp_path: Path) -> None:
    rows = bench_report.rows_of({"tc": [1e-6]})
    with pytest.raises(ArgumentError, match="--plot") as e:
        bench_report.draw("f", rows, tmp_path / "times.nothing")
    assert e.value.code == "TC0515"


def test_peers() -> None:
    assert bench.peer("torch:  F.relu(x)[:, 0] ") == bench.Peer("torch", "F.relu(x)[:, 0]")
