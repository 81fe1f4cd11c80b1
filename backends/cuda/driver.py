"""The protocol of the CUDA driver, as far as kernels need it; pycuda (`with_pycuda.py`) and cuda-bindings
(`with_bindings.py`) implement it.

Neither this module nor those import a compiler, so that they suffice to run kernels that were compiled
elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

# After one of these statuses every call in the context fails until the process ends.
STICKY = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "ILLEGAL_ADDRESS",
        "LAUNCH_FAILED",
        "LAUNCH_TIMEOUT",
        "ILLEGAL_INSTRUCTION",
        "MISALIGNED_ADDRESS",
        "INVALID_ADDRESS_SPACE",
        "INVALID_PC",
        "HARDWARE_STACK_ERROR",
        "ASSERT",
        "ECC_UNCORRECTABLE",
        "NVLINK_UNCORRECTABLE",
        "DEVICE_UNAVAILABLE",
        "CONTEXT_IS_DESTROYED",
        "MPS_CLIENT_TERMINATED",
        "EXTERNAL_DEVICE",
        "UNKNOWN",
    )
)
CAPTURE = "CUDA_ERROR_STREAM_CAPTURE_"  # how the statuses begin that a capture gives
TOO_OLD = frozenset(
    f"CUDA_ERROR_{name}"
    for name in ("NO_BINARY_FOR_GPU", "UNSUPPORTED_PTX_VERSION", "INVALID_PTX", "JIT_COMPILER_NOT_FOUND")
)


class DriverError(Exception):
    """The driver refuses a call, or reports a failure of an earlier one.

    `status` is the name of the driver's result, such as CUDA_ERROR_ILLEGAL_ADDRESS; empty if it is not known.
    """

    def __init__(self, text: str, status: str = "") -> None:
        super().__init__(text)
        self.status = status

    @property
    def sticky(self) -> bool:
        """Whether the context is lost, so that all later calls fail."""
        return self.status in STICKY


class OutOfMemory(DriverError):
    """The device does not have the requested amount of free memory."""


class Driver(Protocol):
    """The driver, with a device in its primary context, which PyTorch and others share.

    Calls but `entered`, `name`, `arch` and `number` are made inside `entered()`.  Each may raise DriverError.
    Streams are handles, 0 for the default stream; addresses, events and graphs are the driver's own.
    `upload` and `download` wait for what they copy; nothing else waits, but for what begins with
    `synchronize`.
    """

    @property
    def name(self) -> str:
        """Of the device."""
        ...

    @property
    def arch(self) -> str:
        """Of the device, such as sm_90."""
        ...

    @property
    def number(self) -> int:
        """Of the device, as the driver counts."""
        ...

    @property
    def package(self) -> str:
        """The package by which the driver is called."""
        ...

    def entered(self) -> AbstractContextManager[None]:
        """Make the device's context that of the calling thread."""
        ...

    def load(self, image: bytes) -> Any:
        """A module of a cubin, or of PTX that ends in a zero byte."""
        ...

    def function(self, module: Any, name: str, dynamic_shared: int) -> Any:
        """A kernel of a module, allowed this many bytes of dynamic shared memory."""
        ...

    def allocate(self, size: int) -> Any:
        """A buffer of `size` bytes, at least 1, aligned to 256."""
        ...

    def free(self, buffer: Any) -> None: ...

    def upload(self, buffer: Any, content: Any) -> None:
        """Copy a dense NumPy array of bytes to a buffer."""
        ...

    def download(self, content: Any, buffer: Any) -> None:
        """Copy from a buffer to a dense NumPy array of bytes."""
        ...

    def launch(
        self, function: Any, arguments: Sequence[Any], blocks: int, threads: int, shared: int, stream: int = 0
    ) -> None:
        """Arguments are buffers, addresses and NumPy scalars."""
        ...

    def synchronize(self) -> None:
        """Wait for all launches."""
        ...

    def entries(self) -> tuple[int, int, int, int] | None:
        """The addresses of cuCtxPushCurrent, cuCtxPopCurrent and cuLaunchKernel, and the context; None where
        functions of a module are no handles of the driver."""
        ...

    def refused(self, status: int) -> None:
        """Raise the error of a status that one of these gave."""
        ...

    # ---- streams and events

    def stream(self) -> int:
        """A new stream, which is not ordered with the default one."""
        ...

    def synchronize_stream(self, stream: int) -> None: ...

    def event(self) -> Any:
        """A new event, without time."""
        ...

    def record(self, event: Any, stream: int) -> None: ...

    def wait(self, stream: int, event: Any) -> None:
        """Let all later work on the stream run after the work that the event recorded."""
        ...

    def done(self, event: Any) -> bool:
        """Whether the work that the event recorded has run."""
        ...

    def destroy_event(self, event: Any) -> None: ...

    # ---- memory in the order of a stream

    def allocate_on(self, size: int, stream: int) -> int:
        """The address of `size` bytes, at least 1, aligned to 256, for later work on the stream."""
        ...

    def free_on(self, address: int, stream: int) -> None:
        """Free the memory once the stream has run all earlier work."""
        ...

    def pinned(self, size: int) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], int]:
        """Zeroed host memory that kernels can write and that is never freed, and its address for kernels."""
        ...

    def device_of(self, address: int) -> int | None:
        """The number of the device that has this memory; None for an address of no device."""
        ...

    def memory(self) -> tuple[int, int]:
        """The free and the total bytes of memory."""
        ...

    # ---- graphs

    def capturing(self, stream: int) -> bool:
        """Whether work put on the stream is captured in a graph."""
        ...

    def begin_capture(self, stream: int) -> None: ...

    def end_capture(self, stream: int) -> Any:
        """End the capture; returns its graph, ready to be launched."""
        ...

    def launch_graph(self, graph: Any, stream: int) -> None: ...

    def destroy_graph(self, graph: Any) -> None: ...
