"""Notices: where the cpu backend is simpler than options ask for, or than one would expect, it warns."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import tc
from tests.backends.cpu_cases import GEMM, isas

GAMMA = "def f(float(N) A) -> (O) { O(i) = tgamma(A(i)) }"


def notices_of(source: str, options: dict[str, Any], **sizes: int) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tc.compile(source, "cpu", options=options).specialize(**sizes)
    assert all(w.filename == __file__ for w in caught)
    return [str(w.message) for w in caught if w.category is tc.PerformanceNotice]


def test_a_function_without_a_vector_form_is_noticed() -> None:
    (one,) = notices_of(GAMMA, {}, N=1 << 17)
    assert "'tgamma' has no vector form" in one and "O(i) = tgamma(A(i))" in one
    assert not notices_of(GAMMA, {}, N=1 << 10)


def test_functions_with_vector_forms_are_not_noticed() -> None:
    value = (
        "pow(exp(A(i)), abs(A(i))) + erf(A(i)) + fma(A(i), A(i), 1) + sqrt(A(i)) + fmin(A(i), floor(A(i)))"
    )
    assert not notices_of(f"def f(float(N) A) -> (O) {{ O(i) = {value} }}", {}, N=1 << 17)


def test_a_register_tile_that_is_made_smaller_is_noticed() -> None:
    (one,) = notices_of(GEMM, {"register_tile": (64, 256), "isa": isas()[-1]}, M=512, N=512, K=64)
    assert "the register tile of S0, S1 is (" in one
    assert not notices_of(GEMM, {"register_tile": (2, 16)}, M=512, N=512, K=64)
    assert not notices_of(GEMM, {"register_tile": (64, 256)}, M=2, N=8, K=64)  # as large as the array


def test_scalar_statements_beside_vector_loops_are_not_noticed() -> None:
    """The first values of rows are set one at a time, which is little of the work."""
    assert not notices_of("def f(float(N,M) A) -> (O) { O(i) +=! A(i,j) }", {}, N=1 << 17, M=64)


@pytest.mark.slow
def test_a_kernel_from_disk_repeats_its_notices(tmp_path: Path) -> None:
    code = f"""
import warnings, tc
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    kernel = tc.compile({GAMMA!r}, "cpu").specialize(N=1 << 17)
print(kernel.restored, [w.category.__name__ for w in caught])
"""
    environment = {"TC_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout.split(maxsplit=1)
        for _ in range(2)
    ]
    assert [r[0] for r in runs] == ["False", "True"]
    assert runs[0][1] == runs[1][1] == "['PerformanceNotice']\n"


def test_an_error_filter_stops_the_call_and_the_next_one_works() -> None:
    kernel = tc.compile(GAMMA, "cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(tc.PerformanceNotice):
            kernel.specialize(N=(1 << 17) + 1)
        kernel.specialize(N=(1 << 17) + 1)  # compiled by now
