"""What this machine can do at best: multiply-adds, copies, reads, and gathers of random rows.

The loops are LLVM text compiled in process with the widest vectors there are, and run on as many threads as
are asked for, each on its own part of memory; ctypes lets go of the interpreter's lock while they run.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.table import aligned
from tc.codegen.llvm_jit import MachineCode, compile_text, host_cpu

SIZES = {"float": 4, "double": 8}
WIDTHS = {"avx2": 32}  # bytes of the vectors of instruction sets that can be asked for


@dataclass(frozen=True, slots=True)
class Peaks:
    """Per second, on `threads` threads: floating-point operations and bytes, by 1e9."""

    threads: int
    fma_f32: float
    fma_f64: float
    copy: float  # bytes read and bytes written together
    copy_nontemporal: float
    read: float
    gather: float  # 256-byte rows at random from a table larger than the caches

    @property
    def bandwidth(self) -> float:
        """The better of the two copies: the bound of kernels that move memory."""
        return max(self.copy, self.copy_nontemporal)

    def better(self, other: Peaks) -> Peaks:
        """Each figure of whichever has more: what disturbs a measurement never makes it faster."""
        return Peaks(**{k: max(v, getattr(other, k)) for k, v in asdict(self).items()})

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def vector_bytes(isa: str = "") -> int:
    """The widest vectors of an instruction set, by default of this processor."""
    if isa:
        return WIDTHS[isa]
    features = set(host_cpu()[1].split(","))
    if "+avx512f" in features:
        return 64
    return 32 if "+avx" in features else 16


def _fma(kind: str, width: int) -> tuple[str, int]:
    """A loop of independent chains of multiply-adds in registers; and its operations per iteration.

    Twelve chains cover the latency of two units; narrower vectors come with sixteen registers only.
    """
    chains = 12 if width == 64 else 10
    lanes = width // SIZES[kind]
    vector, suffix = f"<{lanes} x {kind}>", f"v{lanes}f{8 * SIZES[kind]}"
    names = range(chains)
    starts = "\n".join(
        f"  %s{c} = insertelement {vector} poison, {kind} {c}.5, i32 0\n"
        f"  %a{c} = shufflevector {vector} %s{c}, {vector} poison, <{lanes} x i32> zeroinitializer"
        for c in names
    )
    phis = "\n".join(f"  %x{c} = phi {vector} [%a{c}, %entry], [%y{c}, %loop]" for c in names)
    work = "\n".join(
        f"  %y{c} = call {vector} @llvm.fma.{suffix}({vector} %x{c}, {vector} %m, {vector} %m)" for c in names
    )
    sums = "\n".join(f"  %t{c} = fadd {vector} {'%m' if c == 0 else f'%t{c - 1}'}, %y{c}" for c in names)
    text = f"""
declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})
define void @run(ptr %to, ptr %from, i64 %n) {{
entry:
  %m1 = insertelement {vector} poison, {kind} 0.5, i32 0
  %m = shufflevector {vector} %m1, {vector} poison, <{lanes} x i32> zeroinitializer
{starts}
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{phis}
{work}
  %next = add i64 %i, 1
  %go = icmp slt i64 %next, %n
  br i1 %go, label %loop, label %done
done:
{sums}
  store {vector} %t{chains - 1}, ptr %to, align {SIZES[kind]}
  ret void
}}
"""
    return text, chains * lanes * 2


def _stream(width: int, *, write: bool, nontemporal: bool = False) -> str:
    """Copy (or only read) n blocks of four vectors."""
    lanes = width // 4
    vector = f"<{lanes} x float>"
    step = 4 * width
    loads = "\n".join(
        f"  %p{k} = getelementptr i8, ptr %f, i64 {k * width}\n"
        f"  %v{k} = load {vector}, ptr %p{k}, align {width}"
        for k in range(4)
    )
    hint = ", !nontemporal !0" if nontemporal else ""
    stores = "\n".join(
        f"  %q{k} = getelementptr i8, ptr %t, i64 {k * width}\n"
        f"  store {vector} %v{k}, ptr %q{k}, align {width}{hint}"
        for k in range(4)
    )
    phis = "\n".join(f"  %x{k} = phi {vector} [zeroinitializer, %entry], [%y{k}, %loop]" for k in range(4))
    adds = "\n".join(f"  %y{k} = fadd {vector} %x{k}, %v{k}" for k in range(4))
    ends = "\n".join(
        f"  %q{k} = getelementptr i8, ptr %to, i64 {k * width}\n"
        f"  store {vector} %y{k}, ptr %q{k}, align {width}"
        for k in range(4)
    )
    return f"""
