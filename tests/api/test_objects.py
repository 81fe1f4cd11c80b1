"""Kernels as Python objects: copies, pickles, signatures, texts, the log."""

from __future__ import annotations

import copy
import inspect
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from html import escape
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import tc

MM = "def mm(float(M,K) A, float(K,N) B, int s) -> (C) { C(i,j) +=! A(i,k) * B(k,j) * s }"
TWO = """def two(double(N) x) -> (float(N) y, z) {
  y(i) = float(x(i))
  z +=! x(i)
}"""


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda k: pickle.loads(pickle.dumps(k)),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("dynamic", [(), ("M",), {"M": 32}])
def test_kernels_copy_and_pickle(how: str, dynamic: Any) -> None:
    kernel = tc.compile(MM, "reference", checks="none", options={"strict": True}, dynamic=dynamic)
    other = COPIES[how](kernel)
    assert other is not kernel
    assert (other.name, other.source, other.dynamic) == (kernel.name, kernel.source, kernel.dynamic)
    assert (other.backend, other.options) == ("reference", kernel.options)
    np.testing.assert_array_equal(other(ones(2, 3), ones(3, 4), 2), np.full((2, 4), 6))


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("backend", ["cpu", "reference", "halide", "opencl"])
@pytest.mark.parametrize("dynamic", [(), ("M",)])
def test_specialised_kernels_copy_and_pickle(how: str, backend: str, dynamic: Any) -> None:
    if dynamic and backend in ("halide", "opencl"):
        pytest.skip("it has no dynamic sizes")
    one = tc.compile(MM, backend, dynamic=dynamic).specialize(M=2, K=3, N=4)
    one(ones(2, 3), ones(3, 4), 2)
    other = COPIES[how](one)
    assert isinstance(other, tc.Compiled)
    assert (other.sizes, other.backend) == (one.sizes, backend)
    np.testing.assert_array_equal(other(ones(2, 3), ones(3, 4), 2), np.full((2, 4), 6))
    with pytest.raises(tc.ArgumentError, match=r"specialised for (M = 2|K = 3)"):
        other(ones(5, 7), ones(7, 4), 1)


def test_a_pickled_specialised_kernel_gives_its_notices_only_once() -> None:
    source = "def f(float(N) A) -> (B) { B(i) = A(i) where i in 0:N/2 }"
    kernel = tc.compile(source, "reference")
    with pytest.warns(tc.Warning, match="0:N/2"):
        one = kernel.specialize(N=1)
    assert pickle.loads(pickle.dumps(one))(ones(1)).shape == (0,)  # warnings are errors here


def test_a_copy_of_another_entry_is_of_that_entry() -> None:
    kernel = tc.compile(MM + TWO, "reference", entry="mm")
    assert pickle.loads(pickle.dumps(kernel)).name == "mm"


def test_a_pickled_kernel_warns_only_once() -> None:
    with pytest.warns(tc.DataDependentAccess):
        kernel = tc.compile("def f(float(N) A, int(M) I) -> (B) { B(i) = A(I(i)) }", "reference")
    pickle.loads(pickle.dumps(kernel))  # warnings are errors here


def test_a_pool_of_processes_takes_kernels() -> None:
    kernel = tc.compile(MM, "reference")
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found = pool.submit(kernel, ones(2, 3), ones(3, 4), 1).result()
    np.testing.assert_array_equal(found, np.full((2, 4), 3))


def test_signatures_and_docs() -> None:
    kernel = tc.compile(MM, "reference")
    assert str(inspect.signature(kernel)) == (
        "(A: 'float32[M, K]', B: 'float32[K, N]', s: 'int32', *, out=None) -> 'float32[…, …]'"
    )
    inspect.signature(kernel).bind(ones(1, 1), B=ones(1, 1), s=1)
    assert kernel.__doc__ is not None and kernel.__doc__.startswith(MM)
    two = tc.compile(MM + TWO, "reference")
    assert inspect.signature(two).return_annotation == ("float32[…]", "float64[]")
    assert two.__doc__ is not None and two.__doc__.startswith("def two")
    assert tc.__version__.count(".") == 2


