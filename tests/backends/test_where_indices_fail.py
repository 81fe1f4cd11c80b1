"""The message of an index out of range: its dimension, and where it is in the loops of the source, however
these were split and reordered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc

Array = np.ndarray[Any, Any]
TABLE = np.arange(100, dtype=np.float32)


def indices(*shape: int, bad: tuple[int, ...], value: int = -1) -> Array:
    made = np.zeros(shape, np.int32)
    made[bad] = value
    return made


# Source, the index array, and what a message says.
CASES: dict[str, tuple[str, Array, str]] = {
    "rows in parts": (
        "def f(float(V) L, int32(N,M,K) I) -> (m) { m(n) +=! L(I(n,i,k)) }",
        indices(2, 300, 400, bad=(1, 277, 333)),
        "n = 1, i = 277, k = 333",
    ),
    "all in parts": (
        "def f(float(V) L, int32(N) I) -> (m) { m max=! L(I(i)) }",
        indices(300_001, bad=(277_777,), value=100),
        "i = 277777",
    ),
    "from a point on": (
        "def f(float(V) L, int32(N) I) -> (m) { m +=! L(I(i)) where i in 5:300000 }",
        indices(300_001, bad=(299_999,)),
        "i = 299999",
    ),
    "loops as memory lies": (
        "def f(float(V) L, int32(A,B,C) I) -> (m) {"
        " m(q) +=! L(I(b,c,a)) * q where q in 0:1, a in 0:20, c in 0:300, b in 0:50 }",
        indices(50, 300, 20, bad=(31, 277, 7)),
        "q = 0, b = 31, c = 277, a = 7",
    ),
    "few": (
        "def f(float(V) L, int32(N,M) I) -> (O) { O(n,m) = L(I(n,m)) }",
        indices(7, 9, bad=(3, 5)),
        "n = 3, m = 5",
    ),
}


WAYS: list[tuple[str, bool, dict[str, Any]]] = [
    *((b, False, {}) for b in ("reference", "cpu", "opencl", "halide")),
    *((b, True, {}) for b in ("reference", "cpu", "opencl")),
    *(("opencl", dynamic, {"atomics": True}) for dynamic in (False, True)),
]


@pytest.mark.share(36)
@pytest.mark.parametrize(("backend", "dynamic", "options"), WAYS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_the_place_is_that_of_the_source(
    name: str, backend: str, dynamic: bool, options: dict[str, Any]
) -> None:
    source, found, where = CASES[name]
    sizes = tuple(tc.compile(source, "reference").front.checked.sizes)
    kernel = tc.compile(source, backend, options=options, dynamic=sizes if dynamic else ())
    value = int(found.min() if found.min() < 0 else found.max())
    with pytest.raises(tc.BoundsError) as caught:
        kernel(TABLE, found)
    wanted = f"index {value} is out of range for dimension 0 of 'L' (0 to 99), at {where}"
    assert caught.value.message == wanted


@pytest.mark.parametrize("backend", ["reference", "cpu", "opencl", "halide"])
@pytest.mark.parametrize(("value", "low"), [(12, False), (-1, False), (10, True)])
@pytest.mark.filterwarnings("ignore::tc.Warning")
def test_the_dimension_is_the_one_that_failed(backend: str, value: int, low: bool) -> None:
    source = "def f(float(V,W) L, int32(A) I, int32(A) J) -> (m) { m(a) = L(I(a),J(a)) }"
    good, bad = indices(5, bad=(0,), value=0), indices(5, bad=(3,), value=value)
    table = np.zeros((10, 12), np.float32)
    with pytest.raises(tc.BoundsError) as caught:
        tc.compile(source, backend)(table, *((bad, good) if low else (good, bad)))
    told = "dimension 0 of 'L' (0 to 9)" if low else "dimension 1 of 'L' (0 to 11)"
    assert caught.value.message == f"index {value} is out of range for {told}, at a = 3"
