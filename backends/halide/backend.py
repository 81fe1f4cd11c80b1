# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The halide backend: a specialised program to Funcs to object code to a kernel of the calling convention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tc.errors import BackendError, InternalError
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.pass_manager import PassList
from tc.pipeline.target import Availability
from tc.support.interrupts import deferred

from .passes import PASSES, Compiled, HalideState

# What Halide says, and what it is about.
_REFUSED = (
    (
        "Division by constant zero",
        "a division by a constant zero: Halide refuses what its simplifier finds",
        "divide by data, or use another backend",
    ),
    (
        "may be accessed in an unbounded way",
        "a subscript with intermediate values beyond int32: Halide finds no bounds for it",
        "write it with smaller factors, or use another backend",
    ),
)


class Backend:
    """Programs compiled by Halide: a second opinion, and its autoschedulers.

    Inputs and outputs must not overlap in memory; in/out results are copied first.  What Halide cannot
    follow is in `tc.halide.limits`.  With `fast_math` Halide reorders floating-point operations, takes NaN
    and infinities for impossible and the sign of zero for nothing: sums of n terms differ by up to n
    rounding errors of the sum of their magnitudes.
    """

    name = "halide"
    options_used: frozenset[str] = frozenset({"strict", "fast_math", "autoschedule"})
    dynamic_sizes = False

    def available(self) -> Availability:
        """Whether the halide package that tc was built against is installed."""
        from tc.halide import load_library

        try:
            load_library()
        except BackendError as error:
            return Availability(False, error.message, error.help or "")
        return Availability(True)

    def passes(self, options: Options) -> PassList[Any]:
        return PASSES

    def compile(
        self, program: Program, options: Options | None = None, typical: Mapping[str, int] | None = None
    ) -> Compiled:
        """The kernel of a specialised program; it has no symbolic sizes, and so no `typical` ones.

        Raises BackendError: TC0805 for what Halide cannot follow, TC0806 where an autoscheduler fails.
        """
        from tc.halide.binding import LOCK, hl, listen

        if program.sizes:
            raise InternalError(f"not specialised: {', '.join(program.sizes)}")
        first = HalideState(program, options or Options())
        with LOCK, deferred(), listen() as said:
            try:
                made = PASSES.run(first).compiled
                return replace(made, notes=(*made.notes, *_notes(said)))
            except hl.HalideError as error:
                for said_by_halide, why, help in _REFUSED:
                    if said_by_halide in str(error):
                        raise BackendError(
                            f"the halide backend cannot compile {why}", code="TC0805", help=help
                        ) from None
                raise InternalError(f"Halide refuses the pipeline: {str(error).strip()}") from error


def _notes(said: list[str]) -> Iterator[str]:
    """Halide's warnings, once each, without one that every checked subscript gives an autoscheduler."""
    for line in dict.fromkeys("".join(said).splitlines()):
        if line.strip() and line != "Warning: Unknown extern call halide_error_requirement_failed":
            yield line
