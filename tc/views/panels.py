"""The stages of a compile as rows that know their statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tc.errors import ArgumentError, BackendError, Span
from tc.inspection.stages import range_lines
from tc.ir.lines import Line
from tc.ir.printer import assignment_text, program_lines
from tc.kernel import Kernel
from tc.poly.tree_nodes import Node, Tree, trees, walk

from .statements import Row, Statements


@dataclass(frozen=True, slots=True)
class Panel:
    """A stage: its name, its heading, its rows; without rows `missing` says why."""

    name: str
    title: str
    rows: tuple[Row, ...]
    missing: str = ""


def missing_sizes(kernel: Kernel, values: Mapping[str, int]) -> list[str]:
    """The sizes and specialised scalars without which the kernel is not compiled."""
    known = values.keys() | set(kernel.dynamic)
    return [n for n in (*kernel.front.checked.sizes, *kernel.front.specialized) if n not in known]


def panels(kernel: Kernel, values: Mapping[str, int], statements: Statements) -> list[Panel]:
    """The stages from ranges to code; those that need sizes say so where these are missing."""
    missing = missing_sizes(kernel, values)
    stages: dict[str, tuple[str, bool, Callable[[], Iterable[Row]]]] = {
        "ranges": ("Ranges", False, lambda: _ranges(kernel, values, statements)),
        "ir": ("IR", False, lambda: _ir(kernel, values, statements)),
        "schedule": ("Schedule tree", False, lambda: _schedule(kernel, values, statements)),
        "loops": ("Loops", True, lambda: _compiled(kernel, values, statements, "loops")),
        "code": ("Code", True, lambda: _compiled(kernel, values, statements, "code")),
        "choice": ("Choice", True, lambda: _compiled(kernel, values, statements, "choice")),
    }
    out: list[Panel] = []
    for name, (title, at_sizes, make) in stages.items():
        if at_sizes and missing:
            needs = " ".join(f"--size {n}=…" for n in missing)
            out.append(Panel(name, title, (), f"needs {needs}"))
            continue
        try:
            out.append(Panel(name, title, tuple(make())))
        except (ArgumentError, BackendError) as e:
            if e.code not in ("TC0513", "TC0804"):
                raise
            out.append(Panel(name, title, (), e.message))
    return out


def _ranges(kernel: Kernel, values: Mapping[str, int], statements: Statements) -> Iterable[Row]:
    for text, span in range_lines(kernel, values):
        number = statements.number(span)
        yield Row(text, () if number is None else (number,))


def _ir(kernel: Kernel, values: Mapping[str, int], statements: Statements) -> Iterable[Row]:
    program = kernel.program(values)
    return (statements.row(line, program.origins) for line in program_lines(program))


def schedule_trees(
    kernel: Kernel, values: Mapping[str, int]
) -> tuple[tuple[Tree, ...], Mapping[str, Span], Mapping[str, str]]:
    """The schedule trees of a kernel, the one that was compiled if the sizes are known, with the places of
    their stages and what these do; no trees where the backend schedules in another way."""
    program = kernel.program(values)
    known = not missing_sizes(kernel, values)
    origins = kernel.specialize(**values).origins if known else program.origins
    texts = {name: " ".join(span.text.split()) for name, span in origins.items()}
    # Where passes have renamed stages, a name may be another one's.
    own = (s for s in program.stages if s.span is not None and origins.get(s.name) == s.span)
    texts |= {s.name: assignment_text(s) for s in own}
    text = kernel.inspect("schedule", **values)
    if not any(line.startswith("domain:") for line in text.splitlines()):
        return (), origins, texts
    return trees(text), origins, texts


def _schedule(kernel: Kernel, values: Mapping[str, int], statements: Statements) -> Iterable[Row]:
    found, origins, _ = schedule_trees(kernel, values)
    statements = statements.compiled(kernel.program(values), origins)
    if not found:
        yield from map(Row, kernel.inspect("schedule", **values).splitlines())
    for tree in found:
        if tree.title:
            yield Row(tree.title)
        for node, depth in walk(tree.root):
            yield statements.row(_line(node, depth), origins)


def _line(node: Node, depth: int) -> Line:
    text = f"{'  ' * depth}{node.kind} {node.label}".rstrip()
    return Line(text, around=frozenset(node.stages))


def _compiled(kernel: Kernel, values: Mapping[str, int], statements: Statements, stage: str) -> Iterable[Row]:
    compiled = kernel.specialize(**values)
    statements = statements.compiled(kernel.program(values), compiled.origins)
    return [statements.row(line, compiled.origins) for line in compiled.lines(stage)]
