"""Calls of XLA on a GPU: the handler with frames made here, on the driver's functions of `exchange.c`, and
what JAX lowers for the platform.

No jaxlib with CUDA is asked anything.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tc
from tc import _native
from tests.device.native_calls import N, address, entry
from tests.simt.install import backend_module
from tests.simt.machine import Machine

jax: Any = pytest.importorskip("jax")
jnp: Any = pytest.importorskip("jax.numpy")
X = np.arange(N, dtype=np.float32)
SCALE = "def scale(float s, float(N) x) -> (y) { y(i) = s * x(i) }"
GATHER = "def gather(float(N) A, int(M) I) -> (B) { B(i) = A(I(i)) }"
_P, _S, _I, _L = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int64
_numbers = itertools.count()
_CODES = {3: "INVALID_ARGUMENT", 5: "NOT_FOUND", 11: "OUT_OF_RANGE", 12: "UNIMPLEMENTED", 13: "INTERNAL"}


def structure(*fields: tuple[str, Any]) -> type[ctypes.Structure]:
    """One of XLA's, which begin with their size and a list of extensions."""
    more = [("struct_size", _S), ("extension", _P), *fields]
    return type("Structure", (ctypes.Structure,), {"_fields_": more})


Version = structure(("major", _I), ("minor", _I))
ErrorCreate = structure(("message", ctypes.c_char_p), ("code", _I))
StreamGet = structure(("context", _P), ("stream", _P))
Allocate = structure(("context", _P), ("size", _S), ("alignment", _S), ("data", _P))
Free = structure(("context", _P), ("size", _S), ("data", _P))
Ordinal = structure(("context", _P), ("ordinal", ctypes.c_int32))
Buffer = structure(("dtype", _I), ("data", _P), ("rank", _L), ("dims", ctypes.POINTER(_L)))
Arrays = structure(("size", _L), ("types", _P), ("args", ctypes.POINTER(_P)))
Attributes = structure(("size", _L), ("types", ctypes.POINTER(_I)), ("names", _P), ("attrs", _P))
Frame = structure(
    ("api", _P), ("context", _P), ("stage", _I), ("args", Arrays), ("rets", Arrays), ("attrs", Attributes)
)
TABLE = (
    "error_create", "error_get_message", "error_destroy", "handler_register", "stream_get", "type_register",
    "context_get", "state_set", "state_get", "memory_allocate", "memory_free", "schedule", "threads",
    "future_create", "future_set", "future_set_error", "run_id_get", "ordinal_get",
)  # fmt: skip
Api = structure(("version", Version), ("internal", _P), *((n, _P) for n in TABLE))


class Metadata(ctypes.Structure):
    _fields_ = (("struct_size", _S), ("version", Version), ("traits", ctypes.c_uint32))


class Text(ctypes.Structure):
    _fields_ = (("pointer", ctypes.c_char_p), ("length", _S))


def made(kind: type[ctypes.Structure], **values: Any) -> Any:
    return kind(struct_size=ctypes.sizeof(kind), **values)


