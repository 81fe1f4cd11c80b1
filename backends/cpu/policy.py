"""The decisions of the cpu backend on transformations: which temporaries are recomputed, which operands are
stored, which reductions are split, and which statements share loops.  Every decision compares costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from tc.dtypes import DType
from tc.ir.evaluate import bytes_of, evaluate
from tc.ir.expr import Call, Expr, IfThenElse, IntImm, constant, inline_lets, variables, walk
from tc.ir.program import Buffer, Loop, Program, Stage
from tc.options import Options
from tc.pipeline.program import ProgramPolicy
from tc.poly.column_panels import Panel
from tc.poly.column_panels import Worth as WorthPanel
from tc.poly.delayed_updates import Update
from tc.poly.early_sums import Sum
from tc.poly.fusion.fusion import Counts, FusionPolicy, Group, Proposal
from tc.poly.scop import Access, Scop
from tc.poly.time_tiles import Choice, RowStage, Skewed, TimeTile, Worth, moves
from tc.transforms.program.columns import Column
from tc.transforms.program.inline import Inlined
from tc.transforms.program.materialize import Operand
from tc.transforms.program.prefix_loops import Columns
from tc.transforms.program.rfactor import around_rows, is_of_columns, is_product, reads_of, split_reductions

from .cost.balance import TASK_CYCLES, balanced
from .cost.work import instruction_count
from .target import LINE, Machine


def program_policy(machine: Machine, options: Options) -> ProgramPolicy:
    """The decisions of the passes over programs; `fusion="min"` keeps every statement as it is."""
    as_written = options.fusion == "min"
    if as_written:
        return ProgramPolicy(None, None)
    return ProgramPolicy(
        recompute(machine),
        store(machine),
        prefix_chunk(machine),
        prefix_rows(machine),
        partial=lambda found: found.pays,
        addends=worth_updates,
        column=column(machine),
        phases=True,
        batches=True,
        early=early(machine),
        delay=delay(machine),
        panel=panel(machine),
        time_tile=time_tile(machine),
        worth_tiles=worth_tiles(machine),
        independent=independent(machine),
    )


# Terms of a sum of products, at least, for an update of each product: the results are updated once more.
# Results for which each operand is used, at least: with less reuse the operands come from memory, and one
# pass over them is best (docs/experiments/zen-3.md).
_LONG_SUM, _MUCH_REUSE = 64, 16


def worth_updates(stage: Stage) -> bool:
    """Whether the products of a sum of products get an update each."""
    extents = {v.name: constant(v.range.extent) or 0 for v in stage.domain.vars}
    pure = {v.name for v in stage.domain.vars if v.kind == "pure"}
    uses = [math.prod(extents[n] for n in pure - _subscripts(e)) for e in reads_of(stage)]
    terms = math.prod(n for name, n in extents.items() if name not in pure)
    return terms >= _LONG_SUM and min(uses) >= _MUCH_REUSE


def _subscripts(e: Call) -> set[str]:
    return {n for a in e.args for n in variables(a)}


# ---- blocks of iterations

# Iterations of a block.  Blocks of 16 to 48 iterations cut the time of an LU decomposition of 1000 x 1000
# doubles to between a fifth and a third on two cores of an Emerald Rapids, blocks of 8 to two fifths
# (docs/experiments/emerald-rapids.md).
_BLOCK = 16


def delay(machine: Machine) -> Callable[[Program, Update], int]:
    """Iterations of a block after which an update is applied (`tc.poly.delayed_updates`), 0 for none.

    There are none where a quarter of the second cache holds the updated tensor, and none under conditions,
    which keep a product's results out of registers (a triangle of 2000 doubles a row took twice as long).
    """

    def block(program: Program, update: Update) -> int:
        buffer = program.buffer(program.func_buffers[update.stage.func])
        if update.stage.domain.conditions or not _is_sized(buffer):
            return 0
        return _BLOCK if bytes_of(buffer, {}) > machine.l2 // 4 else 0

    return block


def early(machine: Machine) -> Callable[[Program, Sum], int]:
    """Iterations of a block before which a sum begins (`tc.poly.early_sums`), 0 for none.

    There are none where half of the first cache holds the elements that all iterations of a block read, since
    these are then not fetched again from farther away.
    """

    def block(program: Program, found: Sum) -> int:
        loops = {x.name for x in found.stage.loops}
        shared = {
            program.func_buffers.get(c.name, c.name)
            for c in found.stage.calls
            if not any(loops & variables(a) for a in c.args)
        }
        buffers = [program.buffer(name) for name in shared]
        if not buffers or not all(map(_is_sized, buffers)):
            return 0
        return _BLOCK if sum(bytes_of(b, {}) for b in buffers) > machine.l1 // 2 else 0

    return block


_PANEL_USES = 4.0  # twice what the copies to and from a panel take


def panel(machine: Machine) -> WorthPanel:
    """Whether to copy the columns that a block works on (`tc.poly.column_panels`): where statements go down
    each of them more often than the copies do, and the last cache holds them."""

    def worth(program: Program, found: Panel) -> bool:
        rows = constant(program.buffer(found.buffer).box[-2].extent)
        size = program.buffer(found.buffer).dtype.itemsize * found.columns
        return found.uses > _PANEL_USES and rows is not None and rows * size <= machine.l3

    return worth


_ITERATIONS = 16  # of a tile, at most; in longer tiles memory is no longer the bottleneck


def worth_tiles(machine: Machine) -> Worth:
    """Whether to tile a sequential loop (`tc.poly.time_tiles`): the last cache does not hold the arrays that
    one iteration writes and later ones read."""

    def worth(program: Program, loop: Loop, rows: Sequence[RowStage]) -> bool:
        if not all(map(_is_sized, program.buffers)):
            return False
        state, _, fixed = _bytes_of_iteration(program, loop, rows)
        return state + fixed > machine.l3 and fixed <= machine.l2 // 4

    return worth


def time_tile(machine: Machine) -> Choice:
    """Iterations and rows of a tile of such a loop.  The rows of a tile, and the rows by which its last
    iteration lags behind, take half of the second caches together, and the rows of the tile at least half of
    that.  Where a core's part of a statement in such a tile ends sooner than a task should, they take an
    eighth of the last cache: threads wait for each other after each statement."""

    def tile(program: Program, found: Skewed) -> TimeTile | None:
        state, streams, _ = _bytes_of_iteration(program, found.loop, found.stages)
        room = machine.cores * machine.l2 // 2
        if machine.l2 / 2 < len(found.stages) * TASK_CYCLES * machine.l2_bandwidth:
            room = max(room, machine.l3 // 8)
        most = (found.end - found.low) * room // (state + streams)
        if not found.skew:
            return TimeTile(found.trips, most)
        iterations = min(most // (2 * found.skew), found.trips, _ITERATIONS)
        return TimeTile(iterations, most - found.skew * iterations)

    return tile


def _is_sized(buffer: Buffer) -> bool:
    """Whether its extents are numbers, not dynamic sizes."""
    return all(isinstance(r.extent, IntImm) for r in buffer.box)


def _bytes_of_iteration(program: Program, loop: Loop, rows: Sequence[RowStage]) -> tuple[int, int, int]:
    """The bytes that an iteration of a loop reads and writes: of arrays with a dimension for its rows, those
    that other iterations touch and those that are its own; and of other arrays."""
    sizes: dict[str, tuple[int, int]] = {}
    for r in rows:
        own = (r.stage.func, r.stage.args)
        for name, subscripts in (own, *((c.name, c.args) for c in r.stage.calls)):
            buffer = program.buffer(program.func_buffers.get(name, name))
            moving = [moves(a, r.stage, loop) for a in subscripts]
            extents = zip(moving, buffer.box, strict=True)
            size = buffer.dtype.itemsize * math.prod(evaluate(x.extent, {}) for m, x in extents if not m)
            along = any(r.row.name in variables(a) for a in subscripts)
            kind = 2 if not along else 1 if any(moving) else 0
            sizes[buffer.name] = max(sizes.get(buffer.name, (0, 2)), (size, kind))
    state, streams, fixed = (sum(n for n, kind in sizes.values() if kind == k) for k in range(3))
    return state, streams, fixed


# ---- temporaries

_TRIPS = 3  # of a line to memory: fetched before it is written, written back, read
# Vector instructions for each multiply-add, about, that a choice between an element and a constant outside
# of the array costs, though it is tested once for many elements: 3x3 convolutions took 1.05 to 1.4 times as
# long as over a copy with a border of zeros.
_GUARDED = 0.2
_COSTLY = 4.0  # vector instructions from which on a value that all rows of a result share gets a temporary
_RECOMPUTED = 0.25  # share of the vectors of a register tile for which an operand is computed anew


def recompute(machine: Machine) -> Callable[[Program, Inlined], bool]:
    """Whether to compute a temporary at each read (`tc.transforms.program.inline`): it does not fit the
    second cache, and writing and reading it takes longer.  Temporaries of symbolic size are kept."""

    def worth(program: Program, found: Inlined) -> bool:
        if found.values is None or found.same_points:
            return False
        points, instances = found.values
        itemsize = program.func(found.producer.func).dtype.itemsize
        if points * itemsize <= machine.l2:
            return False
        lanes = machine.isa.lanes(itemsize)
        value = found.producer.value
        loads = sum(isinstance(e, Call) and e.kind != "intrinsic" for e in walk(value))
        recomputing = (instances - points) / lanes * (instruction_count(value, lanes) + loads)
        return recomputing <= _TRIPS * points * itemsize / machine.bandwidth

    return worth


def store(machine: Machine) -> Callable[[Program, Operand], bool]:
    """Whether to compute an operand once, before it is read (`tc.transforms.program.materialize`): that takes
    fewer cycles than to compute it in every instance."""

    def worth(program: Program, found: Operand) -> bool:
        itemsize = found.value.dtype.itemsize
        lanes = machine.isa.lanes(max(4, itemsize))
        operations = instruction_count(found.value, lanes)
        if found.stage.op is None and operations < _COSTLY:
            return False
        loads = [e for e in walk(found.value) if isinstance(e, Call) and e.kind != "intrinsic"]
        guarded = any(isinstance(e, IfThenElse) for e in walk(found.value))
        each = _RECOMPUTED * operations + (_GUARDED if guarded else 0.0)
        size = found.points * itemsize
        rate = machine.l2_bandwidth if 2 * size <= machine.l2 else machine.l3_bandwidth
        rate = rate if size <= machine.l3 else machine.bandwidth
        storing = found.points * (_TRIPS * itemsize / rate + (operations + len(loads) + 1) / lanes)
        return found.instances / lanes * each / machine.fma_units > storing

    return worth


# Rows that read a column, from where it is worth a copy.
_ROWS = 8


def column(machine: Machine) -> Callable[[Column], bool]:
    """Whether to copy a column before rows read it (`tc.transforms.program.columns`): where there are several
    rows, of a vector at least."""
    return lambda c: c.times >= _ROWS and c.points >= machine.isa.lanes(c.read.dtype.itemsize)


def prefix_chunk(machine: Machine) -> Callable[[DType], int]:
    """The points of a chunk of a prefix reduction (`tc.transforms.program.prefixes`): the lanes of a vector,
    which then has the results of one chunk."""
    return lambda t: machine.isa.lanes(t.itemsize)


def independent(machine: Machine) -> Callable[[int | None], bool]:
    """Whether a loop whose iterations are independent becomes a dimension: where these write so many bytes in
    each iteration of the loops inside, which the second caches must hold until the next one.  Else each
    iteration finds its own elements in the cache for as long as it runs."""
    return lambda size: size is not None and size <= machine.l2 * machine.cores


def prefix_rows(machine: Machine) -> Callable[[Columns], bool]:
    """Whether a prefix reduction goes from row to row (`tc.transforms.program.prefix_loops`): where a row
    fills a vector, or where so many prefixes lie side by side that single numbers are as fast as vectors,
    which take several steps for the prefixes of their lanes."""

    def worth(found: Columns) -> bool:
        if found.width >= machine.isa.vector_bytes:
            return True
        cheap = not found.reduces and instruction_count(found.value, 1) <= _CHEAP_PREFIX
        return found.alone and cheap and found.count >= _PREFIXES * machine.cores

    return worth


_PREFIXES = 16  # for each core: those of two groups of rows that a core computes together
_CHEAP_PREFIX = 2.0  # instructions of a value that cost no more in scalars than its load does

# ---- long reductions

# Instances from which on a reduction to one or a few results is shared out among all cores.
_LONG = 1 << 17
_EACH = 4  # parts for each processor
_ROW = 16 << 10  # bytes of results up to which a row is short: pieces of longer ones are pages
_SHORT = 1 << 10  # bytes of a row from which its sum takes longer than to read it
_DEEP = 64  # rows of a part, at least
_TILE = 64  # columns, about, that several statements would share


def split(program: Program, machine: Machine, typical: Mapping[str, int]) -> Program:
    """Split long reductions (`tc.transforms.program.rfactor`), at typical values of dynamic sizes.

    A reduction to few results is split so that all cores have work.  So is one that reads memory sequentially
    while neighbours in a row go into different results: cores that shared out the columns would each read a
    piece of every row, less than a page, which no prefetcher follows.  With parts of the rows each core has
    results of its own, which are added up at the end.  Where a result sums many rows that lie far apart (a
    channel of all images), each row becomes a sum of its own, in the order of memory.
    """
    parts = _EACH * machine.cores
    return split_reductions(
        program, parts, _LONG, typical=typical, many=_memory_bound(program, machine, typical)
    )


def _memory_bound(
    program: Program, machine: Machine, typical: Mapping[str, int]
) -> Callable[[Stage], tuple[int, int] | None]:
    """For a reduction that reads beyond the second caches: up to how many results, and from how many
    instances on, to split it; None where it must not be split.

    It is not split where another statement reads or writes the same array with its results in the order of
    the rows: the two could then share loops and find the array in the cache.
    """
    sizes = {b.name: bytes_of(b, typical) for b in program.buffers}
    buffers = {**{b.name: b.name for b in program.buffers}, **program.func_buffers}
    large = {name for name, b in buffers.items() if sizes[b] > machine.l2 * machine.cores}
    read = {s.name: {buffers[e.name] for e in reads_of(s) if e.name in large} for s in program.stages}

    rows = {s.name: _in_rows(s, buffers) & {buffers[n] for n in large} for s in program.stages}

    def many(stage: Stage) -> tuple[int, int] | None:
        if stage.op is None or not read.get(stage.name) or stage.domain.conditions:
            return None
        extents = {v.name: max(0, evaluate(v.range.extent, typical)) for v in stage.domain.vars}
        pure = {v.name for v in stage.domain.vars if v.kind == "pure"}
        itemsize = program.func(stage.func).dtype.itemsize
        results = math.prod(extents[v] for v in pure)
        others = set[str]().union(*(rows[s.name] for s in program.stages if s is not stage))
        each = sum(sizes[b] for b in read[stage.name] & others) / max(1, results)
        if is_of_columns(stage, large):
            columns = {v for a in stage.args[-1:] for v in variables(a)}
            apart = math.prod(extents[v] for v in pure - columns) < machine.cores
            near = 0 < each * _TILE <= machine.l2 / 2
            parts = _EACH * machine.cores
            fits = results * itemsize <= _ROW and apart and not near
            return (results * parts, _DEEP * results * parts) if fits else None
        if around := around_rows(stage, large):
            row = math.prod(e for v, e in extents.items() if v not in around | pure)
            parts = math.prod(extents[v] for v in around)
            near = 0 < each <= machine.l2 / 2
            fits = _SHORT <= row * itemsize <= _ROW // 2 and parts > 1 and not near
            return (results * parts, results * parts * row) if fits else None
        return None

    return many


def _in_rows(s: Stage, buffers: Mapping[str, str]) -> frozenset[str]:
    """The arrays that a statement reads or writes so that neighbours in a row belong to different results."""
    pure = {v.name for v in s.domain.vars if v.kind == "pure"}
    accesses = [(e.name, e.args) for e in walk(s.value) if isinstance(e, Call) and e.name in buffers]
    found = ((s.func, s.args), *accesses)
    return frozenset(buffers[n] for n, args in found if args and variables(args[-1]) & pure)


# ---- fusion

_SMALL = 1 << 16  # instances that one core runs in the time it takes to start others a few times


def fusion_policy(scop: Scop, machine: Machine, typical: Mapping[str, int] | None = None) -> FusionPolicy:
    """When sharing loops pays on a processor: the default of the option `fusion`.

    Shared loops save traffic.  They do not pay where they leave fewer tasks than cores, cut rows of a large
    array into pieces, convert halves again and again, or push data out of the cache that is read again.
    `typical` are values of the program's dynamic sizes.
    """
    typical = typical or {}
    sizes = {b.name: bytes_of(b, typical) for b in scop.program.buffers}
    high = {b.name: math.prod(evaluate(r.extent, typical) for r in b.box[:-1]) for b in scop.program.buffers}
    halves = {b.name for b in scop.program.buffers if b.dtype.is_half}
    counts = Counts(scop, typical)

    def accesses(names: Sequence[str]) -> Iterator[tuple[str, Access]]:
        return ((n, a) for n in names for a in scop.statement(n).accesses)

    def moved(name: str, a: Access, p: Proposal) -> tuple[bool, bool]:
        """Whether the shared loops move along an array's rows, and whether along its other dimensions."""
        along = {m.vars[name] for m in p.after if name in m.vars}

        def by(subscripts: Sequence[Expr]) -> bool:
            return any(along & variables(inline_lets(e)) for e in subscripts)

        return by(a.subscripts[-1:]), by(a.subscripts[:-1])

    def cut(names: Sequence[str], others: Sequence[str], p: Proposal) -> str:
        """A large array of `names` that the shared loops would cut along its rows, at no gain; "" if none.

        It is a gain if a large array common to both groups stays in the second cache.  Of an array that the
        loops cut into columns, one column takes a cache line of each row.
        """
        theirs = {a.buffer for _, a in accesses(others)}
        for n, a in accesses(names):
            if a.buffer not in theirs or 2 * sizes[a.buffer] <= machine.l2:
                continue
            if high[a.buffer] * LINE <= machine.l2 or moved(n, a, p) != (True, False):
                return ""
        for n, a in accesses(names):
            if sizes[a.buffer] > machine.l2 and a.kind == "read" and moved(n, a, p)[0]:
                return a.buffer
        return ""

    def why(p: Proposal) -> str:
        if p.level > 0:
            return ""
        kept = counts.tasks(p.after)
        too_few = kept < 2 * machine.cores or not balanced(kept, machine.cores)
        for members, names in ((p.before, p.first), (p.own, p.second)):
            if too_few and counts.tasks(members) > kept and counts.instances(names) > _SMALL:
                return f"{kept} iterations would be too few for {machine.cores} cores"
        if len(p.after) == len(p.before) == len(p.own):
            return ""
        for members, names, others in ((p.before, p.first, p.second), (p.own, p.second, p.first)):
            if len(members) > len(p.after) and (rows := cut(names, others, p)):
                return f"rows of {rows} would be read in pieces, and nothing large common to both would stay"
        # Data that the shared loops do not move are read again in each of their iterations, and converted.
        shared = {(n, v) for m in p.after for n, v in m.vars.items()}
        repeated = {
            a.buffer
            for n, a in accesses((*p.first, *p.second))
            if not any((n, v) in shared for e in a.subscripts for v in variables(inline_lets(e)))
        }
        if any(b in halves and sizes[b] > machine.l1 for b in repeated):
            return "halves would be converted again in each iteration"
        total = sum(sizes[b] for b in repeated)
        return f"each iteration would read {total} bytes again" if total > machine.l2 // 2 else ""

    return FusionPolicy(why)


