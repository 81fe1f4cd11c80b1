"""Processes: forked in the middle of other threads' work, spawned onto one cache folder, dead in the middle
of a write."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tc.cache.disk import Store
from tests.faults import children
from tests.share import examples

# ---- forks

FORK = """
backends = sys.argv[1].split(",")
assert all(right("mm", 2, backend) for backend in backends)  # loads what is needed
stop, wrong, count = threading.Event(), [], [0]

def works(number):
    # Programs that nobody compiled before, so that most of the time some lock is held.
    while not stop.is_set():
        count[0] += 1
        c = 1000 * number + count[0]
        if not right(("mm", "rows", "outer")[c % 3], c, backends[c % len(backends)]):
            wrong.append(c)

def child(k):
    # What the others were in the middle of, something new, and a kernel from before the fork, in two threads.
    def work():
        c = 7000 + k
        good.append(all(right("rows", c, b) and right("mm", 2, b) for b in backends))
        near = [1000 * number + count[0] + d for number in range(2) for d in (0, -1)]
        good.append(all(right(("mm", "rows", "outer")[c % 3], c, backends[c % len(backends)]) for c in near))
    good = []
    assert sys.stdout is sys.__stdout__  # Halide's is listened to
    helper = threading.Thread(target=work)
    helper.start()
    work()
    helper.join()
    import gc
    os._exit(0 if good == [True] * 4 and gc.isenabled() else 1)

threads = [threading.Thread(target=works, args=(k,), daemon=True) for k in range(2)]
for t in threads:
    t.start()
rng = random.Random(1)
for k in range(int(sys.argv[2])):
    time.sleep(rng.random() * 0.03)
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        child(k)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"fork {k}: {status}"
stop.set()
for t in threads:
    t.join()
assert not wrong, wrong
"""


@pytest.mark.share(4)
@pytest.mark.parametrize(("backends", "forks"), [("cpu,reference", examples(8, 2)), ("halide,cpu", 3)])
def test_forks_while_other_threads_compile(backends: str, forks: int, tmp_path: Path) -> None:
    children.run(FORK, backends, str(forks), TC_CACHE_DIR=str(tmp_path))


CALLS = """
from tc import _native
_native.set_num_threads(3)
source = "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
kernel = tc.compile(source, "cpu")
a, b = data(300, 70, 90)
want = a @ b
stop, wrong = threading.Event(), []

def calls():
    while not stop.is_set():
        if not np.array_equal(kernel(a, b), want):
            wrong.append(1)

assert np.array_equal(kernel(a, b), want)
assert "parallel for" in kernel.inspect("loops", M=300, K=70, N=90)
threads = [threading.Thread(target=calls, daemon=True) for _ in range(2)]
for t in threads:
    t.start()
