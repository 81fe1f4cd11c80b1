"""Which results of sequential loops start from nothing: that of

    for t in 0:T { h(t,b) = x(t,b) + (t >= 1 ? h(t-1,b) : 0) }

reads only what the loop has defined, whereas `h(t,b) = x(t,b) + h(t,b)` reads rows that are the caller's.
Both read `h` in the statement that is the first to write it, so names do not tell them apart; isl does, for
all sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tc.errors import SemanticError
from tc.ir.lower import lower
from tc.lang.resolved import Returned
from tc.lang.types import Typed
from tc.pipeline.legality import marked_accesses
from tc.ranges import Ranges


def starting_from_nothing(typed: Typed, ranges: Ranges) -> Typed:
    """The def with those of its in/out results `fresh` which loops define before they read them, and define
    as a whole; the others stay, and so does every result of a program whose ranges wait for scalars."""
    if not ranges.complete or not any(x.recurrent for x in typed.checked.returns):
        return typed
    wanted = [x.name for x in typed.checked.returns if x.recurrent]
    found = _with_fresh(typed, frozenset(wanted))
    if _all_defined(found, ranges):
        return found
    for name in wanted if len(wanted) > 1 else ():
        found = _with_fresh(typed, frozenset([name]))
        if _all_defined(found, ranges):
            typed = found
    return typed


def _with_fresh(typed: Typed, names: frozenset[str]) -> Typed:
    def returns() -> Iterator[Returned]:
        for x in typed.checked.returns:
            yield replace(x, mode="fresh") if x.name in names else x

    return replace(typed, checked=replace(typed.checked, returns=tuple(returns())))


def _all_defined(typed: Typed, ranges: Ranges) -> bool:
    from tc.poly.checks import undefined_in_loops
    from tc.poly.context import isl_context
    from tc.poly.scop import build as build_scop
    from tc.transforms.program.segments import in_domains

    program = lower(typed, ranges.known_boxes())
    if any(s.specialized for s in program.scalars):
        return False  # their values, which nobody knows yet, decide
    program = marked_accesses(program, {(o.site, o.dim) for o in ranges.obligations})
    with isl_context():
        try:
            undefined_in_loops(build_scop(in_domains(program)), program.stages)
        except SemanticError:
            return False
    return True
