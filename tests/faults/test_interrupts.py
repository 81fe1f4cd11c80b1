"""Ctrl-C at any moment, and exceptions between any two passes: what was asked for, or the exception;
afterwards nothing is held and nothing is half made."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tc
from tc.pipeline import pass_manager
from tests.faults import children
from tests.faults.children import SOURCES, right
from tests.share import examples

# ---- Ctrl-C

_TIMER = """
import gc
from tc import kernel
from tc.poly import context

# A process that sends SIGINT when told: a thread would have to wait for the interpreter lock.
told, tells = os.pipe()
me = os.getpid()
if os.fork() == 0:
    os.close(tells)
    with os.fdopen(told) as lines:
        for line in lines:
            time.sleep(float(line))
            os.kill(me, signal.SIGINT)
    os._exit(0)

# Python swallows those that come inside a finalizer.
swallowed = []
sys.unraisablehook = lambda what: swallowed.append(what.exc_type)

def interrupted(delay, work):
    # What `work` gave if it was over when the interrupt came, which always comes.
    over = []
    swallowed.clear()
    try:
        os.write(tells, b"%f\\n" % delay)
        over.append(work())
        while KeyboardInterrupt not in swallowed:
            time.sleep(0.01)
    except KeyboardInterrupt:
        pass
    return over

def elsewhere(work):
    # In a thread, which finds every lock free or hangs.
    found = []
    t = threading.Thread(target=lambda: found.append(work()))
    t.start()
    t.join()
    return found == [True]

def seconds(work):
    start = time.perf_counter()
    assert work()
    return time.perf_counter() - start

def unharmed():
    assert gc.isenabled()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert context._depth == 0
"""

COMPILES = (
    _TIMER
    + """
backend, count = sys.argv[1], int(sys.argv[2])
for warm in range(3):
    whole = seconds(lambda: right("rows", 2 + warm, backend))
finished = 0
for k in range(count):
    name, c = ("mm", "rows")[k % 2], 10 + k
    finished += len(over := interrupted(1.1 * whole * k / count, lambda: right(name, c, backend)))
    assert all(over), (name, c)
    unharmed()
    if k % 2:
        assert right(name, c, backend) and elsewhere(lambda: right("outer", c, backend)), k
    else:
        assert elsewhere(lambda: right(name, c, backend)) and right("outer", c, backend), k
print(count - finished, finished)
"""
)


@pytest.mark.parametrize(
    ("backend", "count", "cache"),
    [("cpu", examples(24), "1"), ("reference", examples(20), "0"), ("halide", examples(6, 2), "0")],
)
def test_compiles_are_interrupted(backend: str, count: int, cache: str, tmp_path: Path) -> None:
    out = children.run(COMPILES, backend, str(count), TC_CACHE=cache, TC_CACHE_DIR=str(tmp_path))
    broken = int(out.split()[0])
    assert broken > count // 4, f"{broken} of {count} compiles were interrupted"


CALLS = (
    _TIMER
    + """
source = "def f(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
kernel = tc.compile(source, "cpu")
a, b = data(300, 70, 90)
want = a @ b
out = np.empty_like(want)

def calls():
    # Fast ones, slow ones (an array that is not dense), and into a buffer.
    for k in range(30):
        if k % 3 == 0:
            good = np.array_equal(kernel(a, b), want)
        elif k % 3 == 1:
            good = np.array_equal(kernel(np.asfortranarray(a), b), want)
        else:
            kernel(a, b, out=out)
            good = np.array_equal(out, want)
        if not good:
            return False
    return True

calls()
whole = seconds(calls)
for k in range(60):
    assert all(interrupted(whole * k / 60, calls))
    assert np.array_equal(kernel(a, b), want)
    if k % 10 == 0:
        unharmed()
        assert elsewhere(calls)
"""
)


def test_calls_are_interrupted() -> None:
    children.run(CALLS)


HANDLER = """
# A handler of the program's own is put off, called once, and with what it expects.
from tc.support.interrupts import deferred
seen = []
signal.signal(signal.SIGINT, lambda number, frame: seen.append((number, frame.f_code.co_name)))
def body():
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    assert not seen
with deferred():
    with deferred():
        body()
    assert not seen
assert seen == [(signal.SIGINT, "body")], seen
signal.signal(signal.SIGINT, signal.SIG_IGN)
with deferred():
    signal.raise_signal(signal.SIGINT)
assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with deferred():
        signal.raise_signal(signal.SIGINT)
        done = True
except KeyboardInterrupt:
    assert done
    print("interrupted")
"""


def test_an_interrupt_is_put_off() -> None:
    assert children.run(HANDLER) == "interrupted\n"


WHOLE = """
# LLVM and Halide are not left in the middle: what they make is taken charge of first.
import llvmlite.binding as llvm
backend = sys.argv[1]
if backend == "cpu":
    owner, name = llvm.TargetMachine, "emit_object"
else:
    from tc.halide.binding import hl
    owner, name = hl.Pipeline, "compile_to_object"
assert right("rows", 2, backend)
real, ended = getattr(owner, name), []
def interrupts(*args):
    signal.raise_signal(signal.SIGINT)
    made = real(*args)
    ended.append(True)
    return made
setattr(owner, name, interrupts)
try:
    right("rows", 3, backend)
except KeyboardInterrupt:
    print(len(ended))
setattr(owner, name, real)
assert right("rows", 3, backend) and right("rows", 4, backend)
"""


@pytest.mark.share(4)
@pytest.mark.parametrize("backend", ["cpu", "halide"])
def test_libraries_are_not_left_in_the_middle(backend: str) -> None:
    assert children.run(WHOLE, backend, TC_CACHE="0") == "1\n"


# ---- exceptions at the boundaries of passes


class Trip:
    """Raises an exception once, behind the pass of a name."""

    def __init__(self, stage: str, error: BaseException) -> None:
        self.stage, self.error, self.tripped = stage, error, False

    def __call__(self, name: str, seconds: float) -> None:
        if name == self.stage and not self.tripped:
            self.tripped = True
            raise self.error


@contextmanager
def tripping(trip: Trip, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """In the body `trip` sees every pass that ran."""
    note = pass_manager.Record.note

    def both(record: pass_manager.Record, name: str, seconds: float, *rest: Any) -> None:
        note(record, name, seconds, *rest)
        trip(name, seconds)

    with monkeypatch.context() as m, pass_manager.recording():
        m.setattr(pass_manager.Record, "note", both)
        yield


FRONT = "parse check ranges types lower legality specialize"
STAGES = {
    "cpu": f"{FRONT} load restrict split scop fuse choose variants scan code object spills link",
    "reference": f"{FRONT} scop schedule ast assemble code machine",
}
ERRORS = (
    MemoryError("no memory"),
    RecursionError("too deep"),
    RuntimeError("no reason"),
    KeyboardInterrupt(),
)


@pytest.mark.parametrize("backend", STAGES)
def test_a_pass_fails_and_the_next_attempt_works(
    backend: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if backend == "cpu":
        monkeypatch.delenv("TC_VERIFY")  # under which nothing is loaded
    monkeypatch.setenv("TC_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for k, stage in enumerate(STAGES[backend].split()):
        error = ERRORS[k % len(ERRORS)]
        c = 10_000 + 100 * len(backend) + k
        trip = Trip(stage, error)
        ours = isinstance(error, (RecursionError, RuntimeError))
        with tripping(trip, monkeypatch), pytest.raises(tc.InternalError if ours else type(error)) as caught:
            right("rows", c, backend)
        assert trip.tripped, f"{backend} has no pass {stage}"
        if ours:
            assert isinstance(caught.value, tc.InternalError) and caught.value.code == "TC0901"
            file = Path(str(caught.value.help).split()[-1])
            assert json.loads(file.read_text())["source"] == SOURCES["rows"] % c
        del caught
        found: list[bool] = []
        helper = threading.Thread(target=lambda: found.append(right("rows", c, backend)))  # noqa: B023
        helper.start()
        helper.join(children.PATIENCE)
        assert found == [True], f"after {error!r} behind {stage}"
        assert right("rows", c, backend)


def test_who_waits_for_a_compile_that_fails_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four threads ask for the same kernel; the first attempt ends in an exception."""
    barrier = threading.Barrier(4)
    found: list[bool | str] = []
    trip = Trip("fuse", MemoryError("no memory"))

    def work() -> None:
        barrier.wait()
        try:
            found.append(right("mm", 12_345))
        except MemoryError as e:
            found.append(str(e))

    with tripping(trip, monkeypatch):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(children.PATIENCE)
    assert sorted(map(str, found)) == ["True", "True", "True", "no memory"]
