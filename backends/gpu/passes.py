"""The passes of the GPU backends: from a program to launches of kernels on blocks and threads.

`mapping` has the passes that cuda and opencl share; each adds those from a loop nest to code.  With the
option `mapping="identity"` a program becomes one launch of one thread, statement by statement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tc.errors import ArgumentError
from tc.ir import verify
from tc.ir.evaluate import bytes_of
from tc.ir.loops import Block, Launch, LoopKind, LoopNest
from tc.ir.printer import nest_text
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.pass_manager import Pass, PassList, Search, changed, later
from tc.pipeline.polyhedra import legal_fusion, require_specialized, scop_pass, traced
from tc.pipeline.program import ProgramState, program_passes, same_program
from tc.pipeline.program import show as show_program
from tc.poly import composition, loop_nest, schedule, tree_text
from tc.poly.context import isl_context
from tc.poly.fusion import fusion
from tc.support import machine_overrides
from tc.transforms.program import segments

from ..reference.passes import IdentityState, identity_passes
from . import policy, scatter
from .cost.model import used_arrays
from .search.choose import Candidate, Chooser, choice_text
from .search.kernels import KernelBuilder, Kernels
from .search.schemes import THREADS, MappingOptions
from .target import Target

OVER_LOOPS = ("independent", "prefix_places", "planes", "contract")

_SMALL_SHARED = 48 << 10  # bytes of shared memory with which several blocks are resident on a multiprocessor
_NEAR_IDEAL = 1.1  # times the ideal time, up to which the search ends
_KINDS = frozenset([LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.VECTOR])


@dataclass(frozen=True, kw_only=True)
class GpuState(ProgramState, IdentityState):
    """The results of the passes so far.

    `mapping_options` are what options and the target say of mappings.  `shape` is the program with its
    reductions split, `kernels` the fused loops with the mapping of each.  Without `splits` reductions stay
    whole; `parts` are the straight-line parts of a program with sequential loops.
    """

    options: Options
    target: Target
    mapping_options: MappingOptions
    loops: int  # of the statement with most of them
    shape: policy.SplitProgram = later()
    kernels: Kernels = later()
    splits: bool = True
    parts: tuple[GpuState, ...] = ()

    @property
    def contract(self) -> bool:
        """Whether a product and a sum may be rounded once: not where one thread keeps the order of the
        source."""
        return self.options.mapping != "identity"

    @property
    def lowered(self) -> Lowered:
        return _lowered(self)


G = TypeVar("G", bound=GpuState)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program as launches: `nest` contains them; `schedule`, `mapped` and `choice`, traced, are the stages
    of these names.

    `notices`: where kernels do less than options request; `notes` are those of the program's passes.
    """

    nest: LoopNest
    schedule: str
    mapped: str
    choice: str
    notices: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def start(
    program: Program, options: Options, typical: Mapping[str, int], target: Target, simpler: int = 0
) -> dict[str, Any]:
    """The fields of a first state; `simpler`: the number of the largest register tiles to leave out, up to
    `candidates.SIMPLEST`.

    Raises ArgumentError, code TC0511, if options ask for more shared memory or threads than the target has.
    """
    require_specialized(program, typical)
    shared = target.shared if options.max_shared_memory is None else options.max_shared_memory
    if shared > target.shared:
        raise _too_much(f"max_shared_memory={shared}", f"{target.shared} bytes", target)
    if math.prod(options.threads or ()) > target.block:
        raise _too_much(f"threads={options.threads}", f"{target.block} threads", target)
    shared = 0 if options.use_shared_memory is False else shared
    mapping_options = MappingOptions(
        options.tile or (),
        options.threads or (),
        options.blocks or (),
        shared,
        _SMALL_SHARED if options.max_shared_memory is None else shared,
        bool(options.use_shared_memory),
        simpler,
        min(THREADS, 1 << target.block.bit_length() - 1),
        options.unroll,
        options.unroll_copy_shared,
    )
    return {
        "program": program,
        "policy": policy.program_policy(target, options),
        "typical": typical,
        "options": options,
        "target": target,
        "mapping_options": mapping_options,
        "loops": max((len(s.domain.vars) for s in program.stages), default=0),
    }


def _too_much(option: str, most: str, target: Target) -> ArgumentError:
    return ArgumentError(
        f"option {option} is not valid",
        code="TC0511",
        help=f"a block has at most {most} on {target.name}",
    )


# ---- mapped to blocks and threads


