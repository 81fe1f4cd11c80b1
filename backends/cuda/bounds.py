"""What a text promises the assembler of its launches (`__launch_bounds__`), and so which registers it takes.

Left alone it looks at no more than the threads of a block: it may take so many registers that fewer blocks
run together than the map was chosen for, or rather spill a few than have fewer blocks run together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tc.codegen import gpu_source
from tc.ir.loops import LoopNest

from ..gpu.cost.model import estimated_registers, occupancy, predicted
from ..gpu.cost.requests import thread_count
from ..gpu.target import Target
from .nvrtc import Resources

_LATER = 1.15  # what a kernel may take of the time that was predicted before there was code


def with_all_registers(text: str) -> str:
    """The text of kernels whose threads may have all registers."""
    return re.sub(r"__launch_bounds__\((\d+)\)", r"__launch_bounds__(\1, 1)", text)


def with_blocks(text: str, blocks: Mapping[str, int]) -> str:
    """The text of kernels of which so many blocks must fit into a multiprocessor, by their names."""
    for name, count in blocks.items():
        text = re.sub(
            rf"__launch_bounds__\((\d+)\)(\s+void {name}\()", rf"__launch_bounds__(\1, {count})\2", text
        )
    return text


def limited_by_registers(
    nest: LoopNest,
    module: gpu_source.Module,
    resources: Mapping[str, Resources],
    target: Target,
    sizes: Mapping[str, int],
) -> dict[str, int]:
    """How many blocks should run together, for kernels whose registers leave room for fewer, if that makes
    them slow."""
    out: dict[str, int] = {}
    for kernel, launch in zip(module.kernels, gpu_source.launches_of(nest.body), strict=True):
        r, count = resources[kernel.name], thread_count(launch)
        wanted = occupancy(target, count, estimated_registers(nest, launch), r.shared).blocks
        if occupancy(target, count, r.registers, r.shared).blocks >= wanted:
            continue
        # A model takes time, and for most kernels there is nothing to ask.
        first = predicted(nest, launch, target, sizes).seconds
        if predicted(nest, launch, target, sizes, r.registers).seconds > _LATER * first:
            out[kernel.name] = wanted
    return out


def seconds(
    nest: LoopNest,
    module: gpu_source.Module,
    resources: Mapping[str, Resources],
    target: Target,
    sizes: Mapping[str, int],
) -> float:
    """Of all launches, with the registers that they take."""
    pairs = zip(module.kernels, gpu_source.launches_of(nest.body), strict=True)
    return sum(predicted(nest, x, target, sizes, resources[k.name].registers).seconds for k, x in pairs)
