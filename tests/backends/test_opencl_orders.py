"""OpenCL kernels with threads in both orders and with loops around barriers written out.

PoCL runs the threads of a block one after the other between two barriers, the first one first, and adds
barriers to loops that hold some.  So a race shows in some of these modes only, if at all: the shim of
tests/simt is the better judge, but knows CUDA only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tc
from tc.ir.evaluate import evaluate
from tc.ir.loops import Block, LoopNest, Sync
from tests.codegen.launches import on_device, unrolled
from tests.conformance.test_programs import CASES, RUNS, SAMPLE, arguments, compare, results
from tests.poly import fused
from tests.poly.test_mapping import changed
from tests.simt.mapped import Array, Call, prepared

# One block runs all tiles, one after the other.
OPTIONS: dict[str, Any] = {"tile": (2, 2, 2), "threads": (2, 2), "blocks": (1, 1, 1)}


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
    [pytest.param(*r, id="-".join(r), marks=() if r in SAMPLE else pytest.mark.slow) for r in RUNS],
)
def test_programs(name: str, dtype: str) -> None:
    case = CASES[name]
    _, given, buffers = arguments(case, dtype, exact=True)
    source = case.source.replace("{T}", dtype)
    call = prepared(tc.compile(source, "opencl", case.entry, options=OPTIONS), given, buffers)
    out = {k: v.copy() for k, v in buffers.items()} or None
    wanted = results(tc.interpret(source, **given, entry=case.entry, out=out, exact=True))
    nest = replace(call.nest, body=unrolled(call.nest.body)[0])
    for backwards in (False, True):
        outputs = run(call, nest, backwards)
        for want, got in zip(wanted, outputs.values(), strict=True):
            compare(case, want, got, got.dtype, got.dtype, True, f"backwards: {backwards}")


RACES: dict[str, tuple[str, dict[str, int], dict[str, Any]]] = {
    # Barriers behind the copies and behind their use; that the latter is missing shows only written out.
    "gemm": (fused.GEMM, {"M": 9, "N": 7, "K": 40}, {"tile": (8, 8), "threads": (4, 4)}),
    # Each barrier between two units shows in one order only.
    "softmax": (fused.SOFTMAX, {"N": 3, "D": 20}, {"threads": (8, 2)}),
}


@pytest.mark.parametrize("name", RACES)
def test_a_barrier_less_shows(name: str) -> None:
    source, sizes, options = RACES[name]
    kernel = tc.compile(source, "opencl", options=options)
    rng = np.random.default_rng(0)
    dims = {"A": "MK", "B": "KN", "I": "ND"}
    given: dict[str, Any] = {
        p.name: rng.integers(1, 5, [sizes[n] for n in dims[p.name]]).astype(np.float32)
        for p in kernel.front.checked.params
    }
    call = prepared(kernel, given)
    wanted = results(tc.interpret(source, entry=None, **given))

    def wrong(nest: LoopNest) -> bool:
        """Whether results are wrong in some mode."""
        whole, loops = unrolled(nest.body)
        return not all(
            np.allclose(got, want, rtol=1e-5)
            for body in ((nest.body, whole) if loops else (nest.body,))
            for backwards in (False, True)
            for got, want in zip(run(call, replace(nest, body=body), backwards).values(), wanted, strict=True)
        )

    assert not wrong(call.nest)
    less = list(changed(call.nest.body, lambda s: Block(()) if isinstance(s, Sync) else None))
    assert less
    for body in less:
        assert wrong(replace(call.nest, body=body))
