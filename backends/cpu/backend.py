"""Program to fused and tiled loops to vector code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tc.cache import disk
from tc.codegen import llvm_jit
from tc.errors import BackendError, InternalError
from tc.ir.expr import LE, Add, Call, Expr, IntImm, Variable, walk
from tc.ir.loops import Array, If, LoopNest, Stmt
from tc.ir.printer import nest_text
from tc.ir.program import Program
from tc.ir.simplify import simplify
from tc.options import Options
from tc.pipeline.front import stage
from tc.pipeline.target import Availability
from tc.poly import legality, loop_nest, schedule, scop, tile_plan, tiles, trace, tree_text
from tc.poly.context import isl_context
from tc.poly.dependences import dependences
from tc.poly.exponents import nonpositive_exponents
from tc.poly.fractions import divided_fractions
from tc.poly.fusion import fusion
from tc.poly.fusion.distances import Distances
from tc.poly.fusion.fusion_diagnostics import separations
from tc.support import settings
from tc.transforms.loops.reassociate import reassociate
from tc.transforms.loops.unswitch import unswitch
from tc.transforms.program.collapse import collapse
from tc.transforms.program.guards import restrict
from tc.transforms.program.interchange import interchange
from tc.transforms.program.temporaries import Temporaries, temporaries

from .emit import spills
from .emit.expressions import CHEAP_FUNCTIONS
from .emit.interleave import INTERLEAVED_COPIES
from .emit.kernel import KERNEL, emit
from .epilogues import reroll
from .fuse import judge
from .isa import Isa
from .notices import notices
from .parts import in_parts
from .recompute import repeated, worthwhile
from .search.choose import Rankings, best_options, choose
from .search.nontemporal import nontemporal_results
from .search.size_variants import Plan, SizeVariant, size_variants
from .target import Machine, host, with_isa, with_overrides

Artifact = Literal["schedule", "choice", "loops", "code", "llvm", "asm"]

# Statement instances that take about 5 us on one core, from where on other threads should run meanwhile.
_WORTH_RELEASING = 50_000
# The trace oracle runs the nest in Python.
_TRACED_INSTANCES = 2000
# Candidates with fewer vectors that are compiled where a loop spills.
_TRIES = 2


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel `int32_t (void *const *args)`, valid while this object lives; `workspace` is in bytes, with
    dynamic sizes an expression over them."""

    address: int
    workspace: int | Expr
    release_gil: bool
    nest: LoopNest
    schedule: str
    choice: str
    private: int  # bytes of the workspace behind the temporaries of a kernel of dynamic sizes
    notices: tuple[str, ...]
    _code: llvm_jit.MachineCode = field(repr=False)

    def to_blob(self) -> bytes:
        """What `Backend.from_blob` runs in another process: the object code and the sizes it needs."""
        # Temporaries are placed by the program alone; what dynamic sizes do not enter is a number.
        own = self.workspace if isinstance(self.workspace, int) else self.private
        facts = {"workspace": own, "release_gil": self.release_gil, "notices": self.notices}
        return disk.pack(facts, self._code.object)

    def artifact(self, stage: Artifact) -> str:
        """A stage of the compilation as text."""
        match stage:
            case "schedule":
                return self.schedule
            case "choice":
                return self.choice
            case "loops":
                return nest_text(self.nest)
            case "code" | "llvm":
                return self._code.text
            case "asm":
                return self._code.assembly()
            case _:
                raise BackendError(
                    f"the cpu backend has no stage '{stage}'",
                    code="TC0804",
                    help="it has schedule, choice, loops, code, llvm and asm",
                )


@dataclass(frozen=True, slots=True)
class Restored:
    """A kernel from disk: it runs, and has no stages to show."""

    address: int
    workspace: int | Expr
    release_gil: bool
    notices: tuple[str, ...]
    _code: llvm_jit.MachineCode = field(repr=False)


