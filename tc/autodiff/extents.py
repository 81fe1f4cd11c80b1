"""Names for the extents of tensors that a gradient takes as arguments.

The extent of a result is an expression of sizes, `(N - 1)/2 + 1`, but that of a parameter is a size.  Where a
gradient takes an adjoint of a result, its extents get names, and the same expressions elsewhere become these
names, so that what is read of it is seen to be in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from tc.autodiff.loops import Loop
from tc.autodiff.names import Names
from tc.autodiff.tape import Definition, Tape, Version, mapped
from tc.ir.expr import EQ, ZERO, Expr, IntImm, Variable, rebuild, substitute
from tc.ir.program import Domain, Range
from tc.ir.simplify import simplify


def with_named_extents(tape: Tape, arguments: Iterable[str], names: Names) -> tuple[Tape, Mapping[str, Expr]]:
    """The tape with names for the extents of the versions `arguments`, and what they stand for."""
    found: dict[Expr, Variable] = {}
    for n in arguments:
        v = tape.versions[n]
        for k, r in enumerate(v.box):
            extent = simplify(r.extent, exact=True)
            if not isinstance(extent, (IntImm, Variable)) and extent not in found:
                found[extent] = Variable(names.fresh(f"{v.tensor}{k}"))
    if not found:
        return tape, {}
    versions = {n: _version(v, lambda r: _range(r, found)) for n, v in tape.versions.items()}
    definitions = tuple(
        replace(
            d,
            domain=_domain(d.domain, lambda r: _range(r, found)),
            loops=_loops(d.loops, lambda r: _range(r, found)),
        )
        for d in tape.definitions
    )
    facts = tuple(EQ(v, e) for e, v in found.items())
    sizes = (*tape.sizes, *(v.name for v in found.values()))
    named = replace(tape, versions=versions, definitions=definitions, sizes=sizes, facts=facts)
    return named, {v.name: e for e, v in found.items()}


def without_names(definitions: Iterable[Definition], of: Mapping[str, Expr]) -> list[Definition]:
    """The definitions with what some names stand for in place of them."""
    at = dict(of)

    def visit(e: Expr) -> Expr:
        return at.get(e.name, e) if isinstance(e, Variable) else rebuild(e, visit)

    def moved(r: Range) -> Range:
        return Range(substitute(r.min, at), substitute(r.extent, at))

    return [
        replace(d, domain=_domain(d.domain, moved), loops=_loops(d.loops, moved))
        for d in (mapped(d, visit) for d in definitions)
    ]


def _range(r: Range, found: Mapping[Expr, Variable]) -> Range:
    extent = simplify(r.extent, exact=True)
    return replace(r, extent=found[extent]) if extent in found else r


def _version(v: Version, f: Callable[[Range], Range]) -> Version:
    carrier = None if v.carrier is None else _loops((v.carrier,), f)[0]
    return replace(v, box=tuple(map(f, v.box)), loops=_loops(v.loops, f), carrier=carrier)


def _loops(loops: Sequence[Loop], f: Callable[[Range], Range]) -> tuple[Loop, ...]:
    return tuple(replace(x, trips=f(Range(ZERO, x.trips)).extent) for x in loops)


def _domain(d: Domain, f: Callable[[Range], Range]) -> Domain:
    return replace(d, vars=tuple(replace(v, range=f(v.range)) for v in d.vars))
