"""The passes of the cpu backend from polyhedra to a loop nest: they choose which statements share loops, tile
these, and rewrite the loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tc.ir import verify
from tc.ir.expr import LE, Add, IntImm, Variable
from tc.ir.loops import Array, If, Stmt
from tc.ir.printer import nest_text
from tc.ir.simplify import simplify
from tc.pipeline import equivalence
from tc.pipeline.pass_manager import changed
from tc.pipeline.polyhedra import legal_fusion
from tc.pipeline.polyhedra import traced as trace
from tc.poly import loop_nest, private_arrays, schedule, tile_plan, tiles, tree_text
from tc.poly.context import isl_context
from tc.poly.fusion import fusion
from tc.poly.fusion.fusion_diagnostics import fusion_diagnostics
from tc.transforms.loops import carried, epilogues, existing_reads, scatters
from tc.transforms.loops import inward as inwards
from tc.transforms.loops import lane_prefixes as prefixes
from tc.transforms.loops import reassociate as reassociation
from tc.transforms.loops import unswitch as unswitching
from tc.transforms.loops.peeled_iterations import peeled
from tc.transforms.loops.skewed_rows import skewed

from . import policy
from .cost.balance import TASK_CYCLES
from .cost.work import instruction_count
from .search import choose as choosing
from .search.choose import predicted
from .search.nontemporal import nontemporal_results
from .search.size_variants import Plan, size_variants
from .state import CpuState
from .target import Machine

_UPDATE = 4.0  # cycles to update a vector or an element at a data-dependent address
# Products get loops of their own where the model predicts at most this share of the cycles of shared loops.
_APART = 0.8


def variants(state: CpuState, plan: Callable[[CpuState], CpuState]) -> CpuState:
    """Choose loops for the typical sizes, and add others for small values of a size where these are faster.
    Where products of matrices share loops with other statements, the model decides whether loops of their own
    are faster."""

    def planned(typical: Mapping[str, int]) -> Plan:
        def cycles(p: Plan) -> float:
            regions = tile_plan.regions(state.program, p.groups, typical)
            synchronization = TASK_CYCLES * len(regions)  # threads start for each, and wait for the last
            return synchronization + predicted(state.polyhedra, regions, p.chosen, state.machine, typical)

        first = plan(changed(state, planned_for=typical)).plan
        if state.options.fusion is not None:
            return first
        fewest = policy.fewest_regions_apart(state.program, first.groups)
        if fewest is None or TASK_CYCLES * fewest >= (most := _APART * cycles(first)):
            return first
        other = plan(changed(state, planned_for=typical, products_apart=True)).plan
        return other if other.groups != first.groups and cycles(other) < most else first

    with isl_context():
        usual = planned(state.typical)
        others = size_variants(state.program, state.polyhedra, state.machine, state.typical, usual, planned)
    return changed(state, plan=usual, variants=others)


def fuse(state: CpuState) -> CpuState:
    """Choose the groups of statements that share loops; build the schedule tree of these, and say why other
    groups stay apart."""
    options, polyhedra = state.options, state.polyhedra
    with isl_context():
        default = policy.fusion_policy(polyhedra, state.machine, state.planned_for)
        if state.products_apart:
            default = policy.products_apart(state.program, default)
        wanted = fusion.policy_of(options.fusion or default)
        groups = fusion.fuse(polyhedra, wanted, state.distances)
        apart = "".join(f"{x}\n" for x in fusion_diagnostics(polyhedra, groups, state.distances, wanted))
        shown = tree_text.dump(schedule.fused(polyhedra, groups))
    return changed(state, groups=tuple(groups), tree=shown, apart=apart)


def legal(before: CpuState, after: CpuState) -> str:
    found = after.dependences  # computed once for all variants
    found[:] = [legal_fusion(after.polyhedra, after.groups, found[0] if found else None)]
    return "isl"


def choose(state: CpuState) -> CpuState:
    at = state.planned_for
    with isl_context():
        regions = tile_plan.regions(state.program, state.groups, at)
        chosen = choosing.choose(
            state.polyhedra, regions, state.machine, state.options, at, state.fewer, state.rankings
        )
    plan = Plan(state.groups, replace(chosen, text=state.apart + chosen.text), state.tree)
    return changed(state, plan=plan)


def scan(state: CpuState) -> CpuState:
    """The loops of tiled boxes, with the arrays that tiling adds."""
    program, polyhedra, usual = state.program, state.polyhedra, state.plan
    with isl_context():
        base = loop_nest.assemble(program, tiles.block(()))
        nontemporal = nontemporal_results(
            polyhedra, usual.chosen.regions, state.machine, state.typical, state.options.nontemporal
        )
        count, most = 0, 0
        arrays: list[Array] = []
        line_aligned: set[str] = set()
        partial_line_results: set[str] = set()

        def scanned(p: Plan, suffix: str) -> Stmt:
            """The loops of a plan.  Only one size variant runs in a call, so all use the same memory."""
            nonlocal count, most
            builder = tiles.Builder(
                polyhedra,
                _chunks(state.machine),
                0,
                base.workspace,
                [],
                count,
                suffix,
                nontemporal,
                line_aligned,
                partial_line_results,
            )
            scanner = tiles.TiledLoops(builder)
            pairs = zip(p.chosen.regions, p.chosen.tilings, strict=True)
            body = tiles.block(scanner.region(r, t) for r, t in pairs)
            arrays.extend(builder.arrays)
            count, most = builder.count, max(most, builder.workspace)
            return body

        body = scanned(usual, "")
        for v in reversed(state.variants):
            body = If(LE(Variable(v.size), IntImm(v.most)), scanned(v.plan, f".{v.most}"), body)
    workspace = simplify(Add(base.workspace, IntImm(most)), exact=True)
    nontemporal, line_aligned = nontemporal - partial_line_results, line_aligned - partial_line_results
    own = (
        replace(a, nontemporal=a.name in nontemporal, line_aligned=a.name in line_aligned)
        for a in base.arrays
    )
    nest = replace(base, body=body, arrays=(*own, *arrays), workspace=workspace)
    return changed(state, nest=nest)


def _chunks(machine: Machine) -> int:
    """The most parts of a parallel loop whose iterations have private memory.

    There are enough parts to even out threads of different speeds.  Each part may need memory of its own, so
    with many cores there are fewer parts for each core.
    """
    return max(4 * machine.cores, min(16 * machine.cores, 64))


def unswitch(state: CpuState) -> CpuState:
    nest = state.nest
    return changed(state, nest=changed(nest, body=unswitching.unswitch(nest.body, nest.sizes)))


def reroll(state: CpuState) -> CpuState:
    lanes = state.machine.isa.lanes(4)
    return changed(state, nest=epilogues.reroll(state.nest, lambda e: instruction_count(e, lanes)))


def lane_prefixes(state: CpuState) -> CpuState:
    return changed(state, nest=changed(state.nest, body=prefixes.lane_prefixes(state.nest.body)))


def reassociate(state: CpuState) -> CpuState:
    if not state.options.fast_math:
        return state
    return changed(state, nest=changed(state.nest, body=reassociation.reassociate(state.nest.body)))


def well_formed(before: CpuState, after: CpuState) -> str:
    if after.nest is before.nest:
        return ""
    return verify.loop_nest(after.nest, launches=False)


def scatter_rows(state: CpuState) -> CpuState:
    if not state.composed:
        return state
    machine = state.machine
    threads = scatters.Threads(machine.cores, int(TASK_CYCLES / _UPDATE))
    return changed(
        state,
        nest=scatters.scatters_along_rows(
            state.nest, machine.isa.lanes, None if state.options.parallel is False else threads
        ),
    )


def peel(state: CpuState) -> CpuState:
    if not state.composed:
        return state
    return changed(state, nest=changed(state.nest, body=peeled(state.nest.body, state.nest.counters)))


def inward(state: CpuState) -> CpuState:
    if not state.composed:
        return state
    ranks = {b.name: len(b.box) for b in state.program.buffers}
    lanes = state.machine.isa.lanes
    moved = inwards.inward(state.nest, ranks, lambda e: instruction_count(e, lanes(4)), lanes)
    return changed(state, nest=moved)


def exist(state: CpuState) -> CpuState:
    return changed(state, nest=existing_reads.marked(state.nest)) if state.composed else state


def existing(before: CpuState, after: CpuState) -> str:
    return existing_reads.check(before.nest, after.nest, dict.fromkeys(after.nest.sizes, 3))


def skew(state: CpuState) -> CpuState:
    if not state.composed:
        return state
    return changed(state, nest=changed(state.nest, body=skewed(state.nest.body)))


def carry(state: CpuState) -> CpuState:
    return changed(state, nest=carried.carry(state.nest)) if state.composed else state


def private(state: CpuState) -> CpuState:
    found = private_arrays.private_arrays(state.nest, state.machine.l1)
    if found is state.nest:
        return state
    return changed(state, nest=found)


def same_loops(before: CpuState, after: CpuState) -> str:
    if after.nest == before.nest:
        return ""
    oracles = (well_formed(before, after), equivalence.same_loops(after.program, before.nest, after.nest))
    return ", ".join(o for o in oracles if o)


def traced(before: CpuState, after: CpuState) -> str:
    return trace(after.program, after.nest, launches=False)


def show_nest(state: CpuState) -> str:
    return nest_text(state.nest)
