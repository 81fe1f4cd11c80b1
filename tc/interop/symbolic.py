"""Shapes of results from shapes of arguments, which may be symbolic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tc.api import Kernel
from tc.errors import ArgumentError
from tc.instances.kernel_signature import boxes_of
from tc.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    Variable,
)
from tc.ir.simplify import simplify
from tc.lang import resolved as r
from tc.ranges import Depends


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How a framework takes the minimum and maximum of sizes that it does not know."""

    min: Callable[[Any, Any], Any]
    max: Callable[[Any, Any], Any]


def sizes_of(
    kernel: Kernel, shapes: Mapping[str, tuple[Any, ...]], check: Callable[[Any, str], None]
) -> dict[str, Any]:
    """The sizes of a kernel for shapes of its arguments; `check` is given what must hold, and what else."""
    sizes: dict[str, Any] = {}
    for p in kernel.front.checked.params:
        if not isinstance(p, r.Tensor):
            continue
        shape = shapes[p.name]
        dims = p.dims or ()
        check(len(shape) == len(dims), f"{p.name} has {len(shape)} dimensions, not {len(dims)}")
        for k, (d, n) in enumerate(zip(dims, shape, strict=True)):
            if isinstance(d, r.Size) and d.name not in sizes:
                sizes[d.name] = n
            else:
                want = sizes[d.name] if isinstance(d, r.Size) else int(cast("Any", d).value)
                shown = d.name if isinstance(d, r.Size) else want
                check(n == want, f"dimension {k} of {p.name} has another extent than {shown}")
    return sizes


def shapes_of(
    kernel: Kernel, sizes: Mapping[str, Any], scalars: Mapping[str, int], arithmetic: Arithmetic
) -> dict[str, tuple[Any, ...]]:
    """The shapes of a kernel's results.  Raises ArgumentError where a range waits for a scalar."""
    keyed = {n: v for n, v in {**sizes, **scalars}.items() if n in kernel.front.keyed}
    boxes = boxes_of(kernel.front, kernel.ranges_for({n: int(v) for n, v in keyed.items()}))
    values = {**sizes, **scalars}
    out: dict[str, tuple[Any, ...]] = {}
    for x in kernel.front.checked.returns:
        extents: list[Any] = []
        for b in boxes[x.name]:
            if isinstance(b, Depends):
                raise ArgumentError(f"{kernel.name}: a range of {x.name} still {b}", code="TC0513")
            extents.append(evaluated(simplify(b.extent, exact=True), values, arithmetic))
        out[x.name] = tuple(extents)
    return out


def evaluated(e: Expr, values: Mapping[str, Any], a: Arithmetic) -> Any:
    """A size expression for sizes that may be symbolic: no comparison is made but where the sizes decide."""

    def at(e: Expr) -> Any:
        match e:
            case IntImm():
                return e.value
            case Variable():
                return values[e.name]
            case Cast():
                return at(e.value)
            case Add():
                return at(e.a) + at(e.b)
            case Sub():
                return at(e.a) - at(e.b)
            case Mul():
                return at(e.a) * at(e.b)
            case FloorDiv():
                return at(e.a) // at(e.b)
            case FloorMod():
                return at(e.a) % at(e.b)
            case Min():
                return a.min(at(e.a), at(e.b))
            case Max():
                return a.max(at(e.a), at(e.b))
            case Select():
                return at(e.true_value) if at(e.condition) else at(e.false_value)
            case EQ():
                return at(e.a) == at(e.b)
            case NE():
                return at(e.a) != at(e.b)
            case LT():
                return at(e.a) < at(e.b)
            case LE():
                return at(e.a) <= at(e.b)
            case GT():
                return at(e.a) > at(e.b)
            case GE():
                return at(e.a) >= at(e.b)
            case _:
                raise TypeError(f"a size is no {type(e).__name__}")

    return at(e)
