"""The programs that go step by step, at small odd sizes: every backend and every spelling is right."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tc
from benchmarks import peers
from benchmarks.agreement import compare
from benchmarks.workloads import LOOPS
from benchmarks.workloads.loops.time_steps import loop_heat3d
from benchmarks.workloads.model import Case, Workload

Array = np.ndarray[Any, Any]
ONE_EACH = list({c.family.__name__: c for c in LOOPS}.values())


def results(found: Any) -> list[Array]:
    return [np.asarray(x) for x in (found if isinstance(found, tuple | list) else (found,))]


def called(contestant: peers.Contestant, workload: Workload, args: tuple[Array, ...]) -> list[Array]:
    made = contestant.make(workload)
    found = made.call(*made.convert(args))
    return [np.asarray(made.numpy(x)) for x in (found if isinstance(found, tuple | list) else (found,))]


def agree(found: list[Array], workload: Workload, args: tuple[Array, ...]) -> None:
    assert compare(found, called(peers.JUDGE, workload, args), workload.terms) is None


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.Warning)
        yield


@pytest.mark.share(48)
@pytest.mark.parametrize("backend", ["interpret", "reference", "cpu", "opencl"])
@pytest.mark.parametrize(
    "case",
    [
        # The oracles of three dimensions take many seconds.
        pytest.param(c, id=c.name, marks=[pytest.mark.slow] if c.family is loop_heat3d else [])
        for c in LOOPS
    ],
)
def test_every_backend_is_right(case: Case, backend: str) -> None:
    workload = case.workload(tiny=True)
    args = tuple(workload.arrays(3).values())
    if backend == "interpret":
        found = tc.interpret(workload.source, *args)
    else:
        found = tc.compile(workload.source, backend)(*args)
    agree(results(found), workload, args)


@pytest.mark.share(18)
@pytest.mark.parametrize("library", ["torch", "jax", "jax+"])
@pytest.mark.parametrize("case", LOOPS, ids=lambda c: c.name)
def test_every_spelling_is_right(case: Case, library: str) -> None:
    workload = case.workload(tiny=True)
    contestant = peers.contestants()[library]
    if not contestant.handles(workload):
        assert library == "jax+"
        return
    args = tuple(workload.arrays(3).values())
    agree(called(contestant, workload, args), workload, args)


@pytest.mark.slow
@pytest.mark.parametrize("case", LOOPS, ids=lambda c: c.name)
def test_numba_is_right(case: Case) -> None:
    pytest.importorskip("numba")
    workload = case.workload(tiny=True)
    args = tuple(workload.arrays(3).values())
    agree(called(peers.Numba(), workload, args), workload, args)


def test_what_would_be_unrolled_is_not_compiled() -> None:
    inductor = peers.Inductor()
    handled = {c.family.__name__ for c in ONE_EACH if inductor.handles(c.workload(tiny=True))}
    assert {"loop_lstm", "loop_cumulative", "loop_histogram"} <= handled
    assert not handled & {"loop_heat1d", "loop_viterbi", "loop_lu"}


def test_what_a_fourier_transform_needs() -> None:
    (case,) = (c for c in LOOPS if c.family.__name__ == "loop_fft")
    arrays = case.workload(tiny=True).arrays()
    assert arrays["r"].tolist() == [0, 4, 2, 6, 1, 5, 3, 7]
    np.testing.assert_allclose(arrays["w"][1], [1, 1, -1j, -1j], atol=1e-7)
    assert not compare([np.float32([1])], [np.float64([1])], 1)
    assert compare([np.complex64([1 + 2j])], [np.complex128([1 + 3j])], 1)
