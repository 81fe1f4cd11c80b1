"""The thread pool: every item exactly once, whoever calls, also after a fork and a change of size."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tc
from tc import _native

TASK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
parallel_for: Any = ctypes.CFUNCTYPE(None, TASK, ctypes.c_int64, ctypes.c_void_p)(
    _native.symbols()["tc_parallel_for"]
)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = _native.get_num_threads()
    yield
    _native.set_num_threads(before)


@pytest.mark.parametrize("text", ["abc", "0", "-2", "2.0", "4097", "²"])
def test_a_number_of_threads_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TC_NUM_THREADS", text)
    with pytest.raises(
        tc.ArgumentError, match=f"TC_NUM_THREADS='{text}' is not a number of threads"
    ) as caught:
        tc.compile("def f(float(N) x) -> (y) { y(i) = x(i) }", backend="cpu")(np.zeros(3, np.float32))
    assert caught.value.code == "TC0512"


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("items", [0, 1, 2, 3, 64, 1000])
def test_every_item_runs_once(count: int, items: int) -> None:
    _native.set_num_threads(count)
    assert _native.get_num_threads() == count
    assert _native._pool_selftest(items, 200) == 0


def test_nested_loops() -> None:
    _native.set_num_threads(4)
    assert _native._pool_selftest(16, 200, inner=9) == 0


def test_several_callers() -> None:
    _native.set_num_threads(3)
    assert _native._pool_selftest(50, 2000, callers=4, inner=2) == 0


def test_long_items_after_a_long_pause() -> None:
    """The workers sleep by then, and the caller sleeps until the last of them is done."""
    _native.set_num_threads(4)
    for _ in range(3):
        threading.Event().wait(0.02)
        assert _native._pool_selftest(7, 1, work=2_000_000) == 0


def test_size_changes_between_loops_of_other_threads() -> None:
    wrong: list[int] = []
    stop = threading.Event()

    def loops() -> None:
        while not stop.is_set():
            wrong.append(_native._pool_selftest(20, 50))

    thread = threading.Thread(target=loops)
    thread.start()
    for count in [1, 4, 2, 3, 1, 2] * 5:
        _native.set_num_threads(count)
        assert _native._pool_selftest(20, 20) == 0
    stop.set()
    thread.join()
    assert set(wrong) <= {0}


def test_items_see_their_index_and_context() -> None:
    _native.set_num_threads(3)
    seen: list[tuple[int, int | None]] = []

    @TASK
    def item(i: int, _: int, context: int | None) -> None:
        seen.append((i, context))

    parallel_for(item, 100, 1234)
    assert sorted(seen) == [(i, 1234) for i in range(100)]
    parallel_for(item, 0, None)
    parallel_for(item, -5, None)
    assert len(seen) == 100


@pytest.mark.parametrize(("count", "items"), [(3, 100), (3, 3), (3, 2), (1, 5)])
def test_threads_keep_their_slots(count: int, items: int) -> None:
    """That items which run at the same time have different ones, `_pool_selftest` looks at."""
    _native.set_num_threads(count)
    of: dict[int, set[int]] = {}

    @TASK
    def item(i: int, slot: int, _: Any) -> None:
        assert 0 <= slot < items
        of.setdefault(threading.get_ident() if items >= count else i, set()).add(slot)

    parallel_for(item, items, None)
    assert all(len(slots) == 1 for slots in of.values())
    assert len(set.union(*of.values())) == len(of)


def test_items_run_at_the_same_time() -> None:
    """Two items that wait for each other only end if two threads run them."""
    _native.set_num_threads(2)
    barrier = threading.Barrier(2, timeout=30)
    broken: list[int] = []

    @TASK
    def item(i: int, _: int, __: Any) -> None:
        try:
            barrier.wait()
        except threading.BrokenBarrierError:
            broken.append(i)

    parallel_for(item, 2, None)
    assert broken == []


@pytest.mark.parametrize(("items", "starts"), [(12, {0, 3, 6, 9}), (10, {0, 3, 6, 8}), (4, {0, 1, 2, 3})])
def test_each_thread_begins_with_its_share(items: int, starts: set[int]) -> None:
    """Shares are neighbours, as many for each; in every loop, that is, the same ones."""
    _native.set_num_threads(4)
    everybody = threading.Barrier(4)
    first: dict[int, int] = {}

    @TASK
    def item(i: int, _: int, __: int | None) -> None:
        if threading.get_ident() not in first:
            first[threading.get_ident()] = i
            everybody.wait(60)

    seen: list[dict[int, int]] = []
    for _ in range(3):
        first.clear()
        parallel_for(item, items, None)
        seen.append(dict(first))
    assert set(seen[0].values()) == starts
    assert seen[0][threading.get_ident()] == 0
    assert seen[0] == seen[1] == seen[2]


def test_who_has_none_left_takes_the_last_of_another() -> None:
    _native.set_num_threads(2)
    done = threading.Event()
    order: list[int] = []

    @TASK
    def item(i: int, _: int, __: int | None) -> None:
        if i == 0:
            assert done.wait(60)
            return
        order.append(i)
        if len(order) == 7:
            done.set()

    parallel_for(item, 8, None)
    assert order == [4, 5, 6, 7, 3, 2, 1]


def test_size_cannot_change_inside_a_loop() -> None:
    _native.set_num_threads(2)
    raised: list[str] = []

    @TASK
    def item(_: int, __: int, ___: Any) -> None:
        try:
            _native.set_num_threads(3)
        except RuntimeError as e:
            raised.append(str(e))

    parallel_for(item, 4, None)
    assert len(raised) == 4
    assert "inside a parallel loop" in raised[0]
    assert _native.get_num_threads() == 2


@pytest.mark.parametrize("count", [0, -1, 5000])
def test_impossible_sizes(count: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 4096"):
        _native.set_num_threads(count)


def test_size_from_the_environment() -> None:
    script = "from tc import _native; print(_native.get_num_threads(), _native._pool_selftest(40, 50))"

    def run(value: str) -> str:
        environment = {**os.environ, "TC_NUM_THREADS": value}
        return subprocess.run(
            [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
        ).stdout.strip()

    assert run("3") == "3 0"
    assert run("1") == "1 0"
    usable = len(os.sched_getaffinity(0))
    for nonsense in ("", "none", "0", "-2", "2x"):
        assert run(nonsense) == f"{usable} 0"


# Forking under pytest would copy its state; the child of this process shows the same.
FORK = """
import os, sys, threading
from tc import _native
_native.set_num_threads(3)
assert _native._pool_selftest(50, 100, 2, 3) == 0
busy = threading.Thread(target=_native._pool_selftest, args=(50, 20000, 2, 3))
if sys.argv[1] == "busy":
    busy.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        good = _native.get_num_threads() == 3 and _native._pool_selftest(50, 100, 2, 3) == 0
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
if sys.argv[1] == "busy":
    busy.join()
