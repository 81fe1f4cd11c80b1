"""The programs of PolyBench at small odd sizes: every backend and every spelling gives what NumPy's does."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tc
from benchmarks import native, peers
from benchmarks.spellings import families, in_c
from benchmarks.workloads import POLYBENCH
from benchmarks.workloads.model import Case, Workload

Array = np.ndarray[Any, Any]
IDS = [case.family.__name__ for case in POLYBENCH]


def results(found: Any) -> list[Array]:
    return [np.asarray(x) for x in (found if isinstance(found, tuple | list) else (found,))]


def wanted(workload: Workload, args: tuple[Array, ...]) -> list[Array]:
    made = peers.JUDGE.make(workload)
    return results(made.call(*made.convert(args)))


def agree(found: list[Array], right: list[Array]) -> None:
    """Integers are equal; floats differ by 1e-12 of the largest at most."""
    for x, y in zip(found, right, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        if x.dtype.kind == "i":
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * max(1.0, float(np.abs(y).max())))


def test_there_are_thirty() -> None:
    assert len({case.family.__name__ for case in POLYBENCH}) == 30
    for name in IDS:
        assert name in families("numpy") and name in families("numba") and in_c(name), name


@pytest.mark.share(48)
@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu", "opencl"])
@pytest.mark.parametrize("case", POLYBENCH, ids=IDS)
def test_every_backend_is_right(backend: str, case: Case) -> None:
    workload = case.workload(tiny=True)
    args = tuple(workload.arrays(3).values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        if backend == "interpret":
            found = tc.interpret(workload.source, *args)
        else:
            found = tc.compile(workload.source, backend)(*args)
    agree(results(found), wanted(workload, args))


@pytest.mark.slow
@pytest.mark.parametrize("case", POLYBENCH, ids=IDS)
def test_numba_is_right(case: Case) -> None:
    pytest.importorskip("numba")
    workload = case.workload(tiny=True)
    args = tuple(workload.arrays(3).values())
    agree(results(peers.Numba().make(workload).call(*args)), wanted(workload, args))


@pytest.mark.slow
@pytest.mark.parametrize("polly", [False, True])
@pytest.mark.parametrize("case", POLYBENCH, ids=IDS)
def test_c_is_right(case: Case, polly: bool) -> None:
    reason = native.missing(polly)
    if reason:
        pytest.skip(reason)
    workload = case.workload(tiny=True)
    args = tuple(workload.arrays(3).values())
    agree(results(native.compiled(workload, polly)(*args)), wanted(workload, args))


def test_a_machine_without_clang_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.shutil, "which", lambda name: None)
    native.missing.cache_clear()
    assert peers.available("clang") == peers.available("polly") == "clang is not installed"
    native.missing.cache_clear()


def test_inputs_are_what_their_fill_says() -> None:
    by_family = {c.family.__name__: c for c in POLYBENCH}
    (spd,) = by_family["poly_cholesky"].workload(tiny=True).arrays().values()
    assert np.array_equal(spd, spd.T) and np.linalg.eigvalsh(spd).min() > 1
    (lu,) = by_family["poly_lu"].workload(tiny=True).arrays().values()
    assert (np.abs(np.diag(lu)) > np.abs(lu).sum(0) - np.abs(np.diag(lu))).all()
    (r,) = by_family["poly_durbin"].workload(tiny=True).arrays().values()
    assert np.abs(r).sum() <= 1
