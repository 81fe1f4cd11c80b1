"""What is dropped is freed; a short share of `python -m fuzz.endurance`, and that it sees what grows."""

from __future__ import annotations

import mmap
import subprocess
import sys

import pytest

from fuzz.endurance import Phase, Sample, measure
from tests.faults import children

DROPPED = """
# Kernels that nobody has any more, and that the cache has dropped, leave nothing behind.
import gc
from collections import Counter
from tc import api, kernel

KEPT = 4
kernel.CACHE.capacity = kernel.BUILT.capacity = api._FRONTS.capacity = KEPT

def alive():
    gc.collect()
    found = Counter(type(x).__name__ for x in gc.get_objects())
    kinds = "ExecutionEngine Kernel Compiled Program LoopNest Front type"
    return {n: found[n] for n in kinds.split()}

def work(k):
    backend = ("cpu", "reference")[k % 2]
    assert right(("mm", "rows", "outer")[k % 3], k, backend)
    # A name and results of its own, and so a class of its own for these.
    pair = tc.compile("def f%d(float(N) A) -> (s, m) { s +=! A(i)\\n m max=! A(i) }" % k, backend)
    one, two = pair(np.ones(4, np.float32)), pair(np.ones(5, np.float32))
    assert type(one) is type(two) and one._fields == ("s", "m")
    if k % 5 == 0:
        kernel_ = tc.compile(SOURCES["mm"] % k, backend, dynamic=("M",))
        for m in range(1, 9):
            kernel_(*data(m))
    if k % 7 == 0:
        for bad in ("def f(float(N) A) -> (B) { B(i) = A(j) * %d }" % k, "def f(" + "(" * k):
            try:
                tc.compile(bad, backend)
            except tc.Error:
                pass

for k in range(2 * KEPT):
    work(k)
before = alive()
for k in range(2 * KEPT, 5 * KEPT):
    work(k)
after = alive()
assert 3 <= before["Kernel"] <= 2 * KEPT and KEPT <= before["ExecutionEngine"] <= 2 * KEPT, before
assert all(after[n] <= before[n] + 2 for n in before), (before, after)
"""


def test_what_is_dropped_is_freed() -> None:
    children.run(DROPPED, TC_CACHE="0")


@pytest.mark.slow
def test_memory_does_not_grow() -> None:
    """So few compiles still touch new pages; the test above is exact."""
    command = ["--compiles", "20", "--calls", "10000", "--kept", "10", "--backend", "cpu"]
    command += ["--compiles-bound", "400000", "--calls-bound", "8000"]
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.endurance", *command],
        capture_output=True,
        text=True,
        cwd=children.ROOT,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "growth per 1000 compiles" in done.stdout and "growth per 1000000 calls" in done.stdout


@pytest.mark.slow
def test_a_leak_is_seen() -> None:
    kept: list[mmap.mmap] = []

    def leak(k: int) -> None:
        """Two pages of its own: what comes from the heap may have been there, free, before."""
        kept.append(mmap.mmap(-1, 2 * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        kept[-1][0] = kept[-1][mmap.PAGESIZE] = 1

    leaking = measure("calls", 4000, 1_000_000, 1 << 20, leak, 4)
    assert not leaking.good and "TOO MUCH" in leaking.table()
    assert 0.8 < leaking.growth / (2e6 * mmap.PAGESIZE) < 1.5
    quiet = measure("calls", 4000, 1_000_000, 50 << 20, lambda k: None, 4)
    assert quiet.good


def test_growth_is_a_slope() -> None:
    noisy = [Sample(k, 10**8 + 300 * k + k // 20 % 2 * 5000, 0) for k in range(0, 1001, 20)]
    assert abs(Phase("compiles", 1000, 400_000, noisy, 1).growth - 300_000) < 20_000
    assert Phase("compiles", 1000, 400_000, noisy, 1).good
    assert not Phase("compiles", 1000, 200_000, noisy, 1).good