class Backend:
    """Polyhedral, SIMD, threads."""

    name = "cpu"
    dynamic_sizes = True
    options_used: frozenset[str] = frozenset(
        [
            "strict",
            "fast_math",
            "fusion",
            "isa",
            "tile",
            "register_tile",
            "vector",
            "unroll",
            "pack",
            "order",
            "parallel",
            "prefetch",
            "nontemporal",
            "machine",
        ]
    )

    def available(self) -> Availability:
        return Availability(True)

    def default_options(self, program: Program, target: Any) -> Options:
        return Options()

    def version_key(self) -> str:
        """What besides the program the code depends on."""
        return disk.digest(repr(host()), llvm_jit.version(), disk.sources(Path(__file__).parent))

    def from_blob(self, program: Program, blob: bytes) -> Restored:
        """The kernel that `Compiled.to_blob` packed."""
        facts, code = disk.unpack(blob)
        machine = llvm_jit.load_object(code, KERNEL)
        workspace: int | Expr = int(facts["workspace"])
        if program.sizes:
            workspace = Add(loop_nest.assemble(program, tiles.block(())).workspace, IntImm(workspace))
        told = tuple(map(str, facts["notices"]))
        return Restored(machine.address, workspace, bool(facts["release_gil"]), told, machine)

    def candidates(self, program: Program, count: int, options: Options) -> tuple[tuple[Options, float], ...]:
        """The best tilings of the nest that costs most, by the model, as these options with others, and
        predicted cycles."""
        machine = _machine(options)
        program = prepared(program, machine, options, {}).program
        with isl_context():
            polyhedra = scop.build(program)
            groups = fusion.fuse(polyhedra, options.fusion or judge(polyhedra, machine))
            return best_options(polyhedra, tile_plan.regions(program, groups), machine, count, options)

    def compile(
        self, program: Program, options: Options | None = None, typical: Mapping[str, int] | None = None
    ) -> Compiled:
        """The kernel of a program; `typical` are values of the sizes that it leaves symbolic, which the
        kernel serves all values of and is made fastest for these."""
        options = options or Options()
        machine = _machine(options)
        isa = machine.isa
        known: Rankings = {}
        made = code_of(program, machine, options, typical, known=known)
        with stage("machine"):
            built = object_of(made, isa)
        if options.register_tile is None:
            made, built = spilling_less(
                made, built, machine, lambda fewer: code_of(program, machine, options, typical, fewer, known)
            )
        workspace = made.nest.workspace
        with stage("machine"):
            code = llvm_jit.load_object(built, KERNEL, text=made.text, cpu=isa.cpu, features=isa.features)
        return Compiled(
            code.address,
            workspace.value if isinstance(workspace, IntImm) else workspace,
            bool(program.sizes) or made.instances >= _WORTH_RELEASING,
            made.nest,
            made.schedule,
            made.choice,
            made.private,
            made.notices,
            code,
        )


def _machine(options: Options) -> Machine:
    machine = host() if options.isa is None else with_isa(options.isa)
    if options.preset:
        raise BackendError(
            f"the cpu backend has no preset of a machine {options.preset!r}",
            code="TC0814",
            help="say what it has by name, for example machine={'cores': 4}",
        )
    return with_overrides(machine, options.facts)


@dataclass(frozen=True, slots=True)
class Made:
    """What a program became, up to LLVM's text; `instances` of its statements is a bound."""

    nest: LoopNest
    schedule: str
    choice: str
    text: str
    instances: int
    private: int
    vectors: Mapping[str, int]  # that the register tile of each statement's nest keeps
    cycles: Mapping[str, float]  # that the nest takes, by the model
    notices: tuple[str, ...]
    functions: bool  # whether some of these statements compute functions of more vectors than a few


def code_of(
    program: Program,
    machine: Machine,
    options: Options,
    typical: Mapping[str, int] | None = None,
    fewer: Mapping[str, int] | None = None,
    known: Rankings | None = None,
) -> Made:
    """The passes of this backend, for a machine that need not be this one; `typical` are values of the
    program's dynamic sizes, `fewer` and `known` are as in `choose`."""
    if set(program.sizes) != set(typical or ()):
        raise InternalError(f"{program.name} is not specialised: {', '.join(program.sizes)}")
    verify = settings.verify()
    ready = prepared(program, machine, options, typical or {})
    program = ready.program
    with isl_context():
        with stage("scop"):
            polyhedra = divided_fractions(nonpositive_exponents(scop.build(program)))
        found = dependences(polyhedra) if verify else None

        distances = Distances()

        def planned(typical: Mapping[str, int]) -> Plan:
            with stage("schedule"):
                wanted = fusion.judge(options.fusion or judge(polyhedra, machine, typical))
                groups = fusion.fuse(polyhedra, wanted, distances)
                fused = schedule.fused(polyhedra, groups)
                apart = "".join(f"{x}\n" for x in separations(polyhedra, groups, distances, wanted))
                shown = tree_text.dump(fused)
            if found is not None:
                with stage("dependences"):
                    legality.verify(polyhedra, fused, found, "loop fusion")
            with stage("choose"):
                regions = tile_plan.regions(program, groups, typical)
                chosen = choose(polyhedra, regions, machine, options, typical, fewer, known)
                return Plan(groups, replace(chosen, text=apart + chosen.text), shown)

        usual = planned(typical or {})
        few = size_variants(program, polyhedra, machine, typical or {}, usual, planned)
        with stage("scan"):
            loops, private = assemble(program, polyhedra, usual, few, machine, typical or {}, options)
            if options.fast_math:
                loops = replace(loops, body=reassociate(loops.body))
    if verify:
        trace.verify_small(program, loops, _TRACED_INSTANCES)
    with stage("code"):
        text = emit(
            loops, machine.isa, fast_math=options.fast_math, fused_products=bool(machine.fused_products)
        )
    shown = "".join(f"{v.size} <= {v.most}:\n{v.plan.schedule}" for v in few) + usual.schedule
    choice = "".join(f"{v.size} <= {v.most}:\n{v.plan.chosen.text}" for v in few) + usual.chosen.text
    choice = ready.told + choice
    chosen = usual.chosen
    told = notices(polyhedra, chosen, options, ready.operands)
    functions = any(
        n > INTERLEAVED_COPIES
        and isinstance(e, Call)
        and e.kind == "intrinsic"
        and e.name not in CHEAP_FUNCTIONS
        for s, n in chosen.vectors.items()
        for e in walk(polyhedra.bodies[s])
    )
    return Made(
        loops, shown, choice, text, program.instances, private, chosen.vectors, chosen.cycles, told, functions
    )


