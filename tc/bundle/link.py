"""Object files of kernels to a shared library of the form that `tc.bundle.library` loads, by the system's
linker.

Functions that kernels call are defined in the library itself: each jumps to an address in the table
`tc_imports`.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tc.bundle import library
from tc.codegen import llvm_jit
from tc.errors import BackendError, InternalError
from tc.runtime.symbols import importable

# A jump to the address in a slot of the table.
_JUMPS = {
    "x86_64": "jmpq *tc_imports+{offset}(%rip)",
    "aarch64": "adrp x16, tc_imports+{offset}\nldr x16, [x16, :lo12:tc_imports+{offset}]\nbr x16",
}


def linked(objects: Sequence[bytes], symbols: Sequence[str]) -> tuple[bytes, tuple[str, ...]]:
    """A shared library of object files, of which only the functions `symbols` are seen, and what it imports.

    Raises BackendError, code TC0831, where there is no linker or it fails.
    """
    imports = tuple(sorted({s for code in objects for s in llvm_jit.undefined_symbols(code)}))
    imports = tuple(s for s in imports if s != "_GLOBAL_OFFSET_TABLE_")
    unknown = [s for s in imports if not importable(s)]
    if unknown:
        raise InternalError(f"kernels of bundles cannot call {', '.join(unknown)}", code="TC0903")
    every = [*objects, llvm_jit.assembled(_table(imports))]
    shown = "".join(f"{s};\n" for s in (*symbols, library.TABLE))
    with tempfile.TemporaryDirectory(prefix="tc-link-") as folder:
        files: list[str] = []
        for k, code in enumerate(every):
            Path(folder, f"{k}.o").write_bytes(code)
            files.append(f"{k}.o")
        Path(folder, "symbols").write_text(f"{{ global: {shown} local: *; }};\n", encoding="utf-8")
        run_tool([*_linker(), "-o", "kernels.so", *files], folder)
        code = Path(folder, "kernels.so").read_bytes()
    problem = library.unexpected(code)
    if problem:
        raise InternalError(f"the library that was linked {problem}", code="TC0903")
    return code, imports


def _linker() -> list[str]:
    """The command that links, without what it is given: the linker itself, else by a C compiler."""
    options = [
        *("-shared", "--version-script=symbols", "-z", "noexecstack", "-z", "now", "-z", "text"),
        *("--no-undefined", "--hash-style=sysv", "--build-id=none", "-Bsymbolic"),
    ]
    for name in ("ld", "ld.lld", "ld.gold"):
        found = shutil.which(name)
        if found:
            return [found, *options]
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found:
            return [found, "-nostdlib", *(o if o == "-shared" else f"-Wl,{o}" for o in _joined(options))]
    raise BackendError(
        "there is no linker, which makes the shared libraries of a bundle",
        code="TC0831",
        help="install one: apt-get install binutils, dnf install binutils, or a C compiler",
    )


def _joined(options: Sequence[str]) -> list[str]:
    """The options with `-z` and its keyword as one."""
    text = "\n".join(options).replace("-z\n", "-z,")
    return text.split("\n")


def _table(imports: Sequence[str]) -> str:
    machine = platform.machine()
    if machine not in _JUMPS:
        raise BackendError(
            f"bundles are for Linux on {' and '.join(_JUMPS)}, and this is {machine}",
            code="TC0831",
            help="export on another machine",
        )
    lines = [".text"]
    for k, name in enumerate(imports):
        jump = _JUMPS[machine].format(offset=8 * k)
        lines += [f".globl {name}", f".hidden {name}", f".type {name}, %function", ".p2align 4", f"{name}:"]
        lines += jump.split("\n")
    table = library.TABLE
    size = 8 * max(1, len(imports))
    lines += [".bss", f".globl {table}", f".type {table}, %object", ".p2align 6", f"{table}:"]
    lines += [f".zero {size}", f".size {table}, {size}", '.section .note.GNU-stack,"",%progbits']
    return "\n".join(lines)


def run_tool(command: Sequence[str], folder: str) -> None:
    """Run a linker or a compiler in a folder; BackendError, code TC0831, with what it says if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise BackendError(
            f"{Path(command[0]).name} fails: {said[0]}",
            code="TC0831",
            help="this is what was run: " + " ".join(command),
        )
