"""What a GPU has: what the choice of a mapping needs to know, so that it can be made without a device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """`units`: streaming multiprocessors or compute units; `shared`: bytes of shared memory that a block may
    have without asking for more; `arch`: of CUDA code."""

    name: str
    units: int
    shared: int
    arch: str = ""


# NVIDIA's tuning guides: multiprocessors of the SXM modules, and the static limit on shared memory.
A100 = Target("A100", 108, 48 << 10, "sm_80")
H100 = Target("H100", 132, 48 << 10, "sm_90")
H200 = Target("H200", 132, 48 << 10, "sm_90")
# OpenCL 1.2 promises 32 KiB of local memory.
GENERIC = Target("generic OpenCL device", 16, 32 << 10)


def of_architecture(arch: str) -> Target:
    """The preset that code for an architecture is made for."""
    return A100 if arch.startswith("sm_8") else H100
