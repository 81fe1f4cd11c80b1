"""Launches to kernels in OpenCL C and CUDA C++.

A text has a function for each `Launch`.  Its parameters are what the launch uses: arrays as pointers, scalars
and sizes as values, `error`, `workspace`.  Grids and blocks are one-dimensional, whatever the number of
mapped dimensions, so that limits on the number and on the extents of dimensions do not matter.

`error` is `int64_t[32]`, zeroed: the first thread that finds a subscript out of range fills it as in C (see
`tc.codegen.c_family`).  No thread returns early, because others may wait at a barrier; such a read gives 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial, reduce

from tc.codegen.c_helpers import Helpers
from tc.codegen.check_points import source_points
from tc.codegen.dialect import OPENCL, Dialect
from tc.codegen.gpu_kernel import KernelPrinter
from tc.codegen.gpu_module import HostLoop, Kernel, Module
from tc.codegen.names import identifier
from tc.codegen.uniform import check_uniform
from tc.errors import InternalError
from tc.ir.expr import IntImm, Mul, Sub
from tc.ir.loops import Block, For, Launch, LoopKind, LoopNest, Stmt
from tc.ir.simplify import simplify
from tc.transforms.loops.narrow import narrow


def emit(nest: LoopNest, dialect: Dialect, contract: bool = False, *, traces: bool = False) -> Module:
    """The kernels of a nest whose body is a launch, or launches in blocks and serial loops of the host.

    `contract`: whether a product and a sum may be rounded once (in CUDA this is an option of the compiler).
    """
    with_traces = partial(emit, nest, dialect, contract, traces=True)
    nest = source_points(nest)
    counters = tuple(s.var for s in _host_loops(nest.body))
    nest = replace(nest, sizes=(*nest.sizes, *counters))
    launches = tuple(launches_of(nest.body))
    around = tuple(_around(nest.body, ()))
    helpers = Helpers(dialect)
    texts: list[str] = []
    kernels: list[Kernel] = []
    names: set[str] = set()
    for launch, small, loops in zip(launches, launches_of(narrow(nest).body), around, strict=True):
        check_uniform(nest, launch)
        printer = KernelPrinter(nest, helpers, _name(launch.name, names), traces)
        texts.append(printer.function(small))
        blocks = reduce(Mul, (n for _, n in launch.blocks), IntImm(1))
        threads = reduce(int.__mul__, (n for _, n in launch.threads), 1)
        kernels.append(
            Kernel(
                printer.name,
                tuple(printer.arguments),
                simplify(blocks, exact=True),
                threads,
                printer.shared_bytes,
                printer.dynamic_shared_bytes,
                printer.expr.frame,
                loops,
            )
        )
    code = "\n\n".join([t for t in (helpers.text(), *texts) if t]) + "\n"
    double = re.search(r"\bdouble\b", re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)) is not None
    head = [f"/* {nest.name}: made by tc. */"]
    if dialect is OPENCL:
        head += ["#pragma OPENCL EXTENSION cl_khr_fp64 : enable"] if double else []
        head += [f"#pragma OPENCL FP_CONTRACT {'ON' if contract else 'OFF'}"]
    return Module("\n".join([*head, "", code]), tuple(kernels), double, with_traces)


def launches_of(s: Stmt) -> Iterator[Launch]:
    """The launches of a body, in the order of a module's kernels."""
    match s:
        case Launch():
            yield s
        case Block():
            for c in s.body:
                yield from launches_of(c)
        case For() if s.kind is LoopKind.SERIAL:
            yield from launches_of(s.body)
        case _:
            raise InternalError(f"a GPU runs launches, and this is a {type(s).__name__}")


def _around(s: Stmt, loops: tuple[HostLoop, ...]) -> Iterator[tuple[HostLoop, ...]]:
    """The loops of the host around each launch."""
    match s:
        case Block():
            for c in s.body:
                yield from _around(c, loops)
        case For():
            trips = simplify(Sub(s.upper, s.lower), exact=True)
            yield from _around(s.body, (*loops, HostLoop(s.var, trips)))
        case _:
            yield loops


def _host_loops(s: Stmt) -> Iterator[For]:
    match s:
        case Block():
            for c in s.body:
                yield from _host_loops(c)
        case For():
            yield s
            yield from _host_loops(s.body)
        case _:
            pass


def _name(launch: str, taken: set[str]) -> str:
    """A function's name: that of the launch, with a suffix that avoids names of library functions."""
    stem = f"{identifier(launch)}_kernel"
    name, count = stem, 0
    while name in taken:
        count += 1
        name = f"{stem}{count}"
    taken.add(name)
    return name
