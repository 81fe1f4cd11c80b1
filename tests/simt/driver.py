"""A stand-in for the CUDA driver: buffers are host memory, and launches run through the shim.

Images are CUDA C++ instead of machine code.  What the shim finds is an error of the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.simt import shim
from tests.simt.machine import Bytes, Event, Machine, refuse

Execute = Callable[[str, str, int, int, list[Any], int], None]


def by_shim(text: str, name: str, blocks: int, threads: int, arguments: list[Any], shared: int) -> None:
    """Run a kernel of a CUDA text.  Raises AssertionError for what the shim finds."""
    found = shim.run(text, name, blocks, threads, arguments, shared=shared)
    assert not found, shim.report(found)


class StandIn:
    """See `backends.cuda.driver.Driver`; a device of a `machine`, by default one that does all at once."""

    takes_text = True
    package = "stand-in"

    def __init__(self, machine: Machine | None = None, number: int = 0, execute: Execute = by_shim) -> None:
        self.machine, self.number = machine or Machine(eager=True), number
        self.name, self.arch = f"stand-in {number}", "sm_90"
        self._execute = execute

    @property
    def log(self) -> list[str]:
        """The names of the launched kernels."""
        return [x[1] for x in self.machine.log if x[0] == "launch"]

    def _enter(self, name: str, *more: Any) -> None:
        self.machine.enter(self.number, name, *more)

    def _on_host(self, name: str) -> None:
        """A call that no thread may make while it captures."""
        self._enter(name)
        self.machine.not_while_capturing(name)

    @contextmanager
    def entered(self) -> Generator[None]:
        self._enter("entered")
        with self.machine.inside(self.number):
            yield

    def load(self, image: bytes) -> str:
        self._on_host("load")
        return image.decode(errors="replace")  # machine code can be loaded, and not be run

    def function(self, module: str, name: str, dynamic_shared: int) -> tuple[str, str]:
        self._enter("function", name)
        assert name in module
        return module, name

    # ---- memory

    def allocate(self, size: int) -> int:
        self._on_host("allocate")
        return self.machine.memory(size, self.number).begin

    def adopt(self, memory: Bytes) -> int:
        """Make memory of others known by its address."""
        return self.machine.adopt(memory, self.number).begin

    def free(self, buffer: int) -> None:
        self._on_host("free")
        self.machine.drain_all(self.number)
        self.machine.release(buffer)

    def upload(self, buffer: int, content: Bytes) -> None:
        self._on_host("upload")
        self.machine.drain(self.machine.stream(self.number, 0))
        self.machine.at(buffer, self.number)[: content.size] = content

    def download(self, content: Bytes, buffer: int) -> None:
        self._on_host("download")
        self.machine.drain(self.machine.stream(self.number, 0))
        content[...] = self.machine.at(buffer, self.number)[: content.size]

    def fill(self, buffer: int, byte: int, size: int) -> None:
        self._enter("fill")

        def run() -> None:
            self.machine.at(buffer, self.number)[:size] = byte

        self.machine.put(self.machine.stream(self.number, 0), "fill", run)

    def allocate_on(self, size: int, stream: int) -> int:
        self._on_host("allocate_on")
        self.machine.stream(self.number, stream)
        return self.machine.memory(size, self.number).begin

    def free_on(self, address: int, stream: int) -> None:
        self._enter("free_on")
        where = self.machine.stream(self.number, stream)
        if where.capture is not None:
            raise refuse("STREAM_CAPTURE_UNSUPPORTED", "memory from outside the graph")
        self.machine.put(where, "free", lambda: self.machine.release(address))

    def pinned(self, size: int) -> tuple[Bytes, int]:
        self._on_host("pinned")
        block = self.machine.memory(size, None, fill=0)
        return block.memory, block.begin

    def device_of(self, address: int) -> int | None:
        self._enter("device_of")
        block = self.machine.block(address)
        return None if block is None or not block.live else block.device

    def memory(self) -> tuple[int, int]:
        self._enter("memory")
        return self.machine.room - self.machine.used(self.number), self.machine.room

    # ---- launches

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
        self._enter("launch", name, stream)
        given = list(arguments)

        def run() -> None:
            values = [a if isinstance(a, np.generic) else self.machine.at(a, self.number) for a in given]
            self._execute(text, name, blocks, threads, values, shared)

        self.machine.put(self.machine.stream(self.number, stream), name, run)

    def entries(self) -> tuple[int, int, int, int] | None:
        return None

    def refused(self, status: int) -> None:
        raise refuse("UNKNOWN", str(status))

    def synchronize(self) -> None:
        self._on_host("synchronize")
        self.machine.drain_all(self.number)

    # ---- streams, events and graphs

    def stream(self) -> int:
        self._on_host("stream")
        return self.machine.new_stream(self.number).number

    def synchronize_stream(self, stream: int) -> None:
        self._on_host("synchronize_stream")
        self.machine.drain(self.machine.stream(self.number, stream))

    def event(self) -> Event:
        self._enter("event")
        return Event()

    def record(self, event: Event, stream: int) -> None:
        self._enter("record", stream)
        self.machine.record(event, self.machine.stream(self.number, stream))

    def wait(self, stream: int, event: Event) -> None:
        self._enter("wait", stream)
        self.machine.wait(self.machine.stream(self.number, stream), event)

    def done(self, event: Event) -> bool:
        self._on_host("done")
        if event.captured:
            raise refuse("CAPTURED_EVENT")
        return event.recorded is None or event.recorded[0].done

    def destroy_event(self, event: Event) -> None:
        self._enter("destroy_event")

    def capturing(self, stream: int) -> bool:
        self._enter("capturing")
        return self.machine.stream(self.number, stream).capture is not None

    def begin_capture(self, stream: int) -> None:
        self._enter("begin_capture")
        self.machine.begin_capture(self.machine.stream(self.number, stream))

    def end_capture(self, stream: int) -> int:
        self._enter("end_capture")
        return self.machine.end_capture(self.machine.stream(self.number, stream))

    def launch_graph(self, graph: int, stream: int) -> None:
        self._enter("launch_graph", stream)
        self.machine.replay(graph, self.machine.stream(self.number, stream))

    def destroy_graph(self, graph: int) -> None:
        self._enter("destroy_graph")
        del self.machine.graphs[graph]
