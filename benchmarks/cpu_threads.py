"""How kernels scale over threads, from one to all processors, beside PyTorch's.

python -m benchmarks.cpu_threads [--only TEXT …] [--threads N] [--backend cpu]
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks import peers
from benchmarks.measure import Race, Settings
from benchmarks.record import save
from benchmarks.table import aligned, duration
from benchmarks.workloads import CASES

# One of each sort: compute with much and with little work, rows, columns, streams, look-ups.
DEFAULT = (
    *("tmm 128,1024,1024", "tmm 128,32,256", "tbmm", "gconv 32,32,16", "lut 1e+06", "mlp3", "moments"),
    *("softmax 1024", "layer_norm", "column_sum", "transpose 4096", "chain 1e+07", "gate"),
)


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
    return out


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    cases = [c for c in CASES if any(c.name.startswith(text) for text in arguments.only)]
    times: dict[tuple[str, str, int], float | None] = {}
    numbers = counts(arguments.threads)
    for threads in numbers:
        settings = Settings(arguments.backend, threads, arguments.rounds, hopeless=float("inf"))
        with Race(["tc", "torch"], settings) as race:
            for case in cases:
                for outcome in race.measure(case).outcomes:
                    times[case.name, outcome.contestant, threads] = outcome.seconds
    rows: list[dict[str, Any]] = []
    lines = []
    for case in cases:
        for name in ("tc", "torch"):
            ran = [times.get((case.name, name, t)) for t in numbers]
            first, last = ran[0], ran[-1]
            lines.append(
                (
                    case.name if name == "tc" else "",
                    name,
                    *(duration(s) for s in ran),
                    f"{first / last:.2f}" if first and last else "–",
                )
            )
            rows.append(
                {
                    "workload": case.name,
                    "contestant": name,
                    "us": {str(t): s and 1e6 * s for t, s in zip(numbers, ran, strict=True)},
                }
            )
    out = sys.stdout
    header = ("workload", "µs on", *(f"{t} thread{'s' * (t > 1)}" for t in numbers), "speed-up")
    out.write(aligned(header, lines, left=2) + "\n")
    out.write(f"written to benchmarks/results/{save('cpu_threads', rows).name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
