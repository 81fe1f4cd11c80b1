"""A specialised program to launches to CUDA C++ to machine code, with or without a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tc.codegen import gpu_source
from tc.codegen.dialect import CUDA
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.front import stage
from tc.pipeline.target import Availability

from ..gpu.compiled import GPU_OPTIONS, Compiled
from ..gpu.lower import Lowered, lower
from ..gpu.run import Interface
from ..gpu.search.candidates import SIMPLEST
from ..gpu.target import PRESETS, believed, of_architecture
from . import bounds, device, nvrtc

_ARCHITECTURE = "sm_90"  # without a device


@dataclass(frozen=True, slots=True)
class Made:
    """What a program became."""

    lowered: Lowered
    module: gpu_source.Module
    machine: nvrtc.Machine
    rejected: tuple[str, ...] = ()  # maps that would have kept registers in memory

    @property
    def notices(self) -> tuple[str, ...]:
        if self.machine.in_memory:
            return (f"{self.machine.in_memory} bytes of a thread's registers are in memory",)
        return tuple(f"a simpler map is taken, {r}" for r in self.rejected)


def _compiled(module: gpu_source.Module, arch: str, contract: bool) -> nvrtc.Machine:
    """Machine code; what launches ask for and what functions keep in memory is part of its resources."""
    machine = nvrtc.compile_text(module.text, arch, contract)
    kernels = {k.name: k for k in module.kernels}
    took = {
        n: replace(r, shared=r.shared + kernels[n].asked, frame=kernels[n].frame)
        for n, r in machine.resources.items()
    }
    return replace(machine, resources=took)


def _without_stack(made: Callable[[int], Made]) -> Made:
    """The first mapping, from the one that is thought best to simpler ones, whose registers hold what they
    should; if there is none, the one with the fewest bytes in memory.  What was rejected is told."""
    rejected: list[str] = []
    best: Made | None = None
    for simpler in range(SIMPLEST + 1):
        one = made(simpler)
        if best is not None and one.module.text == best.module.text:
            continue
        if best is None or one.machine.in_memory < best.machine.in_memory:
            best = one
        if not best.machine.in_memory:
            break
        first = next(x for x in one.lowered.choice.splitlines() if ": blocks " in x)
        rejected.append(f"rejected: {first}, {one.machine.in_memory} bytes of registers in memory")
    assert best is not None
    if best.machine.in_memory:
        return best
    told = "".join(f"{line}\n" for line in rejected)
    lowered = replace(best.lowered, choice=told + best.lowered.choice)
    return replace(best, lowered=lowered, rejected=tuple(rejected))


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
        here = device.find() if device.availability().ok else None
        preset = PRESETS.get(options.preset)
        arch = options.isa or (here.arch if here else preset.arch if preset else _ARCHITECTURE)
        nvrtc.check(arch)
        target = of_architecture(arch, here.name if here and here.arch == arch else "")
        target = believed(target, options, self.name)

        def made(simpler: int) -> Made:
            lowered = lower(program, options, typical or {}, target, simpler)
            with stage("code"):
                module = gpu_source.emit(lowered.nest, CUDA, lowered.contract)
            with stage("machine"):
                return bounded(Made(lowered, module, _compiled(module, arch, lowered.contract)))

        def bounded(one: Made) -> Made:
            """With other launch bounds, where these make other registers and that pays."""
            before = one.machine

            def again(text: str) -> Made:
                other = replace(one.module, text=text)
                return Made(one.lowered, other, _compiled(other, arch, one.lowered.contract))

            if before.in_memory:
                roomy = again(bounds.with_all_registers(one.module.text))
                return roomy if roomy.machine.in_memory < before.in_memory else one
            if options.mapping == "identity":
                return one
            crowded = bounds.crowded_out(
                one.lowered.nest, one.module, before.resources, target, typical or {}
            )
            if not crowded:
                return one
            tight = again(bounds.with_blocks(one.module.text, crowded))
            if tight.machine.in_memory:
                return one
            return tight if seconds(tight) < seconds(one) else one

        def seconds(one: Made) -> float:
            resources = one.machine.resources
            return bounds.seconds(one.lowered.nest, one.module, resources, target, typical or {})

        found = _without_stack(made) if options.tile is None else made(0)
        lowered, module, machine = found.lowered, found.module, found.machine
        kernels = device.Kernels(machine.cubin)
        return Compiled(
            self.name,
            lowered,
            module,
            kernels,
            Interface.of(program, lowered.nest.workspace),
            {"asm": str(machine)},
            machine.resources,
            (*lowered.notices, *found.notices),
        )
