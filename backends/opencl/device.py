# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
"""The device that kernels are built for and run on; the only module that imports pyopencl.

The queue of a thread is in-order, so copies and launches need no events.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from tc.codegen import llvm_jit
from tc.codegen.gpu_module import Kernel
from tc.errors import BackendError, InternalError
from tc.pipeline.target import Availability
from tc.support import locks, settings

from ..gpu.interface import Interface
from ..gpu.run import OUT_OF_MEMORY, Array, Record, run
from ..gpu.target import GENERIC, Target
from . import pocl

_INSTALL = "pip install 'tensor-comprehensions[opencl]', which brings PoCL, a device on any CPU"
_building = locks.lock()


@dataclass(frozen=True)
class Device:
    """An OpenCL device in a context of its own; `cl` is pyopencl."""

    cl: Any
    device: Any
    context: Any
    _threads: threading.local

    @property
    def queue(self) -> Any:
        """An in-order queue of the calling thread."""
        if not hasattr(self._threads, "queue"):
            self._threads.queue = self.cl.CommandQueue(self.context)
        return self._threads.queue

    @property
    def pocl(self) -> bool:
        """Whether it is a CPU, on which PoCL runs kernels."""
        return "Portable Computing Language" in self.device.platform.name

    @property
    def name(self) -> str:
        return f"{self.device.name.strip()} ({self.device.platform.name.strip()})"

    @property
    def doubles(self) -> bool:
        return "cl_khr_fp64" in self.device.extensions.split()

    @property
    def target(self) -> Target:
        """The description of the device, with what OpenCL reports.  For PoCL that of a small GPU: work-items
        are loops there, and kernels are the same wherever they are tested."""
        if self.pocl:
            return GENERIC
        shared, block = int(self.device.local_mem_size), int(self.device.max_work_group_size)
        return replace(
            GENERIC,
            name=self.name,
            units=int(self.device.max_compute_units),
            shared=shared,
            most_shared=max(shared, GENERIC.most_shared),
            block=min(block, GENERIC.block),
        )

    @property
    def flags(self) -> str:
        """Options of the compiler: correctly rounded division and roots of float32, if the device supports
        them; denormals are kept.  Warnings are off, since the text is generated."""
        exact = self.device.single_fp_config & self.cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        flags = "-w -cl-std=CL1.2" + (" -cl-fp32-correctly-rounded-divide-sqrt" if exact else "")
        # Optimisations of PoCL 3.0 before it turns threads into loops miscompile barriers under conditions,
        # and conditions on both sides of a barrier, which it assumes to be the same for all threads.
        return flags + (" -cl-opt-disable" if self.pocl else "")

    def kernels(self, text: str, names: Sequence[str]) -> Kernels:
        """The kernels of a text.

        Raises InternalError, code TC0907, for a text that the device's compiler refuses.
        """
        with _building:
            try:
                program = self.cl.Program(self.context, text)
                # pyopencl's own cache of binaries has no limit.
                built = program.build(self.flags, devices=[self.device], cache_dir=False)
                return Kernels(self, [self.cl.Kernel(built, name) for name in names])
            except self.cl.Error as error:
                raise InternalError(
                    f"the OpenCL compiler refuses the text: {str(error).strip()}", code="TC0907"
                ) from error


@dataclass(frozen=True)
class Kernels:
    """The functions of a text; a function stores its arguments, so only one thread at a time may launch
    it."""

    device: Device
    functions: Sequence[Any]
    lock: Any = field(default_factory=locks.lock)

    def run(
        self,
        interface: Interface,
        kernels: Sequence[Kernel],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
    ) -> Record | None:
        """See `..gpu.run.run`."""
        cl = self.device.cl
        session = _Session(cl, self.device.context, self.device.queue, self.lock)
        try:
            return run(session, interface, kernels, self.functions, inputs, outputs)
        except cl.MemoryError:
            return OUT_OF_MEMORY
        except cl.Error as error:
            if (
                getattr(error, "code", None) == cl.status_code.INVALID_BUFFER_SIZE
            ):  # above the limit of one buffer
                return OUT_OF_MEMORY
            raise BackendError(
                f"{interface.name} on {self.device.name}: {str(error).strip()}",
                code="TC0810",
                help="run it on another backend",
            ) from error


@dataclass(frozen=True)
class _Session:
    cl: Any
    context: Any
    queue: Any
    lock: Any

    def allocate(self, size: int) -> Any:
        return self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, size)

    def upload(self, buffer: Any, content: Array) -> None:
        self.cl.enqueue_copy(self.queue, buffer, content)

    def download(self, content: Array, buffer: Any) -> None:
        self.cl.enqueue_copy(self.queue, content, buffer)

    def launch(self, function: Any, arguments: Sequence[Any], blocks: int, kernel: Kernel) -> None:
        with self.lock:
            function.set_args(*arguments)
            whole, block = (blocks * kernel.threads,), (kernel.threads,)
            self.cl.enqueue_nd_range_kernel(self.queue, function, whole, block)

    def free(self, buffer: Any) -> None:
        with suppress(self.cl.Error):
            buffer.release()


def availability() -> Availability:
    try:
        find()
    except BackendError as error:
        return Availability(False, error.message, error.help or "")
    return Availability(True)


def find() -> Device:
    """The device of the setting `TC_OPENCL_DEVICE`, or else the first GPU, or else the first device.

    Raises BackendError, code TC0815, where there is none.
    """
    return _find(settings.opencl_device())


@cache
def _find(wanted: str) -> Device:
    if importlib.util.find_spec("pyopencl") is None:
        raise BackendError("pyopencl is not installed", code="TC0815", help=_INSTALL)
    import pyopencl as cl

    try:
        devices = [d for p in cl.get_platforms() for d in p.get_devices()]
    except cl.Error as error:
        raise BackendError(f"OpenCL finds no platform: {error}", code="TC0815", help=_INSTALL) from error
    if not devices:
        raise BackendError("OpenCL finds no device", code="TC0815", help=_INSTALL)
    if wanted:
        named = {f"{d.platform.name} {d.name}": d for d in devices}
        fitting = [d for n, d in named.items() if wanted.lower() in n.lower()]
        if not fitting:
            raise BackendError(
                f"no OpenCL device is called TC_OPENCL_DEVICE={wanted!r}",
                code="TC0815",
                help="there are " + ", ".join(named),
            )
        devices = fitting
    gpus = [d for d in devices if d.type & cl.device_type.GPU]
    device = (gpus or devices)[0]
    found = Device(cl, device, cl.Context([device]), threading.local())
    if found.pocl and device.version.endswith("-generic"):
        features = {f[1:] for f in llvm_jit.host_cpu()[1].split(",") if f.startswith("+")}
        pocl.rename(device.int_ptr, b"generic", pocl.known_processor(features))
    return found
