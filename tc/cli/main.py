"""The command line: run, show, check, tune, bench, export, format, doctor, cache, library, demo.

Exit codes: 0 done; 1 the program or the call is wrong, or a check found a difference; 2 the command line
does not parse; 3 a bug in tc; 130 interrupted.  Results go to stdout, diagnostics and warnings to stderr,
without a Python traceback.  With `--json` stdout is one object and holds the diagnostics too: `ok` and
`diagnostics` are always in it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tc import __version__, errors
from tc.cli import bench as benching
from tc.cli import export as exporting
from tc.cli import show as showing
from tc.cli import tune as tuning
from tc.cli.arguments import (
    data_arguments,
    dynamic_argument,
    kernel_of,
    numbers,
    parse,
    read_source,
    request_of,
    target_arguments,
)
from tc.errors import ArgumentError, ParseError, Source

if TYPE_CHECKING:
    from tc.cli.replay import Case
    from tc.cli.request import Request


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, by default the process's own; returns the exit code.

    A command line that does not parse, and `--help`, end in SystemExit, as argparse does.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    args = parse(_parser(), argv)
    args.json = getattr(args, "json", False)
    found: list[dict[str, Any]] = []

    def show_warning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        ours = isinstance(message, errors.Warning)
        if args.json and ours:
            found.append(message.as_dict())
        else:
            print(message if ours else f"warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", errors.Warning)
        warnings.showwarning = show_warning
        try:
            code, report = _run_command(args, argv)
        except errors.Error as e:
            code = 3 if isinstance(e, errors.InternalError) else 1
            found.append(e.as_dict())
            report = {}
            if not args.json:
                print(e, file=sys.stderr)
        except BrokenPipeError:
            # The reader has left; Python would complain once more when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except KeyboardInterrupt:
            return 130
    if args.json:
        diagnostics = [*found, *report.pop("diagnostics", [])]
        print(json.dumps({"ok": code == 0, **report, "diagnostics": diagnostics}, indent=2))
    return code


def _run_command(args: argparse.Namespace, argv: list[str]) -> tuple[int, dict[str, Any]]:
    """The command; what is not one of tc's errors becomes one."""
    try:
        result = args.command(args)
        sys.stdout.flush()
        return result
    except (errors.Error, BrokenPipeError):
        raise
    except OSError as e:
        raise ArgumentError(f"{e.filename or 'a file'}: {e.strerror or e}", code="TC0516") from None
    except MemoryError as e:
        raise ArgumentError(
            f"not enough memory: {e}" if str(e) else "not enough memory",
            code="TC0517",
            help="choose smaller sizes",
        ) from None
    except Exception:
        from tc.support.reproducer import reporting

        with reporting("", lambda: {"command": argv}):
            raise


