"""Bounds checks of data-dependent subscripts, and the record of the first one that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tc.codegen.llvm_expr import error_record
from tc.codegen.numerics import MAX_POINT
from tc.dtypes import INT64
from tc.ir.expr import IntImm
from tc.ir.loops import Array

from .index_forms import Env
from .values import Value, type_text

if TYPE_CHECKING:
    from .expressions import ExpressionEmitter


def check(
    emitter: ExpressionEmitter, subscript: Value, array: Array, dimension: int, site: int, env: Env
) -> None:
    """Emit a bounds check: return with the error record filled if an active lane's subscript is out of
    range."""
    extent = emitter.value(array.shape[dimension], env)
    subscript = emitter.cast(subscript, INT64)
    bad = emitter.compare(("", "uge", "uge"), subscript, extent)
    if emitter.mask is not None:
        bad = emitter.logical("and", emitter.vector_mask() if emitter.lanes else emitter.mask, bad)
    key = f"checked {bad.text} {site} {dimension}"
    if any(key in scope for scope in emitter.fn.pure):
        return
    emitter.fn.pure[-1][key] = ""
    outside, inside = emitter.label("outside"), emitter.label("inside")
    emitter.do(f"br i1 {emitter.any_lane(bad)}, label %{outside}, label %{inside}")
    emitter.start(outside)
    emitter.open()
    lane = "0"
    if bad.lanes:
        whole = emitter.op(f"bitcast <{bad.lanes} x i1> {bad.text} to i{bad.lanes}")
        wide = emitter.op(f"zext i{bad.lanes} {whole} to i64") if bad.lanes < 64 else whole
        lane = emitter.call("i64", "llvm.cttz.i64", ("i64", wide), ("i1", "true"))

    def one(v: Value) -> str:
        if not v.lanes:
            return v.text
        return emitter.op(f"extractelement {type_text(v.dtype, v.lanes)} {v.text}, i64 {lane}")

    lower = array.lower[dimension] if array.lower else IntImm(0)
    found = one(subscript)
    if lower != IntImm(0):
        found = emitter.op(f"add i64 {found}, {emitter.value(lower, env).text}")
    with emitter.under(emitter.lanes, None):
        kept = tuple(one(emitter.value(p, env)) for p in emitter.point[:MAX_POINT])
    words = error_record(site, found, kept, array.source_dimension(dimension))
    name = f"record_{len(words)}"
    emitter.texts.setdefault(name, _record_function(name, len(words)))
    emitter.do(f"call void @{name}(ptr %error, {', '.join(f'i64 {w}' for w in words)})")
    emitter.failed()
    emitter.close()
    emitter.start(inside)


def _record_function(name: str, words: int) -> str:
    """A function that fills the error record.  The first thread to fail fills it; the record's first word
    says that it is taken.  It is a function because dozens of checks in a loop would each repeat these lines.
    """
    params = ", ".join(f"i64 %w{i}" for i in range(words))
    lines = [
        f"define internal void @{name}(ptr %error, {params}) noinline cold nounwind {{",
        "  %claim = cmpxchg ptr %error, i64 0, i64 %w0 monotonic monotonic",
        "  %mine = extractvalue { i64, i1 } %claim, 1",
        "  br i1 %mine, label %write, label %leave",
        "write:",
        *(
            f"  %at{i} = getelementptr i64, ptr %error, i64 {i}\n  store i64 %w{i}, ptr %at{i}"
            for i in range(1, words)
        ),
        "  br label %leave",
        "leave:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"
