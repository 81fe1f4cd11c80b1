"""Program to identity schedule to loops to scalar machine code."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tc.codegen import llvm_ir, llvm_jit
from tc.errors import InternalError
from tc.ir.expr import IntImm
from tc.ir.loops import LoopNest
from tc.ir.program import Program
from tc.poly import ast, nest, schedule, scop, tree
from tc.poly.context import isl_context
from tc.registry import Availability

Stage = Literal["schedule", "loops", "code", "llvm", "asm"]


@dataclass(frozen=True, slots=True)
class Options:
    """The reference backend has nothing to turn."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel `int32_t (void *const *args)`, valid while this object lives.

    `workspace` is in bytes; `release_gil` says whether the work is worth it.
    """

    address: int
    workspace: int
    release_gil: bool
    nest: LoopNest
    schedule: str
    _code: llvm_jit.MachineCode

    def artifact(self, stage: Stage) -> str:
        """A stage of the compilation as text."""
        makers: Mapping[str, Callable[[], str]] = {
            "schedule": lambda: self.schedule,
            "llvm": lambda: self._code.text,
            "asm": self._code.assembly,
        }
        if stage not in makers:
            raise InternalError(f"the reference backend keeps no stage '{stage}'")
        return makers[stage]()


class Backend:
    name = "reference"

    def available(self) -> Availability:
        return Availability(True)

    def default_options(self, program: Program, target: Any) -> Options:
        return Options()

    def compile(self, program: Program, options: Options | None = None) -> Compiled:
        """The kernel of a specialised program."""
        if program.sizes:
            raise InternalError(f"not specialised: {', '.join(program.sizes)}")
        verify = os.environ.get("TC_VERIFY") == "1"
        with isl_context():
            polyhedra = scop.build(program)
            plan = schedule.identity(polyhedra)
            body = ast.loops(polyhedra, plan)
            shown = tree.dump(plan)
        loops = nest.assemble(program, body)
        if not isinstance(loops.workspace, IntImm):
            raise InternalError("the workspace of a specialised program is not a constant")
        text = llvm_ir.emit(loops)
        code = llvm_jit.compile_text(text, llvm_ir.KERNEL, verify=verify)
        return Compiled(code.address, loops.workspace.value, True, loops, shown, code)
