"""What the model knows of the machine: from the operating system and LLVM."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from tc.codegen import llvm_jit

from .isa import AVX2, AVX512, NEON, SSE42, Isa


@dataclass(frozen=True, slots=True)
class Machine:
    """Caches are in bytes, a core's own but for `l3`; `fma_units` vectors a cycle; `loads` vectors a cycle."""

    isa: Isa
    cores: int
    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 32 << 20
    fma_units: int = 2
    loads: int = 2
    latency: int = 4
    bandwidth: float = 8.0  # bytes a cycle and core from memory


def _cache_size(level: int, kind: str, fallback: int) -> int:
    base = Path("/sys/devices/system/cpu/cpu0/cache")
    for index in sorted(base.glob("index*")) if base.exists() else []:
        try:
            if int((index / "level").read_text()) == level and (index / "type").read_text().strip() in (kind, "Unified"):
                text = (index / "size").read_text().strip()
                return int(text[:-1]) << {"K": 10, "M": 20}[text[-1]]
        except (OSError, ValueError, KeyError):
            continue
    return fallback


@cache
def host() -> Machine:
    """This machine."""
    _, features = llvm_jit.host_cpu()
    have = {f[1:] for f in features.split(",") if f.startswith("+")}
    if {"avx512f", "avx512vl", "avx512dq", "avx512bw"} <= have:
        isa = AVX512
    elif {"avx2", "fma"} <= have:
        isa = AVX2
    elif "sse4.2" in have:
        isa = SSE42
    else:
        isa = NEON
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    return Machine(
        isa,
        cores,
        _cache_size(1, "Data", 32 << 10),
        _cache_size(2, "Unified", 1 << 20),
        _cache_size(3, "Unified", 32 << 20),
    )


__all__ = ["Machine", "host", "llvm"]
