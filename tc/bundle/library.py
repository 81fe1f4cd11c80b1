"""Shared libraries of bundles: checked, and loaded into this process.

Such a library is not a program of its own.  It has no initialisers, no finalisers, no dependencies and no
undefined symbols, so that loading it runs nothing and finds nothing by name.  What its kernels call,
functions of C's mathematics and those of `tc._native`, they call through a table, `tc_imports`, that is
filled here in the order that the manifest gives.
"""

from __future__ import annotations

import ctypes
import os
import struct
import tempfile
import threading
from collections.abc import Iterator, Sequence

from tc.errors import BackendError, InternalError
from tc.runtime.symbols import address as address_of

TABLE = "tc_imports"

# By digest and imports; machine code stays for ever, as kernels may be anywhere.
_loaded: dict[tuple[str, tuple[str, ...]], ctypes.CDLL] = {}
_lock = threading.Lock()


def loaded(code: bytes, digest: str, imports: Sequence[str]) -> ctypes.CDLL:
    """The library of these bytes, with its imports; once for each digest.

    Raises InternalError, code TC0903, for bytes that are no such library, and BackendError, code TC0831,
    where the system does not load it.
    """
    key = digest, tuple(imports)
    with _lock:
        if key not in _loaded:
            problem = unexpected(code)
            if problem:
                raise InternalError(f"a shared library of a bundle {problem}", code="TC0903")
            addresses = [_address(name) for name in imports]
            library = _open(code)
            table = (ctypes.c_void_p * max(1, len(addresses))).in_dll(library, TABLE)
            for k, address in enumerate(addresses):
                table[k] = address
            _loaded[key] = library
        return _loaded[key]


def address(library: ctypes.CDLL, symbol: str) -> int:
    """The address of a function of a library; InternalError, code TC0903, where it has none of the name."""
    try:
        found = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
    except AttributeError:
        found = None
    if not found:
        raise InternalError(f"a shared library of a bundle has no function {symbol}", code="TC0903")
    return found


def _open(code: bytes) -> ctypes.CDLL:
    file, path = tempfile.mkstemp(prefix="tc-", suffix=".so")
    try:
        with os.fdopen(file, "wb") as f:
            f.write(code)
        return ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL)
    except OSError as e:
        raise BackendError(
            f"the system does not load a library of a bundle: {e}",
            code="TC0831",
            help="set TMPDIR to a directory of your own whose files may be executed",
        ) from None
    finally:
        os.unlink(path)


def _address(name: str) -> int:
    found = address_of(name)
    if not found:
        raise InternalError(
            f"a kernel of a bundle needs a function '{name}', which is not here", code="TC0903"
        )
    return found


# ---- the form of a library (System V ABI, chapters 4 and 5)

_SHT_DYNSYM, _SHT_RELA, _PT_DYNAMIC, _PT_INTERP, _ET_DYN = 11, 4, 2, 3, 3
# DT_NEEDED, DT_INIT, DT_FINI, DT_RPATH, DT_TEXTREL, DT_JMPREL, DT_INIT_ARRAY, DT_FINI_ARRAY, DT_RUNPATH,
# DT_PREINIT_ARRAY, DT_AUXILIARY, DT_FILTER: what would run code, or look for other libraries.
_FORBIDDEN = {
    1: "needs another library", 12: "has an initialiser", 13: "has a finaliser", 15: "has a search path",
    22: "changes its own code", 23: "binds functions by name", 25: "has initialisers", 26: "has finalisers",
    29: "has a search path", 32: "has initialisers", 0x7FFFFFFD: "needs another library",
    0x7FFFFFFF: "needs another library",
}  # fmt: skip
_RELATIVE = {62: 8, 183: 1027}  # by EM_X86_64 and EM_AARCH64: the relocation that names no symbol


def unexpected(code: bytes) -> str | None:
    """What is wrong with a 64-bit little-endian ELF library; None for one that runs nothing when it is
    loaded."""
    try:
        return next(_problems(code), None)
    except (struct.error, IndexError, OverflowError):
        return "is malformed"


def _problems(code: bytes) -> Iterator[str]:
    if code[:6] != b"\x7fELF\x02\x01":
        yield "is no ELF file"
        return
    kind, machine = struct.unpack_from("<HH", code, 16)
    if kind != _ET_DYN or machine not in _RELATIVE:
        yield "is for another kind of machine"
        return
    first, size, count = struct.unpack_from("<Q14xHH", code, 32)
    dynamic: tuple[int, int] | None = None
    segments: list[tuple[int, int, int]] = []
    for k in range(count):
        what, _, offset, at, _, length = struct.unpack_from("<IIQQQQ", code, first + k * size)
        if what == _PT_INTERP:
            yield "is a program"
        if what == _PT_DYNAMIC:
            dynamic = offset, length
        if what == 1:  # PT_LOAD
            segments.append((at, offset, length))
    if dynamic is None:
        yield "has no dynamic section"
        return
    tags: dict[int, int] = {}
    for at in range(dynamic[0], dynamic[0] + dynamic[1] - 15, 16):
        tag, value = struct.unpack_from("<QQ", code, at)
        if tag == 0:
            break
        if tag in _FORBIDDEN:
            yield _FORBIDDEN[tag]
        tags[tag] = value

    def place(address: int) -> int:
        return next((o + address - a for a, o, n in segments if a <= address < a + n), len(code))

    if 17 in tags or 0x24 in tags:  # DT_REL, DT_RELR, which no linker is asked for here
        yield "has relocations of another form"
    if 7 in tags:  # DT_RELA, DT_RELASZ
        start = place(tags[7])
        for at in range(start, start + tags.get(8, 0), 24):
            (info,) = struct.unpack_from("<Q", code, at + 8)
            if info != _RELATIVE[machine]:
                yield "has relocations that name symbols or call functions"
