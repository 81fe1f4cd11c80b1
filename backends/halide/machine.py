# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
"""Object code of Halide and the glue around it, linked in this process."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import llvmlite.binding as llvm

from tc.codegen import llvm_jit
from tc.errors import InternalError

from . import runtime


@dataclass(frozen=True, slots=True)
class Linked:
    """A function in memory; the address is valid as long as this object lives."""

    address: int
    _engine: Any = field(repr=False)


def link(code: bytes, glue: str, name: str) -> Linked:
    """Load an object file and `glue` (LLVM IR) that calls it; `name` is the glue's function.

    Raises InternalError (TC0903) for a symbol that nothing defines: the linker would end the process.
    """
    runtime.install()
    machine = llvm_jit.target_machine()
    missing = [s for s in _undefined(code) if not llvm.address_of_symbol(s)]
    if missing:
        raise InternalError(f"Halide's code calls what nothing defines: {', '.join(missing)}", code="TC0903")
    module = llvm.parse_assembly(glue)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    engine = llvm_jit.engine_of(module, machine)
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return Linked(int(engine.get_function_address(name)), engine)


def _undefined(code: bytes) -> Iterator[str]:
    """The undefined symbols of a 64-bit little-endian ELF object (System V ABI, chapter 4); none for other
    formats, which are linked unchecked."""
    if code[:6] != b"\x7fELF\x02\x01":
        return
    start, entry, count = struct.unpack_from("<Q10xHH", code, 40)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, start + k * entry) for k in range(count)]
    for _, kind, _, _, offset, length, link, _, _, step in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        strings = sections[link][4]
        for at in range(offset + step, offset + length, step):  # the first symbol is null
            name, _, _, section = struct.unpack_from("<IBBH", code, at)
            if section == 0 and name:
                yield code[strings + name : code.index(b"\0", strings + name)].decode()
