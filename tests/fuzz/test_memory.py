"""Arrays beside protected pages."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from fuzz.memory import LAYOUTS, Layout, arranged, guarded, poisoned, repeated


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 5), (0, 4), (4, 0), (1000, 3), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.int64])
def test_values_stay(layout: Layout, shape: tuple[int, ...], dtype: Any) -> None:
    values = repeated(np.arange(int(np.prod(shape))).reshape(shape).astype(dtype), layout)
    made = arranged(values, layout)
    if layout == "misaligned" and values.itemsize > 1 and values.size:
        assert made.ctypes.data % values.itemsize
    assert made.dtype == values.dtype and made.shape == values.shape
    np.testing.assert_array_equal(made, values)


def test_poison_is_not_a_number() -> None:
    for t in (np.float16, np.float32, np.float64):
        assert np.isnan(poisoned((3, 2), np.dtype(t))).all()
    assert poisoned((4,), np.dtype(np.int32))[0] != 0
    assert not poisoned((4,), np.dtype(bool)).any()


@pytest.mark.parametrize(("at_end", "index"), [(True, 5), (False, -1)])
def test_a_neighbour_may_not_be_read(at_end: bool, index: int) -> None:
    """In a process of its own, which that ends."""
    code = (
        "import ctypes, numpy as np\n"
        "from fuzz.memory import guarded\n"
        f"a = guarded((5,), np.dtype('f4'), at_end={at_end})\n"
        "a[:] = 1\n"
        "print(ctypes.c_float.from_address(a.ctypes.data + 16 * 1).value, flush=True)\n"
        f"print(ctypes.c_float.from_address(a.ctypes.data + 4 * {index}).value, flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode < 0 and done.stdout == "1.0\n", done.stderr


def test_guarded_arrays_are_aligned_to_their_elements() -> None:
    made = guarded((3,), np.dtype(np.float64))
    assert made.ctypes.data % 8 == 0 and (made.ctypes.data + made.nbytes) % 4096 == 0
