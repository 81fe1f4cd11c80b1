# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""CUDA C++ to machine code, and the report of ptxas on it; the only module that imports cuda.bindings."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from tc.errors import BackendError, InternalError
from tc.pipeline.target import Availability

_INSTALL = "pip install 'tensor-comprehensions[nvrtc]'"


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of a kernel: registers a thread, bytes of shared memory a block; the others are bytes a
    thread in local memory, which is off-chip.

    A stack without spills is an array with dynamic subscripts.  `frame` of its bytes may be those of library
    functions, which every mapping needs.
    """

    registers: int = 0
    shared: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    frame: int = 0

    @property
    def in_memory(self) -> int:
        """Bytes of a thread that should be in registers and are in local memory."""
        return max(self.stack - self.frame, 0) + self.spill_stores + self.spill_loads

    def __str__(self) -> str:
        return (
            f"{self.registers} registers, {self.shared} bytes shared, {self.stack} bytes stack, "
            f"{self.spill_stores} bytes spill stores, {self.spill_loads} bytes spill loads"
        )


@dataclass(frozen=True, slots=True)
class Machine:
    """Machine code for an architecture (a cubin), and the resources of its kernels by name."""

    arch: str
    cubin: bytes = field(repr=False)
    resources: Mapping[str, Resources]
    log: str = field(repr=False)

    @property
    def in_memory(self) -> int:
        """Of all kernels."""
        return sum(r.in_memory for r in self.resources.values())

    def __str__(self) -> str:
        taken = "".join(f"{name}: {r}\n" for name, r in self.resources.items())
        return f"{self.arch}, {len(self.cubin)} bytes\n{taken}"


def availability() -> Availability:
    try:
        _nvrtc()
    except BackendError as error:
        return Availability(False, error.message, error.help or "")
    return Availability(True)


@cache
def _nvrtc() -> Any:
    """The module; raises BackendError, code TC0815, if it or its library is missing."""
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        raise BackendError("cuda-bindings is not installed", code="TC0815", help=_INSTALL)
    from cuda.bindings import nvrtc

    try:
        nvrtc.nvrtcVersion()
    except (RuntimeError, OSError) as error:  # the first call loads the library
        raise BackendError(f"NVRTC does not load: {error}", code="TC0815", help=_INSTALL) from error
    return nvrtc


def check(arch: str) -> None:
    """Raises BackendError, code TC0811, for an architecture that NVRTC does not know, or that of a CPU."""
    nvrtc = _nvrtc()
    error, known = nvrtc.nvrtcGetSupportedArchs()
    _check_result(nvrtc, error)
    if arch.rstrip("af") not in {f"sm_{n}" for n in known}:
        raise BackendError(
            f"NVRTC cannot compile for {arch}",
            code="TC0811",
            help=f"leave out isa, or name one of sm_{', sm_'.join(map(str, known))}",
        )


def compile_text(text: str, arch: str, contract: bool) -> Machine:
    """The machine code of a text.  Floating point is that of IEEE 754: denormals are kept, division and roots
    are correctly rounded; `contract`: whether a product and a sum become one instruction.

    Raises InternalError, code TC0907, for a text that NVRTC refuses.
    """
    nvrtc = _nvrtc()
    with _compiled(text, arch, contract) as (program, log):
        error, size = nvrtc.nvrtcGetCUBINSize(program)
        _check_result(nvrtc, error)
        cubin = b" " * size
        _check_result(nvrtc, *nvrtc.nvrtcGetCUBIN(program, cubin))
    return Machine(arch, cubin, parse(log), log)


@contextmanager
def _compiled(text: str, arch: str, contract: bool) -> Generator[tuple[Any, str]]:
    """A program of NVRTC, compiled, and its log."""
    nvrtc = _nvrtc()
    options = [
        f"--gpu-architecture={arch}", "--std=c++17", f"--fmad={str(contract).lower()}", "--ftz=false",
        "--prec-div=true", "--prec-sqrt=true", "--ptxas-options=-v",
    ]  # fmt: skip
    error, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernels.cu", 0, [], [])
    _check_result(nvrtc, error)
    try:
        (error,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = _text(nvrtc, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        if error == nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION:
            raise InternalError(f"NVRTC refuses the text: {log.strip()}", code="TC0907")
        _check_result(nvrtc, error)
        yield program, log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def ptx_of(text: str, arch: str, contract: bool) -> bytes:
    """The text as PTX for an architecture, such as compute_90, and all later ones; as `compile_text`."""
    nvrtc = _nvrtc()
    with _compiled(text, arch, contract) as (program, _):
        error, size = nvrtc.nvrtcGetPTXSize(program)
        _check_result(nvrtc, error)
        ptx = b" " * size
        _check_result(nvrtc, *nvrtc.nvrtcGetPTX(program, ptx))
    return ptx


def version() -> str:
    """The version of NVRTC, for keys of stored kernels."""
    nvrtc = _nvrtc()
    error, major, minor = nvrtc.nvrtcVersion()
    _check_result(nvrtc, error)
    try:
        package = importlib.metadata.version("nvidia-cuda-nvrtc-cu12")
    except importlib.metadata.PackageNotFoundError:
        package = "of the system"
    return f"NVRTC {major}.{minor}, {package}"


def _check_result(nvrtc: Any, error: Any) -> None:
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise InternalError(f"NVRTC fails: {error.name}", code="TC0907")


def _text(nvrtc: Any, size_of: Any, get: Any, program: Any) -> str:
    error, size = size_of(program)
    _check_result(nvrtc, error)
    buffer = b" " * size
    _check_result(nvrtc, *get(program, buffer))
    return buffer.rstrip(b"\0").decode(errors="replace")


_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_PROPERTIES = re.compile(r"Function properties for (\w+)")
_MEMORY = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def parse(log: str) -> dict[str, Resources]:
    """The resources of kernels from the report of `ptxas -v`."""
    found: dict[str, Resources] = {}
    entry = function = ""
    for line in log.splitlines():
        if m := _ENTRY.search(line):
            entry = m[1]
            found[entry] = Resources()
        if m := _PROPERTIES.search(line):
            function = m[1]
        if (m := _MEMORY.search(line)) and function == entry and entry:
            stack, stores, loads = map(int, m.groups())
            found[entry] = replace(found[entry], stack=stack, spill_stores=stores, spill_loads=loads)
        if (m := _REGISTERS.search(line)) and entry:
            shared = _SHARED.search(line)
            found[entry] = replace(found[entry], registers=int(m[1]), shared=int(shared[1]) if shared else 0)
    return found
