"""The cpu backend: programs to fused and tiled loops to vector code (`passes.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tc.cache import disk
from tc.codegen import llvm_jit
from tc.errors import Span
from tc.ir.expr import Expr, IntImm
from tc.ir.expr_json import from_json, to_json
from tc.ir.lines import Lines, joined, split
from tc.ir.loops import LoopNest
from tc.ir.printer import nest_lines, nest_text
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.pass_manager import PassList
from tc.pipeline.target import Availability, Exported, stage_text
from tc.support import settings
from tc.support.machine_overrides import describe

from . import tuning
from .emit.kernel import KERNEL, emit
from .export import export
from .passes import PASSES, compiled
from .target import Machine, host, with_isa, with_overrides, without_preset


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel `int32_t (void *const *args)`, valid while this object lives; `workspace` is in bytes, with
    dynamic sizes an expression over them."""

    address: int
    workspace: int | Expr
    release_gil: bool
    nest: LoopNest
    schedule: str
    choice: str  # traced
    notices: tuple[str, ...]
    notes: tuple[str, ...]
    _code: llvm_jit.MachineCode = field(repr=False)
    _emit: Callable[[], str] = field(repr=False)  # the code again, with traces

    @property
    def object_code(self) -> tuple[bytes, str]:
        """See `tc.pipeline.target.Relocatable`."""
        return self._code.object, KERNEL

    def to_blob(self) -> bytes:
        """The data with which `Backend.from_blob` runs the kernel in another process: the object code and the
        sizes it needs."""
        facts = {
            "workspace": self.workspace if isinstance(self.workspace, int) else to_json(self.workspace),
            "release_gil": self.release_gil,
            "notices": self.notices,
            "notes": self.notes,
        }
        return disk.pack(facts, self._code.object)

    def artifact(self, stage: str) -> str:
        """A stage of the compilation as text."""
        texts = {
            "schedule": self.schedule,
            "choice": lambda: joined(split(self.choice)),
            "loops": lambda: nest_text(self.nest),
            "code": self._code.text,
            "llvm": self._code.text,
            "asm": self._code.assembly,
        }
        return stage_text("cpu", stage, texts)

    @property
    def origins(self) -> Mapping[str, Span]:
        """The places of the program's stages in its source."""
        return self.nest.origins

    def lines(self, stage: str) -> Lines:
        """A stage in lines that name their stages; see `tc.pipeline.target.Traced`."""
        if stage == "loops":
            return nest_lines(self.nest)
        if stage == "choice":
            return split(self.choice)
        return split(self._emit() if stage == "code" else self.artifact(stage))


@dataclass(frozen=True, slots=True)
class Restored:
    """A kernel from disk: it runs, and has no stages to show."""

    address: int
    workspace: int | Expr
    release_gil: bool
    notices: tuple[str, ...]
    notes: tuple[str, ...]
    _code: llvm_jit.MachineCode = field(repr=False)

    @property
    def object_code(self) -> tuple[bytes, str]:
        """See `tc.pipeline.target.Relocatable`."""
        return self._code.object, KERNEL


class Backend:
    """Polyhedral, SIMD, threads."""

    name = "cpu"
    dynamic_sizes = True
    cost_unit = "cycles"
    options_used: frozenset[str] = frozenset(
        [
            "strict",
            "fast_math",
            "fusion",
            "isa",
            "tile",
            "register_tile",
            "vector",
            "unroll",
            "pack",
            "order",
            "parallel",
            "prefetch",
            "nontemporal",
            "machine",
        ]
    )

    def available(self) -> Availability:
        return Availability(True)

    def passes(self, options: Options) -> PassList[Any]:
        return PASSES

    def version_key(self) -> str:
        """Everything besides the program that the code depends on."""
        return disk.digest(repr(host()), llvm_jit.version(), disk.sources(Path(__file__).parent))

    def from_blob(self, program: Program, blob: bytes) -> Restored:
        """The kernel that `Compiled.to_blob` packed."""
        settings.check_threads()
        facts, code = disk.unpack(blob)
        machine = llvm_jit.load_object(code, KERNEL)
        found = from_json(facts["workspace"])
        workspace = found.value if isinstance(found, IntImm) else found
        notices, notes = (tuple(map(str, facts[name])) for name in ("notices", "notes"))
        return Restored(machine.address, workspace, bool(facts["release_gil"]), notices, notes, machine)

    def export(
        self,
        program: Program,
        options: Options,
        typical: Mapping[str, int],
        targets: Sequence[str],
        symbol: str,
    ) -> tuple[Exported, ...]:
        """Object files for instruction sets; see `tc.pipeline.target.Exporting`."""
        return export(program, options, typical, targets, symbol)

    def candidates(self, program: Program, count: int, options: Options) -> tuple[tuple[Options, float], ...]:
        """The best tilings of the nest that costs most, by the model, as these options with others, and
        predicted cycles."""
        return tuning.candidates(program, count, options, machine_of(options))

    def loops(self, program: Program, options: Options) -> tuple[int, ...]:
        """The extents of the loops that the option `tile` is about."""
        return tuning.loops(program, options, machine_of(options))

    def predict(self, program: Program, options: Options) -> float | None:
        """Cycles by the model; None for a program with sequential loops."""
        return tuning.predict(program, options, machine_of(options))

    def limits(self, options: Options) -> Mapping[str, Any]:
        """The limits of the machine, by name."""
        return tuning.limits(machine_of(options))

    def compile(
        self, program: Program, options: Options | None = None, typical: Mapping[str, int] | None = None
    ) -> Compiled:
        """The kernel of a program; `typical` are values of the sizes that it leaves symbolic, which the
        kernel serves all values of and is made fastest for these."""
        settings.check_threads()
        options = options or Options()
        made = compiled(program, machine_of(options), options, typical or {})
        lowered, workspace, machine = made.lowered, made.nest.workspace, made.machine
        emitted = {"fast_math": options.fast_math, "fused_products": bool(machine.fused_products)}
        return Compiled(
            made.code.address,
            workspace.value if isinstance(workspace, IntImm) else workspace,
            lowered.worth_releasing(program),
            lowered.nest,
            lowered.schedule,
            f"{lowered.explained}machine: {describe(machine)}\n",
            lowered.notices,
            lowered.notes,
            made.code,
            partial(emit, lowered.nest, machine.isa, **emitted, traces=True),
        )


def machine_of(options: Options) -> Machine:
    """The machine that options describe: by default this one."""
    machine = host() if options.isa is None else with_isa(options.isa)
    without_preset(options)
    return with_overrides(machine, options.facts)
