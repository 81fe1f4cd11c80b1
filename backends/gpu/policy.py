"""What the GPU backends decide about transformations: which temporaries are recomputed, which operands are
stored, which reductions are split, and which statements share loops.  Every decision is one of cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tc.ir.expr import Call, IfThenElse, walk
from tc.ir.loops import WARP
from tc.ir.program import Program, Stage
from tc.options import Options
from tc.pipeline.program import ProgramPolicy
from tc.poly.fusion.fusion import Counts, FusionPolicy, Proposal
from tc.poly.scop import Scop
from tc.transforms.program.inline import Inlined
from tc.transforms.program.materialize import Operand
from tc.transforms.program.rfactor import chunked_reductions, is_of_columns, is_product, split_reductions

from .cost.instructions import MULTIPLY_ADD, arithmetic
from .cost.model import LAUNCH, SCHEDULERS
from .target import Target


def program_policy(target: Target, options: Options) -> ProgramPolicy:
    """The decisions of the passes over programs; `fusion="min"` keeps every statement as it is.

    Options that count loops (`tile`, `threads`, `blocks`) are for the loops of the source, so none is merged.
    """
    as_written = options.fusion == "min"
    return ProgramPolicy(
        None if as_written else recompute(target),
        None if as_written else store(target),
        collapse=not (options.tile or options.threads or options.blocks),
        interchange_without_operands=False,
    )


# ---- temporaries

_TRIPS = 2  # through memory: written and read
_RECOMPUTED = 0.25  # of the points of a thread, those for which an operand is computed anew


def recompute(target: Target) -> Callable[[Program, Inlined], bool]:
    """Whether to compute a temporary where it is read (`tc.transforms.program.inline`): its trip through
    memory and the launch of its own kernel take longer.  Temporaries of symbolic size are kept.

    Threads of other blocks read what a stencil's temporary has at neighbouring points, so a temporary needs a
    kernel of its own, or a block computes much of it alone.
    """

    def worth(program: Program, found: Inlined) -> bool:
        if found.values is None or found.same_points:
            return False
        once, each = found.values
        t, value = program.func(found.producer.func).dtype, found.producer.value
        steps = sum(n for p, n in arithmetic(value, None, t).items() if p != MULTIPLY_ADD)
        loads = sum(isinstance(e, Call) and e.kind != "intrinsic" for e in walk(value))
        # Of a load the first cache takes a request each cycle, of other instructions all schedulers have one.
        cycles = (each - once) / WARP * (steps / SCHEDULERS + loads)
        again = cycles / (1e9 * target.clock * target.units)
        # The loops of a reduction wait for each value: a launch is no measure for these.
        launch = 0.0 if any(s.op for s, _ in found.readers) else LAUNCH
        return again <= launch + _TRIPS * once * t.itemsize / (1e9 * target.dram)

    return worth


def store(target: Target) -> Callable[[Program, Operand], bool]:
    """Whether to compute an operand of a reduction once, before it is read
    (`tc.transforms.program.materialize`): a choice or a function, as numbers that are only converted or
    scaled cost less than the copies of wider ones.

    What is read under a condition has no copy in shared memory; a temporary has.  A statement without
    reductions was not measured, and stays as it is.
    """

    def worth(program: Program, found: Operand) -> bool:
        t = found.value.dtype
        if found.stage.op is None or not any(
            isinstance(e, IfThenElse) or _function(e) for e in walk(found.value)
        ):
            return False
        size = found.points * t.itemsize
        steps = sum(n for p, n in arithmetic(found.value, None, t).items() if p != MULTIPLY_ADD)
        cycles = _RECOMPUTED * found.instances / WARP * steps / SCHEDULERS
        again = cycles / (1e9 * target.clock * target.units)
        return again > LAUNCH + _TRIPS * size / (1e9 * target.dram)

    return worth


def _function(e: object) -> bool:
    return isinstance(e, Call) and e.kind == "intrinsic"


# ---- long reductions

# Results for each unit below which long reductions are done in parts (so many keep memory busy; with fewer
# there is less to put together), and how many instances are long.
_PARTS, _LONG = (8, 2), 1 << 14
_VERY_LONG = 1 << 17  # up to here they are tried whole, too: one kernel; if options name loops, only so
# The same where results share what they read, of which a block has thousands.
_OF_PRODUCTS, _LONG_PRODUCT = 16384, 1 << 24
_ENOUGH = 4  # units for each result, from where on the same reductions are also tried whole
_LONG_ATOMIC = 256  # the same if results are to be updated atomically, which needs no second kernel


@dataclass(frozen=True, slots=True)
class InParts:
    """A program with long reductions in parts.

    `chunks` has, for statements that update results atomically, the variables that are dealt to blocks.
    `alone` are statements that share loops with no others.
    """

    program: Program
    chunks: Mapping[str, Sequence[str]]
    alone: Collection[str] = ()


def in_parts(
    program: Program, options: Options, typical: Mapping[str, int], target: Target
) -> Iterator[InParts]:
    """The programs to be tried, each once, the likeliest first.

    With fewer results than a GPU runs threads, a reduction is split, too: into parts that another kernel adds
    up, which is deterministic, or, by option, into chunks whose blocks update results atomically
    (`tc.transforms.program.rfactor`).  Which of these programs is best is not decided here.
    """
    seen: set[Program] = set()
    for x in _candidates(program, options, typical, target):
        if x.program not in seen:
            seen.add(x.program)
            yield x


def _candidates(
    program: Program, options: Options, typical: Mapping[str, int], target: Target
) -> Iterator[InParts]:
    free = not (options.tile or options.threads or options.blocks or options.fusion)
    least = _LONG if free else _VERY_LONG

    def blockwise(s: Stage) -> tuple[int, int] | None:
        """For reductions of which a block has many results: up to how many, and from how many instances
        on."""
        if is_product(s):
            return _OF_PRODUCTS * target.units, _LONG_PRODUCT
        return (max(_PARTS) * WARP * target.units, _VERY_LONG) if is_of_columns(s) else None

    def atomic(n: int, many: Callable[[Stage], tuple[int, int] | None] | None = None) -> InParts:
        if not options.atomics:
            return InParts(program, {})
        results = n * target.units
        return InParts(*chunked_reductions(program, results, _LONG_ATOMIC, target.atomic, typical, many))

    def split(
        results: int, many: Callable[[Stage], tuple[int, int] | None] | None = None, long: int = least
    ) -> Program:
        return split_reductions(first.program, results, long, first.chunks, typical, many)

    first = atomic(min(_PARTS))
    programs = [split(n * target.units) for n in _PARTS]
    for x in sorted(programs, key=lambda x: x != first.program):  # whole if the results are enough
        yield InParts(x, first.chunks)
    if free:
        if options.atomics:
            yield atomic(max(_PARTS))
            yield atomic(min(_PARTS), blockwise)
        most = max(_PARTS) * target.units
        known = {f.name for f in split(most).funcs}
        other = split(most, blockwise)
        # Their blocks share out the parts: no time is spent on loops that these have in common with sums.
        yield InParts(other, first.chunks, tuple(s.name for s in other.stages if s.func not in known))
    # Rows that are blocks enough may be better whole: then kernels share them.
    if split(target.units // _ENOUGH, long=_VERY_LONG) == first.program and not options.fusion:
        yield first


# ---- fusion

PARTS = "blocks make parts of results, which are whole when all of them have ended"

_SMALL = 1 << 17  # instances that one block runs in the time that a launch takes


def apart(statements: Collection[str], policy: FusionPolicy) -> FusionPolicy:
    """The policy under which these statements share loops with no other.

    Several blocks update their results, which are complete only when all blocks have ended.
    """
    alone = frozenset(statements)

    def why(p: Proposal) -> str:
        updated = not alone.isdisjoint((*p.first, *p.second))
        return PARTS if updated else policy.why(p)

    return FusionPolicy(why)


def within(number: Mapping[str, int], policy: FusionPolicy, reason: str) -> FusionPolicy:
    """The policy that keeps statements of different numbers (0 if they have none) apart, for this reason."""

    def why(p: Proposal) -> str:
        return policy.why(p) if len({number.get(s, 0) for s in (*p.first, *p.second)}) == 1 else reason

    return FusionPolicy(why)


def fusion_policy(scop: Scop, target: Target, typical: Mapping[str, int]) -> FusionPolicy:
    """When sharing loops pays on a GPU: the default of the option `fusion`.

    Shared loops save launches and traffic.  Only shared loops are dealt to blocks, so a kernel that shares a
    few rows leaves most of a GPU idle where its parts have more loops to deal out.  Groups that only read the
    same arrays and pass nothing on do not give up a parallel loop for it.  `typical` are values of the
    program's dynamic sizes.
    """

    counts = Counts(scop, typical)

    def passes_on(p: Proposal) -> bool:
        written = {scop.statement(s).write.buffer for s in p.first}
        return any(a.buffer in written for s in p.second for a in scop.statement(s).accesses)

    def why(p: Proposal) -> str:
        kept = counts.tasks(p.after)
        parallel = (sum(m.coincident for m in members) for members in (p.before, p.own))
        if sum(m.coincident for m in p.after) < min(parallel) and not passes_on(p):
            return "they pass nothing on, and each has more loops to share out to blocks"
        if p.level > 0 or kept >= target.units // 4:
            return ""
        groups = ((p.before, p.first), (p.own, p.second))
        if any(counts.tasks(m) > kept and counts.instances(names) > _SMALL for m, names in groups):
            return f"{kept} iterations would be too few for {target.units} units"
        return ""

    return FusionPolicy(why)
