"""Launch bounds (`__launch_bounds__`), by which the text of a kernel limits the registers that ptxas
allocates.

By default ptxas considers only the threads of a block.  It may then allocate so many registers that fewer
blocks are resident than the search assumed, or spill to keep more blocks resident.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tc.codegen import gpu_source
from tc.codegen.gpu_module import Module
from tc.ir.loops import LoopNest

from ..gpu.cost.model import estimated_registers, occupancy, predict
from ..gpu.cost.requests import thread_count
from ..gpu.target import Target
from .nvrtc import Resources

_MAX_SLOWDOWN = 1.15  # times the time that was predicted with estimated registers


def with_all_registers(text: str) -> str:
    """The text with launch bounds of one block, so that its threads may have all registers."""
    return re.sub(r"__launch_bounds__\((\d+)\)", r"__launch_bounds__(\1, 1)", text)


def with_blocks(text: str, blocks: Mapping[str, int]) -> str:
    """The text with launch bounds of so many resident blocks, by names of kernels."""
    for name, count in blocks.items():
        text = re.sub(
            rf"__launch_bounds__\((\d+)\)(\s+void {name}\()", rf"__launch_bounds__(\1, {count})\2", text
        )
    return text


def limited_by_registers(
    nest: LoopNest,
    module: Module,
    resources: Mapping[str, Resources],
    target: Target,
    sizes: Mapping[str, int],
) -> dict[str, int]:
    """The resident blocks that kernels should have, by name, where the registers allow fewer and that makes
    them slow."""
    out: dict[str, int] = {}
    for kernel, launch in zip(module.kernels, gpu_source.launches_of(nest.body), strict=True):
        r, count = resources[kernel.name], thread_count(launch)
        wanted = occupancy(target, count, estimated_registers(nest, launch), r.shared).blocks
        if occupancy(target, count, r.registers, r.shared).blocks >= wanted:
            continue
        # Predictions take compile time, and most kernels do not get here.
        estimated = predict(nest, launch, target, sizes).seconds
        if predict(nest, launch, target, sizes, r.registers).seconds > _MAX_SLOWDOWN * estimated:
            out[kernel.name] = wanted
    return out


def seconds(
    nest: LoopNest,
    module: Module,
    resources: Mapping[str, Resources],
    target: Target,
    sizes: Mapping[str, int],
) -> float:
    """The predicted time of all launches, with the registers that ptxas allocated."""
    pairs = zip(module.kernels, gpu_source.launches_of(nest.body), strict=True)
    return sum(predict(nest, x, target, sizes, resources[k.name].registers).seconds for k, x in pairs)