for k in range(15):
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        good = [np.array_equal(kernel(a, b), want) for _ in range(3)]
        helpers = [threading.Thread(target=lambda: good.append(np.array_equal(kernel(a, b), want)))]
        for t in helpers:
            t.start()
        for t in helpers:
            t.join()
        os._exit(0 if good == [True] * 4 and _native.get_num_threads() == 3 else 1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"fork {k}: {status}"
stop.set()
for t in threads:
    t.join()
assert not wrong
"""


def test_forks_while_other_threads_call() -> None:
    children.run(CALLS)


NESTED = """
# A fork in the middle of one's own compile: the child goes on with it, its locks held by itself.
from tc.pipeline.pass_manager import Record
note, forked = Record.note, []

def forking(record, name, *rest):
    note(record, name, *rest)
    if name == sys.argv[1] and not forked:
        forked.append(os.fork())

Record.note = forking
good = right("mm", 5, "cpu") and right("rows", 6, "reference")
assert forked, "the stage does not run"
if forked[0] == 0:
    others = []
    helper = threading.Thread(target=lambda: others.append(right("outer", 7, "cpu")))
    helper.start()
    helper.join()
    os._exit(0 if good and others == [True] else 1)
_, status = os.waitpid(forked[0], 0)
assert good and os.waitstatus_to_exitcode(status) == 0, status
"""


def test_a_fork_in_the_middle_of_a_compile() -> None:
    children.run(NESTED, "schedule", TC_CACHE="0")


# ---- spawned processes on one folder

SPAWN = """
import subprocess

CHILD = '''
import sys, threading
from tests.faults.children import *
import tc.api  # no cards, but kernels from disk
from tc import kernel
wrong = []
def work():
    for c in (2, 3):
        for name in SOURCES:
            if not right(name, c):
                wrong.append((name, c))
threads = [threading.Thread(target=work) for _ in range(2)]
sys.stdin.read()  # until all are there
for t in threads:
    t.start()
for t in threads:
    t.join()
print(len(wrong), sum(v.restored for v in kernel.CACHE._values.values()))
'''
started = [
    subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(2)
]
for p in started:
    p.stdin.close()
for p in started:
    assert p.wait() == 0
    assert p.stdout.read().split()[0] == "0"
last = subprocess.run([sys.executable, "-c", CHILD], input="", capture_output=True, text=True, check=True)
assert last.stdout.split() == ["0", "6"], last.stdout
"""


@pytest.mark.slow
def test_spawned_processes_share_a_folder(tmp_path: Path) -> None:
    children.run(SPAWN, TC_CACHE_DIR=str(tmp_path))
    kept = Store(tmp_path)
    assert len(kept.entries()) >= 6
    assert all(kept.get(e.key) is not None for e in kept.entries())
    assert not list(tmp_path.rglob(".new-*"))


# ---- death in the middle of a write

DIES = """
from tc.cache import disk
when = sys.argv[1]

def dies(*paths):
    os.kill(os.getpid(), signal.SIGKILL)

class Half:
    # A file that takes half of what it is given, and then its process is gone.
    def __init__(self, file):
        self.file = file
    def __enter__(self):
        return self
    def __exit__(self, *rest):
        self.file.close()
    def write(self, data):
        self.file.write(data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

fdopen = os.fdopen
disk.os = type(sys)("os")
disk.os.__dict__.update(vars(os), replace=dies)
if when == "written half":
    disk.os.fdopen = lambda *args, **more: Half(fdopen(*args, **more))
print(right("mm", 2), right("rows", 2))
"""
AFTER = """
import tc.api  # no cards, but kernels from disk
from tc import kernel
assert right("mm", 2) and right("rows", 2)
print(sum(v.restored for v in kernel.CACHE._values.values()))
"""


@pytest.mark.share(4)
@pytest.mark.parametrize("when", ["written half", "before the rename"])
def test_a_process_dies_while_it_keeps_a_kernel(when: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ended with -9"):
        children.run(DIES, when, TC_CACHE_DIR=str(tmp_path))
    left = list(tmp_path.rglob(".new-*"))
    assert left
    # The first thing that is kept is the digest of the sources, in any case.
    assert children.run(AFTER, TC_CACHE_DIR=str(tmp_path)).split() == ["0"]
    if when == "written half":
        assert children.run(AFTER, TC_CACHE_DIR=str(tmp_path)).split() == ["2"]
    kept = Store(tmp_path)
    assert len(kept.entries()) >= 3
    assert all(kept.get(e.key) is not None for e in kept.entries())
    for f in left:
        then = time.time() - 7200
        os.utime(f, (then, then))
    kept.evict()
    assert not list(tmp_path.rglob(".new-*"))


KILLED = """
import subprocess

CHILD = '''
from tests.faults.children import *
for c in range(10_000):
    assert right("mm", c, m=5)
    print(c, flush=True)
'''
rng = random.Random(3)
for k in range(2):
    p = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE)
    p.stdout.readline()
    time.sleep(rng.random() * 0.2)
    p.kill()
    assert p.wait() == -9, "it ended by itself"
    p.stdout.close()
assert all(right("mm", c, m=5) for c in range(5))
"""


@pytest.mark.slow
def test_processes_are_killed_at_any_moment(tmp_path: Path) -> None:
    children.run(KILLED, TC_CACHE_DIR=str(tmp_path))
    kept = Store(tmp_path)
    assert kept.entries()
    assert all(kept.get(e.key) is not None for e in kept.entries())


def test_no_property_has_a_lock() -> None:
    """`cached_property` has one up to Python 3.11; another thread that holds it at a fork never lets it go in
    the child."""
    root = Path(__file__).parents[2]
    files = [f for folder in ("tc", "backends") for f in (root / folder).rglob("*.py")]
    assert len(files) > 100
    assert not [f for f in files if "@cached_property" in f.read_text(encoding="utf-8")]
