"""What Halide's code calls: the pool, memory, messages, the error record."""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import tc

I32, I64, POINTER = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p


@pytest.fixture(scope="module")
def symbol() -> Any:
    """`symbol(name, result, *parameters)`: a function of the run time."""
    kernel = tc.compile("def f(float(N) A) -> (O) { O(i) = A(i) }", backend="halide")
    kernel.specialize(N=1)

    def find(name: str, result: Any, *parameters: Any) -> Any:
        address = llvm.address_of_symbol(name)
        assert address, name
        return ctypes.CFUNCTYPE(result, *parameters)(address)

    return find


def record() -> np.ndarray[Any, Any]:
    return np.zeros(32, np.int64)


def text(r: np.ndarray[Any, Any]) -> str:
    return r[3:].tobytes().split(b"\0")[0].decode()


def test_memory_is_aligned_for_vectors(symbol: Any) -> None:
    malloc, free = (
        symbol("halide_malloc", POINTER, POINTER, I64),
        symbol("halide_free", None, POINTER, POINTER),
    )
    for size in (1, 100, 1 << 20):
        memory = malloc(None, size)
        assert memory and memory % 128 == 0
        free(None, memory)
    assert malloc(None, (1 << 63) - 256) is None


TASK = ctypes.CFUNCTYPE(I32, POINTER, I32, POINTER)


def test_a_parallel_loop_runs_every_index_once(symbol: Any) -> None:
    loop = symbol("halide_do_par_for", I32, POINTER, TASK, I32, I32, POINTER)
    seen: list[tuple[Any, int, Any]] = []

    @TASK
    def task(context: Any, index: int, closure: Any) -> int:
        seen.append((context, index, closure))
        return 0

    assert loop(11, task, -3, 50, 22) == 0
    assert sorted(seen) == [(11, k, 22) for k in range(-3, 47)]
    assert loop(11, task, 0, 0, 22) == 0 and loop(11, task, 0, -5, 22) == 0
    assert len(seen) == 50


def test_a_parallel_loop_returns_a_failure_and_skips_the_rest(symbol: Any) -> None:
    loop = symbol("halide_do_par_for", I32, POINTER, TASK, I32, I32, POINTER)
    ran: list[int] = []

    @TASK
    def task(context: Any, index: int, closure: Any) -> int:
        ran.append(index)
        return 7

    assert loop(None, task, 0, 1000, None) == 7
    assert 1 <= len(ran) < 1000


def test_a_failed_check_becomes_the_record_once(symbol: Any) -> None:
    failed = symbol("halide_error_requirement_failed", I32, POINTER, ctypes.c_char_p, ctypes.c_char_p)
    r = record()
    assert failed(r.ctypes.data, b"i < 5", b"-9 3 2 41 -42\n") != 0
    assert r[:6].tolist() == [3, -9, 2, 41, -42, 0]
    assert failed(r.ctypes.data, b"i < 5", b"8 1 1 0\n") != 0
    assert r[:6].tolist() == [3, -9, 2, 41, -42, 0]
    r = np.zeros(40, np.int64)
    numbers = b" ".join(b"%d" % k for k in range(1, 60))
    failed(r.ctypes.data, b"", numbers)
    assert r[:32].tolist() == [2, 1, *range(3, 33)] and not r[32:].any()


def test_messages_stop_at_the_end_of_their_room(symbol: Any) -> None:
    number = symbol("halide_int64_to_string", POINTER, POINTER, POINTER, I64, I32)
    string = symbol("halide_string_to_string", POINTER, POINTER, POINTER, ctypes.c_char_p)
    room = np.full(16, 0xEE, np.uint8)
    start, end = room.ctypes.data, room.ctypes.data + 8
    at = number(start, end, -42, 1)
    assert at == start + 3 and room.tobytes().startswith(b"-42\0")
    at = string(at, end, b" and more")
    assert at == start + 7 and room.tobytes().startswith(b"-42 and\0")
    assert string(at, end, b"x") == at and number(end, end, 5, 1) == end
    assert (room[8:] == 0xEE).all()


def test_other_errors_leave_their_kind_and_text(symbol: Any) -> None:
    r = record()
    assert symbol("halide_error_out_of_memory", I32, POINTER)(r.ctypes.data) == 2
    assert (r[:3].tolist(), text(r)) == ([0, 1, 0], "out of memory")
    r = record()
    outside = symbol(
        "halide_error_access_out_of_bounds", I32, POINTER, ctypes.c_char_p, I32, I32, I32, I32, I32
    )
    assert outside(r.ctypes.data, b"Input buffer A", 1, 0, 7, 0, 5) == 2
    assert (r[:3].tolist(), text(r)) == ([0, 2, 0], "Input buffer A, dimension 1: 0 to 7 read, 0 to 5 there")
    r[0] = 5
    assert symbol("halide_error_host_is_null", I32, POINTER, ctypes.c_char_p)(r.ctypes.data, b"A") == 2
    assert r[0] == 5 and "dimension" in text(r)


def test_locks_of_atomic_updates_exclude_each_other(symbol: Any) -> None:
    create = symbol("halide_mutex_array_create", POINTER, I64)
    lock, unlock = (symbol(f"halide_mutex_array_{n}", I32, POINTER, I32) for n in ("lock", "unlock"))
    loop = symbol("halide_do_par_for", I32, POINTER, TASK, I32, I32, POINTER)
    words = create(4)
    inside, most = 0, 0

    @TASK
    def task(context: Any, index: int, closure: Any) -> int:
        nonlocal inside, most
        lock(words, 3)
        inside += 1
        most = max(most, inside)
        inside -= 1
        return unlock(words, 3)

    assert loop(None, task, 0, 200, None) == 0
    assert (most, inside) == (1, 0)
    assert lock(words, 0) == 0 and lock(words, 1) == 0
    symbol("halide_mutex_array_destroy", None, POINTER, POINTER)(None, words)
