# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The autoschedulers of the halide package, applied to a specialised program.

Mullapudi et al., Automatically scheduling Halide image processing pipelines, 2016 ("Mullapudi2016");
Adams et al., Learning to optimize Halide with tree search and random programs, 2019 ("Adams2019");
Li et al., Differentiable programming for image processing and deep learning in Halide, 2018 ("Li2018").
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

from tc.errors import BackendError
from tc.halide.binding import hl
from tc.halide.funcs import Lowered
from tc.ir import expr as x
from tc.ir.program import Box


def _library(name: str) -> str:
    path = os.path.join(hl.install_dir(), "lib64", f"libautoschedule_{name.lower()}.so")
    if not os.path.exists(path):
        raise BackendError(
            f"the halide package has no autoscheduler {name}: {path} is missing",
            code="TC0806",
            help="install halide again, or leave out autoschedule",
        )
    return path


@cache
def _load(library: str) -> None:
    hl.load_plugin(library)


def schedule(lowered: Lowered, name: str, threads: int, target: Any) -> str:
    """Schedule a pipeline; returns the schedule as the C++ text that would make it.

    Raises BackendError (TC0806) where the autoscheduler refuses the program.
    """
    _load(_library(name))
    program = lowered.program
    for b in program.buffers:
        if b.name in lowered.images:
            for d, (lo, extent) in enumerate(reversed(_ranges(b.box))):
                lowered.images[b.name].dim(d).set_estimate(lo, max(extent, 1))
    for f, n in zip(lowered.outputs, program.outputs, strict=True):
        ranges = [hl.Range(lo, max(extent, 1)) for lo, extent in reversed(_ranges(program.buffer(n).box))]
        if ranges:
            f.set_estimates(ranges)
    for s in program.scalars:
        if s.name in lowered.params:
            # What a scalar will be is unknown; no schedule depends on it.
            lowered.params[s.name].set_estimate(1)
    try:
        parameters = hl.AutoschedulerParams(name, {"parallelism": str(threads)})
        return lowered.pipeline.apply_autoscheduler(target, parameters).schedule_source
    except hl.HalideError as error:
        raise failed(name, f"refuses the program: {str(error).strip()}") from error


def failed(name: str, what: str) -> BackendError:
    """The error for an autoscheduler that is no help."""
    return BackendError(
        f"the autoscheduler {name} {what}",
        code="TC0806",
        help="choose another autoscheduler, or leave out autoschedule",
    )


def checked(name: str, compiled: Callable[[], bytes]) -> bytes:
    """The result of `compiled` for a schedule; BackendError (TC0806) where Halide refuses the schedule."""
    with held_stderr() as take:
        try:
            return compiled()
        except hl.HalideError as error:
            # LLVM shows the whole function after the line that says what is wrong.
            said = " ".join([*str(error).split(), *take().splitlines()[:1]])
            raise failed(name, f"made a schedule that Halide cannot compile: {said}") from error


@contextmanager
def held_stderr() -> Generator[Callable[[], str], None, None]:
    """Hold back what reaches the process's stderr, and give it on at the end: `()` returns it instead.

    For Halide's compiler on schedules it may not like: LLVM's verifier, inside it, writes there.
    """
    with tempfile.TemporaryFile() as kept:

        def take() -> str:
            kept.seek(0)
            text = kept.read().decode(errors="replace")
            kept.seek(0)
            kept.truncate()
            return text

        sys.stderr.flush()
        real = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield take
        finally:
            os.dup2(real, 2)
            os.close(real)
            kept.seek(0)
            rest = kept.read()
            if rest:
                os.write(2, rest)


def _ranges(box: Box) -> list[tuple[int, int]]:
    return [(int(x.constant(r.min) or 0), int(x.constant(r.extent) or 0)) for r in box]