# ---- what can be written on it


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tc", description="Tensor Comprehensions: check, show and run programs."
    )
    parser.add_argument("--version", action="version", version=f"tc {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: Callable[..., Any], help: str, *, json: bool = False) -> Any:
        p = commands.add_parser(name, help=help, description=help)
        p.set_defaults(command=function)
        if json:
            p.add_argument("--json", action="store_true", help="print a JSON object")
        return p

    file = "a .tc or .sac file, or - for standard input (TC)"
    run = add("run", _run, "Run a def on given or random arrays.", json=True)
    run.add_argument("file", help=f"{file}; or the reproducer that an internal error names")
    target_arguments(run)
    data_arguments(run, "integers")
    run.add_argument("--output", action="append", default=[], metavar="C=c.npy", help="save a result")
    run.add_argument("--check", action="store_true", help="compare with the oracle")
    dynamic_argument(run)

    show = add("show", _show, "Show a stage of the compilation.")
    showing.add_arguments(show, file)
    target_arguments(show)
    dynamic_argument(show)

    check = add("check", _check, "Report the diagnostics of every def.", json=True)
    check.add_argument("files", nargs="+", metavar="file", help=file)

    tune = add("tune", _tune, "Find faster options by measuring, and look after the records.", json=True)
    tuning.add_arguments(tune)
    target_arguments(tune)

    bench = add("bench", _bench, "Time a program beside the same in other libraries, in turns.", json=True)
    benching.add_arguments(bench)
    data_arguments(bench, "normal")
    target_arguments(bench)

    export = add("export", _export, "Write compiled kernels to a file that needs no compiler.", json=True)
    exporting.add_arguments(export, file)

    fmt = add("format", _format, "Print sources, formatted.")
    fmt.add_argument("files", nargs="+", metavar="file", help=file)
    how = fmt.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true", help="replace the files instead")
    how.add_argument("--check", action="store_true", help="only say which are not formatted, and exit with 1")

    translate = add("translate", _translate, "Print a program in the other notation.")
    translate.add_argument("file", help=file)
    translate.add_argument("--to", required=True, choices=("sac", "tc"), help="the notation")
    target_arguments(translate)

    add("doctor", _doctor, "Report backends, versions, and what is missing.", json=True)

    cache = add("cache", _cache, "Report the compiled kernels kept on disk, or remove them.", json=True)
    how = cache.add_mutually_exclusive_group()
    how.add_argument("--clear", action="store_true", help="remove them")
    how.add_argument("--path", action="store_true", help="print the directory and nothing else")

    library = add("library", _library, "List the library of ready programs, or show one of them.", json=True)
    library.add_argument("name", nargs="?", help="an operator; without one all are listed")

    demo = add("demo", _demo, "Run programs, draw a photo, and time programs beside NumPy and PyTorch.")
    demo.add_argument("parts", nargs="*", metavar="PART", help="programs, photo or peers (default: all)")
    demo.add_argument("--backend", help="the backend (default: chosen)")
    demo.add_argument("--output", default="tc-demo", metavar="DIR", help="of the pictures (default: tc-demo)")
    return parser


# ---- the commands: exit code and, for --json, the report


def _run(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    from tc.cli import replay
    from tc.cli.commands import run_kernel

    request = request_of(args)
    source = read_source(args.file)
    if not source.name.endswith(".sac") and replay.is_reproducer(source.text):
        return _replay(args, replay.read(source.text, source.name), request)
    report = run_kernel(kernel_of(args, source), request)
    if not args.json:
        _print_run(report)
    return 0 if report.get("agrees", True) else 1, report


def _print_run(report: Mapping[str, Any]) -> None:
    for name, result in report["results"].items():
        print(f"{name}: {result['dtype']}{tuple(result['shape'])}, {result['summary']}")
    times = f"compiled in {report['compile_ms']:.1f} ms, ran in {report['run_us']:.1f} us"
    print(f"{times} on {report['backend']}")
    if "agrees" in report:
        print(f"oracle: {'agrees' if report['agrees'] else 'DISAGREES'}, {report['difference']}")


def _replay(args: argparse.Namespace, case: Case, request: Request) -> tuple[int, dict[str, Any]]:
    """What failed once, again: either it still does, or it says so and agrees with the oracle."""
    from tc.cli.commands import run_kernel
    from tc.support.settings import verifying

    notes = case.notes()
    if not args.json:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
    with verifying():
        kernel = kernel_of(args, Source(case.source, "<reproducer>"), case)
        report: dict[str, Any] = {"failed": case.error, "notes": notes, "backend": kernel.backend}
        if case.sizes is not None or args.size or not kernel.front.checked.sizes:
            again = replace(
                request,
                sizes={**(case.sizes or {}), **request.sizes},
                scalars={**case.scalars, **request.scalars},
                check=True,
                dtypes=case.dtypes,
                given=case.given,
            )
            report |= run_kernel(kernel, again)
    good = report.get("agrees", True)
    if not args.json:
        if "results" in report:
            _print_run(report)
        else:
            print("the program compiles; no sizes were known when it failed")
        if good:
            print(f"no longer fails: {case.error}")
    return 0 if good else 1, report


def _tune(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    return tuning.run(args)


def _bench(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    from tc.cli import bench_run

    return bench_run.run(args, kernel_of(args, read_source(args.file)), request_of(args))


def _export(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    return exporting.run(args)


def _show(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    from tc.inspection.stages import STAGES, unknown

    if args.stage == "list":
        for name, (what, needs_sizes) in STAGES.items():
            print(f"{name:<12} {what}{' (at sizes)' if needs_sizes else ''}")
        return 0, {}
    if args.file is None:
        if args.stage not in (*STAGES, "all", "passes", "html"):
            raise unknown(args.stage)
        raise ArgumentError(f"show {args.stage}: no file is given", code="TC0515", help="show STAGE FILE")
    values = numbers(args.size, "--size", whole=True)
    values |= {k: int(v) for k, v in numbers(args.scalar, "--scalar", whole=True).items()}
    showing.run(args, kernel_of(args, read_source(args.file)), values)
    return 0, {}


def _check(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    from tc.cli.commands import check_source

    files: dict[str, list[str]] = {}
    found: list[errors.Error | errors.Warning] = []
    for file in args.files:
        name = "<stdin>" if file == "-" else file
        try:
            files[name], diagnostics = check_source(read_source(file))
        except ParseError as e:
            files[name], diagnostics = [], [e]
        except OSError as e:
            text = f"{e.filename or file}: {e.strerror or e}"
            files[name], diagnostics = [], [ArgumentError(text, code="TC0516")]
        found += diagnostics
        if args.json:
            continue
        for d in diagnostics:
            print(d, file=sys.stderr)
        if not any(isinstance(d, errors.Error) for d in diagnostics):
            print(f"{name}: {len(files[name])} def{'s' if len(files[name]) != 1 else ''}, no errors")
    failed = any(isinstance(d, errors.Error) for d in found)
    return int(failed), {"files": files, "diagnostics": [d.as_dict() for d in found]}


def _format(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    from tc.lang import format as tc_format
    from tc.lang.sac import format as sac_format

    code = 0
    for file in args.files:
        try:
            source = read_source(file)
            notation = sac_format if file.endswith(".sac") else tc_format
            formatted = notation.format_source(source.text, source.name)
        except ParseError as e:
            print(e, file=sys.stderr)
            code = 1
            continue
        if args.check:
            if formatted != source.text:
                print(f"{source.name} is not formatted", file=sys.stderr)
                code = 1
        elif args.write and file != "-":
            if formatted != source.text:
                Path(file).write_text(formatted, encoding="utf-8")
        else:
            print(formatted, end="")
    return code, {}


def _translate(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    from tc.cli.translate import to_sac, to_tc
    from tc.lang import format as tc_format
    from tc.lang.sac import format as sac_format

    source = read_source(args.file)
    written = "sac" if source.name.endswith(".sac") else "tc"
    notation: Any = sac_format if args.to == "sac" else tc_format
    if written == args.to:
        print(notation.format_source(source.text, source.name), end="")
        return 0, {}
    kernel = kernel_of(args, source)
    made = to_sac(kernel.front) if args.to == "sac" else to_tc(kernel.front)
    print(notation.format_source(made), end="")
    return 0, {}


def _doctor(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    from tc.cli.commands import diagnose

    report = diagnose()
    if not args.json:
        print(f"tc {report['tc']} on Python {report['python']}, {report['machine']}")
        for name, version in report["packages"].items():
            print(f"  {name:<22} {version or 'not installed'}")
        for name, state in report["backends"].items():
            print(f"backend {name:<10} {_state(state)}")
            for line in state.get("devices", ()):
                print(f"{'':18} {line}")
    return 0, report


def _state(state: Mapping[str, Any]) -> str:
    if state["available"]:
        return "available"
    remedy = f"\n{'':18} {state['remedy']}" if state["remedy"] else ""
    how = "compiles only" if state["compiles"] else "not available"
    return f"{how}: {state['reason']}{remedy}"


def _cache(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    from tc.cli.commands import kept_kernels

    report = kept_kernels(clear=args.clear)
    if not args.json:
        print(report["directory"])
        if not args.path:
            removed = f"{report['removed']} removed, " if args.clear else ""
            kept = f"{removed}{report['kernels']} kernels, {report['bytes']} bytes of {report['limit']}"
            print(kept + ("" if report["on"] else " (TC_CACHE is off)"))
    return 0, report


def _library(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    from tc.cli.library import describe, report

    if not args.json:
        print(describe(args.name))
    return 0, report(args.name) if args.json else {}


def _demo(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    from tc.cli.demo import PARTS, demo

    for part in args.parts:
        if part not in PARTS:
            help = errors.did_you_mean(part, PARTS) or f"there are {', '.join(PARTS)}"
            raise ArgumentError(f"the demo has no part '{part}'", code="TC0515", help=help)
    return (0 if demo(args.backend, args.parts, Path(args.output)) else 1), {}
