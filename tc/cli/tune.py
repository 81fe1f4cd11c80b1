"""`python -m tc tune`: tune programs, and look after the records of measurements."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tc.cli.arguments import kernel_of, numbers, read_source
from tc.errors import ArgumentError, did_you_mean
from tc.support import settings as environment

if TYPE_CHECKING:
    from tc.options import Options
    from tc.tuned.records import Record, Records
    from tc.tuner.settings import Settings

ACTIONS = ("show", "best", "merge", "prune", "export")
_SHOWN = 8  # candidates that are printed
_FLAGS = {
    "strategy": (
        str,
        "combined (default), genetic, random, model, local, tpe, exhaustive or given",
    ),
    "trials": (int, "the number of candidates"),
    "jobs": (int, "compiles side by side (default: one for each core)"),
    "seed": (int, "of the strategy and the random inputs (default 0)"),
    "population": (int, "of the genetic search (default 100)"),
    "generations": (int, "of the genetic search (default 25)"),
    "parents": (int, "of a child (default 3)"),
    "crossover": (float, "the probability that a child is bred (default 0.8)"),
    "mutation": (float, "the probability that a gene is drawn anew (default 0.07)"),
    "elites": (int, "that live on (default 10)"),
    "run_seconds": (float, "that a call may take (default 10)"),
    "compile_seconds": (float, "that a compile may take (default 60)"),
    "memory_mib": (int, "that a candidate may take (default 4096)"),
}


def add_arguments(p: argparse.ArgumentParser) -> None:
    """What can be written behind `tune`."""
    p.add_argument(
        "what",
        nargs="*",
        metavar="FILE | records ACTION | report",
        help="a .tc file to tune; or what to do with records: show, best, merge FROM…, prune, export; or "
        "report, which writes an HTML page",
    )
    p.add_argument(
        "--suite", metavar="DIR", help="tune every .tc file of a folder, at '# sizes: M=8 N=9' lines"
    )
    p.add_argument("--budget", metavar="60s", help="seconds, or minutes as 10m, for all (default 60s)")
    for name, (kind, text) in _FLAGS.items():
        p.add_argument("--" + name.replace("_", "-"), type=kind, help=text)
    p.add_argument("--fix", action="append", default=[], metavar="NAME=JSON", help="an option to leave alone")
    p.add_argument("--start", metavar="FILE", help="options to try first: JSON, one set or a list of them")
    p.add_argument("--records", metavar="DIR", help="where records are (default: TC_TUNE_DIR)")
    p.add_argument("--no-resume", action="store_true", help="start afresh, whatever the records say")
    p.add_argument("--client", metavar="ADDRESS", help="a Dask scheduler whose workers compile and measure")
    p.add_argument("--output", metavar="FILE", help="of report and export (default: report.html, stdout)")
    p.add_argument("--png", metavar="DIR", help="write the plots of a report as files, too")


def run(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """The command: exit code and report."""
    from tc.tuned.records import Records

    first = args.what[0] if args.what else ""
    directory = Path(args.records) if args.records else environment.records_directory()
    if first == "records":
        return _records(args, Records(directory))
    if first == "report":
        return _report(args, Records(directory))
    if args.suite is not None and args.what:
        raise ArgumentError("a file and --suite", code="TC0515", help="give one of them")
    if args.suite is None and len(args.what) != 1:
        raise ArgumentError("tune takes a file", code="TC0515", help="python -m tc tune FILE --size N=…")
    jobs: list[tuple[Any, dict[str, int]]] = []
    if args.suite is None:
        made = kernel_of(args, read_source(first))
        jobs = [(made, s) for s in _sizes(args.size, "--size")]
    else:
        files = sorted(Path(args.suite).glob("*.tc"))
        for path in files:
            source = read_source(str(path))
            made = kernel_of(args, source)
            for text in re.findall(r"^\s*#\s*sizes:(.*)$", source.text, re.M):
                jobs += [(made, s) for s in _sizes(text.split(), f"{path.name}: sizes")]
        if not jobs:
            raise ArgumentError(
                f"{args.suite} has no .tc file with sizes",
                code="TC0515",
                help="add a comment with them: # sizes: M=512 N=512",
            )
    return _tune(args, jobs)


def _tune(args: argparse.Namespace, jobs: Sequence[tuple[Any, dict[str, int]]]) -> tuple[int, dict[str, Any]]:
    from tc.cli.request import Request, check_names
    from tc.tuner.api import tune_sizes

    given = _settings(args)
    share = replace(given, budget=None if given.budget is None else given.budget / len(jobs))
    reports: list[dict[str, Any]] = []
    for made, sizes in jobs:
        scalars = numbers(args.scalar, "--scalar", whole=False)
        check_names(made, Request(sizes, scalars, {}, {}))
        tuned = tune_sizes(made, sizes, {**scalars, **sizes}, share)
        at = ", ".join(f"{n} = {v}" for n, v in sizes.items())
        reports.append(_as_report(made, tuned))
        if not args.json:
            print(f"{made.name}{' at ' + at if at else ''} on {made.backend}")
            _print(tuned)
        if tuned.interrupted:
            return 130, {"tuned": reports}
    return 0, {"tuned": reports}


def _print(tuned: Any) -> None:
    for t in tuned.ranking[:_SHOWN]:
        time = f"{1e6 * t.seconds:12.1f} us" if t.seconds is not None else f"    {t.status}: {t.problem}"
        print(f"{time}{tuned.prediction(t):<32}  {t.options!r}")
    print(tuned.summary())


def _as_report(kernel: Any, tuned: Any) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "backend": kernel.backend,
        "sizes": tuned.sizes,
        "best": tuned.best.changed(),
        "gain": tuned.gain,
        "seconds": tuned.seconds,
        "records": str(tuned.records) if tuned.records is not None else None,
        "trials": [
            {
                "options": t.options.changed(),
                "status": t.status,
                "problem": t.problem,
                "origin": t.record.origin,
                "predicted": t.predicted,
                "us": None if t.seconds is None else 1e6 * t.seconds,
            }
            for t in tuned.ranking
        ],
    }


# ---- the flags


def _settings(args: argparse.Namespace) -> Settings:
    from tc.tuner.settings import settings

    given: dict[str, Any] = {n: v for n in _FLAGS if (v := getattr(args, n)) is not None}
    if args.budget is not None:
        given["budget"] = seconds(args.budget)
    elif args.trials is not None:
        given["budget"] = None
    if args.records:
        given["records"] = args.records
    if args.client is not None:
        from tc.tuner.distributed import connect

        given["client"] = connect(args.client)
    given |= {"fix": _json_pairs(args.fix), "start": _start(args.start)}
    return settings({**given, "resume": not args.no_resume, "show": sys.stderr.isatty()})


def seconds(text: str) -> float:
    """Seconds, from "90", "90s", "1.5m" or "2h"."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if found is None:
        raise ArgumentError(f"--budget {text}: not a time", code="TC0515", help="write 90s, 10m or 2h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def _sizes(items: Sequence[str], flag: str) -> list[dict[str, int]]:
    """Sizes, several where a value is a list: M=256,512 or M=256,512,N=64."""
    out: list[dict[str, int]] = [{}]
    for item in (x for pairs in items for x in re.split(r",(?=[^,]*=)", pairs)):
        name, equals, text = item.partition("=")
        parts = text.split(",") if equals else [""]
        values = [numbers([f"{name}={v}"] if equals else [item], flag, whole=True)[name] for v in parts]
        if name in out[0]:
            raise ArgumentError(f"{flag}: '{name}' is given twice", code="TC0515")
        out = [{**o, name: v} for o in out for v in values]
    return out


def _json_pairs(items: Sequence[str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for item in items:
        name, equals, value = item.partition("=")
        try:
            out[name] = json.loads(value) if equals else None
        except json.JSONDecodeError:
            raise ArgumentError(
                f"--fix {item}: not JSON", code="TC0515", help="write --fix vector=1"
            ) from None
        if not equals:
            raise ArgumentError(f"--fix {item}: not of the form NAME=JSON", code="TC0515")
    return out


def _start(file: str | None) -> tuple[Options, ...]:
    from tc.options import Options

    if file is None:
        return ()
    try:
        found = json.loads(Path(file).read_text())
    except ValueError:
        raise ArgumentError(
            f"--start {file}: not JSON", code="TC0515", help='write {"tile": [8, 8]}'
        ) from None
    several = cast("list[Any]", found) if isinstance(found, list) else [found]
    return tuple(map(Options.from_mapping, several))


# ---- records


def _records(args: argparse.Namespace, records: Records) -> tuple[int, dict[str, Any]]:
    from tc.tuned.queries import export, groups, winner

    action = args.what[1] if len(args.what) > 1 else "show"
    rest = args.what[2:]
    if action not in ACTIONS:
        raise ArgumentError(
            f"there is no action '{action}' for records",
            code="TC0515",
            help=did_you_mean(action, ACTIONS) or f"actions are {', '.join(ACTIONS)}",
        )
    if (action == "merge") != bool(rest):
        what = "merge takes directories or files" if action == "merge" else f"{action} takes nothing more"
        raise ArgumentError(what, code="TC0515", help="python -m tc tune records merge FROM…")
    for path in rest:
        if not Path(path).exists():
            raise ArgumentError(f"{path}: No such file or directory", code="TC0516")
    report: dict[str, Any] = {"directory": str(records.directory)}
    if action == "merge":
        report["added"] = records.merge(map(Path, rest))
        _say(args, f"{report['added']} records added to {records.directory}")
        return 0, report
    if action == "prune":
        report["removed"] = _prune(records)
        _say(args, f"{report['removed']} records removed from {records.directory}")
        return 0, report
    scan = records.scan()
    if action == "export":
        made = export(scan.records)
        if args.output:
            Path(args.output).write_text(json.dumps(made, indent=1))
        elif not args.json:
            print(json.dumps(made, indent=1))
        return 0, {**report, **(made if args.json and not args.output else {})}
    found = groups(scan.records)
    report["skipped"] = {"foreign": scan.foreign, "other": scan.other}
    programs: list[dict[str, Any]] = []
    report["programs"] = programs
    for rows in found.values():
        best = winner(rows)
        programs.append(_described(rows, best))
        if best is not None or action == "show":
            _say(args, _line(rows, best))
    if scan.skipped:
        _say(args, scan.skipped)
    if not found:
        _say(args, f"no records in {records.directory}")
    return 0, report


def _prune(records: Records) -> int:
    """Remove what no choice depends on: all but winners, failures, and the latest measurement of options."""
    from tc.tuned.queries import groups, pooled, winner

    kept: set[int] = set()
    scan = records.scan()
    for rows in groups(scan.records).values():
        best = winner(rows)
        kept |= {id(r) for r in pooled(rows).values() if r.status not in ("ok", "pruned") or r is best}
        kept |= {id(best)} if best is not None else set()
        default = [r for r in rows if r.origin == "default"]
        kept |= {id(default[-1])} if default else set()
    gone = {r.to_line() for r in scan.records if id(r) not in kept}
    gone -= {r.to_line() for r in scan.records if id(r) in kept}
    return records.remove(lambda r: r.to_line() in gone)


def _described(rows: Sequence[Record], best: Record | None) -> dict[str, Any]:
    first = rows[-1]
    return {
        "program": first.program,
        "name": first.entry,
        "sizes": dict(first.sizes),
        "backend": first.backend,
        "machine": first.machine,
        "records": len(rows),
        "failed": sum(r.status not in ("ok", "pruned") for r in rows),
        "best": dict(best.options) if best is not None else None,
        "us": best.median / 1e3 if best is not None and best.median is not None else None,
    }


def _line(rows: Sequence[Record], best: Record | None) -> str:
    d = _described(rows, best)
    sizes: Mapping[str, int] = d["sizes"]
    at = " ".join(f"{n}={v}" for n, v in sizes.items())
    time = f"{d['us']:.1f} us, {json.dumps(d['best'])}" if best is not None else "no winner"
    where = f"{d['backend']} {d['machine'][:8]}"
    return f"{d['program'][:12]}  {d['name']} {at}  {where}  {d['records']} records  {time}"


def _report(args: argparse.Namespace, records: Records) -> tuple[int, dict[str, Any]]:
    from tc.tuner.report import write_pngs, write_report

    scan = records.scan()
    if not scan.records:
        raise ArgumentError(
            f"no records in {records.directory}", code="TC0516", help="python -m tc tune FILE writes some"
        )
    target = Path(args.output or "report.html")
    write_report(scan, target)
    made = [str(target)]
    if args.png:
        made += [str(p) for p in write_pngs(scan, Path(args.png))]
    for name in made:
        _say(args, name)
    return 0, {"files": made}


def _say(args: argparse.Namespace, text: str) -> None:
    if not args.json:
        print(text)
