"""`python -m tc show`: a stage of a compile as text, all of them, a page of them, or a picture."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tc.errors import ArgumentError

_PICTURES = ("schedule", "ranges")


def add_arguments(p: argparse.ArgumentParser, file: str) -> None:
    """The arguments that only `show` has."""
    p.add_argument(
        "stage",
        help="ranges, ir, schedule, loops, code, …; 'list' lists them, 'all' shows them up to the loops; "
        "'html' writes a page of them; 'passes' lists the passes of a compile with their times, and the name "
        "of a pass shows the program after it",
    )
    p.add_argument("file", nargs="?", help=file)
    p.add_argument("--code", action="store_true", help="with 'all': the emitted code, too")
    p.add_argument("--picture", action="store_true", help="draw it (schedule, ranges), as an SVG file")
    p.add_argument("-o", "--output", metavar="FILE", help="the file of the page or picture")


def run(args: argparse.Namespace, kernel: Any, values: Mapping[str, int]) -> None:
    """Show a stage of a kernel.  Raises ArgumentError: code TC0513 if sizes are missing, TC0514 for a stage
    that is unknown or not drawn, TC0515 for arguments that do not go together."""
    from tc.inspection.stages import STAGES, passes, unknown

    stage = args.stage
    _check(args)
    known = values.keys() | set(kernel.dynamic)
    missing = [n for n in (*kernel.front.checked.sizes, *kernel.front.specialized) if n not in known]
    if stage == "all":
        _all(kernel, values, missing, args.code)
        return
    at_sizes = {name: needs_sizes for name, (_, needs_sizes) in STAGES.items()}
    at_sizes = {**passes(kernel), **at_sizes, "passes": False, "html": False}
    if stage not in at_sizes:
        raise unknown(stage, at_sizes)
    if (at_sizes[stage] or args.picture) and missing:
        raise ArgumentError(
            f"'{stage}' is {'drawn' if args.picture else 'shown'} at given sizes, and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not given",
            code="TC0513",
            help=f"add {_flags(missing)}",
        )
    if args.picture:
        _write(args.output or f"{kernel.name}-{stage}.svg", _picture(kernel, values, stage))
    elif stage == "html":
        _write(args.output or f"{kernel.name}.html", kernel.inspect("html", **values))
    else:
        print(kernel.inspect(stage, **values), end="")


def _check(args: argparse.Namespace) -> None:
    """The flags are for this stage."""
    if args.picture and args.stage not in _PICTURES:
        raise ArgumentError(
            f"there is no picture of '{args.stage}'",
            code="TC0514",
            help=f"there are pictures of {' and '.join(_PICTURES)}",
        )
    if args.output and not args.picture and args.stage != "html":
        raise ArgumentError(
            f"show {args.stage} prints a text, and takes no --output",
            code="TC0515",
            help=f"redirect it: show {args.stage} … > {args.output}",
        )
    if args.picture and args.output and not args.output.endswith(".svg"):
        raise ArgumentError(
            f"--output {args.output}: a picture is an SVG file", code="TC0515", help="end its name in .svg"
        )
    if args.code and args.stage != "all":
        raise ArgumentError(
            f"--code is for 'all', not for '{args.stage}'", code="TC0515", help="write show code FILE"
        )


def _all(kernel: Any, values: Mapping[str, int], missing: Sequence[str], code: bool) -> None:
    """All stages, the emitted code only if it is wanted."""
    from tc.inspection.stages import CODE, STAGES

    for name, (what, needs_sizes) in STAGES.items():
        if name in CODE and not code:
            continue
        print(f"==== {name}: {what}\n")
        print(f"(needs {_flags(missing)})\n" if needs_sizes and missing else kernel.inspect(name, **values))
    if not code:
        print(f"==== {', '.join(CODE)}: add --code")


def _picture(kernel: Any, values: Mapping[str, int], stage: str) -> str:
    from tc.views.page import title
    from tc.views.panels import schedule_trees
    from tc.views.ranges_picture import ranges_picture
    from tc.views.schedule_picture import schedule_picture

    if stage == "ranges":
        return ranges_picture(kernel.program(values), title(kernel, values))
    trees, _, texts = schedule_trees(kernel, values)
    if not trees:
        raise ArgumentError(
            f"the backend '{kernel.backend}' has no schedule tree to draw",
            code="TC0514",
            help="show schedule prints what it does instead; or choose another --backend",
        )
    return schedule_picture(trees, texts, title(kernel, values))


def _write(path: str, content: str) -> None:
    Path(path).write_text(content, encoding="utf-8")
    print(f"{path} written")


def _flags(names: Sequence[str]) -> str:
    return " ".join(f"--size {n}=…" for n in names)
