"""The CPU table: every workload on `tc` and on its peers, interleaved, with the roofline.

    python -m benchmarks.cpu [--only TEXT …] [--group report|more|programs|polybench|loops] [--rounds 15]
        [--threads N] [--quick]
    python -m benchmarks.cpu --at row_sum@65536,128 contraction:abc,dc->adb@16,50,300,128
    python -m benchmarks.cpu --drawn 40 [--seed 1] [--cold] [--isa avx2]

`--drawn` takes programs at random (`benchmarks.workloads.drawn`); with `--cold` calls take turns with inputs
of four times the last cache, so that none has them; with `--isa` no library may use more than that.  With
`--double` the floats of every case are float64; results of a group have a name of their own then.

Columns: the best peer; its time by tc's (above 1: tc is faster), the median of the rounds' ratios with its
95 % confidence interval; what tc reaches, in 10^9 operations or bytes per second; the share of the measured
peak that is the larger share (F: of multiply-adds in registers, measured in the same rounds; B: of the
copy's bandwidth; R: of what can be read where little is written; G: of random rows of tc's own tables, read
in the same rounds; data that stays in a cache may exceed the last three); first call less a later one; memory
of a call, results included.  A group has results of its own; the roofline, benchmarks/results/roofline.png,
has the kernels of both.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from benchmarks import peaks as machine_peaks
from benchmarks import peers
from benchmarks.measure import Measurement, Outcome, Race, Settings, WorkerError
from benchmarks.quiet import Others
from benchmarks.record import save
from benchmarks.roofline import draw_results
from benchmarks.stats import geometric_mean
from benchmarks.table import aligned, duration, figure, mebibytes
from benchmarks.workloads import FAMILIES, GROUPS, draw, find, select
from benchmarks.workloads.model import Case

# The part of the processors' time that others may use.
QUIET = 0.05
HEADER = (
    *("workload", "best peer", "tc µs", "peer µs", "ratio", "95 %", "tc", "", "share", "peer's"),
    *("compile ms", "peer's", "MiB", "peer's"),
)
QUICK = ("tc", "torch", "torch+", "inductor", "inductor+", "jax")


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="python -m benchmarks.cpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("--only", nargs="+", metavar="TEXT", help="cases whose names contain one of these")
    out.add_argument("--at", nargs="+", metavar="FAMILY@SIZES", help="families at any other sizes instead")
    out.add_argument("--drawn", type=int, metavar="N", help="so many cases at random instead")
    out.add_argument("--seed", type=int, default=1, help="which cases --drawn takes")
    out.add_argument("--cold", action="store_true", help="no call finds its inputs in a cache")
    out.add_argument("--double", action="store_true", help="floats of the cases are float64, not float32")
    out.add_argument("--group", choices=tuple(GROUPS), help="one group of cases (default: the first two)")
    out.add_argument("--rounds", type=int, default=15)
    out.add_argument("--threads", type=int, default=len(peers.cores()))
    out.add_argument("--budget", type=float, default=20.0, help="milliseconds a contestant and round")
    out.add_argument("--backend", default="cpu", help="the backend that runs tc's kernels")
    out.add_argument(
        "--isa", choices=tuple(peers.LIMITS), default="", help="for everyone; by default what each finds"
    )
    out.add_argument("--contestants", nargs="+", metavar="NAME", help="these only, tc among them or not")
    out.add_argument("--quick", action="store_true", help="5 rounds, fewer contestants, nothing written")
    out.add_argument("--noisy", action="store_true", help="write results of a machine that others use, too")
    out.add_argument("--list", action="store_true", help="print cases and contestants, and end")
    out.add_argument("--verbose", action="store_true", help="say what is being measured")
    return out


# ---- what a measurement says


def speed(measurement: Measurement, outcome: Outcome | None) -> tuple[float, str] | None:
    """What an outcome reaches: GF/s where arithmetic is the work, else GB/s."""
    if outcome is None or outcome.seconds is None:
        return None
    workload = measurement.case.workload()
    if workload.kind == "compute":
        return workload.flops / outcome.seconds / 1e9, "GF/s"
    return measurement.moved_bytes / outcome.seconds / 1e9, "GB/s"


def share(
    measurement: Measurement, outcome: Outcome | None, peaks: machine_peaks.Peaks
) -> tuple[float, str] | None:
    """The larger of the shares of the multiply-add peak (F) and of the bandwidth for the pattern of access:
    random rows (G), reading (R) or copying (B).

    Products of integers have units of their own, whose peak is not measured.  That of multiply-adds is what
    a loop of them reached in the same rounds: processors that others share have no one peak.
    """
    if outcome is None or outcome.seconds is None:
        return None
    workload = measurement.case.workload()
    ours = measurement.tc
    multiplied, own = (ours.multiplied, ours.gathered) if ours else ((), ())
    peak = peaks.fma_f64 if workload.precision == "double" else peaks.fma_f32
    if len(multiplied) == len(outcome.medians) > 0:  # of the same rounds
        compute = statistics.median(
            workload.flops / s / 1e9 / p for s, p in zip(outcome.medians, multiplied, strict=True)
        )
    else:
        compute = workload.flops / outcome.seconds / 1e9 / peak
    pattern, bandwidth = "B", peaks.bandwidth
    if workload.kind == "gather":
        pattern, bandwidth = "G", statistics.median(own) if own else peaks.gather
    elif workload.read_bytes() >= 0.9 * measurement.moved_bytes:
        pattern, bandwidth = "R", peaks.read
    memory = measurement.moved_bytes / outcome.seconds / 1e9 / bandwidth
    return max((compute if workload.precision else 0.0, "F"), (memory, pattern))


def summary(measurements: Sequence[Measurement], peaks: machine_peaks.Peaks) -> str:
    """The table."""
    rows = []
    for m in measurements:
        ours, best, ratio = m.tc, m.best_peer, m.ratio
        reached, ours_share, peer_share = speed(m, ours), share(m, ours, peaks), share(m, best, peaks)
        rows.append(
            (
                m.case.name,
                best.contestant if best else "–",
                duration(ours.seconds if ours else None),
                duration(best.seconds if best else None),
                f"{ratio.median:.2f}" if ratio else "–",
                f"{ratio.low:.2f}–{ratio.high:.2f}" if ratio else "–",
                figure(reached[0]) if reached else "–",
                reached[1] if reached else "",
                f"{100 * ours_share[0]:.0f} % {ours_share[1]}" if ours_share else "–",
                f"{100 * peer_share[0]:.0f} % {peer_share[1]}" if peer_share else "–",
                _milliseconds(ours),
                _milliseconds(best),
                mebibytes(ours.memory() if ours else None),
                mebibytes(best.memory() if best else None),
            )
        )
    return aligned(HEADER, rows, left=2)


def _milliseconds(outcome: Outcome | None) -> str:
    return figure(1e3 * outcome.compile_s) if outcome and outcome.compile_s is not None else "–"


def everyone(measurements: Sequence[Measurement]) -> str:
    """Times of all contestants; `~` marks those too slow to enter the rounds, `×` those that failed."""
    names = list(dict.fromkeys(o.contestant for m in measurements for o in m.outcomes))

    def cell(outcome: Outcome | None) -> str:
        if outcome is None:
            return ""
        if outcome.failed:
            return "×"
        return ("" if outcome.medians else "~") + duration(outcome.seconds)

    rows = [(m.case.name, *(cell(m.of(n)) for n in names)) for m in measurements]
    return aligned(("µs per call", *names), rows)


def failures(measurements: Sequence[Measurement]) -> list[str]:
    return [
        f"× {m.case.name}: {o.contestant}: {o.failed}" for m in measurements for o in m.outcomes if o.failed
    ]


def verdict(measurements: Sequence[Measurement]) -> str:
    ratios = [m.ratio for m in measurements if m.ratio]
    if not ratios:
        return "no ratios"
    ahead = sum(r.low > 1 for r in ratios)
    behind = sum(r.high < 1 for r in ratios)
    return (
        f"{len(ratios)} ratios: {ahead} above 1, {behind} below, {len(ratios) - ahead - behind} undecided; "
        f"geometric mean {geometric_mean([r.median for r in ratios]):.2f}"
    )


def record(measurement: Measurement, peaks: machine_peaks.Peaks) -> dict[str, Any]:
    """A measurement as a row of the results."""
    m, workload = measurement, measurement.case.workload()
    contestants = {}
    for o in m.outcomes:
        interval, reached, part = m.interval(o.contestant), speed(m, o), share(m, o, peaks)
        contestants[o.contestant] = {
            "failed": o.failed,
            "us": None if o.seconds is None else 1e6 * o.seconds,
            "us_95": [1e6 * interval.low, 1e6 * interval.high] if interval else None,
            "best_us": 1e6 * min(o.bests) if o.bests else None,
            **({"gathered_GBps": statistics.median(o.gathered)} if o.gathered else {}),
            **({"multiplied_GFps": statistics.median(o.multiplied)} if o.multiplied else {}),
            "rounds": len(o.medians),
            "speed": reached,
            "share": part,
            "compile_ms": None if o.compile_s is None else 1e3 * o.compile_s,
            "memory_bytes": o.memory(),
            **o.details,
        }
    return {
        "workload": m.case.name,
        "group": m.case.group,
        "kind": workload.kind,
        "flops": workload.flops,
        "moved_bytes": m.moved_bytes,
        "best_peer": m.best_peer.contestant if m.best_peer else None,
        "ratio": asdict(m.ratio) if m.ratio else None,
        "contestants": contestants,
    }


# ---- the run


def names_for(arguments: argparse.Namespace) -> list[str]:
    """The contestants of a run, tc first."""
    known = [n for n in peers.contestants(arguments.backend, arguments.isa) if n != peers.JUDGE.name]
    if arguments.contestants:
        for name in arguments.contestants:
            if name not in known:
                raise SystemExit(f"there is no contestant {name}; there are {', '.join(known)}")
        return [n for n in known if n in arguments.contestants]
    return [n for n in known if n in QUICK] if arguments.quick else known


def _cases(arguments: argparse.Namespace) -> list[Case]:
    if arguments.at:
        cases = [_found(key) for key in arguments.at]
    elif arguments.drawn:
        cases = draw(arguments.seed, arguments.drawn)
    else:
        cases = select(arguments.group, arguments.only)
    return [replace(c, double=True) for c in cases] if arguments.double else cases


def _found(key: str) -> Case:
    """The case of a family at some sizes."""
    try:
        case = find(key)
        case.workload()
    except (KeyError, TypeError, ValueError):
        known = ", ".join(sorted(FAMILIES))
        raise SystemExit(
            f"{key} is no family with its sizes, such as gemm@16,3000,3000; of {known}"
        ) from None
    return case


def settings_for(arguments: argparse.Namespace) -> Settings:
    return Settings(
        backend=arguments.backend,
        threads=arguments.threads,
        rounds=min(5, arguments.rounds) if arguments.quick else arguments.rounds,
        budget=(5.0 if arguments.quick else arguments.budget) / 1e3,
        beyond=4 * last_cache(),
        cold=arguments.cold,
        isa=arguments.isa,
    )


def last_cache() -> int:
    """Bytes of the largest cache that the system lists, else 32 MiB."""
    from pathlib import Path

    sizes = [0]
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text(encoding="ascii").strip()
        if text[:-1].isdigit() and text[-1] in "KM":
            sizes.append(int(text[:-1]) << (10 if text[-1] == "K" else 20))
    return max(sizes) or 32 << 20


def run(cases: Sequence[Case], names: Sequence[str], settings: Settings, verbose: bool) -> list[Measurement]:
    """Measure all cases; one that no judge can be had for is reported and left out."""
    found = []
    with Race(names, settings) as race:
        for number, case in enumerate(cases, 1):
            sys.stderr.write(f"[{number}/{len(cases)}] {case.name}\n")

            def note(text: str) -> None:
                if verbose:
                    sys.stderr.write(f"    {text}\n")

            try:
                found.append(race.measure(case, note))
            except WorkerError as error:
                sys.stderr.write(f"× {case.name}: {error}\n")
    return found


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    cases = _cases(arguments)
    names = names_for(arguments)
    out = sys.stdout
    if arguments.list:
        out.write("\n".join(f"{c.group:<7} {c.name}" for c in cases) + "\n\n" + " ".join(names) + "\n")
        return 0
    if not cases:
        raise SystemExit("no case has such a name; --list prints them")
    settings = settings_for(arguments)
    others, peaks = Others(), machine_peaks.measure(settings.threads, isa=settings.isa)
    measurements = run(cases, names, settings, arguments.verbose)
    busy = others.share()
    peaks = peaks.better(machine_peaks.measure(settings.threads, isa=settings.isa))
    limit = f"and instructions up to {settings.isa} " if settings.isa else ""
    out.write(
        f"tc on '{settings.backend}', {settings.threads} threads {limit}for everyone, medians of "
        f"{settings.rounds} interleaved rounds; float32 multiply-adds {peaks.fma_f32:.0f} GF/s, "
        f"float64 {peaks.fma_f64:.0f}, copy {peaks.bandwidth:.0f} GB/s, "
        f"read {peaks.read:.0f}, gather {peaks.gather:.0f}\n\n"
    )
    noisy = busy is not None and busy > QUIET
    if noisy:
        out.write(
            f"NOT A QUIET MACHINE: others used {100 * (busy or 0):.0f} % of its processors.  Libraries\n"
            "whose threads wait for each other lose whole time slices then; these ratios say nothing.\n\n"
        )
    out.write(summary(measurements, peaks) + "\n\n" + everyone(measurements) + "\n\n")
    for line in failures(measurements):
        out.write(line + "\n")
    out.write(verdict(measurements) + "\n")
    if noisy and not arguments.quick and not arguments.noisy:
        out.write("nothing written; --noisy writes such results too\n")
    elif not arguments.quick:
        for stem, some in _by_table(arguments, measurements).items():
            rows = {
                "settings": asdict(settings),
                "peaks": peaks.as_dict(),
                "used_by_others": busy,
                "workloads": [record(m, peaks) for m in some],
            }
            out.write(f"written to {_shown(save(stem, rows))}\n")
        try:
            out.write(f"drawn in {_shown(draw_results())}\n")
        except ImportError:
            out.write("no plot: matplotlib is not installed\n")
    return 1 if any(o.failed for m in measurements for o in m.outcomes if not o.peer) else 0


def _by_table(
    arguments: argparse.Namespace, measurements: Sequence[Measurement]
) -> dict[str, list[Measurement]]:
    """What is written to which results: each group to its own, a choice from both to another, and what an
    instruction set limits apart from what machines without more of it have shown."""
    limit = ("_cold" if arguments.cold else "") + (f"_as_{arguments.isa}" if arguments.isa else "")
    limit += "_f64" if arguments.double else ""
    if arguments.at or (arguments.only and not arguments.group):
        return {f"cpu{limit}": list(measurements)}
    out: dict[str, list[Measurement]] = {}
    for m in measurements:
        out.setdefault(f"cpu_{m.case.group}{limit}", []).append(m)
    return out


def _shown(path: Any) -> str:
    return f"benchmarks/results/{path.name}"


if __name__ == "__main__":
    raise SystemExit(main())
