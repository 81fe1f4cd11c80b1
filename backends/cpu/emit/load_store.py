"""Addresses, loads and stores of scalars and lanes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from tc.codegen.llvm_expr import storage_type
from tc.dtypes import BOOL, INT64, DType
from tc.errors import InternalError
from tc.ir.loops import Array

from ..isa import Isa
from ..target import LINE
from . import strided_loads
from .affine import Affine, factors
from .shuffles import ShuffleEmitter
from .strides import strides
from .values import Value, suffix, type_text

Element = tuple[str, int, Affine, int]  # array, its version, address, lanes (0 for a scalar)

_MIN_NONTEMPORAL = 16  # bytes of a non-temporal store, at least


class MemoryEmitter(ShuffleEmitter):
    """Emits loads and stores at affine addresses; the current mask applies to both."""

    def __init__(self, isa: Isa, fast_math: bool, arrays: Mapping[str, Array]) -> None:
        super().__init__(isa, fast_math)
        self.arrays = dict(arrays)
        self.strides = {name: strides(a) for name, a in self.arrays.items()}
        self.mask: Value | None = None
        self.lanes = 0  # of the enclosing vector loop, 0 outside of one
        self.updated: frozenset[str] = frozenset()  # arrays that must not be blended in memory
        self.versions: dict[str, int] = {}
        self.loaded: list[dict[Element, tuple[Value, Value | None]]] = [{}]
        self.reload_elements: frozenset[Element] = frozenset()  # elements that are loaded once more, ...
        self.pointer_copies: dict[str, str] = {}  # ... from copies of their addresses,
        # ... and the copies that existed where each block was opened.
        self.outer_pointer_copies: list[dict[str, str]] = []

    def base(self, array: Array) -> str:
        """The address of an array's first element, as an operand."""
        raise NotImplementedError

    # Index values.

    def materialize(self, a: Affine) -> str:
        """The i64 operand of a form without lanes."""
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
        """The value of a form: a scalar, or a vector if it differs between lanes."""
        if not a.terms:
            return self.integer(a.constant, INT64)
        lane = a.lane
        scalar = Value(self.materialize(a.uniform), INT64, 0, None if a.uniform.terms else a.constant)
        if not lane:
            return scalar
        return self.binary("+", self.widen(scalar, self.lanes), self.steps(INT64, self.lanes, lane))

    # Addresses.

    def pointer(self, array: Array, address: Affine, reload: bool = False) -> str:
        """The address of an element: its symbolic part is computed once, its constant part is added.  If the
        element is loaded once more (`reload`), the address is hidden from LLVM, which would keep the value of
        the first load."""
        base = self.base(array)
        ty = storage_type(array.dtype)
        symbolic = Affine(address.terms)
        if symbolic.terms:
            base = self.pure(f"getelementptr inbounds {ty}, ptr {base}, i64 {self.materialize(symbolic)}")
        if reload and base not in self.pointer_copies:
            self.pointer_copies[base] = self.op(f'call ptr asm "", "=r,0"(ptr {base})')
        # New loads use the copies, too: LLVM would load the others early.
        base = self.pointer_copies.get(base, base)
        if address.constant:
            base = self.pure(f"getelementptr inbounds {ty}, ptr {base}, i64 {address.constant}")
        self.fn.array_of[base] = array.name
        return base

    # Loads.

    def load(self, array: Array, address: Affine, inside: bool = False) -> Value:
        """The elements at an affine address, one for all lanes or one each; `inside`: they exist also where
        the mask is not set."""
        lane = address.lane
        version = self.versions.get(array.name, 0)
        key = (array.name, version, address, self.lanes if lane else 0)
        for scope in self.loaded:
            if key in scope:
                value, mask = scope[key]
                if mask is None or (self.mask is not None and mask.text == self.mask.text):
                    return value
        value = self._load(array, address, key in self.reload_elements, inside)
        guarded = not inside and self.mask is not None and self.mask.active is None and not self.mask.some
        self.loaded[-1][key] = (value, self.mask if lane or guarded else None)
        return value

    @contextmanager
    def forgetting(self) -> Generator[Callable[[], None]]:
        """Yields a function that forgets the single elements loaded since its last call.  If iterations
        shared their values, LLVM would keep these in registers and the accumulators in memory."""
        scope, before, outer = (
            self.loaded[-1],
            set(self.loaded[-1]),
            (self.reload_elements, self.pointer_copies),
        )

        def forget() -> None:
            fresh = {element for element in scope if element not in before and not element[-1]}
            for element in fresh:
                del scope[element]
            self.reload_elements |= fresh
            self.pointer_copies = {}

        try:
            yield forget
        finally:
            self.reload_elements, self.pointer_copies = outer

    @contextmanager
    def under(self, lanes: int, mask: Value | None) -> Generator[None]:
        """Emits in so many lanes, under a mask."""
        saved = self.lanes, self.mask
        self.lanes, self.mask = lanes, mask
        try:
            yield
        finally:
            self.lanes, self.mask = saved

    def _load(self, array: Array, address: Affine, reload: bool = False, inside: bool = False) -> Value:
        """Emit the load of the elements at an affine address."""
        lane, t = address.lane, array.dtype
        if lane == 0:
            if not inside and self.mask is not None and self.mask.active is None and not self.mask.some:
                return self._load_if_active(array, address)
            return self.from_storage(t, self.op(
                f"load {storage_type(t)}, ptr {self.pointer(array, address, reload)}, align {t.itemsize}"
            ), 0)  # fmt: skip
        if lane == 1:
            p = self.pointer(array, address.uniform)
            st = f"<{self.lanes} x {storage_type(t)}>"
            if self.mask is None:
                return self.from_storage(t, self.op(f"load {st}, ptr {p}, align {t.itemsize}"), self.lanes)
            return self.from_storage(t, self.masked_load(array, p, self.vector_mask().text), self.lanes)
        if self.mask is None and 1 < lane <= strided_loads.MAX_PICK_STRIDE:
            return self.from_storage(t, strided_loads.picked(self, array, address.uniform, lane), self.lanes)
        if self.mask is None or self.mask.active is not None:
            return self.from_storage(
                t, strided_loads.lane_by_lane(self, array, address.uniform, lane), self.lanes
            )
        if lane == -1:
            return self.from_storage(t, strided_loads.backwards(self, array, address.uniform), self.lanes)
        offsets = self.steps(INT64, self.lanes, lane)
        return self.gather(array, self.pointer(array, address.uniform), offsets)

    def load_or_constant(self, c: Value, array: Array, address: Affine, constant: Value) -> Value | None:
        """The elements at an address if a scalar condition holds, else a constant.  The address is selected:
        that of the elements, or that of a vector of the constant.  None where that is not possible."""
        lane, t = address.lane, array.dtype
        if lane not in (0, 1) or not self.can_select(array, constant):
            return None
        lanes = self.lanes if lane else 0
        key = self._choice_key(c, array, address, constant, lanes)
        if (cached := self._cached(key)) is not None:
            return cached
        st = storage_type(t)
        text = "0" if t.is_half else constant.text
        ty = f"<{lanes} x {st}>" if lanes else st
        all_lanes = f"<{', '.join([f'{st} {text}'] * lanes)}>" if lanes else text
        name = f"@constant.{st}.{lanes}.{re.sub('[^0-9a-zA-Z]', '_', text)}"
        self.declarations.add(f"{name} = private unnamed_addr constant {ty} {all_lanes}, align 64")
        at = self.pointer(array, address.uniform, key in self.reload_elements)
        p = self.pure(f"select i1 {c.text}, ptr {at}, ptr {name}")
        v = self.from_storage(t, self.op(f"load {ty}, ptr {p}, align {t.itemsize}"), lanes)
        self.loaded[-1][key] = (v, None)
        return v

    def load_masked(self, c: Value, array: Array, address: Affine, constant: Value) -> Value | None:
        """The element at an address inside the array, in all lanes, if a condition in lanes holds, else a
        constant: one instruction where lanes have masks.  None where that is not possible."""
        if not self.can_select(array, constant):
            return None
        key = self._choice_key(c, array, address, constant, self.lanes)
        if (cached := self._cached(key)) is not None:
            return cached
        t = array.dtype
        p = self.pointer(array, address, key in self.reload_elements)
        v = self.from_storage(t, self.op(f"load {storage_type(t)}, ptr {p}, align {t.itemsize}"), 0)
        v = self.select(c, v, constant)
        self.loaded[-1][key] = (v, None)
        return v

    def _choice_key(self, c: Value, array: Array, address: Affine, constant: Value, lanes: int) -> Element:
        """The key of a value that is an element or a constant."""
        version = self.versions.get(array.name, 0)
        return f"{array.name} if {c.text} else {constant.text}", version, address, lanes

    def _cached(self, key: Element) -> Value | None:
        """A value that was loaded in an open scope."""
        return next((scope[key][0] for scope in self.loaded if key in scope), None)

    def can_select(self, array: Array, constant: Value) -> bool:
        """Whether an element of an array in memory or a constant can be read without a branch."""
        if self.mask is not None or array.dtype == BOOL:
            return False
        return constant.constant is not None and not (array.dtype.is_half and constant.constant != 0)

    def _load_if_active(self, array: Array, address: Affine) -> Value:
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
        return self.from_storage(t, v, 0)

    def any_lane(self, mask: Value) -> str:
        """Whether some lane of a mask is set, as an i1 operand."""
        if not mask.lanes:
            return mask.text
        whole = self.pure(f"bitcast <{mask.lanes} x i1> {mask.text} to i{mask.lanes}")
        return self.pure(f"icmp ne i{mask.lanes} {whole}, 0")

    def known_lanes(self) -> Sequence[int] | None:
        """The active lanes, in ascending order, where they are known at compile time."""
        if self.mask is None:
            return range(self.lanes)
        return self.mask.places if self.mask.active is None else range(self.mask.active)

    def mask_of(self, places: Sequence[int]) -> Value:
        """The mask of these lanes, in ascending order."""
        return self.lanes_mask(places, self.lanes)

    def vector_mask(self) -> Value:
        """The mask in effect, as a vector."""
        if self.mask is None:
            return self.widen(self.integer(1, BOOL), self.lanes)
        return self.widen(self.mask, self.lanes)

    def masked_load(self, array: Array, p: str, mask: str) -> str:
        """Contiguous elements from an address on, 0 where a mask in lanes is not set; both are operands."""
        st = f"<{self.lanes} x {storage_type(array.dtype)}>"
        name = f"llvm.masked.load.{_storage_suffix(array.dtype, self.lanes)}.p0"
        self.declarations.add(f"declare {st} @{name}(ptr, i32, <{self.lanes} x i1>, {st})")
        return self.op(
            f"call {st} @{name}(ptr {p}, i32 {array.dtype.itemsize}, <{self.lanes} x i1> {mask}, "
            f"{st} zeroinitializer)"
        )

    def gather(self, array: Array, base: str, offsets: Value) -> Value:
        """Elements at `offsets` (a vector, in elements) from `base`.

        Inactive lanes read nothing; where the first lane is always active, they read the same element as that
        lane, since a branch for each lane would be much code.
        """
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
        return self.from_storage(t, v, lanes)

    def from_storage(self, t: DType, v: str, lanes: int) -> Value:
        """The value of an operand as arrays store it: booleans are bytes in memory."""
        if t != BOOL:
            return Value(v, t, lanes)
        ty = f"<{lanes} x i8>" if lanes else "i8"
        zero = "zeroinitializer" if lanes else "0"
        return Value(self.pure(f"icmp ne {ty} {v}, {zero}"), t, lanes)

    # Stores.

    def store(self, array: Array, address: Affine, v: Value) -> None:
        """Store elements at an affine address, one for all lanes or one each; later loads of them find the
        value."""
        self.versions[array.name] = self.versions.get(array.name, 0) + 1
        self.write(array, address, v)
        lane = address.lane
        if (lane and v.lanes) or (not lane and not v.lanes):
            key = (array.name, self.versions[array.name], address, self.lanes if lane else 0)
            if lane or self.mask is None:
                self.loaded[-1][key] = (v, self.mask)

    def write(self, array: Array, address: Affine, v: Value) -> None:
        """Store to memory, under the mask."""
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
        if array.name in self.updated:
            # LLVM makes a masked store of a choice between a value and what the place holds, which AMD runs
            # in microcode: 15 to 20 cycles for a vector.  It does not look behind `freeze`.
            text = self.pure(f"freeze {st} {text}")
        p = self.pointer(array, address.uniform)
        active = lanes if self.mask is None else self.mask.active
        if lane == 1 and active is not None:
            self._write_leading(array, address.uniform, p, text, active)
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

    def _is_vector_aligned(self, array: Array, address: Affine, width: int) -> str:
        """Whether a vector of `width` bytes is aligned to its width (an i1 operand), tested once for all
        vectors that lie whole vectors apart."""
        whole = address.constant - address.constant % (width // array.dtype.itemsize)
        place = self.pure(f"ptrtoint ptr {self.pointer(array, address + -whole)} to i64")
        return self.pure(f"icmp eq i64 {self.pure(f'and i64 {place}, {width - 1}')}, 0")

    def _write_leading(self, array: Array, address: Affine, p: str, text: str, active: int) -> None:
        """Store the first lanes of a vector, or all, in pieces of powers of two: masked stores are slow on
        some machines, and no instructions on others."""
        t, lanes = array.dtype, self.lanes
        width = lanes * t.itemsize
        plain = self._stores(t, p, text, _power_of_two_pieces(active, lanes))
        if array.nontemporal and (piece := _nontemporal_piece(address, t.itemsize, width)):
            nontemporal = self._stores(
                t, p, text, _power_of_two_pieces(active, piece // t.itemsize), nontemporal=True
            )
            self.emit_either(self.is_line_aligned(array), nontemporal, plain)
        elif array.line_aligned and active == lanes and _MIN_NONTEMPORAL <= width <= LINE:
            nontemporal = self._stores(t, p, text, [(0, lanes)], nontemporal=True)
            self.emit_either(self._is_vector_aligned(array, address, width), nontemporal, plain)
        else:
            for store in plain:
                self.do(store)

    def _stores(
        self, t: DType, p: str, text: str, pieces: Sequence[tuple[int, int]], *, nontemporal: bool = False
    ) -> list[str]:
        """Stores of pieces of a vector, each given by its first lane and its number of lanes.  With
        `nontemporal`, those that are long enough are non-temporal; their addresses must be aligned to their
        length."""
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
            hint = (
                f"{width}, !nontemporal !0" if nontemporal and width >= _MIN_NONTEMPORAL else f"{t.itemsize}"
            )
            out.append(f"store {kind} {piece}, ptr {at}, align {hint}")
        return out

    def _write_one(self, array: Array, p: str, v: Value) -> None:
        """Store a scalar, if some lane is active."""
        t, text = array.dtype, v.text
        if t == BOOL:
            text = self.pure(f"zext i1 {text} to i8")
        write = f"store {storage_type(t)} {text}, ptr {p}, align {t.itemsize}"
        if self.mask is None or self.mask.some:
            self.do(write)
            return
        self.when(self.any_lane(self.mask), lambda: self.do(write))

    def is_line_aligned(self, array: Array) -> str:
        """Whether an array starts on a cache line (an i1 operand)."""
        raise NotImplementedError

    def emit_either(self, condition: str, yes: Sequence[str], no: Sequence[str]) -> None:
        """Emit a branch to one of two lists of instructions."""
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
        """Emit `body` in a block of its own that runs if a condition (an i1 operand) holds."""
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
        self.outer_pointer_copies.append(dict(self.pointer_copies))

    def close(self) -> None:
        super().close()
        self.loaded.pop()
        self.pointer_copies = self.outer_pointer_copies.pop()


def _nontemporal_piece(address: Affine, itemsize: int, width: int) -> int:
    """The length in bytes of the non-temporal stores of which a vector of `width` bytes, at most a line,
    consists, in an array that starts on a line; 0 if they would be too short.

    They are aligned to their length.  All stores to such an array are divided so: a line of which one part is
    stored non-temporally and another is not takes far longer than either.
    """
    parts = (address.constant, *(f for _, f in address.terms))
    piece = math.gcd(*(f * itemsize for f in parts), width, LINE)
    return piece if piece >= _MIN_NONTEMPORAL and width <= LINE else 0


def _power_of_two_pieces(lanes: int, most: int) -> list[tuple[int, int]]:
    """The first lanes of a vector in pieces of powers of two, the longest first: the first lane and the
    number of lanes of each."""
    out, first = list[tuple[int, int]](), 0
    while first < lanes:
        n = min(most, 1 << ((lanes - first).bit_length() - 1))
        out.append((first, n))
        first += n
    return out


def _storage_suffix(t: DType, lanes: int) -> str:
    """The name of a vector type, as arrays store it, in the name of an intrinsic."""
    if t.is_bool:
        return f"v{lanes}i8"
    return f"v{lanes}i16" if t.is_half else suffix(t, lanes)