@dataclass
class Xla:
    """What a handler may ask, and what it has asked for."""

    stream: int
    device: int = 0
    refuses: str = ""  # the function that fails
    old: bool = False  # from before it told the device
    log: list[str] = field(default_factory=list[str])
    errors: dict[int, str] = field(default_factory=dict[int, str])
    _kept: list[Any] = field(default_factory=list[Any])

    def call(self, kernel: str | None, arrays: Sequence[Any], results: Sequence[Any]) -> str:
        """The error of the handler, or nothing."""
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = _P, [ctypes.py_object, _P]
        handler = ctypes.CFUNCTYPE(_P, _P)(get(_native.xla_device_handler(), None))
        frame = made(Frame, api=self._api(), context=77, stage=3)
        frame.args, frame.rets = self._arrays(arrays), self._arrays(results)
        frame.attrs = self._attributes({} if kernel is None else {"name": "f", "kernel": kernel})
        found = handler(ctypes.addressof(frame))
        return self.errors.pop(found) if found else ""

    def _keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value

    def _address(self, value: Any) -> int:
        return ctypes.addressof(self._keep(value))

    def _api(self) -> int:
        table = {
            n: ctypes.cast(self._keep(ctypes.CFUNCTYPE(_P, _P)(getattr(self, n))), _P)
            for n in (
                "error_create",
                "error_destroy",
                "stream_get",
                "memory_allocate",
                "memory_free",
                "ordinal_get",
            )
        }
        api = made(Api, **table)
        api.struct_size -= 8 * self.old
        return self._address(api)

    def _arrays(self, arrays: Sequence[Any]) -> Any:
        pointers = (_P * max(1, len(arrays)))()
        for k, a in enumerate(arrays):
            dims = self._keep((_L * max(1, a.ndim))(*a.shape))
            pointers[k] = self._address(made(Buffer, data=a.ctypes.data, rank=a.ndim, dims=dims))
        return made(Arrays, size=len(arrays), args=self._keep(pointers))

    def _attributes(self, values: dict[str, str]) -> Any:
        names, attrs = ((_P * 2)(), (_P * 2)())
        for k, (name, value) in enumerate(values.items()):
            names[k] = self._address(Text(name.encode(), len(name)))
            attrs[k] = self._address(Text(value.encode(), len(value)))
        types = self._keep((_I * 2)(4, 4))
        return made(
            Attributes, size=len(values), types=types, names=self._address(names), attrs=self._address(attrs)
        )

    # ---- XLA's functions

    def _asked(self, name: str, context: int) -> int | None:
        assert context == 77
        self.log.append(name)
        return self._error(name) if self.refuses == name else None

    def _error(self, text: str) -> int:
        number = 1000 + len(self.errors)
        self.errors[number] = text
        return number

    def error_create(self, at: int) -> int:
        told = ErrorCreate.from_address(at)
        return self._error(f"{_CODES[told.code]}: {told.message.decode()}")

    def error_destroy(self, at: int) -> None:
        del self.errors[structure(("error", _P)).from_address(at).error]

    def stream_get(self, at: int) -> int | None:
        told = StreamGet.from_address(at)
        told.stream = self.stream
        return self._asked("stream", told.context)

    def ordinal_get(self, at: int) -> int | None:
        told = Ordinal.from_address(at)
        told.ordinal = self.device
        return self._asked("device", told.context)

    def memory_allocate(self, at: int) -> int | None:
        told = Allocate.from_address(at)
        self._scratch = np.zeros(told.size + 16, np.uint8)
        told.data = (self._scratch.ctypes.data + 15) // 16 * 16
        return self._asked(f"{told.size} by {told.alignment}", told.context)

    def memory_free(self, at: int) -> int | None:
        told = Free.from_address(at)
        assert self._scratch.ctypes.data <= told.data < self._scratch.ctypes.data + 16
        return self._asked(f"free {told.size}", told.context)


@pytest.fixture
def xla(by_functions: ctypes.CDLL, machine: Machine) -> Xla:
    return Xla(machine.new_stream(0).number)


