"""CUDA text run on the host, with every load and store watched.

`run(text, kernel, grid, block, args)` compiles a CUDA C++ text with the system's compiler ($CXX, else g++)
against simt.h, runs one kernel on NumPy arrays, and returns what it found; `check(text, launches)` runs
several kernels one after the other on the same arrays, once in each order of the threads.  README.md says
what is modelled.

    findings = check(text, [("k", 8, 256, [a, b, np.int32(n)])])
    assert not findings, report(findings)
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import re
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

_HERE = Path(__file__).parent
_TC = _HERE.parent.parent / "tc"

Order = Literal["ascending", "descending"] | int
"""How the threads of a block, and the blocks, take their turns; a number is the seed of a random order."""

ORDERS: tuple[Order, ...] = ("ascending", "descending", 1)

STEPS = 1 << 26
"""Basic blocks that a thread may run without waiting or ending."""


class Kind(StrEnum):
    """What can be wrong; the first fourteen in the runtime's order."""

    RACE = "race"
    UNINITIALISED = "uninitialised read"
    OUT_OF_BOUNDS = "out of bounds"
    INDEX = "index out of range"
    MISALIGNED = "misaligned access"
    BARRIER = "divergent barrier"
    WARP = "divergent warp operation"
    SHUFFLE = "shuffle from an absent lane"
    UNFINISHED_COPY = "asynchronous copy not waited for"
    FOREIGN_STACK = "access to another thread's local memory"
    STATIC = "access to static memory (not modelled)"
    NO_PROGRESS = "no progress"
    TRAP = "trap"
    BAD_COPY = "malformed asynchronous copy"
    ORDER = "result depends on the order of the threads"


_KINDS = tuple(Kind)
_WHAT = (
    "read", "written", "updated atomically", "copied to asynchronously",
    "waits at a barrier", "waits at a warp operation", "has ended", "runs",
    "exchanged atomically",
)  # fmt: skip


class BuildError(Exception):
    """The compiler refuses the text, or it holds inline PTX that is not modelled."""


@dataclass(frozen=True, slots=True)
class Access:
    """One side of a finding.  `block` and `thread` count in a row, x fastest; lines count from 1."""

    block: int
    thread: int
    what: str
    line: int | None
    """In the text; the innermost where functions were inlined.  None for a thread that has ended."""
    callers: tuple[int, ...] = ()
    """The lines that the line was inlined into, inwards out."""


@dataclass(frozen=True, slots=True)
class Finding:
    kind: Kind
    kernel: str
    first: Access | None
    """Who was running when it was found."""
    second: Access | None = None
    """The other side of a race, or a thread that waits elsewhere."""
    array: str | None = None
    """A kernel's parameter or a shared array."""
    offset: int | None = None
    """In bytes from the array's beginning; negative or too large where it was left."""
    index: tuple[int, ...] | None = None
    note: str = ""
    count: int = 1
    """How often: the same lines and the same array are one finding."""
    order: Order = "ascending"
    source: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @property
    def line(self) -> int | None:
        return self.first.line if self.first else None

    @property
    def lines(self) -> frozenset[int | None]:
        """The lines of both sides."""
        return frozenset(a.line for a in (self.first, self.second) if a)

    def __str__(self) -> str:
        place = ""
        if self.array is not None:
            index = (
                "".join(f"[{i}]" for i in self.index) if self.index is not None else f" + {self.offset} bytes"
            )
            place = f" on {self.array}{index}"
        note = f" ({self.note})" if self.note else ""
        times = f", {self.count} times" if self.count > 1 else ""
        out = [f"{self.kind} in {self.kernel}{place}{note}{times}"]
        for a in (self.first, self.second):
            if a is None:
                continue
            out.append(f"  thread {a.thread} of block {a.block}: {a.what}")
            for n in (a.line, *a.callers):
                if n is not None:
                    text = self.source[n - 1].strip() if 0 < n <= len(self.source) else ""
                    out.append(f"    line {n}: {text}")
        return "\n".join(out)


class Launch(NamedTuple):
    kernel: str
    grid: int | Sequence[int]
    block: int | Sequence[int]
    args: Sequence[Any]
    """Arrays (C-contiguous), numbers of NumPy of just the parameter's type, or int, float and bool; None is a
    null pointer."""
    shared: int = 0
    """Bytes of `extern __shared__` memory."""


