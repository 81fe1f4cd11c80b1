"""What runs in which order: nothing waits on the host, and what is on other streams is waited for there.

Work of the stand-in waits on its stream until something asks for it, so a wrong order gives wrong results.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import tc
from tests.device.programs import MM, PARTS, numbers
from tests.simt.fakes import Cupy, Jax, Torch, WithDlpack, WithInterface
from tests.simt.machine import Machine

A, B = numbers(4, 8), numbers(8, 4, first=3)
WAITS = {"upload", "download", "synchronize", "synchronize_stream", "done"}
COSTS = {"allocate", "free", "allocate_on", "free_on", "pinned", "load", "function", "stream", "event"}


@pytest.fixture
def mm() -> tc.Kernel:
    return tc.compile(MM, "cuda")


def test_the_current_stream_of_pytorch(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    stream = machine.new_stream(0)
    with on_torch.allocator.on(stream):
        c = mm(on_torch.tensor(A), on_torch.tensor(B))
        np.testing.assert_array_equal(on_torch.read(c), A @ B)
    assert [x for x in machine.log if x[0] == "launch"] == [("launch", "mm_kernel", stream.number)]


def test_the_current_stream_of_cupy(machine: Machine, on_cupy: Cupy, mm: tc.Kernel) -> None:
    stream = machine.new_stream(1)
    with on_cupy.allocator.on(stream):
        c = mm(on_cupy.array(A, 1), on_cupy.array(B, 1))
        np.testing.assert_array_equal(on_cupy.read(c), A @ B)
    assert [x for x in machine.log if x[0] == "launch"] == [("launch", "mm_kernel", stream.number)]


def test_a_call_is_a_launch_and_nothing_else(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    a, b, c = on_torch.tensor(A), on_torch.tensor(B), on_torch.tensor(numbers(4, 4))
    mm(a, b)
    machine.log.clear()
    for _ in range(3):
        mm(a, b)
        mm(a, b, out=c)
    assert machine.names() == ["launch"] * 6


def test_no_call_waits(machine: Machine, on_torch: Torch, on_cupy: Cupy, on_jax: Jax, mm: tc.Kernel) -> None:
    """Also not for copies, and not where libraries are mixed."""
    kernel = tc.compile(PARTS, "cuda")
    calls: list[Any] = [
        lambda: mm(on_torch.tensor(A), on_torch.tensor(np.ascontiguousarray(B.T)).t()),
        lambda: mm(on_torch.tensor(A), on_cupy.array(B)),
        lambda: mm(on_jax.array(A), on_jax.array(B)),
        lambda: kernel(on_torch.tensor(numbers(64))),
        lambda: kernel(on_jax.array(numbers(64))),
    ]
    for call in calls:
        call()
        machine.drain_all(0)
        machine.log.clear()
        call()
        assert not (WAITS - {"done"}) & set(machine.names()), machine.names()


def test_temporaries_live_in_the_order_of_the_stream(machine: Machine, on_torch: Torch) -> None:
    """They are given back, and overwritten by whoever gets them next, before the kernels have run."""
    kernel = tc.compile(PARTS, "cuda")
    a = numbers(64)
    found = [kernel(on_torch.tensor(a)) for _ in range(3)]
    expected = np.float32(a * a) / np.float32((a * a).sum())
    for f in found:
        np.testing.assert_allclose(on_torch.read(f), expected, rtol=1e-6)


def test_results_of_others_live_as_long_as_they_are_used(machine: Machine, mm: tc.Kernel) -> None:
    c = mm(WithDlpack(machine, A), WithDlpack(machine, B))
    other = machine.new_stream(0)
    capsule = c.__dlpack__(stream=other.number)
    address = c.__cuda_array_interface__["data"][0]
    seen: list[Any] = []
    machine.put(other, "read", lambda: seen.append(machine.at(address, 0)[:64].copy()))
    del c, capsule  # which gives it back, and `other` has not run
    gc.collect()
    machine.drain_all(0)
    np.testing.assert_array_equal(seen[0].view(np.float32).reshape(4, 4), A @ B)


def test_producers_on_other_streams_are_waited_for(machine: Machine, mm: tc.Kernel) -> None:
    a, b = WithDlpack(machine, A), WithDlpack(machine, B)
    assert a.stream is not b.stream
    c = mm(a, b)
    machine.drain(machine.stream(0, 0))  # and no other
    address = c.__cuda_array_interface__["data"][0]
    np.testing.assert_array_equal(machine.at(address, 0)[:64].view(np.float32).reshape(4, 4), A @ B)
    assert a.asked == b.asked == [1]


def test_the_stream_of_an_array_interface(machine: Machine, mm: tc.Kernel) -> None:
    a, b = WithDlpack(machine, A), WithDlpack(machine, B)
    first = WithInterface(a.memory, stream=a.stream.number)
    c = mm(first, WithInterface(b.memory, stream=b.stream.number))
    assert c.__cuda_array_interface__["stream"] == a.stream.number  # that of the first array
    np.testing.assert_array_equal(np.asarray(c), A @ B)


def test_inputs_of_others_are_kept_until_they_have_been_read(
    machine: Machine, on_torch: Torch, on_jax: Jax, mm: tc.Kernel
) -> None:
    """Their library overwrites them on its own stream, which runs first."""
    for make in (on_jax.array, lambda x: WithDlpack(machine, x)):
        c = mm(make(A), make(B))
        gc.collect()
        for stream in list(machine.streams.values()):
            if stream.number and stream is not machine.streams.get((0, getattr(c, "_stream", -1))):
                producers = [o.name for o in stream.queue]
                if "produce" in producers or "reuse" in producers:
                    machine.drain(stream)
        found = c.read() if hasattr(c, "read") else np.asarray(c)
        np.testing.assert_array_equal(found, A @ B)
    c = mm(on_torch.tensor(A), on_jax.array(B))
    gc.collect()
    machine.drain(on_jax.streams[0])
    np.testing.assert_array_equal(on_torch.read(c), A @ B)


def test_they_are_let_go_afterwards(machine: Machine, on_jax: Jax, mm: tc.Kernel) -> None:
    def live() -> int:
        gc.collect()
        machine.drain_all(0)
        return len(machine.live())

    for _ in range(3):
        mm(on_jax.array(A), on_jax.array(B))
    tc.synchronize()
    before = live()
    for _ in range(10):
        mm(on_jax.array(A), on_jax.array(B))
        tc.synchronize()
    assert live() <= before


def test_buffers_of_another_library_are_ready_in_its_order(
    machine: Machine, on_torch: Torch, on_cupy: Cupy, mm: tc.Kernel
) -> None:
    with on_cupy.allocator.on(machine.new_stream(0)):
        out = on_cupy.array(numbers(4, 4))
        assert mm(on_torch.tensor(A), on_torch.tensor(B), out=out) is out
        np.testing.assert_array_equal(on_cupy.read(out), A @ B)


def test_jax_sees_results_in_its_order(machine: Machine, on_jax: Jax, mm: tc.Kernel) -> None:
    c = mm(on_jax.array(A), on_jax.array(B))
    machine.drain(on_jax.streams[0])  # and no other
    np.testing.assert_array_equal(c.memory, A @ B)


def test_events_are_used_again(machine: Machine, on_torch: Torch, on_cupy: Cupy, mm: tc.Kernel) -> None:
    stream = machine.new_stream(0)
    for _ in range(10):
        with on_cupy.allocator.on(stream):
            b = on_cupy.array(B)
            mm(on_torch.tensor(A), b)
        tc.synchronize()
    assert machine.names().count("event") <= 3
