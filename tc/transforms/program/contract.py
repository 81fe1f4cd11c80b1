"""Array contraction: temporaries lose dimensions that only tell the iterations of a sequential loop apart.

    for t                                  for t
      p(t,j) = d(j) + e(t,j)       →         p(j) = d(j) + e(t,j)
      d(j) = p(t,j) * 2                      d(j) = p(j) * 2

A dimension is removed if every access is inside of one loop and has the same subscript there: the loop's
counter, or the counter plus a constant.  Each iteration then reads only elements that it has written itself
(Sarkar and Gao, "Optimization of array accesses by collective loop transformations", 1991).  A temporary that
was larger than the caches then fits them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tc.ir.expr import Call, Expr, Variable, constant, rebuild, substitute, variables
from tc.ir.program import Box, Domain, Program, Stage
from tc.ir.simplify import linear_terms, simplify


def contract(program: Program) -> tuple[Program, tuple[str, ...]]:
    """`program` without such dimensions, and the temporaries that lost some."""
    lost = {b.name: dims for b in program.buffers if b.role == "temporary" if (dims := _own(program, b.name))}
    return (_contracted(program, lost), tuple(lost)) if lost else (program, ())


@dataclass(frozen=True, slots=True)
class _Access:
    """The subscripts of an access, with variables of one value replaced by that value."""

    stage: Stage
    args: tuple[Expr, ...]


def _single(s: Stage) -> dict[str, Expr]:
    """The variables of a stage that have one value, such as a counter `t` on the left of a statement."""
    return {v.name: v.range.min for v in s.domain.vars if v.kind == "pure" and constant(v.range.extent) == 1}


def _accesses(program: Program, buffer: str) -> Iterator[_Access]:
    buffer_of = program.func_buffers
    for s in program.stages:
        values = _single(s)
        found = [s.args] if buffer_of[s.func] == buffer else []
        found += [e.args for e in s.calls if buffer_of.get(e.name, e.name) == buffer]
        yield from (_Access(s, tuple(substitute(a, values) for a in args)) for args in found)


def _own(program: Program, buffer: str) -> frozenset[int]:
    """The dimensions of a buffer that only tell the iterations of a loop apart."""
    found = list(_accesses(program, buffer))
    if not found or any(_checks(a.stage) for a in found):
        return frozenset()
    return frozenset(d for d in range(len(found[0].args)) if _tells_iterations(found, d))


def _checks(s: Stage) -> bool:
    """Whether a statement may end the call with an error that names its variables."""
    return bool(s.checked) or any(e.checked for e in s.calls)


def _tells_iterations(found: list[_Access], d: int) -> bool:
    subscripts = {simplify(a.args[d], exact=True) for a in found}
    if len(subscripts) != 1:
        return False
    terms, _ = linear_terms(subscripts.pop())
    if len(terms) != 1:
        return False
    ((counter, factor),) = terms.items()
    if not isinstance(counter, Variable) or abs(factor) != 1:
        return False
    loops = [next((x for x in a.stage.loops if x.name == counter.name), None) for a in found]
    return loops[0] is not None and all(x == loops[0] for x in loops)


def _contracted(program: Program, lost: dict[str, frozenset[int]]) -> Program:
    buffer_of = program.func_buffers

    def kept(items: tuple[Expr, ...], buffer: str) -> tuple[Expr, ...]:
        dims = lost.get(buffer, frozenset())
        return tuple(x for d, x in enumerate(items) if d not in dims)

    def box(b: Box, buffer: str) -> Box:
        dims = lost.get(buffer, frozenset())
        return tuple(r for d, r in enumerate(b) if d not in dims)

    def read(e: Expr) -> Expr:
        e = rebuild(e, read)
        if isinstance(e, Call) and e.kind != "intrinsic":
            return replace(e, args=kept(e.args, buffer_of.get(e.name, e.name)))
        return e

    def stage(s: Stage) -> Stage:
        args = kept(s.args, buffer_of[s.func])
        # A variable that only the removed subscripts contained has one value, and is no loop any more.
        gone = {v for a in s.args for v in variables(a)} - {v for a in args for v in variables(a)}
        values = {n: e for n, e in _single(s).items() if n in gone}

        def of(e: Expr) -> Expr:
            return substitute(read(e), values)

        axes = tuple(v for v in s.domain.vars if v.name not in values)
        domain = Domain(axes, tuple(map(of, s.domain.conditions)))
        return replace(s, args=tuple(map(of, args)), value=of(s.value), domain=domain)

    return replace(
        program,
        buffers=tuple(replace(b, box=box(b.box, b.name)) for b in program.buffers),
        funcs=tuple(replace(f, box=box(f.box, f.buffer)) for f in program.funcs),
        stages=tuple(map(stage, program.stages)),
    )
