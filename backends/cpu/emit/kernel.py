"""Loop nests to LLVM text with explicit vectors: the top of the emitter.

The kernel has the calling convention of tc.codegen.llvm_ir.  Each parallel loop becomes a function that the
thread pool calls once for each iteration, with the kernel's arguments and the enclosing loop variables.  Each
function loads the dynamic sizes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from tc.codegen.check_points import source_points
from tc.codegen.llvm_expr import storage_type
from tc.dtypes import BOOL, INT64, accumulator
from tc.errors import InternalError, unreachable
from tc.ir.expr import Add, Expr, IntImm, Mul
from tc.ir.lines import TRACE
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
from tc.ir.traces import Traces
from tc.ir.trip_counts import iterations

from ..isa import FEW_REGISTERS, Isa
from .affine import LANE, Affine, factors
from .functions import SIZE, FunctionEmitter
from .index_forms import Env, LoopContext, operands
from .interleave import INTERLEAVED_COPIES, interleaved
from .lane_prefixes import prefixes
from .promotion import Promotion
from .statement_shapes import (
    constant_trips,
    has_long_chain,
    loop_label,
    takes_long,
    updates_same_elements,
    written_by,
)
from .transposed_copies import transposed
from .values import LIKELY, NO_WEIGHTS, UNPREDICTABLE, WEIGHTS, Value
from .vector_reductions import reduce_vectors

KERNEL = "kernel"


def emit(
    nest: LoopNest,
    isa: Isa,
    *,
    fast_math: bool = False,
    fused_products: bool = False,
    traces: bool = False,
) -> str:
    """The LLVM module of a nest, whose one external function is `kernel`.  With `fused_products`, products
    one factor of which is a product are multiply-adds.  With `traces` instructions end in their stage, as
    `tc.ir.lines.split` reads it."""
    return NestEmitter(source_points(nest), isa, fast_math, fused_products, traces).module()


class NestEmitter(FunctionEmitter):
    """Emits the statements of a nest."""

    def __init__(
        self, nest: LoopNest, isa: Isa, fast_math: bool, fused_products: bool, traces: bool = False
    ) -> None:
        super().__init__(nest, isa, fast_math)
        self.traces = Traces(nest.body) if traces else None
        self.fused_products = fused_products and isa.fma
        self.written = {id(s): written_by(s) for s in statements(nest.body) if isinstance(s, For)}

    def module(self) -> str:
        """The text of the module."""
        self.sizes = Env({n: Affine.of(f"{SIZE}{i}") for i, n in enumerate(self.nest.sizes)}, {})
        self.open()
        self.statement(self.nest.body, self.sizes)
        self.close()
        self.emit_store_fence()
        parallel = any(isinstance(s, For) and s.kind is LoopKind.PARALLEL for s in statements(self.nest.body))
        if parallel and self.nest.sites:
            first = self.op("load i64, ptr %error, align 8")
            failed = self.op(f"icmp ne i64 {first}, 0")
            self.leave(f"i32 {self.op(f'zext i1 {failed} to i32')}")
        else:
            self.leave("i32 0")
        kernel = self.finish(f"define i32 @{KERNEL}(ptr %args) {self.attributes()} {{")
        parts = [f"; {self.nest.name}", *self.texts.values(), *self.helper_text(), *self.functions, kernel]
        if any(a.nontemporal for a in self.nest.arrays):
            parts.append("!0 = !{i32 1}")
        if any(LIKELY in text for text in parts):
            parts.append(WEIGHTS)
        if any(UNPREDICTABLE in text for text in parts):
            parts.append(NO_WEIGHTS)
        return "\n".join([*parts, *sorted(self.declarations)]) + "\n"

    # Statements.

    def statement(self, s: Stmt, env: Env) -> None:
        """Emit a statement; what is emitted for one stage is traced to it."""
        before = self.trace
        if self.traces is not None and (stage := self.traces.only(s)):
            self.trace = TRACE + stage
        self._statement(s, env)
        self.trace = before

    def _statement(self, s: Stmt, env: Env) -> None:
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
                self.unrolled(s, env, lower, constant_trips(trips, s))
            case LoopKind.DOT:
                if not self.dot(s, env, lower, constant_trips(trips, s)):
                    for i in range(constant_trips(trips, s)):
                        self.statement(s.body, env.bind(s.var, lower + i))
            case LoopKind.PREFIX:
                prefixes(self, s, env)
            case LoopKind.TRANSPOSED:
                transposed(self, s, env, lower, constant_trips(trips, s))
            case _:
                if not trips.terms and trips.constant <= s.step:
                    if trips.constant > 0:
                        self.statement(s.body, env.bind(s.var, lower))
                else:
                    self.serial(s, env, lower, upper)

    def unrolled(self, s: For, env: Env, lower: Affine, trips: int) -> None:
        if reduce_vectors(self, s, env):
            return
        points = range(0, trips, s.step)
        if self.isa.registers <= FEW_REGISTERS and updates_same_elements(s) and not has_long_chain(s.body):
            with self.forgetting() as forget:
                for i in points:
                    self.statement(s.body, env.bind(s.var, lower + i))
                    forget()
            return
        if not has_long_chain(s.body):
            for i in points:
                self.statement(s.body, env.bind(s.var, lower + i))
            return
        groups = -(-len(points) // INTERLEAVED_COPIES)
        size = -(-len(points) // max(groups, 1))
        for first in range(0, len(points), size or 1):
            copies: list[list[str]] = []
            for i in points[first : first + size]:
                with self.fn.collecting() as lines:
                    self.statement(s.body, env.bind(s.var, lower + i))
                copies.append(lines)
            self.fn.lines += interleaved(copies, self.fn.array_of)

    def serial(self, s: For, env: Env, lower: Affine, upper: Affine) -> None:
        trips = upper - lower
        first, last = self.materialize(lower), self.materialize(upper)
        head, latch, after = self.label(loop_label(s)), self.label("next"), self.label("after")
        iterator, following = self.name("i"), self.name("n")
        self.ranges[iterator] = self.value_range(lower)[0], self.value_range(upper)[1] - 1
        context = LoopContext(
            frozenset(operands(env)), len(self.fn.pure), bool(trips.terms), self.written[id(s)]
        )
        with self.fn.collecting() as lines, self.inside(context):
            if trips.terms:
                some = self.op(f"icmp slt i64 {first}, {last}")
                self.do(f"br i1 {some}, label %{head}.pre, label %{after}")
                self.start(f"{head}.pre")
            before = self.fn.block
            self.do(f"br label %{head}")
            self.start(head)
            self.do(f"{iterator} = phi i64 [ {first}, %{before} ], [ {following}, %{latch} ]")
            self.invalidate_loads(s)
            if takes_long(s, self.nest):
                self.stop_on_signals()
            maybe = bool(trips.terms and (self.nest.sizes or self.nest.counters))
            with self.scope(), self.conditions(self.conditional + maybe):
                self.statement(s.body, env.bind(s.var, Affine.of(iterator)))
            self.do(f"br label %{latch}")
            self.start(latch)
            self.do(f"{following} = add nsw i64 {iterator}, {s.step}")
            more = self.op(f"icmp slt i64 {following}, {last}")
            self.do(f"br i1 {more}, label %{head}, label %{after}")
            self.start(after)
            self.invalidate_loads(s)
        self.fn.lines += [*context.preheader, *lines]

    def stop_on_signals(self) -> None:
        """Emit a test for signals: the kernel returns if a signal such as Ctrl-C tells it to stop."""
        line = "  %signals = call ptr @tc_signals()"
        if line not in self.fn.entry:
            self.fn.entry.append(line)
        # Neither function changes memory of the program.
        self.declarations.add("declare ptr @tc_signals() nounwind memory(none)")
        self.declarations.add(
            "declare i32 @tc_interrupted() nounwind cold memory(inaccessiblemem: readwrite)"
        )
        quiet = self.op(f"icmp eq i32 {self.op('load volatile i32, ptr %signals, align 4')}, 0")
        signal, stop, go = self.label("signal"), self.label("stop"), self.label("go")
        self.do(f"br i1 {quiet}, label %{go}, label %{signal}, {LIKELY}")
        self.start(signal)
        goes_on = self.op(f"icmp eq i32 {self.op('call i32 @tc_interrupted()')}, 0")
        self.do(f"br i1 {goes_on}, label %{go}, label %{stop}")
        self.start(stop)
        self.failed()
        self.start(go)

    @contextmanager
    def inside(self, loop: LoopContext) -> Generator[None]:
        """Emits a loop, before which invariant code may be moved."""
        self.enclosing.append(loop)
        try:
            yield
        finally:
            self.enclosing.pop()

    @contextmanager
    def conditions(self, count: int) -> Generator[None]:
        """Marks what is emitted in this context as subject to so many conditions that may not hold."""
        before, self.conditional = self.conditional, count
        try:
            yield
        finally:
            self.conditional = before

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
        trips = constant_trips(count, s)
        if trips <= 0:
            return
        lanes = s.lanes or 1 << (trips - 1).bit_length()
        if lanes == 1:
            self.statement(s.body, env.bind(s.var, lower))
            return
        with self.in_lanes(lanes, None if lanes == trips else self.tail_mask(trips, lanes)):
            self.statement(s.body, env.bind(s.var, lower + Affine.of(LANE)))

    def branch(self, s: If, env: Env) -> None:
        c = self.condition(s.condition, env)
        if c.constant is not None:
            chosen = s.then if c.constant else s.otherwise
            if chosen is not None:
                self.statement(chosen, env)
            return
        if c.lanes:
            with self.where(c):
                self.statement(s.then, env)
            if s.otherwise is not None:
                with self.where(self.negate(c)):
                    self.statement(s.otherwise, env)
            return
        yes, after = self.label("then"), self.label("endif")
        no = self.label("else") if s.otherwise is not None else after
        self.do(f"br i1 {c.text}, label %{yes}, label %{no}")
        for label, body in ((yes, s.then), (no, s.otherwise)):
            if body is not None:
                self.start(label)
                with self.scope(), self.conditions(self.conditional + 1):
                    self.statement(body, env)
                self.do(f"br label %{after}")
        self.start(after)
        for buffer in written_by(s):
            self.versions[buffer] = self.versions.get(buffer, 0) + 1

    def promote(self, s: Promote, env: Env) -> None:
        loops = iterations(s.body)
        r = Promotion(s.buffers, s.dead, written_by(s.body), len(self.fn.pure), loops)
        self.compute_masks(s, env)
        with self.fn.collecting() as lines, self.scope():
            # Enclosing conditions hold for all of it.
            with self.promoting(r), self.conditions(0):
                self.statement(s.body, env)
            self.flush(r)
        self.fn.lines += [*r.prologue, *lines]

    @contextmanager
    def promoting(self, r: Promotion) -> Generator[None]:
        """Emits what runs while elements live in registers."""
        self.promotions.append(r)
        try:
            yield
        finally:
            self.promotions.pop()

    def compute_masks(self, s: Promote, env: Env) -> None:
        """Compute the masks of inner vector loops that are known here, for the loads of the prologue."""
        for v in statements(s.body) if self.nest.sizes or self.nest.counters else ():
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
            write = int(s.write and s.level == 1)  # what x86 prefetches for writing fills the first cache
            self.do(f"call void @llvm.prefetch.p0(ptr {p}, i32 {write}, i32 {4 - s.level}, i32 1)")

    def compute(self, s: Compute, env: Env) -> None:
        array = self.arrays[s.buffer]
        self.point = s.point
        address = self.address(array, s.subscripts, env)
        if address is None:
            self.scatter(s, array, env)
            return
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

    def scatter(self, s: Compute, array: Array, env: Env) -> None:
        """Store one element at a data-dependent address.  Its value is computed first and contains the
        checks."""
        if s.op is not None or self.lanes:
            raise InternalError(f"'{array.name}' is written where data says")
        v = self.cast(self.value(s.value, env), array.dtype)
        total = self.integer(0, INT64)
        for e, stride in zip(s.subscripts, self.strides[array.name], strict=True):
            at = self.cast(self.value(e, env), INT64)
            step = self.integer(stride, INT64) if isinstance(stride, int) else self.value(stride, env)
            total = self.binary("+", total, self.binary("*", at, step))
        self.versions[array.name] = self.versions.get(array.name, 0) + 1
        st = storage_type(array.dtype)
        text = self.pure(f"zext i1 {v.text} to i8") if array.dtype == BOOL else v.text
        p = self.op(f"getelementptr {st}, ptr {self.base(array)}, i64 {total.text}")
        self.do(f"store {st} {text}, ptr {p}, align {array.dtype.itemsize}")

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
        total = self.reduce(s.op, v)
        # Neutral lanes change nothing, so the element may be written in any case.
        with self.under(self.lanes, None):
            old = self.cast(self.load(array, address), v.dtype)
            self.store(array, address, self.cast(self.binary(s.op, old, total), array.dtype))

    # Threads.

    def parallel(self, s: For, env: Env) -> None:
        if self.chunk:  # already on a thread of the pool
            self.serial(s, env, self.affine(s.lower, env), self.affine(s.upper, env))
            return
        lower, upper = self.affine(s.lower, env), self.affine(s.upper, env)
        used = {x for a in env.affine.values() for n, _ in a.terms for x in factors(n)}
        captured = sorted(x for x in used if not x.startswith(SIZE))
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
        self.leave("void")
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
