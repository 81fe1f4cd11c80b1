"""The identity schedule of a program: statements and loops in the order of the source."""

from __future__ import annotations

from tc.ir.loops import Stmt
from tc.ir.program import Program
from tc.pipeline.front import stage
from tc.poly import ast, legality, schedule, scop, tree_text
from tc.poly.context import isl_context
from tc.poly.dependences import dependences
from tc.support import settings


def identity(program: Program) -> tuple[Stmt, str]:
    """The loops of a program, and their schedule tree as text."""
    with isl_context():
        with stage("scop"):
            polyhedra = scop.build(program)
        with stage("schedule"):
            plan = schedule.identity(polyhedra)
            shown = tree_text.dump(plan)
        if settings.verify():
            with stage("dependences"):
                legality.verify(polyhedra, plan, dependences(polyhedra), "the identity schedule")
        with stage("ast"):
            return ast.loops(polyhedra, plan), shown
