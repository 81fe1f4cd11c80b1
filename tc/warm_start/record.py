"""A kernel's call becomes part of its card."""

from __future__ import annotations

from tc.instances.compiled import Compiled
from tc.ir.evaluate import evaluate
from tc.pipeline.target import Relocatable
from tc.runtime.call_spec import CallSpec
from tc.warm_start import card
from tc.warm_start.warnings import saved


def record(place: card.Place, compiled: Compiled, spec: CallSpec) -> None:
    """Put a kernel on a card, with the warnings that a new process issues of it."""
    made, kernel = compiled.compiled, compiled.kernel
    front = kernel.front
    of_source = saved(front.warnings, front.source)
    of_call = saved(compiled.warnings(), front.source)
    if not isinstance(made, Relocatable) or of_source is None or of_call is None:
        return
    workspace, program = made.workspace, compiled.program
    code, function = made.object_code
    call = card.SavedCall(
        spec,
        workspace if isinstance(workspace, int) else evaluate(workspace, compiled.sizes),
        made.release_gil,
        compiled.sizes,
        compiled.scalars,
        tuple(compiled.sizes[n] for n in program.sizes),
        {n: t.name for n, t in compiled.variant.integers},
        tuple(sorted(compiled.variant.given)),
        tuple((n, rank, t.name) for n, rank, t in front.known) if place.instance else (),
        (*of_source, *of_call) if place.instance else of_call,
        function,
        code,
    )
    card.add(place, () if place.instance else of_source, call)
