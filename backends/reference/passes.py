"""The passes of the reference backend: the identity schedule, scalar code, no transformation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tc.codegen import c_family, llvm_ir, llvm_jit
from tc.ir import verify
from tc.ir.loops import LoopKind, LoopNest, Stmt
from tc.ir.printer import nest_text
from tc.ir.program import Program
from tc.pipeline.pass_manager import Pass, PassList, Search, changed, later
from tc.pipeline.polyhedra import PolyhedralState, require_specialized, scop_pass, traced
from tc.poly import ast, composition, legality, loop_nest, schedule, tree_text
from tc.poly.context import isl_context
from tc.poly.dependences import dependences
from tc.support import settings
from tc.transforms.program import segments


@dataclass(frozen=True, kw_only=True)
class IdentityState(PolyhedralState):
    """A program with its identity schedule: `tree` is the schedule tree as text, `body` its loops."""

    tree: str = ""
    body: Stmt = later()
    nest: LoopNest = later()


@dataclass(frozen=True, kw_only=True)
class ReferenceState(IdentityState):
    """The same, and the code of its loops."""

    text: str = ""
    code: llvm_jit.MachineCode = later()


I = TypeVar("I", bound=IdentityState)  # noqa: E741


def _schedule(state: I) -> I:
    with isl_context():
        return changed(state, tree=tree_text.dump(schedule.identity(state.polyhedra)))


def _legal(before: IdentityState, after: IdentityState) -> str:
    polyhedra = after.polyhedra
    with isl_context():
        tree = schedule.identity(polyhedra)
        legality.verify(polyhedra, tree, dependences(polyhedra), "the identity schedule")
    return "isl"


def _ast(state: I) -> I:
    with isl_context():
        return changed(state, body=ast.loops(state.polyhedra, schedule.identity(state.polyhedra)))


def identity_passes(kind: type[I]) -> tuple[Pass[I], ...]:
    """From a program to the loops of its identity schedule."""
    return (
        scop_pass(kind),
        Pass(
            "schedule",
            "build the schedule tree: statements and loops in source order",
            "tc/poly/schedule.py",
            _schedule,
            lambda s: s.tree,
            _legal,
        ),
        Pass("ast", "generate loops from the schedule tree, by isl", "tc/poly/ast.py", _ast),
    )


def _assemble(state: ReferenceState) -> ReferenceState:
    return changed(state, nest=loop_nest.assemble(state.program, state.body))


def _code(state: ReferenceState) -> ReferenceState:
    return changed(state, text=llvm_ir.emit(state.nest))


def _machine(state: ReferenceState) -> ReferenceState:
    return changed(state, code=llvm_jit.compile_text(state.text, llvm_ir.KERNEL, verify=settings.verify()))


def _traced(_: ReferenceState, after: ReferenceState) -> str:
    if after.program.composite:  # the trace knows no scatter
        return verify.loop_nest(after.nest, [LoopKind.SERIAL], launches=False)
    return traced(after.program, after.nest, [LoopKind.SERIAL], launches=False)


def _segments(state: ReferenceState, make: Callable[[ReferenceState], ReferenceState]) -> ReferenceState:
    """The nest of a program's straight-line parts, in its sequential loops."""
    if not state.program.composite:
        return make(state)
    trees: list[str] = []

    def compiled_segment(part: segments.Segment) -> composition.Compiled:
        made = make(changed(state, program=part.program))
        trees.append(made.tree)
        return composition.Compiled(made.nest, part.program)

    nest = composition.composed(state.program, segments.parts(state.program), compiled_segment)
    return changed(state, nest=nest, tree="".join(trees))


PASSES = PassList[ReferenceState](
    "reference",
    (
        Search(
            "segments",
            "compile each straight-line part of a program, and put sequential loops around them",
            "tc/poly/composition.py",
            (
                *identity_passes(ReferenceState),
                Pass(
                    "assemble",
                    "put loops and storage together: the loop nest",
                    "tc/poly/loop_nest.py",
                    _assemble,
                    lambda s: nest_text(s.nest),
                    _traced,
                ),
            ),
            _segments,
        ),
        Pass(
            "code",
            "emit scalar LLVM IR",
            "tc/codegen/llvm_ir.py",
            _code,
            lambda s: c_family.emit(s.nest),
        ),
        Pass(
            "machine",
            "compile LLVM IR to machine code",
            "tc/codegen/llvm_jit.py",
            _machine,
            lambda s: s.code.assembly(),
        ),
    ),
)


def compiled(program: Program, typical: Mapping[str, int]) -> ReferenceState:
    """A program after all passes; its symbolic sizes must be those of `typical`."""
    require_specialized(program, typical)
    return PASSES.run(ReferenceState(program=program))
