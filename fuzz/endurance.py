"""Whether memory grows: thousands of compiles and a million calls in one process.

    python -m fuzz.endurance [--compiles 10000] [--calls 1000000] [--seed N]

Programs differ in text, sizes, options and backend; some are refused, some come back from disk.  Calls take
the fast way and the slow one, fail, fill `out=`, make large results, and come from several threads.  After a
warm-up that fills every bounded cache, memory is sampled along the way, and the growth is the slope of a line
through the samples.  The exit code is 1 if one is above its bound.

Memory is what is resident and belongs to the process alone: pages of libraries come in as they are used.
Beside it stands how many blocks Python has allocated, to tell whose memory grows.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SAMPLES = 40  # of a phase

# What a process may grow by.  islpy (2026.2.2, the latest) loses the 32 bytes that wrap each argument isl is
# given to keep: up to 20 KiB in a compile, where a kernel that stays would be 50 KiB and more.
COMPILES_BOUND = 24 << 20  # bytes per 1000 compiles
CALLS_BOUND = 256 << 10  # bytes per million calls


@dataclass(frozen=True)
class Sample:
    """After `count` compiles or calls: bytes, and blocks of Python."""

    count: int
    resident: int
    blocks: int


def sample(count: int) -> Sample:
    """Memory as it is: garbage is collected and free memory given back first."""
    gc.collect()
    _trim(0)
    resident, shared = (int(x) for x in Path("/proc/self/statm").read_text(encoding="ascii").split()[1:3])
    return Sample(count, (resident - shared) * _PAGE, sys.getallocatedblocks())


_trim: Callable[[int], int] = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)


@dataclass(frozen=True)
class Phase:
    """Samples, and what growth is allowed in `unit` compiles or calls."""

    name: str
    unit: int
    bound: int
    samples: Sequence[Sample]
    seconds: float

    @property
    def growth(self) -> float:
        """Bytes in `unit`: the slope of the least squares' line."""
        n = np.array([s.count for s in self.samples], float)
        bytes_ = np.array([s.resident for s in self.samples], float)
        n -= n.mean()
        return float((n * (bytes_ - bytes_.mean())).sum() / (n * n).sum() * self.unit)

    @property
    def good(self) -> bool:
        return self.growth <= self.bound

    def table(self) -> str:
        step = max(1, len(self.samples) // 10)
        shown = [*self.samples[::step], self.samples[-1]]
        rows = [f"{s.count:>12}  {s.resident / 2**20:>10.1f}  {s.blocks:>12}" for s in shown]
        verdict = "" if self.good else "  TOO MUCH"
        return "\n".join(
            [
                f"{self.name:>12}  {'MiB':>10}  {'blocks':>12}",
                *dict.fromkeys(rows),
                f"growth per {self.unit} {self.name}: {self.growth / 1024:.1f} KiB "
                f"(at most {self.bound / 1024:.0f}); {self.seconds:.0f} s{verdict}",
            ]
        )


def measure(
    name: str, count: int, unit: int, bound: int, work: Callable[[int], None], samples: int = _SAMPLES
) -> Phase:
    """Do `work(k)` for k below `count`, and look at memory some `samples` times, not all the time."""
    start = time.perf_counter()
    found = [sample(0)]
    every = max(10, count // samples)
    for k in range(count):
        work(k)
        if (k + 1) % every == 0:
            found.append(sample(k + 1))
    return Phase(name, unit, bound, found, time.perf_counter() - start)


# ---- compiles

_TEMPLATES = (
    "def f{n}(float(M,K) A, float(K,N) B) -> (C) {{ C(i,j) +=! A(i,k) * B(k,j) * {c} }}",
    "def f{n}(float(M,K) A, float(K) x) -> (y, s) {{ y(i) +=! A(i,k) * x(k)\n s max=! y(i) + {c} }}",
    "def f{n}(float(M,N) A) -> (R, t) {{ t(i) max=! A(i,j)\n R(i,j) = exp(A(i,j) - t(i)) * {c} }}",
    "def f{n}(float(M,N) A, int(K) I) -> (B) {{ B(k,j) = A(I(k), j) + {c} }}",
    "def f{n}(double(M) A) -> (B) {{ B(i) = A(i+1) - {c} * A(i-1) }}",
    "def f{n}(int8(M,K) A, int8(N,K) B) -> (C) {{ C(i,j) +=! int(A(i,k)) * int(B(j,k)) + {n} }}",
    "def f{n}(float(M) A) -> (B) {{ B(i) = A(j) * {c} }}",  # refused: a reduction that is not specified
    "def f{n}(float(M) A -> (B) {{ B(i) = A(i) }}",  # no program
)


class Compiles:
    """Compiles number `k`: a program of its own, now and then that of `behind` compiles ago."""

    def __init__(self, seed: int, backends: Sequence[str], behind: int) -> None:
        self.seed, self.backends, self.behind = seed, backends, behind

    def __call__(self, k: int) -> None:
        import tc

        # No longer in memory, but on disk.
        number = k - self.behind if k % 10 == 9 and k >= self.behind else k
        rng = random.Random(f"{self.seed} {number}")
        template = _TEMPLATES[rng.randrange(len(_TEMPLATES))]
        source = template.format(n=number, c=f"{rng.uniform(0.5, 2):.6f}")
        # Halide takes long.
        backend = self.backends[min(rng.randrange(20), len(self.backends) - 1) if rng.random() < 0.25 else 0]
        sizes = {n: rng.randint(3, 70) for n in "MNK" if f"{n}," in source or f"{n})" in source}
        dynamic = ("M",) if backend != "halide" and rng.random() < 0.2 else ()
        options = {"unroll": rng.randint(1, 8)} if backend == "cpu" and rng.random() < 0.2 else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                kernel = tc.compile(source, backend, options=options, dynamic=dynamic, sizes=sizes)
            except (tc.ParseError, tc.SemanticError):
                return
        if rng.random() < 0.5:  # an entry of the fast path lives with the kernel
            arrays = _arguments(kernel, sizes, rng)
            kernel(*arrays)
            kernel(*arrays)


def _arguments(kernel: object, sizes: dict[str, int], rng: random.Random) -> list[object]:
    from tc.tuner.data import make_arguments

    arguments, _ = make_arguments(kernel, sizes, {}, {}, rng.randrange(1 << 30))
    return list(arguments.values())


# ---- calls


class Calls:
    """Makes call number `k`, most of them fast."""

    def __init__(self) -> None:
        import tc

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.axpy = tc.compile(
                "def axpy(float a, float(N) x, float(N) y) -> (z) { z(i) = a * x(i) + y(i) }", "cpu"
            )
            self.pair = tc.compile("def pair(float(N) x) -> (s, m) { s +=! x(i)\n m max=! x(i) }", "cpu")
            self.pick = tc.compile("def pick(float(N) x, int(M) I) -> (o) { o(i) = x(I(i)) }", "cpu")
            self.grow = tc.compile("def grow(float(N) x) -> (o) { o(i) = x(i) + 1 }", "cpu", dynamic=("N",))
        self.x, self.y = np.ones(100, np.float32), np.full(100, 2, np.float32)
        self.out = np.empty(100, np.float32)
        self.wide = np.ones((100, 2), np.float32)
        self.large = np.ones(300_000, np.float32)
        self.good, self.bad = np.zeros(10, np.int32), np.full(10, 200, np.int32)
        self.threads = ThreadPoolExecutor(2)

    def __call__(self, k: int) -> None:
        import tc

        self.axpy(2.0, self.x, self.y)
        match k % 100:
            case 0 | 20 | 40:
                self.pair(self.x)
            case 1 | 21 | 41:
                self.axpy(a=1.0, x=self.x, y=self.y, out=self.out)
            case 2:
                self.axpy(2.0, self.wide[:, 0], self.wide[:, 1])  # not dense
            case 3:
                with suppress(tc.BoundsError):
                    self.pick(self.x, self.bad)
            case 4:
                with suppress(tc.ArgumentError):
                    self.axpy(2.0, self.x, self.y[1:])
            case 5:
                self.grow(self.x[: 1 + k // 100 % 100])  # one machine code, many shapes
            case 6:
                self.grow(self.large)  # its result comes from the pool
            case 7:
                self.threads.submit(self.pair, self.x).result()
            case 8:
                n = k // 100 % 20  # shapes come and go
                self.axpy(2.0, self.x[:n], self.y[:n])
            case _:
                self.pick(self.x, self.good)


# ---- the run


def run(
    compiles: int, calls: int, seed: int, backends: Sequence[str], bounds: tuple[int, int]
) -> Iterator[Phase]:
    """Both phases, each with a warm-up."""
    from tc import kernel

    capacity = kernel.CACHE.capacity
    work = Compiles(seed, backends, 3 * capacity)
    filled = 2 * capacity  # some programs are refused
    for k in range(filled):
        work(k)
    yield measure("compiles", compiles, 1000, bounds[0], lambda k: work(filled + k))
    call = Calls()
    for k in range(max(2000, min(calls // 10, 20_000))):
        call(k)
    yield measure("calls", calls, 1_000_000, bounds[1], call)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.endurance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--compiles", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", action="append", help="by default cpu, reference and halide")
    # Kernels differ in size, so what all together take goes up and down: with tc's own 1024 by megabytes.
    parser.add_argument("--kept", type=int, default=128, help="how many kernels are kept in memory (128)")
    for name, bound in (("compiles", COMPILES_BOUND), ("calls", CALLS_BOUND)):
        help = f"KiB that 1000 compiles, a million calls may cost ({bound // 1024})"
        parser.add_argument(f"--{name}-bound", type=int, default=bound // 1024, help=help)
    chosen = parser.parse_args(argv)
    bounds = chosen.compiles_bound * 1024, chosen.calls_bound * 1024
    with tempfile.TemporaryDirectory(prefix="tc-endurance-") as folder:
        os.environ.update(TC_CACHE_DIR=folder, TC_CACHE_MIB="16", TC_CACHE="1", TC_VERIFY="0")
        from tc import kernel
        from tc.registry import availability

        kernel.CACHE.capacity = chosen.kept
        backends = chosen.backend or [b for b in ("cpu", "reference", "halide") if availability(b).ok]
        good = True
        for phase in run(chosen.compiles, chosen.calls, chosen.seed, backends, bounds):
            print(phase.table(), flush=True)
            good &= phase.good
        on_disk = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file())
        print(f"on disk: {on_disk / 2**20:.1f} MiB of 16; kernels in memory: {len(kernel.CACHE._values)}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
