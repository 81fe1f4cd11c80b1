"""What kernels need of the CUDA driver: a protocol, behind which are pycuda (`with_pycuda.py`) and
cuda-bindings (`with_bindings.py`).

Neither this module nor those import a compiler: what runs kernels that were compiled elsewhere needs no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class DriverError(Exception):
    """The driver refuses a call, or reports a failure of an earlier one."""


class OutOfMemory(DriverError):
    """The device has not as much free memory as is asked for."""


class Driver(Protocol):
    """The driver, with a device in its primary context, which PyTorch and others share.

    Calls but `entered`, `name` and `arch` are made inside `entered()`.  Each may raise DriverError.  Copies
    wait for what they copy; launches do not wait.  `stream` is a handle, 0 for the default stream.
    """

    @property
    def name(self) -> str:
        """Of the device."""
        ...

    @property
    def arch(self) -> str:
        """Of the device, such as sm_90."""
        ...

    def entered(self) -> AbstractContextManager[None]:
        """Make the device's context that of the calling thread."""
        ...

    def load(self, image: bytes) -> Any:
        """A module of a cubin."""
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
        """Arguments are buffers and NumPy scalars."""
        ...

    def synchronize(self) -> None:
        """Wait for all launches."""
        ...
