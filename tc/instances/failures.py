"""What went wrong while a kernel ran, as an error: from the record that it leaves."""

from __future__ import annotations

from collections.abc import Mapping

from tc import _native
from tc.errors import BackendError, BoundsError
from tc.ir import expr as x
from tc.ir.evaluate import evaluate
from tc.ir.program import Box, Program, Range, Site


def failure(
    name: str, backend: str, program: Program, sizes: Mapping[str, int], error: _native.ErrorRecord
) -> BackendError | BoundsError:
    """The error of a record: a subscript that is out of range (TC0701), or a run time that gave up
    (TC0810)."""
    number, value, _, dim = error
    if number < 0:
        return stopped(name, backend, value)
    box = checked_box(program, number)
    return out_of_range(program.sites[number], None if box is None else box[dim], sizes, error)


def stopped(name: str, backend: str, kind: int) -> BackendError:
    """The error of a run time of the backend's own that gave up; `kind` is 1 where memory was short."""
    message = "out of memory" if kind == 1 else "failed while it ran"
    return BackendError(
        f"{name} on '{backend}': {message}",
        code="TC0810",
        help="run it on another backend",
    )


def out_of_range(
    site: Site, along: Range | None, sizes: Mapping[str, int], error: _native.ErrorRecord
) -> BoundsError:
    """The error of a subscript that left the range `along` at a site."""
    _, value, point, dim = error
    low, high = 0, -1
    if along is not None:
        low = evaluate(along.min, sizes)
        high = low + evaluate(along.extent, sizes) - 1
    where = ", ".join(f"{n} = {v}" for n, v in zip(site.variables, point, strict=False))
    return BoundsError(
        f"index {value} is out of range for dimension {dim} of '{site.tensor}' ({low} to {high})"
        + (f", at {where}" if where else ""),
        site.span,
        code="TC0701",
        help=f"in {site.text}; clamp it, or correct the data",
    )


def checked_box(program: Program, site: int) -> Box | None:
    """The box of the tensor of an access, if some of its subscripts are checked."""
    name = _checked(program, site)
    return None if name is None else program.buffer(program.func_buffers.get(name, name)).box


def _checked(program: Program, site: int) -> str | None:
    """The Func or image of the access of a number, if some of its subscripts are checked."""
    for st in program.stages:
        if any(number == site for _, number in st.checked):
            return st.func
        for e in x.walk(st.value):
            if isinstance(e, x.Call) and e.site == site and e.checked:
                return e.name
    return None
