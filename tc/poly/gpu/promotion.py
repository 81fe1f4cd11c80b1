"""Promotion: which buffers of a region are in registers or in shared memory, and which accesses go there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tc.ir.loops import Array
from tc.poly.ast import View
from tc.poly.gpu.coordinates import Tuple, function, of_statement
from tc.poly.gpu.double_buffering import with_double_buffers
from tc.poly.gpu.footprint import place
from tc.poly.gpu.local import Local, local, repeated
from tc.poly.gpu.mapping import RegionMap, Unit, units
from tc.poly.gpu.padded_domains import padded
from tc.poly.gpu.private_memory import (
    PartialResults,
    PrivateArray,
    index,
    partial_results,
    private_arrays,
    too_large,
    with_separate_sums,
)
from tc.poly.gpu.replicated import Replicated, replicated, shared_axes
from tc.poly.gpu.shared import Copying, CopyPolicy, Promotion, Refused, Shared, promoted, size_of
from tc.poly.scop import Scop
from tc.poly.tile_plan import Region

if TYPE_CHECKING:
    import islpy as isl


_FULL = "there is no shared memory for it in this map"


@dataclass(frozen=True, slots=True)
class PromotedRegion:
    """A region with its mapping and its promoted buffers.

    `private_arrays` and `partial_results` are in registers, `local` are buffers in shared memory.
    `shared_reads`: for each unit the reads from copies in shared memory; `refused`: the reasons why other
    reads have no copies.  `padded_statements` run at all points of tiles (padded_domains.py).  `spilled`: the
    buffers that are too large for registers, and why.  `replicated`: arrays that all threads of a point have.
    """

    scop: Scop
    region: Region
    mapping: RegionMap
    units: tuple[Unit, ...]
    private_arrays: tuple[PrivateArray, ...]
    partial_results: Mapping[str, PartialResults] = field(hash=False)
    local: tuple[Local, ...]
    shared_reads: tuple[tuple[Shared, ...], ...]
    padded_statements: frozenset[str]
    refused: tuple[Refused, ...]
    spilled: tuple[str, ...]
    replicated: tuple[Replicated, ...] = ()

    @property
    def ctx(self) -> isl.Context:
        return self.scop.ctx

    @property
    def variables(self) -> list[str]:
        return [v for v, _ in self.mapping.threads]

    def instances(self, unit: Unit, statement: str) -> Tuple:
        return of_statement(self.scop, statement, (a for a, _ in (*unit.axes, *unit.own)))

    @property
    def repeated(self) -> bool:
        """Whether a block runs several tiles (`local.repeated`)."""
        return repeated(self.region, self.units, self.mapping)

    @property
    def double_buffered(self) -> bool:
        """Whether tiles are copied while the threads compute on those before them (double buffering)."""
        return any(x.alternates_over for shared_reads in self.shared_reads for x in shared_reads)

    @property
    def copied(self) -> frozenset[tuple[str, int]]:
        """The reads from copies in shared memory: statement, and number among its reads."""
        return frozenset((x.statement, x.read) for shared_reads in self.shared_reads for x in shared_reads)

    @property
    def arrays(self) -> tuple[Array, ...]:
        shared = {x.array.name: x.array for shared_reads in self.shared_reads for x in shared_reads}
        shared |= {x.array.name: x.array for x in self.local}
        registers = (
            x.array for x in (*self.private_arrays, *self.replicated, *self.partial_results.values())
        )
        return (*shared.values(), *registers)

    @property
    def common(self) -> frozenset[str]:
        """The arrays that all threads of a block write cooperatively."""
        copies = (x.array.name for shared_reads in self.shared_reads for x in shared_reads)
        return frozenset((*copies, *(p.array.name for p in self.partial_results.values() if p.threads)))

    def register_of(self, statement: str, buffer: str, kind: str) -> Array | None:
        """The array in registers that an access is redirected to."""
        p = self.partial_results.get(statement)
        if p is not None and kind != "read":
            return p.array
        number = next(u.nest for u in self.units if statement in u.statements)
        own = (k.array for k in self.private_arrays if k.buffer == buffer and k.nest == number)
        return next(own, next((r.array for r in self.replicated if r.buffer == buffer), None))

    def everywhere(self, statement: str) -> bool:
        """Whether all threads of a point run a statement there, for what they keep."""
        return statement not in self.partial_results and any(statement in r.writers for r in self.replicated)

    def local_of(self, buffer: str) -> Local | None:
        """The array in shared memory that replaces a buffer."""
        return next((x for x in self.local if x.buffer == buffer), None)

    def home(self, nest: int, buffer: str, other: Array) -> PrivateArray | Replicated | Local | None:
        """The array that replaces a buffer in a nest, except the array `other`; None: the buffer itself is
        accessed."""
        own = (k for k in self.private_arrays if k.buffer == buffer and k.nest == nest and k.array != other)
        replicated_arrays = (r for r in self.replicated if r.buffer == buffer and r.array != other)
        return next(own, next(replicated_arrays, self.local_of(buffer)))

    def views(self) -> dict[str, tuple[View, ...]]:
        """For each statement the accesses that are redirected to other arrays."""
        pairs = zip(self.units, self.shared_reads, strict=True)
        return {s: self._views_of(u, s, shared_reads) for u, shared_reads in pairs for s in u.statements}

    def _views_of(self, u: Unit, statement: str, shared_reads: Sequence[Shared]) -> tuple[View, ...]:
        t = self.instances(u, statement)
        mapped_units: list[View] = []
        reads = 0
        for a in self.scop.statement(statement).accesses:
            number = None
            if a.kind == "read":
                number, reads = reads, reads + 1
            array = self.register_of(statement, a.buffer, a.kind)
            shared_buffer = self.local_of(a.buffer)
            if a.kind == "update":  # goes where the write goes
                continue
            if array is not None:
                axes = shared_axes(self.region, self.mapping) if array.replicas else u.axes
                mapped_units.append(View(number, array.name, function(self.ctx, t, index(t, axes))))
            elif shared_buffer is not None:
                at = shared_buffer.place(t, u, statement, a.subscripts)
                mapped_units.append(View(number, shared_buffer.array.name, function(self.ctx, t, at)))
        axes = (*u.axes, *u.own)
        for x in shared_reads:
            if x.statement == statement:
                at = [place(t, axes, d) for d in x.dimensions]
                if x.alternates_over:
                    ((a, m),) = ((a, m) for a, m in axes if a.name == x.alternates_over)
                    at.insert(0, f"({t.tile(a, m)}) mod 2")
                converted = x.array.dtype if x.array.dtype != x.buffer.dtype else None
                mapped_units.append(View(x.read, x.array.name, function(self.ctx, t, at), converted))
        return tuple(mapped_units)


def promote(
    scop: Scop,
    region: Region,
    mapping: RegionMap,
    name: Callable[[str], str],
    shared: int = 0,
    private: bool = True,
    copies: CopyPolicy = CopyPolicy(),  # noqa: B008 - it is frozen
) -> PromotedRegion:
    """Map a region and promote its buffers.  Use it, and the result, inside `isl_context()`.

    `name` makes new names of arrays.  `shared`: bytes of shared memory for `copies` and temporaries.
    `private`: whether there is promotion to registers.
    """
    mapped_units = units(region, mapping)
    mapped_units = with_separate_sums(scop, region, mapped_units) if private else mapped_units
    written = {scop.statement(s).write.buffer for u in mapped_units for s in u.statements}
    replicated_arrays = replicated(scop, region, mapping, mapped_units, name) if private else ()
    everywhere = frozenset(r.buffer for r in replicated_arrays)
    registers = private_arrays(scop, region, mapped_units, everywhere, name) if private else ()
    partial = partial_results(scop, mapped_units, everywhere, name)
    # Combinations may take an element a thread for each type (tc/codegen/scratch.py).
    combined = {p.array.dtype for p in partial.values() if p.threads}
    shared -= math.prod(n for _, n in mapping.threads) * sum(t.itemsize for t in combined)
    shared = max(0, shared)
    temporaries = local(scop, region, mapped_units, registers, everywhere, shared // 2, name)
    shared -= sum(size_of(x.array) for x in temporaries)
    copying = Copying(scop, mapping.threads, written, name, copies)
    shared_reads: list[tuple[Shared, ...]] = []
    padded_statements: frozenset[str] = frozenset()
    refused: dict[Refused, None] = {}
    for u in mapped_units:
        found = Promotion()
        if why := _no_copies(u, shared, copies.staged):
            found = Promotion(refused=tuple(Refused(n, why, why == _FULL) for n in _read(scop, u, written)))
        else:
            found = promoted(copying, u, shared, whole=True)
        whole = padded(scop, u, registers, partial, found.taken)
        if found.taken and not whole:
            found = promoted(copying, u, shared, whole=False)
        taken = with_double_buffers(scop, u, found.taken, shared) if copies.double_buffered else found.taken
        shared_reads.append(taken)
        refused |= dict.fromkeys(found.refused)
        padded_statements |= whole
        shared -= sum({x.array.name: x.bytes for x in taken}.values())
    spilled = too_large(scop, region, mapped_units) if private else ()
    return PromotedRegion(
        scop,
        region,
        mapping,
        mapped_units,
        registers,
        partial,
        temporaries,
        tuple(shared_reads),
        padded_statements,
        tuple(refused),
        spilled,
        replicated_arrays,
    )


def _no_copies(u: Unit, shared: int, staged: bool) -> str:
    """The reason why a unit has no copies in shared memory, if there is one for all of its reads."""
    if u.reduction_threads:
        return "its reduction is dealt out to threads"
    if shared <= 0:
        return _FULL
    return "" if u.own or staged else "no loop of a reduction reads it"


def _read(scop: Scop, u: Unit, written: AbstractSet[str]) -> list[str]:
    """The buffers from other regions that a unit reads."""
    reads = (a for s in u.statements for a in scop.statement(s).reads)
    return list(dict.fromkeys(a.buffer for a in reads if a.buffer not in written and a.subscripts))
