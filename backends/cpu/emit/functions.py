"""The functions of a module: their heads, the operands that each loads once, and their own state."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager

from tc.codegen.llvm_expr import storage_type
from tc.dtypes import BOOL
from tc.errors import InternalError
from tc.ir.expr import Expr, IntImm
from tc.ir.loops import (
    Array,
    LoopNest,
)
from tc.ir.simplify import simplify

from ..isa import Isa
from .dot_code import DotEmitter
from .instructions import Function
from .statement_shapes import updated_in
from .values import Value

_FLUSH = 0x8040  # of MXCSR: results to zero, operands to zero
SIZE = "%size."  # operands of dynamic sizes, the same in all functions


class FunctionEmitter(DotEmitter):
    """Emits one function at a time of a loop nest."""

    def __init__(self, nest: LoopNest, isa: Isa, fast_math: bool) -> None:
        super().__init__(isa, fast_math, {a.name: a for a in nest.arrays})
        self.nest = nest
        if isa.blends_in_memory:
            self.updated = updated_in(nest.body)
        self.functions: list[str] = []
        self.bases: dict[str, str] = {}
        self.chunk: str | None = None  # the variable of the parallel loop whose iteration this function runs
        # Where no instruction converts halves, multiplications do, and these need subnormal numbers.
        whole = isa.half_conversions or not any(a.dtype.is_half for a in nest.arrays)
        self.flushes = fast_math and isa.x86 and whole

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
            pointers.append(f"  {SIZE}{i}.at = getelementptr i64, ptr %sizes, i64 {i}")
            pointers.append(f"  {SIZE}{i} = load i64, ptr {SIZE}{i}.at, align 8")
        mode = self._flushing() if self.flushes else ()
        return "\n".join([head, "entry:", *pointers, *mode, *self.fn.entry, *self.fn.lines, "}", ""])

    def _flushing(self) -> tuple[str, ...]:
        """Sets the floating-point mode in which subnormal operands and results are zero."""
        self.declarations |= {f"declare void @llvm.x86.sse.{x}mxcsr(ptr)" for x in ("st", "ld")}
        return (
            "  %mode.before = alloca i32, align 4",
            "  %mode.flushing = alloca i32, align 4",
            "  call void @llvm.x86.sse.stmxcsr(ptr %mode.before)",
            "  %mode = load i32, ptr %mode.before, align 4",
            f"  %mode.flushes = or i32 %mode, {_FLUSH}",
            "  store i32 %mode.flushes, ptr %mode.flushing, align 4",
            "  call void @llvm.x86.sse.ldmxcsr(ptr %mode.flushing)",
        )

    def leave(self, result: str) -> None:
        """Emit a return, with the floating-point mode as it was."""
        if self.flushes:
            self.do("call void @llvm.x86.sse.ldmxcsr(ptr %mode.before)")
        self.do(f"ret {result}")

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
        streams = self.isa.x86 and any(a.nontemporal for a in self.nest.arrays)
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
        self.leave("void" if self.chunk else "i32 1")

    @contextmanager
    def function(self) -> Generator[None]:
        """Emits another function, which shares no operands with this one."""
        outer = self.fn, self.bases, self.scalars, self.loaded, self.hoisted_sizes, self.chunk
        around = self.promotions, self.enclosing, self.reload_elements, self.pointer_copies
        self.fn, self.bases, self.scalars, self.loaded, self.hoisted_sizes = Function(), {}, {}, [{}], {}
        self.promotions, self.enclosing, self.reload_elements, self.pointer_copies = [], [], frozenset(), {}
        try:
            with self.under(self.lanes, self.mask):
                yield
        finally:
            self.fn, self.bases, self.scalars, self.loaded, self.hoisted_sizes, self.chunk = outer
            self.promotions, self.enclosing, self.reload_elements, self.pointer_copies = around


def _extent(n: Expr) -> int:
    if not isinstance(n, IntImm):
        raise InternalError("an array of registers has no constant shape")
    return n.value
