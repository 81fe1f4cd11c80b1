"""What tuning gains: every workload tuned for some seconds, and the winner measured again beside the default.

    python -m benchmarks.tuning [--group report|more|programs|missed] [--only TEXT …] [--budget 60]
    python -m benchmarks.tuning --transfer [--budget 20]

Columns: the default's time; that of the best found, measured again in fresh processes in 15 rounds in turn
with the default; the gain with its 95 % confidence interval; candidates, and those that failed; how the
options differ from what the model chose.  With `--transfer` options that were tuned at three sizes serve
others, and are compared with what tuning each of these finds.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tc
from benchmarks.quiet import Others
from benchmarks.record import machine, save, written
from benchmarks.stats import geometric_mean
from benchmarks.table import aligned, duration
from benchmarks.workloads import find, select
from tc.options import Options
from tc.tuned.pairs import Paired
from tc.tuner.api import job_of
from tc.tuner.bench import Bench, Stopped
from tc.tuner.farm import Farm
from tc.tuner.trials import Limits

HEADER = ("workload", "default", "best", "gain", "95 %", "tried", "failed", "found by", "options")
# Programs that the model is known to get wrong.
MISSED = {
    "transposed_mv@3000,3500 f64": (
        "def f(double(M,N) A, double(M) t) -> (y) { y(j) +=! A(i,j) * t(i) }",
        {"A": (3000, 3500), "t": (3000,)},
        np.float64,
    ),
    "four_stencils@2000,2000": (
        "def f(float(H,W) a) -> (d) {"
        " b(i,j) = a(i,j) + a(i+1,j) + a(i,j+1)"
        " c(i,j) = b(i,j) + b(i+1,j) + b(i,j+1)"
        " e(i,j) = c(i,j) + c(i+1,j) + c(i,j+1)"
        " d(i,j) = e(i,j) + e(i+1,j) + e(i,j+1) }",
        {"a": (2000, 2000)},
        np.float32,
    ),
}
# Of a family, the sizes that are tuned and those that take what was found.
TRANSFER = "mlp1"
TUNED_AT = ("128,2000,128", "32,500,256", "256,1000,64")
SERVED = (
    *("100,2000,128", "128,1500,128", "64,2000,256", "256,500,100", "48,700,200", "200,1000,80"),
    *("128,3000,96", "32,400,300", "16,2000,128", "512,1000,64", "96,1200,160", "128,800,512"),
    *("64,600,64", "40,2500,100", "300,300,300", "128,2048,128", "24,1000,512", "160,640,96"),
    *("80,3500,64", "256,1024,32"),
)


@dataclass(frozen=True)
class Row:
    """A workload: nanoseconds of default and best, and what was tried."""

    name: str
    paired: Paired
    tried: int
    failed: int
    origin: str
    options: Mapping[str, Any]

    @property
    def gain(self) -> float:
        return 1 / self.paired.ratio

    def as_dict(self) -> dict[str, Any]:
        low, high = self.paired.interval
        return {
            "name": self.name,
            "default_ns": sorted(self.paired.incumbent)[len(self.paired.incumbent) // 2],
            "best_ns": sorted(self.paired.challenger)[len(self.paired.challenger) // 2],
            "gain": self.gain,
            "interval": [1 / high, 1 / low],
            "tried": self.tried,
            "failed": self.failed,
            "origin": self.origin,
            "options": dict(self.options),
        }


def programs(group: str | None, only: Sequence[str] | None) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Names, sources and arguments."""
    out: list[tuple[str, str, Mapping[str, Any]]] = []
    if group != "missed":
        out += [(c.name, w.source, w.arrays()) for c in select(group or "report") for w in [c.workload()]]
    if group in (None, "missed"):
        rng = np.random.default_rng(0)
        for name, (source, shapes, dtype) in MISSED.items():
            out.append((name, source, {n: rng.standard_normal(s).astype(dtype) for n, s in shapes.items()}))
    return [p for p in out if not only or any(t in p[0] for t in only)]


def again(source: str, arguments: Mapping[str, Any], best: Options, base: Options) -> Paired:
    """Options beside others in fresh processes, all rounds; ones where they are the same."""
    if best == base:
        return Paired((1,) * 15, (1,) * 15)
    kernel = tc.compile(source, "cpu", options=base)
    with Farm(job_of(kernel, (), arguments, None, 0), 8 << 30) as farm:
        bench = Bench(farm, Limits(None, None, run_seconds=60.0), lambda: 3600.0)
        bench.default(base)
        return bench.compare(best, base)


