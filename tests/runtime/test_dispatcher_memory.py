"""Fast calls and memory: scratch space, threads, callbacks, reference counts, collection."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import weakref
from collections import namedtuple
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tc import _native

T45: Any = ("tensor", 2, 32, (4, 5))
O45: Any = (2, 32, (4, 5), False)
Pair = namedtuple("Pair", ["first", "second"])
Make = Callable[..., Any]
Address = Callable[[str], int]
Empty = Callable[[], Any]


def grid(start: float = 0) -> np.ndarray[Any, Any]:
    return (np.arange(20) + start).astype(np.float32).reshape(4, 5)


def callback_address(callback: Any) -> int:
    return ctypes.cast(callback, ctypes.c_void_p).value or 0


def test_workspace_is_aligned_reused_and_given_back(address: Address, empty: Empty) -> None:
    def addresses(size: int) -> list[int]:
        entry = _native.Entry(address("scratch"), [T45], [(0, 64, (2,), False)], size)
        kernel = empty()
        kernel._add(entry)
        outs = [kernel(grid()) for _ in range(3)]
        assert all(o[1] == (0x5A if size else -1) for o in outs)
        return [int(o[0]) for o in outs]

    def fresh_arena() -> None:
        assert addresses(0) == [0, 0, 0]
        small = addresses(4097)
        assert len(set(small)) == 1
        assert small[0] % 64 == 0
        assert _native._arena_bytes() == 4097
        large = addresses(1 << 20)
        assert all(a % 64 == 0 for a in large)
        assert _native._arena_bytes() == 1 << 20
        assert len(set(addresses(4096))) == 1
        assert _native._arena_bytes() == 1 << 20
        # From half a megabyte on, blocks lie on huge pages where the system has some.
        assert all(a % (2 << 20) == 0 for n in (1 << 19, 5 << 20) for a in addresses(n))
        addresses((64 << 20) + 1)
        assert _native._arena_bytes() == 0
        assert addresses((1 << 19) - 1)[0] % 64 == 0

    # An arena belongs to a thread: in this one, kernels of other tests may have left theirs.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(fresh_arena).result()


def test_no_memory_for_the_workspace(make: Make) -> None:
    kernel = make("nothing", workspace=1 << 60)
    with pytest.raises(MemoryError, match="scratch"):
        kernel(grid())
    np.testing.assert_array_equal(make("accumulate")(grid(), out=grid()), 2 * grid())


def test_nested_calls_have_scratch_memory_of_their_own(address: Address, empty: Empty) -> None:
    inner = empty()
    inner._add(_native.Entry(address("scratch"), [T45], [(0, 64, (2,), False)], 4096))
    seen: list[int] = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    def outer_kernel(args: Any) -> int:
        mine = args[3]
        ctypes.memset(mine, 1, 4096)
        inner_address = int(inner(grid())[0])
        seen.append(inner_address)
        untouched = ctypes.string_at(mine, 4096) == b"\1" * 4096
        ctypes.cast(args[1], ctypes.POINTER(ctypes.c_int64))[0] = mine
        return 0 if untouched and abs(inner_address - mine) >= 4096 else 1

    outer = empty()
    outer._add(
        _native.Entry(
            callback_address(outer_kernel),
            [T45],
            [(0, 64, (2,), False)],
            4096,
            owner=outer_kernel,
        )
    )
    for _ in range(3):
        outer(grid())
    assert len(seen) == 3
    assert inner.missed == outer.missed == []


def test_threads_share_a_kernel(make: Make) -> None:
    kernel = make("naps", workspace=80)
    wrong = [0] * 6

    def work(k: int) -> None:
        mine = grid(100 * k)
        for _ in range(20):
            wrong[k] += not np.array_equal(kernel(mine), mine)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == [0] * 6
    assert kernel.missed == []


def test_gil_is_released_when_asked(address: Address, empty: Empty) -> None:
    """A kernel waits for another Python thread, which can only run if the interpreter lock is free."""
    started, go = threading.Event(), threading.Event()
    libc = ctypes.CDLL(None)

    def set_flag() -> None:
        started.wait()
        flag[0] = 1
        go.set()

    flag = (ctypes.c_int * 1)(0)
    thread = threading.Thread(target=set_flag)
    thread.start()

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
    def waits(_: Any) -> int:
        started.set()
        for _ in range(2000):
            if flag[0]:
                return 0
            libc.usleep(1000)
        return 1

    kernel = empty()
    kernel._add(_native.Entry(callback_address(waits), [T45], [O45], release_gil=True, owner=waits))
    kernel(grid())
    thread.join()
    assert go.is_set()


def test_denormals_survive_a_caller_that_flushes_them(make: Make) -> None:
    import torch

    kernel = make("halves", [("tensor", 2, 64, ())], [(2, 64, (), False)])
    tiny = np.array(np.finfo(np.float64).tiny)
    if not torch.set_flush_denormal(True):
        pytest.fail("the processor of this machine cannot flush denormals")
    try:
        for release in (True, False):
            kernel._add(
                _native.Entry(
                    kernel._entries()[0].address, [("tensor", 2, 64, ())], [(2, 64, (), False)], 0, release
                )
            )
            out = kernel(tiny)
            assert out.view(np.uint64) == 1 << 51
        flushed = tiny / 2
        assert flushed.view(np.uint64) == 0  # the caller's mode is back
    finally:
        torch.set_flush_denormal(False)


def count_references(objects: list[Any]) -> list[int]:
    return [sys.getrefcount(o) for o in objects]


def test_no_references_leak(make: Make) -> None:
    add, pair, fail = (
        make("add3", [T45] * 3),
        make("twice", outputs=[O45, O45], result_type=Pair),
        make("fails", owner=object()),
    )
    a, b, buffer, second = grid(), grid(1), grid(), grid()
    dtype = a.dtype
    tracked = [
        a,
        b,
        buffer,
        second,
        dtype,
        Pair,
        add._entries()[0],
        pair._entries()[0],
        fail._entries()[0],
        fail,
    ]

    def everything() -> None:
        add(a, b, b)
        add(a, b, a, out=buffer)
        add(a, b, a, out=(buffer,))
        pair(a)
        pair(a, out=(buffer, second))
        for call in (lambda: fail(a), lambda: fail(a, out=buffer)):
            try:
                call()
            except IndexError:
                pass
            else:
                raise AssertionError
        add(a, b, out=a)
        add(a, b, c=a)
        for kernel in (add, pair, fail):
            kernel.missed.clear()

    everything()
    for _attempt in range(3):
        gc.collect()
        before = count_references(tracked)
        nones = sys.getrefcount(None)
        blocks = sys.getallocatedblocks()
        for _ in range(500):
            everything()
        gc.collect()
        assert count_references(tracked) == before
        # Other threads of the process take and drop None too: some dozens each time, rarely thousands.
        # A leak is 500 or more each time.
        if abs(sys.getrefcount(None) - nones) < 250 and sys.getallocatedblocks() - blocks < 200:
            break
    else:
        pytest.fail("None or blocks of memory are not given back")


def test_cycles_are_collected(address: Address) -> None:
    class Owner:
        kernel: Any

    class Own(_native.Dispatcher):
        pass

    owner, kernel = Owner(), Own()
    owner.kernel = kernel
    kernel._add(_native.Entry(address("nothing"), [T45], [O45], owner=owner))
    watched = weakref.ref(owner), weakref.ref(kernel), weakref.ref(Own)
    del owner, kernel, Own, Owner
    gc.collect()
    assert [w() for w in watched] == [None] * 3


def test_clearing_while_a_kernel_runs(address: Address, empty: Empty) -> None:
    class Owner:
        pass

    owner = Owner()
    alive: list[bool] = []
    kernel = empty()

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
    def clears(_: Any) -> int:
        kernel._clear()
        gc.collect()
        alive.append(gone() is not None)
        return 0

    gone = weakref.ref(owner)
    kernel._add(_native.Entry(callback_address(clears), [T45], [O45], owner=owner))
    del owner
    kernel(grid())
    assert alive == [True]
    gc.collect()
    assert gone() is None
