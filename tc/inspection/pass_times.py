"""The passes of a compile: the list of a backend, what each did and how long it took, the text after any one.

A compile is run again from the source for this, whatever caches hold, with every pass followed by its oracle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tc.pipeline.front import BUILD, FRONT, SPECIALIZE, Front, Variant, build, front, specialize
from tc.pipeline.load import LOAD, compile_program
from tc.pipeline.pass_manager import PassList, Ran, Record, Search, recording
from tc.pipeline.target import Backend
from tc.support.settings import verifying

if TYPE_CHECKING:
    from tc.kernel import Kernel
    from tc.options import Options


@dataclass(frozen=True, slots=True)
class Listed:
    """A pass in the list of a compile; `depth` counts the searches around it, `sizes`: it needs them."""

    name: str
    does: str
    depth: int
    sizes: bool


def lists(backend: Backend, options: Options) -> tuple[PassList[Any], ...]:
    """What a compile runs, in order."""
    return (FRONT, BUILD, SPECIALIZE, LOAD, backend.passes(options))


def listed(lists: Sequence[PassList[Any]]) -> list[Listed]:
    """The passes of these lists, in order.  Up to `specialize` none needs sizes."""
    symbolic = {*FRONT.names, *BUILD.names}
    found = ((p, depth) for one in lists for p, depth in one.walk())
    return [Listed(p.name, p.does, depth, p.name not in symbolic) for p, depth in found]


def recorded(
    kernel: Kernel, values: Mapping[str, int], wanted: Collection[str] | None, *, verify: bool = True
) -> Record:
    """Compile a kernel again, with the texts after the passes in `wanted` (None: all), by default with the
    oracles.

    Without all sizes only the passes that need none run.
    """
    needed = _needed(kernel)
    with verifying() if verify else nullcontext(), recording(wanted) as record:
        found: Front = front(kernel.front.source, kernel.name, kernel.front.lang, kernel.front.known)
        variant: Variant = kernel.variant_for(values)
        if found.ranges.complete or {*found.keyed} <= values.keys():
            built = build(found, variant)
            if needed <= values.keys():
                sizes = {n: values[n] for n in found.checked.sizes if n in needed}
                program = specialize(built, sizes, {})
                compile_program(kernel.backend_object, program, kernel.options, kernel.typical_for(values))
    return record


def _needed(kernel: Kernel) -> set[str]:
    """The sizes and scalars without whose values a program is not specialised."""
    return {*kernel.front.checked.sizes, *kernel.front.specialized} - {*kernel.dynamic}


def text_after(kernel: Kernel, name: str, values: Mapping[str, int]) -> str:
    """The state of a compile after a pass."""
    record = recorded(kernel, values, [name])
    if name in record.texts:
        return record.texts[name]
    what = next(p.does for p in listed(lists(kernel.backend_object, kernel.options)) if p.name == name)
    return f"{name}: {what}; there is no text to show\n"


def times(kernel: Kernel, values: Mapping[str, int]) -> list[tuple[Listed, Ran | None]]:
    """The passes of a compile in order, and what each did, if it ran; without oracles."""
    record = recorded(kernel, values, (), verify=False)
    rows = listed(lists(kernel.backend_object, kernel.options))
    return [(r, record.ran.get(r.name)) for r in rows]


def table(kernel: Kernel, values: Mapping[str, int]) -> str:
    """The passes of a compile with milliseconds, how often each ran, and which oracles judged it.

    A dash marks a pass that did not run; the last line names the values that it lacks, if it lacks any.
    """
    record = recorded(kernel, values, ())
    rows = listed(lists(kernel.backend_object, kernel.options))
    width = max(len(r.name) + 2 * r.depth for r in rows)
    oracles = max(len(_oracles(record.ran.get(r.name))) for r in rows)

    def lines() -> Iterator[str]:
        yield f"{'pass':<{width}} {'ms':>8} {'runs':>4}  {'oracle':<{oracles}}  what it does\n"
        for r in rows:
            ran = record.ran.get(r.name)
            name = "  " * r.depth + r.name
            time = f"{1e3 * ran.seconds:8.2f} {ran.times:4}" if ran else f"{'–':>8} {'–':>4}"
            yield f"{name:<{width}} {time}  {_oracles(ran):<{oracles}}  {r.does}\n"
        total = sum(ran.seconds for ran in record.ran.values())
        judged = sum(ran.oracle_seconds for ran in record.ran.values())
        yield f"{'all':<{width}} {1e3 * total:8.2f}       and the oracles {1e3 * judged:.2f} ms\n"
        if missing := sorted(_needed(kernel) - values.keys()):
            yield f"The passes from `specialize` on did not run: they need values of {', '.join(missing)}.\n"

    return "".join(lines())


def _oracles(ran: Ran | None) -> str:
    return ", ".join(ran.oracles) if ran is not None and ran.oracles else "–"


_HEAD = "| pass | what it does | where |\n|---|---|---|\n"


def markdown(backends: Mapping[str, PassList[Any]]) -> str:
    """The lists as docs/design.md has them: the front end's once, then a list for each backend."""
    common = [p for one in (FRONT, BUILD, SPECIALIZE, LOAD) for p in one.walk()]
    out = [_HEAD, *(_row(p, depth) for p, depth in common)]
    for name, one in backends.items():
        out += [f"\n**{name}**\n\n{_HEAD}"]
        out += [_row(p, depth) for p, depth in one.walk()]
    return "".join(out)


def _row(p: Any, depth: int) -> str:
    search = "search: " if isinstance(p, Search) else ""
    return f"| {'· ' * depth}`{p.name}` | {search}{p.does} | `{p.file}` |\n"
