"""Every stage of a compile as text: what `Kernel.inspect` and `python -m tc show` print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tc.errors import ArgumentError, did_you_mean
from tc.ir.printer import program_text
from tc.lang.format import format_program
from tc.ranges import Ranges

if TYPE_CHECKING:
    from tc.api import Kernel
    from tc.ir.program import Program

# name: (what it shows, whether sizes are needed)
STAGES: dict[str, tuple[str, bool]] = {
    "syntax": ("the syntax tree, formatted", False),
    "ranges": ("the derivation of every range, round by round, and what is left to check", False),
    "ir": ("the Halide-mirroring IR", False),
    "halide": ("the program as hl.Funcs", False),
    "scop": ("iteration domains and access relations", False),
    "dependences": ("flow, anti and output dependences", False),
    "schedule": ("the schedule tree", True),
    "loops": ("the loop nest", True),
    "code": ("the emitted C", True),
    "llvm": ("the emitted LLVM IR", True),
    "asm": ("the machine code", True),
}


def artifact(kernel: Kernel, stage: str, values: Mapping[str, int]) -> str:
    """A stage of a kernel; `values` are sizes and specialised scalars."""
    if stage not in STAGES:
        raise ArgumentError(
            f"there is no stage '{stage}'",
            code="TC0514",
            help=did_you_mean(stage, STAGES) or "the stages are " + ", ".join(STAGES),
        )
    front = kernel.front
    if stage == "syntax":
        return format_program(front.syntax)
    if stage == "ranges":
        return _ranges(kernel, values)
    if STAGES[stage][1]:
        return kernel.specialize(**values).compiled.artifact(stage)
    program = kernel.program(values)
    match stage:
        case "ir":
            return program_text(program)
        case "halide":
            from tc.halide import funcs

            return funcs.show(program)
        case _:
            return _polyhedral(program, stage)


def _polyhedral(program: Program, stage: str) -> str:
    from tc.poly.dependences import dependences
    from tc.poly.scop import build

    scop = build(program)
    return scop.dump() if stage == "scop" else dependences(scop).dump()


def _ranges(kernel: Kernel, values: Mapping[str, int]) -> str:
    front = kernel.front
    ranges: Ranges = kernel.ranges_for(values)
    lines: list[str] = []
    for k, st in enumerate(front.checked.statements):
        lines.append(" ".join(st.span.text.split()))
        for g in st.ranges:
            lines.append(f"  where    {g.name} in {g.lo.span.text}:{g.hi.span.text}")
        for s in ranges.steps:
            if s.statement == k:
                lines.append(f"  round {s.round}  {s.access}: {s.condition}  gives {s.lo} <= {s.variable} <= {s.hi}")
        for v in (*st.variables, *st.auxiliary):
            lines.append(f"  {v} in {_bound(ranges.variables[k][v])}")
        for o in ranges.obligations:
            if o.statement == k:
                kind = "checked when the kernel runs" if o.data_dependent else "to be proved, or checked at the call"
                lines.append(f"  left: {o.text} ({kind})")
    lines.append("")
    for name, dims in kernel.ranges.items():
        lines.append(f"{name}: " + (", ".join(_bound_text(d) for d in dims) or "a scalar"))
    for p in kernel.preconditions:
        lines.append(f"checked at each call: {p.reason}")
    return "\n".join(lines) + "\n"


def _bound(b: object) -> str:
    from tc.api import shown

    return _bound_text(shown(b))


def _bound_text(b: object) -> str:
    low, extent = getattr(b, "min", None), getattr(b, "extent", None)
    return str(b) if low is None else f"[{low}, {low} + {extent})" if low != 0 else f"[0, {extent})"
