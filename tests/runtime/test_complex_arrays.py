"""Complex arrays of every library go in, come out, and take results."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import tc

SOURCE = "def f(complex64(N,M) x) -> (y) { y(m,n) = x(n,m) * 2j }"
X = (np.arange(12) + 1j * np.arange(12)[::-1]).reshape(3, 4).astype(np.complex64)


@pytest.fixture(scope="module")
def double() -> Any:
    return tc.compile(SOURCE, backend="cpu")


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor, jnp.asarray])
def test_results_are_of_the_library_of_the_first_array(double: Any, make: Any, repeats: int) -> None:
    for _ in range(repeats):  # the second call is the fast one
        found = double(make(X))
        assert type(found) is type(make(X)) and str(found.dtype).endswith("complex64")
        np.testing.assert_array_equal(np.asarray(found), 2j * X.T)


def test_strided_conjugated_and_negated_tensors(double: Any) -> None:
    x = torch.as_tensor(X)
    double(x)
    double(torch.ones(3, 4, dtype=torch.complex64))
    for view in (x.conj(), x.conj().clone(), x.flip(0)[:, ::2], torch.view_as_real(x)[:, ::2]):
        y = view if view.is_complex() else torch.view_as_complex(view)
        torch.testing.assert_close(double(y), 2j * y.T.resolve_conj())
    assert x.conj().is_conj()


def test_buffers_for_results(double: Any) -> None:
    out = torch.zeros(4, 6, dtype=torch.complex64)
    double(torch.as_tensor(X), out=out[:, ::2])
    np.testing.assert_array_equal(out[:, ::2].numpy(), 2j * X.T)
    assert not out[:, 1::2].any()
    with pytest.raises(tc.ArgumentError, match="lazily conjugated view") as caught:
        double(torch.as_tensor(X), out=torch.zeros(4, 3, dtype=torch.complex64).conj())
    assert caught.value.code == "TC0507"
    with pytest.raises(tc.DTypeError, match="expected complex64, found complex128"):
        double(X, out=np.zeros((4, 3), np.complex128))
    same = np.array(X[:3, :3])
    expected = 2j * same.T
    np.testing.assert_array_equal(double(same, out=same), expected)


def test_scalars_of_tensors() -> None:
    f = tc.compile("def f(cdouble(N) x, cdouble a) -> (y) { y(i) = a * x(i) }", backend="cpu")
    x = X[0].astype(np.complex128)
    for a in (1.5, 3 - 4j, torch.tensor(2j, dtype=torch.complex128), jnp.asarray(2.0)):
        np.testing.assert_array_equal(f(x, a), complex(a) * x)
    with pytest.raises(tc.ArgumentError, match="a is a scalar, got an array"):
        f(x, x)
