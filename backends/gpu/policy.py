"""Decisions of the GPU backends on transformations: which temporaries are recomputed, which operands are
stored, which reductions are split, and which statements are fused.  Every decision compares costs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tc.dtypes import DType
from tc.ir.expr import Call, IfThenElse, walk
from tc.ir.loops import WARP
from tc.ir.program import Program, Stage
from tc.options import Options
from tc.pipeline.program import ProgramPolicy
from tc.poly.fusion.fusion import Counts, FusionPolicy, Proposal
from tc.poly.scop import Scop
from tc.transforms.program.inline import Inlined
from tc.transforms.program.materialize import Operand
from tc.transforms.program.partial_sums import PartialSums
from tc.transforms.program.rfactor import chunked_reductions, is_of_columns, is_product, split_reductions

from .cost.instructions import MULTIPLY_ADD, arithmetic
from .cost.model import LAUNCH_SECONDS, SCHEDULERS
from .target import Target


def program_policy(target: Target, options: Options) -> ProgramPolicy:
    """The decisions of the passes over programs; `fusion="min"` keeps every statement as it is.

    Options that list loops (`tile`, `threads`, `blocks`) mean the loops of the source, so none is collapsed.
    """
    as_written = options.fusion == "min"
    return ProgramPolicy(
        None if as_written else recompute(target),
        None if as_written else store(target),
        None if as_written else prefix_chunk,
        partial=None if as_written else partial(target),
        phases=not as_written,
        independent=None if as_written else lambda _: True,
        collapse=not (options.tile or options.threads or options.blocks),
        interchange_without_operands=False,
    )


# ---- temporaries

_ROUND_TRIP = 2  # passes through memory: a write and a read
_RECOMPUTED_SHARE = 0.25  # of the points of a thread, those for which an operand is recomputed


def recompute(target: Target) -> Callable[[Program, Inlined], bool]:
    """Whether to recompute a temporary where it is read (`tc.transforms.program.inline`), as its traffic and
    the launch of its own kernel take longer.  Temporaries of symbolic size are kept.

    Other blocks read a stencil's temporary at neighbouring points, so a temporary needs a kernel of its own,
    or each block recomputes much of it.
    """

    def pays(program: Program, found: Inlined) -> bool:
        if found.values is None or found.same_points:
            return False
        distinct_points, executed_points = found.values
        t, value = program.func(found.producer.func).dtype, found.producer.value
        steps = sum(n for p, n in arithmetic(value, None, t).items() if p != MULTIPLY_ADD)
        loads = sum(isinstance(e, Call) and e.kind != "intrinsic" for e in walk(value))
        # The L1 cache serves one load a cycle; each scheduler issues one other instruction.
        cycles = (executed_points - distinct_points) / WARP * (steps / SCHEDULERS + loads)
        recompute_seconds = cycles / (1e9 * target.clock * target.units)
        # The loop of a reduction waits for each value, so saving a launch does not make up for it.
        launch = 0.0 if any(s.op for s, _ in found.readers) else LAUNCH_SECONDS
        return recompute_seconds <= launch + _ROUND_TRIP * distinct_points * t.itemsize / (1e9 * target.dram)

    return pays


def store(target: Target) -> Callable[[Program, Operand], bool]:
    """Whether to compute an operand of a reduction once, before it is read
    (`tc.transforms.program.materialize`).  That is for selects and functions: operands that are only
    converted or scaled cost less than copies of the wider results.

    Conditional reads are not promoted to shared memory, those of a temporary are.  Statements without
    reductions were not measured, and stay as they are.
    """

    def pays(program: Program, found: Operand) -> bool:
        t = found.value.dtype
        if found.stage.op is None or not any(
            isinstance(e, IfThenElse) or _is_function(e) for e in walk(found.value)
        ):
            return False
        size = found.points * t.itemsize
        steps = sum(n for p, n in arithmetic(found.value, None, t).items() if p != MULTIPLY_ADD)
        cycles = _RECOMPUTED_SHARE * found.instances / WARP * steps / SCHEDULERS
        recompute_seconds = cycles / (1e9 * target.clock * target.units)
        return recompute_seconds > LAUNCH_SECONDS + _ROUND_TRIP * size / (1e9 * target.dram)

    return pays


def _is_function(e: object) -> bool:
    return isinstance(e, Call) and e.kind == "intrinsic"


def partial(target: Target) -> Callable[[PartialSums], bool]:
    """Whether to take a sum of products in parts (`tc.transforms.program.partial_sums`): each is a kernel,
    whose results go through memory."""

    def pays(found: PartialSums) -> bool:
        cycles = (found.instances - found.after) / (WARP * SCHEDULERS)
        saved = cycles / (1e9 * target.clock * target.units)
        size = found.points * found.stage.value.dtype.itemsize
        return found.pays and saved > LAUNCH_SECONDS + _ROUND_TRIP * size / (1e9 * target.dram)

    return pays


def prefix_chunk(t: DType) -> int:
    """The points of a chunk of a prefix reduction (`tc.transforms.program.prefixes`): the values of one chunk
    are read by the threads of a warp."""
    return WARP


# ---- long reductions

# A reduction of at least _LONG instances is split if it has fewer results than so many for each unit: the
# larger number keeps memory busy, the smaller one leaves fewer partial results to combine.
_RESULTS_A_UNIT, _LONG = (8, 2), 1 << 14
_VERY_LONG = 1 << 17  # shorter ones are also tried whole, in one kernel; with options for loops, only whole
# The same numbers for products, whose results share what they read; a block has thousands of them.
_PRODUCT_RESULTS_A_UNIT, _LONG_PRODUCT = 16384, 1 << 24
_UNITS_A_RESULT = 4  # from one result for so many units on, reductions are also tried whole
_LONG_ATOMIC = 256  # instances of a reduction with atomic updates, which needs no second kernel


@dataclass(frozen=True, slots=True)
class SplitProgram:
    """A program with long reductions split.

    `chunks` has, for statements with atomic updates, the variables that are mapped to blocks.  `isolated` are
    statements that are not fused with others.
    """

    program: Program
    chunks: Mapping[str, Sequence[str]]
    isolated: Collection[str] = ()


def split_candidates(
    program: Program, options: Options, typical: Mapping[str, int], target: Target
) -> Iterator[SplitProgram]:
    """The programs to be tried, each once, the most promising first.

    With fewer results than a GPU runs threads, a reduction is split: into parts that another kernel combines,
    which is deterministic, or, by option, into chunks whose blocks update results atomically
    (`tc.transforms.program.rfactor`).  The search in passes.py compares these programs.
    """
    seen: set[Program] = set()
    for x in _candidates(program, options, typical, target):
        if x.program not in seen:
            seen.add(x.program)
            yield x


def _candidates(
    program: Program, options: Options, typical: Mapping[str, int], target: Target
) -> Iterator[SplitProgram]:
    unconstrained = not (options.tile or options.threads or options.blocks or options.fusion)
    least = _LONG if unconstrained else _VERY_LONG

    def blockwise_limits(s: Stage) -> tuple[int, int] | None:
        """For reductions of which a block has many results, the limit of results and the least number of
        instances."""
        if is_product(s):
            return _PRODUCT_RESULTS_A_UNIT * target.units, _LONG_PRODUCT
        return (max(_RESULTS_A_UNIT) * WARP * target.units, _VERY_LONG) if is_of_columns(s) else None

    def atomic(n: int, many: Callable[[Stage], tuple[int, int] | None] | None = None) -> SplitProgram:
        if not options.atomics:
            return SplitProgram(program, {})
        results = n * target.units
        return SplitProgram(*chunked_reductions(program, results, _LONG_ATOMIC, target.atomic, typical, many))

    def split(
        results: int, many: Callable[[Stage], tuple[int, int] | None] | None = None, long: int = least
    ) -> Program:
        return split_reductions(first.program, results, long, first.chunks, typical, many)

    first = atomic(min(_RESULTS_A_UNIT))
    programs = [split(n * target.units) for n in _RESULTS_A_UNIT]
    for x in sorted(programs, key=lambda x: x != first.program):  # unsplit where there are enough results
        yield SplitProgram(x, first.chunks)
    if unconstrained:
        if options.atomics:
            yield atomic(max(_RESULTS_A_UNIT))
            yield atomic(min(_RESULTS_A_UNIT), blockwise_limits)
        most = max(_RESULTS_A_UNIT) * target.units
        others = {f.name for f in split(most).funcs}
        other = split(most, blockwise_limits)
        # Blocks share their parts, so fusing them with other reductions is not tried.
        yield SplitProgram(other, first.chunks, tuple(s.name for s in other.stages if s.func not in others))
    # Rows that give enough blocks may be faster whole, as kernels can then be fused over them.
    if split(target.units // _UNITS_A_RESULT, long=_VERY_LONG) == first.program and not options.fusion:
        yield first


# ---- fusion

PARTS = "blocks make parts of results, which are whole when all of them have ended"

_SMALL_GROUP = 1 << 17  # instances that one block executes during a launch


def isolate(statements: Collection[str], policy: FusionPolicy) -> FusionPolicy:
    """The policy that fuses these statements with no other.

    Several blocks update their results, which are complete only at the end of all blocks.
    """
    isolated = frozenset(statements)

    def why(p: Proposal) -> str:
        updated = not isolated.isdisjoint((*p.first, *p.second))
        return PARTS if updated else policy.why(p)

    return FusionPolicy(why)


def keep_apart(number: Mapping[str, int], policy: FusionPolicy, reason: str) -> FusionPolicy:
    """The policy that does not fuse statements with different numbers, for this reason; the number of other
    statements is 0."""

    def why(p: Proposal) -> str:
        return policy.why(p) if len({number.get(s, 0) for s in (*p.first, *p.second)}) == 1 else reason

    return FusionPolicy(why)


def fusion_policy(scop: Scop, target: Target, typical: Mapping[str, int]) -> FusionPolicy:
    """When fusion pays on a GPU: the default of the option `fusion`.

    Fusion saves launches and traffic.  Only shared loops are mapped to blocks, so a kernel that shares a few
    rows leaves most of a GPU idle where its statements have more parallel loops.  Groups without a flow of
    data between them, which only read the same arrays, do not give up a parallel loop for fusion.  `typical`
    are values of the program's dynamic sizes.
    """

    counts = Counts(scop, typical)

    def is_producer(p: Proposal) -> bool:
        written = {scop.statement(s).write.buffer for s in p.first}
        return any(a.buffer in written for s in p.second for a in scop.statement(s).accesses)

    def why(p: Proposal) -> str:
        shared_tasks = counts.tasks(p.after)
        parallel = (sum(m.coincident for m in members) for members in (p.before, p.own))
        if sum(m.coincident for m in p.after) < min(parallel) and not is_producer(p):
            return "they pass nothing on, and each has more loops to share out to blocks"
        if p.level > 0 or shared_tasks >= target.units // 4:
            return ""
        groups = ((p.before, p.first), (p.own, p.second))
        if any(
            counts.tasks(m) > shared_tasks and counts.instances(names) > _SMALL_GROUP for m, names in groups
        ):
            return f"{shared_tasks} iterations would be too few for {target.units} units"
        return ""

    return FusionPolicy(why)
