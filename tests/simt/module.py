"""A CUDA text as a library of the host, and the shim's runtime that it calls."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from tests.simt.cuda_text import (
    BuildError,
    Shared,
    kernels,
    local_name,
    shared_declarations,
    without_asm,
    without_comments,
)

_HERE = Path(__file__).parent
_TC = _HERE.parent.parent / "tc"


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


class Region(ctypes.Structure):
    _fields_ = [
        ("begin", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("granule", ctypes.c_uint32),
        ("defined", ctypes.c_uint32), ("alignment", ctypes.c_uint32), ("unused", ctypes.c_uint32),
    ]  # fmt: skip


class Found(ctypes.Structure):
    _fields_ = [
        *((n, ctypes.c_uint32) for n in (
            "kind", "count", "block", "thread", "site", "what",
            "other_block", "other_thread", "other_site", "other_what", "has_other",
        )),
        ("region", ctypes.c_int32), ("offset", ctypes.c_uint64), ("value", ctypes.c_int64),
        ("note", ctypes.c_char * 64),
    ]  # fmt: skip


LOCK = threading.RLock()  # the runtime is one machine


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
        ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(Region),
        ctypes.c_uint32, ctypes.c_uint32,
    ]  # fmt: skip
    lib.simt_launch.argtypes = [
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint32),
        ctypes.POINTER(ctypes.c_uint32), ctypes.c_int, ctypes.c_uint64, ctypes.c_int64,
    ]  # fmt: skip
    lib.simt_finding_bytes.restype = ctypes.c_uint64
    assert lib.simt_finding_bytes() == ctypes.sizeof(Found)
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
class Placed:
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
        signatures = kernels(plain)
        declared = shared_declarations(plain)
        plain = without_asm(plain)
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

    def _shared(self, declared: list[Shared]) -> list[Placed]:
        """The shared arrays where they lie."""
        table = _execute(["objdump", "-t", str(self.path)])
        symbols = re.findall(r"^([0-9a-f]+) .{7} (\S+)\t([0-9a-f]+) .*?(\S+)$", table, re.MULTILINE)
        anchor = next(iter(self.kernels.values()), None)
        if anchor is None:
            return []
        value = next(int(v, 16) for v, _, _, name in symbols if name == f"simt_entry_{anchor.name}")
        placed = []
        for at, section, size, full in symbols:
            name = local_name(full)
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
            placed.append(Placed(d, anchor.entry - value + int(at, 16), int(size, 16)))
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
    with LOCK:
        return Module(text)
