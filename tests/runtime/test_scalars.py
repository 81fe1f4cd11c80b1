"""Scalar arguments, on the fast path and on the slow one, which must agree."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tc import _native
from tc.dtypes import (
    ALL,
    BFLOAT16,
    BOOL,
    BY_NAME,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    UINT8,
    UINT64,
    DType,
)
from tc.errors import ArgumentError
from tc.runtime import scalars
from tc.runtime.arrays import dlpack_type

Make = Callable[..., Any]


def fast(make: Make, dtype: DType, value: Any, required: Any = None) -> bytes | None:
    """The eight bytes that a kernel finds behind a scalar argument, or None when the call missed."""
    kernel = make("bytes8", [("scalar", *dlpack_type(dtype), required)], [(1, 64, (1,), False)])
    out = kernel(value)
    return None if kernel.missed else out.tobytes()


def expected(dtype: DType, value: float) -> bytes:
    if dtype == BFLOAT16:
        return np.array(value, ml_dtypes.bfloat16).tobytes()
    return np.array(value, dtype.name).tobytes()


GOOD: list[tuple[DType, Any, float]] = [
    (BOOL, True, True),
    (BOOL, np.bool_(False), False),
    (INT32, 7, 7),
    (INT32, True, 1),
    (INT32, np.int8(-7), -7),
    (INT32, np.uint64(5), 5),
    (INT8, -128, -128),
    (UINT8, 255, 255),
    (INT64, -(2**63), -(2**63)),
    (UINT64, 2**64 - 1, 2**64 - 1),
    (UINT64, np.uint64(2**64 - 1), 2**64 - 1),
    (FLOAT64, 3, 3),
    (FLOAT64, 2**53 + 1, 2**53),
    (FLOAT64, 10**300, 1e300),
    (FLOAT64, np.float32(0.5), 0.5),
    (FLOAT64, np.float16(0.25), 0.25),
    (FLOAT32, 0.1, 0.1),
    (FLOAT32, np.float64(0.1), 0.1),
    (FLOAT32, True, 1),
    (FLOAT32, 2**64 - 1, 2.0**64),
    (FLOAT32, math.inf, math.inf),
    (FLOAT32, 1e-60, 0),
    (FLOAT16, 65519.9, 65504),
    (FLOAT16, 1 + 2**-11 + 2**-30, 1 + 2**-10),
    (BFLOAT16, 1.0, 1.0),
    (BFLOAT16, -math.inf, -math.inf),
]


@pytest.mark.parametrize(("dtype", "value", "meaning"), GOOD, ids=lambda v: f"{type(v).__name__}-{v}")
def test_numbers_that_convert(make: Make, dtype: DType, value: Any, meaning: float) -> None:
    pattern = expected(dtype, meaning)
    assert fast(make, dtype, value) == pattern.ljust(8, b"\0")
    number = scalars.convert(value, dtype, "s")
    assert scalars.pack(dtype, number) == pattern
    assert type(number) is (bool if dtype.is_bool else float if dtype.is_float else int)
    assert scalars.buffer(dtype, number).tobytes() == pattern.ljust(8, b"\0")
    as_array = scalars.convert(np.asarray(value), dtype, "s") if abs(meaning) < 2**64 else number
    assert as_array == number


BAD: list[tuple[DType, Any, str]] = [
    (INT32, 2**31, "does not fit int32"),
    (INT8, -129, "does not fit int8"),
    (UINT8, -1, "does not fit uint8"),
    (UINT64, 2**64, "does not fit uint64"),
    (INT64, np.uint64(2**63), "does not fit int64"),
    (INT32, 2.0, "would have to be rounded"),
    (INT32, np.float32(2), "would have to be rounded"),
    (BOOL, 1, "is a number"),
    (BOOL, 0.0, "is a number"),
    (FLOAT64, 10**400, "does not fit float64"),
    (FLOAT32, 1e39, "does not fit float32"),
    (FLOAT16, 65520.0, "does not fit float16"),
    (BFLOAT16, 1e39, "does not fit bfloat16"),
    (FLOAT32, "1", "got str"),
    (FLOAT32, None, "got NoneType"),
    (FLOAT32, Fraction(1, 2), "got Fraction"),
    (FLOAT32, [1.0], "got list"),
    (FLOAT32, np.zeros(1, np.float32), r"array of shape \(1,\)"),
    (FLOAT32, torch.zeros(1, 1), r"array of shape \(1, 1\)"),
]


@pytest.mark.parametrize(
    ("dtype", "value", "message"), BAD, ids=lambda v: f"{type(v).__name__}-{str(v)[:20]}"
)
def test_numbers_that_do_not(make: Make, dtype: DType, value: Any, message: str) -> None:
    assert fast(make, dtype, value) is None
    with pytest.raises(ArgumentError, match=message) as caught:
        scalars.convert(value, dtype, "s")
    assert caught.value.code == "TC0510"
    assert caught.value.help


def test_arrays_without_dimensions_go_the_slow_way(make: Make) -> None:
    for value in (np.array(1.5, np.float32), torch.tensor(1.5), torch.tensor(1.5, dtype=torch.bfloat16)):
        assert fast(make, FLOAT32, value) is None
        assert scalars.convert(value, FLOAT32, "s") == 1.5
    assert scalars.convert(torch.tensor(3), INT32, "s") == 3
    with pytest.raises(ArgumentError):
        scalars.convert(torch.tensor(3.0), INT32, "s")


def test_specialised_scalars_are_part_of_the_key(make: Make) -> None:
    for value in (3, np.int64(3), np.uint8(3)):
        assert fast(make, INT32, value, required=3) == expected(INT32, 3).ljust(8, b"\0")
    assert fast(make, INT32, 4, required=3) is None
    assert fast(make, INT32, 2**32 + 3, required=3) is None
    assert fast(make, INT32, -3, required=-3) == expected(INT32, -3).ljust(8, b"\0")


def test_scalars_beside_tensors(make: Make) -> None:
    kernel = make("scale", [("scalar", 2, 32, None), ("tensor", 2, 32, (4, 5))], [(2, 32, (4, 5), False)])
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    np.testing.assert_array_equal(kernel(2, x), 2 * x)
    np.testing.assert_array_equal(kernel(np.float64(0.5), x), x / 2)
    assert torch.equal(kernel(2.0, torch.from_numpy(x)), torch.from_numpy(2 * x))
    assert kernel.missed == []
    assert isinstance(kernel(x, x), str)
    assert isinstance(kernel(2, 2), str)


def nearest(value: Fraction, dtype: DType) -> float:
    """The nearest value of a 16- or 32-bit type, ties to even, in exact arithmetic."""
    bits, lowest = {"float16": (11, -24), "bfloat16": (8, -133), "float32": (24, -149)}[dtype.name]
    if value == 0:
        return 0.0
    exponent = math.floor(math.log2(abs(value)))
    while Fraction(2) ** exponent > abs(value):
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= abs(value):
        exponent += 1
    unit = Fraction(2) ** max(exponent - bits + 1, lowest)
    return float(round(value / unit) * unit)


# A few bits, then a last one that decides which side of a tie the value is on.
near_ties = st.builds(
    lambda n, e, d: math.ldexp(n, e) * (1 + d * 2**-52),
    st.integers(1, 2**12),
    st.integers(-40, 3),
    st.integers(-2, 2),
)


@given(
    value=st.one_of(
        st.floats(-6e4, 6e4),
        st.integers(-(2**15), 2**15),
        near_ties,
        st.integers(-(2**64), 2**64),
    ),
    dtype=st.sampled_from([FLOAT16, BFLOAT16, FLOAT32]),
)
def test_rounding_is_to_nearest_even(value: float, dtype: DType) -> None:
    exact = nearest(Fraction(value), dtype)
    if dtype == FLOAT16 and abs(exact) > 65504:
        with pytest.raises(ArgumentError):
            scalars.convert(value, dtype, "s")
    else:
        assert scalars.convert(value, dtype, "s") == exact


def test_nan_keeps_being_one() -> None:
    for dtype in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64):
        assert math.isnan(scalars.convert(math.nan, dtype, "s"))


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_pack_has_the_size_of_an_element(dtype: DType) -> None:
    assert len(scalars.pack(dtype, True)) == BY_NAME[dtype.name].itemsize
    assert struct.calcsize("B") == len(_native.pack(True, 6, 8))