def _chunks(machine: Machine) -> int:
    """The most parts of a parallel loop whose iterations have memory of their own: as many as even out that a
    processor is slower at times, of many processors fewer for each, as every part may need that memory."""
    return max(4 * machine.cores, min(16 * machine.cores, 64))


def prepared(program: Program, machine: Machine, options: Options, typical: Mapping[str, int]) -> Temporaries:
    """A program whose dynamic sizes are typically these, made ready for fusion."""
    found = Temporaries(program := restrict(program))
    if options.fusion != "min":
        found = temporaries(program, worthwhile(machine), repeated(machine), typical)
    program = interchange(collapse(found.program), typical)
    if options.parallel is not False:
        program = in_parts(program, machine, typical)
    return replace(found, program=program)


def object_of(made: Made, isa: Isa) -> bytes:
    return llvm_jit.object_of(made.text, cpu=isa.cpu, features=isa.features, verify=settings.verify())


def spilling_less(
    made: Made, built: bytes, machine: Machine, again: Callable[[Mapping[str, int]], Made]
) -> tuple[Made, bytes]:
    """A kernel and its object; where the main loop of a nest spills, those of the first of its next
    candidates with fewer vectors for which that pays.  `again` makes the program with fewer vectors."""
    isa = machine.isa

    def looked_at(m: Made) -> tuple[spills.Loop, ...]:
        with stage("machine"):
            text = llvm_jit.assembly_of(m.text, cpu=isa.cpu, features=isa.features, verbose=True)
        return spills.main_loops(text, frozenset(s for s, n in m.vectors.items() if n > INTERLEAVED_COPIES))

    most = max(made.vectors.values(), default=0)
    # Fewer vectors than these wait for each other, whatever they spill.
    if most <= INTERLEAVED_COPIES or not spills.may_spill(built, isa, most, made.functions):
        return made, built
    loop = spills.worst(looked_at(made))
    if loop is None:
        return made, built
    tried = made
    for _ in range(_TRIES):
        following = again({s: tried.vectors[s] for s in loop.statements})
        if any(following.vectors[s] >= tried.vectors[s] for s in loop.statements):
            break
        tried = following
        found = next((x for x in looked_at(tried) if x.statements == loop.statements), None)
        if found is None:
            break
        dearer = max(tried.cycles[s] / max(made.cycles[s], 1.0) for s in loop.statements)
        if spills.pays(loop, found, dearer, machine):
            better = f"which spills {found.spill_share}"
            took = f"{loop.summary}; took the next candidate with fewer vectors, {better}\n"
            with stage("machine"):
                return replace(tried, choice=tried.choice + took), object_of(tried, isa)
        if not spills.spills_much(found):
            break
    kept = f"{loop.summary}; no candidate with fewer vectors is better\n"
    return replace(made, choice=made.choice + kept), built


def assemble(
    program: Program,
    polyhedra: scop.Scop,
    usual: Plan,
    few: Sequence[SizeVariant],
    machine: Machine,
    typical: Mapping[str, int],
    options: Options,
) -> tuple[LoopNest, int]:
    """The loop nest of a tiled program, and how many bytes of its workspace are not for temporaries."""
    base = loop_nest.assemble(program, tiles.block(()))
    past = nontemporal_results(polyhedra, usual.chosen.regions, machine, typical, options.nontemporal)
    count, most = 0, 0
    arrays: list[Array] = []
    on_lines: set[str] = set()
    left_open: set[str] = set()

    def scanned(p: Plan, version: str) -> Stmt:
        """The loops of a plan; of versions only one runs, so they use the same memory."""
        nonlocal count, most
        builder = tiles.Builder(
            polyhedra, _chunks(machine), 0, base.workspace, [], count, version, past, on_lines, left_open
        )
        scanner = tiles.Scanner(builder)
        pairs = zip(p.chosen.regions, p.chosen.tilings, strict=True)
        body = tiles.block(scanner.region(r, t) for r, t in pairs)
        arrays.extend(builder.arrays)
        count, most = builder.count, max(most, builder.workspace)
        return body

    body = scanned(usual, "")
    for v in reversed(few):
        body = If(LE(Variable(v.size), IntImm(v.most)), scanned(v.plan, f".{v.most}"), body)
    workspace = simplify(Add(base.workspace, IntImm(most)), exact=True)
    body = unswitch(body, base.sizes)
    past, on_lines = past - left_open, on_lines - left_open
    own = (replace(a, streamed=a.name in past, on_lines=a.name in on_lines) for a in base.arrays)
    loops = replace(base, body=body, arrays=(*own, *arrays), workspace=workspace)
    return reroll(loops, machine.isa.lanes(4)), most
