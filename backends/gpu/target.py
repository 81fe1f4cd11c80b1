"""The description of a GPU that the search for a mapping uses, so that no device is needed."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tc.errors import BackendError, did_you_mean
from tc.options import Options
from tc.support import machine_overrides


@dataclass(frozen=True, slots=True)
class Target:
    """A GPU.

    `units`: streaming multiprocessors or compute units; `shared`: the limit of shared memory of a block, in
    bytes; `block`: the limit of its threads; `arch`: of CUDA code; `async_copies`: it has asynchronous
    copies to shared memory, for double buffering; `atomic`: the limit of bytes of an element with atomic
    updates.

    Of the whole device: `clock` in GHz, `dram` in GB/s, `l2` in bytes, `l2_rate` in bytes a clock cycle.

    Of a unit: `l1`, the bytes of L1 cache and shared memory together, of which at most `most_shared` are
    shared memory, and `reserved` of this is the system's for each block; `registers` of 32 bits; the limits
    of resident `threads` and `blocks`; the results in a clock cycle in float32, float64, 32-bit integers and
    special functions.
    """

    name: str
    units: int
    shared: int
    arch: str = ""
    async_copies: bool = False
    atomic: int = 8
    block: int = 1024
    clock: float = 1.0
    dram: float = 100.0
    l2: int = 1 << 20
    l2_rate: float = 512.0
    l1: int = 64 << 10
    most_shared: int = 32 << 10
    reserved: int = 0
    registers: int = 1 << 16
    threads: int = 2048
    blocks: int = 32
    float32: float = 64.0
    float64: float = 32.0
    integer: float = 64.0
    special: float = 16.0


# Multiprocessors, boost clocks, L2: NVIDIA's A100 and H100 architecture whitepapers.  DRAM: an H200 reads
# 4133 GB/s, 0.86 of its data sheet (benchmarks/results/device_timing.json); A100 80GB SXM and H100 SXM are
# taken to reach the same share.  Memory of a multiprocessor, registers, threads, blocks, the shared memory of
# a block: the Ampere and Hopper tuning guides.  Results a cycle: the CUDA C++ programming guide, "Throughput
# of native arithmetic instructions", compute capabilities 8.0 and 9.0.  The L2 of A100 reads 5120 bytes a
# cycle (whitepaper); NVIDIA gives no number for H100, so it has the same.
A100 = Target(
    "A100", 108, 163 << 10, "sm_80", async_copies=True,
    clock=1.41, dram=1750.0, l2=40 << 20, l2_rate=5120.0, l1=192 << 10, most_shared=164 << 10,
    reserved=1 << 10,
)  # fmt: skip
H100 = Target(
    "H100", 132, 227 << 10, "sm_90", async_copies=True,
    clock=1.98, dram=2880.0, l2=50 << 20, l2_rate=5120.0, l1=256 << 10, most_shared=228 << 10,
    reserved=1 << 10, float32=128.0, float64=64.0,
)  # fmt: skip
H200 = Target(
    "H200", 132, 227 << 10, "sm_90", async_copies=True,
    clock=1.98, dram=4130.0, l2=50 << 20, l2_rate=5120.0, l1=256 << 10, most_shared=228 << 10,
    reserved=1 << 10, float32=128.0, float64=64.0,
)  # fmt: skip
# OpenCL 1.2 guarantees 32 KiB of local memory; the other numbers are those of a small GPU.
GENERIC = Target("generic OpenCL device", 16, 32 << 10, atomic=4)
PRESETS = {p.name: p for p in (A100, H100, H200)}


# The limit of shared memory of a block in KiB, by compute capability (CUDA C++ programming guide, "Technical
# specifications"); for others the limit that all have.
_SHARED = {70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99}
_ANY_SHARED = 48
_ASYNCHRONOUS = 80  # the first with asynchronous copies to shared memory


def of_architecture(arch: str, device: str = "") -> Target:
    """The preset for an architecture, with the limits of that architecture.  If a preset's name is part of
    the name of the device (such as "NVIDIA H200"), it is taken."""
    number = int(re.sub(r"\D", "", arch))
    preset = A100 if number < 90 else H100
    preset = next((p for p in PRESETS.values() if p.arch == arch and p.name in device), preset)
    shared = _SHARED.get(number, _ANY_SHARED) << 10
    most = min(preset.most_shared, shared + preset.reserved)
    return replace(preset, arch=arch, shared=shared, most_shared=most, async_copies=number >= _ASYNCHRONOUS)


def with_overrides(target: Target, options: Options, backend: str) -> Target:
    """The target with the facts that the option `machine` states, to compile as for another device: single
    facts, or all facts of a preset except those that limit what code may use.

    Raises BackendError (TC0814) for unknown facts, and for numbers that a fact cannot have.
    """
    if not options.preset:
        return machine_overrides.with_overrides(
            target, options.facts, backend, ("name", "arch", "async_copies"), ()
        )
    if options.preset not in PRESETS:
        raise BackendError(
            f"the {backend} backend has no preset of a machine {options.preset!r}",
            code="TC0814",
            help=did_you_mean(options.preset, PRESETS) or f"there are {', '.join(PRESETS)}",
        )
    preset = PRESETS[options.preset]
    shared, most = min(preset.shared, target.shared), min(preset.most_shared, target.most_shared)
    limits = {n: getattr(target, n) for n in ("arch", "async_copies", "block", "atomic")}
    return replace(preset, shared=shared, most_shared=most, **limits)