def _parts(state: G, make: Callable[[G], G]) -> G:
    """The split of reductions that is predicted to be fastest; the search ends at the first one that is near
    the limit of memory bandwidth."""
    # All parameters and results; the predictions of kernels know where a gather reads less of a table.
    buffers = (b for b in state.program.buffers if b.role != "temporary")
    moved = sum(bytes_of(b, state.typical) for b in buffers)
    made: list[G] = []
    with isl_context():
        found = policy.split_candidates(state.program, state.options, state.typical, state.target)
        whole = [policy.SplitProgram(state.program, {})]
        for shape in found if state.splits else whole:
            made.append(make(changed(state, shape=shape)))
            kernels = made[-1].kernels
            if kernels.seconds < _NEAR_IDEAL * kernels.ideal_seconds(state.target, moved):
                break
    return min(made, key=lambda s: s.kernels.seconds)


def _split(state: G) -> G:
    return changed(state, program=state.shape.program)


def _map(state: G) -> G:
    options, polyhedra, shape = state.options, state.polyhedra, state.shape
    with isl_context():
        default = policy.fusion_policy(polyhedra, state.target, state.typical)
        chosen = policy.isolate(shape.chunks, fusion.policy_of(options.fusion or default))
        private = options.use_private_memory is not False
        mapping_options = replace(state.mapping_options, chunks=shape.chunks)
        chooser = Chooser(polyhedra, mapping_options, state.target, state.typical, private)
        kernels = KernelBuilder(chooser, options.intra_tile_fusion).kernels(
            policy.keep_apart(dict.fromkeys(shape.isolated, 1), chosen, policy.PARTS),
            given=options.fusion is not None,
        )
    return changed(state, kernels=kernels)


def _trees(state: GpuState) -> str:
    made = (c.taken.kernel for c in state.kernels.choices)
    return "".join(f"{k.launch.name}:\n{k.promoted}{k.tree}" for k in made)


def _schedule(state: G) -> G:
    with isl_context():
        fused = schedule.fused(state.polyhedra, state.kernels.groups)
        return changed(state, tree=tree_text.dump(fused))


def _legal(before: GpuState, after: GpuState) -> str:
    legal_fusion(after.polyhedra, after.kernels.groups)
    return "isl"


def assembled(state: G) -> G:
    """The loop nest of the kernels that were taken."""
    program, made = state.program, [c.taken.kernel for c in state.kernels.choices]
    touched = {name for k in made for name in used_arrays(k.launch)}
    unused = {b.name for b in program.buffers if b.role == "temporary"} - touched
    nest = loop_nest.assemble(program, Block(tuple(k.launch for k in made)), unused)
    return changed(state, nest=replace(nest, arrays=(*nest.arrays, *(a for k in made for a in k.arrays))))


def _traced(before: GpuState, after: GpuState) -> str:
    return traced(after.program, after.nest, _KINDS)


def with_loops(
    name: str,
    to_nest: tuple[Pass[G] | Search[G], ...],
    passes: tuple[Pass[G] | Search[G], ...],
    code: tuple[Pass[G] | Search[G], ...],
) -> Search[G]:
    """The search for programs with sequential loops around `passes`, which end in `code`.

    Each straight-line part of such a program becomes launches by the passes `to_nest`, and the host runs the
    loops around these.  Buffers keep their dimensions, which all parts share.
    """
    to_launches = PassList[G](name, to_nest)
    to_scatters = PassList[G](name, scatters(GpuState))  # type: ignore[arg-type]
    to_code = PassList[G](name, code)

    def run(state: G, make: Callable[[G], G]) -> G:
        if not state.program.composite:
            return make(state)
        found = segments.parts(state.program)
        typical = {**state.typical, **segments.typical_counters(found, state.typical)}
        decisions = replace(state.policy, collapse=False, store=None, constant_temporaries=True)
        made: list[GpuState] = []

        def compiled_segment(part: segments.Segment) -> composition.Compiled:
            at = {n: typical[n] for n in part.program.sizes}
            loops = max((len(s.domain.vars) for s in part.program.stages), default=0)
            first = changed(state, program=part.program, policy=decisions, typical=at, loops=loops)
            if part.serial:
                in_order = replace(state.options, mapping="identity")
                one = to_scatters.run(replace(first, options=in_order))
            else:
                one = to_launches.run(replace(first, splits=False))
            made.append(one)
            return composition.Compiled(one.nest, part.program)

        nest = composition.composed(state.program, found, compiled_segment)
        return to_code.run(changed(state, nest=nest, parts=tuple(made)))

    return Search(
        "segments",
        "compile each straight-line part of a program, and put sequential loops around them",
        "tc/poly/composition.py",
        passes,
        run,
    )


