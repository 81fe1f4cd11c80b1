"""The cuda backend on a stand-in for the driver."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tc import kernel, registry
from tc.cache.memory import CompileCache
from tests.simt.driver import StandIn
from tests.simt.machine import Machine

if TYPE_CHECKING:
    import pytest


_KERNELS: CompileCache[Any] = CompileCache()  # those whose machine code is CUDA C++


def backend_module(name: str) -> Any:
    """Of the cuda backend."""
    registry.load("cuda")
    return sys.modules[f"tc_backends.cuda.{name}"]


def text_for_code(patch: pytest.MonkeyPatch) -> None:
    """Let compiles leave CUDA C++ where machine code would be, and nothing on disk."""
    nvrtc = backend_module("nvrtc")
    compile_text = nvrtc.compile_text

    def with_text(text: str, arch: str, contract: bool) -> Any:
        return replace(compile_text(text, arch, contract), cubin=text.encode())

    patch.setattr(nvrtc, "compile_text", with_text)
    patch.setattr(kernel, "CACHE", _KERNELS)
    patch.setenv("TC_CACHE", "0")


def stand_in(patch: pytest.MonkeyPatch, devices: int = 2) -> Machine:
    """A machine with devices, which the backend finds in place of real ones."""
    made = Machine(devices)
    drivers = [StandIn(made, k) for k in range(devices)]
    device = backend_module("device")
    patch.setattr(device, "find", lambda number=None: drivers[number or 0])
    patch.setattr(device, "_devices", {})
    return made
