"""Long reductions in parts: what a program may become, so that all of a GPU has something to do.

With fewer results than a GPU runs threads, a reduction is shared out, too: in parts that another kernel adds
up, which is deterministic, or, by option, in chunks whose blocks update results atomically
(`tc/transforms/program/rfactor.py`).  Which of these programs is best is not decided here (lower.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tc.ir.loops import WARP
from tc.ir.program import Program, Stage
from tc.options import Options
from tc.transforms.program.rfactor import (
    chunked_reductions,
    is_of_columns,
    is_product,
    split_reductions,
)

from .target import Target

# Results for each unit below which long reductions are done in parts (so many keep memory busy; with fewer
# there is less to put together), and how many instances are long.
_PARTS, _LONG = (8, 2), 1 << 14
_VERY_LONG = 1 << 17  # up to here they are tried whole, too: one kernel; if options say loops, only so
# The same where results share what they read, of which a block has thousands.
_OF_PRODUCTS, _LONG_PRODUCT = 16384, 1 << 24
_ENOUGH = 4  # units for each result, from where on the same reductions are also tried whole
_LONG_ATOMIC = 256  # the same if results are to be updated atomically, which needs no second kernel


@dataclass(frozen=True, slots=True)
class InParts:
    """A program with long reductions in parts; `chunks`: of statements that update results atomically the
    variables that blocks share out; `alone`: statements that share loops with no others."""

    program: Program
    chunks: Mapping[str, Sequence[str]]
    alone: Collection[str] = ()


def in_parts(
    program: Program, options: Options, typical: Mapping[str, int], target: Target
) -> Iterator[InParts]:
    """The programs to be tried, each once, the likeliest first."""
    seen: set[Program] = set()
    for x in _candidates(program, options, typical, target):
        if x.program not in seen:
            seen.add(x.program)
            yield x


def _candidates(
    program: Program, options: Options, typical: Mapping[str, int], target: Target
) -> Iterator[InParts]:
    free = not (options.tile or options.threads or options.blocks or options.fusion)
    least = _LONG if free else _VERY_LONG

    def blockwise(s: Stage) -> tuple[int, int] | None:
        """Of reductions of which a block has many results: for how many of these, and from where on."""
        if is_product(s):
            return _OF_PRODUCTS * target.units, _LONG_PRODUCT
        return (max(_PARTS) * WARP * target.units, _VERY_LONG) if is_of_columns(s) else None

    def atomic(n: int, many: Callable[[Stage], tuple[int, int] | None] | None = None) -> InParts:
        if not options.atomics:
            return InParts(program, {})
        results = n * target.units
        return InParts(*chunked_reductions(program, results, _LONG_ATOMIC, target.atomic, typical, many))

    def split(
        results: int, many: Callable[[Stage], tuple[int, int] | None] | None = None, long: int = least
    ) -> Program:
        return split_reductions(first.program, results, long, first.chunks, typical, many)

    first = atomic(min(_PARTS))
    programs = [split(n * target.units) for n in _PARTS]
    for x in sorted(programs, key=lambda x: x != first.program):  # whole if the results are enough
        yield InParts(x, first.chunks)
    if free:
        if options.atomics:
            yield atomic(max(_PARTS))
            yield atomic(min(_PARTS), blockwise)
        most = max(_PARTS) * target.units
        known = {f.name for f in split(most).funcs}
        other = split(most, blockwise)
        # Their blocks share out the parts: no time is spent on loops that these have in common with sums.
        yield InParts(other, first.chunks, tuple(s.name for s in other.stages if s.func not in known))
    # Rows that are blocks enough may be better whole: then kernels share them.
    if split(target.units // _ENOUGH, long=_VERY_LONG) == first.program and not options.fusion:
        yield first
