"""Every call of the driver may fail: the error says what to do, nothing leaks, and the next call is right."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import BackendError
from tests.device.programs import GATHER, MM, PARTS, numbers
from tests.simt.fakes import Jax, Torch, WithDlpack, WithInterface
from tests.simt.install import backend_module
from tests.simt.machine import Machine

pytestmark = pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
A, B = numbers(4, 8), numbers(8, 4, first=3)
I = np.array([0, 3, 1], np.int32)  # noqa: E741
S = numbers(64)
PATHS = ("torch", "strided", "jax", "dlpack", "interface", "gather", "sync", "temporaries", "host", "graph")


class Paths:
    """A call of each kind, and what it gives."""

    def __init__(self, machine: Machine, on_torch: Torch, on_jax: Jax) -> None:
        self.machine, self.torch, self.jax = machine, on_torch, on_jax
        self.kernels = {
            "mm": tc.compile(MM, "cuda"),
            "gather": tc.compile(GATHER, "cuda"),
            "sync": tc.compile(GATHER, "cuda", checks="sync"),
            "parts": tc.compile(PARTS, "cuda"),
        }

    def call(self, path: str) -> Callable[[], Any]:
        """Its arguments are made now, not when it is called."""
        t, k = self.torch, self.kernels
        match path:
            case "torch":
                return self._with(k["mm"], t.tensor(A), t.tensor(B))
            case "strided":
                out = t.tensor(np.zeros((4, 9), np.float32))[:, ::2][:, :4]
                a, b = t.tensor(np.ascontiguousarray(A.T)).t(), t.tensor(B, offset=4)
                return lambda: k["mm"](a, b, out=out)
            case "jax":
                return self._with(k["mm"], self.jax.array(A), self.jax.array(B))
            case "dlpack":
                return self._with(k["mm"], WithDlpack(self.machine, A), WithDlpack(self.machine, B))
            case "interface":
                a, b = WithDlpack(self.machine, A), WithDlpack(self.machine, B)
                first = WithInterface(a.memory, stream=a.stream.number)
                second = WithInterface(b.memory, stream=b.stream.number)
                return lambda: (a, b, k["mm"](first, second))[2]
            case "temporaries":
                return self._with(k["parts"], self.jax.array(S))
            case "host":
                return lambda: k["gather"](B, I)
            case "graph":
                a, b = t.tensor(A), t.tensor(B)
                return lambda: self._replayed(a, b)
            case _:
                return self._with(k[path], t.tensor(B), t.tensor(I))

    def _with(self, kernel: tc.Kernel, *args: Any) -> Callable[[], Any]:
        return lambda: kernel(*args)

    def _replayed(self, a: Any, b: Any) -> Any:
        graph = self.kernels["mm"].graph(a, b)
        graph()
        return graph.results

    def check(self, path: str, found: Any) -> None:
        if hasattr(found, "read"):
            values = found.read()
        elif path == "host" or (
            hasattr(found, "__cuda_array_interface__") and not hasattr(found, "_version")
        ):
            values = np.asarray(found)
        else:
            values = self.torch.read(found)
        if path == "temporaries":
            np.testing.assert_allclose(values, S * S / (S * S).sum(), rtol=1e-6)
        elif path in ("gather", "sync", "host"):
            np.testing.assert_array_equal(values, B[I])
        else:
            np.testing.assert_array_equal(values, A @ B)


@pytest.fixture
def paths(machine: Machine, on_torch: Torch, on_jax: Jax) -> Paths:
    return Paths(machine, on_torch, on_jax)


@pytest.fixture
def frozen() -> None:
    """What is there already is not looked at by the collector, which runs after each failure.  It stays so:
    to undo it would undo what `tests/conftest.py` has done, too, and each later collection would take half a
    second."""
    gc.collect()
    gc.freeze()


def fresh(machine: Machine) -> None:
    """The backend has used no device yet."""
    backend_module("device")._devices.clear()


def live(machine: Machine) -> int:
    gc.collect()
    machine.drain_all(0)
    gc.collect()
    machine.drain_all(0)
    return len(machine.live())


@pytest.mark.share(12)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.usefixtures("frozen")
def test_a_failure_at_every_call_of_the_driver(machine: Machine, paths: Paths, path: str) -> None:
    fresh(machine)
    paths.check(path, paths.call(path)())
    first = machine.names(()).count
    assert first("launch") >= 1
    machine.log.clear()
    fresh(machine)
    start = machine.calls
    paths.check(path, paths.call(path)())
    count = machine.calls - start
    tc.synchronize()
    before = live(machine)
    raised = 0
    for n in range(1, count + 1):
        fresh(machine)
        call = paths.call(path)
        machine.fail_at, machine.failure = machine.calls + n, "INVALID_VALUE"
        try:
            call()
        except BackendError as error:
            raised += 1
            assert error.code in ("TC0810", "TC0820"), error
            assert "CUDA_ERROR_INVALID_VALUE" in str(error)
            assert error.help
        at = machine.fail_at - 1 - (machine.calls - len(machine.log))
        failed = machine.log[at][0] if at < len(machine.log) else "none: it has made fewer calls"
        machine.fail_at = 0
        assert not machine.contexts
        machine.end_captures()
        paths.check(path, paths.call(path)())
        del call
        gc.collect()  # errors are in cycles with what they were raised in
        tc.synchronize()
        now = live(machine)
        if failed in ("free", "free_on"):  # what the driver does not take back stays
            before = now
        assert now <= before, failed
    assert raised >= count // 2  # some calls only give back what is no longer needed


@pytest.mark.parametrize("path", ["torch", "strided", "jax", "sync", "host"])
def test_a_lost_device(machine: Machine, paths: Paths, path: str) -> None:
    """Each call says so from then on, until the process ends; another device goes on."""
    paths.check(path, paths.call(path)())
    call, later = paths.call(path), paths.call(path)
    for n in (2, 3):
        fresh(machine)
        machine.lost = None
        machine.fail_at, machine.failure = machine.calls + n, "ILLEGAL_ADDRESS"
        codes = set()
        for one in (call, later, later):
            try:
                one()
            except BackendError as error:
                codes.add(error.code)
                assert "start another process" in (error.help or "")
        assert codes == {"TC0819"}
        assert not machine.contexts
        calls = machine.calls
        with pytest.raises(BackendError, match="is lost to this process: CUDA_ERROR_ILLEGAL_ADDRESS"):
            later()
        assert machine.calls - calls <= 2  # nothing is tried any more
    machine.lost = None


def test_exhausted_memory(machine: Machine, paths: Paths) -> None:
    for path in ("dlpack", "host", "interface"):
        call = paths.call(path)
        room = machine.room
        machine.room = machine.used(0) + 16
        with pytest.raises(BackendError) as caught:
            call()
        assert caught.value.code == "TC0818"
        assert "bytes are asked for, and 16 of" in caught.value.message
        machine.room = room
        paths.check(path, call())


def test_code_for_another_device(machine: Machine, paths: Paths) -> None:
    call = paths.call("torch")
    machine.fail_at, machine.failure = machine.calls + 3, "NO_BINARY_FOR_GPU"
    with pytest.raises(BackendError, match="NO_BINARY_FOR_GPU") as caught:
        call()
    assert caught.value.code == "TC0811" and "'isa': 'sm_90'" in (caught.value.help or "")
    paths.check("torch", call())


def test_too_many_blocks(machine: Machine, on_torch: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from tc.runtime import device_arrays

    source = "def f(int8(N) A) -> (B) { B(i) = A(i) }"
    kernel = tc.compile(source, "cuda", dynamic=("N",), options={"tile": (1,), "threads": (1,)})
    kernel(on_torch.tensor(np.ones(64, np.int8)))
    monkeypatch.setattr(sys.modules["tc_backends.gpu.plan"], "MOST_BLOCKS", 99)
    with pytest.raises(BackendError, match="f: a launch has 100 blocks, and 99 are the most") as caught:
        kernel(on_torch.tensor(np.ones(100, np.int8)))
    assert caught.value.code == "TC0810"
    assert device_arrays.on_device(on_torch.tensor(A))


def test_threads(machine: Machine, on_torch: Torch, paths: Paths) -> None:
    """Several call a kernel that is not loaded yet, on streams of their own."""
    fresh(machine)
    arrays = [(on_torch.tensor(A + k), on_torch.tensor(B)) for k in range(4)]
    kernel, found, errors = paths.kernels["mm"], [None] * 4, []

    def run(k: int) -> None:
        try:
            for _ in range(5):
                found[k] = kernel(*arrays[k])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    for k, c in enumerate(found):
        np.testing.assert_array_equal(on_torch.read(c), (A + k) @ B)
    assert machine.names().count("load") == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_fork(machine: Machine, paths: Paths) -> None:
    """The child is told what to do, and can end; the parent goes on."""
    call = paths.call("jax")
    kept = call()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        text = "no error"
        try:
            call()
        except BackendError as error:
            text = f"{error.code} {error.help}"
        finally:
            os.write(write, text.encode())
            del kept
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert told.startswith("TC0821 start processes by 'spawn'"), told
    paths.check("jax", call())
