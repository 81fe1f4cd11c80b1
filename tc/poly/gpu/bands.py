"""Context nodes, filters and bands of a mapped schedule tree: the ranges of block and thread variables, the
filter of a thread, the bands over its points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import islpy as isl

from tc.ir.expr import IntImm
from tc.poly.ast import AT_ONCE, UNROLLED
from tc.poly.gpu import nodes
from tc.poly.gpu.coordinates import Tuple, band, threads_of, where
from tc.poly.gpu.mapping import AxisMap, Unit, steps, tiled_axes
from tc.poly.gpu.nodes import Part, Tree
from tc.poly.gpu.promotion import PromotedRegion
from tc.poly.gpu.vectors import innermost
from tc.poly.tile_plan import Axis

# Updates that amortise an iteration of a loop; up to which full unrolling is better than a remainder; that
# compilers can handle.
_UPDATES, _WHOLE, _MOST_UPDATES = 32, 128, 512


def context(p: PromotedRegion) -> isl.Set:
    """The ranges of the block and thread variables, as far as dynamic ones have a short form for isl."""
    names = [v for v, _ in (*p.mapping.blocks, *p.mapping.threads)]
    limits = [f"0 <= {v}" for v in names]
    known = {e: n for n, e in p.scop.parameters.values.items()}
    for a, m in p.units[0].axes:
        size = known.get(a.points)
        if m.block is not None and size is not None:
            limits.append(f"{m.tile} * {m.block} < {size}")
            names.append(size)
    limits += [f"{v} < {n.value}" for v, n in p.mapping.blocks if isinstance(n, IntImm)]
    limits += [f"{v} < {n}" for v, n in p.mapping.threads]
    parameters = ", ".join(dict.fromkeys(names))
    return isl.Set.read_from_str(p.ctx, f"[{parameters}] -> {{ [] : {' and '.join(limits)} }}")


def of_thread(p: PromotedRegion, values: Mapping[Tuple, Mapping[str, str]], below: Tree) -> Tree:
    """The filter that selects a thread's instances."""
    if not p.variables:
        return below
    conditions = {t: [f"{e} = {v}" for v, e in es.items()] for t, es in values.items()}
    return nodes.filtered(where(p.ctx, conditions, p.variables), below)


def over_steps(
    p: PromotedRegion,
    axes: Sequence[tuple[Axis, AxisMap]],
    tuples: Sequence[Tuple],
    below: Tree,
    *,
    unrolled: AbstractSet[str] = frozenset(),
    at_once: Mapping[str, int] | None = None,
) -> Tree:
    """Bands over the points of a thread, one for each axis.

    The axes `unrolled` are unrolled fully, those of `at_once` by a factor; the compiler decides on the
    others.
    """
    for a, m in reversed(axes):
        count = steps(a, m)
        if count == 1:
            continue
        steps_of = band(p.ctx, [{t: t.step(a, m) or "0" for t in tuples}])
        below = nodes.banded(steps_of, below, whole=a.name in unrolled)
        if a.name in unrolled and count is not None:
            below = nodes.marked(f"{UNROLLED}_{count}", below)
        elif at_once and a.name in at_once:
            below = nodes.marked(f"{AT_ONCE}_{at_once[a.name]}", below)
    return below


def of_unit(p: PromotedRegion, u: Unit) -> Tree:
    """The filter of a thread, and in it the bands over its points of a unit."""
    tuples = [p.instances(u, s) for s in u.statements]
    below = nodes.sequence([Part(where(p.ctx, {t: ()}), "") for t in tuples])
    # Loops over elements in registers are best innermost.
    accesses = ((s, a) for s in u.statements for a in p.scop.statement(s).accesses)
    arrays = [r for s, a in accesses if (r := p.register_of(s, a.buffer, a.kind)) is not None]
    inner = any(not r.replicas for r in arrays)
    steady = [a for a, _ in u.axes] if inner else tiled_axes(p.region) if arrays else ()
    unrolled = frozenset(a.name for a in steady)
    at_once = _at_once(p, u, inner)
    if not inner:
        below = over_steps(p, u.own, tuples, below, at_once=at_once)
    below = over_steps(p, u.axes, tuples, below, unrolled=unrolled, at_once=at_once)
    if inner:
        below = over_steps(p, u.own, tuples, below, at_once=at_once)
    axes = (*u.axes, *u.own)
    values = {t: threads_of(t, axes, p.variables, p.everywhere(t.name)) for t in tuples}
    return of_thread(p, values, below)


def _at_once(p: PromotedRegion, u: Unit, unrolled: bool) -> dict[str, int]:
    """Unroll factors of a unit's loops, by axis: as options want, if that is not too much code.

    Else the innermost of its own loops is unrolled so that consecutive reads become vectors, and further if
    an iteration has little work.
    """
    points = math.prod(steps(a, m) or 1 for a, m in u.axes) if unrolled else 1
    if p.mapping.unroll is not None:
        loops = u.own if unrolled else (*u.axes, *u.own)
        return _wanted(
            [(a.name, steps(a, m)) for a, m in loops], min(p.mapping.unroll, _MOST_UPDATES // points)
        )
    number = next(i for i, x in enumerate(p.units) if x is u)
    read = max((x.rows.read for x in p.shared_reads[number]), default=1)
    found = innermost(u)
    count = steps(*found) if found is not None else None
    if read == 1 or found is None or count is None:
        return {}
    wanted = max(read, _UPDATES // points)
    whole = count < 2 * wanted and count * points <= _WHOLE
    return {found[0].name: count if whole else unroll_factor(count, read, wanted)}


def unroll_factor(count: int, read: int, wanted: int) -> int:
    """The unroll factor near `wanted` for a loop of `count` iterations, of which each `read` read a vector.

    It is a multiple of `read`, as vectors are not aligned otherwise, and divides the trip count if such a
    factor is within half and twice of what is wanted.  A loop that would leave a remainder after a single
    unrolled iteration is unrolled fully, which is as much code.
    """
    multiples = range(read, max(read, min(count, 2 * wanted)) + 1, read)
    dividing = [n for n in multiples if count % n == 0 and 2 * n >= wanted]
    factor = min(dividing or multiples, key=lambda n: (abs(n - wanted), n))
    return count if count < 2 * factor else factor


def _wanted(loops: Sequence[tuple[str, int | None]], most: int) -> dict[str, int]:
    """Unroll factors with at most `most` copies of the body: a factor of the innermost loop, full unrolling
    of the loops around it (the original unrolls the innermost loop fully, too, or not at all)."""
    found: dict[str, int] = {}
    for name, count in reversed(loops):
        if count == 1:
            continue
        if found and (count is None or count > most):
            break
        found[name] = max(1, most if count is None else min(most, count))
        if count is None or count > most:
            break
        most //= count
    return found
