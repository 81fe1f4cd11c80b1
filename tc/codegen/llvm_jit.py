# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
"""LLVM IR text to machine code in this process, through llvmlite's MCJIT."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import llvmlite.binding as llvm

from tc.errors import InternalError

_LOCK = threading.RLock()
_ready = False

_LIBM = {"linux": "libm.so.6", "darwin": "libSystem.dylib", "win32": "msvcrt.dll"}


def _initialize() -> None:
    """Once per process: the native target, libm's symbols and our own."""
    global _ready
    if _ready:
        return
    import tc._native as native

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.load_library_permanently(_LIBM.get(sys.platform, "libm.so.6"))
    for name, address in native.symbols().items():
        llvm.add_symbol(name, address)
    _ready = True


def host_cpu() -> tuple[str, str]:
    """LLVM's name and feature string of this machine's processor."""
    with _LOCK:
        _initialize()
        return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def target_machine(level: int = 1) -> Any:
    """A new target machine for this processor: an engine owns the one it is made with, so none is shared."""
    with _LOCK:
        _initialize()
        cpu, features = host_cpu()
        target = llvm.Target.from_default_triple()
        return target.create_target_machine(
            cpu=cpu, features=features, opt=level, jit=True, codemodel="jitdefault"
        )


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Compiled functions.  The addresses are valid as long as this object lives."""

    text: str
    addresses: dict[str, int]
    level: int
    _engine: Any = field(repr=False)

    @property
    def address(self) -> int:
        """The address of the only function."""
        (address,) = self.addresses.values()
        return address

    def assembly(self) -> str:
        """The code as assembly text (compiled once more)."""
        with _LOCK:
            machine = target_machine(self.level)
            return machine.emit_assembly(_module(self.text, machine))


def engine_of(module: Any, machine: Any) -> Any:
    """An engine that owns `module` and `machine`.

    Its memory manager reserves one block for all sections of an object.  LLVM's own maps each section
    wherever there is room, and ends the process when two that refer to each other lie more than 2 GiB apart,
    which a fragmented address space brings about now and then.
    """
    import llvmlite.binding as llvm

    return llvm.create_mcjit_compiler(module, machine, use_lmm=True)


def _module(text: str, machine: Any, *, verify: bool = False) -> Any:
    try:
        module = llvm.parse_assembly(text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        if verify:
            module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM refuses the text: {error}", code="TC0903") from error
    options = llvm.create_pipeline_tuning_options()
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    manager = llvm.create_new_function_pass_manager()
    manager.add_sroa_pass()
    for function in module.functions:
        if not function.is_declaration:
            manager.run(function, builder)
    return module


def compile_text(text: str, *names: str, level: int = 1, verify: bool = False) -> MachineCode:
    """Machine code of a module; `names` are the functions whose addresses are wanted.

    `level` is the code generator's effort (0 to 3: 1 is as good as 3 here and cheaper).  Of the optimiser
    only scalar replacement runs.  `verify` checks the text, about a millisecond.  Raises InternalError
    (TC0903) for text that LLVM refuses or a symbol that nothing defines.
    """
    with _LOCK:
        machine = target_machine(level)
        module = _module(text, machine, verify=verify)
        _resolve(module)
        engine = engine_of(module, machine)
        engine.finalize_object()
        addresses = {n: int(engine.get_function_address(n)) for n in names}
        if not all(addresses.values()):
            raise InternalError(f"the module does not define {', '.join(names)}", code="TC0903")
        return MachineCode(text, addresses, level, engine)


def _resolve(module: Any) -> None:
    """MCJIT ends the process when a symbol is missing; better to say which."""
    missing = [
        f.name
        for f in module.functions
        if f.is_declaration and not f.name.startswith("llvm.") and not llvm.address_of_symbol(f.name)
    ]
    if missing:
        raise InternalError(f"no definition of {', '.join(missing)}", code="TC0903")
