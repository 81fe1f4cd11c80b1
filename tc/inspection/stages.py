"""Every stage of a compile as text: what `Kernel.inspect` and `python -m tc show` print."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tc.errors import ArgumentError, BackendError, Span, did_you_mean
from tc.inspection import pass_times
from tc.ir.printer import program_text
from tc.lang.notations import formatted
from tc.lang.resolved import Statement
from tc.range_table import Range, shown
from tc.ranges import Obligation, Ranges

if TYPE_CHECKING:
    from tc.ir.program import Program
    from tc.kernel import Kernel

# name: (what it shows, whether sizes are needed)
STAGES: dict[str, tuple[str, bool]] = {
    "syntax": ("the syntax tree, formatted", False),
    "ranges": ("the derivation of every range, round by round, and what is left to check", False),
    "ir": ("the Halide-mirroring IR", False),
    "halide": ("the program as hl.Funcs", False),
    "scop": ("iteration domains and access relations", False),
    "dependences": ("flow, anti and output dependences", False),
    "schedule": ("the schedule tree: the canonical one, or at sizes the one that was compiled", False),
    "mapped": ("the schedule trees of kernels, mapped to blocks and threads", True),
    "choice": ("the tilings that were considered, with their predicted costs", True),
    "loops": ("the loop nest", True),
    "code": ("the emitted C", True),
    "llvm": ("the emitted LLVM IR", True),
    "asm": ("the machine code", True),
}

CODE = ("code", "llvm", "asm")  # stages of a thousand lines and more


def artifact(kernel: Kernel, stage: str, values: Mapping[str, int]) -> str:
    """A stage of a kernel, or its program after a pass; `values` are sizes and specialised scalars."""
    if stage == "passes":
        return pass_times.table(kernel, values)
    if stage not in STAGES:
        known = passes(kernel)
        if stage in known:
            if known[stage]:
                kernel.ranges.at(**values)  # all of them are needed, and none else
            return pass_times.text_after(kernel, stage, values)
        raise unknown(stage, known)
    front = kernel.front
    if stage == "syntax":
        return formatted(front.lang, front.syntax)
    if stage == "ranges":
        return "".join(f"{line}\n" for line, _ in range_lines(kernel, values))
    if STAGES[stage][1] or (stage == "schedule" and set(front.checked.sizes) <= values.keys()):
        one = kernel.specialize(**values)
        try:
            return one.artifact(stage)
        except BackendError as error:
            if stage != "mapped" or error.code != "TC0804":
                raise
            why = f"the backend '{one.backend}' has no blocks and threads"
            return f"{kernel.name}: nothing is mapped, {why}\n"
    program = kernel.program(values)
    match stage:
        case "ir":
            return program_text(program)
        case "halide":
            from tc.halide import funcs

            return funcs.show(program)
        case _:
            return _polyhedral(program, stage)


def passes(kernel: Kernel) -> dict[str, bool]:
    """The passes of a kernel's compile, in order, each with whether it needs sizes."""
    found = pass_times.lists(kernel.backend_object, kernel.options)
    return {p.name: p.sizes for p in pass_times.listed(found)}


def unknown(stage: str, passes: Iterable[str] = ()) -> ArgumentError:
    """The error for a name that is neither a stage nor a pass."""
    return ArgumentError(
        f"there is no stage '{stage}'",
        code="TC0514",
        help=did_you_mean(stage, [*STAGES, "passes", *passes])
        or f"the stages are {', '.join(STAGES)}; `passes` lists the passes, each of which is one, too",
    )


def dump(kernel: Kernel, values: Mapping[str, int], directory: Path) -> Path:
    """Write every stage of a kernel at given sizes into a folder of its own, and the program after every pass
    into the folder `passes` below it; returns the folder."""
    key = json.dumps([kernel.source, kernel.name, kernel.backend, sorted(values.items())])
    folder = directory / f"{kernel.name}-{hashlib.sha256(key.encode()).hexdigest()[:10]}"
    folder.mkdir(parents=True, exist_ok=True)
    for stage in STAGES:
        try:
            content = artifact(kernel, stage, values)
        except BackendError as e:  # a backend that has no such stage
            content = f"{e}\n"
        (folder / f"{stage}.txt").write_text(content, encoding="utf-8")
    record = pass_times.recorded(kernel, values, None)
    for number, name in enumerate(record.ran):
        if name in record.texts:
            path = folder / "passes" / f"{number:02}-{name}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text(record.texts[name], encoding="utf-8")
    return folder


def _polyhedral(program: Program, stage: str) -> str:
    from tc.poly import schedule, tree_text
    from tc.poly.context import isl_context
    from tc.poly.dependences import dependences
    from tc.poly.scop import build

    with isl_context():
        scop = build(program)
        match stage:
            case "scop":
                return scop.dump()
            case "dependences":
                return dependences(scop).dump()
            case _:
                return tree_text.dump(schedule.identity(scop))


def range_lines(kernel: Kernel, values: Mapping[str, int]) -> Iterator[tuple[str, Span | None]]:
    """The lines of the stage `ranges`, each with the place in the source that it is about."""
    ranges = kernel.ranges_for(values)
    for block in kernel.front.checked.derivation:
        yield from ((line, block.span) for line in block.text.split("\n"))
    statements = kernel.front.checked.statements
    if kernel.front.lang == "sac":
        left: dict[str, Span] = {}
        for o in ranges.obligations:
            left.setdefault(_left(o).strip(), statements[o.statement].span)
        yield from left.items()
    else:
        for _, same in groupby(enumerate(statements), lambda item: item[1].span):  # one that became several
            parts = list(same)
            span = parts[0][1].span
            lines = dict.fromkeys(line for k, st in parts for line in _derivation(ranges, k, st))
            yield from ((line, span) for line in (" ".join(span.text.split()), *lines))
    yield "", None
    for name, dims in kernel.ranges.items():
        yield f"{name}: " + (", ".join(_bound_text(d) for d in dims) or "a scalar"), None
    for p in kernel.preconditions:
        yield f"checked at each call: {p}", None


def _derivation(ranges: Ranges, k: int, st: Statement) -> Iterator[str]:
    """How the variables of a statement got their ranges, and what is left to check."""
    for g in st.ranges:
        yield f"  where    {g.name} in {g.lo.span.text}:{g.hi.span.text}"
    for s in ranges.steps:
        if s.statement == k:
            low = "" if s.lo == "-inf" else f"{s.lo} <= "
            high = "" if s.hi == "+inf" else f" <= {s.hi}"
            yield f"  round {s.round}  {s.access}: {s.condition}  gives {low}{s.variable}{high}"
    for v in (*st.variables, *st.auxiliary):
        yield f"  {v} in {_bound_text(shown(ranges.variables[k][v]))}"
    for o in ranges.obligations:
        if o.statement == k:
            yield _left(o)


def _left(o: Obligation) -> str:
    when = "checked when the kernel runs" if o.data_dependent else "proved, or checked at the call"
    if not o.necessary:
        when = "proved, or checked at the call or when the kernel runs"
    return f"  left: {o.text} ({when})"


def _bound_text(b: Range | str) -> str:
    if isinstance(b, str):
        return b
    return f"[0, {b.extent})" if b.min == 0 else f"[{b.min}, {b.min} + {b.extent})"
