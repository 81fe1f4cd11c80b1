"""Loop nests to LLVM text with explicit vectors: the top of the emitter.

The kernel has the calling convention of tc.codegen.llvm_ir.  Each parallel loop becomes a function that the
thread pool calls once for each iteration, with the kernel's arguments and the enclosing loop variables.  Each
function loads the dynamic sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tc.codegen.check_points import source_points
from tc.codegen.llvm_expr import llvm_type, storage_type
from tc.dtypes import BOOL, INT64, DType, accumulator
from tc.errors import InternalError, unreachable
from tc.ir.expr import ZERO, Add, Call, Expr, IntImm, Load, Mul, variables, walk
from tc.ir.loops import (
    Array,
    Block,
    Combine,
    Compute,
    For,
    If,
    Launch,
    LoopKind,
    LoopNest,
    Prefetch,
    Promote,
    Stmt,
    Sync,
    statements,
)
from tc.ir.lower import neutral
from tc.ir.simplify import simplify

from ..isa import FEW_REGISTERS, Isa
from .affine import LANE, Affine, factors
from .dot_code import DotEmitter
from .expressions import CHEAP_FUNCTIONS, Env, LoopContext, operands
from .interleave import INTERLEAVED_COPIES, interleaved
from .lane_reduction import groups
from .promotion import Promotion
from .trip_counts import iterations
from .values import LIKELY, WEIGHTS, Function, Value, type_text

if TYPE_CHECKING:
    from collections.abc import Generator

KERNEL = "kernel"
_SIZE = "%size."  # operands of dynamic sizes, the same in all functions
# The state of the function that is being emitted.
_FUNCTION_STATE = (
    "fn", "bases", "scalars", "loaded", "chunk", "lanes", "mask", "promotions", "enclosing", "hoisted_sizes",
    "reload_elements", "pointer_copies",
)  # fmt: skip


def emit(nest: LoopNest, isa: Isa, *, fast_math: bool = False, fused_products: bool = False) -> str:
    """The LLVM module of a nest, whose one external function is `kernel`.  With `fused_products`, products
    one factor of which is a product are multiply-adds."""
    return NestEmitter(source_points(nest), isa, fast_math, fused_products).module()


class NestEmitter(DotEmitter):
    """Emits the statements of a nest."""

    def __init__(self, nest: LoopNest, isa: Isa, fast_math: bool, fused_products: bool) -> None:
        super().__init__(isa, fast_math, {a.name: a for a in nest.arrays})
        self.nest = nest
        self.fused_products = fused_products and isa.fma
        self.functions: list[str] = []
        self.written = {id(s): _written(s) for s in statements(nest.body) if isinstance(s, For)}
        self.bases: dict[str, str] = {}
        self.chunk: str | None = None  # the variable of the parallel loop whose iteration this function runs

    def module(self) -> str:
        """The text of the module."""
        self.sizes = Env({n: Affine.of(f"{_SIZE}{i}") for i, n in enumerate(self.nest.sizes)}, {})
        self.open()
        self.statement(self.nest.body, self.sizes)
        self.close()
        self.emit_store_fence()
        parallel = any(isinstance(s, For) and s.kind is LoopKind.PARALLEL for s in statements(self.nest.body))
        if parallel and self.nest.sites:
            first = self.op("load i64, ptr %error, align 8")
            failed = self.op(f"icmp ne i64 {first}, 0")
            self.do(f"ret i32 {self.op(f'zext i1 {failed} to i32')}")
        else:
            self.do("ret i32 0")
        kernel = self.finish(f"define i32 @{KERNEL}(ptr %args) {self.attributes()} {{")
        parts = [f"; {self.nest.name}", *self.texts.values(), *self.helper_text(), *self.functions, kernel]
        if any(a.streamed for a in self.nest.arrays):
            parts.append("!0 = !{i32 1}")
        if any(LIKELY in text for text in parts):
            parts.append(WEIGHTS)
        return "\n".join([*parts, *sorted(self.declarations)]) + "\n"

    def attributes(self) -> str:
        # A spilled vector on an unaligned stack may lie across two lines.
        bits = self.isa.vector_bytes * 8
        return (
            f'nounwind alignstack({bits // 8}) "prefer-vector-width"="{bits}" '
            f'"min-legal-vector-width"="{bits}" "no-builtins" "denormal-fp-math"="ieee,ieee"'
        )

    def finish(self, head: str) -> str:
        """The text of the current function."""
        pointers = [
            f"  %error.slot = getelementptr ptr, ptr %args, i64 {len(self.nest.params)}",
            "  %error = load ptr, ptr %error.slot, align 8",
            f"  %workspace.slot = getelementptr ptr, ptr %args, i64 {len(self.nest.params) + 1}",
            "  %workspace = load ptr, ptr %workspace.slot, align 8",
        ]
        if self.nest.sizes:
            pointers.append(f"  %sizes.slot = getelementptr ptr, ptr %args, i64 {len(self.nest.params) + 2}")
            pointers.append("  %sizes = load ptr, ptr %sizes.slot, align 8")
        for i in range(len(self.nest.sizes)):
            pointers.append(f"  {_SIZE}{i}.at = getelementptr i64, ptr %sizes, i64 {i}")
            pointers.append(f"  {_SIZE}{i} = load i64, ptr {_SIZE}{i}.at, align 8")
        return "\n".join([head, "entry:", *pointers, *self.fn.entry, *self.fn.lines, "}", ""])

    # Operands that functions load once.

    def base(self, array: Array) -> str:
        found = self.bases.get(array.name)
        if found is not None:
            return found
        name = self.name("base")
        entry = self.fn.entry
        if array.role == "register":  # a tile whose element a loop variable selects
            size = math.prod(_extent(n) for n in array.shape)
            align = self.isa.vector_bytes
            entry.append(f"  {name} = alloca [{size} x {storage_type(array.dtype)}], align {align}")
        elif array.offset is None:
            position = self.nest.params.index(array.name)
            entry.append(f"  {name}.slot = getelementptr ptr, ptr %args, i64 {position}")
            entry.append(f"  {name} = load ptr, ptr {name}.slot, align 8")
        else:
            offset = simplify(array.offset, exact=True)
            place = str(offset.value) if isinstance(offset, IntImm) else self.hoist_sizes(offset)
            entry.append(f"  {name}.own = getelementptr i8, ptr %workspace, i64 {place}")
            at = "0"
            if array.owner is not None:
                if array.owner != self.chunk:
                    raise InternalError(f"'{array.name}' is used outside of the loop {array.owner}")
                at = "%slot"  # iterations that run at the same time have different slots
            entry.append(f"  {name}.apart = mul i64 {at}, {array.stride}")
            entry.append(f"  {name} = getelementptr i8, ptr {name}.own, i64 {name}.apart")
        self.bases[array.name] = name
        return name

    def is_line_aligned(self, array: Array) -> str:
        base = self.base(array)
        flag = f"{base}.on_a_line"
        line = f"  {flag} = icmp eq i64 {base}.within, 0"
        if line not in self.fn.entry:
            self.fn.entry.append(f"  {base}.place = ptrtoint ptr {base} to i64")
            self.fn.entry.append(f"  {base}.within = and i64 {base}.place, 63")
            self.fn.entry.append(line)
        return flag

    def emit_store_fence(self) -> None:
        """Emit a store fence before the function returns, if it has non-temporal stores, so that these are
        visible to whoever waits for it."""
        streams = self.isa.x86 and any(a.streamed for a in self.nest.arrays)
        if streams and any("!nontemporal" in line for line in self.fn.lines):
            self.declarations.add("declare void @llvm.x86.sse.sfence()")
            self.do("call void @llvm.x86.sse.sfence()")

    def scalar(self, name: str) -> Value:
        found = self.scalars.get(name)
        if found is not None:
            return found
        argument = next((s for s in self.nest.scalars if s.name == name), None)
        if argument is None:
            raise InternalError(f"the loop nest uses '{name}', which nothing defines")
        t = argument.dtype
        operand = self.name("scalar")
        entry = self.fn.entry
        entry.append(f"  {operand}.slot = getelementptr ptr, ptr %args, i64 {self.nest.params.index(name)}")
        entry.append(f"  {operand}.at = load ptr, ptr {operand}.slot, align 8")
        if t == BOOL:
            entry.append(f"  {operand}.byte = load i8, ptr {operand}.at, align 1")
            entry.append(f"  {operand} = icmp ne i8 {operand}.byte, 0")
        else:
            entry.append(f"  {operand} = load {storage_type(t)}, ptr {operand}.at, align {t.itemsize}")
        self.scalars[name] = Value(operand, t)
        return self.scalars[name]

    def failed(self) -> None:
        self.do("ret void" if self.chunk else "ret i32 1")

    # Statements.

    def statement(self, s: Stmt, env: Env) -> None:
        match s:
            case Block():
                for c in s.body:
                    self.statement(c, env)
            case For():
                self.loop(s, env)
            case If():
                self.branch(s, env)
            case Promote():
                self.promote(s, env)
            case Compute():
                self.compute(s, env)
            case Prefetch():
                self.prefetch(s, env)
            case Launch() | Combine() | Sync():
                raise InternalError(f"CPU code has no {type(s).__name__}")
            case _:
                unreachable(s)

    def loop(self, s: For, env: Env) -> None:
        lower = self.affine(s.lower, env)
        if s.upper == Add(s.lower, IntImm(1)) and s.kind is LoopKind.SERIAL:  # only a name for an index
            self.statement(s.body, env.bind(s.var, lower))
            return
        upper = self.affine(s.upper, env)
        trips = upper - lower
        match s.kind:
            case LoopKind.PARALLEL:
                self.parallel(s, env)
            case LoopKind.VECTOR:
                self.vectors(s, env, lower, trips)
            case LoopKind.UNROLLED:
                self.unrolled(s, env, lower, _constant(trips, s))
            case LoopKind.DOT:
                if not self.dot(s, env, lower, _constant(trips, s)):
                    for i in range(_constant(trips, s)):
                        self.statement(s.body, env.bind(s.var, lower + i))
            case LoopKind.TRANSPOSED:
                self.transposed(s, env, lower, _constant(trips, s))
            case _:
                if not trips.terms and trips.constant <= s.step:
                    if trips.constant > 0:
                        self.statement(s.body, env.bind(s.var, lower))
                else:
                    self.serial(s, env, lower, upper)

    def unrolled(self, s: For, env: Env, lower: Affine, trips: int) -> None:
        if self.reduce_vectors(s, env):
            return
        points = range(0, trips, s.step)
        if self.isa.registers <= FEW_REGISTERS and _updates_same_elements(s) and not _has_long_chain(s.body):
            with self.forgetting() as forget:
                for i in points:
                    self.statement(s.body, env.bind(s.var, lower + i))
                    forget()
            return
        if not _has_long_chain(s.body):
            for i in points:
                self.statement(s.body, env.bind(s.var, lower + i))
            return
        groups = -(-len(points) // INTERLEAVED_COPIES)
        size = -(-len(points) // max(groups, 1))
        for first in range(0, len(points), size or 1):
            before, copies = self.fn.lines, list[list[str]]()
            for i in points[first : first + size]:
                self.fn.lines = []
                self.statement(s.body, env.bind(s.var, lower + i))
                copies.append(self.fn.lines)
            self.fn.lines = before
            self.fn.lines += interleaved(copies, self.fn.array_of)

    def serial(self, s: For, env: Env, lower: Affine, upper: Affine) -> None:
        trips = upper - lower
        first, last = self.materialize(lower), self.materialize(upper)
        head, latch, after = self.label(_loop_label(s)), self.label("next"), self.label("after")
        iterator, following = self.name("i"), self.name("n")
        self.ranges[iterator] = self.value_range(lower)[0], self.value_range(upper)[1] - 1
        context = LoopContext(
            frozenset(operands(env)), len(self.fn.pure), bool(trips.terms), self.written[id(s)]
        )
        before_it, self.fn.lines = self.fn.lines, []
        self.enclosing.append(context)
        if trips.terms:
            some = self.op(f"icmp slt i64 {first}, {last}")
            self.do(f"br i1 {some}, label %{head}.pre, label %{after}")
            self.start(f"{head}.pre")
        before = self.fn.block
        self.do(f"br label %{head}")
        self.start(head)
        self.do(f"{iterator} = phi i64 [ {first}, %{before} ], [ {following}, %{latch} ]")
        self.invalidate_loads(s)
        self.open()
        maybe = bool(trips.terms and self.nest.sizes)
        self.conditional += maybe
        self.statement(s.body, env.bind(s.var, Affine.of(iterator)))
        self.conditional -= maybe
        self.close()
        self.do(f"br label %{latch}")
        self.start(latch)
        self.do(f"{following} = add nsw i64 {iterator}, {s.step}")
        more = self.op(f"icmp slt i64 {following}, {last}")
        self.do(f"br i1 {more}, label %{head}, label %{after}")
        self.start(after)
        self.invalidate_loads(s)
        self.enclosing.pop()
        self.fn.lines = [*before_it, *context.preheader, *self.fn.lines]

    def invalidate_loads(self, s: For) -> None:
        """Forget loads from buffers that a loop writes: they are not valid across its edges."""
        for buffer in self.written[id(s)]:
            self.versions[buffer] = self.versions.get(buffer, 0) + 1

    def vectors(self, s: For, env: Env, lower: Affine, count: Affine) -> None:
        if self.lanes:
            raise InternalError("a vector loop inside of another")
        if count.terms and s.lanes:
            # At least one: the scanner has ensured that.
            with self.in_lanes(s.lanes, self.leading_mask(self.materialize(count), s.lanes)):
                self.statement(s.body, env.bind(s.var, lower + Affine.of(LANE)))
            return
        trips = _constant(count, s)
        if trips <= 0:
            return
        lanes = s.lanes or 1 << (trips - 1).bit_length()
        if lanes == 1:
            self.statement(s.body, env.bind(s.var, lower))
            return
        with self.in_lanes(lanes, None if lanes == trips else self.tail_mask(trips, lanes)):
            self.statement(s.body, env.bind(s.var, lower + Affine.of(LANE)))

    @contextmanager
    def in_lanes(self, lanes: int, mask: Value | None) -> Generator[None]:
        """Emits in so many lanes, under a mask."""
        saved = self.lanes, self.mask, self.outer_mask
        self.lanes, self.mask, self.outer_mask = lanes, mask, mask
        try:
            yield
        finally:
            self.lanes, self.mask, self.outer_mask = saved

    def branch(self, s: If, env: Env) -> None:
        c = self.condition(s.condition, env)
        if c.constant is not None:
            chosen = s.then if c.constant else s.otherwise
            if chosen is not None:
                self.statement(chosen, env)
            return
        if c.lanes:
            mask = self.mask
            self.mask = c if mask is None else self.logical("and", mask, c)
            self.statement(s.then, env)
            if s.otherwise is not None:
                other = self.negate(c)
                self.mask = other if mask is None else self.logical("and", mask, other)
                self.statement(s.otherwise, env)
            self.mask = mask
            return
        yes, after = self.label("then"), self.label("endif")
        no = self.label("else") if s.otherwise is not None else after
        self.do(f"br i1 {c.text}, label %{yes}, label %{no}")
        for label, body in ((yes, s.then), (no, s.otherwise)):
            if body is not None:
                self.start(label)
                self.open()
                self.conditional += 1
                self.statement(body, env)
                self.conditional -= 1
                self.close()
                self.do(f"br label %{after}")
        self.start(after)
        for buffer in _written(s):
            self.versions[buffer] = self.versions.get(buffer, 0) + 1

    def promote(self, s: Promote, env: Env) -> None:
        loops = iterations(s.body)
        r = Promotion(s.buffers, s.dead, _written(s.body), len(self.fn.pure), loops)
        self.compute_masks(s, env)
        outer, self.conditional = self.conditional, 0  # enclosing conditions hold for all of it
        before, self.fn.lines = self.fn.lines, []
        self.promotions.append(r)
        self.open()
        self.statement(s.body, env)
        self.promotions.pop()
        self.conditional = outer
        self.flush(r)
        self.close()
        self.fn.lines = [*before, *r.prologue, *self.fn.lines]

    def compute_masks(self, s: Promote, env: Env) -> None:
        """Compute the masks of inner vector loops that are known here, for the loads of the prologue."""
        for v in statements(s.body) if self.nest.sizes else ():
            if isinstance(v, For) and v.kind is LoopKind.VECTOR and v.lanes:
                upper, lower = self.form(v.upper, env), self.form(v.lower, env)
                if upper is not None and lower is not None and (upper - lower).terms:
                    self.leading_mask(self.materialize(upper - lower), v.lanes)

    def prefetch(self, s: Prefetch, env: Env) -> None:
        array = self.arrays[s.buffer]
        address = self.address(array, s.subscripts, env)
        if address is not None:
            self.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            at = self.materialize(address.uniform)  # may be outside of the array: not "inbounds"
            p = self.pure(f"getelementptr {storage_type(array.dtype)}, ptr {self.base(array)}, i64 {at}")
            self.do(f"call void @llvm.prefetch.p0(ptr {p}, i32 {int(s.write)}, i32 {4 - s.level}, i32 1)")

    def compute(self, s: Compute, env: Env) -> None:
        array = self.arrays[s.buffer]
        self.point = s.point
        address = self.address(array, s.subscripts, env)
        if address is None:
            raise InternalError(f"'{array.name}' is written where data says")
        if s.op is None:
            self.store(array, address, self.cast(self.value(s.value, env), array.dtype))
            return
        t = accumulator(array.dtype, s.value.dtype)
        if s.op == "+" and isinstance(s.value, Mul) and t.is_float and s.value.dtype == t:
            a, b = self._factor_of_sum(s.value.a, env), self._factor_of_sum(s.value.b, env)
            if self._is_lane_reduction(address):
                self._reduce_lanes(s, array, address, self.binary("*", a, b))
                return
            old = self.cast(self.load(array, address), t)
            self.store(array, address, self.cast(self.fma(a, b, old), array.dtype))
            return
        v = self.cast(self.value(s.value, env), t)
        if self._is_lane_reduction(address):
            self._reduce_lanes(s, array, address, v)
            return
        old = self.cast(self.load(array, address), t)
        self.store(array, address, self.cast(self.binary(s.op, old, v), array.dtype))

    def _factor_of_sum(self, e: Expr, env: Env) -> Value:
        """A factor of a product that is summed.  Where products are emitted as multiply-adds, -0 is added,
        which changes no product, not even a zero's sign."""
        if not (self.fused_products and self.lanes and isinstance(e, Mul)):
            return self.value(e, env)
        a, b = self._factor_of_sum(e.a, env), self._factor_of_sum(e.b, env)
        return self.fma(a, b, self.floating(-0.0, e.dtype)) if a.lanes or b.lanes else self.binary("*", a, b)

    def _is_lane_reduction(self, address: Affine) -> bool:
        """Whether all lanes update the same element."""
        return bool(self.lanes) and not address.lane

    def _reduce_lanes(self, s: Compute, array: Array, address: Affine, v: Value) -> None:
        """Emit the update of one element by all active lanes."""
        assert s.op is not None
        v = self.widen(v, self.lanes)
        if self.mask is not None:
            v = self.select(self.vector_mask(), v, self.value(neutral(s.op, v.dtype), Env({}, {})))
        saved = self.mask
        total = self.reduce(s.op, v)
        self.mask = None  # neutral lanes change nothing, so the element may be written in any case
        old = self.cast(self.load(array, address), v.dtype)
        self.store(array, address, self.cast(self.binary(s.op, old, total), array.dtype))
        self.mask = saved

    def reduce_vectors(self, s: For, env: Env) -> bool:
        """Emit unrolled loops around one vector loop that updates a single element, another one at each
        point, by reducing the vectors of all points together.  Returns false if the loop is another one."""
        loops, body = list[For](), s
        while isinstance(body, For) and body.kind is LoopKind.UNROLLED:
            loops.append(body)
            body = body.body
        if not (isinstance(body, For) and body.kind is LoopKind.VECTOR and isinstance(body.body, Compute)):
            return False
        c, lanes = body.body, body.upper
        across = c.op is not None and not any(body.var in variables(x) for x in c.subscripts)
        if not across or body.lower != ZERO or body.lanes or self.lanes or not isinstance(lanes, IntImm):
            return False
        if lanes.value < 2 or lanes.value & (lanes.value - 1) or _reads(c.value, c.buffer):
            return False
        points = [env]
        for u in loops:
            points = [
                p.bind(u.var, lower + i)
                for p in points
                for lower in [self.affine(u.lower, p)]
                for i in range(0, _constant(self.affine(u.upper, p) - lower, u), u.step)
            ]
        array = self.arrays[c.buffer]
        places = [self.address(array, c.subscripts, p) for p in points]
        addresses = [x for x in places if x is not None]
        if len(set(addresses)) < len(points) or len(points) < 2:
            return False
        self.point = c.point
        t = accumulator(array.dtype, c.value.dtype)
        with self.in_lanes(lanes.value, None):
            inside = [p.bind(body.var, Affine.of(LANE)) for p in points]
            vectors = [self.widen(self.cast(self.value(c.value, p), t), self.lanes) for p in inside]
        first = 0
        for count in groups(len(points), lanes.value):
            here = slice(first, first + count)
            self._update_elements(c.op or "", array, t, addresses[here], vectors[here])
            first += count
        return True

    def _update_elements(
        self, op: str, array: Array, t: DType, places: Sequence[Affine], vectors: Sequence[Value]
    ) -> None:
        """Emit the updates of elements, each by all lanes of its vector."""
        if len(vectors) == 1:
            old = self.cast(self.load(array, places[0]), t)
            self.store(
                array, places[0], self.cast(self.binary(op, old, self.reduce(op, vectors[0])), array.dtype)
            )
            return
        total = self.reduce_together(op, vectors)
        ty, element = type_text(t, total.lanes), llvm_type(t)
        olds = "poison"
        for i, place in enumerate(places):
            old = self.cast(self.load(array, place), t)
            olds = self.pure(f"insertelement {ty} {olds}, {element} {old.text}, i64 {i}")
        new = self.binary(op, Value(olds, t, total.lanes), total)
        for i, place in enumerate(places):
            v = Value(self.pure(f"extractelement {ty} {new.text}, i64 {i}"), t)
            self.store(array, place, self.cast(v, array.dtype))

    def transposed(self, s: For, env: Env, lower: Affine, rows: int) -> None:
        """Emit `for r: for lane: to[…lane] = from[…r]` as short contiguous rows, transposed in registers.

        The loop's body is one vector loop over one assignment, whose value is a read that is contiguous along
        this loop's variable.
        """
        inner = s.body
        if isinstance(inner, For) and isinstance(inner.body, For) and inner.body.kind is LoopKind.DOT:
            if not self.transpose_groups(s, inner, env, lower, rows):
                for r in range(rows):
                    self.statement(inner, env.bind(s.var, lower + r))
            return
        if not (isinstance(inner, For) and isinstance(inner.body, Compute)):
            raise InternalError("a transposed loop holds more than a copy")
        copy = inner.body
        start = self.affine(inner.lower, env)
        columns = _constant(self.affine(inner.upper, env) - start, inner)
        target = self.arrays[copy.buffer]
        lanes = 1 << (rows - 1).bit_length()
        values: list[Value] = []
        with self.in_lanes(max(lanes, 1), None if lanes == rows else self.tail_mask(rows, lanes)):
            along = env.bind(s.var, lower + (Affine.of(LANE) if lanes > 1 else 0))
            if lanes == 1:
                self.lanes = 0
            for c in range(columns):
                v = self.cast(self.value(copy.value, along.bind(inner.var, start + c)), target.dtype)
                values.append(self.widen(v, self.lanes) if self.lanes else v)
        if lanes == 1:
            for c, v in enumerate(values):
                address = self.address(
                    target, copy.subscripts, env.bind(s.var, lower).bind(inner.var, start + c)
                )
                assert address is not None
                self.store(target, address, v)
            return
        moved = self.transpose(values, lanes)
        for r in range(rows):
            row = moved[r]
            with self.in_lanes(
                row.lanes, None if columns == row.lanes else self.tail_mask(columns, row.lanes)
            ):
                at = env.bind(s.var, lower + r).bind(inner.var, start + Affine.of(LANE))
                address = self.address(target, copy.subscripts, at)
                assert address is not None
                self.store(target, address, row)

    # Threads.

    def parallel(self, s: For, env: Env) -> None:
        if self.chunk:  # already on a thread of the pool
            self.serial(s, env, self.affine(s.lower, env), self.affine(s.upper, env))
            return
        lower, upper = self.affine(s.lower, env), self.affine(s.upper, env)
        used = {x for a in env.affine.values() for n, _ in a.terms for x in factors(n)}
        captured = sorted(x for x in used if not x.startswith(_SIZE))
        context = self.name("context")
        self.fn.entry.append(f"  {context} = alloca [{len(captured) + 1} x i64], align 16")
        self.do(f"store ptr %args, ptr {context}, align 8")
        for i, operand in enumerate(captured):
            at = self.op(f"getelementptr i64, ptr {context}, i64 {i + 1}")
            self.do(f"store i64 {operand}, ptr {at}, align 8")
        task = self.label("task")
        items = self.materialize(upper - lower)
        self.declarations.add("declare void @tc_parallel_for(ptr, i64, ptr)")
        first = self.materialize(lower)
        if first != "0":
            raise InternalError("a parallel loop starts at 0")
        self.do(f"call void @tc_parallel_for(ptr @{task}, i64 {items}, ptr {context})")
        self.invalidate_loads(s)
        with self.function():
            self.chunk = s.var
            self.task(task, s, env, captured)

    @contextmanager
    def function(self) -> Generator[None]:
        """Emits another function, which shares no operands with this one."""
        outer = {name: getattr(self, name) for name in _FUNCTION_STATE}
        self.fn, self.bases, self.scalars, self.loaded, self.hoisted_sizes = Function(), {}, {}, [{}], {}
        self.promotions, self.enclosing, self.reload_elements, self.pointer_copies = [], [], frozenset(), {}
        yield
        for name, value in outer.items():
            setattr(self, name, value)

    def task(self, task: str, s: For, env: Env, captured: Sequence[str]) -> None:
        """Emit the function of one iteration of a parallel loop; `captured` are the operands that it is
        given."""
        self.fn.entry.append("  %args = load ptr, ptr %context, align 8")
        inside: dict[str, str] = {}
        for i, operand in enumerate(captured):
            name = self.name("outer")
            self.fn.entry.append(f"  {name}.at = getelementptr i64, ptr %context, i64 {i + 1}")
            self.fn.entry.append(f"  {name} = load i64, ptr {name}.at, align 8")
            inside[operand] = name
        moved = {
            v: Affine((), a.constant) if not a.terms else _renamed(a, inside) for v, a in env.affine.items()
        }
        self.ranges["%item"] = 0, self.value_range(self.affine(s.upper, Env(moved, {})))[1]
        self.open()
        self.statement(s.body, Env({**moved, s.var: Affine.of("%item")}, {}))
        self.close()
        self.emit_store_fence()
        self.do("ret void")
        arguments = "i64 %item, i64 %slot, ptr %context"
        text = self.finish(f"define internal void @{task}({arguments}) {self.attributes()} {{")
        head, rest = text.split("entry:\n", 1)
        load = "  %args = load ptr, ptr %context, align 8\n"
        self.functions.append(f"{head}entry:\n{load}{rest.replace(load, '', 1)}")


