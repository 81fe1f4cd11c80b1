"""Calls with tensors of PyTorch run on PyTorch's threads; those with other arrays on the pool."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading

import pytest

import tc
from tc import _native

torch = pytest.importorskip("torch")

_START = """
import os, warnings
import numpy as np, torch, tc
from tc import _native
warnings.simplefilter("ignore")
torch.set_num_threads(2)
_native.set_num_threads(2)
k = tc.compile("def f(float(N) x) -> (y) { y(n) = tanh(x(n)) * x(n) }")
x = torch.randn(1 << 20)
def threads():
    return len(os.listdir("/proc/self/task"))
def right(found):
    return np.allclose(found, np.tanh(x.numpy()) * x.numpy(), rtol=1e-5, atol=1e-6)
_ = torch.randn(1 << 20) * 2  # PyTorch has its threads now
"""


def _run(body: str) -> str:
    code = _START + textwrap.dedent(body)
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "TC_CACHE": "0"},
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_no_threads_are_started_beside_those_of_pytorch() -> None:
    out = _run("""
        before = threads()
        for _ in range(3):
            assert right(k(x))
            assert right(k(torch.stack([x, x], 1)[:, 0]))  # not dense: not by the fast path
        assert threads() == before
        assert right(k(x.numpy()))
        print(threads() - before)
    """)
    assert out.split() == ["1"]


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_another_number_of_threads_is_the_pools() -> None:
    out = _run("""
        k(x)
        before = threads()
        torch.set_num_threads(1)
        assert right(k(x))
        print(threads() - before)
        _native.set_num_threads(3)
        assert right(k(x))
        print(threads() - before)
    """)
    assert out.split() == ["1", "2"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_the_child_of_a_fork_has_threads_of_its_own() -> None:
    _run("""
        assert right(k(x))
        child = os.fork()
        if child == 0:
            os._exit(0 if right(k(x)) and right(k(x.numpy())) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert right(k(x))
    """)


def test_subnormal_numbers_stay_where_pytorch_flushes_them() -> None:
    _run("""
        k = tc.compile("def f(float(N) x) -> (y) { y(n) = x(n) * 0.5 }")
        tiny, half = np.full(1 << 20, 1e-38, np.float32), np.float32(0.5e-38)
        torch.set_flush_denormal(True)
        found = k(torch.from_numpy(tiny)).numpy()
        torch.set_flush_denormal(False)
        assert (found == half).all() and half != 0
    """)


def test_several_callers_at_once() -> None:
    kernel = tc.compile("def f(float(N) x, float s) -> (y) { y(n) = x(n) * s }")
    x = torch.randn(1 << 19)
    kernel(x, 1.0)
    wrong: list[float] = []

    def calls(s: float) -> None:
        for _ in range(40):
            wrong.extend([s] * (not torch.equal(kernel(x, s), x * s)))

    some = [threading.Thread(target=calls, args=(float(s),)) for s in range(4)]
    for t in some:
        t.start()
    for t in some:
        t.join()
    assert not wrong


def test_threads_change_between_calls() -> None:
    kernel = tc.compile("def f(float(N) x) -> (y) { y(n) = x(n) + 1 }")
    x = torch.arange(1 << 18, dtype=torch.float32)
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
