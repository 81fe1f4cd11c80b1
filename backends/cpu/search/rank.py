"""The candidates of a nest, ranked by predicted cycles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tc.options import Options
from tc.poly.tile_plan import Nest

from ..cost import cache_lines
from ..cost.code_size import MAX_LINES, code_lines
from ..cost.cost import dynamic_lanes_factor, nest_cost
from ..cost.cycles import OVERLAP, Cost, tile_cycles
from ..cost.register_tile import Candidate, lane_axis
from ..cost.work import NestContext, Work
from ..target import Machine
from .candidates import allowed_candidates, limited_code, register_tiles, whole_tiles
from .reduction_blocks import blocking_candidates

_KEPT = 5  # candidates with lanes along one loop whose whole cost is predicted
_SAMPLED = 8  # candidates of a kind, about, in the sample
_TOO_SLOW = 1.5  # times the cycles of the fastest: the rest of a kind whose sample takes longer is skipped


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate, its predicted cycles on one core, and the label that the choice shows."""

    candidate: Candidate
    cost: Cost
    label: str


def ranked_candidates(
    nest: Nest, work: Mapping[str, Work], machine: Machine, given: Mapping[str, int], options: Options
) -> list[Ranked]:
    """The candidates of a nest that the options allow, the best first; at least one.  `given` are the tiles
    of the region's axes."""
    extents = {a.name: min(given.get(a.name, a.typical_extent), a.typical_extent) for a in nest.axes}
    repeats = math.prod(math.ceil(a.typical_extent / given[a.name]) for a in nest.axes if a.name in given)
    context = NestContext.of(nest, work, machine)
    pack = options.pack is True
    made = register_tiles(context, extents, pack)
    # The tiles of a region are whole register tiles.
    partial = {
        a.name: given[a.name]
        for a in nest.axes
        if a.size is None and given.get(a.name, a.typical_extent) < a.typical_extent
    }

    def fitting(found: Sequence[tuple[Candidate, str]]) -> list[tuple[Candidate, str]]:
        out: list[tuple[Candidate, str]] = []
        for c, label in found:
            if options.register_tile is not None:
                c, label = limited_code(nest, work, c, label, extents)
            if (whole := whole_tiles(c, partial, options)) is not None:
                out.append((whole, label))
        return out

    # The options may fit no tile of the region.
    wanted = fitting(allowed_candidates(nest, made, options)) or fitting(made)

    def cycles(c: Candidate) -> float:
        """Rough cycles of a point, if the first cache holds all that is read."""
        at = {n: min(t.register, extents[n]) for n, t in c.tiles.items()}
        # As if the remainder of an axis cost half a tile more.
        waste = math.prod(
            (1 + math.ceil(extents[n] / e) * e / extents[n]) / 2 for n, e in at.items() if extents[n]
        )
        one = tile_cycles(context, c, at, None)
        one += (
            OVERLAP
            * machine.unprefetched_row_penalty
            * sum(cache_lines.unprefetched_rows(r, at, machine) for r in context.accumulators.values())
        )
        return waste * dynamic_lanes_factor(nest, c) * one / math.prod(at.values())

    rough = _promising(wanted, cycles)
    ranked = _rank(context, [(c, label) for _, c, label in rough], extents, repeats, pack)
    # The remainder of a constant extent has one length, and a register tile that is given is compiled anyway.
    dynamic = any(a.size is not None for a in (*nest.axes, *(a for p in nest.phases for a in p.axes)))
    if not dynamic or options.register_tile is not None:
        return ranked
    if code_lines(nest, work, ranked[0].candidate, extents) <= MAX_LINES:
        return ranked
    lengths = [code_lines(nest, work, c, extents) for _, c, _ in rough]
    most = max(MAX_LINES, min(lengths))
    smaller = [(c, label) for (_, c, label), n in zip(rough, lengths, strict=True) if n <= most]
    return _rank(context, smaller, extents, repeats, pack)


def _promising(
    found: Sequence[tuple[Candidate, str]], cycles: Callable[[Candidate], float]
) -> list[tuple[float, Candidate, str]]:
    """Candidates with their rough cycles, the fewest first: a sample of each kind, and all of the kinds whose
    sample is not much slower than the fastest."""
    kinds: dict[object, list[int]] = {}
    for i, (c, _) in enumerate(found):
        lanes = lane_axis(c.tiles)
        kinds.setdefault((lanes, *((p.vector, p.dot is None) for p in c.phases)), []).append(i)
    some = {k: numbers[:: max(1, len(numbers) // _SAMPLED)] for k, numbers in kinds.items()}
    cost = {i: cycles(found[i][0]) for numbers in some.values() for i in numbers}
    least = min(cost.values(), default=0.0)
    for k, numbers in kinds.items():
        if min(cost[i] for i in some[k]) <= _TOO_SLOW * least:
            cost |= {i: cycles(found[i][0]) for i in numbers if i not in cost}
    return [(cost[i], *found[i]) for i in sorted(cost, key=lambda i: (cost[i], i))]


def _rank(
    context: NestContext,
    rough: Sequence[tuple[Candidate, str]],
    extents: Mapping[str, int],
    repeats: int,
    pack: bool,
) -> list[Ranked]:
    """The first few candidates of each kind with their blocking candidates, the best first."""
    kept: list[tuple[Candidate, str]] = []
    seen: dict[object, int] = {}
    for c, label in rough:
        along = (lane_axis(c.tiles), c.phases)
        seen[along] = seen.get(along, 0) + 1
        if seen[along] <= _KEPT:
            kept.append((c, label))
    found = [x for c, label in kept for x in blocking_candidates(context, c, label, pack)]
    ranked = [Ranked(c, nest_cost(context, c, extents, repeats), label) for c, label in found]
    ranked.sort(key=lambda x: x.cost.total)
    return ranked
