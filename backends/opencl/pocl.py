"""The name of the processor that PoCL compiles for.

PoCL asks its LLVM for that name.  Of a processor that is newer than that LLVM the answer is "generic", which
its clang refuses for x86 ("unknown target CPU 'generic'"; https://github.com/pocl/pocl/issues/1049), so that
no kernel builds.  No option and no variable of the environment sets the name.  Here the device's description
in memory, `struct _cl_device_id`, gets the name of an older processor with the same vector instructions.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection

# The instructions that a processor has, by LLVM's names, and an older one that has no more than these.  PoCL
# links kernels with functions for the widest vectors that the processor has.
_OLDER = (
    (frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]), b"skylake-avx512"),
    (frozenset(["avx2", "fma", "bmi2"]), b"haswell"),
    (frozenset(["avx"]), b"sandybridge"),
    (frozenset[str](), b"x86-64"),
)
_names = {name: ctypes.create_string_buffer(name) for _, name in _OLDER}  # as long as the process
_POINTER = ctypes.sizeof(ctypes.c_void_p)
_DESCRIPTION = 4096  # bytes in which the description's fields are looked for


def known_processor(features: Collection[str]) -> bytes:
    """The processor to compile for, known to every LLVM, on one with these features."""
    return next(name for needed, name in _OLDER if needed <= set(features))


def rename(device: int, old: bytes, new: bytes) -> bool:
    """Whether the description at the address `device` named the processor `old`; it names `new` then."""
    with open("/proc/self/mem", "rb", buffering=0) as memory:

        def read(address: int, size: int) -> bytes:
            try:
                return os.pread(memory.fileno(), size, address)
            except (OSError, OverflowError):
                return b""

        fields = read(device, _DESCRIPTION)
        for at in range(0, len(fields) - 2 * _POINTER + 1, _POINTER):
            triple, name = (
                int.from_bytes(fields[at + i * _POINTER : at + (i + 1) * _POINTER], "little")
                for i in range(2)
            )
            if read(triple, 7) == b"x86_64-" and read(name, len(old) + 1) == old + b"\0":
                ctypes.c_void_p.from_address(device + at + _POINTER).value = ctypes.addressof(_names[new])
                return True
    return False
