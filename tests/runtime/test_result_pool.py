"""Memory of large results: owned by the array, aligned, used again, whoever frees it and when."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc
from tc import _native
from tc.dtypes import FLOAT32
from tc.runtime import arrays

KIB, MIB = 1 << 10, 1 << 20
F32 = np.dtype(np.float32)
Make = Callable[..., Any]
Array = np.ndarray[Any, Any]
Empty = Callable[[int], Array]


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    """When memory is short, everything that is kept goes back to the system."""
    with pytest.raises(MemoryError):
        _native.empty((1 << 57,), np.dtype(np.uint8))
    assert _native._result_pool_bytes() == 0


@pytest.fixture(params=["fast path", "slow path"])
def result(request: pytest.FixtureRequest, make: Make) -> Empty:
    """`result(bytes)`: an uninitialised result, as a call makes it."""

    def fast(size: int) -> Array:
        kernel = make("nothing", inputs=(("tensor", 2, 32, (1,)),), outputs=((2, 32, (size // 4,), False),))
        made = kernel(np.zeros(1, F32))
        assert kernel.missed == []
        return made

    def slow(size: int) -> Array:
        made: Any = arrays.result(arrays.allocate(None, FLOAT32, (size // 4,), "C"))
        return made

    return fast if request.param == "fast path" else slow


def empty(size: int) -> Array:
    return _native.empty((size // 4,), F32)


def address(array: Array) -> int:
    return array.ctypes.data


def handler(*array: Array) -> str:
    """The name of what allocated an array, or of what allocates those to come."""
    module = sys.modules.get("numpy._core.multiarray") or sys.modules["numpy.core.multiarray"]
    return module.get_handler_name(*array)


# ---- what a result is


@pytest.mark.parametrize("size", [MIB, MIB + 4, 3 * MIB, 4 * MIB - 64, 4 * MIB, 6 * MIB - 60, 17 * MIB + 12])
def test_a_large_result_owns_aligned_memory(result: Empty, size: int) -> None:
    made = result(size)
    assert handler(made) == "tc results"
    assert made.nbytes == size and type(made) is np.ndarray
    assert address(made) % 64 == 0
    assert made.base is None
    assert made.flags.owndata and made.flags.writeable and made.flags.c_contiguous and made.flags.aligned
    made[...] = 3
    assert (made == 3).all()


def test_a_small_result_is_left_to_numpy(result: Empty) -> None:
    assert handler(result(64 * KIB - 4)) == handler() == "default_allocator"
    assert handler(result(64 * KIB)) == "tc results"


def test_other_arrays_are_left_to_numpy() -> None:
    made = empty(4 * MIB)
    assert handler() == "default_allocator"
    assert handler(made + made) == handler(made.copy()) == "default_allocator"


def test_values() -> None:
    add = tc.compile("def add(float(N) A, float(N) B) -> (C, D) { C(i) = A(i) + B(i)\n D(i) = A(i) - C(i) }")
    for count in (300_000, 2_000_000, 310_000, 2_000_000, 300_000):
        a, b = np.random.default_rng(count).random((2, count), np.float32)
        for _ in range(3):
            c, d = add(a, b)
            assert handler(c) == handler(d) == "tc results"
            np.testing.assert_array_equal(c, a + b)
            np.testing.assert_array_equal(d, a - c)


# ---- what is used again


@pytest.mark.parametrize("size", [MIB, 5 * MIB, 20 * MIB])
def test_memory_is_used_again(result: Empty, size: int) -> None:
    first = result(size + size // 64)
    where = address(first)
    del first
    assert size < _native._result_pool_bytes() < size + size // 4
    second = result(size + size // 64)
    assert address(second) == where
    del second
    third = result(size)
    assert address(third) == where
    assert _native._result_pool_bytes() == 0


@pytest.mark.share(4)
def test_never_while_a_view_lives(result: Empty) -> None:
    first = result(5 * MIB)
    first[...] = 1
    views = [first[100:], first.reshape(-1, 4).T, memoryview(first), np.from_dlpack(first)]
    where = address(first)
    del first
    while views:
        other = result(5 * MIB)
        other[...] = 2
        assert address(other) != where
        assert (np.asarray(views[-1]) == 1).all()
        del other
        views.pop()
    gc.collect()
    assert address(result(5 * MIB)) == where


def test_not_for_a_much_smaller_result(result: Empty) -> None:
    first = result(32 * MIB)
    where = address(first)
    del first
    assert address(result(24 * MIB)) != where


def test_the_block_that_fits_best(result: Empty) -> None:
    large, small = result(44 * MIB), result(41 * MIB)
    where = address(small)
    del small, large
    assert address(result(41 * MIB)) == where


def test_zeroed_memory_is_zeroed_when_used_again() -> None:
    """NumPy wants it so for objects."""
    for _ in range(2):
        made = _native.empty((MIB // 4,), np.dtype(object))
        assert handler(made) == "tc results"
        assert all(x is None for x in made)
        made[...] = made
        del made
        filled = empty(2 * MIB)
        filled[...] = 1
        del filled


# ---- whoever frees it


def test_results_cross_threads() -> None:
    handed: list[Array] = []
    lock = threading.Lock()
    wrong: list[object] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for step in range(60):
            size = int(random.integers(1, 6)) * MIB
            mine = empty(size)
            mine[...] = seed * 1000 + step
            with lock:
                handed.append(mine)
                other = handed.pop(int(random.integers(len(handed))))
            if (other != other[0]).any():
                wrong.append((seed, step))
            del mine, other

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert all((a == a[0]).all() for a in handed)


def test_a_result_outlives_its_thread() -> None:
    made: list[Array] = []

    def work() -> None:
        made.append(empty(3 * MIB))
        made[0][...] = 7

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert (made[0] == 7).all()
    where = address(made.pop())
    assert address(empty(3 * MIB)) == where


def test_a_tensor_of_pytorch_holds_a_result() -> None:
    torch = pytest.importorskip("torch")
    made = empty(7 * MIB)
    made[...] = 5
    where = address(made)
    tensor = torch.from_numpy(made)
    del made
    assert address(empty(7 * MIB)) != where
    assert (tensor == 5).all()


# ---- what else can be done with it


@pytest.fixture
def counted() -> Array:
    made = empty(5 * MIB)
    made[...] = np.arange(made.size)
    return made


@pytest.mark.parametrize("size", [16, MIB, 4 * MIB, 5 * MIB - 4, 5 * MIB + 64, 6 * MIB, 40 * MIB])
def test_resize(counted: Array, size: int) -> None:
    before = counted.copy()
    counted.resize(size // 4, refcheck=False)
    same = min(before.size, size // 4)
    np.testing.assert_array_equal(counted[:same], before[:same])
    assert not counted[same:].any()
    assert address(counted) % 64 == 0
    assert counted.flags.owndata and handler(counted) == "tc results"


def test_resize_many_times() -> None:
    """Also below the size that the pool keeps, and to nothing."""
    made = empty(MIB)
    made[...] = 1
    for size in (MIB // 2, 100, 0, 8, 64 * 1024, 3 * MIB, 20 * MIB, 2 * MIB):
        made.resize(size // 4, refcheck=False)
        made[...] = size
        assert (made == size).all()


def test_copies(counted: Array) -> None:
    expected = np.arange(counted.size, dtype=np.float32)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(counted, protocol)), expected)
    for made in (copy.copy(counted), copy.deepcopy(counted), counted.copy(), np.concatenate([counted])):
        assert address(made) != address(counted)
        np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(np.concatenate([counted, counted])[counted.size :], expected)


def test_changes_in_place(counted: Array) -> None:
    where, count = address(counted), counted.size
    counted += 1
    counted *= 2
    assert counted[-1] == 2 * count
    counted[::-1].sort()
    assert counted[0] == 2 * count
    counted.byteswap(inplace=True).byteswap(inplace=True)
    counted.shape = (4, -1)
    assert counted[3, -1] == 2
    counted.dtype = np.uint8
    assert counted.nbytes == 4 * count
    assert address(counted) == where
    # It is given back whole, though its type and shape are others now.
    del counted


def test_what_cannot_be_allocated() -> None:
    with pytest.raises(MemoryError):
        _native.empty((1 << 57,), np.dtype(np.uint8))
    assert handler() == "default_allocator"
    with pytest.raises(ValueError, match=r"big|dimension"):
        _native.empty((1 << 40, 1 << 40), F32)
    with pytest.raises(ValueError, match="negative"):
        _native.empty((1 << 20, -1), F32)
    assert _native.empty((1 << 40, 0), F32).shape == (1 << 40, 0)
    assert _native.empty((), F32).shape == ()


class TheirHandler(ctypes.Structure):
    """NumPy's PyDataMem_Handler."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        *((name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")),
    ]


def test_whoever_chose_another_allocator_gets_it() -> None:
    """It is NumPy's own under another name."""
    capsule_new, pointer = ctypes.pythonapi.PyCapsule_New, ctypes.pythonapi.PyCapsule_GetPointer
    capsule_new.restype = ctypes.py_object
    capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    module = sys.modules.get("numpy._core.multiarray") or sys.modules["numpy.core.multiarray"]
    table = ctypes.cast(pointer(module._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    set_handler: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[304] or 0)
    get_handler: Any = ctypes.PYFUNCTYPE(ctypes.py_object)(table[305] or 0)
    name = b"mem_handler"
    theirs = TheirHandler.from_buffer_copy(
        ctypes.string_at(pointer(get_handler(), name) or 0, ctypes.sizeof(TheirHandler))
    )
    theirs.name = b"theirs"
    before = set_handler(capsule_new(ctypes.addressof(theirs), name, None))
    try:
        made = empty(4 * MIB)
        assert handler(made) == handler() == "theirs"
        del made
    finally:
        set_handler(before)
    assert handler(empty(4 * MIB)) == "tc results"
