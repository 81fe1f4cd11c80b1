"""Sizes from 1 to 4096, odd ones included: time per operation, and where a neighbour is much slower.

    python -m benchmarks.cpu_sweep [--families NAME …] [--most 4096] [--every N] [--backend cpu]

A cliff is a size whose time per operation is more than 1.5 times that of a size next to it, from four vector
widths upward; below, fixed costs rule.  Sizes that differ by one or by a twentieth count as neighbours.  Both
are measured again before it is called one, then several times in turn, and the median of their ratios counts:
what shares the processor's core makes a kernel of a microsecond twice as slow for a second at a time, at
every size alike.  PyTorch runs in the same rounds.  MiB is the memory of a call, results included.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import peers
from benchmarks.measure import Race, Settings
from benchmarks.peaks import vector_bytes
from benchmarks.record import save, saved
from benchmarks.table import aligned, duration, figure, mebibytes
from benchmarks.workloads import find

# {name: (family, its sizes at width n)}.  The other dimensions are small, so that the swept one decides.
SWEEPS: dict[str, tuple[str, Callable[[int], tuple[int, ...]]]] = {
    "gemm": ("gemm", lambda n: (n, n, n)),
    "few_rows": ("gemm", lambda n: (16, n, n)),
    "softmax": ("softmax_plain", lambda n: (64, n)),
    "row_sum": ("row_sum", lambda n: (64, n)),
    "conv1d": ("conv1d", lambda n: (4, 16, 16, n + 4, 5)),
    "conv2d": ("conv2d", lambda n: (1, 16, 16, 6, n + 2)),
    "add": ("add", lambda n: (n,)),
}

HEADER = ("size", "tc µs", "ps/operation", "torch µs", "ratio", "tc MiB", "torch MiB")
_AGAIN = 2  # times that the sizes beside a cliff are measured again
_TURNS = 5  # times that the two sizes of what still looks like one are measured in turn
_LIMIT = 1.5


@dataclass(frozen=True, slots=True)
class Sample:
    size: int
    seconds: float
    per_operation: float
    peer_seconds: float | None
    memory: int | None = None  # bytes of a call
    peer_memory: int | None = None

    def cells(self) -> tuple[str, ...]:
        return (
            str(self.size),
            duration(self.seconds),
            figure(1e12 * self.per_operation),
            duration(self.peer_seconds),
            f"{self.peer_seconds / self.seconds:.2f}" if self.peer_seconds else "–",
            mebibytes(self.memory),
            mebibytes(self.peer_memory),
        )


def sizes(most: int = 4096) -> list[int]:
    """Small sizes all, then around powers of two and half-way between, odd ones and primes among them."""
    found = set(range(1, 18))
    for power in range(4, 13):
        n = 1 << power
        found |= {n - 1, n, n + 1, n + n // 2 - 1, n + n // 2, n + n // 2 + 1, n + n // 4 + 1}
    found |= {100, 127, 251, 509, 1000, 1003, 1009, 1013, 2003, 3001, 4093, 4095, 4096}
    return sorted(n for n in found if n <= min(most, 4096))


Cliff = tuple[int, int, float]
"""Slow size, its faster neighbour, how many times slower per operation."""


def cliffs(samples: Sequence[Sample], lanes: int) -> list[Cliff]:
    """What looks like cliffs."""
    found: list[Cliff] = []
    ordered = [s for s in sorted(samples, key=lambda s: s.size) if s.size >= 4 * lanes]
    for i, a in enumerate(ordered):
        for b in ordered[i + 1 :]:
            if b.size > a.size + max(1, a.size // 20):
                break
            slow, fast = (a, b) if a.per_operation > b.per_operation else (b, a)
            factor = slow.per_operation / fast.per_operation
            if factor > _LIMIT:
                found.append((slow.size, fast.size, factor))
    return found


def sample(name: str, n: int, race: Race) -> Sample | str:
    """Measure a family at one size; or why it failed."""
    family, at = SWEEPS[name]
    case = find(f"{family}@{','.join(str(s) for s in at(n))}")
    measured = race.measure(case)
    ours, best = measured.tc, measured.best_peer
    if ours is None or ours.seconds is None:
        return f"× {name} {n}: {ours.failed if ours else 'no tc'}"
    work = case.workload().flops
    peer = (best.seconds, best.memory()) if best else (None, None)
    return Sample(n, ours.seconds, ours.seconds / work, peer[0], ours.memory(), peer[1])


def sweep(
    name: str, numbers: Sequence[int], race: Race, lanes: int
) -> tuple[list[Sample], list[Cliff], list[str]]:
    """Measure a family over sizes; its cliffs, and what failed, told apart."""
    found = {n: sample(name, n, race) for n in numbers}

    def measured() -> list[Sample]:
        return [s for s in found.values() if isinstance(s, Sample)]

    def again(n: int) -> Sample | None:
        before, now = found[n], sample(name, n, race)
        if not isinstance(before, Sample) or not isinstance(now, Sample):
            return None
        # Nothing makes a kernel faster than it is.
        found[n] = min(before, now, key=lambda s: s.seconds)
        return now

    for _ in range(_AGAIN):
        for n in sorted({n for slow, fast, _ in cliffs(measured(), lanes) for n in (slow, fast)}):
            again(n)
    steep: list[Cliff] = []
    for slow, fast, _ in cliffs(measured(), lanes):
        pairs = [(again(slow), again(fast)) for _ in range(_TURNS)]
        ratios = [a.per_operation / b.per_operation for a, b in pairs if a is not None and b is not None]
        if ratios and (factor := statistics.median(ratios)) > _LIMIT:
            steep.append((slow, fast, factor))
    return measured(), steep, [s for s in found.values() if isinstance(s, str)]


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="python -m benchmarks.cpu_sweep",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("--families", nargs="+", choices=tuple(SWEEPS), default=list(SWEEPS))
    out.add_argument("--most", type=int, default=4096)
    out.add_argument("--every", type=int, default=1, help="every n-th size only")
    out.add_argument("--rounds", type=int, default=5)
    out.add_argument("--budget", type=float, default=4.0, help="milliseconds a contestant and round")
    out.add_argument("--threads", type=int, default=len(peers.cores()))
    out.add_argument("--backend", default="cpu")
    out.add_argument("--alone", action="store_true", help="without PyTorch")
    return out


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    settings = Settings(
        backend=arguments.backend,
        threads=arguments.threads,
        rounds=arguments.rounds,
        budget=arguments.budget / 1e3,
        warm=1e-3,
        hopeless=float("inf"),
    )
    numbers, out = sizes(arguments.most)[:: arguments.every], sys.stdout
    lanes = vector_bytes() // 4
    rows: list[dict[str, Any]] = []
    steep = 0
    with Race(["tc"] if arguments.alone else ["tc", "torch"], settings) as race:
        for name in arguments.families:
            samples, found, failed = sweep(name, numbers, race, lanes)
            steep += len(found)
            out.write(f"{name} ({', '.join(str(n) for n in SWEEPS[name][1](64))} at 64)\n")
            out.write(aligned(HEADER, [s.cells() for s in samples], left=0) + "\n")
            for slow, fast, factor in found:
                out.write(f"cliff: {slow} takes {factor:.2f} times as long per operation as {fast}\n")
            out.write("".join(line + "\n" for line in failed) + "\n")
            out.flush()
            rows += [
                {
                    "family": name,
                    "size": s.size,
                    "us": 1e6 * s.seconds,
                    "ps_per_operation": 1e12 * s.per_operation,
                    "torch_us": None if s.peer_seconds is None else 1e6 * s.peer_seconds,
                    "memory_bytes": s.memory,
                    "torch_memory_bytes": s.peer_memory,
                }
                for s in samples
            ]
            rows += [
                {"family": name, "cliff": [slow, fast], "factor": factor} for slow, fast, factor in found
            ]
    # Families that did not run keep what they had.
    rows = [r for r in saved("cpu_sweep") if r["family"] not in arguments.families] + rows
    out.write(f"{steep} cliffs\nwritten to benchmarks/results/{save('cpu_sweep', rows).name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
