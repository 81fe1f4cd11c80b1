# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
"""LLVM IR text to object code, and object code to machine code in this process, through llvmlite's MCJIT.

`compile_text` is both steps.  Between them lies what can be kept: `object_of` gives the bytes of an object
file, `load_object` links them here, also in another process than the one that made them.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from tc import __version__
from tc.cache import disk
from tc.errors import InternalError
from tc.support import settings
from tc.support.interrupts import deferred

_LOCK = threading.RLock()
_ready = False


def _lock_before_fork() -> None:
    """Before a fork: LLVM releases the interpreter lock, and in a child that is forked while another thread
    is in LLVM, the locks of LLVM and llvmlite would be held forever."""
    with deferred():
        _LOCK.acquire()
        _llvmlite_lock.acquire()


def _unlock_after_fork() -> None:
    _llvmlite_lock.release()
    _LOCK.release()


# The lock that every call of llvmlite holds, as of 0.50.
_llvmlite_lock = getattr(getattr(llvm.ffi.lib, "_lock", None), "_lock", None) or threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock_before_fork, after_in_parent=_unlock_after_fork, after_in_child=_unlock_after_fork
    )

_LIBM = {"linux": "libm.so.6", "darwin": "libSystem.dylib", "win32": "msvcrt.dll"}


def _initialize() -> None:
    """Initialize the native target, libm's symbols and our own, once per process."""
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


@cache
def host_cpu() -> tuple[str, str]:
    """LLVM's name and feature string of this machine's processor."""
    with _LOCK:
        _initialize()
        return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def version() -> str:
    """The versions of the code generator, for keys of stored objects."""
    return f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}"


