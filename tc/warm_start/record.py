"""A kernel's call becomes part of its card."""

from __future__ import annotations

from tc.compiled import Compiled
from tc.ir.empty_ranges import empty_ranges
from tc.pipeline.target import Relocatable
from tc.runtime.call_spec import CallSpec
from tc.warm_start import card


def record(name: str, compiled: Compiled, spec: CallSpec) -> None:
    """Put a kernel on the card of this name, unless a new process would have to say something of it first:
    an empty range, a notice."""
    made = compiled.compiled
    if not isinstance(made, Relocatable) or not isinstance(made.workspace, int) or made.notices:
        return
    if next(empty_ranges(compiled.program, compiled.sizes), None) is not None:
        return
    code, function = made.object_code
    card.add(
        name,
        card.SavedCall(
            spec,
            made.workspace,
            made.release_gil,
            compiled.sizes,
            compiled.scalars,
            {n: t.name for n, t in compiled.variant.integers},
            tuple(sorted(compiled.variant.given)),
            function,
            code,
        ),
    )