def report(findings: Iterable[Finding]) -> str:
    return "\n".join(map(str, findings))


# ---- The text.


def without_comments(text: str) -> str:
    """The text with blanks for comments; lines and columns stay."""

    def blank(m: re.Match[str]) -> str:
        return m[0] if m[0][0] in "\"'" else re.sub(r"[^\n]", " ", m[0])

    return re.sub(
        r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', blank, text, flags=re.DOTALL
    )


def _end(text: str, start: int) -> int:
    """Behind the parenthesis that closes the one at `start`."""
    depth = 0
    for m in re.compile(r'"(?:\\.|[^"\\\n])*"|[()]').finditer(text, start):
        depth += {"(": 1, ")": -1}.get(m[0], 0)
        if depth == 0:
            return m.end()
    raise BuildError(f"line {text.count(chr(10), 0, start) + 1}: a parenthesis is not closed")


def _split(text: str, separator: str) -> list[str]:
    """Split outside strings, parentheses and brackets."""
    parts, depth, last = [], 0, 0
    for m in re.finditer(r'"(?:\\.|[^"\\\n])*"|.', text, re.DOTALL):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(m[0], 0)
        if m[0] == separator and depth == 0:
            parts.append(text[last : m.start()])
            last = m.end()
    return [*parts, text[last:]]


_CP_ASYNC = re.compile(r"cp\.async\.(ca|cg)\.shared(?:::cta)?\.global(?:\.L2::\w+)?\s+(.*)", re.DOTALL)


_EXTREMA = {"min.NaN.f32": "simt::min_nan", "max.NaN.f32": "simt::max_nan"}
_CONVERSIONS = {"cvt.rn.f16.f32": "simt::f16_of_f32", "cvt.f32.f16": "simt::f32_of_f16"}


def _instruction(ptx: str, operands: list[str]) -> str:
    """A PTX instruction as an expression of C++ (PTX ISA 8; 9.7.9.25: cp.async, 9.7.9.21: cvt,
    9.7.3: max)."""

    def operand(s: str) -> str:
        s = s.strip().removeprefix("[").removesuffix("]").strip()
        return re.sub(r"%(\d+)", lambda m: f"({operands[int(m[1])]})", s)

    if m := _CP_ASYNC.fullmatch(ptx):
        parts = [operand(p) for p in _split(m[2], ",")]
        if len(parts) in (3, 4) and not (m[1] == "cg" and parts[2].strip("()") != "16"):
            return f"simt::async_copy({', '.join([*parts, parts[2]][:4])})"
    if ptx == "cp.async.commit_group":
        return "simt::async_commit()"
    if m := re.fullmatch(r"cp\.async\.wait_group\s+(.+)", ptx):
        return f"simt::async_wait({operand(m[1])})"
    if ptx == "cp.async.wait_all":
        return "simt::async_wait(-1)"
    name, _, rest = ptx.partition(" ")
    if name in _CONVERSIONS and len(parts := [operand(p) for p in _split(rest, ",")]) == 2:
        return f"{parts[0]} = {_CONVERSIONS[name]}({parts[1]})"
    if name in _EXTREMA and len(parts := [operand(p) for p in _split(rest, ",")]) == 3:
        return f"{parts[0]} = {_EXTREMA[name]}({parts[1]}, {parts[2]})"
    raise BuildError(f"this PTX is not modelled: {ptx}")


def _without_asm(text: str) -> str:
    """Inline PTX, which no host assembler takes, as calls of the runtime; lines stay."""
    out, last = [], 0
    for m in re.finditer(r"\b(?:asm|__asm__|__asm)\b\s*(?:(?:volatile|__volatile__)\b\s*)?\(", text):
        end = _end(text, m.end() - 1)
        template, *rest = _split(text[m.end() : end - 1], ":")
        ptx = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', template)).replace("\\n", "\n").replace("\\t", "\t")
        operands = []
        for part in (p for section in rest[:2] for p in _split(section, ",") if p.strip()):
            found = re.fullmatch(r'\s*"[^"]*"\s*\((.*)\)\s*', part, re.DOTALL)
            if not found:
                raise BuildError(f"this operand is not modelled: {part.strip()}")
            operands.append(" ".join(found[1].split()))
        calls = [_instruction(i.strip(), operands) for i in re.split(r"[;\n]", ptx) if i.strip()]
        out += [
            text[last : m.start()],
            f"({', '.join(calls) or '(void)0'})",
            "\n" * text.count("\n", m.start(), end),
        ]
        last = end
    return "".join(out) + text[last:]


