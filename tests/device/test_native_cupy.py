"""Calls on arrays of CuPy that `tc._native` launches itself, by the driver's functions of `exchange.c`."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
import pytest
import torch

import tc
from tc import _native
from tests.device.native_calls import Kernel, N, address, entry
from tests.simt.fakes import Cupy, CupyArray
from tests.simt.machine import Machine

X = np.arange(N, dtype=np.float32)


@pytest.fixture
def scale(driver: ctypes.CDLL) -> Kernel:
    """Of (float s, float(N) x) -> float(N), on device 1."""
    made = Kernel()
    made._add(entry(driver, ((address(driver, "scale"), 5, 64, 100, (2, 1, 5, 0)),), (N,)))
    return made


def test_a_call_is_a_launch_on_the_current_stream(
    scale: Kernel, driver: ctypes.CDLL, machine: Machine, on_cupy: Cupy
) -> None:
    x, z = on_cupy.array(X, 1), on_cupy.array(0 * X, 1)
    stream = machine.new_stream(1)
    with on_cupy.allocator.on(stream):
        y = scale(2.5, x)
        assert scale(x=x, s=3, out=z) is z
    assert isinstance(y, CupyArray) and y.device.id == 1 and y.dtype == np.float32
    np.testing.assert_array_equal(y.memory, np.float32(2.5) * X)
    np.testing.assert_array_equal(z.memory, 3 * X)
    assert driver.said().decode() == 2 * f"5 x 64, 100 on {stream.number:#x}; "
    assert on_cupy._device == 0 and driver.inside() == 0 and not scale.missed


def test_what_it_leaves_to_the_slow_path(scale: Kernel, driver: ctypes.CDLL, on_cupy: Cupy) -> None:
    x = on_cupy.array(X, 1)
    freed, shifted, many = (on_cupy.array(X, 1) for _ in range(3))
    freed.data.ptr = 0
    shifted.data.ptr += 4
    many.shape, many.strides = (1,) * 8 + (N,), (4,) * 9
    gaps = on_cupy.array(X, 1)
    gaps.strides = (8,)
    swapped = on_cupy.array(X, 1)
    swapped.dtype = np.dtype(">f4")
    derived = type("Derived", (on_cupy.kind,), {})(x.memory, 1, None)
    unknown = on_cupy.array(X, 1)
    del unknown.strides
    refused = [freed, shifted, many, gaps, swapped, derived, unknown, x.memory, torch.from_numpy(X)]
    refused += [
        on_cupy.array(X),
        on_cupy.array(np.zeros(N + 1, np.float32), 1),
        on_cupy.array(np.zeros(N), 1),
    ]
    before = driver.count()
    for one in refused:
        assert scale(2.5, one) is None
    for out in (x, on_cupy.array(X), x.memory, torch.from_numpy(X)):
        assert scale(2.5, x, out=out) is None
    assert scale(x, x) is None
    assert scale.missed == len(refused) + 5 and driver.count() == before
    assert scale(2.5, x) is not None


def test_results_need_an_array_that_says_where(driver: ctypes.CDLL, on_cupy: Cupy) -> None:
    """A kernel without arrays is called with a buffer first, which makes the entry."""
    kernel = Kernel()
    push, pop, start = (address(driver, n) for n in ("push", "pop", "start"))
    step = (address(driver, "scale"), 1, 32, 0, (1, 1, 4, 0))
    kernel._add(
        _native.Entry(
            start, [("scalar", 2, 32, None)], [(2, 32, (N,), False)], 0, False, None, "owner", ("s",),
            ("y",), (), (1, push, pop, start, 3, (step,), (N,), 0, None),
        )
    )  # fmt: skip
    before = driver.count()
    assert kernel(2.0) is None and driver.count() == before
    y = on_cupy.array(X, 1)
    assert kernel(2.0, out=y) is y
    np.testing.assert_array_equal(y.memory, 2 * X)


def test_scratch_memory_and_results_are_of_cupy(driver: ctypes.CDLL, on_cupy: Cupy) -> None:
    steps = (
        (address(driver, "fill"), 1, 32, 0, (3, 1, 5)),
        (address(driver, "copy"), 2, 32, 0, (2, 3, 5)),
    )
    kernel = Kernel()
    kernel._add(entry(driver, steps, (N,), workspace=4096))
    made: list[tuple[Any, ...]] = []

    def empty(shape: tuple[int, ...], dtype: Any) -> CupyArray:
        made.append((shape, dtype, on_cupy._device))
        return on_cupy.empty(shape, dtype)

    sys.modules["cupy"].empty = empty  # type: ignore[attr-defined]
    y = kernel(1.0, on_cupy.array(X, 1))
    np.testing.assert_array_equal(y.memory, X)
    assert made == [((N,), np.float32, 1), ((4096,), np.uint8, 1)]


def test_what_cupy_raises(scale: Kernel, driver: ctypes.CDLL, on_cupy: Cupy) -> None:
    """Where there is no memory the error is CuPy's; a stream that cannot be had is for the slow path."""
    x = on_cupy.array(X, 1)
    module: Any = sys.modules["cupy"]
    streams, failing = module.cuda.get_current_stream, False

    def full(shape: Any, dtype: Any) -> Any:
        raise MemoryError("no memory on device")

    def stream(device: int) -> Any:
        if failing:
            raise RuntimeError
        scale._clear()  # the call goes to the slow path, and nothing that is gone is used
        scale._add(kept)
        return streams(device)

    (kept,) = scale._entries()
    module.empty, module.cuda.get_current_stream = full, stream
    with pytest.raises(MemoryError, match="no memory on device"):
        scale(2.5, x)
    assert on_cupy._device == 0 and driver.inside() == 0
    y = on_cupy.array(X, 1)
    assert scale(2.5, x, out=y) is y and not scale.missed
    failing = True
    assert scale(2.5, x, out=y) is None and scale.missed == 1
    failing = False
    driver.fail(700)
    with pytest.raises(RuntimeError, match="owner"):
        scale(2.5, x, out=y)


