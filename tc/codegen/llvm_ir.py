"""Loop nests to scalar LLVM IR text: naive, one instruction after the other, for the reference backend.

The kernel is `i32 NAME(ptr args)`: `args` holds the addresses of the parameters in order, of the outputs,
of the error record (`int64_t[32]`, zeroed) and of the workspace (64-byte aligned); then, where sizes were
left symbolic, of an array of their values (`int64_t`).  It returns 0, or 1 after a failed check.
"""

from __future__ import annotations

from collections.abc import Mapping

from tc.codegen.check_points import source_points
from tc.codegen.llvm_expr import ExprEmitter, storage_type
from tc.codegen.llvm_helpers import HELPERS
from tc.dtypes import BOOL, accumulator
from tc.errors import InternalError, unreachable
from tc.ir.loops import (
    Block,
    Combine,
    Compute,
    For,
    If,
    Launch,
    LoopNest,
    Prefetch,
    Promote,
    Stmt,
    Sync,
    statements,
)  # fmt: skip

KERNEL = "kernel"


def emit(nest: LoopNest, name: str = KERNEL) -> str:
    """The module of a nest, whose one external function is `name`."""
    nest = source_points(nest)
    e = _NestEmitter(nest)
    env = e.prologue()
    e.statement(nest.body, env)
    e.do("ret i32 0")
    parts = [f"; {nest.name}"]
    declarations = set(e.declarations)
    for helper in sorted(e.helpers):
        text, needs = HELPERS[helper]
        parts.append(text)
        declarations |= set(needs)
    body = "\n".join(e.lines)
    parts.append(f"define i32 @{name}(ptr %args) nounwind {{\nentry:\n{body}\n}}\n")
    parts += sorted(declarations)
    return "\n".join(parts) + "\n"


class _NestEmitter(ExprEmitter):
    def __init__(self, nest: LoopNest) -> None:
        super().__init__({a.name: a for a in nest.arrays})
        self.nest = nest

    def prologue(self) -> Mapping[str, str]:
        env: dict[str, str] = {}
        scalars = {s.name: s for s in self.nest.scalars}
        error = len(self.nest.params)
        for position, name in enumerate(self.nest.params):
            slot = self.op(f"getelementptr ptr, ptr %args, i64 {position}")
            if name in scalars:
                t = scalars[name].dtype
                at = self.op(f"load ptr, ptr {slot}")
                v = self.op(f"load {storage_type(t)}, ptr {at}, align {t.itemsize}")
                env[name] = self.op(f"icmp ne i8 {v}, 0") if t == BOOL else v
            else:
                self.bases[name] = self.op(f"load ptr, ptr {slot}")
        slot = self.op(f"getelementptr ptr, ptr %args, i64 {error}")
        self.do(f"%error = load ptr, ptr {slot}")
        if self.nest.sizes:
            slot = self.op(f"getelementptr ptr, ptr %args, i64 {error + 2}")
            sizes = self.op(f"load ptr, ptr {slot}")
            for i, name in enumerate(self.nest.sizes):
                at = self.op(f"getelementptr i64, ptr {sizes}, i64 {i}")
                env[name] = self.op(f"load i64, ptr {at}")
        temporaries = [a for a in self.nest.arrays if a.offset is not None]
        if temporaries:
            slot = self.op(f"getelementptr ptr, ptr %args, i64 {error + 1}")
            workspace = self.op(f"load ptr, ptr {slot}")
            for a in temporaries:
                assert a.offset is not None
                offset = self.value(a.offset, env)
                self.bases[a.name] = self.op(f"getelementptr i8, ptr {workspace}, i64 {offset}")
        return env

    def statement(self, s: Stmt, env: Mapping[str, str]) -> None:
        match s:
            case Block():
                for c in s.body:
                    self.statement(c, env)
            case For():
                self.loop(s, env)
            case If():
                self.branch(s, env)
            case Compute():
                self.compute(s, env)
            case Promote():
                self.statement(s.body, env)
            case Prefetch():
                pass
            case Launch() | Combine() | Sync():
                raise InternalError(f"scalar code has no {type(s).__name__}")
            case _:
                unreachable(s)

    def loop(self, s: For, env: Mapping[str, str]) -> None:
        lower, upper = self.value(s.lower, env), self.value(s.upper, env)
        head, body, after = self.label("head"), self.label("body"), self.label("after")
        before = self.block
        self.do(f"br label %{head}")
        self.start(head)
        iterator = f"%i{self.label('')}"
        phi = len(self.lines)
        self.lines.append("")
        more = self.op(f"icmp slt i64 {iterator}, {upper}")
        self.do(f"br i1 {more}, label %{body}, label %{after}")
        self.start(body)
        if s.var in self.nest.counters or any(isinstance(x, For) for x in statements(s.body)):
            self.stop_on_signals()
        self.statement(s.body, {**env, s.var: iterator})
        following = self.op(f"add nsw i64 {iterator}, {s.step}")
        self.do(f"br label %{head}")
        self.lines[phi] = f"  {iterator} = phi i64 [ {lower}, %{before} ], [ {following}, %{self.block} ]"
        self.start(after)

    def stop_on_signals(self) -> None:
        """Return if a signal asks the kernel to stop, as Ctrl-C does."""
        self.declarations |= {"declare ptr @tc_signals()", "declare i32 @tc_interrupted()"}
        pending = self.op(f"load volatile i32, ptr {self.op('call ptr @tc_signals()')}, align 4")
        signal, stop, go = self.label("signal"), self.label("stop"), self.label("go")
        self.do(f"br i1 {self.op(f'icmp eq i32 {pending}, 0')}, label %{go}, label %{signal}")
        self.start(signal)
        goes_on = self.op(f"icmp eq i32 {self.op('call i32 @tc_interrupted()')}, 0")
        self.do(f"br i1 {goes_on}, label %{go}, label %{stop}")
        self.start(stop)
        self.do("ret i32 1")
        self.start(go)

    def branch(self, s: If, env: Mapping[str, str]) -> None:
        c = self.value(s.condition, env)
        yes, after = self.label("then"), self.label("endif")
        no = self.label("else") if s.otherwise is not None else after
        self.do(f"br i1 {c}, label %{yes}, label %{no}")
        self.start(yes)
        self.statement(s.then, env)
        self.do(f"br label %{after}")
        if s.otherwise is not None:
            self.start(no)
            self.statement(s.otherwise, env)
            self.do(f"br label %{after}")
        self.start(after)

    def compute(self, s: Compute, env: Mapping[str, str]) -> None:
        self.lines.append(f"  ; {s.stage}: {' '.join(s.text.split())}")
        array = self.arrays[s.buffer]
        self.point = tuple(self.value(p, env) for p in s.point)
        v = self.value(s.value, env)
        address = self.address(array, [self.value(x, env) for x in s.subscripts], env)
        if s.op is None:
            self.write(array, address, self.cast(v, s.value.dtype, array.dtype))
            return
        t = accumulator(array.dtype, s.value.dtype)
        old = self.cast(self.read(array, address), array.dtype, t)
        new = self.combine(s.op, old, self.cast(v, s.value.dtype, t), t)
        self.write(array, address, self.cast(new, t, array.dtype))