@dataclass(frozen=True, slots=True)
class Shared:
    """A declaration of shared memory."""

    name: str
    itemsize: int  # 0: unknown
    granule: int
    alignment: int
    shape: tuple[int, ...] | None
    dynamic: bool


_SIZES = {
    "bool": 1, "char": 1, "signed char": 1, "unsigned char": 1, "short": 2, "unsigned short": 2, "int": 4,
    "unsigned": 4, "unsigned int": 4, "long long": 8, "unsigned long long": 8, "float": 4, "double": 8,
}  # fmt: skip


def _type(name: str) -> tuple[int, int, int]:
    """Size (0: unknown), granule and alignment of a type."""
    if m := re.fullmatch(r"u?int(\d+)_t", name):
        size = int(m[1]) // 8
    elif m := re.fullmatch(r"(?:float|u?int)([24])", name):
        return 4 * int(m[1]), 4, 4 * int(m[1])
    elif m := re.fullmatch(r"(?:double|u?longlong)2", name):
        return 16, 4, 16
    else:
        size = _SIZES.get(name, 0)
    return size, min(size, 4) or 1, size or 16


def shared_declarations(text: str) -> list[Shared]:
    """What the text (without comments) says of its shared arrays, as far as a look at it tells: a type that
    is not known has the finest granule."""
    found = []
    for m in re.finditer(r"[^;{}]*\b__shared__\b[^;]*;", text):
        words = m[0].rstrip(";")
        dynamic = "extern" in words.split()
        aligns = [int(a) for a in re.findall(r"(?:__align__|alignas|aligned)\s*\(\s*(\d+)\s*\)", words)]
        words = re.sub(r"(?:__align__|alignas)\s*\([^)]*\)|__attribute__\s*\(\(.*?\)\)", " ", words)
        words = re.sub(r"\b(?:__shared__|extern|static|volatile)\b", " ", words)
        d = re.fullmatch(r"\s*(\w[\w\s]*?)\s+(\w+)\s*((?:\[[^\]]*\]\s*)*)", words)
        if not d:
            continue
        size, granule, natural = _type(" ".join(d[1].split()))
        shape: list[int] | None = []
        for extent in re.findall(r"\[([^\]]*)\]", d[3]):
            if shape is not None and re.fullmatch(r"[\d\s+*()-]+", extent):
                shape.append(int(eval(extent)))
            else:
                shape = None
        found.append(
            Shared(d[2], size, granule, 16 if dynamic else max([natural, *aligns]),
                   tuple(shape) if shape is not None and size else None, dynamic)
        )  # fmt: skip
    return found


def _kernels(text: str) -> dict[str, tuple[list[str], int | None]]:
    """Each kernel's names of parameters, and the threads that its launch bounds allow."""
    kernels = {}
    bounds = r"(?:__launch_bounds__\s*\(\s*(\d+)[^)]*\)\s*)?"
    for m in re.finditer(rf"__global__\s+{bounds}void\s+{bounds}(\w+)\s*\(", text):
        inside = text[m.end() : _end(text, m.end() - 1) - 1]
        names = []
        for p in _split(inside, ","):
            inner = re.search(r"\(\s*\*[^)]*?(\w+)\s*\)", p) or re.search(
                r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", p.strip()
            )
            names.append(inner[1] if inner else "?")
        limit = m[1] or m[2]
        kernels[m[3]] = (names, int(limit) if limit else None)
    return kernels


def _local_name(symbol: str) -> str:
    """A static variable of a function: `_ZZ1kPfE3s_A`, with `_0` behind it for the second of a name (Itanium
    C++ ABI, 5.1.6); else as it is."""
    for m in re.finditer(r"E(\d+)", symbol):
        rest, n = symbol[m.end() :], int(m[1])
        if len(rest) >= n and re.fullmatch(r"(_\d+|__\d+_)?", rest[n:]):
            return rest[:n]
    return symbol


