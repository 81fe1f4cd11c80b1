"""The programs of any rank at ranks 1 to 5, of odd, single and empty extents: a kernel for each rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tests.sac.table import ALONG, INNER, inner

Array = np.ndarray[Any, Any]
BACKENDS = [n for n in ("reference", "cpu", "opencl") if tc.backends()[n].ok]
SHAPES: list[tuple[int, ...]] = [
    *((7,), (1,), (0,)),
    *((3, 5), (1, 1), (1, 5), (0, 6), (3, 0)),
    *((2, 3, 4), (1, 1, 1), (2, 0, 3), (3, 1, 5)),
    *((2, 3, 2, 3), (1, 1, 1, 1), (2, 3, 0, 1)),
    *((2, 1, 3, 2, 3), (1, 1, 1, 1, 1), (1, 0, 2, 1, 2)),
]
NORMALISE = (
    "{ iv -> { [j] -> A[iv ++ [j]] / (sum({ [k] -> A[iv ++ [k]] * A[iv ++ [k]] }) + 1) } "
    "| iv < drop([-1], shape(A)) }"
)
CLOSED = """
double[*] inc(double[*] A) { return { iv -> A[iv] + 1 | iv < shape(A) }; }
double[*] twice(double[*] A) { return inc(inc(A)); }
"""


def shifted(a: Array) -> Array:
    out = np.zeros_like(a)
    out[1:] = a[:-1]
    return out


def whole(a: Array) -> Array:
    return a / ((a * a).sum(-1, keepdims=True) + 1)


# (name, source, the same in NumPy)
PROGRAMS: list[tuple[str, str, Any]] = [
    ("inc", "{ iv -> A[iv] + 1 }", lambda a: a + 1),
    ("inc rows", "{ [i] -> A[i] + 1 }", lambda a: a + 1),
    ("sum along", ALONG, lambda a: a.sum(-1)),
    ("normalise", NORMALISE, whole),
    ("inner", INNER, inner),
    ("twice", CLOSED, lambda a: a + 2),
    ("reverse", "reverse(A)", lambda a: a[::-1]),
    ("transpose", "transpose(A)", lambda a: a.T),
    ("shift", "shift(1, A)", shifted),
    ("outermost last", "{ [...,i] -> A[i] | [i] < take([1], shape(A)) }", lambda a: np.moveaxis(a, 0, -1)),
    ("first by second", "{ iv -> iv[0] < 1 ? A[iv] : -A[iv] }", lambda a: np.concatenate([a[:1], -a[1:]])),
    ("all", "sum(A)", lambda a: a.sum()),
]


@pytest.mark.share(48)
@pytest.mark.parametrize("name", [n for n, _, _ in PROGRAMS])
@pytest.mark.parametrize("backend", BACKENDS)
def test_ranks(name: str, backend: str) -> None:
    source, expected = next((s, e) for n, s, e in PROGRAMS if n == name)
    kernel: Any = tc.compile(source, lang="sac", backend=backend)
    for shape in SHAPES:
        a = np.arange(np.prod(shape), dtype=np.float64).reshape(shape) % 7 - 3
        found, wanted = kernel(a), expected(a)
        assert np.shape(found) == np.shape(wanted), shape
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=0, err_msg=str(shape))
        np.testing.assert_allclose(tc.interpret(source, a, lang="sac"), wanted, rtol=1e-12, atol=0)
    assert len(kernel.kernels) == len({len(s) for s in SHAPES})


def test_a_kernel_for_each_combination_of_ranks() -> None:
    kernel: Any = tc.compile("{ iv -> A[iv] * B }", lang="sac", backend="reference")
    assert not kernel.kernels
    two = kernel.at(A=2, B=0)
    assert kernel.at(A=2, B=0) is two and len(kernel.kernels) == 1
    np.testing.assert_array_equal(kernel(np.ones((2, 3)), 2.0), np.full((2, 3), 2))
    assert len(kernel.kernels) == 1
    np.testing.assert_array_equal(kernel(np.ones(3), 2.0), np.full(3, 2))
    np.testing.assert_array_equal(kernel(np.ones(3, np.float32), 2.0), np.full(3, 2, np.float32))
    assert len(kernel.kernels) == 3
    assert two.ranges.keys() == {"A", "result"}
    with pytest.raises(tc.ArgumentError, match="the rank of B is not given"):
        kernel.at(A=2)
    with pytest.raises(tc.ArgumentError, match="no parameter 'C'"):
        kernel.at(A=2, B=0, C=1)


def test_two_functions_of_the_same_types_are_refused() -> None:
    """A call could mean either; the first one had been taken in silence."""
    text = (
        "double[.] g(double[.] a) { return a * 1.0; } double[.] g(double[.] b) { return b * 2.0; } "
        "double[.] f(double[.] x) { return g(x); }"
    )
    with pytest.raises(tc.SemanticError, match=r"'g\(double\[\.\]\)' is defined twice") as caught:
        tc.compile(text, "reference", lang="sac")
    assert caught.value.code == "TC0217" and caught.value.notes
    other = text.replace("double[.] g(double[.] b)", "double[.,.] g(double[.,.] b)")
    tc.compile(other, "reference", lang="sac")
