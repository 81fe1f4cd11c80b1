"""Candidates: the register tiles that a nest may have, and which loop runs in lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tc.options import Options
from tc.poly.tile_plan import Axis, Nest, Phase, PhaseTile, Tile

from ..cost import dot
from ..cost.cache_lines import outer_order, single_pass_reads
from ..cost.code_size import MAX_LINES, code_lines
from ..cost.register_pressure import accumulators_per_point, fits_registers
from ..cost.register_tile import Candidate
from ..cost.work import NestContext, Work
from ..isa import FEW_REGISTERS
from ..target import Machine

# Points of an axis in a register tile, beside numbers that divide the axis; and, with lanes along another
# axis, all points of an axis of at most `_WHOLE_AXIS`.
_COUNTS = frozenset([1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16])
_MOST_POINTS = max(_COUNTS)
_WHOLE_AXIS = 28
_HALF_WIDTH_GAIN = 0.08  # share of the lanes along an axis, at least, that vectors of half the width save
_TRANSPOSED_ROWS = (4, 8)  # rows that are transposed together
_READ_REGISTERS = 3  # registers for loads, where sums of columns have all others
_SHORT_ROW = 512  # elements whose sum takes about as long as that of the lanes
_MOST_VECTORS = 256  # vectors of a register tile that is given, at most
_MOST_PERIODS = 9  # vectors along an axis of which quotients or remainders are taken, at most
_MOST_LINES = 4 * MAX_LINES  # lines of LLVM's text of a register tile that is given, at most
_MOST_UNROLLED = 64  # iterations unrolled by the option, at most


def register_tiles(
    context: NestContext, extents: Mapping[str, int], pack: bool
) -> list[tuple[Candidate, str]]:
    """The register tiles of a nest whose axes have these extents, with labels; `pack`: the option asks for
    packs."""
    nest, registers = context.nest, context.machine.isa.registers
    plain = tuple(_phase_tile(p, None, _lanes(context), 1) for p in nest.phases)
    most = (registers - (3 if registers <= FEW_REGISTERS else 6)) // accumulators_per_point(
        nest, context.work
    )
    scalar = Candidate({a.name: Tile(extents[a.name]) for a in nest.axes}, plain, frozenset())
    out = [(scalar, "scalar")]
    for v in nest.axes:
        if not v.reductions and extents[v.name] >= 2 and not _has_dynamic_stride(context, v.name):
            out += _with_lanes_along(context, v, plain, extents, most, pack)
    return [*out, *_with_private_lanes(context, extents, most)]


def _with_lanes_along(
    context: NestContext,
    v: Axis,
    plain: tuple[PhaseTile, ...],
    extents: Mapping[str, int],
    most: int,
    pack: bool,
) -> Iterator[tuple[Candidate, str]]:
    """The register tiles with lanes along an axis of the nest, of at most `most` vectors."""
    nest, work, machine = context.nest, context.work, context.machine
    lanes, e = _lanes(context), extents[v.name]
    even, transposed = _even_axes(context, extents)
    packs = _worth_packing(context, v.name, extents, pack)
    moved = {n for r in context.refs if (r.statement, r.read) in packs for n in r.strides}
    # The outermost loop is shared out among tasks.
    whole = even - moved - set(sorted(outer_order(context), key=lambda n: n not in moved)[:1])
    rows = any(single_pass_reads(context, p, v.name) for p in nest.phases)
    others = [a for a in nest.axes if not a.reductions and a is not v]
    for width, counts in _widths(e, lanes, machine):
        if rows and width == lanes:  # whole rows, or as few pieces as possible
            vectors = -(-e // width)
            counts = (*counts, -(-vectors // -(-vectors // (machine.isa.registers - _READ_REGISTERS))))
        counts = (*counts, *_whole_periods(work, v.name, width, counts))
        dotted = dot.dot_tiles(nest, work, v.name, width, plain, machine.isa)
        for vectors in counts:
            if vectors > 1 and (vectors - 1) * width >= e:
                break
            for tile in _tile_shapes(context, others, extents, max(1, most // vectors), transposed=True):
                tiles = {
                    a.name: Tile(
                        extents[a.name],
                        points := tile.get(a.name, 1),
                        even=a.name in whole
                        and not (a.name in transposed and points % _TRANSPOSED_ROWS[0] == 0),
                    )
                    for a in nest.axes
                }
                tiles[v.name] = Tile(e, min(vectors * width, -(-e // width) * width), width)
                if not fits_registers(nest, work, tiles, machine.isa):
                    continue
                label = f"lanes {v.name} x{vectors}" + (f" of {width}" if width < min(lanes, e) else "")
                label += "".join(f", {k} x{n}" for k, n in tile.items() if n > 1)
                in_place, label = label, label + (f", {len(packs)} packed" if packs else "")
                yield Candidate(tiles, plain, packs), label
                if packs and not pack and _used_once(work, packs, tiles, extents):
                    yield Candidate(tiles, plain, frozenset()), in_place
                if dotted is not None:
                    needed = packs | {(p.dot.statement, p.dot.packed) for p in dotted if p.dot is not None}
                    yield Candidate(tiles, dotted, needed), f"{label}, dot products"


def _with_private_lanes(
    context: NestContext, extents: Mapping[str, int], most: int
) -> Iterator[tuple[Candidate, str]]:
    """The register tiles with lanes along loops of the phases, of at most `most` vectors."""
    axes = [a for a in context.nest.axes if not a.reductions]
    for private in _private_axes(context):
        yield from _with_lanes_of_phases(context, private, axes, extents, most)


def _private_axes(context: NestContext) -> list[list[str | None]]:
    """For each phase the loop that its lanes may go along: of each the best, then for one of them another."""
    found = [_vector_axes(context, p) for p in context.nest.phases]
    best = [b for b, _ in found]
    choices = [best, *([*best[:i], v, *best[i + 1 :]] for i, (_, others) in enumerate(found) for v in others)]
    return [c for c in choices if any(c)]


def _with_lanes_of_phases(
    context: NestContext,
    private: Sequence[str | None],
    axes: Sequence[Axis],
    extents: Mapping[str, int],
    most: int,
) -> Iterator[tuple[Candidate, str]]:
    """The register tiles with lanes along these loops of the phases."""
    nest, work = context.nest, context.work
    shapes = _tile_shapes(context, axes, extents, most, transposed=False)
    for tile in shapes + _short_rows(context, axes, private, extents):
        n = math.prod(tile.values())
        for accumulators in (1, 2, 4, 8):
            if n * accumulators > most:
                continue
            phases = tuple(
                _phase_tile(p, v, _lanes(context), accumulators)
                for p, v in zip(nest.phases, private, strict=True)
            )
            dotted = dot.private_dot_tiles(nest, work, phases, context.machine.isa)
            tiles = {a.name: Tile(extents[a.name], tile.get(a.name, 1)) for a in nest.axes}
            label = "lanes " + "/".join(sorted({v for v in private if v})) + f" x{accumulators}"
            label += "".join(f", {k} x{x}" for k, x in tile.items() if x > 1)
            yield Candidate(tiles, phases, frozenset()), label
            if dotted is not None:
                yield Candidate(tiles, dotted, frozenset()), f"{label}, dot products"


def _even_axes(context: NestContext, extents: Mapping[str, int]) -> tuple[set[str], set[str]]:
    """The axes whose register tiles may have two lengths, to divide the axis evenly; and those of them along
    which results are contiguous: these are transposed and stored in rows, which should be whole."""
    written = [r for r in context.refs if r.written]
    static = {a.name for a in context.nest.axes if a.size is None and extents[a.name] == a.typical_extent}
    return static, {n for n in static if any(r.strides.get(n, 0) == 1 for r in written)}


def _lanes(context: NestContext) -> int:
    """Lanes of a vector: of float32, or of the widest type that the nest moves."""
    widest = max((r.itemsize for r in context.refs if not r.indirect), default=4)
    return context.machine.isa.lanes(max(4, widest))


def _widths(extent: int, lanes: int, machine: Machine) -> list[tuple[int, Sequence[int]]]:
    """Lanes of a vector along an axis, and how many vectors: the machine's lanes, and half of them where that
    leaves fewer lanes empty and costs nothing else."""
    width = min(lanes, 1 << (extent - 1).bit_length())
    out: list[tuple[int, Sequence[int]]] = [(width, range(1, 5))]
    half = width // 2
    bytes_each = machine.isa.vector_bytes // machine.isa.lanes(4)
    whole, halves = machine.issue(width * bytes_each)[0], machine.issue(half * bytes_each)[0]
    saved = -(-extent // width) * width - -(-extent // half) * half if half else 0
    if width == lanes and halves >= 2 * whole and saved >= _HALF_WIDTH_GAIN * extent:
        out.append((half, range(2, 8)))
    return out


def _whole_periods(work: Mapping[str, Work], axis: str, width: int, counts: Sequence[int]) -> list[int]:
    """Vectors after which quotients and remainders of their lanes begin anew."""
    periods = [r.periods[axis] for w in work.values() for r in w.refs if axis in r.periods]
    vectors = math.lcm(width, *periods) // width
    return [vectors] if periods and vectors <= _MOST_PERIODS and vectors not in counts else []


def _tile_shapes(
    context: NestContext, axes: Sequence[Axis], extents: Mapping[str, int], most: int, *, transposed: bool
) -> list[dict[str, int]]:
    """Shapes of register tiles with points of at most two axes.

    A tile pays where data are reused: along an axis that some reference of a phase with loops does not depend
    on; and, if `transposed`, where lanes run along another axis than the contiguous one of the results.
    """
    if not any(p.axes for p in context.nest.phases):
        # A transposing copy: rows along which results are contiguous, as many as fit a vector; or pairs, if
        # the reads do not come in pairs.
        refs = context.refs
        along = {n for r in refs if r.written for n, s in r.strides.items() if s == 1}
        unread = along - {n for r in refs if not r.written for n, s in r.strides.items() if s}
        rows = next(
            (a for a in axes if a.name in along and extents[a.name] >= (2 if a.name in unread else 4)), None
        )
        return [{}] if rows is None else [{}, {rows.name: min(16, extents[rows.name])}]
    inner = {a.name for p in context.nest.phases for a in p.axes}
    moving = [r for r in context.refs if not r.written and (set(r.strides) & inner or r.indirect & inner)]
    useful = [
        a
        for a in axes
        if extents[a.name] > 1
        and any(not r.strides.get(a.name, 0) and a.name not in r.indirect for r in moving)
    ]
    useful = sorted(useful, key=lambda a: -extents[a.name])[:3]
    options: list[list[tuple[str, int]]] = [
        [(a.name, n) for n in _point_counts(extents[a.name], transposed)] for a in useful
    ]
    if transposed:
        # Rows along which results are contiguous are transposed before they are stored, which takes several.
        options += [
            [(a.name, n) for n in (1, *_TRANSPOSED_ROWS) if n <= extents[a.name]]
            for a in axes
            if a not in useful
            and extents[a.name] >= _TRANSPOSED_ROWS[0]
            and any(r.written and r.strides.get(a.name, 0) == 1 for r in context.refs)
        ]
    out: list[dict[str, int]] = []

    def longer(tile: dict[str, int], points: int, several: int) -> None:
        """The tiles that begin so."""
        if len(tile) == len(options):
            out.append(tile)
            return
        for name, n in options[len(tile)]:
            if points * n <= most and several + (n > 1) <= 2:
                longer({**tile, name: n}, points * n, several + (n > 1))

    longer({}, 1, 0)
    most_used = max(
        (math.prod(t.values()) for t in out if max(t.values(), default=1) <= _MOST_POINTS), default=1
    )
    kept = [t for t in out if (n := math.prod(t.values())) <= 2 or 3 * n >= most_used]
    return kept or [{}]


def _short_rows(
    context: NestContext, axes: Sequence[Axis], private: Sequence[str | None], extents: Mapping[str, int]
) -> list[dict[str, int]]:
    """Shapes with several contiguous results, each the sum of a short row: their lanes are
    reduced together."""
    sums = [
        a.typical_extent
        for p, v in zip(context.nest.phases, private, strict=True)
        for a in p.axes
        if a.name == v and any(context.work[s].update for s in p.statements)
    ]
    along = {n for r in context.refs if r.written for n, s in r.strides.items() if s == 1}
    if not sums or min(sums) > _SHORT_ROW or any(r.indirect for r in context.refs):
        return []
    return [{a.name: n} for a in axes if a.name in along for n in _TRANSPOSED_ROWS if n <= extents[a.name]]


def _point_counts(extent: int, whole: bool) -> list[int]:
    """Points of an axis in a register tile; `whole`: also all points of a short axis."""
    found = [n for n in range(1, min(extent, _MOST_POINTS) + 1) if n in _COUNTS or extent % n == 0]
    return [*found, extent] if whole and _MOST_POINTS < extent <= _WHOLE_AXIS else found


def _phase_tile(p: Phase, vector: str | None, lanes: int, accumulators: int) -> PhaseTile:
    if not p.axes:
        return PhaseTile()
    if vector is None:
        last = p.axes[-1].typical_extent
        return PhaseTile(unroll=4 if last >= 8 else max(1, last))
    extent = next(a.typical_extent for a in p.axes if a.name == vector)
    width = min(lanes, 1 << (max(extent, 1) - 1).bit_length())
    while accumulators > 1 and accumulators * width > extent:
        accumulators //= 2
    return PhaseTile(vector, width, accumulators)


def _has_dynamic_stride(context: NestContext, axis: str) -> bool:
    """Whether the elements that a nest writes have a dynamic stride along an axis: the emitter has no code
    for such lanes."""
    written = {r.buffer for r in context.refs if r.written}
    return any(axis in r.dynamic for r in context.refs if r.buffer in written)


def _vector_axes(context: NestContext, p: Phase) -> tuple[str | None, list[str]]:
    """The loop of a phase along which most references are contiguous, None where none is worth lanes; and the
    longest of the others along which at least one is."""
    scores: dict[str, float] = {}
    contiguous: dict[str, int] = {}
    for a in p.axes:
        if a.typical_extent < 2 or _has_dynamic_stride(context, a.name):
            continue
        found = 1.0
        for s in p.statements:
            for r in context.work[s].refs:
                stride = r.strides.get(a.name, 0)
                if a.name in r.indirect or stride not in (0, 1):
                    found -= 0.5
                elif stride == 1:
                    found += 1.0
                    contiguous[a.name] = a.typical_extent
        scores[a.name] = found
    best = max((a for a in scores if scores[a] > 0), key=lambda a: scores[a], default=None)
    others = sorted((a for a in contiguous if a != best), key=lambda a: -contiguous[a])
    return best, others[:1]


def _worth_packing(
    context: NestContext, vector: str, extents: Mapping[str, int], wanted: bool
) -> frozenset[tuple[str, int]]:
    """The reads that are worth a packed copy when lanes run along `vector`; with `wanted`, all that are read
    more than once."""
    inner = {a.name: a.typical_extent for p in context.nest.phases for a in p.axes}
    # A pack over a loop of dynamic length is filled block by block, which only phases of one loop can do.
    endless = {a.name for p in context.nest.phases for a in p.axes if a.size is not None and len(p.axes) > 1}
    written = {r.buffer for w in context.work.values() for r in w.refs if r.written}
    out: set[tuple[str, int]] = set()
    for w in context.work.values():
        for r in w.refs:
            stride = r.strides.get(vector, 0)
            moving = [a for a in r.strides if a in inner and r.strides[a]]
            if r.written or not r.plain or r.buffer in written or not stride or not moving:
                continue
            if endless & set(moving):
                continue
            reuse = math.prod(e for a, e in extents.items() if not r.strides.get(a, 0))
            rows = math.prod(inner[a] for a in moving if abs(r.strides[a]) * r.itemsize >= 256)
            pays = reuse >= 4 and (stride != 1 or (rows >= 64 and reuse >= 16))
            if (pays or (wanted and reuse > 1)) and not r.windows:
                out.add((r.statement, r.read))
    return frozenset(out)


def _used_once(
    work: Mapping[str, Work],
    packs: frozenset[tuple[str, int]],
    tiles: Mapping[str, Tile],
    extents: Mapping[str, int],
) -> bool:
    """Whether one register tile has all uses of each element of the packs."""
    refs = [r for w in work.values() for r in w.refs if (r.statement, r.read) in packs]
    return all(tiles[a].register >= e for r in refs for a, e in extents.items() if not r.strides.get(a, 0))


# Options.


def allowed_candidates(
    nest: Nest, made: list[tuple[Candidate, str]], options: Options
) -> list[tuple[Candidate, str]]:
    """The candidates with the lanes, register tile, unrolling and packs of the options."""
    if options.vector is not None:

        def chosen(c: Candidate) -> bool:
            if options.vector == -1:
                return any(p.vector for p in c.phases)
            names = [a.name for a in nest.axes][options.vector : options.vector + 1]  # type: ignore[operator]
            return all(c.tiles[n].lanes > 1 for n in names)

        made = [x for x in made if chosen(x[0])] or made[:1]
    if options.register_tile is not None:
        seen: dict[tuple[object, ...], tuple[Candidate, str]] = {}
        for c, label in made:
            tiles = dict(c.tiles)
            for a, points in zip(nest.axes, options.register_tile, strict=False):
                t = tiles[a.name]
                points = min(points, -(-a.typical_extent // t.lanes) * t.lanes)
                tiles[a.name] = replace(t, register=-(-points // t.lanes) * t.lanes, even=False)
            tiles, fits = _halve_until(tiles, lambda tiles: _vector_count(tiles) <= _MOST_VECTORS)
            suffix = "as given" if fits else f"as given, down to {_MOST_VECTORS} vectors"
            key = tuple((n, t.register, t.lanes) for n, t in tiles.items())
            seen.setdefault((*key, c.phases), (replace(c, tiles=tiles), f"{label}, register tile {suffix}"))
        made = list(seen.values())
    if options.unroll is not None:
        unroll = min(options.unroll, _MOST_UNROLLED)
        made = [(replace(c, phases=tuple(replace(p, unroll=unroll) for p in c.phases)), s) for c, s in made]
    if options.pack:
        made = [x for x in made if x[0].packs] or made
    elif options.pack is False:
        made = [x for x in made if not any(p.dot for p in x[0].phases)]
        made = [(replace(c, packs=frozenset()), label.split(", ")[0]) for c, label in made]
    return made


def whole_tiles(c: Candidate, partial: Mapping[str, int], options: Options) -> Candidate | None:
    """A candidate whose register tiles divide tiles of so many points (`partial`); None if there is none."""
    if not any(g % c.tiles[n].register for n, g in partial.items()):
        return c
    if options.register_tile is None or any(g % c.tiles[n].lanes for n, g in partial.items()):
        return None
    whole = {
        n: replace(t, register=t.lanes * math.gcd(partial[n] // t.lanes, t.register // t.lanes))
        for n, t in c.tiles.items()
        if n in partial
    }
    return replace(c, tiles={**c.tiles, **whole})


def limited_code(
    nest: Nest, work: Mapping[str, Work], c: Candidate, label: str, extents: Mapping[str, int]
) -> tuple[Candidate, str]:
    """A candidate with a register tile that is given, or a smaller one with no more code than LLVM compiles
    in some seconds."""
    tiles, fits = _halve_until(
        c.tiles, lambda tiles: code_lines(nest, work, replace(c, tiles=tiles), extents) <= _MOST_LINES
    )
    return replace(c, tiles=tiles), label if fits else f"{label}, down to {_MOST_LINES} lines of LLVM"


def _vector_count(tiles: Mapping[str, Tile]) -> int:
    return math.prod(t.register // t.lanes for t in tiles.values())


def _halve_until(
    tiles: Mapping[str, Tile], fit: Callable[[Mapping[str, Tile]], bool]
) -> tuple[Mapping[str, Tile], bool]:
    """Register tiles that fit: the largest is halved until they do, or have one vector each.  Also whether
    the tiles fit as they were."""
    out = tiles
    while not fit(out):
        n, t = max(out.items(), key=lambda x: x[1].register // x[1].lanes)
        vectors = t.register // t.lanes
        if vectors <= 1:
            break
        out = {**out, n: replace(t, register=vectors // 2 * t.lanes)}
    return out, out is tiles
