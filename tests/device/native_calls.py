"""Calls that `tc._native` launches itself, on tensors that say that they are on a device (`exchange.c`).

In a process of its own: what is known of PyTorch is learned once.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
import torch

from tc import _native

N = 20


class Kernel(_native.Dispatcher):
    def __init__(self) -> None:
        self.missed = 0

    def _miss(self, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any:
        self.missed += 1
        return None

    def _failed(self, owner: Any, error: Any, /) -> Any:
        raise RuntimeError(owner, error)


def install(path: str) -> ctypes.CDLL:
    """Put our table where PyTorch has its own."""
    library = ctypes.CDLL(path)
    get, new = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    plain = get(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    library.install.restype, library.install.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    library.said.restype = ctypes.c_char_p
    library.set_stream.argtypes = [ctypes.c_ssize_t]
    torch.Tensor.__dlpack_c_exchange_api__ = new(library.install(plain), b"dlpack_exchange_api", None)
    return library


def address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def entry(
    library: ctypes.CDLL,
    steps: tuple[Any, ...],
    constants: tuple[int, ...],
    workspace: int = 0,
    record: int = 0,
    stream: int | None = None,
    launch: str = "start",
) -> _native.Entry:
    """Of (float s, float(N) x) -> float(N).  Its words are s, x, the result, the workspace, the record,
    then the constants."""
    driver = [address(library, n) for n in ("push", "pop", launch)]
    spec = (1, *driver, 3, steps, constants, record, stream)
    inputs = [("scalar", 2, 32, None), ("tensor", 2, 32, (N,))]
    outputs = [(2, 32, (N,), False)]
    return _native.Entry(
        driver[2], inputs, outputs, workspace, False, None, "owner", ("s", "x"), ("y",), (), spec
    )


def calls(library: ctypes.CDLL) -> None:
    steps = ((address(library, "scale"), 5, 64, 100, (2, 1, 5, 0)),)
    kernel = Kernel()
    kernel._add(entry(library, steps, (N,)))
    x = torch.arange(float(N))
    y = kernel(2.5, x)
    assert torch.equal(y, 2.5 * x), y
    assert library.said() == b"5 x 64, 100 on 0x71; "
    z = torch.zeros(N)
    version = z._version
    assert kernel(x=x, s=3, out=z) is z and torch.equal(z, 3 * x) and z._version == version + 1
    library.set_stream(0x72)
    assert torch.equal(kernel(1.0, x), x) and b"on 0x72" in library.said()
    assert library.inside() == 0 and not kernel.missed
    # What it leaves to the slow path: nothing is launched.
    before = library.count()
    base = torch.zeros(2 * N + 4)
    assert base.data_ptr() % 16 == 0
    refused = [
        (2.5, base[1 : N + 1]),  # not aligned to 16 bytes
        (2.5, base[::2][:N]),
        (2.5, torch.zeros(N + 1)),
        (2.5, x.double()),
        (2.5, np.zeros(N, np.float32)),  # on the host
        (x, x),
    ]
    for arguments in refused:
        assert kernel(*arguments) is None
    assert kernel(2.5, x, out=x) is None and kernel(2.5, x, out=np.zeros(N, np.float32)) is None
    library.set_device(2)
    assert kernel(2.5, x) is None
    library.set_device(1)
    assert kernel.missed == len(refused) + 3 and library.count() == before
    assert torch.equal(kernel(2.5, base[4 : N + 4]), torch.zeros(N))


def workspaces(library: ctypes.CDLL) -> None:
    """Two launches, with memory between them that PyTorch has made."""
    steps = (
        (address(library, "fill"), 1, 32, 0, (3, 1, 5)),
        (address(library, "copy"), 2, 32, 0, (2, 3, 5)),
    )
    kernel = Kernel()
    kernel._add(entry(library, steps, (N,), workspace=4096))
    library.clear()
    library.set_stream(0)
    x = torch.arange(float(N))
    assert torch.equal(kernel(1.0, x), x)
    assert library.said() == b"1 x 32, 0 on (nil); 2 x 32, 0 on (nil); "


def records(library: ctypes.CDLL) -> None:
    """An error that is to be raised is for the slow path, and so is another stream."""
    block = np.zeros((4, 32), np.int64)
    _native.watch_records(block, 2)
    steps = ((address(library, "check"), 1, 32, 0, (4,)),)
    kernel = Kernel()
    kernel._add(entry(library, steps, (), record=block[1].ctypes.data, stream=0x71))
    x = torch.arange(float(N))
    library.set_stream(0x70)
    assert kernel(1.0, x) is None and kernel.missed == 1
    library.set_stream(0x71)
    assert kernel(1.0, x) is not None and block[1, 0] == 1
    assert kernel(1.0, x) is None and kernel.missed == 2
    block[1, 0] = 0
    block[3, 0] = 1  # which is not in use
    assert kernel(1.0, x) is not None
    _native.watch_records(block, 0)
    assert kernel(1.0, x) is not None  # nobody looks any more
    for wrong in ((np.zeros((4, 31), np.int64), 1), (block, 5)):
        try:
            _native.watch_records(*wrong)
        except ValueError:
            continue
        raise AssertionError(wrong)


def failures(library: ctypes.CDLL) -> None:
    kernel = Kernel()
    made = entry(library, ((address(library, "scale"), 1, 32, 0, (2, 1, 5, 0)),), (N,))
    kernel._add(made)
    library.fail(700)
    try:
        kernel(1.0, torch.zeros(N))
    except RuntimeError as error:
        assert error.args == ("owner", (-2, 700, (), 0)), error
    else:
        raise AssertionError
    library.fail(0)
    assert library.inside() == 0
    for wrong in (lambda: made.run([1, 2, 3]), lambda: entry(library, ((1, 1, 1, 1, (6,)),), (N,))):
        try:
            wrong()
        except ValueError:
            continue
        raise AssertionError


def whole_calls(library: ctypes.CDLL) -> None:
    """`tc.compile` to results: the first call of its kind goes through Python, the others do not."""
    import pytest

    import tc
    from tests.simt import install as standing_in
    from tests.simt.driver import StandIn

    class Handle(tuple[str, str]):
        def __int__(self) -> int:
            dynamic = "_dynamic" if "long long N" in self[0] else ""
            return address(library, self[1] + dynamic)

    def function(self: Any, module: str, name: str, dynamic_shared: int) -> Handle:
        return Handle((module, name))

    def launch(self: Any, f: Handle, arguments: Any, *more: Any) -> None:
        """As the driver of tc._native would."""
        words = [np.zeros(1, np.uint64) for _ in arguments]
        for w, a in zip(words, arguments, strict=True):
            if isinstance(a, np.generic):
                w.view(np.uint8)[: a.itemsize] = np.frombuffer(a.tobytes(), np.uint8)
            else:
                w[0] = a
        pointers = (ctypes.c_void_p * len(words))(*(w.ctypes.data for w in words))
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(int(f))(ctypes.addressof(pointers))

    library.set_stream(0x71)
    with pytest.MonkeyPatch.context() as m:
        machine = standing_in.stand_in(m)
        machine.streams[1, 0x71] = machine.new_stream(1)
        driver = tuple(address(library, n) for n in ("push", "pop", "start"))
        m.setattr(StandIn, "entries", lambda self: (*driver, 3))
        m.setattr(StandIn, "function", function)
        m.setattr(StandIn, "launch", launch)
        m.setattr(StandIn, "load", lambda self, image: image.decode(errors="replace"))
        standing_in.text_for_code(m)
        m.setattr(torch.Tensor, "device", property(lambda self: torch.device("cuda", 1)), raising=False)
        stream = type("Stream", (), {"cuda_stream": 0x71})
        m.setattr(torch.cuda, "current_stream", lambda device: stream)
        plain = torch.empty
        m.setattr(torch, "empty", lambda *shape, device, **more: plain(*shape, **more))

        x = torch.arange(float(N))
        source = "def scale(float s, float(N) x) -> (y) { y(i) = s * x(i) }"
        for dynamic in ((), ("N",)):
            kernel = tc.compile(source, "cuda", dynamic=dynamic)
            launched = library.count()
            assert torch.equal(kernel(2.0, x), 2 * x) and library.count() == launched
            y = torch.zeros(N)
            assert kernel(3.0, x, out=y) is y and torch.equal(y, 3 * x) and library.count() == launched + 1
            assert torch.equal(kernel(s=4, x=x), 4 * x) and library.count() == launched + 2
            assert len(kernel._entries()) == 1

        library.fail(700)
        with pytest.raises(tc.BackendError, match="scale: stand-in 1 is lost to this process") as caught:
            kernel(2.0, x)
        library.fail(0)
        assert caught.value.code == "TC0819"
        machine.lost = None
        standing_in.backend_module("device")._devices.clear()

        source = "def gather(float(N) A, int(M) I) -> (B) { B(i) = A(I(i)) }"
        with pytest.warns(tc.DataDependentAccess):
            kernel = tc.compile(source, "cuda")
        i = torch.arange(N, dtype=torch.int32).flip(0).contiguous()
        for _ in range(2):
            assert torch.equal(kernel(x, i), x.flip(0))
        assert library.count() > launched
        i[3] = N
        kernel(x, i)
        i[3] = 0
        with pytest.raises(tc.BoundsError, match=r"index 20 is out of range for dimension 0 of 'A'.* i = 3"):
            kernel(x, i)
        assert kernel(x, i)[3] == 0


def cost(library: ctypes.CDLL) -> None:
    """Microseconds of a call with `out=` and without, and of a call of the driver's function by ctypes."""
    import timeit

    kernel = Kernel()
    steps = ((address(library, "scale"), 1, 32, 0, (2, 1, 5, 0)),)
    kernel._add(entry(library, steps, (N,), launch="nothing"))
    x, y = torch.zeros(N), torch.zeros(N)
    function = library.nothing
    function.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    function.restype = ctypes.c_int
    words = (ctypes.c_uint64 * 4)()
    parameters = (ctypes.c_void_p * 4)(*(ctypes.addressof(words) + 8 * k for k in range(4)))
    number = 200_000
    for name, call in (
        ("out=", lambda: kernel(1.0, x, out=y)),
        ("a result", lambda: kernel(1.0, x)),
        ("torch.empty", lambda: torch.empty(N)),
        ("torch.add", lambda: torch.add(x, x, out=y)),
        ("ctypes", lambda: function(1, 1, 1, 1, 32, 1, 1, 0, None, parameters, None)),
        ("nothing", lambda: None),
    ):
        best = min(timeit.repeat(call, number=number, repeat=5)) / number
        sys.stdout.write(f"{name}: {1e6 * best:.3f}\n")


if __name__ == "__main__":
    loaded = install(sys.argv[1])
    if sys.argv[2:] == ["cost"]:
        cost(loaded)
    else:
        for part in (calls, workspaces, records, failures, whole_calls):
            part(loaded)
