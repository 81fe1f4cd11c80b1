"""With `fast_math` subnormal numbers are zero, in the kernel alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tests.backends.cpu_cases import isas

TINY = np.float32(1e-39)
HALVED = "def halved(float(N) x) -> (y) { y(i) = x(i) * 0.5 }"
DOUBLES = "def doubles(double(N) x) -> (y) { y(i) = x(i) * 0.5 }"
TAKE = "def take(float(N) x, int32(M) index) -> (y) { y(i) = x(index(i)) * 0.5 }"
MANY, FEW = 1 << 18, 5


def made(source: str, **options: Any) -> tc.Kernel:
    return tc.compile(source, "cpu", options=options)


def kept(count: int) -> None:
    """Subnormal numbers are what they are to this thread, and to kernels on all threads."""
    assert TINY * np.float32(0.5) > 0
    np.testing.assert_array_equal(made(HALVED)(np.full(count, TINY)), np.full(count, TINY * np.float32(0.5)))


@pytest.mark.parametrize("isa", [i for i in isas() if i != "neon"])
@pytest.mark.parametrize("count", [FEW, MANY])
def test_operands_and_results_are_zero(isa: str, count: int) -> None:
    fast = made(HALVED, fast_math=True, isa=isa)
    assert ("parallel for" in fast.inspect("loops", N=count)) == (count == MANY)
    x = np.full(count, np.float32(2.0**-126))
    x[0], x[1], x[2], x[3] = -(2.0**-126), TINY, 2.0**-125, np.inf
    found = fast(x)
    np.testing.assert_array_equal(found[:5], np.array([-0.0, 0.0, 2.0**-126, np.inf, 0.0], np.float32))
    assert np.signbit(found[0]) and not found[5:].any()
    kept(count)
    d = made(DOUBLES, fast_math=True, isa=isa)(np.array([2.0**-1022, 2.0**-1021]))
    np.testing.assert_array_equal(d, [0.0, 2.0**-1022])


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
@pytest.mark.parametrize("count", [FEW, MANY])
def test_the_mode_is_as_before_after_a_failed_check(count: int) -> None:
    kernel = made(TAKE, fast_math=True)
    index = np.zeros(count, np.int32)
    index[count // 2] = 9
    with pytest.raises(tc.BoundsError):
        kernel(np.ones(3, np.float32), index)
    kept(count)
    index[count // 2] = 2
    assert not kernel(np.full(3, TINY), index).any()
    kept(count)


@pytest.mark.parametrize("isa", [i for i in isas() if i != "neon"])
def test_halves_are_converted_exactly(isa: str) -> None:
    source = "def f(half(N) x) -> (float(N) y, half(N) z) { y(i) = float(x(i))  z(i) = half(y(i) * 0.5) }"
    x = np.array([6e-8, 3e-5, 1.0, -6e-8], np.float16)
    y, z = made(source, fast_math=True, isa=isa)(x)
    np.testing.assert_array_equal(y, x.astype(np.float32))
    np.testing.assert_array_equal(z, (x.astype(np.float32) * np.float32(0.5)).astype(np.float16))


def test_products_of_tiny_numbers_are_zero_in_a_norm() -> None:
    source = """def norm(float(N,C) x) -> (y) {
      v(n) +=! x(n,c) * x(n,c) / C
      y(n,c) = x(n,c) * rsqrt(v(n) + 0.00001) }"""
    x = np.random.default_rng(1).normal(size=(64, 256)).astype(np.float32) * np.float32(1e-21)
    np.testing.assert_allclose(made(source, fast_math=True)(x), made(source)(x), rtol=1e-5)
