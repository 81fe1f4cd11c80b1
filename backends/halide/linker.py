# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
"""Object code of Halide and the glue around it, linked in this process."""

from __future__ import annotations

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
    missing = [s for s in llvm_jit.undefined_symbols(code) if not llvm.address_of_symbol(s)]
    if missing:
        raise InternalError(f"Halide's code calls what nothing defines: {', '.join(missing)}", code="TC0903")
    module = llvm_jit.parsed(glue)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    engine = llvm_jit.engine_of(module, machine)
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return Linked(int(engine.get_function_address(name)), engine)
