"""`python -m tc show html`: a page of all stages of a compile, where a statement is marked in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from itertools import groupby

from tc.errors import Span
from tc.inspection.pass_times import times
from tc.ir.program import Stage
from tc.kernel import Kernel
from tc.poly.tree_nodes import Node
from tc.support import html

from .assets import SCRIPT, STYLE
from .panels import Panel, missing_sizes, panels, schedule_trees
from .ranges_picture import ranges_picture
from .schedule_picture import schedule_picture
from .statements import Row, Statements

_HUE, _FIRST_HUE = 137.5, 210.0  # degrees between the colours of statements, and the first one


def page(kernel: Kernel, values: Mapping[str, int]) -> str:
    """The page of a kernel at given sizes and specialised scalars; what needs those that are missing says
    so.  It is one file that loads nothing."""
    statements = Statements.of(kernel)
    found = {p.name: p for p in panels(kernel, values, statements)}
    order = ("ranges", "ir", "schedule", "loops", "code")
    parts = [
        _header(kernel, values),
        "<main>",
        _section("source", "Source", f"<pre>{source(kernel, statements)}</pre>", marks=True),
        *(_panel(found[name]) for name in order),
        _panel(found["choice"], wide=True),
        _section("passes", "Time by pass", _passes(kernel, values), wide=True),
        *_pictures(kernel, values, statements),
        "</main>",
    ]
    hues = "".join(
        f'[data-s="{i}"],[data-s^="{i} "]{{--h:{(_FIRST_HUE + _HUE * i) % 360:.1f}}}'
        for i in range(len(statements.spans))
    )
    return html.page(title(kernel, values), "\n".join(parts), style=STYLE + hues, script=SCRIPT)


def title(kernel: Kernel, values: Mapping[str, int]) -> str:
    """What a page or picture is of: `mm on cpu for M = 2, N = 3`."""
    at = ", ".join(f"{n} = {v}" for n, v in values.items())
    return f"{kernel.name} on {kernel.backend}" + (f" for {at}" if at else "")


def source(kernel: Kernel, statements: Statements) -> str:
    """The source as HTML; statements can be pointed at and reached by the keyboard."""
    text = kernel.front.source.text
    edges: list[tuple[int, int, int, str]] = []  # position, closing before opening, nesting, tag
    for i, s in enumerate(statements.spans):
        size = s.end - s.start
        edges.append((s.start, 1, -size, f'<span class="s" data-s="{i}" tabindex="0">'))
        edges.append((s.end, 0, size, "</span>"))
    out: list[str] = []
    done = 0
    for position, _, _, tag in sorted(edges):
        out += [escape(text[done:position]), tag]
        done = position
    return "".join([*out, escape(text[done:])]).rstrip()


def _header(kernel: Kernel, values: Mapping[str, int]) -> str:
    at = ", ".join(f"{n} = {v}" for n, v in values.items())
    head = f"<h1>{escape(kernel.name)} <small>on {escape(kernel.backend)}"
    head += f" for {escape(at)}" if at else ""
    hint = (
        "Point at a statement, or reach it with the Tab key: its lines are marked in all stages, "
        "and more faintly the loops around them and what they are computed in. A click or Enter keeps the "
        "marks, Escape removes them."
    )
    return f"<header>{head}</small></h1><p>{hint}</p></header>"


def _section(name: str, heading: str, body: str, *, wide: bool = False, marks: bool = False) -> str:
    kind = ' class="wide"' if wide else ""
    marked = ' data-marks="1"' if marks else ""
    head = f"<h2>{escape(heading)}<span></span></h2>"
    return f'<section id="{name}"{kind}{marked}>{head}<div class="body">{body}</div></section>'


def _panel(p: Panel, *, wide: bool = False) -> str:
    if not p.rows:
        return _section(p.name, p.title, f'<p class="missing">{escape(p.missing)}</p>', wide=wide)
    marks = any(r.own or r.around for r in p.rows)
    return _section(p.name, p.title, f"<pre>{_rows(p.rows)}</pre>", wide=wide, marks=marks)


def _rows(rows: Iterable[Row]) -> str:
    """Rows as blocks, one for neighbours that have the same marks."""
    out: list[str] = []
    for (own, around), group in groupby(rows, lambda r: (r.own, r.around)):
        text = escape("\n".join(r.text for r in group))
        out.append(f'<span class="l"{_data("s", own)}{_data("a", around)}>{text}</span>')
    return "".join(out)


def _data(name: str, numbers: tuple[int, ...]) -> str:
    return f' data-{name}="{" ".join(map(str, numbers))}"' if numbers else ""


def _passes(kernel: Kernel, values: Mapping[str, int]) -> str:
    found = times(kernel, values)
    longest = max((ran.seconds for _, ran in found if ran is not None), default=0.0) or 1.0
    rows: list[list[str]] = []
    for p, ran in found:
        name = f'<code style="padding-left:{p.depth}em">{escape(p.name)}</code>'
        if ran is None:
            rows.append([name, "–", "–", "", escape(p.does)])
            continue
        bar = f'<span class="bar" style="width:{12 * ran.seconds / longest:.2f}em"></span>'
        rows.append([name, f"{1e3 * ran.seconds:.2f}", str(ran.times), bar, escape(p.does)])
    total = sum(ran.seconds for _, ran in found if ran is not None)
    rows.append(["all", f"{1e3 * total:.2f}", "", "", ""])
    return html.table(("pass", "ms", "runs", "", "what it does"), rows, numbers=(1, 2))


def _pictures(kernel: Kernel, values: Mapping[str, int], statements: Statements) -> Iterable[str]:
    """The schedule tree and the ranges as pictures, where the sizes are known."""
    if missing_sizes(kernel, values) or not set(kernel.front.checked.sizes) <= values.keys():
        return
    trees, origins, texts = schedule_trees(kernel, values)

    def number(span: Span | None) -> str:
        found = statements.number(span)
        return "" if found is None else str(found)

    def of_node(node: Node) -> str:
        found = {number(origins.get(s)) for s in node.stages} - {""}
        return found.pop() if len(found) == 1 else ""

    def of_stage(stage: Stage) -> str:
        return number(stage.span)

    name = title(kernel, values)
    if trees:
        tree = schedule_picture(trees, texts, name, of_node)
        yield _section("schedule-picture", "The schedule tree, drawn", tree, wide=True, marks=True)
    ranges = ranges_picture(kernel.program(values), name, of_stage)
    yield _section("ranges-picture", "The ranges, drawn", ranges, wide=True, marks=True)