def _renamed(a: Affine, names: Mapping[str, str]) -> Affine:
    total = Affine((), a.constant)
    for n, f in a.terms:
        total = total + Affine.of("*".join(sorted(names.get(x, x) for x in factors(n)))) * f
    return total


def _extent(n: Expr) -> int:
    if not isinstance(n, IntImm):
        raise InternalError("an array of registers has no constant shape")
    return n.value


def _constant(trips: Affine, s: For) -> int:
    if trips.terms:
        raise InternalError(f"the {s.kind.value} loop {s.var} has no constant length")
    return trips.constant


def _updates_same_elements(s: For) -> bool:
    """Whether all iterations of a loop update the same elements."""
    inside = list(statements(s.body))
    written = [c for c in inside if isinstance(c, Compute)]
    places = [x for c in written for x in c.subscripts]
    places += [x for f in inside if isinstance(f, For) for x in (f.lower, f.upper)]
    return all(c.op is not None for c in written) and all(s.var not in variables(x) for x in places)


def _has_long_chain(body: Stmt) -> bool:
    """Whether the body of an unrolled loop is a long dependence chain or several: it calls functions, and has
    no loop but vector loops."""
    inside = list(statements(body))
    return not any(isinstance(s, For) and s.kind is not LoopKind.VECTOR for s in inside) and any(
        isinstance(x, Call) and x.kind == "intrinsic" and x.name not in CHEAP_FUNCTIONS
        for s in inside
        if isinstance(s, Compute)
        for x in walk(s.value)
    )


def _reads(e: Expr, buffer: str) -> bool:
    return any(isinstance(x, Load) and x.buffer == buffer for x in walk(e))


def _loop_label(s: For) -> str:
    """The label of a loop, which names its statements; `spills` reads it in assembly."""
    return "-".join(["loop", *dict.fromkeys(c.stage for c in statements(s) if isinstance(c, Compute)), ""])


def _written(s: Stmt) -> frozenset[str]:
    return frozenset(c.buffer for c in statements(s) if isinstance(c, Compute))


__all__ = ["INT64", "KERNEL", "Add", "Expr", "emit", "type_text"]
