"""Programs to launches: fused, mapped to blocks and threads; or one thread that runs them as they stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tc import settings
from tc.errors import InternalError
from tc.ir.collapse import collapse
from tc.ir.loops import Block, Launch, LoopNest
from tc.ir.program import Program
from tc.ir.rfactor import split_reductions
from tc.options import Options
from tc.pipeline import stage
from tc.poly import fusion, legality, mapping, nest, plan, schedule, scop, trace, tree
from tc.poly.context import isl_context
from tc.poly.dependences import dependences

from ..reference.identity import identity
from .choose import choose, told
from .fuse import predicate
from .target import Target
from .ways import Wanted

_LITTLE = 48 << 10  # bytes of shared memory with which several blocks fit into a multiprocessor
# The trace oracle runs the nest in Python, thread by thread.
_TRACED_INSTANCES = 2000


# Results for each unit below which long reductions are done in parts, and how many instances are long.
_PARTS, _LONG = 2, 1 << 17


@dataclass(frozen=True, slots=True)
class Lowered:
    """`nest` has launches; `schedule`, `mapped` and `choice` are the stages of these names.  `contract`:
    whether a product and a sum may be rounded once."""

    nest: LoopNest
    schedule: str
    mapped: str
    choice: str
    contract: bool = False


def lower(
    program: Program, options: Options, typical: Mapping[str, int], target: Target, simpler: int = 0
) -> Lowered:
    """The launches of a program, whose symbolic sizes are those of `typical`; `simpler`: how many of the
    register tiles that would be tried are not, up to `ways.SIMPLEST`."""
    if set(program.sizes) != set(typical):
        raise InternalError(f"{program.name} is not specialised: {', '.join(program.sizes)}")
    if options.mapping == "identity":
        return unmapped(program)
    return mapped(program, options, typical, target, simpler)


def mapped(
    program: Program, options: Options, typical: Mapping[str, int], target: Target, simpler: int
) -> Lowered:
    """A launch for each region of fused loops."""
    verify = settings.verify()
    shared = target.shared if options.max_shared_memory is None else options.max_shared_memory
    shared = 0 if options.use_shared_memory is False else min(shared, target.shared)
    wanted = Wanted(
        options.tile or (),
        options.threads or (),
        options.blocks or (),
        shared,
        _LITTLE if options.max_shared_memory is None else shared,
        bool(options.use_shared_memory),
        simpler,
    )
    private = options.use_private_memory is not False
    program = split_reductions(collapse(program), _PARTS * target.units, _LONG)
    with isl_context():
        with stage("scop"):
            polyhedra = scop.build(program)
        with stage("schedule"):
            groups = fusion.fuse(polyhedra, options.fusion or predicate(polyhedra, target, typical))
            fused = schedule.fused(polyhedra, groups)
        if verify:
            with stage("dependences"):
                legality.verify(polyhedra, fused, dependences(polyhedra), "loop fusion")
        made: list[mapping.Kernel] = []
        choices: list[str] = []
        with stage("map"):
            regions = plan.regions(program, groups, typical)
            if options.intra_tile_fusion == "min":
                regions = tuple(map(plan.distributed, regions))
            for i, r in enumerate(regions):
                title = f"{program.name}_{i}" if len(regions) > 1 else program.name
                numbers = (int(a.name.rpartition(".")[2]) for k in made for a in k.arrays)
                choice = choose(
                    polyhedra, r, title, wanted, target, typical, private, 1 + max(numbers, default=-1)
                )
                made.append(choice.taken.kernel)
                choices.append(told(r, choice))
    loops = nest.assemble(program, Block(tuple(k.launch for k in made)))
    loops = replace(loops, arrays=(*loops.arrays, *(a for k in made for a in k.arrays)))
    if verify:
        trace.verify_small(program, loops, _TRACED_INSTANCES)
    trees = "".join(f"{k.launch.name}:\n{k.promoted}{k.tree}" for k in made)
    return Lowered(loops, tree.dump(fused), trees, "".join(choices), True)


def unmapped(program: Program) -> Lowered:
    """One launch of one thread that runs statements and loops in the order of the source."""
    body, tree_text = identity(program)
    loops = nest.assemble(program, Launch(program.name, (), (), body))
    if settings.verify():
        trace.verify_small(program, loops, _TRACED_INSTANCES)
    choice = f"{program.name}: no choice, one thread runs it in the order of the source\n"
    return Lowered(loops, tree_text, tree_text, choice)
