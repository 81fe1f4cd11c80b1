"""What threads of several warps hold, combined: the CUDA text of every shape that a block may have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tc.codegen import gpu
from tc.codegen.dialect import CUDA
from tc.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT8, INT64, UINT16, DType
from tc.runtime.arrays import numpy_dtype
from tests.codegen.test_gpu import OPS, combination, wanted
from tests.simt.mapped import Call

SHAPES = [
    ((("t0", 64),), "t0"),
    ((("t0", 96),), "t0"),
    ((("t0", 72),), "t0"),  # no whole number of warps: a tree
    ((("t0", 64), ("t1", 2)), "t0"),
    ((("t0", 4), ("t1", 16)), "t1"),
    ((("t0", 2), ("t1", 48), ("t2", 2)), "t1"),
    ((("t0", 32), ("t1", 3)), "t1"),
    ((("t0", 16), ("t1", 4), ("t2", 3)), "t0"),
]


def combined(t: DType, threads: tuple[tuple[str, int], ...], over: str) -> tuple[str, list[str]]:
    """The text, and the operations whose results the shim finds wrong, or what it finds else."""
    n = combination(t, threads, over)
    extents = (2, *(k for _, k in threads))
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2 if t.is_bool else 3, extents).astype(numpy_dtype(t))
    if t.is_float:
        x.reshape(-1)[[5, 40]] = math.nan, -math.inf
    shapes = {a.name: extents for a in n.arrays if a.role in ("input", "output")}
    made = gpu.emit(n, CUDA)
    result = Call(n, made, {}, shapes, {"A": x}, {}).run()
    axis = 1 + int(over[1])
    problems = [str(f) for f in result.found]
    work = x.astype(object) if t.is_int else x
    for k, op in enumerate(OPS):
        want = wanted(work, t, axis)[op]
        if t.is_int:
            want = np.vectorize(lambda z: t.wrap(int(z)), otypes=[object])(want).astype(x.dtype)
        found = np.take(result.values[f"O{k}"], 0, axis)
        same = np.array_equal(*(a.astype(np.float64) for a in (found, want)), equal_nan=t.is_float)
        problems += [] if same else [op]
    return made.text, problems


@pytest.mark.parametrize(("threads", "over"), SHAPES)
def test_shapes_of_blocks(threads: tuple[tuple[str, int], ...], over: str) -> None:
    text, problems = combined(FLOAT64, threads, over)
    assert not problems
    count = dict(threads)[over]
    stride = math.prod(n for v, n in threads if v < over)
    lanes = 32 // stride if 32 % stride == 0 else 1
    shuffled = lanes > 1 and count % min(lanes, count) == 0 and (count % lanes == 0 or count in (2, 4, 8, 16))
    assert ("__shfl_xor_sync" in text) == shuffled
    assert text.count("__syncthreads") == (0 if shuffled and count <= lanes else 2) * len(OPS)


@pytest.mark.parametrize("t", [BOOL, INT8, UINT16, INT64, FLOAT16, BFLOAT16, FLOAT32], ids=str)
def test_types(t: DType) -> None:
    for threads, over in ((SHAPES[1]), (SHAPES[5])):
        assert not combined(t, threads, over)[1]
