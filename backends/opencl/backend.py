"""The opencl backend: launches as OpenCL C, built for a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tc.codegen import gpu_source
from tc.codegen.dialect import OPENCL
from tc.codegen.gpu_module import Module
from tc.errors import BackendError
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.pass_manager import Pass, PassList, Search, later
from tc.pipeline.program import passes_over_loops, program_passes
from tc.pipeline.target import Availability

from ..gpu import tuning
from ..gpu.compiled import GPU_OPTIONS, Compiled, Functions
from ..gpu.interface import Interface
from ..gpu.passes import OVER_LOOPS, GpuState, mapping, start, unmapped, with_loops
from ..gpu.target import with_overrides
from . import device


@dataclass(frozen=True, kw_only=True)
class OpenclState(GpuState):
    """The launches, their OpenCL C, and its kernels on a device."""

    device: device.Device
    module: Module = later()
    functions: Functions = later()


def _code(state: OpenclState) -> OpenclState:
    on = state.device
    module = gpu_source.emit(state.nest, OPENCL, state.contract)
    if module.double and not on.doubles:
        raise BackendError(
            f"{state.program.name} computes in float64, which {on.name} does not have",
            code="TC0816",
            help="choose another device with TC_OPENCL_DEVICE, or another backend",
        )
    return replace(state, module=module)


def _machine(state: OpenclState) -> OpenclState:
    names = [k.name for k in state.module.kernels]
    return replace(state, functions=state.device.kernels(state.module.text, names))


_CODE: tuple[Pass[OpenclState] | Search[OpenclState], ...] = (
    Pass("code", "emit OpenCL C", "tc/codegen/gpu_source.py", _code, lambda s: s.module.text),
    Pass(
        "machine",
        "compile OpenCL C to kernels, by the device's compiler",
        "backends/opencl/device.py",
        _machine,
    ),
)
_MAPPED = (*program_passes(OpenclState), *mapping(OpenclState))
PASSES = PassList[OpenclState](
    "opencl",
    (
        *passes_over_loops(OpenclState, OVER_LOOPS),
        with_loops("opencl", _MAPPED, (*_MAPPED, *_CODE), _CODE),
    ),
)
_UNMAPPED = unmapped(OpenclState)
UNMAPPED = PassList[OpenclState]("opencl", (with_loops("opencl", _UNMAPPED, (*_UNMAPPED, *_CODE), _CODE),))


class Backend:
    """OpenCL C with the mappings of the cuda backend; compiling and calls need a device."""

    name = "opencl"
    options_used: frozenset[str] = GPU_OPTIONS
    dynamic_sizes = True
    cost_unit = "seconds"

    def available(self) -> Availability:
        return device.availability()

    def passes(self, options: Options) -> PassList[OpenclState]:
        return UNMAPPED if options.mapping == "identity" else PASSES

    def compile(
        self, program: Program, options: Options | None = None, typical: Mapping[str, int] | None = None
    ) -> Compiled:
        """The kernels of a program; `typical` are values of its symbolic sizes, which are dynamic.

        Raises BackendError: TC0815 without a device, TC0816 for float64 on one without it.
        """
        options, found = options or Options(), device.find()
        target = with_overrides(found.target, options, self.name)
        first = OpenclState(**start(program, options, typical or {}, target), device=found)
        made = self.passes(options).run(first)
        lowered, interface = made.lowered, Interface.of(program, made.nest.workspace)
        return Compiled(self.name, lowered, made.module, made.functions, interface, notices=lowered.notices)

    def candidates(self, program: Program, count: int, options: Options) -> tuple[tuple[Options, float], ...]:
        """None: the model ranks mappings that no options name."""
        return ()

    def loops(self, program: Program, options: Options) -> tuple[int, ...]:
        """The extents of the loops that the option `tile` is about."""
        return tuning.loops(program)

    def predict(self, program: Program, options: Options) -> float | None:
        """Seconds by the model; None for a program with sequential loops."""
        return tuning.predict(program, options, with_overrides(device.find().target, options, self.name))

    def limits(self, options: Options) -> Mapping[str, Any]:
        """The limits of the device, by name."""
        found = device.find()
        return tuning.limits(with_overrides(found.target, options, self.name), found.name)
