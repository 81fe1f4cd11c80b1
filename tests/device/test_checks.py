"""Subscripts out of range: nobody waits, and the next call says so, with the message of the cpu."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import ArgumentError, BoundsError
from tests.device.programs import GATHER, MM, numbers
from tests.simt.fakes import Torch
from tests.simt.machine import Machine

pytestmark = pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
A = numbers(8, 4)
RIGHT, WRONG = np.array([0, 7, 3], np.int32), np.array([0, 8, 3], np.int32)


def gather(checks: str = "safe") -> tc.Kernel:
    return tc.compile(GATHER, "cuda", checks=checks)


def message(i: Any) -> str:
    with pytest.raises(BoundsError) as caught:
        tc.compile(GATHER, "cpu")(A, i)
    return str(caught.value)


def wrong_call(on: Torch, kernel: tc.Kernel) -> None:
    kernel(on.tensor(A), on.tensor(WRONG))


def test_no_call_waits_for_its_checks(machine: Machine, on_torch: Torch) -> None:
    kernel = gather()
    kernel(on_torch.tensor(A), on_torch.tensor(RIGHT))
    machine.log.clear()
    b = kernel(on_torch.tensor(A), on_torch.tensor(RIGHT))
    assert machine.names() == ["launch"]
    np.testing.assert_array_equal(on_torch.read(b), A[RIGHT])
    tc.synchronize()


def test_the_next_call_raises(machine: Machine, on_torch: Torch) -> None:
    kernel, other = gather(), tc.compile(MM, "cuda")
    a, b = on_torch.tensor(numbers(4, 8)), on_torch.tensor(numbers(8, 4))
    for call in (lambda: kernel(on_torch.tensor(A), on_torch.tensor(RIGHT)), lambda: other(a, b)):
        wrong_call(on_torch, kernel)
        machine.drain_all(0)
        with pytest.raises(BoundsError) as caught:
            call()
        assert isinstance(caught.value, IndexError)
        assert str(caught.value) == message(WRONG)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
        call()  # once
        machine.drain_all(0)
        call()


def test_synchronize_raises(machine: Machine, on_torch: Torch) -> None:
    kernel = gather()
    wrong_call(on_torch, kernel)
    with pytest.raises(BoundsError) as caught:
        tc.synchronize()
    assert str(caught.value) == message(WRONG)
    tc.synchronize()


def test_sync_raises_at_once(machine: Machine, on_torch: Torch) -> None:
    kernel = gather("sync")
    b = kernel(on_torch.tensor(A), on_torch.tensor(RIGHT))
    np.testing.assert_array_equal(on_torch.read(b), A[RIGHT])
    with pytest.raises(BoundsError) as caught:
        wrong_call(on_torch, kernel)
    assert str(caught.value) == message(WRONG)
    assert not machine.contexts
    with pytest.raises(BoundsError):  # on the host all calls raise at once
        kernel(A, WRONG)
    with pytest.raises(BoundsError):
        tc.compile(GATHER, "cpu", checks="sync")(A, WRONG)


def test_other_checks(machine: Machine, on_torch: Torch) -> None:
    kernel = gather("none")
    b = kernel(on_torch.tensor(A), on_torch.tensor(RIGHT))
    np.testing.assert_array_equal(on_torch.read(b), A[RIGHT])
    assert "pinned" not in machine.names()
    with pytest.raises(ArgumentError, match=r'"safe", "sync", "drop" or "none"'):
        gather("soon")


def test_each_kernel_and_stream_has_its_record(machine: Machine, on_torch: Torch) -> None:
    """Errors of several are all told, one by each call."""
    kernel = gather()
    second = np.array([-1, 0, 1], np.int32)
    kernel(on_torch.tensor(A), on_torch.tensor(WRONG))
    with on_torch.allocator.on(machine.new_stream(0)):
        kernel(on_torch.tensor(A), on_torch.tensor(second))
    machine.drain_all(0)
    found = set()
    for _ in range(2):
        with pytest.raises(BoundsError) as caught:
            tc.synchronize()
        found.add(str(caught.value))
    assert found == {message(WRONG), message(second)}
    tc.synchronize()


def test_errors_of_another_device_are_raised_too(machine: Machine, on_torch: Torch) -> None:
    kernel = gather()
    kernel(on_torch.tensor(A, 1), on_torch.tensor(WRONG, 1))
    machine.drain_all(1)
    with pytest.raises(BoundsError) as caught:
        kernel(on_torch.tensor(A), on_torch.tensor(RIGHT))
    assert str(caught.value) == message(WRONG)
    assert not machine.contexts
    np.testing.assert_array_equal(on_torch.read(kernel(on_torch.tensor(A), on_torch.tensor(RIGHT))), A[RIGHT])


def test_dynamic_sizes_have_records_of_their_own(machine: Machine, on_torch: Torch) -> None:
    kernel = tc.compile(GATHER, "cuda", dynamic=("N",))
    wrong_call(on_torch, kernel)
    kernel(on_torch.tensor(numbers(20, 4)), on_torch.tensor(np.array([19, 8, 0], np.int32)))
    with pytest.raises(BoundsError, match=r"index 8 is out of range for dimension 0 of 'A' \(0 to 7\)"):
        tc.synchronize()


def test_records_are_used_again(machine: Machine, on_torch: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.simt.install import backend_module

    records = backend_module("records")
    monkeypatch.setattr(records, "_SLOTS", 2)
    monkeypatch.setattr(records, "_MOST", 4)
    kernel = gather()
    for _ in range(9):
        with on_torch.allocator.on(machine.new_stream(0)):
            b = kernel(on_torch.tensor(A), on_torch.tensor(RIGHT))
            np.testing.assert_array_equal(on_torch.read(b), A[RIGHT])
    assert machine.names().count("pinned") == 2
    wrong_call(on_torch, kernel)
    with pytest.raises(BoundsError):
        tc.synchronize()