# ---- Building.


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CXX", "")) or ["g++"]


def _execute(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace")
    if done.returncode:
        raise BuildError(f"{shlex.join(command)}\n{done.stderr.strip()}")
    return done.stdout


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="tc-simt-")
    atexit.register(folder.cleanup)
    return folder


class _Region(ctypes.Structure):
    _fields_ = [
        ("begin", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("granule", ctypes.c_uint32),
        ("defined", ctypes.c_uint32), ("alignment", ctypes.c_uint32), ("unused", ctypes.c_uint32),
    ]  # fmt: skip


class _Found(ctypes.Structure):
    _fields_ = [
        *((n, ctypes.c_uint32) for n in (
            "kind", "count", "block", "thread", "site", "what",
            "other_block", "other_thread", "other_site", "other_what", "has_other",
        )),
        ("region", ctypes.c_int32), ("offset", ctypes.c_uint64), ("value", ctypes.c_int64),
        ("note", ctypes.c_char * 64),
    ]  # fmt: skip


_LOCK = threading.RLock()  # the runtime is one machine


@cache
def _runtime() -> tuple[ctypes.CDLL, Path]:
    """The runtime, compiled once per process."""
    path = Path(_folder().name, "runtime.so")
    _execute(
        [*_compiler(), "-std=c++17", "-O2", "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-fPIC", "-shared",
         "-w", f"-I{_TC}", str(_HERE / "runtime.cpp"), "-lrt", "-o", str(path)]
    )  # fmt: skip
    lib = ctypes.CDLL(str(path))
    lib.simt_open.argtypes = [
        ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(_Region),
        ctypes.c_uint32, ctypes.c_uint32,
    ]  # fmt: skip
    lib.simt_launch.argtypes = [
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint32),
        ctypes.POINTER(ctypes.c_uint32), ctypes.c_int, ctypes.c_uint64, ctypes.c_int64,
    ]  # fmt: skip
    lib.simt_finding_bytes.restype = ctypes.c_uint64
    assert lib.simt_finding_bytes() == ctypes.sizeof(_Found)
    return lib, path


# Optimised a little, so that register arrays become registers that nobody watches; not so far that loads and
# stores are moved or merged.  Sanitizers at compile time only: the runtime is their library.  DWARF 4, for
# with 5 addr2line names the wrong file for lines with a discriminator after #line (binutils 2.40).
_FLAGS = (
    "-std=c++17", "-O1", "-g1", "-gdwarf-4", "-fPIC", "-w", "-fwrapv", "-fno-strict-aliasing",
    "-fno-exceptions", "-fno-rtti", "-fno-optimize-sibling-calls", "-ffp-contract=off",
    "-fsanitize=thread", "-fsanitize=bounds,alignment", "-fsanitize-coverage=trace-pc",
    "--param", "tsan-instrument-func-entry-exit=0",
)  # fmt: skip

_SCALARS = {
    **{("i", n): getattr(ctypes, f"c_int{8 * n}") for n in (1, 2, 4, 8)},
    **{("u", n): getattr(ctypes, f"c_uint{8 * n}") for n in (1, 2, 4, 8)},
    ("b", 1): ctypes.c_bool, ("f", 4): ctypes.c_float, ("f", 8): ctypes.c_double,
}  # fmt: skip

_DYNAMIC = 232448  # bytes of extern shared memory at most, as on compute capability 9.0


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    entry: int
    kinds: str
    sizes: tuple[int, ...]
    parameters: tuple[str, ...]
    limit: int | None


@dataclass(frozen=True, slots=True)
class _Placed:
    declaration: Shared
    address: int
    bytes: int


