"""Reads that are in bounds at all points of a statement's ranges, whether or not its conditions hold.

An emitter may read these elements before it evaluates the conditions, and for lanes whose results are
discarded.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tc.errors import InternalError
from tc.ir.evaluate import evaluate
from tc.ir.expr import Expr, Load, Sub, Variable, constant, rebuild, walk
from tc.ir.intervals import box_interval, interval, is_index, within
from tc.ir.program import Box, Domain
from tc.ir.simplify import simplify
from tc.poly.scop import Scop

_POINTS = 256  # of a statement, at most, that the oracle draws


def marked(scop: Scop) -> Scop:
    """`scop` with `inside` set for these reads in its bodies.  A subscript in a dimension of symbolic size
    counts only if it is a variable with the range of that dimension."""
    boxes = {b.name: b.box for b in scop.program.buffers}

    def of(e: Expr, domain: Domain) -> Expr:
        e = rebuild(e, lambda c: of(c, domain))
        if not isinstance(e, Load) or e.checked or e.buffer not in boxes:
            return e
        box = boxes[e.buffer]
        inside = all(_inside(s, d, box, domain) for d, s in enumerate(e.subscripts))
        return replace(e, inside=True) if inside else e

    bodies = {s.name: of(scop.bodies[s.name], s.domain) for s in scop.program.stages if s.name in scop.bodies}
    return replace(scop, bodies={**scop.bodies, **bodies})


def _inside(subscript: Expr, d: int, box: Box, domain: Domain) -> bool:
    """Whether a zero-based subscript is inside of a dimension of a box for all values of its variables."""
    if isinstance(subscript, Variable):
        own = next((v.range for v in domain.vars if v.name == subscript.name), None)
        if own is not None:
            room = constant(simplify(Sub(box[d].extent, own.end), exact=True))
            first = constant(own.min)
            if room is not None and room >= 0 and first is not None and first >= 0:
                return True
    names = {v.name: box_interval((v.range,), 0) for v in domain.vars}
    extent = constant(box[d].extent)
    if extent is None or not is_index(subscript, names):
        return False
    found = interval(subscript, names)
    return found is not None and within(found, (0, int(extent) - 1))


def check(scop: Scop) -> str:
    """The oracle: each marked element exists at the corners of its statement's ranges and at random points of
    them.  Returns "" if nothing is marked.  Raises InternalError, code TC0908, if an element does not
    exist."""
    boxes = {b.name: b.box for b in scop.program.buffers}
    sizes = dict.fromkeys(scop.program.sizes, 3)
    draw = random.Random(0)
    found = False
    for s in scop.program.stages:
        reads = [e for e in walk(scop.bodies[s.name]) if isinstance(e, Load) and e.inside]
        found |= bool(reads)
        for point in _points(s.domain, sizes, draw) if reads else ():
            for e in reads:
                at = [evaluate(x, point) for x in e.subscripts]
                extents = [evaluate(r.extent, sizes) for r in boxes[e.buffer]]
                if not all(0 <= i < n for i, n in zip(at, extents, strict=True)):
                    text = f"{s.name} reads {e.buffer}{at} of {extents} for {point}"
                    raise InternalError(text, code="TC0908")
    return "points" if found else ""


def _points(domain: Domain, sizes: Mapping[str, int], draw: random.Random) -> Iterator[dict[str, int]]:
    """The corners of a domain's ranges, and random points inside; conditions are ignored."""
    spans = {v.name: (evaluate(v.range.min, sizes), evaluate(v.range.end, sizes) - 1) for v in domain.vars}
    if any(first > last for first, last in spans.values()):
        return
    for corner in itertools.islice(itertools.product(*spans.values()), _POINTS):
        yield {**sizes, **dict(zip(spans, corner, strict=True))}
    for _ in range(_POINTS):
        yield {**sizes, **{n: draw.randint(*span) for n, span in spans.items()}}
