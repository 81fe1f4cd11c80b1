"""Exported kernels on a device: what bundles need of this backend, without a compiler."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tc.errors import BackendError

from ..gpu.stored import Restored
from ..gpu.stored import restored as restored_launches
from . import device

# sm_90 is machine code for a device and later ones of its generation, sm_90a for that device alone;
# compute_90 is PTX, which the driver translates for this device and all later ones.
_TARGET = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


devices = device.CudaDevices()


def choose(targets: Sequence[str], name: str, number: int | None = None) -> int:
    """The target, of these, whose code is best for a device, by default that of the setting `TC_CUDA_DEVICE`:
    the best machine code, else the latest PTX.  Raises BackendError: TC0815 without a device, TC0830 if none
    fits."""
    driver = device.find(number)
    best = max(range(len(targets)), key=lambda k: _rank(targets[k], driver.arch), default=None)
    if best is None or _rank(targets[best], driver.arch) < 0:
        raise BackendError(
            f"the bundle of {name} has code for {', '.join(targets)}, and {driver.name} is {driver.arch}",
            code="TC0830",
            help=f"export it for this device too: --arch {driver.arch}",
        )
    return best


def _rank(target: str, arch: str) -> int:
    """How good a target is for a device: negative where it does not run there."""
    wanted, here = _TARGET.fullmatch(target), _TARGET.fullmatch(arch)
    if wanted is None or here is None:
        return -1
    kind, major, minor, only = wanted[1], int(wanted[2]), int(wanted[3]), wanted[4]
    at = int(here[2]), int(here[3])
    if (major, minor) > at or (only == "a" and (major, minor) != at):
        return -1
    if kind == "compute":
        return -1 if only == "f" and major != at[0] else 10 * major + minor
    if major != at[0]:
        return -1
    return 10_000 + 100 * minor + (1 if only else 0)


def restored(name: str, facts: Mapping[str, Any], code: bytes) -> Restored:
    """A kernel from exported launches, which the first call loads on the device."""
    return restored_launches(facts, device.Kernels(code))
