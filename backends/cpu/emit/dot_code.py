"""Dot products: loops over contiguous elements of both factors of a product, as dot-product instructions."""

from __future__ import annotations

from tc.codegen.llvm_expr import storage_type
from tc.dtypes import INT8, INT16, INT32, UINT8, DType, accumulator
from tc.errors import InternalError
from tc.ir.expr import Cast, Expr, IntImm, Load, Mul, UIntImm
from tc.ir.loops import Array, Compute, For
from tc.poly.tiles.builder import loads

from .affine import LANE, Affine
from .expressions import Env, ExpressionEmitter
from .values import Value, type_text

# Instructions for sums of two products of 16-bit integers, by lanes.
_PAIRS = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}


class DotEmitter(ExpressionEmitter):
    """Emits dot-product instructions; a loop for which there is none is left to the caller, which runs it
    point by point."""

    def dot(self, s: For, env: Env, lower: Affine, points: int) -> bool:
        """Emit a group of points of a loop inside of lanes; returns whether there are instructions for it."""
        c = s.body
        if not self.isa.pair_dots or not isinstance(c, Compute) or not self.lanes:
            return False
        inside = env.bind(s.var, lower), env.bind(s.var, lower + 1)
        if c.op is None:
            return self._interleave_copy(c, s, env, lower, points)
        return self._dot_sum(c, inside, points)

    # Sums.

    def _dot_sum(self, c: Compute, envs: tuple[Env, Env], points: int) -> bool:
        """Emit `c` summed over a group of points; `envs` are those of the first two points.  Returns whether
        there are instructions for it."""
        array, lanes = self.arrays[c.buffer], self.lanes
        t = accumulator(array.dtype, c.value.dtype)
        if c.op != "+" or not isinstance(c.value, Mul) or t != array.dtype or not t.is_int or t.bits != 32:
            return False
        if lanes not in (4, 8, 16) or self.isa.vector_bytes < 4 * lanes or self._conditional_lanes():
            return False
        address, following = (self.address(array, c.subscripts, e) for e in envs)
        if address is None or address != following or address.lane == 0:
            return False
        a, b = (self._read_dtype(x) for x in (c.value.a, c.value.b))
        kinds = {k for k in (a, b) if k is not None}
        if not kinds or not kinds <= {INT8, UINT8, INT16}:
            return False
        # Bytes of the same sign are widened.
        size = 2 if INT16 in kinds or (a == b and a is not None) or not self.isa.dots else 4
        # A constant factor takes the sign that the other factor does not have.
        sign = {INT8: UINT8, UINT8: INT8}
        a, b = a or sign.get(b or INT8), b or sign.get(a or INT8)
        if a is None or b is None or (size == 4 and a == b):
            return False
        if points > size:
            raise InternalError("a group of more points than an instruction takes")
        found = [self._factor(e, envs, size, points) for e in (c.value.a, c.value.b)]
        if found[0] is None or found[1] is None:
            return False
        unsigned, signed = found if a == UINT8 else found[::-1]
        assert unsigned is not None and signed is not None
        old = self.widen(self.load(array, address), lanes)
        self.store(array, address, self._accumulate(old, unsigned, signed, size))
        return True

    def _accumulate(self, old: Value, unsigned: str, signed: str, size: int) -> Value:
        """32-bit sums with the products of `size` elements added in each lane."""
        lanes = old.lanes
        ty = f"<{lanes} x i32>"
        if self.isa.dots:
            name = f"llvm.x86.avx512.{'vpdpbusd' if size == 4 else 'vpdpwssd'}.{32 * lanes}"
            return Value(self.call(ty, name, (ty, old.text), (ty, unsigned), (ty, signed)), old.dtype, lanes)
        words = f"<{2 * lanes} x i16>"
        args = [(words, self.pure(f"bitcast {ty} {x} to {words}")) for x in (unsigned, signed)]
        return self.binary("+", old, Value(self.call(ty, _PAIRS[lanes], *args), old.dtype, lanes))

    def _conditional_lanes(self) -> bool:
        """Whether it may be that no lane is active."""
        return self.mask is not None and self.mask.active is None and not self.mask.some

    def _read_dtype(self, e: Expr) -> DType | None:
        """The type of a factor that is read from an array; None for a constant."""
        return e.value.dtype if isinstance(e, Cast) and isinstance(e.value, Load) else None

    def _factor(self, e: Expr, envs: tuple[Env, Env], size: int, points: int) -> str | None:
        """A group of a factor in each lane, as 32-bit lanes; in one of the factors the elements beyond its
        points are 0."""
        lanes = self.lanes
        if isinstance(e, IntImm | UIntImm):
            byte = e.value & 0xFF
            constant = self.integer(byte * 0x01010101, INT32)
            return self.widen(constant, lanes).text if points == size == 4 else None
        if not (isinstance(e, Cast) and isinstance(e.value, Load)):
            return None
        read = e.value
        array = self.arrays[read.buffer]
        first, second = (self.address(array, read.subscripts, x) for x in envs)
        if read.checked or first is None or second is None or self.promotion_of(array) is not None:
            return None
        step = second - first
        if first.lane == 0 and not step.terms:
            if step == Affine((), 1) and size == points == 2 and array.dtype.itemsize == 1:
                return self._widened(array, first)
            return self.widen(self._group(array, first, step.constant, size, points), lanes).text
        if step != Affine((), 1):
            return None
        own = _is_group_pack(array, size)
        if first.lane != size or not (own or (self.mask is None and points == size)):
            return None
        if array.dtype.itemsize * size == 4:
            return self._cached_load(array, first, lanes, f"load <{lanes} x i32>").text
        ty, wide = type_text(array.dtype, lanes * size), f"<{lanes * size} x i16>"
        v = self._cached_load(array, first, lanes * size, f"load {ty}").text
        v = self.pure(f"{'sext' if array.dtype.is_signed else 'zext'} {ty} {v} to {wide}")
        return self.pure(f"bitcast {wide} {v} to <{lanes} x i32>")

    def _widened(self, array: Array, first: Affine) -> str:
        """Two bytes that all lanes share, as 16-bit integers: they are widened as vectors, which takes fewer
        instructions than one by one."""
        lanes, t = self.lanes, array.dtype
        pair = self.widen(self._cached_load(array, first, -2, "load i16", INT16), lanes)
        narrow, wide = f"<{2 * lanes} x i8>", f"<{2 * lanes} x i16>"
        v = self.pure(f"bitcast <{lanes} x i16> {pair.text} to {narrow}")
        v = self.pure(f"{'sext' if t.is_signed else 'zext'} {narrow} {v} to {wide}")
        return self.pure(f"bitcast {wide} {v} to <{lanes} x i32>")

    def _group(self, array: Array, first: Affine, step: int, size: int, points: int) -> Value:
        """Elements `step` apart that all lanes share, packed into 32 bits."""
        t = array.dtype
        if points == size and step == 1 and t.itemsize * size == 4:
            return self._cached_load(array, first, 0, "load i32")
        ty, bits = storage_type(t), 32 // size
        kind = -1000 - ((step + (1 << 40)) * 8 + points) * 8 - size
        key = (array.name, self.versions.get(array.name, 0), first, kind)
        for scope in self.loaded:
            if key in scope:
                return scope[key][0]
        total = ""
        for i in range(points):
            v = self.op(f"load {ty}, ptr {self.pointer(array, first + i * step)}, align {t.itemsize}")
            if t.bits < bits:
                v = self.pure(f"{'sext' if t.is_signed else 'zext'} {ty} {v} to i{bits}")
            wide = self.pure(f"zext i{bits} {v} to i32")
            moved = self.pure(f"shl i32 {wide}, {i * bits}") if i else wide
            total = self.pure(f"or i32 {total}, {moved}") if i else moved
        self.loaded[-1][key] = (Value(total, INT32), None)
        return Value(total, INT32)

    def _cached_load(self, array: Array, first: Affine, lanes: int, load: str, t: DType = INT32) -> Value:
        """A load of groups of this type, emitted once while nothing writes the array."""
        key = (array.name, self.versions.get(array.name, 0), first, -1 - lanes)
        for scope in self.loaded:
            if key in scope:
                return scope[key][0]
        at = self.pointer(array, first.uniform)
        v = Value(self.op(f"{load}, ptr {at}, align {array.dtype.itemsize}"), t, max(lanes, 0))
        self.loaded[-1][key] = (v, None)
        return v

    # Packs.

    def _interleave_copy(self, c: Compute, s: For, env: Env, lower: Affine, points: int) -> bool:
        """Emit a copy that stores the points of each lane side by side: the vectors of all points,
        interleaved.  Inactive lanes and missing points belong to the pack and may be written."""
        array, lanes = self.arrays[c.buffer], self.lanes
        places = [self.address(array, c.subscripts, env.bind(s.var, lower + i)) for i in range(points)]
        first = places[0]
        if first is None or any(p != first + i for i, p in enumerate(places)):
            return False
        size = first.lane
        if size < points or not _is_group_pack(array, size) or lanes < 2 or self._conditional_lanes():
            return False
        values = [
            self.widen(self.cast(self.value(c.value, env.bind(s.var, lower + i)), array.dtype), lanes).text
            for i in range(points)
        ]
        values += ["zeroinitializer"] * (size - points)
        element, width = storage_type(array.dtype), lanes
        while len(values) > 1:
            picked = ", ".join(f"i32 {i}" for i in range(2 * width))
            if len(values) == 2:
                order = [j * lanes + i for i in range(lanes) for j in range(size)]
                picked = ", ".join(f"i32 {i}" for i in order)
            ty = f"<{width} x {element}>"
            values = [
                self.pure(f"shufflevector {ty} {a}, {ty} {b}, <{2 * width} x i32> <{picked}>")
                for a, b in zip(values[::2], values[1::2], strict=True)
            ]
            width *= 2
        self._write_groups(array, first.uniform, values[0], width)
        return True

    def _write_groups(self, array: Array, first: Affine, text: str, width: int) -> None:
        """Store groups at an address of a pack."""
        self.versions[array.name] = self.versions.get(array.name, 0) + 1
        element, size = storage_type(array.dtype), array.dtype.itemsize
        self.do(f"store <{width} x {element}> {text}, ptr {self.pointer(array, first)}, align {size}")

    def transpose_groups(self, rows: For, columns: For, env: Env, lower: Affine, count: int) -> bool:
        """Emit a transposing copy whose elements are groups: 32 bits of contiguous elements of the source.
        Returns whether it can be emitted so."""
        group = columns.body
        copy = group.body if isinstance(group, For) else None
        start, end = self.affine(columns.lower, env), self.affine(columns.upper, env)
        if not isinstance(group, For) or not isinstance(copy, Compute) or (end - start).terms:
            return False
        target, points = self.arrays[copy.buffer], (end - start).constant
        size = 4 // target.dtype.itemsize
        whole = group.lower == IntImm(0) and group.upper == IntImm(size)
        reads = loads(copy.value)
        if (
            not self.isa.pair_dots
            or not whole
            or not _is_group_pack(target, size)
            or len(reads) != 1
            or count < 2
        ):
            return False

        def bound(row: int, inside: Affine | int) -> Env:
            within = inside if isinstance(inside, Affine) else Affine((), inside)
            return env.bind(rows.var, lower + row).bind(columns.var, start).bind(group.var, within)

        source = self.arrays[reads[0].buffer]
        places = [
            self.address(source, reads[0].subscripts, bound(*x)) for x in ((0, 0), (0, 1), (1, 0), (0, size))
        ]
        if places[0] is None or places[1] != places[0] + 1 or places[2] is None or places[2] != places[3]:
            return False
        lanes = 1 << (count - 1).bit_length()
        values: list[Value] = []
        mask = None if lanes == count else self.tail_mask(count * size, lanes * size)
        with self.under(lanes * size, mask):
            for c in range(points):
                at = bound(0, Affine.of(LANE)).bind(columns.var, start + c)
                v = self.widen(self.cast(self.value(copy.value, at), target.dtype), self.lanes)
                ty = type_text(target.dtype, self.lanes)
                values.append(Value(self.pure(f"bitcast {ty} {v.text} to <{lanes} x i32>"), INT32, lanes))
        for r, row in enumerate(self.transpose(values, lanes)[:count]):
            place = self.address(target, copy.subscripts, bound(r, 0))
            assert place is not None
            width = row.lanes * size
            text = self.pure(f"bitcast <{row.lanes} x i32> {row.text} to {type_text(target.dtype, width)}")
            self._write_groups(target, place, text, width)
        return True


def _is_group_pack(array: Array, size: int) -> bool:
    """Whether an array is a pack of whole vectors of groups."""
    last = array.shape[-1] if array.shape else None
    return array.role == "private" and isinstance(last, IntImm) and last.value == size
