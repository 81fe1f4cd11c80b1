"""The notices of a kernel (tc.PerformanceNotice): where its code is simpler than one would expect, and which
options had no effect."""

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

_NOTICEABLE = 1 << 16  # statement instances from which on slower code takes noticeable time


def notices(scop: Scop, choice: Choice, options: Options, operands: Collection[str]) -> tuple[str, ...]:
    """One line for each notice, in the order of the program.  The option `register_tile` is not expected to
    apply to the loops of `operands`, temporaries that the program does not name."""
    found: dict[str, None] = {}
    for region, best in zip(choice.regions, choice.candidates, strict=True):
        for nest, candidate in zip(region.nests, best, strict=True):
            own = any(scop.statement(s).stage.func not in operands for s in nest.statements)
            found |= dict.fromkeys(_nest_notices(scop, nest, candidate, options, own))
    return tuple(found)


def _nest_notices(scop: Scop, nest: Nest, candidate: Candidate, options: Options, own: bool) -> Iterator[str]:
    points = math.prod(a.typical_extent for a in nest.axes)
    lanes = any(t.lanes > 1 for t in candidate.tiles.values()) or any(
        t.vector is not None for t in candidate.phases
    )
    for p in nest.phases:
        instances = points * math.prod(a.typical_extent for a in p.axes)
        for name in p.statements if instances >= _NOTICEABLE else ():
            stage = scop.statement(name).stage
            text = " ".join(stage.text.split())
            if not lanes and options.vector is None:
                yield f"'{text}' is computed one element at a time: no loop of it is worth lanes"
            for e in walk(stage.value):
                if isinstance(e, Call) and _is_lanewise_call(e):
                    yield f"'{e.name}' has no vector form: '{text}' calls it for each element"
    asked = zip(nest.axes, (own and options.register_tile) or (), strict=False)
    wanted = {a.name: min(n, a.typical_extent) for a, n in asked}
    if any(candidate.tiles[n].register < points for n, points in wanted.items()):
        taken = ", ".join(str(candidate.tiles[a.name].register) for a in nest.axes)
        statements = ", ".join(nest.statements)
        why = "one as given makes too much code, or divides no tile"
        yield f"the register tile of {statements} is ({taken}): {why}"


def _is_lanewise_call(e: Call) -> bool:
    """Whether a call computes lanes one by one, by a function of the C library or of tc."""
    known = e.name in INTRINSICS or e.name == "abs" or supported(e.name, e.dtype)
    return e.kind == "intrinsic" and e.dtype.is_float and not known