def mapping(kind: type[G]) -> tuple[Pass[G] | Search[G], ...]:
    """From a program, after the passes over programs, to launches."""
    return (
        Search(
            "parts",
            "try several splits of long reductions, until one is near the limit of memory",
            "backends/gpu/policy.py",
            (
                Pass(
                    "split",
                    "split long reductions into parts or chunks",
                    "tc/transforms/program/rfactor.py",
                    _split,
                    show_program,
                    same_program,
                ),
                scop_pass(kind),
                Pass(
                    "map",
                    "fuse loops, map each region to blocks and threads",
                    "backends/gpu/search/kernels.py",
                    _map,
                    _trees,
                ),
            ),
            _parts,
        ),
        Pass(
            "schedule",
            "build the schedule tree of the fused loops",
            "tc/poly/schedule.py",
            _schedule,
            lambda s: s.tree,
            _legal,
        ),
        Pass(
            "assemble",
            "put launches and storage together: the loop nest",
            "tc/poly/loop_nest.py",
            assembled,
            lambda s: nest_text(s.nest),
            _traced,
        ),
    )


# ---- one thread


def _launch(state: G) -> G:
    nest = loop_nest.assemble(state.program, Launch(state.program.name, (), (), state.body))
    return changed(state, nest=nest)


def unmapped(kind: type[G]) -> tuple[Pass[G] | Search[G], ...]:
    """From a program to one launch of one thread that runs statements and loops in the order of the
    source."""
    return (
        *identity_passes(kind),
        Pass(
            "assemble",
            "make one launch of one thread",
            "tc/poly/loop_nest.py",
            _launch,
            lambda s: nest_text(s.nest),
            _traced,
        ),
    )


# ---- scatters


def _scatters(state: G) -> G:
    body = scatter.launches(state.program.name, state.body)
    return changed(state, nest=loop_nest.assemble(state.program, body))


def _no_trace(_: GpuState, after: GpuState) -> str:  # the trace knows no scatter
    return verify.loop_nest(after.nest, _KINDS)


def scatters(kind: type[G]) -> tuple[Pass[G] | Search[G], ...]:
    """From a program of scatters to a launch for each."""
    return (
        *identity_passes(kind),
        Pass(
            "assemble",
            "make a launch for each scatter, with threads over a loop whose iterations share no elements",
            "backends/gpu/scatter.py",
            _scatters,
            lambda s: nest_text(s.nest),
            _no_trace,
        ),
    )


# ---- results


def lower(
    program: Program, options: Options, typical: Mapping[str, int], target: Target, simpler: int = 0
) -> Lowered:
    """The launches of a program; `typical` are values of its symbolic sizes; see `start`."""
    identity = options.mapping == "identity"
    chosen = unmapped(GpuState) if identity else (*program_passes(GpuState), *mapping(GpuState))
    first = GpuState(**start(program, options, typical, target, simpler))
    return PassList[GpuState]("gpu", chosen).run(first).lowered


def _lowered(state: GpuState, *, machine: bool = True) -> Lowered:
    """The result of a state; `machine`: the choice ends with the facts of the machine."""
    if state.parts:
        made = [_lowered(part, machine=part is state.parts[-1]) for part in state.parts]
        schedule, mapped, choice = (
            "".join(getattr(m, field) for m in made) for field in ("schedule", "mapped", "choice")
        )
        notices = tuple(dict.fromkeys(n for m in made for n in m.notices))
        return Lowered(state.nest, schedule, mapped, choice, notices, state.notes)
    if state.options.mapping == "identity":
        choice = f"{state.program.name}: no choice, one thread runs it in the order of the source\n"
        return Lowered(state.nest, state.tree, state.tree, choice)
    taken = state.kernels
    choice = (
        state.transformations_text
        + taken.diagnostics
        + "".join(map(choice_text, taken.regions, taken.choices))
        + (f"machine: {machine_overrides.describe(state.target)}\n" if machine else "")
    )
    notices = tuple(_notices([c.taken for c in taken.choices], state.loops, state.options))
    return Lowered(state.nest, state.tree, _trees(state), choice, notices, state.notes)


def _notices(taken: Sequence[Candidate], loops: int, options: Options) -> Iterator[str]:
    """The notices of kernels that do less than options request; statements have at most so many `loops`.
    Decisions of the search without options need no notice."""
    made = [c.kernel for c in taken]
    for p in (c.prediction for c in taken):
        if not p.occupancy.blocks:
            yield (
                f"{p.name} has {p.threads} threads a block with about {p.registers} registers each and "
                f"{p.shared} bytes of shared memory, which is more than a multiprocessor has"
            )
    if options.tile or options.threads:
        for k in made:
            yield from (f"{k.launch.name} does not keep in registers {x}" for x in k.spilled)
    if options.use_shared_memory:
        for k in made:
            yield from (f"{k.launch.name} does not copy to shared memory {x}" for x in k.oversized)
    for name in ("threads", "blocks"):
        asked: tuple[int, ...] = getattr(options, name) or ()
        if made and sum(n > 1 for n in asked) > loops:
            yield f"{name}={asked} is for {len(asked)} loops, and no statement has more than {loops}"
