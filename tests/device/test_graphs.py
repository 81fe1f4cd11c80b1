"""CUDA graphs: `kernel.graph`, and calls that are captured by a library."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch

import tc
from tc.errors import BackendError, BoundsError
from tests.device.programs import GATHER, MM, PARTS, UPDATE, numbers
from tests.simt.fakes import Cupy, Jax, Torch, WithDlpack
from tests.simt.machine import Machine

pytestmark = pytest.mark.filterwarnings("ignore::tc.DataDependentAccess", "ignore::tc.UninitializedReduction")
A, B = numbers(4, 8), numbers(8, 4, first=3)


@pytest.fixture
def mm() -> tc.Kernel:
    return tc.compile(MM, "cuda")


def put(on: Torch, tensor: torch.Tensor, values: np.ndarray[Any, Any]) -> None:
    on.allocator.put(tensor.as_subclass(torch.Tensor).numpy(), values)


def test_a_graph_reads_its_arrays_when_it_is_launched(
    machine: Machine, on_torch: Torch, mm: tc.Kernel
) -> None:
    a, b = on_torch.tensor(A), on_torch.tensor(B)
    graph = mm.graph(a, b)
    assert "launch" in machine.names() and machine.streams[0, 0].queue[-1].name != "mm_kernel"
    machine.log.clear()
    for k in range(3):
        put(on_torch, a, A + k)
        c = graph()
        assert c is graph.results
        np.testing.assert_array_equal(on_torch.read(c), (A + k) @ B)
    assert "launch" not in machine.names()
    assert machine.names().count("launch_graph") == 3


def test_a_graph_runs_on_the_current_stream(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    a, b = on_torch.tensor(A), on_torch.tensor(B)
    graph = mm.graph(a, b)
    stream = machine.new_stream(0)
    with on_torch.allocator.on(stream):
        c = graph()
        np.testing.assert_array_equal(on_torch.read(c), A @ B)
    assert ("launch_graph", stream.number) in machine.log


def test_copies_are_a_part_of_it(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    whole = on_torch.tensor(np.pad(A, ((0, 0), (1, 0))))
    out = on_torch.tensor(np.zeros((4, 5), np.float32))
    graph = mm.graph(whole[:, 1:], on_torch.tensor(B), out=out[:, 1:])
    for k in range(2):
        put(on_torch, whole, np.pad(A - k, ((0, 0), (1, 0))))
        graph()
        np.testing.assert_array_equal(on_torch.read(out), np.pad((A - k) @ B, ((0, 0), (1, 0))))


def test_temporaries_belong_to_it(machine: Machine, on_torch: Torch) -> None:
    a = on_torch.tensor(numbers(64))
    kernel = tc.compile(PARTS, "cuda")
    graphs = [kernel.graph(a) for _ in range(2)]
    for k in range(2):
        values = numbers(64) + k
        put(on_torch, a, values)
        for c in [g() for g in graphs]:
            expected = values * values / (values * values).sum()
            np.testing.assert_allclose(on_torch.read(c), expected, rtol=1e-6)


def test_recording_runs_nothing(machine: Machine, on_torch: Torch) -> None:
    a, b = on_torch.tensor(numbers(8)), on_torch.tensor(numbers(8))
    graph = tc.compile(UPDATE, "cuda").graph(a, out=b)
    np.testing.assert_array_equal(on_torch.read(b), numbers(8))
    version = b._version
    graph()
    graph()
    np.testing.assert_array_equal(on_torch.read(b), 3 * numbers(8))
    assert b._version == version + 2


def test_checks(machine: Machine, on_torch: Torch) -> None:
    i = on_torch.tensor(np.array([0, 3, 1], np.int32))
    graph = tc.compile(GATHER, "cuda").graph(on_torch.tensor(B), i)
    np.testing.assert_array_equal(on_torch.read(graph()), B[[0, 3, 1]])
    put(on_torch, i, np.array([0, 8, 1], np.int32))
    graph()
    machine.drain_all(0)
    with pytest.raises(BoundsError, match="index 8 is out of range for dimension 0 of 'A'"):
        graph()
    put(on_torch, i, np.array([0, 1, 1], np.int32))
    np.testing.assert_array_equal(on_torch.read(graph()), B[[0, 1, 1]])


def test_a_graph_that_is_dropped_while_it_runs(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    graph = mm.graph(on_torch.tensor(A), on_torch.tensor(np.ascontiguousarray(B.T)).t())
    c = graph()
    del graph
    gc.collect()
    np.testing.assert_array_equal(on_torch.read(c), A @ B)
    tc.synchronize()
    gc.collect()
    assert not machine.graphs


def test_other_libraries(machine: Machine, on_cupy: Cupy, on_jax: Jax, mm: tc.Kernel) -> None:
    a, b = on_cupy.array(A), on_cupy.array(B)
    np.testing.assert_array_equal(on_cupy.read(mm.graph(a, b)()), A @ B)
    c = mm.graph(WithDlpack(machine, A), WithDlpack(machine, B))()
    np.testing.assert_array_equal(np.asarray(c), A @ B)
    for args in ((on_jax.array(A), on_jax.array(B)), (A, B)):
        with pytest.raises(BackendError) as caught:
            mm.graph(*args)
        assert caught.value.code == "TC0820"


def test_without_a_backend(machine: Machine, on_torch: Torch) -> None:
    graph = tc.compile(MM).graph(on_torch.tensor(A), on_torch.tensor(B))
    np.testing.assert_array_equal(on_torch.read(graph()), A @ B)


# ---- what a library captures


def test_calls_can_be_captured(machine: Machine, on_torch: Torch) -> None:
    """After a first call of each; the capture has memory of its own."""
    mm, parts, gather = (tc.compile(s, "cuda") for s in (MM, PARTS, GATHER))
    a, b, s = on_torch.tensor(A), on_torch.tensor(np.ascontiguousarray(B.T)).t(), on_torch.tensor(numbers(64))
    i = on_torch.tensor(np.array([0, 3, 1], np.int32))

    def calls() -> list[Any]:
        return [mm(a, b), parts(s), gather(on_torch_b, i)]

    on_torch_b = on_torch.tensor(B)
    calls()
    stream = machine.new_stream(0)
    machine.drain_all(0)
    machine.log.clear()
    kept: list[Any] = []
    with on_torch.allocator.on(stream):
        machine.begin_capture(stream)
        kept += calls()
        graph = machine.end_capture(stream)
    refused = {
        "allocate",
        "allocate_on",
        "pinned",
        "load",
        "synchronize",
        "synchronize_stream",
        "done",
        "free",
    }
    assert not refused & set(machine.names()), machine.names()
    for k in range(2):
        put(on_torch, a, A + k)
        machine.replay(graph, machine.stream(0, 0))
        machine.drain_all(0)
        np.testing.assert_array_equal(kept[0].as_subclass(torch.Tensor).numpy(), (A + k) @ B)
        np.testing.assert_array_equal(kept[2].as_subclass(torch.Tensor).numpy(), B[[0, 3, 1]])


def test_a_first_call_cannot_be_captured(
    machine: Machine, on_torch: Torch, on_jax: Jax, mm: tc.Kernel
) -> None:
    a, b = on_torch.tensor(A), on_torch.tensor(B)
    strided = on_torch.tensor(np.ascontiguousarray(B.T)).t()
    stream = machine.new_stream(0)
    with on_torch.allocator.on(stream):
        for arguments in ((a, b), (a, strided), (a, on_jax.array(B))):
            machine.drain_all(0)
            machine.begin_capture(stream)
            with pytest.raises(BackendError) as caught:
                mm(*arguments)
            assert caught.value.code == "TC0820"
            machine.end_captures()
            mm(a, b)
        machine.begin_capture(stream)
        mm(a, b)
        machine.end_capture(stream)
