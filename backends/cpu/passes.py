"""The passes of the cpu backend: from a program to vector code, and what its spills say.

`PASSES` is what runs.  A state holds what a program has become so far; a pass replaces some of its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tc.codegen import llvm_jit
from tc.ir import verify
from tc.ir.expr import LE, Add, Call, IntImm, Variable, walk
from tc.ir.lines import joined, split
from tc.ir.loops import Array, If, LoopNest, Stmt
from tc.ir.printer import nest_text
from tc.ir.program import Program
from tc.ir.simplify import simplify
from tc.options import Options
from tc.pipeline.pass_manager import Pass, PassList, Search, later
from tc.pipeline.polyhedra import PolyhedralState, legal_fusion, require_specialized, scop_pass, traced
from tc.pipeline.polyhedra import show as show_polyhedra
from tc.pipeline.program import ProgramState, program_passes, same_program
from tc.pipeline.program import show as show_program
from tc.poly import composition, inside, loop_nest, schedule, tile_plan, tiles, tree_text
from tc.poly.context import isl_context
from tc.poly.dependences import Dependences
from tc.poly.exponents import nonpositive_exponents
from tc.poly.fractions import divided_fractions
from tc.poly.fusion import fusion
from tc.poly.fusion.distances import Distances
from tc.poly.fusion.fusion import Group
from tc.poly.fusion.fusion_diagnostics import fusion_diagnostics
from tc.support import settings
from tc.transforms.loops.epilogues import reroll
from tc.transforms.loops.inward import inward
from tc.transforms.loops.reassociate import reassociate
from tc.transforms.loops.scatters import along_rows
from tc.transforms.loops.unswitch import unswitch
from tc.transforms.program import segments

from ..reference.passes import IdentityState, identity_passes
from . import policy
from .cost.work import instruction_count
from .emit import spills
from .emit.expressions import CHEAP_FUNCTIONS
from .emit.interleave import INTERLEAVED_COPIES
from .emit.kernel import KERNEL, emit
from .notices import notices
from .search.cache_tiles import TASK_CYCLES
from .search.choose import Rankings, choose, predicted
from .search.nontemporal import nontemporal_results
from .search.size_variants import Plan, SizeVariant, size_variants
from .target import Machine

# Candidates with fewer vectors that are compiled where a loop spills.
_TRIES = 2
_APART = 0.8  # share of the cycles of shared loops, at most, for which products are put apart


@dataclass(frozen=True, kw_only=True)
class CpuState(ProgramState, PolyhedralState):
    """What a program has become so far.

    `planned_for` are the sizes that the loops of a variant are chosen for.  `fewer` has, by statement, how
    many vectors the register tile of its nest must stay below.  `rankings` keeps candidates between searches.
    """

    machine: Machine
    options: Options
    fewer: Mapping[str, int] | None = None
    rankings: Rankings = field(default_factory=lambda: Rankings())
    dependences: list[Dependences] = field(default_factory=list[Dependences])  # of the oracle, once it asked
    distances: Distances = field(default_factory=Distances)
    planned_for: Mapping[str, int] = field(default_factory=dict[str, int])
    products_apart: bool = False  # products do not share loops with others
    groups: tuple[Group | str, ...] = ()
    tree: str = ""  # the schedule tree of these groups
    apart: str = ""  # why groups do not share loops
    plan: Plan = later()
    variants: tuple[SizeVariant, ...] = ()
    nest: LoopNest = later()
    private: int = 0  # bytes of the workspace behind the temporaries
    text: str = ""
    draft: bool = False  # of a candidate that may not be taken no object is made
    object: bytes = b""
    spills: str = ""  # what was done about them
    code: llvm_jit.MachineCode = later()
    parts: tuple[CpuState, ...] = ()  # straight-line parts of a program with sequential loops
    splits: bool = True  # reductions may be split
    composed: bool = False  # of parts, of which those that scatter are not among `parts`

    @property
    def lowered(self) -> LoweredKernel:
        return _lowered(self)


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """What a program became, up to LLVM's text; `instances` of its statements is a bound.

    `vectors` is how many vectors the register tile of each statement's nest keeps, `cycles` how many the nest
    takes by the model.  `functions`: some statements compute functions of more vectors than a few.
    `explained` is the choice as traced text.
    """

    nest: LoopNest
    schedule: str
    explained: str
    text: str
    instances: int
    private: int
    vectors: Mapping[str, int]
    cycles: Mapping[str, float]
    notices: tuple[str, ...]
    functions: bool

    @property
    def choice(self) -> str:
        return joined(split(self.explained))


# ---- programs


def _split(state: CpuState) -> CpuState:
    if state.options.parallel is False or not state.splits:
        return state
    return replace(state, program=policy.split(state.program, state.machine, state.typical))


# ---- polyhedra


def _exponents(state: CpuState) -> CpuState:
    with isl_context():
        return replace(state, polyhedra=nonpositive_exponents(state.polyhedra))


def _fractions(state: CpuState) -> CpuState:
    with isl_context():
        return replace(state, polyhedra=divided_fractions(state.polyhedra))


def _inside(state: CpuState) -> CpuState:
    return replace(state, polyhedra=inside.marked(state.polyhedra))


# ---- loops


def _variants(state: CpuState, plan: Callable[[CpuState], CpuState]) -> CpuState:
    """Loops for the typical sizes, and others for few points where these are faster.  Of products that share
    loops the model says whether they are faster apart."""

    def planned(typical: Mapping[str, int]) -> Plan:
        first = plan(replace(state, planned_for=typical)).plan
        if state.options.fusion is not None or not policy.joins_products(state.program, first.groups):
            return first
        other = plan(replace(state, planned_for=typical, products_apart=True)).plan
        if other.groups == first.groups:
            return first

        def cycles(p: Plan) -> float:
            regions = tile_plan.regions(state.program, p.groups, typical)
            starts = TASK_CYCLES * len(regions)  # threads start for each, and wait for the last
            return starts + predicted(state.polyhedra, regions, p.chosen, state.machine, typical)

        return other if cycles(other) < _APART * cycles(first) else first

    with isl_context():
        usual = planned(state.typical)
        few = size_variants(state.program, state.polyhedra, state.machine, state.typical, usual, planned)
    return replace(state, plan=usual, variants=few)


def _fuse(state: CpuState) -> CpuState:
    """Groups of statements that share loops, the schedule tree of these, and why others stay apart."""
    options, polyhedra = state.options, state.polyhedra
    with isl_context():
        default = policy.fusion_policy(polyhedra, state.machine, state.planned_for)
        if state.products_apart:
            default = policy.products_apart(state.program, default)
        wanted = fusion.policy_of(options.fusion or default)
        groups = fusion.fuse(polyhedra, wanted, state.distances)
        apart = "".join(f"{x}\n" for x in fusion_diagnostics(polyhedra, groups, state.distances, wanted))
        shown = tree_text.dump(schedule.fused(polyhedra, groups))
    return replace(state, groups=tuple(groups), tree=shown, apart=apart)


def _legal(before: CpuState, after: CpuState) -> str:
    known = after.dependences
    known[:] = [legal_fusion(after.polyhedra, after.groups, known[0] if known else None)]
    return "isl"


def _choose(state: CpuState) -> CpuState:
    at = state.planned_for
    with isl_context():
        regions = tile_plan.regions(state.program, state.groups, at)
        chosen = choose(
            state.polyhedra, regions, state.machine, state.options, at, state.fewer, state.rankings
        )
    plan = Plan(state.groups, replace(chosen, text=state.apart + chosen.text), state.tree)
    return replace(state, plan=plan)


def _scan(state: CpuState) -> CpuState:
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

        def scanned(p: Plan, version: str) -> Stmt:
            """The loops of a plan; of versions only one runs, so they use the same memory."""
            nonlocal count, most
            builder = tiles.Builder(
                polyhedra,
                _chunks(state.machine),
                0,
                base.workspace,
                [],
                count,
                version,
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
    return replace(state, nest=nest, private=most)


def _chunks(machine: Machine) -> int:
    """The most parts of a parallel loop whose iterations have memory of their own: as many as even out that a
    processor is slower at times, of many processors fewer for each, as every part may need that memory."""
    return max(4 * machine.cores, min(16 * machine.cores, 64))


def _unswitch(state: CpuState) -> CpuState:
    nest = state.nest
    return replace(state, nest=replace(nest, body=unswitch(nest.body, nest.sizes)))


def _reroll(state: CpuState) -> CpuState:
    lanes = state.machine.isa.lanes(4)
    return replace(state, nest=reroll(state.nest, lambda e: instruction_count(e, lanes)))


def _reassociate(state: CpuState) -> CpuState:
    if not state.options.fast_math:
        return state
    return replace(state, nest=replace(state.nest, body=reassociate(state.nest.body)))


def _well_formed(before: CpuState, after: CpuState) -> str:
    if after.nest is before.nest:
        return ""
    return verify.loop_nest(after.nest, launches=False)


def _traced(before: CpuState, after: CpuState) -> str:
    return traced(after.program, after.nest, launches=False)


def _show_nest(state: CpuState) -> str:
    return nest_text(state.nest)


# ---- code


def _code(state: CpuState) -> CpuState:
    machine, options = state.machine, state.options
    fused_products = bool(machine.fused_products)
    text = emit(state.nest, machine.isa, fast_math=options.fast_math, fused_products=fused_products)
    return replace(state, text=text)


def _object(state: CpuState) -> CpuState:
    return state if state.draft else replace(state, object=object_of(state.text, state.machine))


def object_of(text: str, machine: Machine) -> bytes:
    """The object file of LLVM's text, for the machine's instruction set."""
    isa = machine.isa
    return llvm_jit.object_of(text, cpu=isa.cpu, features=isa.features, verify=settings.verify())


def _link(state: CpuState) -> CpuState:
    isa = state.machine.isa
    code = llvm_jit.load_object(state.object, KERNEL, text=state.text, cpu=isa.cpu, features=isa.features)
    return replace(state, code=code)


OBJECT = Pass[CpuState]("object", "LLVM IR to an object file", "tc/codegen/llvm_jit.py", _object)


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
        following = make(replace(state, fewer=fewer, draft=True))
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
    """The code of a program's straight-line parts, in its sequential loops.

    Buffers keep their dimensions, which all parts share.
    """
    if not state.program.composite:
        return make(state)
    parts = segments.parts(state.program)
    typical = {**state.typical, **segments.typical_counters(parts, state.typical)}
    decisions = replace(state.policy, collapse=False, store=None, constant_temporaries=True)
    made: list[CpuState] = []

    def compiled_segment(part: segments.Segment) -> composition.Compiled:
        if part.serial:
            one = _IDENTITY.run(IdentityState(program=part.program))
            lanes = state.machine.isa.lanes(max(f.dtype.itemsize for f in part.program.funcs))
            nest = loop_nest.assemble(part.program, along_rows(one.body, lanes))
            return composition.Compiled(nest, part.program)
        at = {n: typical[n] for n in part.program.sizes}
        first = replace(state, program=part.program, policy=decisions, typical=at, rankings=Rankings())
        found = _TO_NEST.run(replace(first, dependences=[], distances=Distances(), splits=False))
        made.append(found)
        return composition.Compiled(found.nest, part.program)

    nest, private = composition.composed(state.program, parts, compiled_segment)
    ranks = {b.name: len(b.box) for b in state.program.buffers}
    nest = replace(nest, body=inward(nest.body, nest.sizes, ranks))
    whole = replace(state, nest=nest, private=private, parts=tuple(made), composed=True)
    whole = PASSES.run_pass(_CODE, whole)
    return whole if state.draft else PASSES.run_pass(OBJECT, whole)


_TO_POLYHEDRA = (
    *program_passes(CpuState),
    Pass(
        "split",
        "split long reductions, so that all processors work and read rows",
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
        "mark reads of elements that exist whatever conditions say",
        "tc/poly/inside.py",
        _inside,
        show_polyhedra,
        lambda before, after: inside.check(after.polyhedra),
    ),
    Pass("fractions", "mark dividends between 0 and 1", "tc/poly/fractions.py", _fractions, show_polyhedra),
)
_CODE = Pass[CpuState](
    "code",
    "loop nest to LLVM IR with explicit vectors",
    "backends/cpu/emit/kernel.py",
    _code,
    lambda s: s.text,
)
_TO_LOOPS = (
    Search(
        "variants",
        "loops for few points of a dynamic size, beside those for many",
        "backends/cpu/search/size_variants.py",
        (
            Pass(
                "fuse",
                "which statements share which loops",
                "tc/poly/fusion/fusion.py",
                _fuse,
                lambda s: s.tree,
                _legal,
            ),
            Pass(
                "choose",
                "tiles, lanes, packs and threads, by the model",
                "backends/cpu/search/choose.py",
                _choose,
                lambda s: s.plan.chosen.text,
            ),
        ),
        _variants,
    ),
    Pass(
        "scan",
        "tiled boxes to a loop nest, with packs and register tiles",
        "tc/poly/tiles/nests.py",
        _scan,
        _show_nest,
        _well_formed,
    ),
    Pass(
        "unswitch",
        "test conditions once for whole tiles",
        "tc/transforms/loops/unswitch.py",
        _unswitch,
        _show_nest,
        _well_formed,
    ),
    Pass(
        "reroll",
        "loops for long functions after long reductions",
        "tc/transforms/loops/epilogues.py",
        _reroll,
        _show_nest,
        _well_formed,
    ),
    Pass(
        "reassociate",
        "with fast_math: products in the order of loops",
        "tc/transforms/loops/reassociate.py",
        _reassociate,
        _show_nest,
        _traced,
    ),
)
_TO_CODE = (*_TO_LOOPS, _CODE)
_IDENTITY = PassList[IdentityState]("cpu", identity_passes(IdentityState))
_TO_NEST = PassList[CpuState]("cpu", (*_TO_POLYHEDRA, *_TO_LOOPS))
# What needs no code generator for the machine: tests look at the code for processors that are not here.
_CODE_ONLY = PassList[CpuState]("cpu", (*_TO_POLYHEDRA, *_TO_CODE))
PASSES = PassList[CpuState](
    "cpu",
    (
        Search(
            "segments",
            "the straight-line parts of a program, put into its sequential loops",
            "tc/poly/composition.py",
            (
                *_TO_POLYHEDRA,
                Search(
                    "spills",
                    "fewer vectors in registers, where the main loop of a nest spills",
                    "backends/cpu/emit/spills.py",
                    (*_TO_CODE, OBJECT),
                    _spill,
                ),
            ),
            _segments,
        ),
        Pass(
            "link",
            "object file to machine code in this process",
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


def _of_parts(state: CpuState) -> LoweredKernel:
    """What a program with sequential loops became, from its parts."""
    made = [_lowered(part) for part in state.parts]
    return LoweredKernel(
        state.nest,
        "".join(m.schedule for m in made),
        "".join(m.explained for m in made),
        state.text,
        state.program.instances,
        state.private,
        {s: n for m in made for s, n in m.vectors.items()},
        {s: n for m in made for s, n in m.cycles.items()},
        tuple(dict.fromkeys(n for m in made for n in m.notices)),
        any(m.functions for m in made),
    )


def _lowered(state: CpuState) -> LoweredKernel:
    if state.composed:
        return _of_parts(state)
    usual, few, polyhedra = state.plan, state.variants, state.polyhedra
    shown = "".join(f"{v.size} <= {v.most}:\n{v.plan.schedule}" for v in few) + usual.schedule
    choice = "".join(f"{v.size} <= {v.most}:\n{v.plan.chosen.text}" for v in few) + usual.chosen.text
    vectors = usual.chosen.vectors
    functions = any(
        n > INTERLEAVED_COPIES
        and isinstance(e, Call)
        and e.kind == "intrinsic"
        and e.name not in CHEAP_FUNCTIONS
        for s, n in vectors.items()
        for e in walk(polyhedra.bodies[s])
    )
    return LoweredKernel(
        state.nest,
        shown,
        state.transformations_text + choice + state.spills,
        state.text,
        state.program.instances,
        state.private,
        vectors,
        usual.chosen.cycles,
        notices(polyhedra, usual.chosen, state.options, state.operands),
        functions,
    )
