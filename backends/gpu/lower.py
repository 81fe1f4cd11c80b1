"""Specialised programs to launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tc import settings
from tc.errors import InternalError
from tc.ir.loops import Launch, LoopNest
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline import stage
from tc.poly import ast, legality, nest, schedule, scop, trace, tree
from tc.poly.context import isl_context
from tc.poly.dependences import dependences

# The trace oracle runs the nest in Python.
_TRACED_INSTANCES = 2000


@dataclass(frozen=True, slots=True)
class Lowered:
    """`nest` has launches; `schedule` and `choice` are the stages of these names.  `contract`: whether a
    product and a sum may be rounded once."""

    nest: LoopNest
    schedule: str
    choice: str
    contract: bool = False


def lower(program: Program, options: Options, typical: Mapping[str, int]) -> Lowered:
    """The launches of a program, whose symbolic sizes are those of `typical`."""
    if set(program.sizes) != set(typical):
        raise InternalError(f"{program.name} is not specialised: {', '.join(program.sizes)}")
    return identity(program)


def identity(program: Program) -> Lowered:
    """One launch of one thread that runs statements and loops in the order of the source."""
    verify = settings.verify()
    with isl_context():
        with stage("scop"):
            polyhedra = scop.build(program)
        with stage("schedule"):
            plan = schedule.identity(polyhedra)
            shown = tree.dump(plan)
        if verify:
            with stage("dependences"):
                legality.verify(polyhedra, plan, dependences(polyhedra), "the identity schedule")
        with stage("ast"):
            body = ast.loops(polyhedra, plan)
    loops = nest.assemble(program, Launch(program.name, (), (), body))
    if verify:
        trace.verify_small(program, loops, _TRACED_INSTANCES)
    return Lowered(
        loops, shown, f"{program.name}: no choice, one thread runs it in the order of the source\n"
    )
