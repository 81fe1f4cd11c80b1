"""A specialised program to launches to OpenCL C to kernels on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tc.codegen import gpu_source
from tc.codegen.dialect import OPENCL
from tc.errors import BackendError
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.front import stage
from tc.pipeline.target import Availability

from ..gpu.compiled import GPU_OPTIONS, Compiled
from ..gpu.lower import lower
from ..gpu.run import Interface
from ..gpu.target import believed
from . import device


class Backend:
    """The mapping of the cuda backend in OpenCL C."""

    name = "opencl"
    options_used: frozenset[str] = GPU_OPTIONS
    dynamic_sizes = True

    def available(self) -> Availability:
        return device.availability()

    def default_options(self, program: Program, target: Any) -> Options:
        return Options()

    def compile(
        self, program: Program, options: Options | None = None, typical: Mapping[str, int] | None = None
    ) -> Compiled:
        """The kernels of a program, whose symbolic sizes are dynamic and have these typical values.

        Raises BackendError: TC0815 without a device, TC0816 for float64 on one without it.
        """
        options, found = options or Options(), device.find()
        target = believed(found.target, options, self.name)
        lowered = lower(program, options, typical or {}, target)
        with stage("code"):
            module = gpu_source.emit(lowered.nest, OPENCL, lowered.contract)
        if module.double and not found.doubles:
            raise BackendError(
                f"{program.name} computes in float64, which {found.name} does not have",
                code="TC0816",
                help="choose another device with TC_OPENCL_DEVICE, or another backend",
            )
        with stage("machine"):
            kernels = found.kernels(module.text, [k.name for k in module.kernels])
        interface = Interface.of(program, lowered.nest.workspace)
        return Compiled(self.name, lowered, module, kernels, interface, notices=lowered.notices)
