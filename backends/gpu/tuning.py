"""The tuner's interface to the GPU backends: loops, predictions and limits."""

from __future__ import annotations

from typing import Any

from tc.ir.evaluate import evaluate
from tc.ir.program import Program
from tc.options import Options
from tc.pipeline.pass_manager import PassList
from tc.pipeline.program import program_passes

from .passes import GpuState, mapping, start
from .target import Target

_MAPPED = PassList[GpuState]("gpu", (*program_passes(GpuState), *mapping(GpuState)[:1]))


def loops(program: Program) -> tuple[int, ...]:
    """The extents of the loops of the statement with most of them that are no reductions."""
    best: tuple[int, ...] = ()
    for s in program.stages:
        found = tuple(max(1, evaluate(v.range.extent, {})) for v in s.domain.vars)
        best = found if len(found) > len(best) else best
    return best


def predict(program: Program, options: Options, target: Target) -> float | None:
    """Predicted seconds of all kernels; None for a program with sequential loops."""
    if program.composite or options.mapping == "identity":
        return None
    return _MAPPED.run(GpuState(**start(program, options, {}, target))).kernels.seconds


def limits(target: Target, device: str) -> dict[str, Any]:
    """The facts that a choice of options depends on."""
    return {
        "device": device or target.name,
        "arch": target.arch,
        "units": target.units,
        "shared": target.shared,
        "max_threads": target.block,
        "registers": target.registers,
    }