class Module:
    """A compiled text."""

    def __init__(self, text: str) -> None:
        runtime, runtime_path = _runtime()
        self.runtime = runtime
        self.lines = tuple(text.split("\n"))
        plain = without_comments(text)
        signatures = _kernels(plain)
        declared = shared_declarations(plain)
        plain = _without_asm(plain)
        dynamic = sorted({d.name for d in declared if d.dynamic})
        plain = re.sub(r"\bextern(\s+)__shared__\b", r"extern\1", plain)
        source = [
            '#include "simt.h"', '#line 1 "kernel.cu"', plain, '#line 1 "entries"',
            *(f"SIMT_ENTRY({k})" for k in signatures),
        ]  # fmt: skip
        if dynamic:
            # Whatever its names, it is one piece of memory.
            where = '__attribute__((section("simt_shared"), aligned(1024), used, visibility("hidden")))'
            source.append(f'extern "C" {{ char simt_dynamic[{_DYNAMIC}] {where}; }}')
            source += [f'__asm__(".globl {n}\\n.hidden {n}\\n.set {n}, simt_dynamic");' for n in dynamic]
        folder = Path(tempfile.mkdtemp(dir=_folder().name))
        self.path = folder / "module.so"
        (folder / "module.cpp").write_text("\n".join(source) + "\n", encoding="utf-8")
        _execute(
            [*_compiler(), *_FLAGS, f"-I{_HERE}", "-c", f"{folder}/module.cpp", "-o", f"{folder}/module.o"]
        )
        _execute(
            [*_compiler(), "-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-Wl,-z,relro", f"{folder}/module.o",
             str(runtime_path), "-lm", "-o", str(self.path)]
        )  # fmt: skip
        self.lib = ctypes.CDLL(str(self.path))
        self.kernels: dict[str, Kernel] = {}
        for name, (parameters, limit) in signatures.items():
            entry = ctypes.cast(getattr(self.lib, f"simt_entry_{name}"), ctypes.c_void_p).value
            kinds, sizes = getattr(self.lib, f"simt_kinds_{name}"), getattr(self.lib, f"simt_sizes_{name}")
            kinds.restype, sizes.restype = ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint32)
            k = kinds().decode()
            assert entry is not None
            self.kernels[name] = Kernel(
                name, entry, k, tuple(sizes()[: len(k)]), tuple(parameters[: len(k)]), limit
            )
        self.shared = self._shared(declared)
        self.places: dict[int, tuple[int, ...]] = {}

    def _shared(self, declared: list[Shared]) -> list[_Placed]:
        """The shared arrays where they lie."""
        table = _execute(["objdump", "-t", str(self.path)])
        symbols = re.findall(r"^([0-9a-f]+) .{7} (\S+)\t([0-9a-f]+) .*?(\S+)$", table, re.MULTILINE)
        anchor = next(iter(self.kernels.values()), None)
        if anchor is None:
            return []
        value = next(int(v, 16) for v, _, _, name in symbols if name == f"simt_entry_{anchor.name}")
        placed = []
        for at, section, size, full in symbols:
            name = _local_name(full)
            if (
                section != "simt_shared"
                or not int(size, 16)
                or any(d.dynamic and d.name == name for d in declared)
            ):
                continue
            if name == "simt_dynamic":
                own = [d for d in declared if d.dynamic]
                same = [own[0]] if len({(d.itemsize, d.granule) for d in own}) == 1 else []
                granule = min(d.granule for d in own)
            else:
                own = [d for d in declared if d.name == name and not d.dynamic]
                same = [own[0]] if len(set(own)) == 1 else []
                granule = min((d.granule for d in own), default=1)
            d = same[0] if same else Shared(name, 0, granule, 16, None, name == "simt_dynamic")
            placed.append(_Placed(d, anchor.entry - value + int(at, 16), int(size, 16)))
        return placed

    def resolve(self, sites: Iterable[int]) -> None:
        """Looks up the lines of return addresses (less one: the call itself), all at once."""
        missing = sorted({s for s in sites if s and s not in self.places})
        if not missing:
            return
        addresses = [hex(s - 1) for s in missing]
        out = _execute(["addr2line", "-s", "-i", "-a", "-e", str(self.path), *addresses])
        chunks = re.split(r"^0x[0-9a-f]+\n", out, flags=re.MULTILINE)[1:]
        for site, chunk in zip(missing, chunks):
            self.places[site] = tuple(int(n) for n in re.findall(r"^kernel\.cu:(\d+)", chunk, re.MULTILINE))


@lru_cache(maxsize=256)
def build(text: str) -> Module:
    """Compiles a text.  Raises BuildError."""
    with _LOCK:
        return Module(text)


