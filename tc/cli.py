"""The command line: run, show, check, format, doctor, demo.

Exit codes: 0 done; 1 the program or the call is wrong, or a check found a difference; 2 the command line
is wrong; 3 a bug in tc.  Diagnostics go to stderr, without a Python traceback; results to stdout.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tc import errors
from tc.errors import ArgumentError, Source


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    warnings.simplefilter("always", errors.Warning)
    warnings.showwarning = _show_warning
    try:
        return int(args.command(args))
    except errors.InternalError as e:
        print(e, file=sys.stderr)
        return 3
    except errors.Error as e:
        if getattr(args, "json", False):
            print(json.dumps({"diagnostics": [e.as_dict()]}, indent=2))
        else:
            print(e, file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0
    except OSError as e:
        print(f"error: {e.filename or ''}: {e.strerror}", file=sys.stderr)
        return 1


def _show_warning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
    print(message if isinstance(message, errors.Warning) else f"warning: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tc", description="Tensor Comprehensions: check, show and run programs."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: Any, help: str, *, file: bool = True) -> argparse.ArgumentParser:
        p = commands.add_parser(name, help=help, description=help)
        p.set_defaults(command=function)
        if file:
            p.add_argument("file", type=Path, help="a .tc file, or - for standard input")
        return p

    run = add("run", _run, "Run a def on given or random arrays.")
    _target_arguments(run)
    run.add_argument("--input", action="append", default=[], metavar="A=a.npy", help="an input array")
    run.add_argument("--output", action="append", default=[], metavar="C=c.npy", help="where to save a result")
    run.add_argument("--check", action="store_true", help="compare with the oracle")
    run.add_argument("--seed", type=int, default=0, help="of the random inputs (default 0)")
    run.add_argument("--json", action="store_true", help="print a JSON object")

    show = add("show", _show, "Show a stage of the compilation.", file=False)
    show.add_argument("stage", help="ranges, ir, scop, schedule, loops, code, … ('list' lists them)")
    show.add_argument("file", type=Path, nargs="?", help="a .tc file, or - for standard input")
    _target_arguments(show)

    check = add("check", _check, "Report the diagnostics of every def.")
    check.add_argument("--json", action="store_true", help="print a JSON object")

    fmt = add("format", _format, "Print a source, formatted.")
    fmt.add_argument("--write", action="store_true", help="replace the file instead")
    fmt.add_argument("--check", action="store_true", help="exit with 1 if the file is not formatted")

    doctor = add("doctor", _doctor, "Report backends, versions, and what is missing.", file=False)
    doctor.add_argument("--json", action="store_true", help="print a JSON object")

    demo = add("demo", _demo, "Compile and run a few programs, stage by stage.", file=False)
    demo.add_argument("--backend", default="reference")
    return parser


def _target_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--entry", help="the def (default: the last)")
    p.add_argument("--backend", help="the backend (default: chosen)")
    p.add_argument("--size", action="append", default=[], metavar="M=128", help="a size or an integer scalar")
    p.add_argument("--scalar", action="append", default=[], metavar="a=0.5", help="a scalar parameter")
    p.add_argument("--option", action="append", default=[], metavar="NAME=JSON", help="an option of tc.Options")


def _read(file: Path) -> tuple[str, str]:
    if str(file) == "-":
        return sys.stdin.read(), "<stdin>"
    return file.read_text(encoding="utf-8"), str(file)


def _pairs(items: Sequence[str], what: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise ArgumentError(f"{what} {item!r} is not NAME=VALUE", code="TC0515")
        out[name] = value
    return out


def _integers(items: Sequence[str]) -> dict[str, int]:
    out: dict[str, int] = {}
    for name, value in _pairs(items, "--size").items():
        try:
            out[name] = int(value, 0)
        except ValueError:
            raise ArgumentError(f"--size {name}={value}: not an integer", code="TC0515") from None
    return out


def _kernel(args: argparse.Namespace) -> Any:
    from tc.api import compile_source
    from tc.options import Options

    text, name = _read(args.file)
    try:
        options = Options.from_mapping({k: json.loads(v) for k, v in _pairs(args.option, "--option").items()})
    except json.JSONDecodeError as e:
        raise ArgumentError(f"--option: {e}", code="TC0515", help="strings are quoted: NAME='\"text\"'") from None
    return compile_source(Source(text, name), backend=args.backend, entry=args.entry, options=options)


def _run(args: argparse.Namespace) -> int:
    from tc.commands import run_kernel

    kernel = _kernel(args)
    report = run_kernel(
        kernel,
        _integers(args.size),
        {k: float(v) if "." in v or "e" in v else int(v, 0) for k, v in _pairs(args.scalar, "--scalar").items()},
        _pairs(args.input, "--input"),
        _pairs(args.output, "--output"),
        args.seed,
        args.check,
    )
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        for name, result in report["results"].items():
            print(f"{name}: {result['dtype']}{tuple(result['shape'])}, {result['summary']}")
        print(f"compiled in {report['compile_ms']:.1f} ms, ran in {report['run_us']:.1f} us on {report['backend']}")
        if args.check:
            print(f"oracle: {'agrees' if report['agrees'] else 'DISAGREES'}, {report['difference']}")
    return 0 if report.get("agrees", True) else 1


def _show(args: argparse.Namespace) -> int:
    from tc.inspect import STAGES

    if args.stage == "list":
        for name, (what, needs_sizes) in STAGES.items():
            print(f"{name:<12} {what}{'  (needs --size for every size)' if needs_sizes else ''}")
        return 0
    if args.file is None:
        raise ArgumentError(f"show {args.stage}: no file given", code="TC0515", help="show STAGE FILE")
    kernel = _kernel(args)
    values = _integers(args.size)
    values |= {k: int(v, 0) for k, v in _pairs(args.scalar, "--scalar").items()}
    print(kernel.inspect(args.stage, **values), end="")
    return 0


def _check(args: argparse.Namespace) -> int:
    from tc import pipeline
    from tc.lang.parse import parse

    text, name = _read(args.file)
    source = Source(text, name)
    found: list[errors.Error | errors.Warning] = []
    try:
        names = [d.name for d in parse(source).defs]
    except errors.Error as e:
        names, found = [], [e]
    for entry in names:
        try:
            front = pipeline.front(source, entry)
            found += front.warnings
            if front.ranges.complete and not front.specialized:
                pipeline.build(front, pipeline.Variant())
        except errors.Error as e:
            if not any(str(e) == str(other) for other in found):
                found.append(e)
    unique = list({str(d): d for d in found}.values())
    failed = any(isinstance(d, errors.Error) for d in unique)
    if args.json:
        print(json.dumps({"ok": not failed, "defs": names, "diagnostics": [d.as_dict() for d in unique]}, indent=2))
    else:
        for d in unique:
            print(d, file=sys.stderr)
        if not failed:
            print(f"{name}: {len(names)} def{'s' if len(names) != 1 else ''}, no errors")
    return 1 if failed else 0


def _format(args: argparse.Namespace) -> int:
    from tc.lang.format import format_source

    text, name = _read(args.file)
    formatted = format_source(text, name)
    if args.check:
        if formatted != text:
            print(f"{name} is not formatted", file=sys.stderr)
        return 0 if formatted == text else 1
    if args.write and str(args.file) != "-":
        if formatted != text:
            args.file.write_text(formatted, encoding="utf-8")
        return 0
    print(formatted, end="")
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from tc.commands import diagnose

    report = diagnose()
    if args.json:
        print(json.dumps(report, indent=2))
        return 0
    print(f"tc {report['tc']} on Python {report['python']}, {report['machine']}")
    for name, version in report["packages"].items():
        print(f"  {name:<14} {version or 'not installed'}")
    for name, backend in report["backends"].items():
        state = "available" if backend["available"] else f"not available: {backend['reason']}"
        print(f"backend {name:<10} {state}")
        if not backend["available"] and backend["remedy"]:
            print(f"{'':18} {backend['remedy']}")
    return 0


def _demo(args: argparse.Namespace) -> int:
    from tc.commands import demo

    demo(args.backend)
    return 0
