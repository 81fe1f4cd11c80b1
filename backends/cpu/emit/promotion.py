"""Register promotion: array elements that live in registers while a loop runs, and their stores to memory
afterwards."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from tc.errors import InternalError
from tc.ir.loops import Array

from ..isa import Isa
from .affine import LANE, Affine
from .load_store import MemoryEmitter
from .values import Value, type_text

Key = tuple[str, Affine]

_MIN_OUTLINED = 4  # vectors, from which on a transposition is a function of its own
_LONG_LOOP = 16  # iterations of some dozen vector operations each, beside which a call costs nothing


@dataclass(slots=True)
class Slot:
    """An element, or the elements of all lanes, in registers: an alloca that LLVM turns into a register."""

    alloca: str
    array: Array
    address: Affine
    lanes: int
    mask: Value | None
    dirty: bool = False


@dataclass(slots=True)
class Promotion:
    """The promoted buffers of a `Promote` statement, whose body writes the buffers `written`.  `prologue`
    collects the loads that precede the body."""

    buffers: frozenset[str]
    dead: frozenset[str]
    written: frozenset[str]
    depth: int  # pure scopes that are open where the prologue is
    iterations: int  # of the loops in its body
    prologue: list[str] = field(default_factory=list[str])
    slots: dict[Key, Slot] = field(default_factory=dict[Key, Slot])


class PromotionEmitter(MemoryEmitter):
    """Loads and stores that go to registers where their buffers are promoted."""

    def __init__(self, isa: Isa, fast_math: bool, arrays: Mapping[str, Array]) -> None:
        super().__init__(isa, fast_math, arrays)
        self.promotions: list[Promotion] = []
        self.outer_mask: Value | None = None  # of the enclosing vector loop, before any condition
        self.conditional = 0  # enclosing branches that may not be taken

    def attributes(self) -> str:
        """The LLVM attributes of every function."""
        raise NotImplementedError

    def function(self) -> AbstractContextManager[None]:
        """Emits another function, which shares no operands with this one."""
        raise NotImplementedError

    def load(self, array: Array, address: Affine, inside: bool = False) -> Value:
        promotion = self.promotion_of(array)
        if promotion is None:
            return super().load(array, address, inside)
        return self._load_slot(promotion, array, address)

    def store(self, array: Array, address: Affine, v: Value) -> None:
        promotion = self.promotion_of(array)
        if promotion is None:
            super().store(array, address, v)
        else:
            self._store_slot(promotion, array, address, v)

    def can_select(self, array: Array, constant: Value) -> bool:
        return self.promotion_of(array) is None and super().can_select(array, constant)

    def promotion_of(self, array: Array) -> Promotion | None:
        """The innermost promotion that holds an array's elements in registers; None if they are in memory."""
        for r in reversed(self.promotions):
            if array.name in r.buffers:
                return r
        return None

    def _slot(self, r: Promotion, array: Array, address: Affine) -> tuple[Slot, bool]:
        key = (array.name, address)
        found = r.slots.get(key)
        if found is not None:
            return found, False
        lanes = self.lanes if address.lane else 0
        alloca = self.name("slot")
        self.fn.entry.append(f"  {alloca} = alloca {type_text(array.dtype, lanes)}")
        slot = Slot(alloca, array, address, lanes, self.outer_mask if lanes else None)
        r.slots[key] = slot
        return slot, True

    def _load_slot(self, r: Promotion, array: Array, address: Affine) -> Value:
        slot, fresh = self._slot(r, array, address)
        if fresh:
            self._load_in_prologue(r, slot)
        text = f"load {type_text(array.dtype, slot.lanes)}, ptr {slot.alloca}"
        # An element that nothing writes stays the same, and so do the checks of it.
        return Value((self.op if array.name in r.written else self.pure)(text), array.dtype, slot.lanes)

    def _load_in_prologue(self, r: Promotion, slot: Slot) -> None:
        """Fill a slot in the prologue of its promotion."""
        if slot.array.role == "register":
            raise InternalError(f"'{slot.array.name}' is read before it is written")
        scopes = [*self.fn.pure[: r.depth], dict[str, str]()]
        with self.fn.moved_to(r.prologue, scopes), self.under(slot.lanes, slot.mask):
            v = self._load(slot.array, slot.address)
            self.do(f"store {type_text(slot.array.dtype, slot.lanes)} {v.text}, ptr {slot.alloca}")

    def _store_slot(self, r: Promotion, array: Array, address: Affine, v: Value) -> None:
        slot, fresh = self._slot(r, array, address)
        if slot.lanes:
            v = self.widen(v, slot.lanes)
        elif v.lanes:
            raise InternalError(f"lanes disagree about one element of '{array.name}'")
        varying = self.mask is not None and (slot.mask is None or slot.mask.text != self.mask.text)
        if fresh and (varying or self.conditional):  # some lanes, or all, may keep the element as it is
            self._load_in_prologue(r, slot)
        if varying:
            old = Value(
                self.op(f"load {type_text(array.dtype, slot.lanes)}, ptr {slot.alloca}"),
                array.dtype,
                slot.lanes,
            )
            assert self.mask is not None
            v = self.select(self.mask, v, old)
        slot.dirty = True
        self.do(f"store {type_text(array.dtype, slot.lanes)} {v.text}, ptr {slot.alloca}")

    @contextmanager
    def in_lanes(self, lanes: int, mask: Value | None) -> Generator[None]:
        """Emits the body of a vector loop: in so many lanes, under a mask that holds for all of it."""
        before, self.outer_mask = self.outer_mask, mask
        try:
            with self.under(lanes, mask):
                yield
        finally:
            self.outer_mask = before

    def flush(self, r: Promotion) -> None:
        """Store the slots that were written; blocks of strided lanes are transposed on the way."""
        strided: dict[tuple[str, tuple[tuple[str, int], ...], int], list[Slot]] = {}
        for slot in r.slots.values():
            if not slot.dirty or slot.array.name in r.dead or slot.array.role == "register":
                continue
            if slot.address.lane > 1:
                group = (slot.array.name, slot.address.terms, slot.lanes)
                strided.setdefault(group, []).append(slot)
            else:
                self._write_slot(slot)
            self.versions[slot.array.name] = self.versions.get(slot.array.name, 0) + 1
        calls: list[str] = []
        for group in strided.values():
            for run in _runs(group):
                if len(run) == 1 or any(s.mask is not None and s.mask.active is None for s in run):
                    for slot in run:
                        self._write_slot(slot)
                else:
                    calls += self._write_transposed(run, r.iterations >= _LONG_LOOP)
        for call in calls:  # at the end, as no register survives a call
            self.do(call)

    def _value_of(self, slot: Slot) -> Value:
        v = self.op(f"load {type_text(slot.array.dtype, slot.lanes)}, ptr {slot.alloca}")
        return Value(v, slot.array.dtype, slot.lanes)

    def _write_slot(self, slot: Slot) -> None:
        with self.under(slot.lanes, slot.mask):
            self.write(slot.array, slot.address, self._value_of(slot))

    def _write_transposed(self, run: list[Slot], outlined: bool) -> list[str]:
        """Store slots at contiguous addresses whose lanes are a stride apart: one short row for each lane.
        Returns the calls that remain to be emitted."""
        values = [self._value_of(s) for s in run]
        first, mask = run[0], run[0].mask
        active = mask.active if mask is not None and mask.active is not None else first.lanes
        if outlined and len(run) >= _MIN_OUTLINED and first.lanes >= 2 * _MIN_OUTLINED:
            return [self._call_write_rows(first, values, active)]
        self._write_rows(first.array, first.address, values, active)
        return []

    def _write_rows(self, array: Array, address: Affine, values: list[Value], active: int) -> None:
        """Store the first `active` lanes of vectors, the same lane of all vectors side by side, in pieces of
        powers of two."""
        lanes = values[0].lanes
        pieces: list[tuple[int, list[Value]]] = []
        first = 0
        while first < len(values):
            n = 1 << ((len(values) - first).bit_length() - 1)
            if n == 1:
                of = f"extractelement {type_text(array.dtype, lanes)} {values[first].text}, i64"
                pieces.append((first, [Value(self.pure(f"{of} {i}"), array.dtype) for i in range(active)]))
            else:
                pieces.append((first, self.transpose(values[first : first + n], lanes)))
            first += n
        for i in range(active):
            for first, rows in pieces:
                at = address.uniform + first + i * address.lane
                with self.under(rows[i].lanes, None):
                    self.write(array, at + Affine.of(LANE) if self.lanes else at, rows[i])

    def _call_write_rows(self, first: Slot, values: list[Value], active: int) -> str:
        """The call of a function that does what `_write_rows` does, shared by all stores of the same shape:
        shuffles take LLVM longest."""
        array, lanes = first.array, first.lanes
        vector, size = type_text(array.dtype, lanes), lanes * array.dtype.itemsize
        shape = f"{len(values)}x{active}of{lanes}.{array.dtype}.{first.address.lane}"
        name = f"turn.{shape}{'.streamed' * array.nontemporal}{'.on_lines' * array.line_aligned}"
        if name not in self.texts:
            with self.function():
                self.bases = {array.name: "%to"}
                rows = [
                    Value(
                        self.op(f"load {vector}, ptr {self._byte_offset('%from', i * size)}"),
                        array.dtype,
                        lanes,
                    )
                    for i in range(len(values))
                ]
                at = Affine.of("%at") + Affine.of(LANE) * first.address.lane
                self._write_rows(array, at, rows, active)
                lines = "\n".join([*self.fn.entry, *self.fn.lines])
            head = f'define internal void @"{name}"(ptr %from, ptr %to, i64 %at) noinline {self.attributes()}'
            self.texts[name] = f"{head} {{\n{lines}\n  ret void\n}}\n"
        scratch = self.name("turned")
        self.fn.entry.append(f"  {scratch} = alloca [{len(values)} x {vector}], align {size}")
        for i, v in enumerate(values):
            self.do(f"store {vector} {v.text}, ptr {self._byte_offset(scratch, i * size)}, align {size}")
        at = self.materialize(first.address.uniform)
        return f'call void @"{name}"(ptr {scratch}, ptr {self.base(array)}, i64 {at})'

    def _byte_offset(self, pointer: str, size: int) -> str:
        return self.pure(f"getelementptr i8, ptr {pointer}, i64 {size}") if size else pointer


def _runs(slots: list[Slot]) -> list[list[Slot]]:
    """Slots at consecutive addresses with the same mask, in runs of at most as many slots as they
    have lanes."""
    out: list[list[Slot]] = []
    for s in sorted(slots, key=lambda s: s.address.constant):
        last = out[-1] if out else None
        if (
            last is not None
            and len(last) < s.lanes
            and last[-1].address.constant + 1 == s.address.constant
            and (last[-1].mask is None) == (s.mask is None)
            and (s.mask is None or last[-1].mask is None or s.mask.text == last[-1].mask.text)
        ):
            last.append(s)
        else:
            out.append([s])
    return out