def test_texts_are_short() -> None:
    kernel = tc.compile(MM, "reference")
    one = kernel.specialize(M=2, K=3, N=4)
    assert repr(one) == "<tc.Compiled mm for M = 2, K = 3, N = 4 on reference>"
    assert repr(kernel) == "<tc.Kernel mm(A, B, s) -> (C)>"
    html = kernel._repr_html_()
    assert "C(i,j) +=! A(i,k)" in html and "-&gt;" in html and "<td><code>[0, M), [0, K)</code></td>" in html


def test_ranges_show_where_they_end() -> None:
    ranges = tc.compile("def f(float(N) A) -> (B) { B(i) = A(i-1) + A(i+1) }", "reference").ranges
    (found,) = ranges["B"]
    assert str(found) == "[1, N - 1)"
    assert isinstance(found, tc.Range)
    assert (found.min, found.extent, found.end) == (1, "N - 2", "N - 1")
    assert str(ranges.at(N=9)["B"][0]) == "[1, 8)"
    assert tc.Range(2, 3) == ranges.at(N=5)["B"][0].__class__(2, 3)


def test_a_specialised_kernel_refuses_other_sizes() -> None:
    one = tc.compile(MM, "reference").specialize(M=2, K=3, N=4)
    np.testing.assert_array_equal(one(ones(2, 3), ones(3, 4), 1), np.full((2, 4), 3))
    with pytest.raises(tc.ArgumentError, match="specialised for M = 2, and these arguments have M = 5") as e:
        one(ones(5, 3), ones(3, 4), 1)
    assert e.value.code == "TC0519"
    dynamic = tc.compile(MM, "reference", dynamic=("M",)).specialize(M=2, K=3, N=4)
    assert dynamic(ones(5, 3), ones(3, 4), 1).shape == (5, 4)


def test_compiles_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    source = "def logged(float(N) A) -> (B) { B(i) = 3 * A(i) }"
    with caplog.at_level(logging.DEBUG, "tc"):
        tc.compile(source, "reference")(ones(7))
    (line,) = (r.getMessage() for r in caplog.records if r.name == "tc")
    assert line.startswith("logged for N = 7 on reference: compiled in ")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"TC_NUM_THREADS": "3", "OMP_NUM_THREADS": "5"}, 3),
        ({"OMP_NUM_THREADS": "5"}, 5),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({"OMP_NUM_THREADS": "many"}, None),
        ({}, None),
    ],
)
def test_threads_are_counted_as_others_count_them(settings: dict[str, str], expected: int | None) -> None:
    clean = {k: v for k, v in os.environ.items() if k not in ("TC_NUM_THREADS", "OMP_NUM_THREADS")}
    code = "from tc import _native; print(_native.get_num_threads())"
    run = subprocess.run(
        [sys.executable, "-c", code], env={**clean, **settings}, capture_output=True, text=True, check=True
    )
    usable = len(os.sched_getaffinity(0))
    assert int(run.stdout) == expected if expected else 1 <= int(run.stdout) <= usable


def test_notebooks_show_stages_in_lines() -> None:
    kernel = tc.compile("def f(float(N) x) -> (y) { y(i) = x(i) < 2 ? 1 : 0 }", "cpu")
    choice: Any = kernel.inspect("choice", N=64)
    assert issubclass(type(choice), str) and choice.startswith("region 0")
    html = choice._repr_html_()
    assert html.startswith("<pre>region 0") and html.endswith("</pre>")
    loops: Any = kernel.specialize(N=64).inspect("loops")
    assert "] &lt; 2.0 ? 1 : 0" in loops._repr_html_()
    assert loops._repr_html_() == f"<pre>{escape(loops)}</pre>"
    page: Any = kernel.inspect("html", N=64)
    frame = page._repr_html_()
    assert frame.startswith('<iframe srcdoc="&lt;!') and frame.count('"') == 6
