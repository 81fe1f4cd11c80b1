"""Calls with tensors of PyTorch run on PyTorch's threads; those with other arrays on the pool."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

import tc
from tc import _native

torch = pytest.importorskip("torch")

# All that needs a process of its own, in one.
_SCRIPT = """
import os, time, warnings
import numpy as np, torch, tc
from tc import _native
warnings.simplefilter("ignore")
torch.set_num_threads(2)
_native.set_num_threads(2)
k = tc.compile("def f(float(N) x) -> (y) { y(n) = tanh(x(n)) * x(n) }")
x = torch.randn(1 << 20)
wanted = torch.tanh(x) * x
def threads():
    return set(os.listdir("/proc/self/task"))
def right(found):
    return np.allclose(found, wanted, rtol=1e-5, atol=1e-6)
_ = torch.randn(1 << 20) * 2  # PyTorch has its threads now
before = threads()
for _ in range(10):  # calls that say how long loops are, on the pool
    assert right(k(x))
worker = (threads() - before).pop()
def works(f, *args):  # whether the pool's worker runs meanwhile
    def ran():
        return open(f"/proc/self/task/{worker}/schedstat").read().split()[0]
    start = None
    while start != (start := ran()):  # it may still wait for work in a loop
        time.sleep(0.05)
    for _ in range(10):
        assert right(f(*args))
    return ran() != start
print("long", works(k, x), works(k, x.numpy()))
print("gaps", works(k, torch.stack([x, x], 1)[:, 0]))  # not by the fast path
torch.set_num_threads(1)
print("one", works(k, x))
torch.set_num_threads(2)
print("two", works(k, x))
child = os.fork()
if child == 0:
    os._exit(0 if right(k(x)) and right(k(x.numpy())) else 1)
print("child", os.waitpid(child, 0)[1])
print("parent", right(k(x)))
k = tc.compile("def f(float(N) x) -> (y) { y(n) = x(n) * 0.5 * (1 + 0 * tanh(x(n))) }")
tiny, half = np.full(1 << 20, 1e-38, np.float32), np.float32(0.5e-38)
torch.set_flush_denormal(True)
for _ in range(12):
    found = k(torch.from_numpy(tiny)).numpy()
torch.set_flush_denormal(False)
print("tiny", (found == half).all() and half != 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are seen in /proc")
def test_which_threads_run_loops() -> None:
    """Of long loops PyTorch's, but not if it has another number of them; of children the pool's.

    Subnormal numbers stay where PyTorch flushes them.
    """
    found = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "TC_CACHE": "0", "TC_VERIFY": "0"},
    )
    assert found.returncode == 0, found.stderr
    assert {line.split()[0]: line.split()[1:] for line in found.stdout.splitlines()} == {
        "long": ["False", "True"],  # of a tensor, of an array
        "gaps": ["False"],
        "one": ["True"],
        "two": ["False"],
        "child": ["0"],
        "parent": ["True"],
        "tiny": ["True"],
    }


def test_several_callers_at_once() -> None:
    kernel = tc.compile("def f(float(N) x, float s) -> (y) { y(n) = x(n) * s }")
    x = torch.randn(1 << 21)
    for _ in range(10):
        kernel(x, 1.0)
    wrong: list[float] = []

    def calls(s: float) -> None:
        for _ in range(20):
            wrong.extend([s] * (not torch.equal(kernel(x, s), x * s)))

    some = [threading.Thread(target=calls, args=(float(s),)) for s in range(4)]
    for t in some:
        t.start()
    for t in some:
        t.join()
    assert not wrong


def test_threads_change_between_calls() -> None:
    kernel = tc.compile("def f(float(N) x) -> (y) { y(n) = x(n) + 1 }")
    x = torch.arange(1 << 21, dtype=torch.float32)
    for _ in range(10):
        kernel(x)
    before, own = torch.get_num_threads(), _native.get_num_threads()
    try:
        for count in (1, 2, 3, 2, 4, 1):
            torch.set_num_threads(count)
            for mine in (count, 2):
                _native.set_num_threads(mine)
                assert torch.equal(kernel(x), x + 1)
    finally:
        torch.set_num_threads(before)
        _native.set_num_threads(own)
