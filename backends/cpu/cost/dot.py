"""Sums of products that dot-product instructions can compute.

AVX512-VNNI and AVX-VNNI add to each 32-bit lane four products of unsigned by signed bytes, or two products of
signed 16-bit integers, in wrapping arithmetic.  Every x86 can sum two products of signed 16-bit integers;
adding that sum is another instruction, and bytes are widened first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tc.dtypes import INT8, INT16, UINT8, DType, accumulator
from tc.ir.expr import Cast, Expr, Load, Mul
from tc.ir.program import Stage
from tc.poly.tile_plan import Dot, Nest, Phase, PhaseTile
from tc.poly.tiles.builder import loads

from ..isa import Isa

if TYPE_CHECKING:
    from .work import Ref, Work

_NARROW = (INT8, UINT8, INT16)
_LANES = (4, 8, 16)


@dataclass(frozen=True, slots=True)
class Product:
    """A product of two narrow integers that a statement adds to a 32-bit one: their types, by their numbers
    among the statement's reads."""

    factors: Mapping[int, DType]


def product_of(stage: Stage, body: Expr, buffer: DType) -> Product | None:
    """The product that a statement sums, if it is one of two narrow integers; else None."""
    if stage.op != "+" or stage.domain.conditions or not isinstance(body, Mul):
        return None
    found = [
        e.value
        for e in (body.a, body.b)
        if isinstance(e, Cast) and isinstance(e.value, Load) and e.value.dtype in _NARROW
    ]
    t = accumulator(buffer, body.dtype)
    wide = t == buffer == body.dtype and t.is_int and t.bits == 32
    all_reads = loads(body)
    if not wide or len(found) != 2 or len(all_reads) != 2:
        return None
    return Product({i: x.dtype for i, x in enumerate(all_reads)})


def dot_tiles(
    nest: Nest,
    work: Mapping[str, Work],
    vector: str,
    lanes: int,
    plain: tuple[PhaseTile, ...],
    isa: Isa,
) -> tuple[PhaseTile, ...] | None:
    """The phases with dot products where lanes along `vector` allow any; else None.

    Groups and lanes are counted when code is generated, so neither the loops of phases nor `vector` may have
    a dynamic length; other axes may.
    """
    across = next(a for a in nest.axes if a.name == vector)
    if not isa.pair_dots or lanes not in _LANES or across.size is not None or _has_dynamic_phase(nest):
        return None
    written = frozenset(r.buffer for w in work.values() for r in w.refs if r.written)
    made = tuple(_with_dot(p, t, work, vector, written, isa) for p, t in zip(nest.phases, plain, strict=True))
    return made if any(t.dot is not None for t in made) else None


def _with_dot(
    p: Phase, t: PhaseTile, work: Mapping[str, Work], vector: str, written: frozenset[str], isa: Isa
) -> PhaseTile:
    if len(p.statements) != 1 or not p.axes:
        return t
    w, last = work[p.statements[0]], p.axes[-1]
    reads = [r for r in w.refs if not r.written]
    if w.product is None or len(reads) != 2 or any(not r.plain or r.buffer in written for r in reads):
        return t
    for packed, other in (reads, reads[::-1]):
        dot = _dot(w.product, packed, other, isa)
        along = packed.strides.get(vector, 0) and packed.strides.get(last.name, 0) and not packed.windows
        together = not other.strides.get(vector, 0) and other.strides.get(last.name, 0)
        together = together and last.name not in other.dynamic  # the elements of a group are at known offsets
        if along and together and last.typical_extent >= dot.size:
            groups = last.typical_extent // dot.size
            # Where the sum is an instruction of its own, LLVM adds the sums to each other first, and spills.
            most = 4 if isa.dots else 2
            return PhaseTile(unroll=most if groups >= 8 else min(groups, most), dot=dot)
    return t


def _dot(product: Product, packed: Ref, other: Ref, isa: Isa) -> Dot:
    a, b = product.factors[packed.read], product.factors[other.read]
    if INT16 in (a, b) or not isa.dots:  # bytes are widened
        return Dot(packed.statement, packed.read, other.read, 2, INT16)
    if a != b:
        return Dot(packed.statement, packed.read, other.read, 4, a)
    kind, shift = (UINT8, 128) if b == INT8 else (INT8, -128)
    return Dot(packed.statement, packed.read, other.read, 4, kind, shift)


def private_dot_tiles(
    nest: Nest, work: Mapping[str, Work], phases: tuple[PhaseTile, ...], isa: Isa
) -> tuple[PhaseTile, ...] | None:
    """The phases, whose lanes run along loops of their own, with dot products where there can be any; else
    None.  Bytes of the same sign are widened: nothing is packed that could be shifted."""
    if not isa.pair_dots or _has_dynamic_phase(nest):
        return None
    made: list[PhaseTile] = []
    for p, t in zip(nest.phases, phases, strict=True):
        w = work[p.statements[0]] if len(p.statements) == 1 else None
        if w is None or w.product is None or t.vector is None or t.lanes not in _LANES:
            made.append(t)
            continue
        reads = [r for r in w.refs if not r.written]
        if len(reads) == 2 and all(r.plain and r.strides.get(t.vector) == 1 for r in reads):
            kinds = set(w.product.factors.values())
            size = 4 if isa.dots and kinds == {INT8, UINT8} else 2
            extent = next(a.typical_extent for a in p.axes if a.name == t.vector)
            if extent >= size * t.lanes * t.accumulators:
                t = replace(t, dot=Dot(w.name, reads[0].read, reads[1].read, size, INT16))
        made.append(t)
    return tuple(made) if any(t.dot is not None for t in made) else None


def shifted_sum_axes(nest: Nest, phases: Sequence[PhaseTile], work: Mapping[str, Work]) -> set[str]:
    """The axes of dynamic length along which sums of the unpacked factor are kept, one for each point of a
    cache tile: the excess of the results where the packed factor is shifted."""
    moved = {
        n
        for t in phases
        if t.dot is not None and t.dot.shift
        for r in work[t.dot.statement].refs
        if not r.written and r.read == t.dot.other
        for n, stride in r.strides.items()
        if stride or n in r.dynamic
    }
    return moved & {a.name for a in nest.axes if a.size is not None}


def _has_dynamic_phase(nest: Nest) -> bool:
    """Whether a loop of a phase has a dynamic length."""
    return any(a.size is not None for p in nest.phases for a in p.axes)
