"""The launches of a call, from sizes: which kernel, how many blocks, with which arguments."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tc.codegen.gpu_module import Argument, Kernel
from tc.errors import BackendError
from tc.ir.evaluate import evaluate
from tc.ir.loops import MOST_BLOCKS

from .interface import Interface

Sizes = dict[str, int]


def sizes_of(interface: Interface, shapes: Mapping[str, tuple[int, ...]]) -> Sizes:
    """The values of the symbolic sizes."""
    return {n: shapes[array][d] for n, (array, d) in interface.sizes.items()}


def launches(
    interface: Interface, kernels: Sequence[Kernel], sizes: Sizes
) -> Iterator[tuple[int, int, Sizes]]:
    """The number of the kernel, its blocks, and the sizes with the counters of the host's loops, which are
    valid until the next one.  Raises BackendError, code TC0810, if a launch has too many blocks."""

    def all_of(numbers: Sequence[int], depth: int) -> Iterator[tuple[int, int, Sizes]]:
        """Kernels that are inside the same host loops down to a depth."""
        for loop, group in itertools.groupby(numbers, lambda k: kernels[k].loops[depth : depth + 1]):
            inner = list(group)
            if not loop:
                for k in inner:
                    blocks = _blocks(interface, kernels[k], sizes)
                    if blocks > 0:
                        yield k, blocks, sizes
                continue
            for n in range(evaluate(loop[0].trips, sizes)):
                sizes[loop[0].counter] = n
                yield from all_of(inner, depth + 1)

    return all_of(range(len(kernels)), 0)


def _blocks(interface: Interface, kernel: Kernel, sizes: Sizes) -> int:
    blocks = evaluate(kernel.blocks, sizes)
    if blocks > MOST_BLOCKS:
        raise BackendError(
            f"{interface.name}: a launch has {blocks} blocks, and {MOST_BLOCKS} are the most",
            code="TC0810",
            help="ask for larger tiles by the option tile, or for fewer blocks by the option blocks",
        )
    return blocks


# Of a launch: an array or scalar by its position in the signature, or the value of a size.
Place = int | np.int64


@dataclass(frozen=True, slots=True)
class Step:
    """A launch; `places` are those of its arguments, -1 of the error record, -2 of the workspace."""

    kernel: int
    blocks: int
    places: tuple[Place, ...]


ERROR, WORKSPACE = -1, -2


@dataclass(frozen=True, slots=True)
class Plan:
    """The launches at given sizes; `workspace` is in bytes, `checked`: a kernel has an error record."""

    steps: tuple[Step, ...]
    workspace: int
    checked: bool


def plan(interface: Interface, kernels: Sequence[Kernel], sizes: Mapping[str, int]) -> Plan:
    """The launches of a call at these sizes."""
    position = {name: k for k, name in enumerate(interface.params)}

    def place(a: Argument, now: Sizes) -> Place:
        match a.kind:
            case "array" | "scalar":
                return position[a.name]
            case "size":
                return np.int64(now[a.name])
            case "error":
                return ERROR
            case "workspace":
                return WORKSPACE

    steps = tuple(
        Step(k, blocks, tuple(place(a, now) for a in kernels[k].arguments))
        for k, blocks, now in launches(interface, kernels, dict(sizes))
    )
    used: set[Any] = {p for s in steps for p in s.places if isinstance(p, int)}
    workspace = evaluate(interface.workspace, dict(sizes)) if WORKSPACE in used else 0
    return Plan(steps, max(1, workspace) if WORKSPACE in used else 0, ERROR in used)
