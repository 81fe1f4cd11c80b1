"""OpenCL kernels with threads in both orders and with loops around barriers written out.

PoCL runs the threads of a block one after the other between two barriers, the first one first, and adds
barriers to loops that hold some.  So a race shows in some of these modes only, if at all: the shim of
tests/simt is the better judge, but knows CUDA only.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tc
from fuzz.strategies import fitting
from tc.ir.evaluate import evaluate
from tc.ir.loops import Block, LoopNest, Sync
from tests.codegen.launches import on_device, unrolled
from tests.conformance.test_programs import CASES, RUNS, SAMPLE, arguments, compare, results
from tests.poly.test_mapping import changed
from tests.simt.fixed import right, same
from tests.simt.mapped import Array, Call, prepared

# One block runs all tiles, one after the other.
OPTIONS: dict[str, Any] = {"tile": (2, 2, 2), "threads": (2, 2), "blocks": (1, 1, 1)}

TRIED = frozenset(sorted(SAMPLE)[::2])


def run(call: Call, nest: LoopNest, backwards: bool) -> dict[str, Array]:
    """The results of a nest for the arguments of a call."""
    shapes = {a.name: tuple(evaluate(n, call.sizes) for n in a.shape) for a in nest.arrays}
    values: dict[str, Any] = {}
    for n, v in {**call.given, **call.buffers}.items():
        values[n] = np.reshape(v, shapes[n]) if n in shapes else v  # loops may have been merged
    found = on_device(nest, values, call.sizes, backwards)
    assert found.code == 0
    return {k: v.reshape(call.shapes[k]) for k, v in found.outputs.items()}


@pytest.mark.filterwarnings("ignore::tc.Warning")
@pytest.mark.parametrize(
    ("name", "dtype"),
    [pytest.param(*r, id="-".join(r), marks=() if r in TRIED else pytest.mark.slow) for r in RUNS],
)
def test_programs(name: str, dtype: str) -> None:
    case = CASES[name]
    _, given, buffers = arguments(case, dtype, exact=True)
    source = case.source.replace("{T}", dtype)
    options = fitting(OPTIONS, tc.compile(source, "reference", case.entry).front)
    call = prepared(tc.compile(source, "opencl", case.entry, options=options), given, buffers)
    out = {k: v.copy() for k, v in buffers.items()} or None
    wanted = results(tc.interpret(source, **given, entry=case.entry, out=out, exact=True))
    nest = replace(call.nest, body=unrolled(call.nest.body)[0])
    for backwards in (False, True):
        outputs = run(call, nest, backwards)
        for want, got in zip(wanted, outputs.values(), strict=True):
            compare(case, want, got, got.dtype, got.dtype, True, f"backwards: {backwards}")


@pytest.mark.parametrize("name", ["gemm", "softmax"])
def test_a_barrier_less_shows(name: str) -> None:
    """Of `softmax`, each in one order only; of `gemm`, that behind the use of a copy only written out."""
    call, wanted = right(name)
    assert wanted is not None

    def wrong(nest: LoopNest) -> bool:
        """Whether results are wrong in some mode."""
        whole, loops = unrolled(nest.body)
        bodies = (nest.body, whole) if loops else (nest.body,)
        modes = itertools.product(bodies, (False, True))
        return not all(same(run(call, replace(nest, body=b), backwards), wanted) for b, backwards in modes)

    assert not wrong(call.nest)
    less = list(changed(call.nest.body, lambda s: Block(()) if isinstance(s, Sync) else None))
    assert less
    for body in less:
        assert wrong(replace(call.nest, body=body))
