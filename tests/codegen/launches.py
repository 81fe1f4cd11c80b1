"""Runs loop nests with launches on the OpenCL device that tests have, PoCL."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl

from tc.codegen import gpu_source
from tc.codegen.dialect import OPENCL
from tc.codegen.gpu_module import Argument
from tc.ir.evaluate import evaluate
from tc.ir.expr import Expr, IntImm, substitute
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
)
from tc.ir.simplify import simplify
from tests.codegen.kernels import Result, numpy_dtype

GUARD = 128  # bytes before and behind an array: where a part of a buffer may begin


@functools.cache
def device() -> tuple[Any, Any, Any]:
    found = next(d for p in cl.get_platforms() for d in p.get_devices())
    context = cl.Context([found])
    return found, context, cl.CommandQueue(context)


def launched(n: LoopNest) -> LoopNest:
    """The nest of one thread as a launch."""
    return replace(n, body=Launch(n.name, (), (), n.body))


def unrolled(s: Stmt, most: int = 8) -> tuple[Stmt, int]:
    """A statement with loops around barriers written out, as far as their bounds are constants, and how many
    loops that were.  PoCL adds barriers of its own to a loop that has some, which hides races."""

    def constant(e: Expr) -> int | None:
        e = simplify(e, exact=True)
        return e.value if isinstance(e, IntImm) else None

    def visit(s: Stmt, values: dict[str, Expr]) -> tuple[Stmt, int]:
        match s:
            case Block():
                parts = [visit(c, values) for c in s.body]
                return Block(tuple(p for p, _ in parts)), sum(k for _, k in parts)
            case For():
                lower, upper = substitute(s.lower, values), substitute(s.upper, values)
                low, high = constant(lower), constant(upper)
                around = any(isinstance(x, Sync | Combine) for x in statements(s.body))
                if around and low is not None and high is not None and len(range(low, high, s.step)) <= most:
                    turns = [visit(s.body, {**values, s.var: IntImm(i)}) for i in range(low, high, s.step)]
                    return Block(tuple(p for p, _ in turns)), 1 + sum(k for _, k in turns)
                body, count = visit(s.body, values)
                return replace(s, lower=lower, upper=upper, body=body), count
            case If():
                then, count = visit(s.then, values)
                otherwise, more = visit(s.otherwise, values) if s.otherwise is not None else (None, 0)
                condition = substitute(s.condition, values)
                return replace(s, condition=condition, then=then, otherwise=otherwise), count + more
            case Launch() | Promote():
                body, count = visit(s.body, values)
                return replace(s, body=body), count
            case Compute():
                subscripts = tuple(substitute(e, values) for e in s.subscripts)
                point = tuple(substitute(e, values) for e in s.point)
                value = substitute(s.value, values)
                return replace(s, subscripts=subscripts, point=point, value=value), 0
            case Combine() | Sync() | Prefetch():
                return s, 0

    return visit(s, {})


def on_device(
    n: LoopNest,
    values: Mapping[str, Any],
    sizes: Sequence[int] | Mapping[str, int] = (),
    backwards: bool = False,
) -> Result:
    """Run the launches of a nest.  Arrays lie between guard bytes.  PoCL runs the threads of a block one
    after the other between two barriers, with `backwards` the last one first."""
    _, context, queue = device()
    module = gpu_source.emit(n, OPENCL)
    text = module.text
    if backwards:
        text = text.replace("get_local_id(0)", "(get_local_size(0) - 1 - get_local_id(0))")
    # As the backend does: PoCL 3.0 breaks barriers and conditions where it optimises before it makes loops.
    flags = ["-cl-std=CL1.2", "-cl-fp32-correctly-rounded-divide-sqrt", "-cl-opt-disable", "-Werror"]
    program = cl.Program(context, text).build(flags, cache_dir=False)
    at = sizes if isinstance(sizes, Mapping) else dict(zip(n.sizes, sizes, strict=True))
    scalars = {s.name: s.dtype for s in n.scalars}
    parts: dict[str, tuple[Any, Any, Any]] = {}

    def part(name: str, content: Any) -> Any:
        """The part of a buffer that holds the array."""
        if name not in parts:
            raw = np.full(content.nbytes + 2 * GUARD, 0xA5, np.uint8)
            raw[GUARD : GUARD + content.nbytes] = content.reshape(-1).view(np.uint8)
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            whole = cl.Buffer(context, flags, hostbuf=raw)
            # Nothing is as long as a part may be: a guard byte more.
            parts[name] = whole, whole.get_sub_region(GUARD, max(1, content.nbytes)), content
        return parts[name][1]

    def value(a: Argument) -> Any:
        match a.kind:
            case "array":
                array = n.array(a.name)
                shape = tuple(evaluate(e, at) for e in array.shape)
                content = np.full(shape, 0, numpy_dtype(array.dtype))
                if a.name in values:
                    content[...] = values[a.name]
                return part(a.name, content)
            case "scalar":
                t = scalars[a.name]
                held = np.array([values.get(a.name, 0)], numpy_dtype(t))
                return held[0] if t.bits > 16 else held.view(f"u{t.itemsize}")[0]
            case "size":
                return np.int64(at[a.name])
            case "error":
                return part("", np.zeros(32, np.int64))
            case "workspace":
                return part(" ", np.full(evaluate(n.workspace, at), 0xCD, np.uint8))

    for k in module.kernels:
        function = cl.Kernel(program, k.name)
        function.set_args(*map(value, k.arguments))
        blocks = evaluate(k.blocks, at)
        if blocks:
            cl.enqueue_nd_range_kernel(queue, function, (blocks * k.threads,), (k.threads,))
    found: dict[str, Any] = {}
    for name, (whole, _, content) in parts.items():
        raw = np.empty(content.nbytes + 2 * GUARD, np.uint8)
        cl.enqueue_copy(queue, raw, whole)
        queue.finish()
        assert (raw[:GUARD] == 0xA5).all() and (raw[-GUARD:] == 0xA5).all(), f"{name}: written outside"
        found[name] = raw[GUARD:-GUARD].view(content.dtype).reshape(content.shape).copy()
    error = found.get("", np.zeros(32, np.int64))
    return Result(int(error[0] != 0), error, {m: found[m] for m in n.outputs if m in found})
