"""Runs loop nests: as C through the system's compiler, and as LLVM IR in process."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tc.codegen import c_family, llvm_ir, llvm_jit
from tc.dtypes import DType
from tc.ir.expr import IntImm
from tc.ir.loops import LoopNest
from tc.ir.program import Program
from tc.ir.specialize import specialize
from tc.poly import ast, loop_nest, schedule, scop, trace
from tc.poly.context import isl_context

# Constants wrap around like everything else, of which -fwrapv does not tell the warnings.
FLAGS = ["-O1", "-fwrapv", "-Wall", "-Wextra", "-Werror", "-Wno-overflow", "-std=c99", "-fPIC", "-shared"]


def numpy_dtype(t: DType) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16) if t.kind == "bfloat" else np.dtype(t.name)


def lowered(
    program: Program,
    sizes: Mapping[str, int],
    scalars: Mapping[str, int | float] | None = None,
    traced: bool = True,
) -> LoopNest:
    """The identity loop nest of a program at given sizes, checked by the trace oracle where that is small."""
    p = specialize(program, sizes, scalars or {})
    with isl_context():
        s = scop.build(p)
        body = ast.loops(s, schedule.identity(s))
    out = loop_nest.assemble(p, body)
    if traced:
        trace.verify(p, out, {})
    return out


def in_c(n: LoopNest, name: str = "kernel_under_test", flags: Sequence[str] = ()) -> Any:
    """The kernel compiled from its C text, as a ctypes function."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "k.c"), Path(folder, "k.so")
        source.write_text(c_family.emit(n, name=name), encoding="utf-8")
        done = subprocess.run(
            ["cc", *FLAGS, *flags, str(source), "-o", str(library), "-lm"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr + "\n" + source.read_text(encoding="utf-8")
        function = ctypes.CDLL(str(library))[name]
    function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_int32
    return function


def in_llvm(n: LoopNest) -> Any:
    """The kernel compiled from its LLVM IR, as a ctypes function."""
    code = llvm_jit.compile_text(llvm_ir.emit(n), llvm_ir.KERNEL, verify=True)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(code.address)
    function.owner = code  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True)
class Result:
    code: int
    error: np.ndarray[Any, Any]
    outputs: dict[str, np.ndarray[Any, Any]]


def call(
    function: Any,
    n: LoopNest,
    values: Mapping[str, Any],
    sizes: Sequence[int] = (),
    workspace: int | None = None,
) -> Result:
    """Run a kernel; `values` has inputs and scalars, and in/out arrays.  Arrays lie between guard bytes."""
    scalars = {s.name: s.dtype for s in n.scalars}
    held: list[np.ndarray[Any, Any]] = []
    guarded: list[np.ndarray[Any, Any]] = []
    addresses: list[int | None] = []
    outputs: dict[str, np.ndarray[Any, Any]] = {}
    for name in n.params:
        if name in scalars:
            a = np.array([values.get(name, 0)], numpy_dtype(scalars[name]))
        else:
            array = n.array(name)
            shape = tuple(
                e.value if isinstance(e, IntImm) else values[name].shape[d] for d, e in enumerate(array.shape)
            )
            raw = np.full(int(np.prod(shape)) * array.dtype.itemsize + 128, 0xA5, np.uint8)
            guarded.append(raw)
            a = raw[64:-64].view(numpy_dtype(array.dtype)).reshape(shape)
            if name in values:
                a[...] = values[name]
            if array.role == "output":
                outputs[name] = a
        held.append(a)
        addresses.append(a.ctypes.data)
    error = np.zeros(32, np.int64)
    bytes_needed = workspace if workspace is not None else n.workspace.value  # type: ignore[union-attr]
    scratch = np.full(bytes_needed + 64, 0xCD, np.uint8)
    start = -scratch.ctypes.data % 64
    addresses += [error.ctypes.data, scratch.ctypes.data + start if bytes_needed else None]
    if n.sizes:
        size_values = np.array(sizes, np.int64)
        addresses.append(size_values.ctypes.data)
    code = function((ctypes.c_void_p * len(addresses))(*addresses))
    for raw in guarded:
        assert (raw[:64] == 0xA5).all() and (raw[-64:] == 0xA5).all(), "the kernel wrote outside an array"
    return Result(code, error, {k: v.copy() for k, v in outputs.items()})


def both(n: LoopNest, values: Mapping[str, Any]) -> tuple[Result, Result]:
    """The results of the C text and of the LLVM IR."""
    return call(in_c(n), n, values), call(in_llvm(n), n, values)
