"""How kernels scale over threads, from one to all processors, beside PyTorch's.

    python -m benchmarks.cpu_threads [--only TEXT …] [--threads N] [--backend cpu]
    python -m benchmarks.cpu_threads --busy N

Columns: microseconds on each number of threads, the speed-up of the last, and the memory of a call on that
many, results included.

--busy N measures twice, alone and beside N processes that do nothing but spin, on up to twice as many threads
as there are processors: an oversubscribed machine.  For each number of threads there are microseconds alone
and how many times as long it takes beside them; N processes more on so many processors leave a fair share of
processors / (processors + N) to those that use all.  These results are in cpu_threads_busy.json.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks import peers
from benchmarks.measure import Outcome, Race, Settings
from benchmarks.record import save
from benchmarks.table import aligned, duration, mebibytes
from benchmarks.workloads import CASES
from benchmarks.workloads.model import Case

# One of each sort: compute with much and with little work, rows, columns, streams, look-ups.
DEFAULT = (
    *("tmm 128,1024,1024", "tmm 128,32,256", "tbmm", "gconv 32,32,16", "lut 1e+06", "mlp3", "moments 1024"),
    *("softmax 1024", "softmax_plain 1,1e+07", "layer_norm", "column_sum", "transpose 4096"),
    *("chain 1e+07", "gate"),
)
CONTESTANTS = ("tc", "torch")

Outcomes = dict[tuple[str, str, int], Outcome]
"""By workload, contestant and number of threads."""


def counts(most: int) -> list[int]:
    """1, 2, 4, … and the number itself."""
    found = {1, most}
    n = 2
    while n < most:
        found.add(n)
        n *= 2
    return sorted(found)


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="python -m benchmarks.cpu_threads",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("--only", nargs="+", metavar="TEXT", default=list(DEFAULT))
    out.add_argument("--threads", type=int, default=len(peers.cores()), help="up to this many")
    out.add_argument("--rounds", type=int, default=9)
    out.add_argument("--backend", default="cpu")
    out.add_argument("--busy", type=int, metavar="N", help="also beside N processes that spin")
    return out


@contextmanager
def spinning(count: int) -> Generator[None, None, None]:
    """So many processes that spin meanwhile."""
    ones = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in ones:
            one.kill()
            one.wait()


def measure(cases: Sequence[Case], numbers: Sequence[int], rounds: int, backend: str) -> Outcomes:
    found: Outcomes = {}
    for threads in numbers:
        settings = Settings(backend, threads, rounds, hopeless=float("inf"))
        with Race(CONTESTANTS, settings) as race:
            for case in cases:
                for outcome in race.measure(case).outcomes:
                    found[case.name, outcome.contestant, threads] = outcome
    return found


def seconds(found: Outcomes, name: str, contestant: str, threads: int) -> float | None:
    outcome = found.get((name, contestant, threads))
    return outcome.seconds if outcome else None


def header(numbers: Sequence[int]) -> tuple[str, ...]:
    each = (f"{t} thread{'s' * (t > 1)}" for t in numbers)
    return ("workload", "µs on", *each, "speed-up", "MiB")


def header_of_busy(numbers: Sequence[int]) -> tuple[str, ...]:
    each = (x for t in numbers for x in (f"{t} thread{'s' * (t > 1)}", "beside"))
    return ("workload", "µs on", *each, "MiB")


def table(names: Sequence[str], numbers: Sequence[int], alone: Outcomes) -> str:
    lines: list[tuple[str, ...]] = []
    for name in names:
        for who in CONTESTANTS:
            ran = [seconds(alone, name, who, t) for t in numbers]
            first, last = ran[0], ran[-1]
            speed_up = f"{first / last:.2f}" if first and last else "–"
            first_cell = name if who == CONTESTANTS[0] else ""
            lines.append((first_cell, who, *map(duration, ran), speed_up, _memory(alone, name, who, numbers)))
    return aligned(header(numbers), lines, left=2)


def table_of_busy(names: Sequence[str], numbers: Sequence[int], alone: Outcomes, beside: Outcomes) -> str:
    lines: list[tuple[str, ...]] = []
    for name in names:
        for who in CONTESTANTS:
            cells: list[str] = []
            for t in numbers:
                before, after = seconds(alone, name, who, t), seconds(beside, name, who, t)
                cells += [duration(before), f"{after / before:.2f}×" if before and after else "–"]
            first_cell = name if who == CONTESTANTS[0] else ""
            lines.append((first_cell, who, *cells, _memory(alone, name, who, numbers)))
    return aligned(header_of_busy(numbers), lines, left=2)


def _memory(found: Outcomes, name: str, contestant: str, numbers: Sequence[int]) -> str:
    outcome = found.get((name, contestant, numbers[-1]))
    return mebibytes(outcome.memory() if outcome else None)


def record(
    names: Sequence[str], numbers: Sequence[int], alone: Outcomes, beside: Outcomes | None, busy: int
) -> list[dict[str, Any]]:
    """Rows of the results."""
    rows: list[dict[str, Any]] = []
    for name in names:
        for who in CONTESTANTS:

            def us(found: Outcomes, name: str = name, who: str = who) -> dict[str, float | None]:
                times = {t: seconds(found, name, who, t) for t in numbers}
                return {str(t): None if s is None else 1e6 * s for t, s in times.items()}

            outcomes = {t: alone.get((name, who, t)) for t in numbers}
            rows.append(
                {
                    "workload": name,
                    "contestant": who,
                    "us": us(alone),
                    "memory_bytes": {str(t): o.memory() if o else None for t, o in outcomes.items()},
                    **({"busy": busy, "busy_us": us(beside)} if beside is not None else {}),
                }
            )
    return rows


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    cases = [c for c in CASES if any(c.name.startswith(text) for text in arguments.only)]
    names, numbers = [c.name for c in cases], counts(arguments.threads)
    how = (arguments.rounds, arguments.backend)
    out = sys.stdout
    if arguments.busy:
        numbers = sorted({*numbers, 2 * len(peers.cores())})
        alone = measure(cases, numbers, *how)
        with spinning(arguments.busy):
            beside = measure(cases, numbers, *how)
        out.write(
            f"beside: beside {arguments.busy} processes that spin, on {len(peers.cores())} processors\n\n"
        )
        out.write(table_of_busy(names, numbers, alone, beside) + "\n")
        written = save("cpu_threads_busy", record(names, numbers, alone, beside, arguments.busy))
    else:
        alone = measure(cases, numbers, *how)
        out.write(table(names, numbers, alone) + "\n")
        written = save("cpu_threads", record(names, numbers, alone, None, 0))
    out.write(f"written to benchmarks/results/{written.name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
