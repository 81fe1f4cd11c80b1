"""The cuda backend: compiles wherever NVRTC is installed; calls need a device and a driver (`passes.py`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tc.cache import disk
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.pass_manager import PassList
from tc.pipeline.target import Availability, Exported

from ..gpu import tuning
from ..gpu.compiled import GPU_OPTIONS, Compiled
from ..gpu.interface import Interface
from ..gpu.passes import start
from ..gpu.stored import Restored, facts_of
from ..gpu.target import PRESETS, Target, of_architecture, with_overrides
from . import device, nvrtc, runtime
from .passes import CudaState, passes

_ARCHITECTURE = "sm_90"  # without a device


class Backend:
    """Compiles wherever NVRTC is installed; calls need a device and its driver."""

    name = "cuda"
    options_used: frozenset[str] = GPU_OPTIONS | {"isa"}
    dynamic_sizes = True
    cost_unit = "seconds"
    devices = device.CudaDevices()

    def available(self) -> Availability:
        compiler = nvrtc.availability()
        if not compiler.ok:
            return compiler
        found = device.availability()
        return Availability(found.ok, found.reason, found.remedy, compiles=True)

    def passes(self, options: Options) -> PassList[Any]:
        return passes(options)

    def compile(
        self, program: Program, options: Options | None = None, typical: Mapping[str, int] | None = None
    ) -> Compiled:
        """The kernels of a program; `typical` are values of its symbolic sizes, which are dynamic.

        They are compiled for the architecture of the option `isa`, else for that of the device, else for
        sm_90.

        Raises BackendError, code TC0811, for an architecture that NVRTC does not know.
        """
        options = options or Options()
        arch, target = self._target(options)
        first = CudaState(**start(program, options, typical or {}, target), arch=arch)
        made = passes(options).run(first)
        lowered, machine = made.lowered, made.machine
        return Compiled(
            self.name,
            lowered,
            made.module,
            device.Kernels(machine.cubin),
            Interface.of(program, lowered.nest.workspace),
            {"asm": str(machine)},
            machine.resources,
            (*lowered.notices, *made.machine_notices),
        )

    def version_key(self) -> str:
        """Everything besides the program and the options that the code depends on."""
        found = device.find() if device.availability().ok else None
        here = Path(__file__).parent
        return disk.digest(
            nvrtc.version(),
            (found.arch, found.name) if found else _ARCHITECTURE,
            disk.sources(here),
            disk.sources(here.parent / "gpu"),
        )

    def from_blob(self, program: Program, blob: bytes) -> Restored:
        """The kernels that `Compiled.to_blob` packed."""
        facts, code = disk.unpack(blob)
        return runtime.restored(program.name, facts, code)

    def export(
        self,
        program: Program,
        options: Options,
        typical: Mapping[str, int],
        targets: Sequence[str],
        symbol: str,
    ) -> tuple[Exported, ...]:
        """Cubins for architectures, and PTX for those after the newest; see
        `tc.pipeline.target.Exporting`."""
        names = tuple(dict.fromkeys(targets)) or (self._target(options)[0],)
        for name in names:
            nvrtc.check(name)
        out: list[Exported] = []
        newest: tuple[int, str, Compiled] | None = None
        for name in names:
            made = self.compile(program, replace(options, isa=name), typical)
            facts = facts_of(made.interface, made.module.kernels, made.notices)
            assert isinstance(made.functions, device.Kernels)
            out.append(Exported("module", name, facts, made.functions.cubin))
            number = re.sub(r"\D", "", name)
            if newest is None or int(number) > newest[0]:
                newest = int(number), f"compute_{number}", made
        assert newest is not None
        _, virtual, made = newest
        ptx = nvrtc.ptx_of(made.module.text, virtual, options.mapping != "identity")
        facts = facts_of(made.interface, made.module.kernels, made.notices)
        return (*out, Exported("module", virtual, facts, ptx))

    def _target(self, options: Options) -> tuple[str, Target]:
        """The architecture to compile for, and what is known of it."""
        found = device.find() if device.availability().ok else None
        preset = PRESETS.get(options.preset)
        arch = options.isa or (found.arch if found else preset.arch if preset else _ARCHITECTURE)
        nvrtc.check(arch)
        target = of_architecture(arch, found.name if found and found.arch == arch else "")
        return arch, with_overrides(target, options, self.name)

    def candidates(self, program: Program, count: int, options: Options) -> tuple[tuple[Options, float], ...]:
        """None: the model ranks mappings that no options name."""
        return ()

    def loops(self, program: Program, options: Options) -> tuple[int, ...]:
        """The extents of the loops that the option `tile` is about."""
        return tuning.loops(program)

    def predict(self, program: Program, options: Options) -> float | None:
        """Seconds by the model; None for a program with sequential loops."""
        return tuning.predict(program, options, self._target(options)[1])

    def limits(self, options: Options) -> Mapping[str, Any]:
        """The limits of the device, by name."""
        found = device.find() if device.availability().ok else None
        return tuning.limits(self._target(options)[1], found.name if found else "")
