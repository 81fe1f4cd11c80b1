"""Arrays on a device: zero-copy, copies on the device where kernels cannot take them, results, refusals."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import tc
from tc.errors import ArgumentError, BackendError, DTypeError
from tc.runtime.device_memory import DeviceBuffer
from tests.device.programs import MM, TWICE, UPDATE, numbers
from tests.simt.fakes import Cupy, CupyArray, Jax, JaxArray, Torch, WithDlpack, WithInterface, WithOldDlpack
from tests.simt.machine import Machine

A, B = numbers(4, 8), numbers(8, 4, first=3)


@pytest.fixture
def mm() -> tc.Kernel:
    return tc.compile(MM, "cuda")


def launched(machine: Machine) -> list[str]:
    return [x[1] for x in machine.log if x[0] == "launch"]


def test_torch(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    c = mm(on_torch.tensor(A), on_torch.tensor(B))
    np.testing.assert_array_equal(on_torch.read(c), A @ B)
    assert isinstance(c, torch.Tensor) and c.device == torch.device("cuda", 0)
    assert launched(machine) == ["mm_kernel"]


def test_cupy(machine: Machine, on_cupy: Cupy, mm: tc.Kernel) -> None:
    c = mm(on_cupy.array(A), on_cupy.array(B))
    assert isinstance(c, CupyArray)
    np.testing.assert_array_equal(on_cupy.read(c), A @ B)
    assert launched(machine) == ["mm_kernel"]


def test_jax(machine: Machine, on_jax: Jax, mm: tc.Kernel) -> None:
    a, b = on_jax.array(A), on_jax.array(B)
    c = mm(a, b)
    assert isinstance(c, JaxArray)
    np.testing.assert_array_equal(c.read(), A @ B)
    assert launched(machine) == ["mm_kernel"]
    assert len(a.asked) == len(b.asked) == 1 and a.asked[0] > 2  # a stream of its own, not a default one


@pytest.mark.parametrize("kind", [WithDlpack, WithOldDlpack])
def test_dlpack(machine: Machine, kind: Any, mm: tc.Kernel) -> None:
    c = mm(kind(machine, A), kind(machine, B))
    assert isinstance(c, DeviceBuffer) and (c.shape, c.dtype) == ((4, 4), np.float32)
    assert repr(c) == "<DeviceBuffer of float32[4, 4] on stand-in 0>"
    np.testing.assert_array_equal(np.asarray(c), A @ B)
    assert launched(machine) == ["mm_kernel"]
    # A result is an argument as other arrays are.
    again = mm(c, mm(c, kind(machine, numbers(4, 4))))
    np.testing.assert_array_equal(np.asarray(again), (A @ B) @ ((A @ B) @ numbers(4, 4)))


def test_array_interface(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    a, b = (on_torch.tensor(x) for x in (A, B))
    c = mm(*(WithInterface(x.as_subclass(torch.Tensor).numpy()) for x in (a, b)))
    np.testing.assert_array_equal(np.asarray(c), A @ B)
    told = c.__cuda_array_interface__
    assert (told["shape"], told["typestr"], told["stream"]) == ((4, 4), "<f4", 1)


def test_a_result_as_dlpack(machine: Machine, mm: tc.Kernel) -> None:
    from tc import _native

    c = mm(WithDlpack(machine, A), WithDlpack(machine, B))
    other = machine.new_stream(0)
    address, shape, strides, code, bits, lanes, kind, number, read_only = _native.describe_dlpack(
        c.__dlpack__(stream=other.number, max_version=(1, 0))
    )
    assert (shape, strides, code, bits, lanes, kind, number) == ((4, 4), (16, 4), 2, 32, 1, 2, 0)
    assert not read_only
    machine.drain(other)  # which waits for the kernel
    np.testing.assert_array_equal(machine.at(address, 0)[:64].view(np.float32).reshape(4, 4), A @ B)
    for refused in ({"stream": 0}, {"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError):
            c.__dlpack__(**refused)
    # Whoever has the capsule keeps the memory.
    capsule = c.__dlpack__(stream=-1)
    before = len(machine.live())
    del c
    machine.drain_all(0)
    assert len(machine.live()) == before
    del capsule
    machine.drain_all(0)
    assert len(machine.live()) < before


LAYOUTS = {
    "transposed": lambda t, x: t.tensor(np.ascontiguousarray(x.T)).t(),
    "columns": lambda t, x: t.tensor(np.pad(x, ((0, 0), (1, 2))))[:, 1:-2],
    "misaligned": lambda t, x: t.tensor(x, offset=4),
    "every other": lambda t, x: t.tensor(np.repeat(x, 2, 0))[::2],
    "one row for all": lambda t, x: t.tensor(x[:1].copy()).expand(x.shape),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_other_layouts_are_copied_on_the_device(
    machine: Machine, on_torch: Torch, mm: tc.Kernel, name: str
) -> None:
    a = np.broadcast_to(A[:1], A.shape) if name == "one row for all" else A
    c = mm(LAYOUTS[name](on_torch, A), on_torch.tensor(B))
    np.testing.assert_array_equal(on_torch.read(c), a @ B)
    assert launched(machine) == ["copy", "mm_kernel"]
    assert not {"upload", "download", "synchronize", "synchronize_stream"} & set(machine.names())


def test_out(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    a, b = on_torch.tensor(A), on_torch.tensor(B)
    for make in (
        on_torch.tensor,
        *(
            lambda x, f=f: f(on_torch, x)
            for f in (LAYOUTS["transposed"], LAYOUTS["columns"], LAYOUTS["misaligned"])
        ),
    ):
        buffer = make(np.zeros((4, 4), np.float32))
        version = buffer._version
        assert mm(a, b, out=buffer) is buffer
        np.testing.assert_array_equal(on_torch.read(buffer), A @ B)
        assert buffer._version == version + 1


def test_out_keeps_what_is_around_it(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    whole = on_torch.tensor(np.full((6, 7), 9, np.float32))
    mm(on_torch.tensor(A), on_torch.tensor(B), out=whole[1:5, 2:6])
    expected = np.full((6, 7), 9, np.float32)
    expected[1:5, 2:6] = A @ B
    np.testing.assert_array_equal(on_torch.read(whole), expected)


@pytest.mark.filterwarnings("ignore::tc.UninitializedReduction")
def test_out_that_is_accumulated_into(machine: Machine, on_torch: Torch) -> None:
    kernel = tc.compile(UPDATE, "cuda")
    a = numbers(8)
    for buffer in (on_torch.tensor(a), on_torch.tensor(np.repeat(a, 2))[::2]):
        kernel(on_torch.tensor(a), out=buffer)
        np.testing.assert_array_equal(on_torch.read(buffer), 2 * a)


def test_out_rules(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    a, b = on_torch.tensor(A), on_torch.tensor(B)
    square = on_torch.tensor(numbers(4, 4))
    host = torch.zeros(4, 4)
    flat = on_torch.tensor(numbers(4))
    cases: list[tuple[Any, Any, str, type[tc.Error]]] = [
        (a, host, "TC0817", BackendError),
        (a, flat.expand(4, 4), "TC0507", ArgumentError),
        (a, on_torch.tensor(np.zeros((4, 4))), "TC0411", DTypeError),
        (a, on_torch.tensor(numbers(4, 5)), "TC0504", ArgumentError),
        (on_torch.tensor(numbers(10, 8))[:4], None, "TC0508", ArgumentError),
    ]
    for first, out, code, kind in cases:
        if out is None:
            out = first.reshape(-1)[4:20].reshape(4, 4)
        before = len(machine.log)
        with pytest.raises(kind) as caught:
            mm(first, b, out=out)
        assert caught.value.code == code, caught.value
        assert "launch" not in [x[0] for x in machine.log[before:]]
    old = WithOldDlpack(machine, numbers(4, 4))
    with pytest.raises(ArgumentError, match="read-only"):
        mm(a, b, out=old)
    # In place: the kernel reads all of the input for each element, so it reads a copy.
    expected = on_torch.read(square) @ B[:4]
    assert mm(square, on_torch.tensor(B[:4]), out=square) is square
    np.testing.assert_array_equal(on_torch.read(square), expected)


def test_scalars_and_several_results(machine: Machine, on_torch: Torch) -> None:
    kernel = tc.compile(TWICE, "cuda")
    a = numbers(8)
    b, c = kernel(on_torch.tensor(a), 3)
    np.testing.assert_array_equal(on_torch.read(b), 3 * a)
    np.testing.assert_array_equal(on_torch.read(c), a + 3)
    mine = on_torch.tensor(a)
    found = kernel(on_torch.tensor(a), 2.0, out={"C": mine})
    assert found.C is mine and found.B is not mine
    np.testing.assert_array_equal(on_torch.read(found.C), a + 2)


def test_without_elements(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    c = mm(on_torch.tensor(A[:0]), on_torch.tensor(B))
    assert tuple(c.shape) == (0, 4)
    c = mm(on_torch.tensor(A[:, :0]), on_torch.tensor(B[:0]))
    np.testing.assert_array_equal(on_torch.read(c), np.zeros((4, 4)))


def test_the_other_device(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    """Whose context is not that of the thread."""
    for _ in range(2):
        c = mm(on_torch.tensor(A, 1), on_torch.tensor(B, 1))
        assert c.device == torch.device("cuda", 1)
        np.testing.assert_array_equal(on_torch.read(c), A @ B)
    np.testing.assert_array_equal(on_torch.read(mm(on_torch.tensor(A), on_torch.tensor(B))), A @ B)
    assert machine.names().count("load") == 2  # once for each device
    assert not machine.contexts


def test_two_libraries(machine: Machine, on_torch: Torch, on_cupy: Cupy, mm: tc.Kernel) -> None:
    c = mm(on_torch.tensor(A), on_cupy.array(B))
    np.testing.assert_array_equal(on_torch.read(c), A @ B)
    d = mm(on_cupy.array(A), on_torch.tensor(B))
    np.testing.assert_array_equal(on_cupy.read(d), A @ B)


def test_cuda_arrays_choose_the_backend(machine: Machine, on_torch: Torch) -> None:
    kernel = tc.compile(MM)
    np.testing.assert_array_equal(kernel(A, B), A @ B)
    c = kernel(on_torch.tensor(A), B=on_torch.tensor(B))
    np.testing.assert_array_equal(on_torch.read(c), A @ B)
    np.testing.assert_array_equal(kernel(A, B), A @ B)
    assert kernel.backend != "cuda"


def test_type_variables(machine: Machine, on_torch: Torch) -> None:
    kernel = tc.compile("def scaled<T>(T(N) A) -> (B) { B(i) = 2 * A(i) }", "cuda")
    a = numbers(8)
    np.testing.assert_array_equal(on_torch.read(kernel(on_torch.tensor(a))), 2 * a)
    np.testing.assert_array_equal(np.asarray(kernel(WithDlpack(machine, a))), 2 * a)
    interface = WithInterface(on_torch.tensor(a).as_subclass(torch.Tensor).numpy())
    np.testing.assert_array_equal(np.asarray(kernel(interface)), 2 * a)


def test_host_arrays_work_as_before(machine: Machine, mm: tc.Kernel) -> None:
    np.testing.assert_array_equal(mm(A, B), A @ B)
    np.testing.assert_array_equal(mm(torch.from_numpy(A), torch.from_numpy(B)), A @ B)
    assert not machine.live()


def test_host_arrays_have_one_notice(
    machine: Machine, mm: tc.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["tc_backends.cuda.device"], "_told", set())
    twice = tc.compile(TWICE, "cuda")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for kernel, args in ((mm, (A, B)), (mm, (A, B)), (twice, (A[0], 2.0))):
            kernel(*args)
    (one,) = said
    assert isinstance(one.message, tc.PerformanceNotice) and one.filename == __file__
    assert one.message.message.startswith("mm on cuda: arrays of the host are copied")
    assert one.message.help == "pass arrays that are on the device"


# ---- refusals


def refuses(kind: type[tc.Error], code: str, text: str, kernel: tc.Kernel, *args: Any) -> tc.Error:
    with pytest.raises(kind, match=text) as caught:
        kernel(*args)
    assert caught.value.code == code
    assert caught.value.help
    return caught.value


def test_several_devices_are_refused(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    a, b = on_torch.tensor(A), on_torch.tensor(B, 1)
    refuses(BackendError, "TC0817", "B is on cuda:1, and A on cuda:0", mm, a, b)
    refuses(BackendError, "TC0817", "A is on cuda:0, and B on the host", mm, a, B)
    refuses(BackendError, "TC0817", "B is on a cuda device, and A on the host", mm, A, b)


def test_freed_arrays(machine: Machine, on_torch: Torch, on_cupy: Cupy, on_jax: Jax, mm: tc.Kernel) -> None:
    gone = on_jax.array(A)
    gone.deleted = True
    refuses(ArgumentError, "TC0505", "donated or deleted", mm, gone, on_jax.array(B))
    freed = on_cupy.array(A)
    freed.data.ptr = 0
    refuses(ArgumentError, "TC0505", "A has 4 x 8 elements and no memory", mm, freed, on_cupy.array(B))
    on_host = WithInterface(A)
    refuses(ArgumentError, "TC0505", "is no memory of a cuda device", mm, on_host, on_host)


def test_interfaces_that_lie(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    a = on_torch.tensor(A).as_subclass(torch.Tensor).numpy()
    b = WithInterface(on_torch.tensor(B).as_subclass(torch.Tensor).numpy())
    refuses(ArgumentError, "TC0505", "its stream is 0", mm, WithInterface(a, stream=0), b)
    refuses(ArgumentError, "TC0505", "mask", mm, WithInterface(a, mask=b), b)
    refuses(DTypeError, "TC0411", "byte-swapped", mm, WithInterface(a, typestr=">f4"), b)
    refuses(BackendError, "TC0810", "is no stream", mm, WithInterface(a, stream=77), b)

    class Elsewhere(WithDlpack):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

    refuses(ArgumentError, "TC0505", "capsule of DLPack is of another device", mm, Elsewhere(machine, A), b)


def test_gradients_are_refused(machine: Machine, on_torch: Torch, mm: tc.Kernel) -> None:
    a = on_torch.tensor(A).requires_grad_()
    refuses(ArgumentError, "TC0509", "requires gradients", mm, a, on_torch.tensor(B))
    with torch.no_grad():
        np.testing.assert_array_equal(on_torch.read(mm(a, on_torch.tensor(B))), A @ B)