def aligned(values: np.ndarray[Any, Any]) -> Any:
    """A copy at a multiple of 16 bytes."""
    whole = np.zeros(values.nbytes + 16, np.uint8)
    start = -whole.ctypes.data % 16
    out = whole[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    out[...] = values
    return out


def lowered(f: Any, *args: Any, platform: str = "cuda") -> str:
    return jax.jit(f).trace(*args).lower(lowering_platforms=(platform,)).as_text()


def fresh(source: str, **options: Any) -> Any:
    """An operator that has seen no device of an earlier test."""
    return tc.jax.op(f"# {next(_numbers)}\n{source}", **options)


def key(f: Any, *args: Any) -> str:
    """Of the kernel that a function calls."""
    (found,) = re.findall(r'kernel = "(\w+)"', lowered(f, *args))
    return found


def test_each_platform_has_its_target(xla: Xla, machine: Machine) -> None:
    op = fresh(SCALE)
    for f, x in ((lambda x: op(2.0, x), X), (jax.vmap(lambda x: op(2.0, x)), X[None])):
        text = lowered(f, x)
        assert "@tc_kernel_on_cuda(" in text and "@tc_kernel(" not in text and "callback" not in text
        text = lowered(f, x, platform="cpu")
        assert "@tc_kernel(" in text and "@tc_kernel_on_cuda(" not in text and "callback" not in text
    gradient = lowered(jax.grad(lambda x: op(2.0, x).sum()), X)
    assert "@tc_kernel_on_cuda(" in gradient and "@tc_kernel(" not in gradient
    np.testing.assert_array_equal(jax.jit(lambda x: op(2.0, x))(X), 2 * X)
    for options in ({"backend": "reference"}, {"checks": "sync"}):
        other = fresh(SCALE, **options)
        assert "tc_kernel_on_cuda" not in lowered(lambda x, op=other: op(2.0, x), X)
    assert not machine.log


def test_kernels_are_compiled_when_traced_where_jax_runs_on_a_gpu(
    xla: Xla, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    nvrtc = backend_module("nvrtc")
    plain = nvrtc.compile_text
    monkeypatch.setattr(nvrtc, "compile_text", lambda *a: made.append(a[0]) or plain(*a))
    for platform, count in (("cpu", 0), ("gpu", 1)):
        op = fresh(SCALE)
        monkeypatch.setattr(jax, "default_backend", lambda platform=platform: platform)
        assert "@tc_kernel_on_cuda(" in lowered(lambda x, op=op: op(2.0, x), X)
        assert len(made) == count


def test_the_handler_launches_on_the_stream_of_xla(
    xla: Xla, by_functions: ctypes.CDLL, machine: Machine
) -> None:
    op = fresh(SCALE)
    kernel = key(lambda x: op(2.5, x), X)
    x, y = aligned(X), aligned(0 * X)
    for device in (0, 1, 1):
        xla.device, xla.stream = device, machine.new_stream(device).number
        by_functions.clear()
        y[:] = 0
        assert xla.call(kernel, [x], [y]) == ""
        np.testing.assert_array_equal(y, np.float32(2.5) * X)
        assert by_functions.said().decode().endswith(f" on {xla.stream:#x}; ")
    assert xla.log == ["stream", "device"] * 3 and by_functions.inside() == 0
    assert machine.names() == ["capturing", "load", "function"] * 2  # on each device, and nothing has waited
    xla.old = True
    assert (
        xla.call(kernel, [x], [y])
        == "UNIMPLEMENTED: scale: this version of XLA does not tell the device of a call"
    )
    xla.old, xla.refuses = False, "stream"
    assert xla.call(kernel, [x], [y]) == "stream"
    xla.refuses = "device"
    assert xla.call(kernel, [x], [y]) == "device"


def test_what_it_refuses(xla: Xla, by_functions: ctypes.CDLL) -> None:
    op = fresh(SCALE)
    kernel = key(lambda x: op(1.5, x), X)
    x, long = aligned(X), aligned(np.zeros(N + 4, np.float32))
    shape, result = (
        "an array has another shape than the kernel is for",
        "a result has another shape than the kernel's",
    )
    before = by_functions.count()
    for name, arrays, results, text in (
        (kernel, [long], [x], f"INVALID_ARGUMENT: scale: {shape}"),
        (kernel, [x], [long], f"INVALID_ARGUMENT: scale: {result}"),
        (kernel, [x, x], [x], "INVALID_ARGUMENT: scale: another number of arrays than the kernel has"),
        (
            kernel,
            [long[1 : N + 1]],
            [x],
            "INVALID_ARGUMENT: scale: an array does not begin at a multiple of 16 bytes",
        ),
        (
            "0" * 32,
            [x],
            [x],
            "NOT_FOUND: the kernel of 'f' is not in this process: trace a call of its tc.jax.op before",
        ),
        (None, [x], [x], "INVALID_ARGUMENT: a call of tc names no kernel"),
    ):
        assert xla.call(name, arrays, results) == text
    assert by_functions.count() == before


def test_what_the_driver_refuses(xla: Xla, by_functions: ctypes.CDLL, machine: Machine) -> None:
    op = fresh(SCALE)
    kernel, x = key(lambda x: op(4.5, x), X), aligned(X)
    assert xla.call(kernel, [x], [x]) == ""
    by_functions.fail(700)
    said = xla.call(kernel, [x], [x])
    assert said.startswith("INTERNAL: error[TC0819]: scale: stand-in 0 is lost to this process"), said
    by_functions.fail(0)
    machine.lost = None
    assert xla.call(kernel, [x], [x]) == ""


def test_what_binding_raises_is_the_error(xla: Xla, machine: Machine) -> None:
    op = fresh(SCALE)
    kernel, x = key(lambda x: op(5.5, x), X), aligned(X)
    machine.fail_at, machine.failure = machine.calls + 3, "OUT_OF_MEMORY"
    assert xla.call(kernel, [x], [x]).startswith("INTERNAL: error[TC0818]: scale on 'cuda': out of memory")
    assert machine.names()[-1] == "load"
    assert xla.call(kernel, [x], [x]) == ""


@pytest.mark.filterwarnings("ignore::tc.DataDependentAccess")
def test_an_index_out_of_range_is_the_error_of_the_next_call(xla: Xla, machine: Machine) -> None:
    op = fresh(GATHER)
    kernel = key(op, X, np.zeros(N, np.int32))
    a, good, b = aligned(X), aligned(np.arange(N, dtype=np.int32)[::-1]), aligned(X)
    bad = aligned(good)
    bad[3] = N
    assert xla.call(kernel, [a, good], [b]) == ""
    np.testing.assert_array_equal(b, X[::-1])
    machine.log.clear()
    assert xla.call(kernel, [a, bad], [b]) == "" and machine.names() == []
    said = xla.call(kernel, [a, good], [b])
    assert "OUT_OF_RANGE: error[TC0701]: index 20 is out of range for dimension 0 of 'A'" in said, said
    assert xla.call(kernel, [a, good], [b]) == ""
    xla.stream = machine.new_stream(0).number  # which has a record of its own
    assert xla.call(kernel, [a, bad], [b]) == ""
    with pytest.raises(tc.BoundsError, match="index 20 is out of range"):
        tc.synchronize()
    assert xla.call(kernel, [a, good], [b]) == ""


class Copies:
    """A kernel that copies by scratch memory."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def bind(self, device: int, stream: int, /) -> _native.Entry:
        steps = (
            (address(self.library, "fill"), 1, 32, 0, (3, 1, 5)),
            (address(self.library, "copy"), 2, 32, 0, (2, 3, 5)),
        )
        return entry(self.library, steps, (N,), workspace=4096)

    def pending(self) -> str | None:
        return None

    def refused(self, device: int, status: int, /) -> str:
        return f"status {status}"


def test_scratch_memory_is_of_xla(xla: Xla, by_functions: ctypes.CDLL) -> None:
    _native.keep_for_xla_on_device("copies", Copies(by_functions), [np.float32(1).tobytes()], "copies")
    xla.device = 1
    x, y = aligned(X), aligned(0 * X)
    assert xla.call("copies", [x], [y]) == ""
    np.testing.assert_array_equal(y, X)
    taken = ["stream", "device", "4096 by 16", "free 4096"]
    assert xla.log == taken
    by_functions.fail(1)
    assert xla.call("copies", [x], [y]) == "INTERNAL: status 1" and xla.log == 2 * taken
    xla.refuses = "free 4096"
    assert xla.call("copies", [x], [y]) == "INTERNAL: status 1" and not xla.errors
    by_functions.fail(0)
    assert xla.call("copies", [x], [y]) == "free 4096"
    xla.refuses = "4096 by 16"
    before = by_functions.count()
    assert xla.call("copies", [x], [y]) == "4096 by 16" and by_functions.count() == before


def test_what_a_table_takes(xla: Xla, by_functions: ctypes.CDLL) -> None:
    class Wrong(Copies):
        def bind(self, device: int, stream: int, /) -> Any:
            return 3 if device else super().bind(device, stream)

    with pytest.raises(ValueError, match="8 bytes"):
        _native.keep_for_xla_on_device("long", Wrong(by_functions), [bytes(16)], "f")
    _native.keep_for_xla_on_device("wrong", Wrong(by_functions), [bytes(4)], "f")
    _native.keep_for_xla_on_device("scalars", Copies(by_functions), [], "f")
    x = aligned(X)
    for xla.device in (0, 1):
        assert xla.call("wrong", [x], [x]) == "INTERNAL: expected an Entry for this device"
    assert xla.call("scalars", [x], [x]) == "INTERNAL: expected the packed value of each scalar parameter"


def test_it_says_which_version_it_is_for() -> None:
    asked = made(Metadata)
    extension = (ctypes.c_uint64 * 4)(32, 1, 0, ctypes.addressof(asked))
    frame = made(Frame, extension=ctypes.addressof(extension))
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = _P, [ctypes.py_object, _P]
    assert not ctypes.CFUNCTYPE(_P, _P)(get(_native.xla_device_handler(), None))(ctypes.addressof(frame))
    assert (asked.version.major, asked.version.minor, asked.traits) == (0, 3, 0)