define void @run(ptr %to, ptr %from, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{"" if write else phis}
  %o = mul i64 %i, {step}
  %f = getelementptr i8, ptr %from, i64 %o
  %t = getelementptr i8, ptr %to, i64 %o
{loads}
{stores if write else adds}
  %next = add i64 %i, 1
  %go = icmp slt i64 %next, %n
  br i1 %go, label %loop, label %done
done:
{"" if write else ends}
  ret void
}}
!0 = !{{i32 1}}
"""


ROW = 256  # bytes
_LINE = 64


def _ahead(row: int) -> int:
    """How many rows are prefetched before they are summed: 64 lines, more than a core waits for at a time."""
    return max(4, 64 // -(-row // _LINE))


def _gather(width: int, row: int) -> str:
    """Sum n rows of `row` bytes whose addresses come from %from (8 bytes each, and of the next rows that are
    prefetched) into %to."""
    width = min(width, 1 << (row.bit_length() - 1))
    lanes, parts = max(1, width // 4), max(1, row // width)
    vector = f"<{lanes} x float>"
    phis = "\n".join(
        f"  %x{k} = phi {vector} [zeroinitializer, %entry], [%y{k}, %loop]" for k in range(parts)
    )
    adds = "\n".join(
        f"  %p{k} = getelementptr i8, ptr %row, i64 {k * width}\n"
        f"  %v{k} = load {vector}, ptr %p{k}, align 4\n"
        f"  %y{k} = fadd {vector} %x{k}, %v{k}"
        for k in range(parts)
    )
    fetches = "\n".join(
        f"  %h{k} = getelementptr i8, ptr %later, i64 {_LINE * k}\n"
        f"  call void @llvm.prefetch.p0(ptr %h{k}, i32 0, i32 3, i32 1)"
        for k in range(-(-row // _LINE))
    )
    ends = "\n".join(
        f"  %q{k} = getelementptr i8, ptr %to, i64 {k * width}\n  store {vector} %y{k}, ptr %q{k}, align 4"
        for k in range(parts)
    )
    return f"""
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define void @run(ptr %to, ptr %from, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{phis}
  %a = getelementptr ptr, ptr %from, i64 %i
  %row = load ptr, ptr %a, align 8
  %b = getelementptr ptr, ptr %a, i64 {_ahead(row)}
  %later = load ptr, ptr %b, align 8
{fetches}
{adds}
  %next = add i64 %i, 1
  %go = icmp slt i64 %next, %n
  br i1 %go, label %loop, label %done
done:
{ends}
  ret void
}}
"""


def _aligned(nbytes: int) -> np.ndarray:
    """Memory that begins at a cache line, every page of it touched."""
    raw = np.ones(nbytes // 4 + 16, np.float32)
    start = (-raw.ctypes.data % 64) // 4
    return raw[start : start + nbytes // 4]


Part = tuple[int, int, int]


def _time(code: MachineCode, parts: Sequence[Part], repeats: int) -> float:
    """The least seconds in which every part (to, from, count) is done, each on a thread of its own."""
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(code.address)
    if len(parts) == 1:
        return min(_once(lambda: run(*parts[0])) for _ in range(repeats))
    gate = threading.Barrier(len(parts))
    spans: list[list[tuple[float, float]]] = [[] for _ in parts]

    def work(part: Part, span: list[tuple[float, float]]) -> None:
        for _ in range(repeats):
            gate.wait()
            start = time.perf_counter()
            run(*part)
            span.append((start, time.perf_counter()))

    # The clock is read by those who work: with every processor busy a spectator would wake late.
    workers = [threading.Thread(target=work, args=args) for args in zip(parts, spans, strict=True)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    return min(max(end for _, end in r) - min(start for start, _ in r) for r in zip(*spans, strict=True))


def _once(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(threads: int = 1, *, isa: str = "", megabytes: int = 256, repeats: int = 9) -> Peaks:
    """All of them, in a few seconds; `megabytes` is the length of what is copied and read: many
    times the last cache, which still has some of twice its size."""
    width = vector_bytes(isa)
    single, double = (Multiplies(kind, threads, 0.020, width).rate(repeats) for kind in SIZES)
    copy, nontemporal, read = _bandwidths(threads, width, megabytes << 20, repeats)
    return Peaks(threads, single, double, copy, nontemporal, read, _gathered(threads, width, repeats))


class Multiplies:
    """Multiply-adds of registers, on every thread for about so many seconds a time."""

    def __init__(self, kind: str, threads: int, seconds: float, width: int) -> None:
        text, self.flops = _fma(kind, width)
        self.code = compile_text(text, "run")
        self.results = np.zeros((threads, 64), np.float64)
        # A first, short run tells how many iterations last so long.
        trial = 50_000
        taken = _time(self.code, [(self.results[0].ctypes.data, 0, trial)], 3)
        self.count = max(trial, int(trial * seconds / taken))

    def rate(self, repeats: int) -> float:
        """10^9 operations per second, the best of some tries."""
        parts = [(r.ctypes.data, 0, self.count) for r in self.results]
        return len(parts) * self.count * self.flops / _time(self.code, parts, repeats) / 1e9


def _bandwidths(threads: int, width: int, length: int, repeats: int) -> tuple[float, float, float]:
    """Copy, copy that bypasses the caches, read."""
    block = 4 * width
    blocks = length // block // threads
    source, target = _aligned(length), _aligned(length)
    sums = _aligned(threads * block)

    def rate(text: str, to: Sequence[int], directions: int) -> float:
        parts = [(to[t], source.ctypes.data + t * blocks * block, blocks) for t in range(threads)]
        return directions * threads * blocks * block / _time(compile_text(text, "run"), parts, repeats) / 1e9

    pieces = [target.ctypes.data + t * blocks * block for t in range(threads)]
    return (
        rate(_stream(width, write=True), pieces, 2),
        rate(_stream(width, write=True, nontemporal=True), pieces, 2),
        rate(_stream(width, write=False), [sums.ctypes.data + t * block for t in range(threads)], 1),
    )


def _gathered(threads: int, width: int, repeats: int) -> float:
    table = _aligned(1_000_000 * ROW).reshape(-1, ROW // 4)
    return Gather([table], threads, width).rate(200_000, repeats)


class Gather:
    """Sums of random rows of the tables of a workload, where they lie: how their pages are placed, under a
    hypervisor above all, decides over a quarter of what can be read of them."""

    def __init__(self, tables: Sequence[np.ndarray], threads: int, width: int) -> None:
        self.tables, self.threads = tables, threads
        self.row = max(t[0].nbytes for t in tables)
        self.code = compile_text(_gather(width, self.row), "run")
        self.rng = np.random.default_rng(1)

    def rate(self, count: int, repeats: int) -> float:
        """10^9 bytes per second, the best of some tries; every thread reads `count` rows, new ones each time,
        so that no cache has them.  Of a row shorter than a cache line the line is counted."""
        best = float("inf")
        for _ in range(repeats):
            rows = [self._rows(count + _ahead(self.row)) for _ in range(self.threads)]
            sums = [np.zeros(self.row // 4 + 16, np.float32) for _ in range(self.threads)]
            parts = [(s.ctypes.data, r.ctypes.data, count) for s, r in zip(sums, rows, strict=True)]
            best = min(best, _time(self.code, parts, 1))
        return self.threads * count * max(self.row, _LINE) / best / 1e9

    def _rows(self, count: int) -> np.ndarray:
        """Addresses of random rows of all tables."""
        chosen = [
            t.ctypes.data + t.strides[0] * self.rng.integers(0, len(t), -(-count // len(self.tables)))
            for t in self.tables
        ]
        return np.stack(chosen, axis=1).reshape(-1)[:count].copy()


def main(argv: list[str] | None = None) -> int:
    out = sys.stdout
    out.write(f"{8 * vector_bytes()}-bit vectors; best of 9\n")
    header = ("threads", "f32 GF/s", "f64 GF/s", "copy", "nt copy", "read", "gather GB/s")
    rows = []
    from benchmarks.peers import cores

    for threads in sorted({1, len(cores())}):
        p = measure(threads)
        figures = (p.fma_f32, p.fma_f64, p.copy, p.copy_nontemporal, p.read, p.gather)
        rows.append((str(threads), *(f"{f:.1f}" for f in figures)))
    out.write(aligned(header, rows, left=0) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
