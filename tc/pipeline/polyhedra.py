"""The passes and oracles that all polyhedral backends share, from the extraction of polyhedra on.

A backend's state inherits `PolyhedralState`; its list contains `scop_pass`, and its passes use the oracles
`legal_fusion` and `traced`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tc.errors import InternalError
from tc.ir import verify
from tc.ir.loops import LoopKind, LoopNest
from tc.ir.program import Program
from tc.pipeline.pass_manager import Pass, changed, later
from tc.poly import legality, schedule, scop, trace
from tc.poly.context import isl_context
from tc.poly.dependences import Dependences, dependences
from tc.poly.fusion.fusion import Group
from tc.poly.scop import Scop

# The trace oracle runs the nest in Python: at most so many instances of statements.
TRACED_INSTANCES = 2000


@dataclass(frozen=True, kw_only=True)
class PolyhedralState:
    """A program and, once `scop` has run, its iteration domains and access relations."""

    program: Program
    polyhedra: Scop = later()


P = TypeVar("P", bound=PolyhedralState)


def require_specialized(program: Program, typical: Mapping[str, int]) -> None:
    """Raises InternalError unless the program's symbolic sizes are those with a typical value."""
    if set(program.sizes) != set(typical):
        raise InternalError(f"{program.name} is not specialised: {', '.join(program.sizes)}")


def _scop(state: P) -> P:
    with isl_context():
        return changed(state, polyhedra=scop.build(state.program))


def show(state: PolyhedralState) -> str:
    """Domains and access relations, as passes over polyhedra show them."""
    return state.polyhedra.dump()


def scop_pass(kind: type[P]) -> Pass[P]:
    """The extraction of polyhedra, on a backend's own kind of state."""
    return Pass("scop", "compute iteration domains and access relations", "tc/poly/scop.py", _scop, show)


def legal_fusion(
    polyhedra: Scop, groups: Sequence[Group | str], known: Dependences | None = None
) -> Dependences:
    """The oracle of fusion: the schedule of these groups keeps every dependence (isl computes them unless
    they are `known`).  Returns the dependences; raises InternalError where one is violated."""
    with isl_context():
        needed = known or dependences(polyhedra)
        legality.verify(polyhedra, schedule.fused(polyhedra, groups), needed, "loop fusion")
    return needed


def traced(
    program: Program, nest: LoopNest, kinds: Collection[LoopKind] = verify.ALL_KINDS, *, launches: bool = True
) -> str:
    """The oracles of a loop nest: its form, with loops of these kinds only, and its trace at small sizes."""
    form = verify.loop_nest(nest, kinds, launches=launches)
    trace.verify_small(program, nest, TRACED_INSTANCES)
    return f"{form}, trace"