def target_machine(
    level: int = 1, cpu: str | None = None, features: str | None = None, *, shared: bool = False
) -> Any:
    """A new target machine: an engine owns the one it is made with, so none is shared.

    `cpu` is LLVM's name of a processor, such as "x86-64-v3", by default the one of this machine.  `features`
    ("+avx2,-fma") are added to those of `cpu`; by default none, or what this machine has if `cpu` is None.
    `shared`: the code is independent of its position, as that of shared libraries is.
    """
    with _LOCK:
        _initialize()
        if cpu is None:
            cpu, host = host_cpu()
            features = host if features is None else features
        target = llvm.Target.from_default_triple()
        how: Any = (
            {"reloc": "pic", "codemodel": "small"} if shared else {"jit": True, "codemodel": "jitdefault"}
        )
        return target.create_target_machine(cpu=cpu, features=features or "", opt=level, **how)


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Compiled functions.  The addresses are valid as long as this object lives.

    `object` is what `load_object` makes the same code of.  `text` is empty where it came from there.
    """

    text: str
    addresses: dict[str, int]
    level: int
    object: bytes = field(repr=False)
    cpu: str | None
    features: str | None
    _engine: Any = field(repr=False)

    @property
    def address(self) -> int:
        """The address of the only function."""
        (address,) = self.addresses.values()
        return address

    def assembly(self) -> str:
        """The code as assembly text (compiled once more); InternalError where there is no text."""
        if not self.text:
            raise InternalError("code that was loaded as an object has no text to show")
        return assembly_of(self.text, level=self.level, cpu=self.cpu, features=self.features)


def parsed(text: str) -> Any:
    """A module in its own context.  Types and constants live as long as their context, and the global one
    lives forever."""
    return llvm.parse_assembly(text, llvm.create_context())


def engine_of(module: Any, machine: Any) -> Any:
    """An engine that owns `module` and `machine`.

    Its memory manager reserves one block for all sections of an object.  LLVM's own manager maps each section
    separately, and ends the process when sections that refer to each other are more than 2 GiB apart, which
    occasionally happens in a fragmented address space.
    """
    engine: Any = llvm.create_mcjit_compiler(module, machine, use_lmm=True)
    engine.context = module._context  # keeps the context alive until the engine has deleted its modules
    return engine


@cache
def _generator(
    level: int, cpu: str | None, features: str | None, shared: bool = False
) -> tuple[Any, Any, Any]:
    """A target machine, and the passes before it with their builder: made once, since llvmlite leaks memory
    of a builder.  Use them with the lock held."""
    machine = target_machine(level, cpu, features, shared=shared)
    options = llvm.create_pipeline_tuning_options()
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()  # the code generator alone leaves `alwaysinline` functions as calls
    manager.add_sroa_pass()
    return machine, manager, llvm.create_pass_builder(machine, options)


def _generate(
    text: str,
    level: int,
    cpu: str | None,
    features: str | None,
    *,
    verify: bool = False,
    shared: bool = False,
) -> tuple[Any, Any]:
    """A module that is ready for code generation, and the target machine for it."""
    machine, manager, builder = _generator(level, cpu, features, shared)
    try:
        module = parsed(text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        if verify:
            module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM refuses the text: {error}", code="TC0903") from error
    manager.run(module, builder)
    return module, machine


def object_of(
    text: str,
    *,
    level: int = 1,
    cpu: str | None = None,
    features: str | None = None,
    verify: bool = False,
    shared: bool = False,
) -> bytes:
    """The object file of a module.  Functions that it declares are resolved only by `load_object`.

    `level` is the code generator's effort (0 to 3: 1 is as good as 3 here and cheaper).  Of the optimiser
    only the inlining of `alwaysinline` functions and scalar replacement run.  `cpu` and `features` are as in
    `target_machine`.  `verify` checks the text, about a millisecond.  With `shared` the object is for a
    linker that makes shared libraries.  Raises InternalError (TC0903) for text that LLVM refuses.
    """
    with _LOCK, deferred():
        module, machine = _generate(text, level, cpu, features, verify=verify, shared=shared)
        with closing(module):  # a finalizer would run without the lock, and swallow an interrupt
            return machine.emit_object(module)


def assembled(text: str) -> bytes:
    """The object file of assembly text for this machine, by LLVM's assembler.  Raises InternalError (TC0903)
    for text that it refuses."""
    with _LOCK:
        _initialize()
        llvm.initialize_native_asmparser()
    quoted = (line.replace("\\", "\\5C").replace('"', "\\22") for line in text.splitlines())
    return object_of("".join(f'module asm "{line}"\n' for line in quoted), shared=True)


def assembly_of(
    text: str,
    *,
    level: int = 1,
    cpu: str | None = None,
    features: str | None = None,
    verbose: bool = False,
) -> str:
    """The result of `object_of` as assembly text, for which code is generated once more; `verbose`: with
    comments, which have the labels of the text."""
    with _LOCK, deferred():
        module, machine = _generate(text, level, cpu, features)
        with closing(module):
            machine.set_asm_verbosity(verbose)
            return machine.emit_assembly(module)


def load_object(
    code: bytes,
    *names: str,
    text: str = "",
    level: int = 1,
    cpu: str | None = None,
    features: str | None = None,
) -> MachineCode:
    """The functions `names` of an object file, linked here: a fraction of a millisecond.

    The other arguments are those of `object_of`, for `MachineCode.assembly`.  Raises InternalError (TC0903)
    for bytes that are no object file, and for an undefined symbol.  The contents are not checked: only
    unchanged bytes of `object_of` may be passed.
    """
    with _LOCK, deferred():
        # No code is generated, so the processor does not matter.
        machine = target_machine(0, "", "")
        try:
            missing = [s for s in undefined_symbols(code) if not llvm.address_of_symbol(s)]
            object_file: Any = llvm.ObjectFileRef.from_data(code)
            if not ctypes.cast(object_file, ctypes.c_void_p):
                raise ValueError("unknown format")
        except (RuntimeError, ValueError, LookupError, OverflowError, struct.error) as error:
            raise InternalError(f"not an object file: {error}", code="TC0903") from error
        if missing:  # MCJIT would end the process
            raise InternalError(f"no definition of {', '.join(missing)}", code="TC0903")
        module = parsed("")
        engine = engine_of(module, machine)
        # An engine starts with a module; compiling an empty one would take longer than everything else.
        engine.remove_module(module)
        module.close()
        engine.add_object_file(object_file)
        object_file.close()
        engine.finalize_object()
        addresses = {n: int(engine.get_function_address(n)) for n in names}
        absent = [n for n, address in addresses.items() if not address]
        if absent:
            raise InternalError(f"the module does not define {', '.join(absent)}", code="TC0903")
        return MachineCode(text, addresses, level, code, cpu, features, engine)


def compile_text(
    text: str,
    *names: str,
    level: int = 1,
    cpu: str | None = None,
    features: str | None = None,
    verify: bool = False,
) -> MachineCode:
    """Machine code of a module; `names` are the functions whose addresses are wanted.

    The other arguments are those of `object_of`.  Raises InternalError (TC0903) for text that LLVM refuses or
    a symbol that nothing defines.
    """
    code = object_of(text, level=level, cpu=cpu, features=features, verify=verify)
    return load_object(code, *names, text=text, level=level, cpu=cpu, features=features)


def cached_code(
    text: str,
    names: Sequence[str],
    *,
    level: int = 1,
    cpu: str | None = None,
    features: str | None = None,
    key_parts: Sequence[object] = (),
) -> MachineCode:
    """`compile_text`, with the object kept on disk.

    The key is the text, so it saves the last step alone; `tc.pipeline.load` keeps whole
    kernels.
    `key_parts`, of what `store.digest` takes, are added to it.  Under `TC_VERIFY=1` the text is checked and
    nothing is read from disk.
    """
    verify = settings.verify()
    kept = None if verify else disk.default()
    if kept is None:
        return compile_text(text, *names, level=level, cpu=cpu, features=features, verify=verify)
    processor = (cpu, features) if cpu is not None else (*host_cpu(), features)
    key = disk.digest("object", __version__, version(), sys.platform, processor, level, text, key_parts)
    code = kept.get(key)
    if code is not None:
        with suppress(InternalError):  # a symbol is undefined: compiling will report it
            return load_object(code, *names, text=text, level=level, cpu=cpu, features=features)
    made = compile_text(text, *names, level=level, cpu=cpu, features=features)
    kept.put(key, made.object)
    return made


def undefined_symbols(code: bytes) -> Iterator[str]:
    """The undefined symbols of a 64-bit little-endian ELF object (System V ABI, chapter 4); none for other
    formats, which are linked unchecked.

    They are read from the object, not from the module's declarations, since the code generator has calls of
    its own (memset, conversions of half precision).
    """
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
