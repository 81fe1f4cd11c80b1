"""Arrays of more than 2^31 bytes and elements: pages of zeros that take no memory until they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tc
from tc import _native
from tests.backends.cpu_cases import Array, compiled, isas, results

BEYOND = 2**31 + 4099
PUT = {0: 1, 2**31 - 1: 2, 2**31: 3, 2**31 + 5: -4, BEYOND - 1: 7}


@pytest.fixture(params=[1, 2], ids=["1 thread", "2 threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = _native.get_num_threads()
    _native.set_num_threads(request.param)
    yield
    _native.set_num_threads(before)


@pytest.fixture(scope="module")
def numbers() -> Array:
    """2^31 + 4099 bytes, few of them not zero."""
    a = np.zeros(BEYOND, np.int8)
    for at, value in PUT.items():
        a[at] = value
    return a


@pytest.fixture(scope="module")
def rows() -> Array:
    """524,289 rows of 4 KiB, the last one beyond 2^31 bytes."""
    a = np.zeros((2**19 + 1, 1024), np.float32)
    a[0, 5], a[-1, 0], a[-1, 7] = 2, 3, 9
    return a


def nonzero(a: Any) -> dict[int, int]:
    return {int(i): int(a[i]) for i in np.flatnonzero(a)}


BYTES: dict[str, tuple[str, Callable[..., Any], Any]] = {
    "sum": ("def f(int8(N) A) -> (S) { S +=! int(A(i)) }", int, 9),
    "extrema": (
        "def f(int8(N) A) -> (P, Q) { P max=! A(i) Q min=! A(i) }",
        lambda found: tuple(map(int, found)),
        (7, -4),
    ),
    "a copy of the tail": (
        "def f(int8(N) A) -> (O) { O(i) = A(N - 4107 + i) where i in 0:4107 }",
        nonzero,
        {7: 2, 8: 3, 13: -4, 4106: 7},
    ),
    "from the end": (
        "def f(int8(N) A) -> (O) { O(i) = A(N-1-i) where i in 0:5000 }",
        nonzero,
        {0: 7, 4093: -4, 4098: 3, 4099: 2},
    ),
}


@pytest.mark.parametrize("name", BYTES)
def test_results_of_arrays_beyond_31_bits(name: str, numbers: Array, threads: None) -> None:
    source, look, want = BYTES[name]
    assert look(compiled(source)(numbers)) == want


@pytest.mark.slow
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("name", BYTES)
def test_results_of_arrays_beyond_31_bits_on_every_instruction_set(
    name: str, isa: str, numbers: Array, threads: None
) -> None:
    source, look, want = BYTES[name]
    assert look(compiled(source, isa=isa)(numbers)) == want


@pytest.mark.parametrize("name", ["sum", "a copy of the tail"])
def test_a_dynamic_size_beyond_31_bits(name: str, numbers: Array, threads: None) -> None:
    source, look, want = BYTES[name]
    kernel = tc.compile(source, "cpu", dynamic=("N",))
    assert kernel(np.ones(4200, np.int8)) is not None
    assert look(kernel(numbers)) == want


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_gathers_beyond_31_bits(numbers: Array, threads: None) -> None:
    """And the message about an index past the end, which does not fit 32 bits either."""
    kernel = compiled("def f(int8(N) A, int64(M) I) -> (O) { O(i) = A(I(i)) }")
    at = np.array([*PUT, 2**31 + 6], np.int64)
    assert kernel(numbers, at).tolist() == [*PUT.values(), 0]
    for bad in (BEYOND, 2**32, -1, -(2**31), 2**63 - 1):
        at[3] = bad
        with pytest.raises(tc.BoundsError, match=rf"index {bad} is out of range .*\(0 to {BEYOND - 1}\)"):
            kernel(numbers, at)


FLOATS: dict[str, tuple[str, dict[int, int]]] = {
    "the last row": ("def f(float(N,M) A) -> (O) { O(j) = A(N-1,j) }", {0: 3, 7: 9}),
    "sums of columns": ("def f(float(N,M) A) -> (O) { O(j) +=! A(i,j) }", {0: 3, 5: 2, 7: 9}),
    "sums of rows": ("def f(float(N,M) A) -> (O) { O(i) +=! A(i,j) }", {0: 2, 2**19: 12}),
    "a column": ("def f(float(N,M) A) -> (O) { O(i) = A(i,7) }", {2**19: 9}),
    "a matrix times a vector": (
        "def f(float(N,M) A) -> (O) { O(i) +=! A(i,j) * A(N-1,j) }",
        {2**19: 90},
    ),
}


@pytest.mark.parametrize("name", FLOATS)
def test_floats_beyond_31_bits_of_bytes(name: str, rows: Array, threads: None) -> None:
    source, want = FLOATS[name]
    (found,) = results(compiled(source)(rows))
    assert nonzero(found) == want


@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_gathered_rows_beyond_31_bits_of_bytes(rows: Array, threads: None) -> None:
    kernel = compiled("def f(float(N,M) T, int(B,L) I) -> (O) { O(b,j) +=! T(I(b,l),j) }")
    at = np.array([[0, 2**19, 1], [2**19, 2**19, 2**18]], np.int32)
    (found,) = results(kernel(rows, at))
    assert nonzero(found[0]) == {0: 3, 5: 2, 7: 9} and nonzero(found[1]) == {0: 6, 7: 18}


@pytest.mark.slow
def test_stores_beyond_31_bits(threads: None) -> None:
    """Each byte of 2 GiB is written, at its place."""
    n, m = 2**15 + 1, 2**16
    a, b = (np.random.default_rng(k).integers(-8, 8, s).astype(np.int8) for k, s in ((0, n), (1, m)))
    (found,) = results(compiled("def f(int8(N) A, int8(M) B) -> (O) { O(i,j) = A(i) * B(j) }")(a, b))
    assert found.nbytes > 2**31
    for i in (0, 1, 2**14, 2**15 - 1, 2**15):
        np.testing.assert_array_equal(found[i], a[i] * b)
    np.testing.assert_array_equal(found[:, ::4099], np.outer(a, b[::4099]))
