"""The code size of a candidate, approximately: lines of LLVM's text.

Each register tile of constant length is unrolled, and the remainder of an axis has code of its own, that of a
dynamic axis for several lengths: with two or three such axes the lengths multiply.  LLVM takes a second for
twenty thousand lines, and more than in proportion for large functions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tc.poly.tile_plan import Axis, Nest, Phase, PhaseTile, Tile
from tc.poly.tiles.dynamic import EXACT
from tc.poly.tiles.phase_loops import REMAINDER_UNROLL

from .register_tile import Candidate
from .work import Ref, Work

MAX_LINES = 12_000  # lines of a nest, for which LLVM takes about a second
_CHECK = 24.0  # lines of a subscript's check, most of which compute the indices that an error reports
_CONDITION = 5.0  # lines of a condition around an instance
# Lines of an address for each loop that moves it, of dynamic strides and of others.  Behind a condition no
# part of the address is available yet, such as where a share or a tile begins.
_POLYNOMIAL, _TERM = 4.0, 0.5
_POLYNOMIAL_ALONE, _TERM_ALONE = 10.0, 3.5


def code_lines(nest: Nest, work: Mapping[str, Work], c: Candidate, extents: Mapping[str, int]) -> float:
    """The lines of LLVM's text that the register tiles of a nest take."""
    single = sum(a.size is not None and c.tiles[a.name].register > 1 for a in nest.axes) == 1
    sizes = {a.name: _tile_sizes(a, c.tiles[a.name], extents[a.name], single) for a in nest.axes}
    total = 0.0
    for p, t in zip(nest.phases, c.phases, strict=True):
        code = _Code(
            sizes,
            p.axes[-1].name if p.axes else "",
            _loop_code(p, t, t.unroll),
            _loop_code(p, t, REMAINDER_UNROLL),
        )
        along = t.vector or next((n for n, x in c.tiles.items() if x.lanes > 1), None)
        lanes = t.lanes if t.vector else max((x.lanes for x in c.tiles.values()), default=1)
        every = frozenset((*sizes, code.last))
        for s in p.statements:
            w = work[s]
            total += (1 + w.operations + (_CONDITION if w.guards else 0.0)) * code.copies(every)
            for r in w.refs:
                # Behind a condition of its own each instance loads for itself.
                moving = every if w.guards else {n for n, x in r.strides.items() if x} | r.indirect
                packed = (r.statement, r.read) in c.packs
                total += _access_lines(r, None if packed else along, lanes, bool(w.guards)) * code.copies(
                    moving
                )
    return total


@dataclass(frozen=True, slots=True)
class _Loop:
    """The code of a phase's innermost loop: how many bodies it has, and the iterations in all of them."""

    bodies: int
    points: int


@dataclass(frozen=True, slots=True)
class _Code:
    """The code of a phase: `sizes` of the register tiles along each axis of the nest, the whole one first;
    the innermost loop, over the axis `last`, in whole register tiles and in the others."""

    sizes: Mapping[str, Sequence[int]]
    last: str
    whole: _Loop
    others: _Loop

    def copies(self, moving: AbstractSet[str]) -> int:
        """How many copies of an instruction there are that differ along the axes `moving` only."""
        first = math.prod(x[0] if n in moving else 1 for n, x in self.sizes.items())
        rest = math.prod(sum(x) if n in moving else len(x) for n, x in self.sizes.items()) - first
        if self.last in moving:
            return first * self.whole.points + rest * self.others.points
        return first * self.whole.bodies + rest * self.others.bodies


def _tile_sizes(a: Axis, t: Tile, extent: int, single: bool) -> list[int]:
    """The sizes of an axis' register tiles that have code, the whole one first; in vectors along the lanes,
    in points elsewhere."""
    if a.size is None:
        return [-(-points // t.lanes) for _, points in t.registers(max(extent, 1))]
    n = -(-t.register // t.lanes)
    if t.lanes == 1 and single and n <= EXACT:
        return [n, *range(1, n)]
    # Descending powers of two, and a masked vector.
    powers = [1 << k for k in reversed(range((n - 1).bit_length()))]
    return [n, *powers, *([1] if t.lanes > 1 else [])]


def _loop_code(p: Phase, t: PhaseTile, unroll: int) -> _Loop:
    """The code of a phase's innermost loop with this unrolling."""
    if not p.axes:
        return _Loop(1, 1)
    last = p.axes[-1]
    if t.vector is not None:
        if last.size is None:
            n, rest = divmod(last.typical_extent, t.lanes * t.accumulators)
            return _Loop((n > 0) + (rest > 0), (n > 0) * t.accumulators + -(-rest // t.lanes))
        return _Loop(1 + (t.accumulators > 1) + (t.lanes > 1), t.accumulators + 1 + (t.lanes > 1))
    n = max(1, min(t.unroll, unroll))
    if last.size is not None:
        return _Loop(1 + (n > 1), n + (n > 1))
    rest = last.typical_extent % n
    return _Loop((last.typical_extent >= n) + (rest > 0), min(n, last.typical_extent) + rest)


def _access_lines(r: Ref, along: str | None, lanes: int, guarded: bool) -> float:
    """Lines of one access: its address, which is a polynomial where strides are dynamic, its checks, and the
    loads, one for each lane where lanes are not contiguous."""
    polynomial, term = (_POLYNOMIAL_ALONE, _TERM_ALONE) if guarded else (_POLYNOMIAL, _TERM)
    address = 1.0 + math.fsum(polynomial if n in r.dynamic else term for n, s in r.strides.items() if s)
    scattered = along is not None and (r.strides.get(along, 0) not in (0, 1) or along in r.indirect)
    return address + _CHECK * r.checks + (5.0 * lanes if scattered else 2.0)
