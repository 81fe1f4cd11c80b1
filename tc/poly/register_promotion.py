"""Promotion to registers (scalar replacement) during a register tile."""

from __future__ import annotations

from dataclasses import dataclass

from tc.ir.expr import Expr, IntImm, Variable, inline_lets, substitute
from tc.ir.simplify import linear_terms
from tc.poly.scop import Access, Scop, Statement
from tc.poly.tile_plan import Nest


@dataclass(frozen=True, slots=True)
class Promotion:
    """`buffers` to keep in registers; the values of `dead` are not needed after the nest."""

    buffers: frozenset[str]
    dead: frozenset[str]


def promotion(scop: Scop, nest: Nest) -> Promotion:
    """Buffers whose elements a nest may keep in registers during a register tile.

    A buffer that the nest writes qualifies if all its accesses are to the same element of each point of the
    nest, and if the first writes it, or reads it, whatever data and conditions say.  One that the nest only
    reads qualifies if no loop of a phase moves the element.
    """
    inner = {v for p in nest.phases for a in p.axes for v in a.vars.items()}
    found: dict[str, list[tuple[Statement, Access]]] = {}
    for name in nest.statements:
        s = scop.statement(name)
        for a in s.accesses:
            found.setdefault(a.buffer, []).append((s, a))
    roles = {b.name: b.role for b in scop.program.buffers}
    used_elsewhere = {a.buffer for s in scop.statements if s.name not in nest.statements for a in s.accesses}
    buffers: set[str] = set()
    dead: set[str] = set()
    for buffer, accesses in found.items():
        if not all(_steady(s, a, inner) for s, a in accesses):
            continue
        written = any(a.kind == "write" for _, a in accesses)
        if written:
            forms = {_form(nest, s, a) for s, a in accesses}
            first, access = accesses[0]
            conditional = first.stage.domain.conditions or (access.read is not None and access.read.guards)
            if len(forms) > 1 or (conditional and not inside(scop, first, access)):
                continue
            buffers.add(buffer)
            if roles[buffer] == "temporary" and buffer not in used_elsewhere:
                dead.add(buffer)
        elif any(p.axes for p in nest.phases) and not any(
            s.stage.domain.conditions or (a.read is not None and (a.read.guards or a.read.call.checked))
            for s, a in accesses
        ):
            buffers.add(buffer)
    return Promotion(frozenset(buffers), frozenset(dead))


def _steady(s: Statement, a: Access, inner: set[tuple[str, str]]) -> bool:
    """Whether the subscripts are affine and invariant in the loops of the phase."""
    if a.unknown or (a.read is not None and a.read.call.checked):
        return False
    for e in a.subscripts:
        terms, _ = linear_terms(inline_lets(e))
        if not all(isinstance(t, Variable) and (s.name, t.name) not in inner for t in terms):
            return False
    return True


def inside(scop: Scop, s: Statement, a: Access) -> bool:
    """Whether the element exists at every point of the box, also where the statement's conditions fail, so
    that it may be loaded before and stored after the tile unconditionally."""
    ranges = {v.name: v.range for v in s.stage.domain.vars}
    box = scop.program.buffer(a.buffer).box
    for e, r in zip(a.subscripts, box, strict=True):
        terms, low = linear_terms(inline_lets(e))
        high = low
        for t, factor in terms.items():
            v = ranges[t.name] if isinstance(t, Variable) and t.name in ranges else None
            if v is None or not isinstance(v.min, IntImm) or not isinstance(v.extent, IntImm):
                return False
            ends = (factor * v.min.value, factor * (v.min.value + v.extent.value - 1))
            low, high = low + min(ends), high + max(ends)
        if not isinstance(r.min, IntImm) or not isinstance(r.extent, IntImm):
            return False
        if low < r.min.value or high >= r.min.value + r.extent.value:
            return False
    return True


def _form(nest: Nest, s: Statement, a: Access) -> tuple[Expr, ...]:
    """Subscripts in terms of the nest's axes."""
    names: dict[str, Expr] = {
        axis.vars[s.name]: Variable(f"@{axis.name}") for axis in nest.axes if s.name in axis.vars
    }
    return tuple(substitute(e, dict(names)) for e in a.subscripts)
