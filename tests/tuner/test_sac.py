"""Programs in the SaC notation: children compile them for the ranks of the call and know their results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.cli.tune import _sizes  # pyright: ignore[reportPrivateUsage]
from tc.tuner.api import job_of
from tc.tuner.check import expected

ALONG = "{ iv -> sum({ [j] -> A[iv ++ [j]] }) | iv < drop([-1], shape(A)) }"


def test_jobs(tmp_path: Path) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    kernel: Any = tc.compile(ALONG, lang="sac", backend="cpu")
    job = replace(job_of(kernel.kernel_for(a), (a,), {}, None, 0), scratch=tmp_path)
    assert job.lang == "sac" and [(n, rank) for n, rank, _ in job.known] == [("A", 3)]
    np.testing.assert_array_equal(job.kernel("cpu")(a), a.sum(-1))
    ((where, values),) = expected(job).values()
    assert len(where) == job.points
    np.testing.assert_array_equal(values, a.sum(-1)[tuple(where.T)])


@pytest.mark.slow
def test_a_search() -> None:
    a = np.ones((30, 40))
    kernel: Any = tc.compile(ALONG, lang="sac", backend="cpu").kernel_for(a)  # type: ignore[attr-defined]
    tuned = kernel.tune(a, trials=2, budget=60, show=False)
    assert tuned.trials and not any(t.status == "wrong" for t in tuned.trials)
    np.testing.assert_array_equal(tuned.kernel(a), a.sum(-1))


def test_sizes_of_the_command() -> None:
    assert _sizes(["M=32,N=64"], "--size") == [{"M": 32, "N": 64}]
    assert _sizes(["M=32,64", "N=8"], "--size") == [{"M": 32, "N": 8}, {"M": 64, "N": 8}]
    assert _sizes(["M=32,64,N=8"], "--size") == [{"M": 32, "N": 8}, {"M": 64, "N": 8}]
    with pytest.raises(tc.ArgumentError):
        _sizes(["M=32,M=8"], "--size")
