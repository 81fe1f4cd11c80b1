"""The loop nest of a program's identity schedule, by isl's AST generation: no transformation at all."""

from __future__ import annotations

from tc.ir.loops import LoopNest
from tc.ir.program import Program
from tc.poly import ast, composition, loop_nest, schedule, scop
from tc.poly.context import isl_context
from tc.transforms.program import segments


def identity_nest(program: Program) -> LoopNest:
    """Statements in the order of the program, each with its loops in the order of its domain."""
    if program.composite:
        found = segments.parts(program)
        nest = composition.composed(
            program, found, lambda p: composition.Compiled(_straight(p.program), p.program)
        )
        return nest
    return _straight(program)


def _straight(program: Program) -> LoopNest:
    """The nest of a program without sequential loops, which may have scatters."""
    with isl_context():
        polyhedra = scop.build(program)
        return loop_nest.assemble(program, ast.loops(polyhedra, schedule.identity(polyhedra)))
