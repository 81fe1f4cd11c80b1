"""Programs in the other notation give the same results, and what has no counterpart is an error."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.api import checked_front
from tc.cli.main import main
from tc.cli.translate import to_sac, to_tc
from tc.errors import Source
from tests.conformance.cases import SEEDS, Case
from tests.sac.table import TABLE

# The condition of `take` on sizes has no counterpart.
WITH_ONE = [x for x in TABLE if not x[1].startswith("take")]


def kernel(source: str, *args: Any) -> Any:
    made: Any = tc.compile(source, lang="sac", backend="reference")
    return made.kernel_for(*args) if hasattr(made, "kernel_for") else made


@pytest.mark.parametrize(("place", "source", "args", "expected"), WITH_ONE)
def test_sac_to_tc(place: str, source: str, args: tuple[Any, ...], expected: Any) -> None:
    text = to_tc(kernel(source, *args).front)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        found = tc.interpret(text, *args)
        assert np.shape(found) == np.shape(expected)
        assert np.array_equal(found, expected)
        back = to_sac(checked_front(Source(text), None))
        again = tc.interpret(back, *args, lang="sac")
    assert np.array_equal(again, expected)


def arguments(case: Case, dtype: str) -> list[Any]:
    made: Any = tc.compile(case.source.replace("{T}", dtype), "reference", case.entry)
    rng = np.random.default_rng(1)
    args: list[Any] = []
    for p in made.front.checked.params:
        if not hasattr(p, "dims"):
            args.append(case.scalars.get(p.name, 2))
            continue
        shape = [case.sizes[d.name] if hasattr(d, "name") else d.value for d in p.dims]
        limit = case.limits.get(p.name)
        low, high = (0, limit) if limit is not None else (-2, 3)
        declared = made.front.typed.dtype(p).name
        args.append(rng.integers(low, high, shape).astype(declared))
    return args


@pytest.mark.slow
def test_tc_to_sac() -> None:
    """The programs of the seeds: most have a counterpart."""
    translated, refused = 0, []
    for case in SEEDS:
        dtype = "float32" if "float32" in case.dtypes else "int32"
        source = case.source.replace("{T}", dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tc.Warning)
            try:
                text = to_sac(checked_front(Source(source), case.entry))
            except tc.SemanticError as e:
                assert e.code == "TC0267", e
                refused.append((case.name, e.message))
                continue
            args = arguments(case, dtype)
            wanted = tc.interpret(source, *args, entry=case.entry)
            found = tc.interpret(text, *args, lang="sac")
            many = isinstance(wanted, tuple)
            for w, f in zip(wanted if many else [wanted], found if many else [found], strict=True):
                assert np.asarray(w).shape == np.asarray(f).shape, (case.name, text)
                np.testing.assert_allclose(f, w, rtol=1e-5, atol=1e-5, err_msg=f"{case.name}\n{text}")
            compiled: Any = tc.compile(text, lang="sac", backend="reference")(*args)
            for w, f in zip(wanted if many else [wanted], compiled if many else [compiled], strict=True):
                np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-4, err_msg=f"{case.name}\n{text}")
        translated += 1
    assert translated > len(refused), refused


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("def f(float16(N) A) -> (B) { B(i) = A(i) }", "float16"),
        ("def 2f(float(N) A) -> (B) { B(i) = A(i) }", "the name 2f"),
        ("def f(float(N) A) -> (B) { B(i) = rsqrt(A(i)) }", "rsqrt"),
    ],
)
def test_no_counterpart(source: str, what: str) -> None:
    with pytest.raises(tc.Error) as e:
        to_sac(checked_front(Source(source), None))
    assert e.value.code == "TC0267" and what in e.value.message


def test_a_condition_on_sizes_has_no_counterpart() -> None:
    with pytest.raises(tc.SemanticError, match="'take' beyond the extent"):
        to_tc(kernel("take(3, v)", np.zeros(4)).front)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sac, tcs = tmp_path / "a.sac", tmp_path / "a.tc"
    sac.write_text("{ [i,j] -> A[j,i] }")
    assert main(["translate", str(sac), "--to", "tc", "--rank", "A=2:float"]) == 0
    tcs.write_text(capsys.readouterr().out)
    assert "def expression(float(A_0,A_1) A) -> (result)" in tcs.read_text()
    assert main(["translate", str(tcs), "--to", "sac"]) == 0
    text = capsys.readouterr().out
    np.testing.assert_array_equal(
        tc.interpret(text, np.eye(2, 3, dtype=np.float32), lang="sac"), np.eye(3, 2)
    )
    assert main(["translate", str(sac), "--to", "sac"]) == 0
    assert capsys.readouterr().out == "{ [i, j] -> A[j, i] }\n"
    tcs.write_text("def f(float(N) A) -> (B) { B(i) = rsqrt(A(i)) }")
    assert main(["translate", str(tcs), "--to", "sac"]) == 1
    assert "no counterpart" in capsys.readouterr().err
