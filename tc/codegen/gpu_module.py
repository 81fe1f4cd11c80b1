"""Modules for GPUs: kernels with their arguments, and the loops of the host around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tc.ir.expr import Expr


@dataclass(frozen=True, slots=True)
class Argument:
    """`name` is an array, a scalar or a size of the nest; empty for the other kinds."""

    kind: Literal["array", "scalar", "size", "error", "workspace"]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel and how it is launched.

    `blocks` is an expression over the sizes; `threads` are those of a block; `shared` is in bytes a block, of
    which the launch requests `dynamic_shared`; `frame` are bytes of a thread's stack for library functions.
    `loops` are those of the host around it, outermost first, whose counters are sizes of the launch.
    """

    name: str
    arguments: tuple[Argument, ...]
    blocks: Expr
    threads: int
    shared: int
    dynamic_shared: int = 0
    frame: int = 0
    loops: tuple[HostLoop, ...] = ()


@dataclass(frozen=True, slots=True)
class HostLoop:
    """`counter` from 0 to `trips`, an expression over sizes and outer counters."""

    counter: str
    trips: Expr


@dataclass(frozen=True, slots=True)
class Module:
    """Kernels that run one after the other, in the loops around them; `double`: whether the text computes in
    float64."""

    text: str
    kernels: tuple[Kernel, ...]
    double: bool
    with_traces: Callable[[], Module] = field(compare=False, repr=False)  # the same, with traces
