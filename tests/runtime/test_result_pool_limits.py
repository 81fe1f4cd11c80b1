"""How much memory of results is kept, and what becomes of it when a process forks or ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import tc
from tc.support import settings

MIB = 1 << 20


def run(script: str, pool: str | None = None, *args: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "TC_RESULT_POOL_MIB"}
    if pool is not None:
        environment["TC_RESULT_POOL_MIB"] = pool
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *args],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and done.stderr == "", (done.returncode, done.stderr)
    return done.stdout.strip()


# ---- what is kept

BOUND = """
from tc import _native
import numpy as np
MIB = 1 << 20
kept = _native._result_pool_bytes
def make(mib):
    return _native.empty((mib * MIB,), np.dtype(np.uint8))
def close(mib):
    assert mib * MIB < kept() < (mib + 0.5) * MIB, kept() / MIB
a, b, c = make(2), make(3), make(4)
assert kept() == 0
where = b.ctypes.data
del a; close(2)
del b; close(5)
del c; close(7)         # 2 + 3 + 4 are more than 8: the first to die went
d = make(2); close(7)   # and is not there any more
assert make(3).ctypes.data == where
e = make(9)
del e; close(7)         # nothing goes for what is never kept
many = [make(1) for _ in range(100)]
del many
assert 6 * MIB < kept() <= 8 * MIB
"""


def test_what_is_kept_is_bounded() -> None:
    run(BOUND, "8")


NOTHING = """
from tc import _native
import numpy as np
for _ in range(3):
    for size in (1 << 20, 20 << 20):
        made = _native.empty((size,), np.dtype(np.uint8))
        made[...] = 1
        assert made.ctypes.data % 64 == 0 and made.flags.owndata
        del made
        assert _native._result_pool_bytes() == 0
"""


def test_nothing_is_kept() -> None:
    run(NOTHING, "0")


DEFAULT = """
from tc import _native
import numpy as np
def make(mib):
    return _native.empty((mib << 20,), np.dtype(np.uint8))
held = [make(32) for _ in range(20)]
del held
assert 192 << 20 < _native._result_pool_bytes() <= 256 << 20
"""


@pytest.mark.parametrize("value", [None, "", "256"])
def test_the_default(value: str | None) -> None:
    run(DEFAULT, value)


@pytest.mark.parametrize("value, limit", [("", 256 * MIB), ("0", 0), ("3", 3 * MIB), ("9" * 30, sys.maxsize)])
def test_the_setting(monkeypatch: pytest.MonkeyPatch, value: str, limit: int) -> None:
    monkeypatch.setenv("TC_RESULT_POOL_MIB", value)
    assert settings.result_pool_limit() == limit


@pytest.mark.parametrize("value", ["-1", "1.5", "1 GiB", "²"])
def test_a_limit_that_is_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TC_RESULT_POOL_MIB", value)
    with pytest.raises(tc.ArgumentError, match=r"TC_RESULT_POOL_MIB=.* is not a number of MiB") as caught:
        settings.result_pool_limit()
    assert caught.value.code == "TC0512"


REFUSED = """
import os
import numpy as np, tc
twice = tc.compile("def twice(float(N) A) -> (B) { B(i) = 2 * A(i) }")
small, large = np.ones(10, np.float32), np.ones(1 << 20, np.float32)
out = np.empty_like(large)
assert (twice(small) == 2).all()
assert (twice(large, out=out) == 2).all()
for _ in range(2):
    try:
        twice(large)
    except tc.ArgumentError as e:
        assert e.code == "TC0512", e.code
    else:
        raise AssertionError("not refused")
os.environ["TC_RESULT_POOL_MIB"] = "8"
assert (twice(large) == 2).all()
"""


def test_a_bad_limit_is_refused_where_it_matters() -> None:
    run(REFUSED, "much")


# ---- processes

FORK = """
import os, sys, threading
from tc import _native
import numpy as np
def make(mib):
    return _native.empty((mib << 18,), np.dtype(np.float32))
def churn():
    while not stop:
        make(1 + len(os.urandom(3)) % 3)[...] = 1
def checked(a, value):
    assert (a == value).all()
    a[...] = value + 1
    assert (a == value + 1).all()
stop = []
held = make(8)
held[...] = 1
make(8)[...] = 5
threads = [threading.Thread(target=churn) for _ in range(2 if sys.argv[1] == "busy" else 0)]
for thread in threads:
    thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        assert _native._result_pool_bytes() == 0
        checked(held, 1)
        where = held.ctypes.data
        del held
        assert _native._result_pool_bytes() > 8 << 20
        again = make(8)
        assert again.ctypes.data == where
        again[...] = 9
        more = [make(3) for _ in range(5)]
        for a in more:
            a[...] = 2
        checked(more[0], 2)
        del more, again, a
        if os.fork() == 0:
            make(8)[...] = 3
            os._exit(0)
        _, status = os.wait()
        os._exit(os.waitstatus_to_exitcode(status))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
stop.append(True)
for thread in threads:
    thread.join()
checked(held, 1)
make(8)[...] = 3
"""


@pytest.mark.parametrize("mode", ["idle", "busy"])
def test_fork(mode: str) -> None:
    """Forking under pytest would copy its state; the child of this process shows the same."""
    run(FORK, None, mode)


EXIT = """
import atexit, sys, threading
import numpy as np, tc
from tc import _native
twice = tc.compile("def twice(float(N) A) -> (B) { B(i) = 2 * A(i) }")
x = np.ones(1 << 20, np.float32)
twice(x)
class Cycle:
    def __init__(self):
        self.me, self.held = self, twice(x)
    def __del__(self):
        self.held = None
cycle = Cycle()
held = [twice(x) for _ in range(5)]
view = twice(x)[5:]
sys.kept = twice(x)
local = threading.local()
local.held = twice(x)
def late():
    global last
    last = twice(x)
    assert (last == 2).all()
atexit.register(late)
threading.Thread(target=lambda: threading.Event().wait(), daemon=True).start()
print("done")
"""


def test_exit_with_live_results() -> None:
    assert run(EXIT) == "done"
