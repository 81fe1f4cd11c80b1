"""Vector copies, as a sequence of copies of single elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tc.errors import InternalError
from tc.ir.expr import Add, Cast, Expr, FloatImm, IfThenElse, IntImm, Load, UIntImm
from tc.ir.loops import Array, Compute
from tc.poly.trace.events import ANY_INDEX, Cell, OutOfBoundsError


def scalar_copies(s: Compute) -> Iterator[Compute]:
    """The copies of the elements of a vector, all under its condition; any other statement unchanged."""
    if s.width == 1:
        yield s
        return
    for k in range(s.width):
        yield replace(s, subscripts=_shifted(s.subscripts, k), value=_element(s.value, k), width=1)


def _element(e: Expr, k: int) -> Expr:
    """The value of the k-th element; condition and conversion are those of the vector."""
    match e:
        case IfThenElse():
            return replace(e, then_value=_element(e.then_value, k))
        case Cast():
            return replace(e, value=_element(e.value, k))
        case Load():
            return replace(e, subscripts=_shifted(e.subscripts, k))
        case FloatImm() | IntImm() | UIntImm():
            return e  # where the condition never holds
        case _:
            raise InternalError(f"a copy of several elements has a {type(e).__name__}")


def _shifted(subscripts: Sequence[Expr], k: int) -> tuple[Expr, ...]:
    *before, last = subscripts
    return (*before, Add(last, IntImm(k)))


def check_alignment(
    cell: Cell, width: int, arrays: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Raises OutOfBoundsError unless a cell is aligned to a vector of so many elements."""
    name, indices = cell
    shape = shapes[name]
    position = indices[len(indices) - len(shape) :]  # without block and thread
    if ANY_INDEX in position:
        return
    row = shape[-1] + (arrays[name].padding if len(shape) > 1 else 0)
    flat = 0
    for i, n in zip(position, (*shape[:-1], row), strict=True):
        flat = flat * n + i
    if flat % width:
        raise OutOfBoundsError(f"a copy of {width} elements at once has {cell}, which is not aligned")
