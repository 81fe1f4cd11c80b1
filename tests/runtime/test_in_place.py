"""`out=` that is an input: what the result has already is neither copied nor written."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import BackendError
from tc.kernel import Kernel

BACKENDS = [n for n in ("reference", "cpu", "opencl", "halide") if tc.backends()[n].ok]
INNER = "with { ([1,1] <= [i,j] < shape(A)-1) : A[i,j] + 1; } : modarray(A)"
# Sources of SaC, and whether the result can lie in the memory of A.
PROGRAMS = [
    (INNER, True),
    ("{ [i,j] -> 7.0 | [1,1] <= [i,j] < shape(A)-1; iv -> A[iv] }", True),
    ("{ iv -> A[iv] * 2 }", True),
    ("with { ([0] <= [i] < [1]) : A[i]; ([0] <= [i] < [2]) : A[i] + 7; } : modarray(A)", True),
    ("with { ([1,1] <= [i,j] < shape(A)-1) : A[i-1,j] + A[i,j]; } : modarray(A)", False),
    ("with { ([1,1] <= [i,j] < shape(A)-1) : A[i,j] + sum(A[0]); } : modarray(A)", False),
    ("with { ([0] <= [i] < [1]) : A[i] + 1; ([1] <= [i] < [2]) : A[i] + A[0]; } : modarray(A)", False),
    ("{ iv -> A[iv] }", False),
    ("transpose(A)", False),
]


def made(source: str, backend: str, a: np.ndarray[Any, Any]) -> Any:
    kernel: Any = tc.compile(source, lang="sac", backend=backend)
    return kernel.kernel_for(a) if hasattr(kernel, "kernel_for") else kernel


@pytest.mark.share(12)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("source", "possible"), PROGRAMS, ids=[s for s, _ in PROGRAMS])
def test_results_are_those_of_a_copy(source: str, possible: bool, backend: str) -> None:
    a = np.arange(25.0).reshape(5, 5)
    kernel = made(source, backend, a)
    wanted, given = kernel(a), a.copy()
    assert kernel(given, out=given) is given
    np.testing.assert_array_equal(given, wanted)
    other = np.full((5, 5), np.nan)
    np.testing.assert_array_equal(kernel(a, out=other), wanted)  # not by what works in place
    np.testing.assert_array_equal(kernel(a), wanted)
    compiled, *_ = kernel.ready(kernel.sizes_of(a), {}, {}, frozenset(), (("result", "A"),))
    assert ("A" not in compiled.program.images) == possible


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_nothing_is_copied(backend: str) -> None:
    a = np.zeros((1000, 1000))
    kernel = made("with { ([500,500] <= [i,j] < [502,502]) : A[i,j] + 1; } : modarray(A)", backend, a)
    kernel(a, out=a)
    compiled, *_ = kernel.ready(kernel.sizes_of(a), {}, {}, frozenset(), (("result", "A"),))
    assert len(compiled.program.stages) == 1
    tracemalloc.start()
    try:
        kernel(a, out=a)
        _, peak = tracemalloc.get_traced_memory()
        assert peak < a.nbytes / 10
        kernel(a)
        _, peak = tracemalloc.get_traced_memory()
        assert peak >= a.nbytes  # it would see a copy
    finally:
        tracemalloc.stop()
    assert a.sum() == 8


def test_strided_arrays() -> None:
    a = np.arange(48.0).reshape(6, 8)[::1, ::2]
    kernel = made(INNER, "reference", a)
    wanted = kernel(a)
    assert kernel(a, out=a) is a
    np.testing.assert_array_equal(a, wanted)


def test_a_def() -> None:
    kernel = tc.compile("def f(float(N) A) -> (C) { C(i) = A(i) + 1 }", backend="reference")
    a = np.zeros(3, np.float32)
    for n in range(1, 4):
        kernel(a, out=a)
        np.testing.assert_array_equal(a, np.full(3, n))
        np.testing.assert_array_equal(kernel(a), np.full(3, n + 1))


def test_what_cannot_work_in_place_is_copied_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tc.compile("def f(float(N) x) -> (y) { y(i) = x(N-1-i) where i in 0:N }", "cpu")
    compile_usual = Kernel._compile

    def without_aliases(self: Kernel, variant: Any, *rest: Any) -> Any:
        if variant.aliases:
            raise BackendError("there is no room", code="TC0801")
        return compile_usual(self, variant, *rest)

    monkeypatch.setattr(Kernel, "_compile", without_aliases)
    x = np.arange(5, dtype=np.float32)
    with pytest.warns(tc.PerformanceNotice, match="f on cpu: results are copied to out=: there is no room"):
        kernel(x, out=x)
    np.testing.assert_array_equal(x, [4, 3, 2, 1, 0])
