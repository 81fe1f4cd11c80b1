"""The operators of examples/operators against PyTorch, on every backend that runs on a processor."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import tc
from examples.operators.cases import CASES, FOLDER, Case

BACKENDS = ("interpret", "reference", "cpu", "opencl")


def test_every_file_has_a_case() -> None:
    assert sorted(p.stem for p in FOLDER.glob("*.tc")) == sorted(c.name for c in CASES)
    assert len(CASES) >= 30


def run(case: Case, backend: str, arguments: dict[str, Any]) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.DataDependentAccess)
        if backend == "interpret":
            found: Any = tc.interpret(case.source, **arguments)
        else:
            found = tc.compile(case.source, backend)(**arguments)
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.share(120)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_as_pytorch(case: Case, backend: str) -> None:
    arguments = case.arguments(case.small)
    given = [torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in arguments.values()]
    expected = case.same(*given)
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    for ours, theirs in zip(run(case, backend, arguments), expected, strict=True):
        assert np.shape(ours) == tuple(theirs.shape)
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=2e-5)
