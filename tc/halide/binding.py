"""The halide module itself, its types, and literals; loads Halide when imported.

Every other module of tc that builds Halide expressions takes `hl` from here, so that the installed
version is checked (`load_library`) before anything of it runs.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import math
import os
import struct
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from tc.dtypes import DType
from tc.errors import unreachable
from tc.halide import load_library
from tc.support import locks

load_library()


def _without_unswitching(arguments: str) -> str:
    """Options for Halide's LLVM: no copies of a loop for what a condition may be that does not change in it.

    A check on one of 64 lanes is such a condition.  LLVM looks at all that would follow from each, and again
    in each copy, for minutes (`A(X(i), k)` in Adams2019's vectors: tests/halide/test_unswitching.py).
    """
    return arguments if "-unswitch-threshold" in arguments else f"{arguments} -unswitch-threshold=1".strip()


# Halide reads it once, before it first generates code.
os.environ["HL_LLVM_ARGS"] = _without_unswitching(os.environ.get("HL_LLVM_ARGS", ""))

import halide as _halide  # noqa: E402

# The package has no types: whatever is taken from it is Any.
hl: Any = _halide

__all__ = ["LOCK", "HlExpr", "element", "hl", "listen", "literal", "storage"]

# What is meant by an Any that is an hl.Expr (or converts to one: hl.Var, hl.RVar, hl.Param).
HlExpr = Any


def _abandoned() -> None:
    """In the child of a fork: whoever listened is not there."""
    while isinstance(sys.stdout, _Listener):
        sys.stdout = sys.stdout.out


# Halide's unique names and its autoschedulers are process-wide: one pipeline is built at a time.
LOCK = locks.lock(_abandoned)


def element(dtype: DType) -> Any:
    """The Halide type in which a value of `dtype` is computed; a half is its 16 bits (see `halves`)."""
    match dtype.kind:
        case "bool":
            return hl.UInt(1)
        case "int":
            return hl.Int(dtype.bits)
        case "uint":
            return hl.UInt(dtype.bits)
        case "float" | "bfloat":
            return hl.UInt(16) if dtype.is_half else hl.Float(dtype.bits)
        case _:
            unreachable(dtype.kind)


def storage(dtype: DType) -> Any:
    """The Halide type of `dtype` in memory: a bool is a byte, whatever its value."""
    return hl.UInt(8) if dtype.is_bool else element(dtype)


def literal(value: int | float, dtype: DType) -> HlExpr:
    """A constant of `dtype`, bit for bit.

    Halide reads a Python float as float32 and prints a warning when that rounds, hence the typed makers.
    """
    if dtype.is_float and not dtype.is_half:
        # A float32 literal must be rounded here: the maker refuses what overflows.
        value = float(value)
        if dtype.bits == 32:
            value = _round32(value)
        return hl.f32(value) if dtype.bits == 32 else hl.f64(value)
    if dtype.is_bool:
        return hl.cast(hl.UInt(1), hl.i32(int(bool(value))))
    wrapped = int(value) & ((1 << 64) - 1)
    signed = hl.i64(wrapped - (1 << 64) if wrapped >> 63 else wrapped)
    return signed if dtype.is_signed and dtype.bits == 64 else hl.cast(element(dtype), signed)


def _round32(value: float) -> float:
    if math.isnan(value) or math.isinf(value):
        return value
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


@contextmanager
def listen() -> Generator[list[str]]:
    """Halide prints its warnings to Python's stdout: here they are collected instead.

    Only one thread at a time may listen (hold `LOCK`); what other threads print meanwhile gets through.
    """
    said: list[str] = []
    with redirect_stdout(_Listener(sys.stdout, said)):  # type: ignore[type-var]
        yield said


class _Listener:
    """A stdout that keeps what its maker's thread writes."""

    def __init__(self, out: Any, said: list[str]) -> None:
        self.out, self._said = out, said
        self._thread = threading.get_ident()

    def write(self, text: str) -> int:
        if threading.get_ident() != self._thread:
            return self.out.write(text)
        self._said.append(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.out, name)