def fewest_regions_apart(program: Program, groups: Sequence[Group | str]) -> int | None:
    """The fewest regions of a plan where products of matrices have loops of their own; none where they have
    them in `groups` already: where no products share loops, and none shares some of its loops with other
    statements."""
    products = _products(program)
    joined = any(
        isinstance(g, Group) and products & set(g.statements) and not _one_product(g, products)
        for g in groups
    )
    return max(2, len(products)) if joined else None


def _one_product(g: Group, products: frozenset[str]) -> bool:
    """Whether the statements of a group are one product of matrices and statements that share all of its
    loops."""
    return len(products & set(g.statements)) == 1 and all(isinstance(b, str) for b in g.body)


def products_apart(program: Program, given: FusionPolicy) -> FusionPolicy:
    """A policy under which a product of matrices shares no loops with another product, nor with statements
    that have further loops: each product is then tiled and packed as is best for it alone."""
    products = _products(program)

    def why(p: Proposal) -> str:
        reason = given.why(p)
        both = products & set(p.first), products & set(p.second)
        same = len(p.after) == len(p.before) == len(p.own)
        if reason or not any(both) or (same and not all(both)):
            return reason
        return "products are predicted to be faster with loops of their own"

    return FusionPolicy(why)


def _products(program: Program) -> frozenset[str]:
    return frozenset(s.name for s in program.stages if s.op is not None and is_product(s))
