"""The tuner's interface to the cpu backend: candidates, loops, predictions and limits."""

from __future__ import annotations

from typing import Any

from tc.ir.program import Program
from tc.options import Options
from tc.poly import tile_plan
from tc.poly.context import isl_context
from tc.poly.fusion import fusion
from tc.poly.tile_plan import Nest, Region
from tc.transforms.program.prefix_loops import into_loops

from . import policy
from .passes import prepared
from .search.choose import best_options, choose
from .state import CpuState
from .target import Machine


def candidates(
    program: Program, count: int, options: Options, machine: Machine
) -> tuple[tuple[Options, float], ...]:
    """The best tilings of the nest that costs most, by the model, as these options with others, and predicted
    cycles."""
    if _has_loops(program, options, machine):
        return ()
    state, regions = _regions(program, options, machine)
    with isl_context():
        return best_options(state.polyhedra, regions, machine, count, options)


def loops(program: Program, options: Options, machine: Machine) -> tuple[int, ...]:
    """The extents of the loops of the nest with most points, which the option `tile` is about."""
    if _has_loops(program, options, machine):
        return ()
    _, regions = _regions(program, options, machine)
    nests = [n for r in regions for n in r.nests]
    best = max(nests, key=_points, default=None)
    return tuple(a.typical_extent for a in best.axes) if best is not None else ()


def predict(program: Program, options: Options, machine: Machine) -> float | None:
    """Predicted cycles of all nests; None for a program with sequential loops."""
    if _has_loops(program, options, machine):
        return None
    state, regions = _regions(program, options, machine)
    with isl_context():
        made = choose(state.polyhedra, regions, machine, options)
    total = 0.0
    for r in made.regions:
        for n in r.nests:
            total += next((made.cycles[s] for s in n.statements if s in made.cycles), 0.0)
    return total


def limits(machine: Machine) -> dict[str, Any]:
    """The facts that a choice of options depends on."""
    return {
        "isa": machine.isa.name,
        "cores": machine.cores,
        "l1": machine.l1,
        "l2": machine.l2,
        "l3": machine.l3,
        "vector_bytes": machine.isa.vector_bytes,
    }


def _has_loops(program: Program, options: Options, machine: Machine) -> bool:
    """Whether a program has sequential loops or scatters, or is compiled with such."""
    rows = policy.program_policy(machine, options).prefix_rows
    return program.composite or (rows is not None and bool(into_loops(program, rows).names))


def _regions(program: Program, options: Options, machine: Machine) -> tuple[CpuState, tuple[Region, ...]]:
    state = prepared(program, machine, options, {})
    with isl_context():
        wanted = fusion.policy_of(options.fusion or policy.fusion_policy(state.polyhedra, machine))
        return state, tuple(tile_plan.regions(state.program, fusion.fuse(state.polyhedra, wanted)))


def _points(n: Nest) -> int:
    inner = [a for p in n.phases for a in p.axes]
    total = 1
    for a in (*n.axes, *inner):
        total *= a.typical_extent
    return total
