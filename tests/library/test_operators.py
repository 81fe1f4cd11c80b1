"""The library's operators against PyTorch: results and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc

torch: Any = pytest.importorskip("torch")
table: Any = pytest.importorskip("tests.library.table")
library: Any = tc.library
CASES = table.CASES
IDS = [f"{k}-{c.name}" for k, c in enumerate(CASES)]


def several(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def wide(x: Any) -> Any:
    return x.double() if x.dtype.is_floating_point else x


def variant(c: Any) -> str:
    return library.operators()[c.name].arguments(**c.make(torch.float64), **c.keywords).variant.name


def check(c: Any, dtype: Any, run: Callable[..., Any]) -> None:
    given = c.make(dtype)
    wanted = several(c.expect(*map(wide, given.values()), **c.keywords))
    found = several(run(**{n: x.numpy() for n, x in given.items()}, **c.keywords))
    assert len(found) == len(wanted)
    eps = (1e-5 if dtype == torch.float32 else 1e-13) * c.tolerance
    for f, w in zip(found, wanted, strict=True):
        assert tuple(np.shape(f)) == tuple(w.shape)
        kind = np.asarray(f).dtype
        assert not w.dtype.is_floating_point or kind == (np.float32 if dtype == torch.float32 else np.float64)
        np.testing.assert_allclose(np.asarray(f, np.float64), w.double().numpy(), rtol=4 * eps, atol=4 * eps)


@pytest.mark.share(72)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("c", CASES, ids=IDS)
def test_results(c: Any, dtype: str) -> None:
    check(c, getattr(torch, dtype), library.operators()[c.name])


@pytest.mark.share(36)
@pytest.mark.parametrize("backend", ["reference", pytest.param("opencl", marks=pytest.mark.slow)])
@pytest.mark.parametrize("c", CASES, ids=IDS)
def test_results_of_other_backends(c: Any, backend: str) -> None:
    op = library.operators()[c.name]

    def run(**given: Any) -> Any:
        call = op.arguments(**given)
        found = op.kernel(call.dtype, call.variant.name, backend=backend)(*call.values)
        return op.as_called(call, found)

    check(c, torch.float32, run)


@pytest.mark.share(108)
@pytest.mark.parametrize("c", CASES, ids=IDS)
def test_gradients(c: Any) -> None:
    """Against differences, and against PyTorch's own."""
    op = library.operators()[c.name]
    given = c.make(torch.float64)
    varied = [n for n, x in given.items() if x.dtype.is_floating_point]
    for n in varied:
        given[n].requires_grad_()

    def run(*values: Any) -> Any:
        return op(**{**given, **dict(zip(varied, values, strict=True))}, **c.keywords)

    if op.header.gradient:
        found = [y for y in several(run(*(given[n] for n in varied))) if y.dtype.is_floating_point]
        assert not any(y.requires_grad for y in found) or op.header.gradient
        return
    values = [given[n] for n in varied]
    assert torch.autograd.gradcheck(run, values, atol=1e-6, rtol=1e-5)
    theirs_of = {n: x.detach() if n in c.frozen else x for n, x in given.items()}
    wanted = several(c.expect(*theirs_of.values(), **c.keywords))
    found = several(run(*values))
    pairs = [(f, w) for f, w in zip(found, wanted, strict=True) if f.dtype.is_floating_point]
    weights = [torch.rand(w.shape, dtype=w.dtype) for _, w in pairs]
    compared = [given[n] for n in varied if n not in c.frozen]
    ours, theirs = (
        torch.autograd.grad(sum((p[k] * w).sum() for p, w in zip(pairs, weights, strict=True)), compared)
        for k in (0, 1)
    )
    for f, w in zip(ours, theirs, strict=True):
        torch.testing.assert_close(f, w, rtol=1e-9, atol=1e-9)


def test_every_def_has_a_case() -> None:
    called = {variant(c) for c in CASES}
    assert called == {v for op in library.operators().values() for v in op.variants}
