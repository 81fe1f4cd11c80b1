"""A stand-in for the CUDA driver: buffers are host memory, and launches run through the shim.

Images are CUDA C++ instead of machine code.  What the shim finds is an error of the launch.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.simt import shim

Bytes = np.ndarray[Any, Any]


class StandIn:
    """See `backends.cuda.driver.Driver`; `log` has the names of the launched kernels."""

    name, arch, takes_text = "stand-in", "sm_90", True

    def __init__(self) -> None:
        self.held: dict[int, Bytes] = {}
        self.log: list[str] = []

    @contextmanager
    def entered(self) -> Generator[None]:
        yield

    def load(self, image: bytes) -> str:
        return image.decode()

    def function(self, module: str, name: str, dynamic_shared: int) -> tuple[str, str]:
        assert name in module
        return module, name

    def allocate(self, size: int) -> int:
        return self.adopt(_aligned(size))

    def adopt(self, memory: Bytes) -> int:
        """Make memory of others known by its address."""
        self.held[memory.ctypes.data] = memory
        return memory.ctypes.data

    def free(self, buffer: int) -> None:
        del self.held[buffer]

    def upload(self, buffer: int, content: Bytes) -> None:
        self.held[buffer][: content.size] = content

    def download(self, content: Bytes, buffer: int) -> None:
        content[...] = self.held[buffer][: content.size]

    def fill(self, buffer: int, byte: int, size: int) -> None:
        self.held[buffer][:size] = byte

    def launch(
        self,
        function: tuple[str, str],
        arguments: Sequence[Any],
        blocks: int,
        threads: int,
        shared: int,
        stream: int = 0,
    ) -> None:
        text, name = function
        given = [a if isinstance(a, np.generic) else self.held[a] for a in arguments]
        self.log.append(name)
        found = shim.run(text, name, blocks, threads, given, shared=shared)
        assert not found, shim.report(found)

    def synchronize(self) -> None: ...


def _aligned(size: int) -> Bytes:
    raw = np.zeros(size + 256, np.uint8)
    first = -raw.ctypes.data % 256
    return raw[first : first + size]
