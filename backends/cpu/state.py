"""The state of a compile on the cpu backend, which its passes refine, and its summary `LoweredKernel`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tc.codegen import llvm_jit
from tc.ir.expr import Call, walk
from tc.ir.lines import joined, split
from tc.ir.loops import LoopNest
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.pass_manager import later
from tc.pipeline.polyhedra import PolyhedralState
from tc.pipeline.program import ProgramState
from tc.poly.dependences import Dependences
from tc.poly.fusion.distances import Distances
from tc.poly.fusion.fusion import Group

from .emit.branches import CHEAP_FUNCTIONS
from .emit.interleave import INTERLEAVED_COPIES
from .notices import notices
from .search.choose import Rankings
from .search.size_variants import Plan, SizeVariant
from .target import Machine

# Statement instances that take about 5 us on one core; a longer call lets other threads run meanwhile.
_WORTH_RELEASING = 50_000


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
    dependences: list[Dependences] = field(
        default_factory=list[Dependences]
    )  # empty until the oracle computes them
    distances: Distances = field(default_factory=Distances)
    planned_for: Mapping[str, int] = field(default_factory=dict[str, int])
    products_apart: bool = False  # products do not share loops with others
    groups: tuple[Group | str, ...] = ()
    tree: str = ""  # the schedule tree of these groups
    apart: str = ""  # why groups do not share loops
    plan: Plan = later()
    variants: tuple[SizeVariant, ...] = ()
    nest: LoopNest = later()
    text: str = ""
    draft: bool = False  # a candidate that may be discarded: no object file is made
    object: bytes = b""
    spills: str = ""  # a line on the spills of the main loop and the candidates that were tried
    code: llvm_jit.MachineCode = later()
    parts: tuple[CpuState, ...] = ()  # straight-line parts of a program with sequential loops
    splits: bool = True  # reductions may be split
    composed: bool = False  # the nest is composed of parts; `parts` leaves out those that scatter

    @property
    def lowered(self) -> LoweredKernel:
        return _lowered(self)


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """A program as a loop nest and LLVM's text; `instances` is an upper bound of its statements' instances.

    `vectors` is how many vectors the register tile of each statement's nest keeps, `cycles` how many cycles
    the model predicts for the nest.  `functions`: some statements compute functions of more vectors than are
    interleaved.  `explained` is the choice as traced text.
    """

    nest: LoopNest
    schedule: str
    explained: str
    text: str
    instances: int
    vectors: Mapping[str, int]
    cycles: Mapping[str, float]
    notices: tuple[str, ...]
    notes: tuple[str, ...]
    functions: bool

    @property
    def choice(self) -> str:
        return joined(split(self.explained))

    def worth_releasing(self, program: Program) -> bool:
        """Whether a call takes so long that other threads should run meanwhile."""
        return bool(program.sizes) or self.instances >= _WORTH_RELEASING


def _of_parts(state: CpuState) -> LoweredKernel:
    """The summary of a program with sequential loops, from those of its parts."""
    made = [_lowered(part) for part in state.parts]
    return LoweredKernel(
        state.nest,
        "".join(m.schedule for m in made),
        state.transformations_text + "".join(m.explained for m in made),
        state.text,
        state.program.instances,
        {s: n for m in made for s, n in m.vectors.items()},
        {s: n for m in made for s, n in m.cycles.items()},
        tuple(dict.fromkeys(n for m in made for n in m.notices)),
        tuple(dict.fromkeys((*state.notes, *(n for m in made for n in m.notes)))),
        any(m.functions for m in made),
    )


def _lowered(state: CpuState) -> LoweredKernel:
    if state.composed:
        return _of_parts(state)
    usual, variants, polyhedra = state.plan, state.variants, state.polyhedra
    shown = "".join(f"{v.size} <= {v.most}:\n{v.plan.schedule}" for v in variants) + usual.schedule
    choice = "".join(f"{v.size} <= {v.most}:\n{v.plan.chosen.text}" for v in variants) + usual.chosen.text
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
        vectors,
        usual.chosen.cycles,
        notices(polyhedra, usual.chosen, state.options, state.operands),
        state.notes,
        functions,
    )