def gains(args: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    for name, source, arguments in programs(args.group, args.only):
        tuned = tc.tune(source, arguments, backend="cpu", budget=args.budget, records=False, seed=args.seed)
        default = next(t for t in tuned.trials if t.options == tuned.default)
        best = next(t for t in tuned.trials if t.options == tuned.best)
        paired = again(source, arguments, tuned.best, tuned.default)
        if tuned.best == tuned.default and default.cost is not None:
            paired = Paired((round(default.cost),) * 15, (round(default.cost),) * 15)
        rows.append(
            Row(
                name,
                paired,
                len(tuned.trials) - 1,
                len(tuned.failed),
                best.record.origin,
                tuned.best.changed(),
            )
        )
        print(line(rows[-1]), flush=True)
    return rows


def line(r: Row) -> str:
    return "  ".join(cells(r))


def cells(r: Row) -> tuple[str, ...]:
    d = r.as_dict()
    low, high = d["interval"]
    options = ", ".join(f"{n}={v}" for n, v in r.options.items()) or "the model's"
    times = (duration(d["default_ns"] / 1e9), duration(d["best_ns"] / 1e9))
    interval = f"{low:.2f}..{high:.2f}" if r.options else ""
    return (r.name, *times, f"{r.gain:.2f}", interval, str(r.tried), str(r.failed), r.origin, options)


def transfer(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Options tuned at some sizes, for others, beside what tuning each of these finds."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TC_TUNE_DIR"] = folder
        for sizes in TUNED_AT:
            w = find(f"{TRANSFER}@{sizes}").workload()
            tuned = tc.tune(w.source, w.arrays(), backend="cpu", budget=args.budget, records=folder)
            print(f"{TRANSFER} {sizes}: {tuned.gain:.2f}, {tuned.best}", flush=True)
        for sizes in SERVED:
            w = find(f"{TRANSFER}@{sizes}").workload()
            kernel = tc.compile(w.source, "cpu")
            served = kernel.specialize(**kernel.sizes_of(**w.arrays())).options
            tuned = tc.tune(w.source, w.arrays(), backend="cpu", budget=args.budget, records=False)
            of_tuned = 1 / again(w.source, w.arrays(), served, tuned.best).ratio
            of_default = 1 / again(w.source, w.arrays(), served, Options()).ratio
            rows.append(
                {
                    "sizes": sizes,
                    "served": served.changed(),
                    "tuned": tuned.best.changed(),
                    "of_tuned": of_tuned,
                    "of_default": of_default,
                }
            )
            shown = f"{of_tuned:.2f} of tuned, {of_default:.2f} of default"
            print(f"{TRANSFER} {sizes}: {shown}, {served}", flush=True)
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tuning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--group", choices=("report", "more", "programs", "missed"))
    parser.add_argument(
        "--only", nargs="+", metavar="TEXT", help="workloads whose names contain one of these"
    )
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of each search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--transfer", action="store_true", help="options of some sizes for others")
    parser.add_argument("--dry", action="store_true", help="write no results")
    args = parser.parse_args(argv)
    others = Others()
    if args.transfer:
        found = transfer(args)
        print(
            f"geometric mean {geometric_mean([r['of_tuned'] for r in found]):.3f} of what tuning each finds"
        )
        result, name = {"budget": args.budget, "rows": found}, "tuning_transfer"
    else:
        rows = gains(args)
        print(aligned(HEADER, [cells(r) for r in rows]))
        print(f"geometric mean of gains {geometric_mean([r.gain for r in rows]):.3f}")
        missed = [r for r in rows if r.gain > 1.1]
        for r in missed:
            print(f"the model misses {r.name} by {r.gain:.2f}: {dict(r.options)}")
        result, name = (
            {"budget": args.budget, "rows": [*_kept(rows, args), *(r.as_dict() for r in rows)]},
            "tuning",
        )
    share = others.share()
    busy = f"others used {share:.0%} of the processors" if share is not None else "unknown what others used"
    print(busy)
    if not args.dry:
        print(save(name, {**result, "others": busy}))
    return 0


def _kept(rows: Sequence[Row], args: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of other workloads that were written before, on this machine with this budget."""
    before = written("tuning") or {}
    old = before.get("rows", {})
    if (
        before.get("machine", {}).get("processor") != machine()["processor"]
        or old.get("budget") != args.budget
    ):
        return []
    return [x for x in old["rows"] if x["name"] not in {r.name for r in rows}]


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except Stopped:
        raise SystemExit("a comparison took too long") from None
