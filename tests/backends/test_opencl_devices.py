"""OpenCL devices other than PoCL: their limits decide about mappings, and options beyond these are
refused."""

from __future__ import annotations

import math
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import tc
from tc import registry
from tests.poly import fused


def backend(name: str) -> Any:
    registry.load("opencl")
    return sys.modules[f"tc_backends.{name}"]


def device(platform: str = "Somebody's OpenCL", **has: int) -> Any:
    facts = {"local_mem_size": 64 << 10, "max_work_group_size": 512, "max_compute_units": 40, **has}
    one = SimpleNamespace(name="stand-in", platform=SimpleNamespace(name=platform), **facts)
    return backend("opencl.device").Device(None, one, None, threading.local())


def test_a_target_has_the_limits_that_a_device_reports() -> None:
    target = device(local_mem_size=48 << 10, max_work_group_size=192, max_compute_units=7).target
    assert (target.shared, target.block, target.units) == (48 << 10, 192, 7)
    assert target.name == "stand-in (Somebody's OpenCL)"
    assert device(max_work_group_size=4096).target.block == 1024  # what the option `threads` may say


def test_kernels_for_pocl_are_the_same_everywhere() -> None:
    generic = backend("gpu.target").GENERIC
    assert device("Portable Computing Language", max_compute_units=96).target == generic


@pytest.mark.slow
@pytest.mark.share(24)
@pytest.mark.parametrize("block", [1, 33, 64, 128])
@pytest.mark.parametrize(
    "source",
    [fused.GEMM, fused.SOFTMAX, fused.MLP3, fused.STENCIL],
    ids=["gemm", "softmax", "mlp3", "stencil"],
)
def test_blocks_have_no_more_threads_than_a_device_allows(source: str, block: int) -> None:
    sizes = dict.fromkeys(fused.SIZES[source], 100)
    program = tc.compile(source, "reference").specialize(**sizes).program
    target = device(max_work_group_size=block).target
    lowered = backend("gpu.passes").lower(program, tc.Options(), {}, target)
    module = backend("opencl.backend").gpu_source.emit(lowered.nest, backend("opencl.backend").OPENCL, False)
    assert module.kernels and all(1 <= k.threads <= block for k in module.kernels)


def test_more_threads_than_a_device_allows_are_refused() -> None:
    program = tc.compile(fused.GEMM, "reference").specialize(**fused.SIZES[fused.GEMM]).program
    lower, target = backend("gpu.passes").lower, device(max_work_group_size=64).target
    lower(program, tc.Options(threads=(32, 2)), {}, target)
    with pytest.raises(tc.ArgumentError) as caught:
        lower(program, tc.Options(threads=(32, 3)), {}, target)
    assert caught.value.code == "TC0511" and caught.value.message == "option threads=(32, 3) is not valid"
    assert caught.value.help == "a block has at most 64 threads on stand-in (Somebody's OpenCL)"


def test_a_tile_fits_the_local_memory_of_a_device() -> None:
    program = (
        tc.compile(fused.GEMM, "reference").specialize(**dict.fromkeys(fused.SIZES[fused.GEMM], 256)).program
    )
    for size in (4 << 10, 64 << 10):
        target = device(local_mem_size=size).target
        nest = backend("gpu.passes").lower(program, tc.Options(), {}, target).nest
        shared = [a for a in nest.arrays if a.role == "shared"]
        assert shared
        assert sum(math.prod(e.value for e in a.shape) * a.dtype.itemsize for a in shared) <= size


def test_names_of_older_processors() -> None:
    named = backend("opencl.pocl").known_processor
    avx2 = {"avx", "avx2", "fma", "bmi2"}
    assert named({*avx2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}) == b"skylake-avx512"
    assert named({*avx2, "avx512f"}) == b"haswell"
    assert named({"avx"}) == b"sandybridge"
    assert named(()) == b"x86-64"
