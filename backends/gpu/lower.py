"""Programs to launches: fused, mapped to blocks and threads; or one thread that runs them as they stand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.errors import ArgumentError, InternalError
from tc.ir.evaluate import bytes_of
from tc.ir.loops import Block, Launch, LoopNest
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.front import stage
from tc.poly import legality, loop_nest, schedule, scop, trace, tree_text
from tc.poly.context import isl_context
from tc.poly.dependences import dependences
from tc.poly.fusion import fusion
from tc.support import machine_overrides, settings
from tc.transforms.program.collapse import collapse
from tc.transforms.program.guards import restrict
from tc.transforms.program.interchange import interchange
from tc.transforms.program.temporaries import Temporaries, temporaries

from ..reference.identity import identity
from .cost.model import used
from .fuse import PARTS, apart, judge, within
from .parts import InParts, in_parts
from .recompute import repeated, worthwhile
from .search.candidates import THREADS, Wanted
from .search.choose import Candidate, Chooser, told
from .search.kernels import Kernels, Maker
from .target import Target

_LITTLE = 48 << 10  # bytes of shared memory with which several blocks fit into a multiprocessor
# The trace oracle runs the nest in Python, thread by thread.
_TRACED_INSTANCES = 2000
_CLOSE = 1.1  # what kernels may take of the least that they could, and no others are looked at


@dataclass(frozen=True, slots=True)
class Lowered:
    """`nest` has launches; `schedule`, `mapped` and `choice` are the stages of these names.  `contract`:
    whether a product and a sum may be rounded once."""

    nest: LoopNest
    schedule: str
    mapped: str
    choice: str
    contract: bool = False
    notices: tuple[str, ...] = ()  # what is done in a simpler way than options ask for


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


def _too_much(option: str, most: str, target: Target) -> ArgumentError:
    return ArgumentError(
        f"option {option} is not valid",
        code="TC0511",
        help=f"a block has at most {most} on {target.name}",
    )


def mapped(
    program: Program, options: Options, typical: Mapping[str, int], target: Target, simpler: int
) -> Lowered:
    """A launch for each region of fused loops.

    Raises ArgumentError, code TC0511, where options want more shared memory or threads than the target has.
    """
    verify = settings.verify()
    shared = target.shared if options.max_shared_memory is None else options.max_shared_memory
    if shared > target.shared:
        raise _too_much(f"max_shared_memory={shared}", f"{target.shared} bytes", target)
    if math.prod(options.threads or ()) > target.block:
        raise _too_much(f"threads={options.threads}", f"{target.block} threads", target)
    most = max((len(s.domain.vars) for s in program.stages), default=0)
    shared = 0 if options.use_shared_memory is False else shared
    private = options.use_private_memory is not False
    shaped = Temporaries(program := restrict(program))
    if options.fusion != "min":
        shaped = temporaries(program, worthwhile(target), repeated(target), typical)
        program = shaped.program
    if shaped.operands:  # what they are copied for is read as they lie
        program = interchange(program, typical)
    if not (options.tile or options.threads or options.blocks):  # which are for the loops of the program
        program = collapse(program)
    wanted = Wanted(
        options.tile or (),
        options.threads or (),
        options.blocks or (),
        shared,
        _LITTLE if options.max_shared_memory is None else shared,
        bool(options.use_shared_memory),
        simpler,
        min(THREADS, 1 << target.block.bit_length() - 1),
        options.unroll,
        options.unroll_copy_shared,
    )

    def planned(shape: InParts) -> tuple[scop.Scop, Kernels]:
        with stage("scop"):
            polyhedra = scop.build(shape.program)
        chosen = apart(shape.chunks, fusion.judge(options.fusion or judge(polyhedra, target, typical)))
        chooser = Chooser(polyhedra, replace(wanted, chunks=shape.chunks), target, typical, private)
        maker = Maker(chooser, options.intra_tile_fusion)
        with stage("map"):
            return polyhedra, maker.kernels(
                within(dict.fromkeys(shape.alone, 1), chosen, PARTS),
                given=options.fusion is not None,
            )

    with isl_context():
        # What comes in and goes out; where less of a table is read, the kernels know.
        moved = sum(bytes_of(b, typical) for b in program.buffers if b.role != "temporary")
        plans: list[tuple[scop.Scop, Kernels]] = []
        for shape in in_parts(program, options, typical, target):
            plans.append(planned(shape))
            if plans[-1][1].seconds < _CLOSE * plans[-1][1].ideal(target, moved):
                break
        polyhedra, taken = min(plans, key=lambda x: x[1].seconds)
        program = polyhedra.program
        with stage("schedule"):
            fused = schedule.fused(polyhedra, taken.groups)
        if verify:
            with stage("dependences"):
                legality.verify(polyhedra, fused, dependences(polyhedra), "loop fusion")
    made = [c.taken.kernel for c in taken.choices]
    touched = {name for k in made for name in used(k.launch)}
    unused = {b.name for b in program.buffers if b.role == "temporary"} - touched
    loops = loop_nest.assemble(program, Block(tuple(k.launch for k in made)), unused)
    loops = replace(loops, arrays=(*loops.arrays, *(a for k in made for a in k.arrays)))
    if verify:
        trace.verify_small(program, loops, _TRACED_INSTANCES)
    trees = "".join(f"{k.launch.name}:\n{k.promoted}{k.tree}" for k in made)
    choice = (
        f"machine: {machine_overrides.describe(target)}\n"
        + shaped.told
        + taken.apart
        + "".join(map(told, taken.regions, taken.choices))
    )
    notices = tuple(_notices([c.taken for c in taken.choices], most, options))
    return Lowered(loops, tree_text.dump(fused), trees, choice, True, notices)


def _notices(taken: Sequence[Candidate], loops: int, options: Options) -> Iterator[str]:
    """Where kernels do less than options ask for, of statements of at most so many `loops`.  What the chooser
    does by itself has its reasons."""
    made = [c.kernel for c in taken]
    for p in (c.prediction for c in taken):
        if not p.occupancy.blocks:
            yield (
                f"{p.name} has {p.threads} threads a block with about {p.registers} registers each and "
                f"{p.shared} bytes of shared memory, which is more than there is"
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


def unmapped(program: Program) -> Lowered:
    """One launch of one thread that runs statements and loops in the order of the source."""
    body, tree_text = identity(program)
    loops = loop_nest.assemble(program, Launch(program.name, (), (), body))
    if settings.verify():
        trace.verify_small(program, loops, _TRACED_INSTANCES)
    choice = f"{program.name}: no choice, one thread runs it in the order of the source\n"
    return Lowered(loops, tree_text, tree_text, choice)
