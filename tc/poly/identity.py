"""A program as it stands: the loop nest of its identity schedule, through isl's AST generation."""

from __future__ import annotations

from tc.ir.loops import LoopNest
from tc.ir.program import Program
from tc.poly import ast, loop_nest, schedule, scop
from tc.poly.context import isl_context


def identity_nest(program: Program) -> LoopNest:
    """Statements in the order of the program, each with its loops in the order of its domain."""
    with isl_context():
        polyhedra = scop.build(program)
        return loop_nest.assemble(program, ast.loops(polyhedra, schedule.identity(polyhedra)))
