"""Addresses, loads and stores of lanes; elements that live in registers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from tc.codegen.llvm_expr import storage_type
from tc.dtypes import BOOL, INT32, INT64, DType
from tc.errors import InternalError
from tc.ir.expr import Expr, IntImm, Mul
from tc.ir.loops import Array
from tc.ir.simplify import simplify

from ..isa import Isa
from ..machine import LINE
from .affine import LANE, Affine, factors
from .values import Value, ValueEmitter, suffix, type_text

Key = tuple[str, Affine]
Element = tuple[str, int, Affine, int]  # of a version of an array, or of so many lanes, 0 if single

_OUTLINED = 4  # vectors that are turned by a function
_LONG = 16  # iterations of some dozen vector operations each, beside which a call is nothing
_SHORTEST = 16  # bytes of a store past the caches
CLOSE = 4  # elements between lanes up to which neighbours are loaded and picked from


@dataclass(slots=True)
class Slot:
    """An element, or the elements of all lanes, in registers: an alloca that becomes a register."""

    alloca: str
    array: Array
    address: Affine
    lanes: int
    mask: Value | None
    dirty: bool = False


@dataclass(slots=True)
class Registers:
    """What a `Promote` keeps in registers; `prologue` collects the loads that go before its body, which
    writes the buffers `written`."""

    buffers: frozenset[str]
    dead: frozenset[str]
    written: frozenset[str]
    depth: int  # pure scopes that were open where the prologue stands
    iterations: int  # of loops in its body
    prologue: list[str] = field(default_factory=list[str])
    slots: dict[Key, Slot] = field(default_factory=dict[Key, Slot])


def strides(array: Array) -> tuple[int | Expr, ...]:
    """Elements between neighbours in each dimension of a dense array."""
    out: list[int | Expr] = []
    step: int | Expr = 1
    for extent in reversed(array.shape):
        out.append(step)
        if isinstance(extent, IntImm) and isinstance(step, int):
            step *= max(extent.value, 1)
        else:
            step = simplify(Mul(extent, IntImm(step) if isinstance(step, int) else step), exact=True)
    return tuple(reversed(out))


class MemoryEmitter(ValueEmitter):
    """Loads and stores at affine addresses; the current mask applies to both."""

    def __init__(self, isa: Isa, fast_math: bool, arrays: Mapping[str, Array]) -> None:
        super().__init__(isa, fast_math)
        self.arrays = dict(arrays)
        self.strides = {name: strides(a) for name, a in self.arrays.items()}
        self.mask: Value | None = None
        self.outer_mask: Value | None = None  # of the vector loop around, before any condition
        self.conditional = 0  # branches around that may not be taken
        self.lanes = 0  # of the vector loop around, 0 outside of one
        self.registers: list[Registers] = []
        self.versions: dict[str, int] = {}
        self.loaded: list[dict[Element, tuple[Value, Value | None]]] = [{}]
        self.again: frozenset[Element] = frozenset()  # elements that are loaded once more, from ...
        self.copies: dict[str, str] = {}  # ... copies of their addresses,
        self.copies_around: list[dict[str, str]] = []  # and those that were known where a block was opened

    def base(self, array: Array) -> str:
        """The address of an array's first element."""
        raise NotImplementedError

    def attributes(self) -> str:
        """Those of every function."""
        raise NotImplementedError

    def function(self) -> AbstractContextManager[None]:
        """Another function is written, which shares no operands with this one."""
        raise NotImplementedError

    # Index values.

    def materialize(self, a: Affine) -> str:
        """A form without lanes as an i64 operand."""
        total = ""
        for name, factor in a.terms:
            first, *rest = factors(name)
            for other in rest:
                first = self.pure(f"mul nsw i64 {first}, {other}")
            term = first if factor == 1 else self.pure(f"mul nsw i64 {first}, {factor}")
            total = term if not total else self.pure(f"add nsw i64 {total}, {term}")
        if not total:
            return str(a.constant)
        return self.pure(f"add nsw i64 {total}, {a.constant}") if a.constant else total

    def index_value(self, a: Affine) -> Value:
        """A form as a value: a scalar, or a vector if it differs between lanes."""
        if not a.terms:
            return self.integer(a.constant, INT64)
        lane = a.lane
        scalar = Value(self.materialize(a.uniform), INT64, 0, None if a.uniform.terms else a.constant)
        if not lane:
            return scalar
        return self.binary("+", self.widen(scalar, self.lanes), self.steps(INT64, self.lanes, lane))

    # Addresses.

    def pointer(self, array: Array, address: Affine, again: bool = False) -> str:
        """The address of an element: the symbolic part is computed once, the constant part on top of it.  If
        it is loaded `again`, LLVM must not see that the address is one that it knows."""
        base = self.base(array)
        ty = storage_type(array.dtype)
        symbolic = Affine(address.terms)
        if symbolic.terms:
            base = self.pure(f"getelementptr inbounds {ty}, ptr {base}, i64 {self.materialize(symbolic)}")
        if again and base not in self.copies:
            self.copies[base] = self.op(f'call ptr asm "", "=r,0"(ptr {base})')
        base = self.copies.get(base, base)  # what is new goes with the others: LLVM would load it early
        if address.constant:
            base = self.pure(f"getelementptr inbounds {ty}, ptr {base}, i64 {address.constant}")
        self.fn.array_of[base] = array.name
        return base

    # Loads.

    def load(self, array: Array, address: Affine) -> Value:
        """The elements at an affine address, one for all lanes or one each."""
        held = self.held(array)
        if held is not None:
            return self._load_slot(held, array, address)
        lane = address.lane
        version = self.versions.get(array.name, 0)
        key = (array.name, version, address, self.lanes if lane else 0)
        for scope in self.loaded:
            if key in scope:
                value, mask = scope[key]
                if mask is None or (self.mask is not None and mask.text == self.mask.text):
                    return value
        value = self._load(array, address, key in self.again)
        guarded = self.mask is not None and self.mask.active is None and not self.mask.some
        self.loaded[-1][key] = (value, self.mask if lane or guarded else None)
        return value

    @contextmanager
    def forgetting(self) -> Generator[Callable[[], None]]:
        """What is given forgets the single elements that were loaded in between: LLVM would keep those that
        an iteration shares with the next ones in registers, and accumulators in memory."""
        scope, before, outer = self.loaded[-1], set(self.loaded[-1]), (self.again, self.copies)

        def forget() -> None:
            fresh = {element for element in scope if element not in before and not element[-1]}
            for element in fresh:
                del scope[element]
            self.again |= fresh
            self.copies = {}

        yield forget
        self.again, self.copies = outer

    def _load(self, array: Array, address: Affine, again: bool = False) -> Value:
        lane, t = address.lane, array.dtype
        if lane == 0:
            if self.mask is not None and self.mask.active is None and not self.mask.some:
                return self._guarded(array, address)
            return self.from_memory(t, self.op(
                f"load {storage_type(t)}, ptr {self.pointer(array, address, again)}, align {t.itemsize}"
            ), 0)  # fmt: skip
        if lane == 1:
            p = self.pointer(array, address.uniform)
            st = f"<{self.lanes} x {storage_type(t)}>"
            if self.mask is None:
                return self.from_memory(t, self.op(f"load {st}, ptr {p}, align {t.itemsize}"), self.lanes)
            return self.from_memory(t, self._masked_load(array, p), self.lanes)
        if self.mask is None and 1 < lane <= CLOSE:
            return self.from_memory(t, self._picked(array, address.uniform, lane), self.lanes)
        if self.mask is None or self.mask.active is not None:
            return self.from_memory(t, self._one_by_one(array, address.uniform, lane), self.lanes)
        offsets = self.steps(INT64, self.lanes, lane)
        return self.gather(array, self.pointer(array, address.uniform), offsets)

    def load_or(self, c: Value, array: Array, address: Affine, constant: Value) -> Value | None:
        """The elements at an address if a scalar condition holds, else a constant: the address is chosen,
        that of the elements or that of lanes of the constant.  None where it cannot be."""
        lane, t = address.lane, array.dtype
        if lane not in (0, 1) or not self._may_choose(array, constant):
            return None
        lanes = self.lanes if lane else 0
        key = self._either(c, array, address, constant, lanes)
        if (known := self._known(key)) is not None:
            return known
        st = storage_type(t)
        text = "0" if t.is_half else constant.text
        ty = f"<{lanes} x {st}>" if lanes else st
        all_lanes = f"<{', '.join([f'{st} {text}'] * lanes)}>" if lanes else text
        name = f"@constant.{st}.{lanes}.{re.sub('[^0-9a-zA-Z]', '_', text)}"
        self.declarations.add(f"{name} = private unnamed_addr constant {ty} {all_lanes}, align 64")
        at = self.pointer(array, address.uniform, key in self.again)
        p = self.pure(f"select i1 {c.text}, ptr {at}, ptr {name}")
        v = self.from_memory(t, self.op(f"load {ty}, ptr {p}, align {t.itemsize}"), lanes)
        self.loaded[-1][key] = (v, None)
        return v

    def load_masked(self, c: Value, array: Array, address: Affine, constant: Value) -> Value | None:
        """The element at an address, which is in the array, in all lanes if a condition in lanes holds, else
        a constant: one instruction where lanes have masks.  None where it cannot be."""
        if not self._may_choose(array, constant):
            return None
        key = self._either(c, array, address, constant, self.lanes)
        if (known := self._known(key)) is not None:
            return known
        t = array.dtype
        p = self.pointer(array, address, key in self.again)
        v = self.from_memory(t, self.op(f"load {storage_type(t)}, ptr {p}, align {t.itemsize}"), 0)
        v = self.select(c, v, constant)
        self.loaded[-1][key] = (v, None)
        return v

    def _either(self, c: Value, array: Array, address: Affine, constant: Value, lanes: int) -> Element:
        """The key of an element or a constant that has been read."""
        version = self.versions.get(array.name, 0)
        return f"{array.name} if {c.text} else {constant.text}", version, address, lanes

    def _known(self, key: Element) -> Value | None:
        return next((scope[key][0] for scope in self.loaded if key in scope), None)

    def _may_choose(self, array: Array, constant: Value) -> bool:
        """Whether an element of an array in memory or a constant may be read without a branch."""
        if self.mask is not None or array.dtype == BOOL or self.held(array) is not None:
            return False
        return constant.constant is not None and not (array.dtype.is_half and constant.constant != 0)

    def _picked(self, array: Array, first: Affine, stride: int) -> str:
        """Every second, third or fourth element of neighbours: contiguous loads, none beyond the last
        element, and shuffles."""
        st, lanes = storage_type(array.dtype), self.lanes
        vt = f"<{lanes} x {st}>"
        out = "poison"
        for j in range(stride):
            there = [i for i in range(lanes) if j * lanes <= i * stride < (j + 1) * lanes]
            if not there:
                continue
            start = min(j * lanes, (lanes - 1) * stride + 1 - lanes)
            p = self.pointer(array, first + start)
            v = self.op(f"load {vt}, ptr {p}, align {array.dtype.itemsize}")
            picked = [f"i32 {i}" if i < there[0] else "i32 poison" for i in range(lanes)]
            for i in there:
                picked[i] = f"i32 {lanes + i * stride - start}"
            out = self.op(f"shufflevector {vt} {out}, {vt} {v}, <{lanes} x i32> <{', '.join(picked)}>")
        return out

    def _one_by_one(self, array: Array, first: Affine, stride: int) -> str:
        """The elements of active lanes, each loaded on its own; 0 in the others."""
        st, lanes = storage_type(array.dtype), self.lanes
        active = lanes if self.mask is None or self.mask.active is None else self.mask.active
        out = "poison" if active == lanes else "zeroinitializer"
        for i in range(active):
            p = self.pointer(array, first + i * stride)
            v = self.op(f"load {st}, ptr {p}, align {array.dtype.itemsize}")
            out = self.op(f"insertelement <{lanes} x {st}> {out}, {st} {v}, i64 {i}")
        return out

    def _guarded(self, array: Array, address: Affine) -> Value:
        """One element for all lanes, read only if some lane is active."""
        assert self.mask is not None
        t = array.dtype
        any_lane = self.any_lane(self.mask)
        yes, after = self.label("read"), self.label("go")
        p = self.pointer(array, address)
        before = self.fn.block
        self.do(f"br i1 {any_lane}, label %{yes}, label %{after}")
        self.start(yes)
        v = self.op(f"load {storage_type(t)}, ptr {p}, align {t.itemsize}")
        self.do(f"br label %{after}")
        self.start(after)
        zero = "0" if not t.is_float or t.is_half else "0.0"
        v = self.op(f"phi {storage_type(t)} [ {v}, %{yes} ], [ {zero}, %{before} ]")
        return self.from_memory(t, v, 0)

    def any_lane(self, mask: Value) -> str:
        if not mask.lanes:
            return mask.text
        whole = self.pure(f"bitcast <{mask.lanes} x i1> {mask.text} to i{mask.lanes}")
        return self.pure(f"icmp ne i{mask.lanes} {whole}, 0")

    def vector_mask(self) -> Value:
        """The mask in effect, as a vector."""
        if self.mask is None:
            return self.widen(self.integer(1, BOOL), self.lanes)
        return self.widen(self.mask, self.lanes)

    def _masked_load(self, array: Array, p: str) -> str:
        st = f"<{self.lanes} x {storage_type(array.dtype)}>"
        name = f"llvm.masked.load.{_storage_suffix(array.dtype, self.lanes)}.p0"
        self.declarations.add(f"declare {st} @{name}(ptr, i32, <{self.lanes} x i1>, {st})")
        m = self.vector_mask()
        return self.op(
            f"call {st} @{name}(ptr {p}, i32 {array.dtype.itemsize}, <{self.lanes} x i1> {m.text}, "
            f"{st} zeroinitializer)"
        )

    def gather(self, array: Array, base: str, offsets: Value) -> Value:
        """Elements `offsets` (in elements, a vector) away from `base`; inactive lanes read nothing, or what
        the first lane does where that is active: a branch for each lane is much code."""
        t, lanes = array.dtype, self.lanes
        st = storage_type(t)
        first_active = self.mask is not None and self.mask.some
        if first_active:
            ty = type_text(offsets.dtype, lanes)
            first = self.pure(
                f"shufflevector {ty} {offsets.text}, {ty} poison, <{lanes} x i32> zeroinitializer"
            )
            offsets = self.select(self.vector_mask(), offsets, Value(first, offsets.dtype, lanes))
        pointers = self.pure(
            f"getelementptr {st}, ptr {base}, {type_text(offsets.dtype, lanes)} {offsets.text}"
        )
        vt = f"<{lanes} x {st}>"
        name = f"llvm.masked.gather.{_storage_suffix(t, lanes)}.v{lanes}p0"
        self.declarations.add(f"declare {vt} @{name}(<{lanes} x ptr>, i32, <{lanes} x i1>, {vt})")
        m = self.widen(self.integer(1, BOOL), lanes) if first_active else self.vector_mask()
        v = self.op(
            f"call {vt} @{name}(<{lanes} x ptr> {pointers}, i32 {t.itemsize}, <{lanes} x i1> {m.text}, "
            f"{vt} zeroinitializer)"
        )
        return self.from_memory(t, v, lanes)

    def from_memory(self, t: DType, v: str, lanes: int) -> Value:
        if t != BOOL:
            return Value(v, t, lanes)
        ty = f"<{lanes} x i8>" if lanes else "i8"
        zero = "zeroinitializer" if lanes else "0"
        return Value(self.pure(f"icmp ne {ty} {v}, {zero}"), t, lanes)

    # Stores.

    def store(self, array: Array, address: Affine, v: Value) -> None:
        held = self.held(array)
        if held is not None:
            self._store_slot(held, array, address, v)
            return
        self.versions[array.name] = self.versions.get(array.name, 0) + 1
        self.write(array, address, v)
        lane = address.lane
        if (lane and v.lanes) or (not lane and not v.lanes):
            key = (array.name, self.versions[array.name], address, self.lanes if lane else 0)
            if lane or self.mask is None:
                self.loaded[-1][key] = (v, self.mask)

    def write(self, array: Array, address: Affine, v: Value) -> None:
        """To memory, under the mask."""
        t, lane, lanes = array.dtype, address.lane, self.lanes
        if not lane:
            if v.lanes:
                raise InternalError(f"lanes disagree about one element of '{array.name}'")
            self._write_one(array, self.pointer(array, address), v)
            return
        v = self.widen(v, lanes)
        text, st = v.text, f"<{lanes} x {storage_type(t)}>"
        if t == BOOL:
            text = self.pure(f"zext <{lanes} x i1> {text} to {st}")
        p = self.pointer(array, address.uniform)
        active = lanes if self.mask is None else self.mask.active
        if lane == 1 and active is not None:
            self._write_first(array, address.uniform, p, text, active)
            return
        m = self.vector_mask()
        if lane == 1:
            name = f"llvm.masked.store.{_storage_suffix(t, lanes)}.p0"
            self.declarations.add(f"declare void @{name}({st}, ptr, i32, <{lanes} x i1>)")
            self.do(f"call void @{name}({st} {text}, ptr {p}, i32 {t.itemsize}, <{lanes} x i1> {m.text})")
            return
        offsets = self.steps(INT64, lanes, lane)
        pointers = self.pure(
            f"getelementptr {storage_type(t)}, ptr {p}, {type_text(INT64, lanes)} {offsets.text}"
        )
        name = f"llvm.masked.scatter.{_storage_suffix(t, lanes)}.v{lanes}p0"
        self.declarations.add(f"declare void @{name}({st}, <{lanes} x ptr>, i32, <{lanes} x i1>)")
        self.do(
            f"call void @{name}({st} {text}, <{lanes} x ptr> {pointers}, i32 {t.itemsize}, "
            f"<{lanes} x i1> {m.text})"
        )

    def _on_its_place(self, array: Array, address: Affine, width: int) -> str:
        """Whether a vector of so many bytes lies on a multiple of them (an i1 operand), asked once for all
        that lie whole vectors apart."""
        whole = address.constant - address.constant % (width // array.dtype.itemsize)
        place = self.pure(f"ptrtoint ptr {self.pointer(array, address + -whole)} to i64")
        return self.pure(f"icmp eq i64 {self.pure(f'and i64 {place}, {width - 1}')}, 0")

    def _write_first(self, array: Array, address: Affine, p: str, text: str, active: int) -> None:
        """The first lanes of a vector, or all, in stores of powers of two: masked stores are slow on some
        machines, and are no instructions on others."""
        t, lanes = array.dtype, self.lanes
        width = lanes * t.itemsize
        plain = self._stores(t, p, text, _cut(active, lanes))
        if array.streamed and (piece := _aligned(address, t.itemsize, width)):
            past = self._stores(t, p, text, _cut(active, piece // t.itemsize), past=True)
            self.either(self.on_a_line(array), past, plain)
        elif array.on_lines and active == lanes and _SHORTEST <= width <= LINE:
            past = self._stores(t, p, text, [(0, lanes)], past=True)
            self.either(self._on_its_place(array, address, width), past, plain)
        else:
            for store in plain:
                self.do(store)

    def _stores(
        self, t: DType, p: str, text: str, pieces: Sequence[tuple[int, int]], *, past: bool = False
    ) -> list[str]:
        """Stores of pieces of a vector, each its first lane and how many; `past` the caches those that are
        long enough, which must be where multiples of their length are."""
        ty, out = storage_type(t), list[str]()
        for first, n in pieces:
            at = self.pure(f"getelementptr inbounds {ty}, ptr {p}, i64 {first}") if first else p
            vector, piece, kind = f"<{self.lanes} x {ty}>", text, f"<{n} x {ty}>"
            if n == 1:
                piece, kind = self.pure(f"extractelement {vector} {text}, i64 {first}"), ty
            elif n < self.lanes:
                picked = ", ".join(f"i32 {first + i}" for i in range(n))
                piece = self.pure(f"shufflevector {vector} {text}, {vector} poison, <{n} x i32> <{picked}>")
            width = n * t.itemsize
            hint = f"{width}, !nontemporal !0" if past and width >= _SHORTEST else f"{t.itemsize}"
            out.append(f"store {kind} {piece}, ptr {at}, align {hint}")
        return out

    def _write_one(self, array: Array, p: str, v: Value) -> None:
        t, text = array.dtype, v.text
        if t == BOOL:
            text = self.pure(f"zext i1 {text} to i8")
        write = f"store {storage_type(t)} {text}, ptr {p}, align {t.itemsize}"
        if self.mask is None or self.mask.some:
            self.do(write)
            return
        self.when(self.any_lane(self.mask), lambda: self.do(write))

    def on_a_line(self, array: Array) -> str:
        """Whether an array starts on a cache line (an i1 operand)."""
        raise NotImplementedError

    def either(self, condition: str, yes: Sequence[str], no: Sequence[str]) -> None:
        """Some instructions or others."""
        labels = self.label("past"), self.label("plain")
        after = self.label("stored")
        self.do(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}")
        for label, instructions in zip(labels, (yes, no), strict=True):
            self.start(label)
            for instruction in instructions:
                self.do(instruction)
            self.do(f"br label %{after}")
        self.start(after)

    def when(self, condition: str, body: Callable[[], None]) -> None:
        """`body` in a block of its own that runs if a condition (an i1 operand) holds."""
        yes, after = self.label("then"), self.label("endif")
        self.do(f"br i1 {condition}, label %{yes}, label %{after}")
        self.start(yes)
        self.open()
        body()
        self.close()
        self.do(f"br label %{after}")
        self.start(after)

    def open(self) -> None:
        super().open()
        self.loaded.append({})
        self.copies_around.append(dict(self.copies))

    def close(self) -> None:
        super().close()
        self.loaded.pop()
        self.copies = self.copies_around.pop()

    # Registers.

    def held(self, array: Array) -> Registers | None:
        for r in reversed(self.registers):
            if array.name in r.buffers:
                return r
        return None

    def _slot(self, r: Registers, array: Array, address: Affine) -> tuple[Slot, bool]:
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

    def _load_slot(self, r: Registers, array: Array, address: Affine) -> Value:
        slot, fresh = self._slot(r, array, address)
        if fresh:
            self._load_before(r, slot)
        text = f"load {type_text(array.dtype, slot.lanes)}, ptr {slot.alloca}"
        # What nothing writes stays the same, and so are checks of it.
        return Value((self.op if array.name in r.written else self.pure)(text), array.dtype, slot.lanes)

    def _load_before(self, r: Registers, slot: Slot) -> None:
        """Fill a slot where the registers' scope begins."""
        if slot.array.role == "register":
            raise InternalError(f"'{slot.array.name}' is read before it is written")
        lines_before, self.fn.lines = self.fn.lines, r.prologue
        pure, self.fn.pure = self.fn.pure, [*self.fn.pure[: r.depth], {}]
        mask, self.mask = self.mask, slot.mask
        lanes, self.lanes = self.lanes, slot.lanes
        v = self._load(slot.array, slot.address)
        self.do(f"store {type_text(slot.array.dtype, slot.lanes)} {v.text}, ptr {slot.alloca}")
        self.fn.lines, self.fn.pure, self.mask, self.lanes = lines_before, pure, mask, lanes

    def _store_slot(self, r: Registers, array: Array, address: Affine, v: Value) -> None:
        slot, fresh = self._slot(r, array, address)
        if slot.lanes:
            v = self.widen(v, slot.lanes)
        elif v.lanes:
            raise InternalError(f"lanes disagree about one element of '{array.name}'")
        varying = self.mask is not None and (slot.mask is None or slot.mask.text != self.mask.text)
        if fresh and (varying or self.conditional):  # some lanes, or all, may keep the element as it is
            self._load_before(r, slot)
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

    def flush(self, r: Registers) -> None:
        """Write what the registers hold to memory; blocks of strided lanes are transposed on the way."""
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
                    calls += self._write_transposed(run, r.iterations >= _LONG)
        for call in calls:  # at last, as no register outlives a call
            self.do(call)

    def _value_of(self, slot: Slot) -> Value:
        v = self.op(f"load {type_text(slot.array.dtype, slot.lanes)}, ptr {slot.alloca}")
        return Value(v, slot.array.dtype, slot.lanes)

    def _write_slot(self, slot: Slot) -> None:
        mask, lanes = self.mask, self.lanes
        self.mask, self.lanes = slot.mask, slot.lanes
        self.write(slot.array, slot.address, self._value_of(slot))
        self.mask, self.lanes = mask, lanes

    def _write_transposed(self, run: list[Slot], outlined: bool) -> list[str]:
        """Slots at neighbouring addresses whose lanes lie a stride apart: one short row a lane.  What is left
        to call."""
        values = [self._value_of(s) for s in run]
        first, mask = run[0], run[0].mask
        active = mask.active if mask is not None and mask.active is not None else first.lanes
        if outlined and len(run) >= _OUTLINED and first.lanes >= 2 * _OUTLINED:
            return [self._call_turned(first, values, active)]
        self._write_turned(first.array, first.address, values, active)
        return []

    def _write_turned(self, array: Array, address: Affine, values: list[Value], active: int) -> None:
        """The first `active` lanes of vectors, those of each side by side: in pieces of powers of two."""
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
        saved = self.mask, self.lanes
        self.mask = None
        for i in range(active):
            for first, rows in pieces:
                at = address.uniform + first + i * address.lane
                self.lanes = rows[i].lanes
                self.write(array, at + Affine.of(LANE) if self.lanes else at, rows[i])
        self.mask, self.lanes = saved

    def _call_turned(self, first: Slot, values: list[Value], active: int) -> str:
        """The call of a function that does what `_write_turned` would, one for all of a form: LLVM takes
        longest for shuffles."""
        array, lanes = first.array, first.lanes
        vector, size = type_text(array.dtype, lanes), lanes * array.dtype.itemsize
        shape = f"{len(values)}x{active}of{lanes}.{array.dtype}.{first.address.lane}"
        name = f"turn.{shape}{'.streamed' * array.streamed}{'.on_lines' * array.on_lines}"
        if name not in self.texts:
            with self.function():
                self.bases = {array.name: "%to"}
                rows = [
                    Value(
                        self.op(f"load {vector}, ptr {self._beyond('%from', i * size)}"), array.dtype, lanes
                    )
                    for i in range(len(values))
                ]
                at = Affine.of("%at") + Affine.of(LANE) * first.address.lane
                self._write_turned(array, at, rows, active)
                lines = "\n".join([*self.fn.entry, *self.fn.lines])
            head = f'define internal void @"{name}"(ptr %from, ptr %to, i64 %at) noinline {self.attributes()}'
            self.texts[name] = f"{head} {{\n{lines}\n  ret void\n}}\n"
        scratch = self.name("turned")
        self.fn.entry.append(f"  {scratch} = alloca [{len(values)} x {vector}], align {size}")
        for i, v in enumerate(values):
            self.do(f"store {vector} {v.text}, ptr {self._beyond(scratch, i * size)}, align {size}")
        at = self.materialize(first.address.uniform)
        return f'call void @"{name}"(ptr {scratch}, ptr {self.base(array)}, i64 {at})'

    def _beyond(self, pointer: str, size: int) -> str:
        return self.pure(f"getelementptr i8, ptr {pointer}, i64 {size}") if size else pointer

    def tail_mask(self, active: int, lanes: int) -> Value:
        """The mask whose first lanes are active."""
        text = "<" + ", ".join(f"i1 {'true' if i < active else 'false'}" for i in range(lanes)) + ">"
        return Value(text, BOOL, lanes, None, active)

    def leading_mask(self, active: str, lanes: int) -> Value:
        """The mask whose first lanes are active, at least one; `active` is an i64 operand."""
        count = Value(self.pure(f"trunc i64 {active} to i32"), INT32)
        steps, count = self.steps(INT32, lanes, 1), self.widen(count, lanes)
        text = self.pure(f"icmp ult {type_text(INT32, lanes)} {steps.text}, {count.text}")
        return Value(text, BOOL, lanes, None, None, True)

    def transpose(self, rows: list[Value], lanes: int) -> list[Value]:
        """Lane i of row j becomes lane j of row i; the rows are as many as a power of two has lanes.

        Perfect shuffles (Stone, "Parallel processing with the perfect shuffle", 1971): of elements within
        128 bits, then of these where there are more rows, so that most are instructions without an operand
        that tells the order.
        """
        n = 1 << max(1, (len(rows) - 1).bit_length())
        t = rows[0].dtype
        each = min(16 // t.itemsize, lanes)  # of 128 bits
        m = min(n, each)
        texts = [*(r.text for r in rows), *["poison"] * (n - len(rows))]
        blocks = range(0, lanes, each)

        def picked(order: Sequence[int]) -> Callable[[str, str], str]:
            return lambda a, b: self.shuffled(type_text(t, lanes), a, b, order)

        near = [b + i + j * lanes for b in blocks for i in range(each // 2) for j in (0, 1)]
        low, high = picked(near), picked([i + each // 2 for i in near])
        groups: list[list[str]] = []
        for first in range(0, n, m):
            group = texts[first : first + m]
            for _ in range(m.bit_length() - 1):
                pairs = list(zip(group[: m // 2], group[m // 2 :], strict=True))
                group = [f(a, b) for a, b in pairs for f in (low, high)]
            groups.append(group)
        if n <= each:  # several rows within 128 bits
            parts = each // n
            places = [(i % each // parts, i // each * each + i % parts * n) for i in range(lanes)]
            return [Value(self._part(t, lanes, groups[0][v], at, n), t, n) for v, at in places]
        evens = picked([b + i for b in range(0, 2 * lanes, 2 * each) for i in range(each)])
        odds = picked([b + each + i for b in range(0, 2 * lanes, 2 * each) for i in range(each)])
        out = [""] * lanes
        for i in range(each):
            found = [g[i] for g in groups]
            for _ in range(len(blocks).bit_length() - 1):
                pairs = list(zip(found[::2], found[1::2], strict=True))
                found = [f(a, b) for f in (evens, odds) for a, b in pairs]
            for k in range(len(blocks)):
                v, at = divmod(k * n, lanes)
                if n <= lanes:
                    out[k * each + i] = self._part(t, lanes, found[v], at, n)
                else:
                    out[k * each + i] = self._together(t, lanes, found[v : v + n // lanes])
        return [Value(x, t, n) for x in out]

    def shuffled(self, ty: str, a: str, b: str, order: Sequence[int | None]) -> str:
        """Elements of two vectors of one type, by number; any where there is none."""
        if a == b == "poison":
            return a
        picked = ", ".join("i32 poison" if i is None else f"i32 {i}" for i in order)
        return self.pure(f"shufflevector {ty} {a}, {ty} {b}, <{len(order)} x i32> <{picked}>")

    def _part(self, t: DType, lanes: int, v: str, first: int, count: int) -> str:
        """Some neighbours of a vector."""
        whole = type_text(t, lanes)
        return v if count == lanes else self.shuffled(whole, v, "poison", range(first, first + count))

    def _together(self, t: DType, lanes: int, vectors: Sequence[str]) -> str:
        """Vectors, one after the other."""
        out = list(vectors)
        while len(out) > 1:
            pairs = zip(out[::2], out[1::2], strict=True)
            out = [self.shuffled(type_text(t, lanes), a, b, range(2 * lanes)) for a, b in pairs]
            lanes *= 2
        return out[0]


def _aligned(address: Affine, itemsize: int, width: int) -> int:
    """How many bytes of a vector of `width`, at most a line, lie on multiples of as many in an array that
    starts on a line; 0 if no store past the caches is so short.  All stores to such an array are cut so: a
    line of which one part goes past the caches and another does not takes far longer than either."""
    parts = (address.constant, *(f for _, f in address.terms))
    piece = math.gcd(*(f * itemsize for f in parts), width, LINE)
    return piece if piece >= _SHORTEST and width <= LINE else 0


def _cut(lanes: int, most: int) -> list[tuple[int, int]]:
    """The first lanes of a vector in pieces of powers of two, the longest first: the first lane of each, and
    how many."""
    out, first = list[tuple[int, int]](), 0
    while first < lanes:
        n = min(most, 1 << ((lanes - first).bit_length() - 1))
        out.append((first, n))
        first += n
    return out


def _runs(slots: list[Slot]) -> list[list[Slot]]:
    """Slots at consecutive addresses with one mask, in runs of as many as they have lanes at most."""
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


def _storage_suffix(t: DType, lanes: int) -> str:
    if t.is_bool:
        return f"v{lanes}i8"
    return f"v{lanes}i16" if t.is_half else suffix(t, lanes)
