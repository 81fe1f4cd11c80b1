"""Promotion to shared memory of reads that the threads of a block repeat or that are not coalesced, and of
buffers that they do not write.

The footprint of a read in a tile is a strided box.  If a subscript is itself read from an array in shared
memory, the footprint has the dimensions of that array instead: the elements that the indices of a tile select
(report, §5.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from tc.dtypes import FLOAT32, DType
from tc.ir.expr import Call, Cast, Expr, IntImm, variables, walk
from tc.ir.loops import Array
from tc.ir.program import Buffer
from tc.poly.gpu.footprint import Dimension, footprint
from tc.poly.gpu.groups import Group, Reference, grouped
from tc.poly.gpu.mapping import Unit, bounded, isolated, points
from tc.poly.gpu.vectors import Rows, rows, scattered
from tc.poly.scop import Scop

LEAST_REUSE = 2  # accesses to each element of a tile from which on a copy pays


@dataclass(frozen=True, slots=True)
class Indirect:
    """The selection of the elements of an indirect read.

    The subscript at `position` is `subscript`, an expression of an element of `index`, whose dimensions
    replace it.  `call` is the read, `point` the axes of the statement's variables, with their first points.
    """

    index: Shared
    position: int
    subscript: Expr
    call: Call
    point: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """A read (its number among the reads of `statement`) of `buffer` that is redirected to `array`."""

    statement: str
    read: int
    buffer: Buffer
    array: Array
    dimensions: tuple[Dimension, ...]
    rows: Rows
    indirect: Indirect | None = None
    # The axis of double buffering: its tiles alternate in the first dimension of `array`, of extent 2.
    alternates_over: str = ""

    @property
    def bytes(self) -> int:
        return size_of(self.array)

    @property
    def moves(self) -> frozenset[str]:
        """The axes with whose tiles the footprint moves."""
        return frozenset(t.axis for d in self.dimensions for t in d.terms if t.moves)


def size_of(a: Array) -> int:
    """The size in bytes, with padding."""
    extents = [n.value for n in a.shape if isinstance(n, IntImm)]
    if extents:
        extents[-1] += a.padding
    return math.prod(extents) * a.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Refused:
    """The reason why a buffer has no copy; `oversized`: only that it would not fit."""

    buffer: str
    why: str
    oversized: bool = False

    def __str__(self) -> str:
        return f"{self.buffer}: {self.why}"


@dataclass(frozen=True, slots=True)
class Promotion:
    """The reads that are promoted to shared memory, and for each other buffer the reason why not."""

    taken: tuple[Shared, ...] = ()
    refused: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True)
class CopyPolicy:
    """What is copied to shared memory, besides how much of it there is.

    `reuse`: how often an element of a copy must be used.  `double_buffered`: copies are asynchronous, for
    double buffering.  `staged`: what a warp would fetch in many more sectors than it needs
    (`vectors.scattered`) need be used but once, and units without loops of their own have copies, too.
    """

    reuse: float = LEAST_REUSE
    double_buffered: bool = False
    staged: bool = False

    @property
    def converting(self) -> bool:
        """Whether halves are copied as the float32 that they are used as, where there is room: asynchronous
        copies cannot convert."""
        return not self.double_buffered


@dataclass(frozen=True, slots=True)
class Copying:
    """Copies to shared memory for the units of a region: its threads, the buffers that it writes, which are
    not copied, and new names of arrays."""

    scop: Scop
    threads: Sequence[tuple[str, int]]
    written: AbstractSet[str]
    name: Callable[[str], str]
    policy: CopyPolicy


def promoted(copying: Copying, unit: Unit, budget: int, whole: bool) -> Promotion:
    """The reads of a unit to promote, those that are used most first, of at most `budget` bytes.  `whole`:
    footprints are those of whole tiles, whose points beyond an axis run as well."""
    scop, threads, policy = copying.scop, copying.threads, copying.policy
    out: list[Shared] = []
    refused: dict[str, Refused] = {}
    left = budget

    def refuse(buffer: str, why: str, oversized: bool = False) -> None:
        refused.setdefault(buffer, Refused(buffer, why, oversized))

    def take(candidates: Sequence[tuple[float, float, list[list[Shared]]]]) -> None:
        """Promote the first form of each candidate that fits."""
        nonlocal left
        for reuse, enough, forms in sorted(candidates, key=lambda c: -c[0]):
            found = next((f for f in forms if f[0].bytes <= left), forms[-1])
            same = next((y for y in out if _same(found[0], y)), None)
            if same is not None:
                out.extend(replace(x, array=same.array) for x in found)
            elif reuse < enough:
                why = "once" if reuse == 1 else f"{reuse:.3g} times"
                refuse(found[0].buffer.name, f"its elements are used {why} in a tile")
            elif found[0].bytes > left:
                why = f"a copy takes {found[0].bytes} bytes, and {left} are left"
                refuse(found[0].buffer.name, why, oversized=True)
            else:
                array = replace(found[0].array, name=copying.name(found[0].buffer.name))
                out.extend(replace(x, array=array) for x in found)
                left -= size_of(array)

    references = [r for s in unit.statements for r in _references(copying, unit, s, whole)]
    direct: list[tuple[float, float, list[list[Shared]]]] = []
    for g in grouped(references):
        once = policy.staged and any(scattered(unit, threads, r.buffer, r.box) for r in g.members)
        types = [FLOAT32] if policy.converting and all(r.as_float for r in g.members) else []
        forms = [_copied(unit, threads, g, t) for t in (*types, g.buffer.dtype)]
        direct.append((g.reuse, min(1.0, policy.reuse) if once else policy.reuse, forms))
    take(direct)
    indirect = (c for s in unit.statements for c in _indirect(copying, unit, s, out, whole))
    take([(reuse, policy.reuse, [[x]]) for reuse, x in indirect])
    copied = {(x.statement, x.read) for x in out}
    for s in unit.statements:
        for number, a in enumerate(scop.statement(s).reads):
            if a.unknown and (s, number) not in copied:
                refuse(a.buffer, "data choose its elements")
    return Promotion(tuple(out), tuple(refused.values()))


def _references(copying: Copying, unit: Unit, s: str, whole: bool) -> Iterator[Reference]:
    """The reads of a statement whose footprint in a tile is a box of several elements."""
    scop = copying.scop
    reads = scop.statement(s).reads
    # Copied indices select what is copied, so all of them must be read by an instance.
    selecting = {c for a in reads for i in a.unknown if a.read for c in _calls(a.read.subscripts[i])}
    for number, a in enumerate(reads):
        checked = a.read is not None and a.read.call.checked
        if a.buffer in copying.written or not a.subscripts or a.unknown or checked:
            continue
        box = footprint(unit, s, a.subscripts, whole=whole, strided=True)
        # A read of one element by all threads at once is a broadcast, not reuse.
        if box is not None and math.prod(d.size for d in box) > 1:
            buffer, unguarded = scop.program.buffer(a.buffer), _unguarded(scop, unit, s, whole)
            alone = a.read is not None and a.read.call in selecting
            as_float = buffer.dtype.is_half and a.read is not None and _as_float(scop, s, a.read.call)
            yield Reference(s, number, buffer, box, _instances(unit, s), unguarded, not alone, as_float)


def _as_float(scop: Scop, s: str, call: Call) -> bool:
    """Whether a statement converts all occurrences of a read to float32."""
    every = list(walk(scop.statement(s).stage.value))
    as_float = sum(isinstance(e, Cast) and e.dtype == FLOAT32 and e.value == call for e in every)
    return 0 < as_float == sum(e == call for e in every)


def _copied(unit: Unit, threads: Sequence[tuple[str, int]], group: Group, dtype: DType) -> list[Shared]:
    """The reads of a group from its copy of this type; the layout of rows suits the first of them."""
    out: list[Shared] = []
    array: Array | None = None
    for r in group.members:
        padding = None if array is None else array.padding
        layout = rows(unit, threads, r.buffer, dtype, r.box, True, r.unguarded, padding)
        array = array or _array(dtype, r.box, layout)
        out.append(Shared(r.statement, r.read, r.buffer, array, r.box, layout))
    return out


def _indirect(
    copying: Copying, unit: Unit, s: str, shared_reads: Sequence[Shared], whole: bool
) -> Iterator[tuple[float, Shared]]:
    """The same of reads at a subscript that is read from `memory`.  It is checked when copies are made, so
    all instances of the tile must be there and make the read."""
    scop = copying.scop
    statement = scop.statement(s)
    reads = statement.reads
    if statement.residual or statement.stage.domain.conditions:
        return
    for number, a in enumerate(reads):
        if a.buffer in copying.written or len(a.unknown) != 1 or a.read is None or a.read.guards:
            continue
        (selected,) = a.unknown
        if set(a.read.call.checked) - {selected}:
            continue
        subscript = a.read.subscripts[selected]
        calls = _calls(subscript)
        inside = frozenset[str]().union(*(variables(c) for c in calls))
        if len(calls) != 1 or variables(subscript) - inside:
            continue
        mine = (x for x in shared_reads if x.statement == s)
        index = next((x for x in mine if (r := reads[x.read].read) and r.call == calls[0]), None)
        others = [e for i, e in enumerate(a.subscripts) if i != selected]
        found = footprint(unit, s, others, whole=whole, strided=True)
        if index is None or found is None:
            continue
        buffer = scop.program.buffer(a.buffer)
        dimensions = (*found[:selected], *index.dimensions, *found[selected:])
        # A row is contiguous in memory too, unless the index selects its elements.
        contiguous = selected != len(buffer.box) - 1
        unguarded = _unguarded(scop, unit, s, whole)
        layout = rows(unit, copying.threads, buffer, buffer.dtype, dimensions, contiguous, unguarded)
        axes = {x.vars[s]: (x.name, x.typical_min) for x, _ in (*unit.axes, *unit.own) if s in x.vars}
        point = tuple(axes[v] for v in statement.stage.domain.names)
        yield (
            _instances(unit, s) / math.prod(d.size for d in dimensions),
            Shared(
                s,
                number,
                buffer,
                _array(buffer.dtype, dimensions, layout),
                dimensions,
                layout,
                Indirect(index, selected, subscript, a.read.call, point),
            ),
        )


def _unguarded(scop: Scop, unit: Unit, s: str, whole: bool) -> bool:
    """Whether a statement runs at all points of all tiles, of those that are isolated, or at so many points
    of its own loops."""
    if isolated(scop, unit, s):
        return True
    if not bounded(scop, unit, s):
        return False
    return whole or all(
        a.size is None and a.first is None and a.typical_extent % (points(a, m) or 1) == 0
        for a, m in unit.axes
        if s in a.vars
    )


def _calls(e: Expr) -> list[Call]:
    return [c for c in walk(e) if isinstance(c, Call) and c.kind != "intrinsic"]


def _instances(unit: Unit, s: str) -> int:
    """Of a statement, in a tile."""
    return math.prod(points(x, m) or 1 for x, m in (*unit.axes, *unit.own) if s in x.vars)


def _array(dtype: DType, found: Sequence[Dimension], layout: Rows) -> Array:
    """The array for a footprint, named once it is promoted."""
    return Array("", dtype, tuple(IntImm(d.size) for d in found), "shared", padding=layout.padding)


def _same(x: Shared, y: Shared) -> bool:
    """Whether two reads can go to one array."""
    a, b = x.indirect, y.indirect
    indices = (a is None) == (b is None) and (a is None or b is None or a.index.array == b.index.array)
    return (
        indices
        and x.buffer == y.buffer
        and [d.place for d in x.dimensions] == [d.place for d in y.dimensions]
    )
