"""A call as a CUDA graph: what it launches is recorded once, and is launched anew without the host's work."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from tc.errors import BackendError
from tc.pipeline.devices import Device, DeviceLauncher
from tc.runtime.device_arrays import current_stream
from tc.runtime.device_call import Shapes, ordered, prepare, results
from tc.runtime.signature import Bound


class _Recorded:
    """A graph of the driver's, with the memory that it uses."""

    def __init__(self, device: Device, graph: Any, kept: object) -> None:
        self.device, self.graph, self.kept = device, graph, kept

    def __del__(self) -> None:
        with suppress(TypeError, AttributeError):  # at the end of the process
            self.device.drop(self.graph)


class Graph:
    """A call that was recorded with its arrays: `graph()` reads what is in them then, on the current stream,
    and returns `results`, which are the same arrays each time.

    An index out of range is raised by a later call.
    """

    def __init__(self, bound: Bound, recorded: _Recorded, results: Callable[[], Any], what: str) -> None:
        self._bound, self._recorded, self._results, self._what = bound, recorded, results, what
        self._last = bound.stream
        self.results: Any = results()

    def __call__(self) -> Any:
        """Launch it on the current stream of the library of the arrays."""
        device, first = self._recorded.device, self._bound.first
        assert first is not None
        if first.library in ("torch", "cupy"):
            self._last = current_stream(first.library, device.number) or 0
        with device.entered(self._what):
            device.raise_pending()
            device.order(self._last, self._bound.stream)
            with ordered(replace(self._bound, stream=self._last), device, holding=False):
                device.replay(self._recorded.graph, self._last)
        self._results()
        return self.results

    def __del__(self) -> None:
        """It may be running: what it uses is kept until then."""
        with suppress(BackendError, TypeError, AttributeError), self._recorded.device.entered():
            self._recorded.device.hold(self._last, (self._recorded, self._bound, self.results))


def record(
    bound: Bound,
    shapes: Shapes,
    launcher: DeviceLauncher,
    reads: Collection[str],
    failure: Callable[[Any], Exception],
    what: str,
) -> Graph:
    """Record a bound call, which does not run.  Raises BackendError TC0820 for arrays of JAX, and as
    `tc.pipeline.devices.Device`."""
    device = bound.device
    assert device is not None
    if any(a.library == "jax" for a in (*bound.arrays.values(), *bound.out.values())):
        raise BackendError(
            f"{what}: a graph is of arrays that change between its launches, and those of JAX never do",
            code="TC0820",
            help="call the kernel itself, or pass arrays of PyTorch or CuPy",
        )
    bound.check_outputs(shapes)
    with device.entered(what):
        prepared = prepare(bound, shapes, reads, failure, False)
        stream = device.new_stream()
        call = replace(prepared.call, stream=stream, workspace=cache(prepared.call.workspace))
        prepared = replace(prepared, call=call)
        launcher.prepare(call)
        if prepared.first:
            device.prepare_copies()
        device.raise_pending()
        with device.capture(stream) as graphs:
            prepared.launch(launcher)
        recorded = _Recorded(device, graphs[0], prepared.kept)
    return Graph(bound, recorded, lambda: results(bound, prepared), what)