@pytest.mark.parametrize("backend", ["cuda", None])
def test_a_kernel_is_bound_once(by_functions: ctypes.CDLL, on_cupy: Cupy, backend: str | None) -> None:
    """Also one whose arrays have chosen its backend."""
    kernel = tc.compile("def scale(float s, float(N) x) -> (y) { y(i) = s * x(i) }", backend)
    x, y = on_cupy.array(X), on_cupy.array(X)
    before = by_functions.count()
    np.testing.assert_array_equal(on_cupy.read(kernel(2.0, x)), 2 * X)
    assert by_functions.count() == before
    missed = kernel._miss
    kernel._miss = None  # type: ignore[method-assign, assignment]
    np.testing.assert_array_equal(on_cupy.read(kernel(3.0, x)), 3 * X)
    assert kernel(4.0, x, out=y) is y and by_functions.count() == before + 2
    np.testing.assert_array_equal(on_cupy.read(y), 4 * X)
    kernel._miss = missed  # type: ignore[method-assign]
    np.testing.assert_array_equal(on_cupy.read(kernel(2.0, x, out=x)), 2 * X)  # by the slow path
    assert by_functions.count() == before + 2


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
def test_an_index_out_of_range_is_raised_by_the_next_call(
    by_functions: ctypes.CDLL, on_cupy: Cupy, machine: Machine
) -> None:
    kernel = tc.compile("def gather(float(N) A, int(M) I) -> (B) { B(i) = A(I(i)) }", "cuda")
    good = np.arange(N, dtype=np.int32)[::-1].copy()
    bad = good.copy()
    bad[3] = N
    x, i, j = on_cupy.array(X), on_cupy.array(good), on_cupy.array(bad)
    before = by_functions.count()
    for _ in range(2):
        np.testing.assert_array_equal(on_cupy.read(kernel(x, i)), X[::-1])
    with on_cupy.allocator.on(machine.new_stream(0)):  # which has a record of its own, so an entry
        np.testing.assert_array_equal(on_cupy.read(kernel(x, i)), X[::-1])
        assert by_functions.count() == before + 1
    kernel(x, j)
    assert by_functions.count() == before + 2
    with pytest.raises(tc.BoundsError, match=r"index 20 is out of range for dimension 0 of 'A'.* i = 3"):
        kernel(x, i)
    np.testing.assert_array_equal(on_cupy.read(kernel(x, i)), X[::-1])
