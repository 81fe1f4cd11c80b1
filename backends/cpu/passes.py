"""The passes of the cpu backend: from a program to vector code, recompiled with fewer vectors where it
spills.

`PASSES` is what runs.  A state holds what a program has become so far; a pass replaces some of its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tc.codegen import llvm_jit
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.pass_manager import Pass, PassList, Search, changed
from tc.pipeline.polyhedra import require_specialized, scop_pass
from tc.pipeline.polyhedra import show as show_polyhedra
from tc.pipeline.program import passes_over_loops, program_passes, same_program
from tc.pipeline.program import show as show_program
from tc.poly import composition, inside, loop_nest
from tc.poly.context import isl_context
from tc.poly.exponents import nonpositive_exponents
from tc.poly.fractions import divided_fractions
from tc.poly.fusion.distances import Distances
from tc.support import settings
from tc.transforms.program import segments
from tc.transforms.program.row_segments import goes_along_rows

from ..reference.passes import IdentityState, identity_passes
from . import loop_passes, policy
from .emit import spills
from .emit.interleave import INTERLEAVED_COPIES
from .emit.kernel import KERNEL, emit
from .search.choose import Rankings
from .state import CpuState, LoweredKernel
from .target import Machine

# Candidates with fewer vectors that are compiled where a loop spills.
_TRIES = 2


# ---- programs


def _split(state: CpuState) -> CpuState:
    if state.options.parallel is False or not state.splits:
        return state
    return changed(state, program=policy.split(state.program, state.machine, state.typical))


# ---- polyhedra


def _exponents(state: CpuState) -> CpuState:
    with isl_context():
        return changed(state, polyhedra=nonpositive_exponents(state.polyhedra))


def _fractions(state: CpuState) -> CpuState:
    with isl_context():
        return changed(state, polyhedra=divided_fractions(state.polyhedra))


def _inside(state: CpuState) -> CpuState:
    return changed(state, polyhedra=inside.marked(state.polyhedra))


# ---- code


def _code(state: CpuState) -> CpuState:
    machine, options = state.machine, state.options
    fused_products = bool(machine.fused_products)
    text = emit(state.nest, machine.isa, fast_math=options.fast_math, fused_products=fused_products)
    return changed(state, text=text)


def _object(state: CpuState) -> CpuState:
    return state if state.draft else changed(state, object=object_of(state.text, state.machine))


def object_of(text: str, machine: Machine) -> bytes:
    """The object file of LLVM's text, for the machine's instruction set."""
    isa = machine.isa
    return llvm_jit.object_of(text, cpu=isa.cpu, features=isa.features, verify=settings.verify())


def _link(state: CpuState) -> CpuState:
    isa = state.machine.isa
    code = llvm_jit.load_object(state.object, KERNEL, text=state.text, cpu=isa.cpu, features=isa.features)
    return changed(state, code=code)


OBJECT = Pass[CpuState]("object", "compile LLVM IR to an object file", "tc/codegen/llvm_jit.py", _object)


def _spill(state: CpuState, make: Callable[[CpuState], CpuState]) -> CpuState:
    """The kernel of the best candidate; where the main loop of a nest spills, that of the first of its next
    candidates with fewer vectors for which that pays."""
    first = make(state)
    if state.options.register_tile is not None:
        return first
    isa = state.machine.isa

    def main_loops(m: LoweredKernel) -> tuple[spills.Loop, ...]:
        text = llvm_jit.assembly_of(m.text, cpu=isa.cpu, features=isa.features, verbose=True)
        return spills.main_loops(text, frozenset(s for s, n in m.vectors.items() if n > INTERLEAVED_COPIES))

    best = first.lowered
    most = max(best.vectors.values(), default=0)
    # Fewer vectors than these wait for each other, whatever they spill.
    if most <= INTERLEAVED_COPIES or not spills.may_spill(first.object, isa, most, best.functions):
        return first
    loop = spills.worst(main_loops(best))
    if loop is None:
        return first
    tried = best
    for _ in range(_TRIES):
        fewer = {s: tried.vectors[s] for s in loop.statements}
        following = make(changed(state, fewer=fewer, draft=True))
        tried = following.lowered
        if any(tried.vectors[s] >= fewer[s] for s in loop.statements):
            break
        found = next((x for x in main_loops(tried) if x.statements == loop.statements), None)
        if found is None:
            break
        dearer = max(tried.cycles[s] / max(best.cycles[s], 1.0) for s in loop.statements)
        if spills.pays(loop, found, dearer, state.machine):
            better = f"which spills {found.spill_share}"
            took = f"{loop.summary}; took the next candidate with fewer vectors, {better}\n"
            return PASSES.run_pass(OBJECT, replace(following, draft=False, spills=took))
        if not spills.spills_much(found):
            break
    return replace(first, spills=f"{loop.summary}; no candidate with fewer vectors is better\n")


def _segments(state: CpuState, make: Callable[[CpuState], CpuState]) -> CpuState:
    """The code of a program's straight-line parts, with the program's sequential loops around them.

    Buffers keep their dimensions, which all parts share.
    """
    if not state.program.composite:
        return make(state)
    parts = segments.parts(state.program)
    typical = {**state.typical, **segments.typical_counters(parts, state.typical)}
    decisions = replace(state.policy, collapse=False, store=None, constant_temporaries=True)
    made: list[CpuState] = []

    def compiled_segment(part: segments.Segment) -> composition.Compiled:
        if part.serial or goes_along_rows(part.program):
            one = _IDENTITY.run(IdentityState(program=part.program))
            return composition.Compiled(loop_nest.assemble(part.program, one.body), part.program)
        at = {n: typical[n] for n in part.program.sizes}
        first = changed(state, program=part.program, policy=decisions, typical=at, rankings=Rankings())
        found = _TO_NEST.run(replace(first, dependences=[], distances=Distances(), splits=False))
        made.append(found)
        return composition.Compiled(found.nest, part.program)

    nest = composition.composed(state.program, parts, compiled_segment)
    whole = changed(state, nest=nest, parts=tuple(made), composed=True)
    for p in (*_WHOLE, _CODE):
        whole = PASSES.run_pass(p, whole)
    return whole if state.draft else PASSES.run_pass(OBJECT, whole)


_TO_POLYHEDRA = (
    *program_passes(CpuState),
    Pass(
        "split",
        "split long reductions, so that all cores have work and read whole rows",
        "tc/transforms/program/rfactor.py",
        _split,
        show_program,
        same_program,
    ),
    scop_pass(CpuState),
    Pass(
        "exponents",
        "mark exponents that are never positive",
        "tc/poly/exponents.py",
        _exponents,
        show_polyhedra,
    ),
    Pass(
        "inside",
        "mark reads that are in bounds even where their condition is false",
        "tc/poly/inside.py",
        _inside,
        show_polyhedra,
        lambda before, after: inside.check(after.polyhedra),
    ),
    Pass("fractions", "mark dividends between 0 and 1", "tc/poly/fractions.py", _fractions, show_polyhedra),
)
_CODE = Pass[CpuState](
    "code",
    "emit LLVM IR with explicit vectors",
    "backends/cpu/emit/kernel.py",
    _code,
    lambda s: s.text,
)
_TO_LOOPS = (
    Search(
        "variants",
        "add loops for small values of a dynamic size, where these are faster",
        "backends/cpu/search/size_variants.py",
        (
            Pass(
                "fuse",
                "choose which statements share which loops",
                "tc/poly/fusion/fusion.py",
                loop_passes.fuse,
                lambda s: s.tree,
                loop_passes.legal,
            ),
            Pass(
                "choose",
                "choose tiles, vector axes, packs and threads by the cost model",
                "backends/cpu/search/choose.py",
                loop_passes.choose,
                lambda s: s.plan.chosen.text,
            ),
        ),
        loop_passes.variants,
    ),
    Pass(
        "scan",
        "generate the loop nest of the tiles, with packs and register tiles",
        "tc/poly/tiles/nests.py",
        loop_passes.scan,
        loop_passes.show_nest,
        loop_passes.well_formed,
    ),
    Pass(
        "unswitch",
        "test a condition once for all points of a tile",
        "tc/transforms/loops/unswitch.py",
        loop_passes.unswitch,
        loop_passes.show_nest,
        loop_passes.well_formed,
    ),
    Pass(
        "reroll",
        "turn unrolled epilogues with costly functions into loops",
        "tc/transforms/loops/epilogues.py",
        loop_passes.reroll,
        loop_passes.show_nest,
        loop_passes.well_formed,
    ),
    Pass(
        "lane_prefixes",
        "compute the prefixes of a vector in log2(lanes) steps",
        "tc/transforms/loops/lane_prefixes.py",
        loop_passes.lane_prefixes,
        loop_passes.show_nest,
        loop_passes.well_formed,
    ),
    Pass(
        "reassociate",
        "with fast_math: multiply the factors that inner loops do not change first",
        "tc/transforms/loops/reassociate.py",
        loop_passes.reassociate,
        loop_passes.show_nest,
        loop_passes.traced,
    ),
)
# Over the whole loop nest; all but the last leave programs without sequential loops as they are.
_WHOLE = (
    Pass(
        "scatters",
        "run scatters along rows, in vectors and threads",
        "tc/transforms/loops/scatters.py",
        loop_passes.scatter_rows,
        loop_passes.show_nest,
        loop_passes.same_loops,
    ),
    Pass(
        "peel",
        "run iterations at the ends of a sequential loop apart, where conditions differ there",
        "tc/transforms/loops/peeled_iterations.py",
        loop_passes.peel,
        loop_passes.show_nest,
        loop_passes.same_loops,
    ),
    Pass(
        "inward",
        "move a sequential loop inside a loop whose iterations share no elements",
        "tc/transforms/loops/inward.py",
        loop_passes.inward,
        loop_passes.show_nest,
        loop_passes.same_loops,
    ),
    Pass(
        "exist",
        "mark the reads in sequential loops of elements that exist in every iteration",
        "tc/transforms/loops/existing_reads.py",
        loop_passes.exist,
        loop_passes.show_nest,
        loop_passes.existing,
    ),
    Pass(
        "skew",
        "compute rows that depend on each other several at a time, each some columns behind the one above",
        "tc/transforms/loops/skewed_rows.py",
        loop_passes.skew,
        loop_passes.show_nest,
        loop_passes.same_loops,
    ),
    Pass(
        "carry",
        "keep in registers the elements that the next iteration of a loop reads",
        "tc/transforms/loops/carried.py",
        loop_passes.carry,
        loop_passes.show_nest,
        loop_passes.same_loops,
    ),
    Pass(
        "private",
        "give each thread room for the part of a temporary that one iteration of its loops uses",
        "tc/poly/private_arrays.py",
        loop_passes.private,
        loop_passes.show_nest,
        loop_passes.same_loops,
    ),
)
_TO_CODE = (*_TO_LOOPS, *_WHOLE, _CODE)
_IDENTITY = PassList[IdentityState]("cpu", identity_passes(IdentityState))
_TO_NEST = PassList[CpuState]("cpu", (*_TO_POLYHEDRA, *_TO_LOOPS))
# Up to LLVM's text, which needs no code generator for the machine: tests read the code for other processors.
_CODE_ONLY = PassList[CpuState]("cpu", (*_TO_POLYHEDRA, *_TO_CODE))
PASSES = PassList[CpuState](
    "cpu",
    (
        *passes_over_loops(CpuState),
        Search(
            "segments",
            "compile each straight-line part of a program, and put sequential loops around them",
            "tc/poly/composition.py",
            (
                *_TO_POLYHEDRA,
                Search(
                    "spills",
                    "try register tiles with fewer vectors, where the main loop of a nest spills",
                    "backends/cpu/emit/spills.py",
                    (*_TO_CODE, OBJECT),
                    _spill,
                ),
            ),
            _segments,
        ),
        Pass(
            "link",
            "link the object file into this process",
            "tc/codegen/llvm_jit.py",
            _link,
            lambda s: s.code.assembly(),
        ),
    ),
)


def compiled(program: Program, machine: Machine, options: Options, typical: Mapping[str, int]) -> CpuState:
    """A program after all passes; its symbolic sizes must be those of `typical`."""
    return PASSES.run(_start(program, machine, options, typical))


def code_of(
    program: Program, machine: Machine, options: Options, typical: Mapping[str, int] | None = None
) -> LoweredKernel:
    """The code of the best candidate, for a machine that need not be this one."""
    return _CODE_ONLY.run(_start(program, machine, options, typical or {})).lowered


def prepared(program: Program, machine: Machine, options: Options, typical: Mapping[str, int]) -> CpuState:
    """A program with its polyhedra, ready for fusion."""
    return PassList[CpuState]("cpu", _TO_POLYHEDRA).run(_start(program, machine, options, typical))


def _start(program: Program, machine: Machine, options: Options, typical: Mapping[str, int]) -> CpuState:
    require_specialized(program, typical)
    decisions = policy.program_policy(machine, options)
    return CpuState(program=program, policy=decisions, typical=typical, machine=machine, options=options)
