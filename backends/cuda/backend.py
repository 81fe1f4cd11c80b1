"""A specialised program to launches to CUDA C++ to machine code, with or without a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tc.codegen import gpu
from tc.codegen.dialect import CUDA
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline import stage
from tc.registry import Availability

from ..gpu.compiled import GPU_OPTIONS, Compiled, inout
from ..gpu.lower import lower
from ..gpu.target import of_architecture
from . import device, nvrtc

_ARCHITECTURE = "sm_90"  # without a device


class Backend:
    """Compiles wherever NVRTC is; calls need a device and pycuda."""

    name = "cuda"
    options_used: frozenset[str] = GPU_OPTIONS | {"isa"}
    dynamic_sizes = True

    def available(self) -> Availability:
        compiler = nvrtc.availability()
        if not compiler.ok:
            return compiler
        found = device.availability()
        return Availability(found.ok, found.reason, found.remedy, compiles=True)

    def default_options(self, program: Program, target: Any) -> Options:
        return Options()

    def compile(
        self, program: Program, options: Options | None = None, typical: Mapping[str, int] | None = None
    ) -> Compiled:
        """The kernels of a program, whose symbolic sizes are dynamic and have these typical values, for the
        device, or the architecture that the option `isa` names, or where there is neither for sm_90.

        Raises BackendError, code TC0811, for an architecture that NVRTC does not know.
        """
        options = options or Options()
        arch = options.isa or (device.find().arch if device.availability().ok else _ARCHITECTURE)
        lowered = lower(program, options, typical or {}, of_architecture(arch))
        with stage("code"):
            module = gpu.emit(lowered.nest, CUDA, lowered.contract)
        with stage("machine"):
            machine = nvrtc.compile_text(module.text, arch, lowered.contract)
        kernels = device.Kernels(machine.cubin, [k.name for k in module.kernels])
        return Compiled(self.name, lowered, module, kernels, inout(program), {"asm": str(machine)})
