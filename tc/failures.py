"""What went wrong while a kernel ran, as an error: from the record that it leaves."""

from __future__ import annotations

from collections.abc import Mapping

from tc import _native
from tc.errors import BackendError, BoundsError
from tc.ir import expr as x
from tc.ir.evaluate import evaluate
from tc.ir.program import Program


def failure(
    name: str, backend: str, program: Program, sizes: Mapping[str, int], error: _native.ErrorRecord
) -> BackendError | BoundsError:
    """The error of a record: a subscript that is out of range (TC0701), or a run time that gave up
    (TC0810)."""
    number, value, point, dim = error
    if number < 0:  # not an index: the backend's own run time gave up
        message = "out of memory" if value == 1 else "failed while it ran"
        return BackendError(
            f"{name} on '{backend}': {message}",
            code="TC0810",
            help="run it on another backend",
        )
    site = program.sites[number]
    name_there = _checked(program, number)
    low, high = 0, -1
    if name_there is not None:
        along = program.buffer(program.func_buffers.get(name_there, name_there)).box[dim]
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


def _checked(program: Program, site: int) -> str | None:
    """The Func or image of the access of a number, if some of its subscripts are checked."""
    for st in program.stages:
        if any(number == site for _, number in st.checked):
            return st.func
        for e in x.walk(st.value):
            if isinstance(e, x.Call) and e.site == site and e.checked:
                return e.name
    return None
