"""Program to identity schedule to loops to scalar machine code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tc.codegen import c_family, llvm_jit
from tc.errors import Span
from tc.ir.expr import Expr, IntImm
from tc.ir.lines import Lines, split
from tc.ir.loops import LoopNest
from tc.ir.printer import nest_lines, nest_text
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.pass_manager import PassList
from tc.pipeline.target import Availability, stage_text

from .passes import PASSES, compiled

# Statement instances that take about 5 us, from where on other threads should run meanwhile.
_WORTH_RELEASING = 5000


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel `int32_t (void *const *args)` (see tc.codegen.llvm_ir), valid while this object lives.

    `workspace` is in bytes, with dynamic sizes an expression over them; `release_gil` says whether the work
    is worth it.
    """

    address: int
    workspace: int | Expr
    release_gil: bool
    nest: LoopNest
    schedule: str
    _code: llvm_jit.MachineCode = field(repr=False)
    notices: tuple[str, ...] = ()

    def artifact(self, stage: str) -> str:
        """A stage of the compilation as text: the schedule tree, the loop nest, C, LLVM IR, assembly."""
        choice = f"{self.nest.name}: no choice, statements and loops run in the order of the source\n"
        texts = {
            "schedule": self.schedule,
            "choice": choice,
            "loops": lambda: nest_text(self.nest),
            "code": lambda: c_family.emit(self.nest),
            "llvm": self._code.text,
            "asm": self._code.assembly,
        }
        return stage_text("reference", stage, texts)

    @property
    def origins(self) -> Mapping[str, Span]:
        """The places of the program's stages in its source."""
        return self.nest.origins

    def lines(self, stage: str) -> Lines:
        """A stage with what its lines are of; see `tc.pipeline.target.Traced`."""
        if stage == "loops":
            return nest_lines(self.nest)
        return split(c_family.emit(self.nest, traces=True) if stage == "code" else self.artifact(stage))


class Backend:
    """Identity mapping, one thread, no transformation, no fast math."""

    name = "reference"
    options_used: frozenset[str] = frozenset({"strict"})
    dynamic_sizes = True

    def available(self) -> Availability:
        return Availability(True)

    def passes(self, options: Options) -> PassList[Any]:
        return PASSES

    def compile(
        self, program: Program, options: Options | None = None, typical: Mapping[str, int] | None = None
    ) -> Compiled:
        """The kernel of a program whose symbolic sizes are dynamic: the code is the same for all `typical`
        values of them.  There is no option to turn (`strict` is lowering's)."""
        made = compiled(program, typical or {})
        workspace = made.nest.workspace
        return Compiled(
            made.code.address,
            workspace.value if isinstance(workspace, IntImm) else workspace,
            bool(program.sizes) or program.instances >= _WORTH_RELEASING,
            made.nest,
            made.tree,
            made.code,
        )
