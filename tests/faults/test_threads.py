"""Threads that compile and call at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import children

MANY = """
from tc import kernel
backends, sizes = sys.argv[1].split(","), [int(m) for m in sys.argv[2].split(",")]
work = [(name, c, backend, m) for name in SOURCES for c in (2, 3) for backend in backends for m in sizes]
barrier, wrong = threading.Barrier(6), []

def thread(number):
    rng = random.Random(number)
    mine = list(work)
    for _ in range(2):
        rng.shuffle(mine)
        barrier.wait()
        for name, c, backend, m in mine:
            try:
                if not right(name, c, backend, seed=number, m=m):
                    wrong.append((name, c, backend, m))
            except BaseException as e:
                wrong.append(repr(e))

threads = [threading.Thread(target=thread, args=(k,)) for k in range(6)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not wrong, wrong[:3]
print(kernel.CACHE.misses, len(work), sum(v.restored for v in kernel.CACHE._values.values()))
assert not kernel.CACHE._making
"""


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize(("backends", "sizes"), [("cpu,reference", "3,9"), ("halide", "9")])
def test_the_same_and_different_programs_at_once(backends: str, sizes: str, tmp_path: Path) -> None:
    """Cold, then with kernels on disk; each is compiled once, whoever asks first."""
    for restored in (False, True) if "cpu" in backends else (False,):  # only cpu keeps any
        out = children.run(MANY, backends, sizes, TC_CACHE_DIR=str(tmp_path))
        made, programs, loaded = map(int, out.split())
        assert made == programs
        assert loaded == (programs // 2 if restored else 0)


CLEARED = """
from tc import kernel
stop, wrong = threading.Event(), []

def clears():
    while not stop.wait(0.002):
        kernel.CACHE.clear()

def compiles(number):
    for k in range(15):
        if not right("mm", 2 + k % 5, ("cpu", "reference")[number % 2], seed=k):
            wrong.append(k)

def calls(shared):
    for k in range(300):  # more sizes than a kernel remembers, so entries come and go
        a, b = data(1 + k % 70, seed=k)
        if not np.array_equal(shared(a, b), expected("mm", 99, a, b)):
            wrong.append(k)

shared = tc.compile(SOURCES["mm"] % 99, "cpu", dynamic=("M",))
threads = [threading.Thread(target=compiles, args=(k,)) for k in range(4)]
threads += [threading.Thread(target=calls, args=(shared,)) for _ in range(3)]
clearing = threading.Thread(target=clears)
for t in (*threads, clearing):
    t.start()
for t in threads:
    t.join()
stop.set()
clearing.join()
assert not wrong, wrong[:3]
"""


@pytest.mark.slow
def test_caches_are_cleared_under_those_who_use_them(tmp_path: Path) -> None:
    children.run(CLEARED, TC_CACHE_DIR=str(tmp_path), TC_CACHE_MIB="1")
