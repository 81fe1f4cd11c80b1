"""The choice for a nest in sentences: what was chosen, why, and what the next best candidate would cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tc.poly.tile_plan import Nest

from ..cost.cycles import Cost
from ..cost.register_tile import Candidate, lane_axis
from .rank import Ranked


def sentences(nest: Nest, ranked: Sequence[Ranked], best: Ranked) -> Iterator[str]:
    """Three sentences on the choice of `best` among the ranked candidates of a nest."""
    yield f"Taken: {described(nest, best.candidate)}."
    yield f"Why: {_why(ranked, best)}; {_parts(best.cost)}."
    others = [x for x in ranked if x is not best and x.label != best.label]
    if others:
        more = 100 * (others[0].cost.total / best.cost.total - 1) if best.cost.total else 0.0
        against = f"{more:.1f} % more" if more >= 0 else f"{-more:.1f} % less"
        yield (
            f"Next best: {described(nest, others[0].candidate)}; that would take "
            f"{_cycles(others[0].cost.total)}, {against}."
        )
    else:
        yield "Next best: there was no other candidate."


def described(nest: Nest, c: Candidate) -> str:
    """A candidate in words: its vectors, its register tile, and what is packed."""
    parts: list[str] = []
    along = lane_axis(c.tiles)
    private = {(p.vector, p.lanes, p.accumulators) for p in c.phases if p.vector is not None}
    if along is not None:
        tile = c.tiles[along]
        count = -(-tile.register // tile.lanes)
        side = f", {count} side by side" if count > 1 else ""
        parts.append(f"vectors of {tile.lanes} elements along {along}{side}")
    elif private:
        for vector, lanes, accumulators in sorted(private, key=str):
            several = f" with {accumulators} accumulators each" if accumulators > 1 else ""
            parts.append(f"vectors of {lanes} elements along {vector}, inside of reductions{several}")
    else:
        parts.append("one element at a time")
    points = [f"{t.register} points of {n}" for n, t in c.tiles.items() if n != along and t.register > 1]
    if points:
        parts.append(f"for {' and '.join(points)} at once")
    if any(p.dot is not None for p in c.phases):
        parts.append("by dot product instructions")
    text = ", ".join(parts)
    blocks = sorted({p.block for p in c.phases if p.block is not None})
    if blocks:
        text += f", the reduction in blocks of {' and '.join(map(str, blocks))}"
    if c.packs:
        text += f"; {len(c.packs)} operand{' is' if len(c.packs) == 1 else 's are'} packed first"
    return text


def _why(ranked: Sequence[Ranked], best: Ranked) -> str:
    predicted = f"the model predicts {_cycles(best.cost.total)} on one core"
    if best is not ranked[0]:
        return f"{predicted}; {_cycles(ranked[0].cost.total)} with more vectors, whose registers spilled"
    if len(ranked) == 1:
        return predicted
    return f"{predicted}, the fewest of {len(ranked)} candidates"


def _parts(cost: Cost) -> str:
    """The shares of the cycles, in words."""
    moved = cost.memory + cost.reload
    if cost.compute >= moved:
        text = f"{cost.compute:.0f} compute" + (f" while {moved:.0f} move data" if moved >= 0.5 else "")
    else:
        text = f"{moved:.0f} move data while {cost.compute:.0f} compute"
    return text + (f", and {cost.pack:.0f} pack" if cost.pack >= 0.5 else "")


def _cycles(n: float) -> str:
    return f"{n:.0f} cycle{'s' if round(n) != 1 else ''}"
