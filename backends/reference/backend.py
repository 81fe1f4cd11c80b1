"""Program to identity schedule to loops to scalar machine code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tc.codegen import c_family, llvm_ir, llvm_jit
from tc.errors import BackendError, InternalError
from tc.ir.expr import Expr, IntImm
from tc.ir.loops import LoopNest
from tc.ir.printer import nest_text
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.front import stage
from tc.pipeline.target import Availability
from tc.poly import loop_nest, trace
from tc.support import settings

from .identity import identity

Artifact = Literal["schedule", "choice", "loops", "code", "llvm", "asm"]

# Statement instances that take about 5 us, from where on other threads should run meanwhile.
_WORTH_RELEASING = 5000
# The trace oracle runs the nest in Python.
_TRACED_INSTANCES = 2000


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

    def artifact(self, stage: Artifact) -> str:
        """A stage of the compilation as text: the schedule tree, the loop nest, C, LLVM IR, assembly."""
        match stage:
            case "schedule":
                return self.schedule
            case "choice":
                return f"{self.nest.name}: no choice, statements and loops run in the order of the source\n"
            case "loops":
                return nest_text(self.nest)
            case "code":
                return c_family.emit(self.nest)
            case "llvm":
                return self._code.text
            case "asm":
                return self._code.assembly()
            case _:
                raise BackendError(
                    f"the reference backend has no stage '{stage}'",
                    code="TC0804",
                    help="it has schedule, choice, loops, code, llvm and asm",
                )


class Backend:
    """Identity mapping, one thread, no transformation, no fast math."""

    name = "reference"
    options_used: frozenset[str] = frozenset({"strict"})
    dynamic_sizes = True

    def available(self) -> Availability:
        return Availability(True)

    def default_options(self, program: Program, target: Any) -> Options:
        return Options()

    def compile(
        self, program: Program, options: Options | None = None, typical: Mapping[str, int] | None = None
    ) -> Compiled:
        """The kernel of a program whose symbolic sizes are dynamic: the code is the same for all `typical`
        values of them.  There is no option to turn (`strict` is lowering's)."""
        if set(program.sizes) != set(typical or ()):
            raise InternalError(f"{program.name} is not specialised: {', '.join(program.sizes)}")
        verify = settings.verify()
        body, shown = identity(program)
        loops = loop_nest.assemble(program, body)
        if verify:
            trace.verify_small(program, loops, _TRACED_INSTANCES)
        workspace = loops.workspace.value if isinstance(loops.workspace, IntImm) else loops.workspace
        with stage("code"):
            text = llvm_ir.emit(loops)
        with stage("machine"):
            code = llvm_jit.compile_text(text, llvm_ir.KERNEL, verify=verify)
        worth = bool(program.sizes) or program.instances >= _WORTH_RELEASING
        return Compiled(code.address, workspace, worth, loops, shown, code)
