"""What a kernel does in a simpler way than one would expect, and what of the options was not done: told in a
warning (tc.PerformanceNotice)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from tc.codegen.llvm_expr import INTRINSICS
from tc.codegen.vector_math import supported
from tc.ir.expr import Call, walk
from tc.options import Options
from tc.poly.scop import Scop
from tc.poly.tile_plan import Nest

from .cost.register_tile import Candidate
from .search.choose import Choice

_MANY = 1 << 16  # instances, from where on it takes noticeable time


def notices(scop: Scop, choice: Choice, options: Options, operands: Collection[str]) -> tuple[str, ...]:
    """A line for each, in the order of the program; a register tile is not for the loops of the `operands`
    that the program does not name."""
    found: dict[str, None] = {}
    for region, best in zip(choice.regions, choice.candidates, strict=True):
        for nest, c in zip(region.nests, best, strict=True):
            own = any(scop.statement(s).stage.func not in operands for s in nest.statements)
            found |= dict.fromkeys(_of_nest(scop, nest, c, options, own))
    return tuple(found)


def _of_nest(scop: Scop, nest: Nest, c: Candidate, options: Options, own: bool) -> Iterator[str]:
    points = math.prod(a.extent for a in nest.axes)
    lanes = any(t.lanes > 1 for t in c.tiles.values()) or any(t.vector is not None for t in c.phases)
    for p in nest.phases:
        instances = points * math.prod(a.extent for a in p.axes)
        for name in p.statements if instances >= _MANY else ():
            stage = scop.statement(name).stage
            text = " ".join(stage.text.split())
            if not lanes and options.vector is None:
                yield f"'{text}' is computed one element at a time: no loop of it is worth lanes"
            for e in walk(stage.value):
                if isinstance(e, Call) and _called(e):
                    yield f"'{e.name}' has no vector form: '{text}' calls it for each element"
    asked = zip(nest.axes, (own and options.register_tile) or (), strict=False)
    wanted = {a.name: min(n, a.extent) for a, n in asked}
    if any(c.tiles[n].register < points for n, points in wanted.items()):
        taken = ", ".join(str(c.tiles[a.name].register) for a in nest.axes)
        statements = ", ".join(nest.statements)
        why = "one as given makes too much code, or divides no tile"
        yield f"the register tile of {statements} is ({taken}): {why}"


def _called(e: Call) -> bool:
    """Whether lanes are computed one by one, by the C library's function or ours."""
    known = e.name in INTRINSICS or e.name == "abs" or supported(e.name, e.dtype)
    return e.kind == "intrinsic" and e.dtype.is_float and not known