# ---- Memory.


class _Arena:
    """The arrays of a session in one piece of memory, each in 256-byte chunks of its own between wide gaps,
    so that what leaves an array does not land in another.  Arrays that overlap do so here too."""

    CHUNK = 256

    def __init__(self, arrays: list[np.ndarray[Any, Any]], undefined: list[np.ndarray[Any, Any]]) -> None:
        for a in arrays:
            if not a.flags.c_contiguous:
                raise ValueError("an array that is not C-contiguous")
        self.arrays = arrays
        pieces: list[list[int]] = []  # begin, end, granule, defined
        unset = [(u.ctypes.data, u.ctypes.data + u.nbytes) for u in undefined]
        for a in sorted(arrays, key=lambda a: a.ctypes.data):
            begin, end = a.ctypes.data, a.ctypes.data + a.nbytes
            granule = math.gcd(a.itemsize, 4)
            defined = int(not any(b <= begin and end <= e for b, e in unset))
            if pieces and begin < pieces[-1][1]:
                p = pieces[-1]
                pieces[-1] = [p[0], max(p[1], end), min(p[2], granule), max(p[3], defined)]
            else:
                pieces.append([begin, end, granule, defined])
        self.pieces = pieces
        gap = max([1 << 16, *(-(-(p[1] - p[0]) // self.CHUNK) * self.CHUNK for p in pieces)])
        total = gap
        starts = []
        for begin, end, _, _ in pieces:
            starts.append(total + begin % 16)  # an array aligned to 4 bytes only stays so
            total = -(-(starts[-1] + end - begin) // self.CHUNK) * self.CHUNK + gap
        self.buffer = np.zeros(total + self.CHUNK, np.uint8)  # the gaps are never touched and cost nothing
        self.base = -(-self.buffer.ctypes.data // self.CHUNK) * self.CHUNK
        self.bytes = total
        self.starts = [self.base + s for s in starts]
        for a in sorted(arrays, key=lambda a: -a.nbytes):
            unknown = any(b <= a.ctypes.data and a.ctypes.data + a.nbytes <= e for b, e in unset)
            self._view(a)[:] = 0xFF if unknown else a.reshape(-1).view(np.uint8)

    def piece(self, a: np.ndarray[Any, Any]) -> int:
        at = a.ctypes.data
        return next(i for i, p in enumerate(self.pieces) if p[0] <= at and at + a.nbytes <= p[1])

    def address(self, a: np.ndarray[Any, Any]) -> int:
        i = self.piece(a)
        return self.starts[i] + a.ctypes.data - self.pieces[i][0]

    def _view(self, a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        start = self.address(a) - self.buffer.ctypes.data
        return self.buffer[start : start + a.nbytes]

    def contents(self) -> list[np.ndarray[Any, Any]]:
        return [
            self._view(a).view(a.dtype).reshape(a.shape).copy() if a.size else a.copy() for a in self.arrays
        ]


def _three(n: int | Sequence[int]) -> tuple[int, int, int]:
    x = (n,) if isinstance(n, (int, np.integer)) else tuple(n)
    if not 1 <= len(x) <= 3 or min(x) < 1:
        raise ValueError(f"a grid or a block of {n}")
    return (*map(int, x), 1, 1)[:3]  # type: ignore[return-value]


def _scalar(value: Any, kind: str, size: int, name: str) -> Any:
    """A number as a parameter of just this type."""
    if (kind, size) not in _SCALARS:
        raise TypeError(f"parameter {name} has a type that is not modelled")
    if isinstance(value, np.generic):
        if (value.dtype.kind, value.dtype.itemsize) != (kind, size):
            raise TypeError(f"parameter {name} ({kind}{size}) is given {value.dtype}")
        value = value.item()
    want = {"b": bool, "f": float}.get(kind, int)
    if type(value) is not want:
        raise TypeError(f"parameter {name} ({kind}{size}) is given {value!r}")
    c = _SCALARS[kind, size](value)
    if kind in "iu" and c.value != value:
        raise OverflowError(f"parameter {name} ({kind}{size}) is given {value}")
    return c


# ---- Running.


class _Session:
    def __init__(self, module: Module, arena: _Arena, dynamic: int) -> None:
        self.module, self.arena = module, arena
        self.shared = module.shared
        regions = [
            _Region(start, end - begin, granule, defined, 256, 0)
            for start, (begin, end, granule, defined) in zip(arena.starts, arena.pieces)
        ]
        for p in self.shared:
            d = p.declaration
            size = dynamic if d.dynamic else p.bytes
            regions.append(_Region(p.address, size, d.granule, 0, d.alignment, 0))
        self.first_shared = len(arena.pieces)
        table = (_Region * max(len(regions), 1))(*regions)
        begin = min((p.address for p in self.shared), default=0)
        end = max((p.address + p.bytes for p in self.shared), default=0)
        module.runtime.simt_open(
            arena.base, arena.bytes, begin, end - begin, table, len(regions), len(self.shared)
        )

    def launch(self, item: Launch, order: Order, steps: int) -> tuple[list[Finding], bool]:
        """The findings, and whether the kernel ran to its end."""
        kernel = self.module.kernels.get(item.kernel)
        if kernel is None:
            raise KeyError(f"the text has no kernel {item.kernel}")
        if len(item.args) != len(kernel.kinds):
            raise TypeError(f"{kernel.name} takes {len(kernel.kinds)} arguments, not {len(item.args)}")
        grid, block = _three(item.grid), _three(item.block)
        if math.prod(block) > (kernel.limit or 1024):
            raise ValueError(f"{kernel.name} is launched with {math.prod(block)} threads a block")
        values: list[Any] = []
        for value, kind, size, name in zip(item.args, kernel.kinds, kernel.sizes, kernel.parameters):
            if kind != "p":
                values.append(_scalar(value, kind, size, name))
            elif value is None or isinstance(value, np.ndarray):
                values.append(ctypes.c_void_p(None if value is None else self.arena.address(value)))
            else:
                raise TypeError(f"parameter {name} is a pointer and is given {value!r}")
        pointers = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(v) for v in values))
        dims = ctypes.c_uint32 * 3
        code = {"ascending": 0, "descending": 1}.get(order, 2) if isinstance(order, str) else 2
        seed = 0 if isinstance(order, str) else order
        n = self.module.runtime.simt_launch(
            kernel.entry, pointers, dims(*grid), dims(*block), code, seed, steps
        )
        stopped = n < 0
        raw = []
        for i in range(-n - 1 if stopped else n):
            f = _Found()
            self.module.runtime.simt_finding(i, ctypes.byref(f))
            raw.append(f)
        self.module.resolve(s for f in raw for s in (f.site, f.other_site))
        found: dict[Any, Finding] = {}
        for f in raw:
            x = self._finding(f, kernel, item, order)
            key = _key(x)
            found[key] = replace(found[key], count=found[key].count + x.count) if key in found else x
        return list(found.values()), not stopped

    def _access(self, block: int, thread: int, what: int, site: int) -> Access:
        lines = self.module.places.get(site, ())
        return Access(block, thread, _WHAT[what], lines[0] if lines else None, lines[1:])

    def _finding(self, f: _Found, kernel: Kernel, item: Launch, order: Order) -> Finding:
        kind = _KINDS[f.kind]
        first = self._access(f.block, f.thread, f.what, f.site)
        second = None
        if f.has_other:
            second = self._access(f.other_block, f.other_thread, f.other_what, f.other_site)
        note = f.note.decode(errors="replace")
        if kind is Kind.INDEX:
            note = f"{f.value} in {note}"
        elif kind in (Kind.MISALIGNED, Kind.OUT_OF_BOUNDS):
            note = f"{f.value} bytes" + (f", {note}" if note else "")
        array, offset, index = None, None, None
        if f.region >= 0:
            offset = ctypes.c_int64(f.offset).value
            array, offset, index = self._place(f.region, offset, kernel, item)
        return Finding(
            kind, kernel.name, first, second, array, offset, index, note, f.count, order, self.module.lines
        )

    def _place(
        self, region: int, offset: int, kernel: Kernel, item: Launch
    ) -> tuple[str | None, int, tuple[int, ...] | None]:
        if region >= self.first_shared:
            p = self.shared[region - self.first_shared]
            d = p.declaration
            index = None
            if d.shape is not None and 0 <= offset < p.bytes:
                index = (
                    tuple(int(i) for i in np.unravel_index(offset // d.itemsize, d.shape)) if d.shape else ()
                )
            return d.name, offset, index
        piece = self.arena.pieces[region]
        at = piece[0] + offset
        best: tuple[str | None, int, tuple[int, ...] | None] = (None, offset, None)
        for value, name in zip(item.args, kernel.parameters):
            if not isinstance(value, np.ndarray) or self.arena.piece(value) != region:
                continue
            own = at - value.ctypes.data
            if 0 <= own < value.nbytes:
                return name, own, tuple(int(i) for i in np.unravel_index(own // value.itemsize, value.shape))
            best = (name, own, None)
        return best


def _key(f: Finding) -> Any:
    sides = frozenset((a.line, a.what) for a in (f.first, f.second) if a)
    return f.kind, f.kernel, f.array, sides


def check(
    text: str | Module,
    launches: Iterable[Launch | tuple[Any, ...]],
    *,
    undefined: Sequence[np.ndarray[Any, Any]] = (),
    orders: Sequence[Order] = ORDERS,
    steps: int = STEPS,
) -> tuple[Finding, ...]:
    """Runs the launches one after the other on the same arrays, all of it once in each order of the threads.

    The arrays are left as the first order left them; another order whose results are other bytes is a finding
    of its own where nothing else was found.  `undefined` arrays begin without values: reading one of them
    before it is written is a finding.  A launch that cannot go on (a bound, a divergence) ends its
    order.
    """
    items = [Launch(*x) for x in launches]
    arrays: dict[int, np.ndarray[Any, Any]] = {}
    for item in items:
        arrays.update((id(a), a) for a in item.args if isinstance(a, np.ndarray))
    every = list(arrays.values())
    found: dict[Any, Finding] = {}
    results: list[list[np.ndarray[Any, Any]]] = []
    with _LOCK:
        module = build(text) if isinstance(text, str) else text
        for order in orders:
            arena = _Arena(every, list(undefined))
            session = _Session(module, arena, max((i.shared for i in items), default=0))
            try:
                for item in items:
                    findings, ended = session.launch(item, order, steps)
                    for f in findings:
                        found.setdefault(_key(f), f)
                    if not ended:
                        break
            finally:
                module.runtime.simt_close()
            results.append(arena.contents())
    if not found:
        for other, order in zip(results[1:], orders[1:]):
            for a, x, y in zip(every, results[0], other):
                if not x.size:
                    continue
                differ = np.flatnonzero(
                    (x.reshape(-1).view(np.uint8) != y.reshape(-1).view(np.uint8))
                    .reshape(x.size, -1)
                    .any(axis=1)
                )
                if differ.size:
                    f = _order_dependent(a, int(differ[0]), len(differ), items, module, order)
                    found.setdefault(_key(f), f)
    for a, x in zip(every, results[0] if results else []):
        if a.flags.writeable:
            a[...] = x
    return tuple(found.values())


def _order_dependent(
    a: np.ndarray[Any, Any], at: int, count: int, items: list[Launch], module: Module, order: Order
) -> Finding:
    """Named by the last kernel that takes the array."""
    item = next(i for i in reversed(items) if any(x is a for x in i.args))
    kernel = module.kernels[item.kernel]
    name = next(n for n, x in zip(kernel.parameters, item.args) if x is a)
    index = tuple(int(i) for i in np.unravel_index(at, a.shape)) if a.shape else ()
    return Finding(
        Kind.ORDER,
        kernel.name,
        None,
        None,
        name,
        at * a.itemsize,
        index,
        f"{count} elements",
        1,
        order,
        module.lines,
    )


def run(
    text: str | Module,
    kernel: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    *,
    shared: int = 0,
    undefined: Sequence[np.ndarray[Any, Any]] = (),
    order: Order = "ascending",
    steps: int = STEPS,
) -> tuple[Finding, ...]:
    """Runs one kernel in one order of the threads; the arrays are changed in place."""
    item = Launch(kernel, grid, block, args, shared)
    return check(text, [item], undefined=undefined, orders=(order,), steps=steps)
