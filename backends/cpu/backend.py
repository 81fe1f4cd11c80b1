"""Program to fused and tiled loops to vector code."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from tc import settings, store
from tc.codegen import llvm_jit
from tc.errors import BackendError, InternalError
from tc.ir.expr import IntImm
from tc.ir.loops import LoopNest
from tc.ir.printer import nest_text
from tc.ir.program import Program
from tc.ir.reassociate import reassociate
from tc.ir.rfactor import split_reductions
from tc.ir.unswitch import unswitch
from tc.options import Options
from tc.pipeline import stage
from tc.poly import fusion, legality, nest, plan, scan, schedule, scop, trace, tree
from tc.poly.context import isl_context
from tc.poly.dependences import dependences
from tc.registry import Availability

from . import emit
from .choose import best_options, choose
from .fuse import predicate
from .machine import Machine, believed, host, with_isa

Artifact = Literal["schedule", "choice", "loops", "code", "llvm", "asm"]

# Statement instances that take about 5 us on one core, from where on other threads should run meanwhile.
_WORTH_RELEASING = 50_000
# Instances of a reduction to one or a few results from where it is worth all cores.
_LONG = 1 << 17
# The trace oracle runs the nest in Python.
_TRACED_INSTANCES = 2000


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel `int32_t (void *const *args)`, valid while this object lives; `workspace` is in bytes."""

    address: int
    workspace: int
    release_gil: bool
    nest: LoopNest
    schedule: str
    choice: str
    _code: llvm_jit.MachineCode = field(repr=False)

    def to_blob(self) -> bytes:
        """What `Backend.from_blob` runs in another process: the object code and the sizes it needs."""
        facts = {"workspace": self.workspace, "release_gil": self.release_gil}
        return store.pack(facts, self._code.object)

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
    workspace: int
    release_gil: bool
    _code: llvm_jit.MachineCode = field(repr=False)


class Backend:
    """Polyhedral, SIMD, threads."""

    name = "cpu"
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
            "parallel",
            "machine",
        ]
    )

    def available(self) -> Availability:
        return Availability(True)

    def default_options(self, program: Program, target: Any) -> Options:
        return Options()

    def version_key(self) -> str:
        """What besides the program the code depends on."""
        return store.digest(repr(host()), llvm_jit.version(), store.sources(Path(__file__).parent))

    def from_blob(self, program: Program, blob: bytes) -> Restored:
        """The kernel that `Compiled.to_blob` packed."""
        facts, code = store.unpack(blob)
        machine = llvm_jit.load_object(code, emit.KERNEL)
        return Restored(machine.address, int(facts["workspace"]), bool(facts["release_gil"]), machine)

    def candidates(self, program: Program, count: int) -> tuple[tuple[Options, float], ...]:
        """The best tilings of the nest that costs most, by the model, as options with predicted cycles."""
        machine = host()
        program = split_reductions(program, 4 * machine.cores, _LONG)
        with isl_context():
            polyhedra = scop.build(program)
            groups = fusion.fuse(polyhedra, predicate(polyhedra, machine))
            return best_options(polyhedra, plan.regions(program, groups), machine, count)

    def compile(self, program: Program, options: Options | None = None) -> Compiled:
        """The kernel of a specialised program."""
        options = options or Options()
        machine = _machine(options)
        made = code_of(program, machine, options)
        assert isinstance(made.nest.workspace, IntImm)
        with stage("machine"):
            code = llvm_jit.compile_text(
                made.text,
                emit.KERNEL,
                cpu=machine.isa.cpu,
                features=machine.isa.features,
                verify=settings.verify(),
            )
        return Compiled(
            code.address,
            made.nest.workspace.value,
            made.instances >= _WORTH_RELEASING,
            made.nest,
            made.schedule,
            made.choice,
            code,
        )


def _machine(options: Options) -> Machine:
    machine = host() if options.isa is None else with_isa(options.isa)
    return believed(machine, cast("tuple[tuple[str, float], ...]", options.machine or ()))


@dataclass(frozen=True, slots=True)
class Made:
    """What a program became, up to LLVM's text; `instances` of its statements is a bound."""

    nest: LoopNest
    schedule: str
    choice: str
    text: str
    instances: int


def code_of(program: Program, machine: Machine, options: Options) -> Made:
    """The passes of this backend, for a machine that need not be this one."""
    if program.sizes:
        raise InternalError(f"{program.name} is not specialised: {', '.join(program.sizes)}")
    verify = settings.verify()
    if options.parallel is not False:
        program = split_reductions(program, 4 * machine.cores, _LONG)
    with isl_context():
        with stage("scop"):
            polyhedra = scop.build(program)
        with stage("schedule"):
            groups = fusion.fuse(polyhedra, options.fusion or predicate(polyhedra, machine))
            fused = schedule.fused(polyhedra, groups)
            shown = tree.dump(fused)
        if verify:
            with stage("dependences"):
                legality.verify(polyhedra, fused, dependences(polyhedra), "loop fusion")
        with stage("choose"):
            regions = plan.regions(program, groups)
            chosen = choose(polyhedra, regions, machine, options)
        with stage("scan"):
            loops = assemble(program, polyhedra, chosen.regions, chosen.tilings, machine)
            if options.fast_math:
                loops = replace(loops, body=reassociate(loops.body))
    if verify and program.instances <= _TRACED_INSTANCES:
        trace.verify(program, loops, {})
    with stage("code"):
        text = emit.emit(loops, machine.isa, fast_math=options.fast_math)
    return Made(loops, shown, chosen.text, text, program.instances)


def assemble(
    program: Program,
    polyhedra: scop.Scop,
    regions: tuple[plan.Region, ...],
    tilings: tuple[plan.RegionTiling, ...],
    machine: Machine,
) -> LoopNest:
    """The loop nest of a tiled program."""
    base = nest.assemble(program, scan.block(()))
    assert isinstance(base.workspace, IntImm)
    builder = scan.Builder(polyhedra, 4 * machine.cores, base.workspace.value)
    scanner = scan.Scanner(builder)
    body = unswitch(scan.block(scanner.region(r, t) for r, t in zip(regions, tilings, strict=True)))
    return replace(
        base, body=body, arrays=(*base.arrays, *builder.arrays), workspace=IntImm(builder.workspace)
    )