assert _native._pool_selftest(50, 100, 2, 3) == 0
"""


@pytest.mark.parametrize("mode", ["idle", "busy"])
def test_fork(mode: str) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK, mode], check=True, timeout=60)


SIGNALS = """
import os, signal, threading, time
from tc import _native
before = set(os.listdir("/proc/self/task"))  # NumPy's libraries have threads too
_native.set_num_threads(4)
_native._pool_selftest(50, 100)
workers = set(os.listdir("/proc/self/task")) - before
assert len(workers) == 3, workers
seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append(threading.current_thread() is threading.main_thread()))
for thread in workers:
    status = open(f"/proc/self/task/{thread}/status").read()
    blocked = int(next(l for l in status.splitlines() if l.startswith("SigBlk")).split()[1], 16)
    assert blocked >> (signal.SIGUSR1 - 1) & 1, thread
os.kill(os.getpid(), signal.SIGUSR1)
assert seen == [True]
"""


def test_workers_leave_signals_alone() -> None:
    subprocess.run([sys.executable, "-c", SIGNALS], check=True, timeout=60)


PLACES = """
import os
from tc import _native

def tasks():
    return {int(t) for t in os.listdir("/proc/self/task")}

cpus = os.sched_getaffinity(0)
_native.set_num_threads(3)
before = tasks()
_native._pool_selftest(8, 1)
workers = tasks() - before
assert len(workers) == 2, workers
for here in sorted(cpus):
    os.sched_setaffinity(0, {here})  # of the calling thread alone
    _native._pool_selftest(8, 1)
    for worker in workers:
        assert os.sched_getaffinity(worker) == cpus - {here}, (here, worker)
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="there is one processor, or the system does not say which threads use",
)
def test_workers_keep_off_the_processor_of_the_caller() -> None:
    """Woken there, they would wait for the caller to be done while another processor idles."""
    subprocess.run([sys.executable, "-c", PLACES], check=True, timeout=60)
